#include "backends/aim.h"

enum {
    SMALL_BYTES = 16, /* a receive that brings less is a small piece */
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

/*
 * Pieces that are consumed as they come cost no memory, however small. Of random pieces of up to 128 bytes, one in 600
 * is the third in a row that is small; the next larger one ends it.
 */
void aim_judge(sluice_io *io, uint32_t n) {
    if (n >= SMALL_BYTES || io->chain.blocks < 2)
        io->dribbled = 0;
    else if (io->dribbled < AIM_DRIBBLE)
        io->dribbled++;
}
