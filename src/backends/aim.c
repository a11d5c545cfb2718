#include "backends/aim.h"

enum { AIM_SHARE = 8 }; /* a free end of at least one part in so many is worth aiming at */

static bool is_worthwhile(const sluice_block *block) {
    return block_tail(block) >= block->capacity / AIM_SHARE;
}

void aim_take(sluice_io *io) {
    sluice_block *last = io->chain.last;
    if (io->aim || !last || last->kind != BLOCK_POOLED || !is_worthwhile(last))
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
    if (!is_worthwhile(io->aim))
        aim_drop(io);
    return error;
}
