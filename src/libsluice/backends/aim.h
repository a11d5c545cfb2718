/*
 * Receiving into the free end of a block that a stream has already begun: how connections that get
 * little at a time keep little memory. The block is the io's aim; the io holds a reference on it.
 */
#ifndef SLUICE_BACKENDS_AIM_H
#define SLUICE_BACKENDS_AIM_H

#include "backends/backend.h"

/* Remembers the newest block when there is no aim yet, and its free end is worth filling. */
void aim_take(sluice_io *io);

void aim_drop(sluice_io *io);

/*
 * What the connection gets is to go into the free end of its last block, now: blocks are short, or
 * its own are nearly empty, since small pieces would cost a block each.
 */
static inline bool aim_is_wanted(const sluice_io *io, bool pressed) {
    return pressed || io->fragmented;
}

/* A receive has brought @n bytes: how full the chain's blocks are. Before anybody is told of
 * them. */
void aim_judge(sluice_io *io, uint32_t n);

/* aim_compact() of an io that is fragmented, which is rare: the check is made for each arrival. */
void aim_compact_fragmented(sluice_io *io);

/*
 * As a last resort: where a chain keeps many times its bytes in spite of its aim, they are copied
 * together and counted. To be called when the bytes that came have been handled, or wait for more:
 * pieces that are consumed as they come cost no memory, however small and however many come in one
 * turn.
 */
static inline void aim_compact(sluice_io *io) {
    if (io->fragmented)
        aim_compact_fragmented(io);
}

/* Nobody else refers to the aim: to hold it for what may come would keep it from others. */
bool aim_is_spare(const sluice_io *io);

/*
 * The @n bytes that a receive has put behind the aim's data go to the chain; an aim that is filled
 * is dropped. 0, or the error of chain_extend().
 */
int aim_filled(sluice_io *io, uint32_t n);

#endif
