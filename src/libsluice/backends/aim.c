#include "backends/aim.h"

#include "memory/pool.h"

enum {
    FEW_BLOCKS = 3, /* of a chain: fewer are not worth a look */
    /* a piece of less than one part in so many of a block may leave it nearly empty */
    SMALL_SHARE = 4,
    /* a chain is fragmented with less than one part in so many of its blocks in use */
    EMPTY_SHARE = 4,
    FULL_SHARE = 2,      /* and no longer with so much */
    COMPACT_BLOCKS = 16, /* so many blocks */
    COMPACT_SHARE = 8,   /* with less than one part in so many in use are copied together */
    COMPACT_GROWTH = 2,  /* and again when there are so many times as many */
};

void aim_take(sluice_io *io) {
    sluice_block *last = io->chain.last;
    if (io->aim || !last || last->kind != BLOCK_POOLED || !block_tail_is_worthwhile(last))
        return;
    block_ref(last);
    io->aim = last;
}

void aim_drop(sluice_io *io) {
    sluice_block_release(io->aim);
    io->aim = NULL;
}

bool aim_is_spare(const sluice_io *io) {
    return io->aim && atomic_load_explicit(&io->aim->refs, memory_order_acquire) == 1;
}

int aim_filled(sluice_io *io, uint32_t n) {
    int error = chain_extend(&io->chain, io->aim, n);
    if (!block_tail_is_worthwhile(io->aim))
        aim_drop(io);
    return error;
}

/* Each look at a chain that is copied together is paid for by as many blocks as it has that came
 * since the last one. */
void aim_compact_fragmented(sluice_io *io) {
    sluice_chain *chain = &io->chain;
    size_t footprint = chain->footprint;
    if (footprint < (size_t)COMPACT_BLOCKS * pool_block_size(chain->pool) ||
        chain_length(chain) >= footprint / COMPACT_SHARE || footprint / COMPACT_GROWTH < io->compacted)
        return;
    chain_compact(chain);
    io->compacted = chain->footprint;
}

void aim_judge(sluice_io *io, uint32_t n) {
    const sluice_chain *chain = &io->chain;
    size_t block_size = pool_block_size(chain->pool), footprint = chain->footprint, length = chain_length(chain);
    if (io->fragmented && (footprint <= block_size || length >= footprint / FULL_SHARE)) {
        io->fragmented = false;
        io->compacted = 0;
    } else if (n < block_size / SMALL_SHARE && footprint >= FEW_BLOCKS * block_size &&
               length < footprint / EMPTY_SHARE) {
        io->fragmented = true;
    }
}
