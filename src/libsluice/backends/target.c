#include "backends/target.h"

#include <sluice/slice.h>

enum { MOST_ROOM = 1 << 30 }; /* the kernel's lengths are of 31 bits */

static void grow(struct io_target *target, size_t n) {
    target->memory += n;
    target->left -= n;
    target->done += n;
}

/* Copies what the chain has, as far as it is asked for. */
static void take_from_chain(sluice_io *io) {
    struct io_target *target = &io->target;
    size_t n = chain_length(&io->chain) < target->left ? chain_length(&io->chain) : target->left;
    sluice_slice slice;
    if (sluice_chain_take(&io->chain, n, &slice) < 0)
        return;
    sluice_slice_copy(&slice, 0, target->memory, n);
    sluice_slice_release(&slice);
    grow(target, n);
}

bool target_set(sluice_io *io, void *memory, size_t n) {
    io->target = (struct io_target){.memory = memory, .left = n};
    take_from_chain(io);
    if (io->target.left > 0)
        return false;
    target_drop(io);
    return true;
}

void target_drop(sluice_io *io) {
    io->target.memory = NULL;
}

uint32_t target_room(const sluice_io *io) {
    return io->target.left < MOST_ROOM ? (uint32_t)io->target.left : MOST_ROOM;
}

void target_written(sluice_io *io, size_t n) {
    grow(&io->target, n);
    /* Consumed as it came: it counts in the stream's places. */
    io->chain.passed += n;
}

void target_tell_grown(sluice_io *io) {
    if (!target_pending(io) || io->target.left > 0) {
        io->events->received(io);
        return;
    }
    target_drop(io);
    io->events->placed(io);
}

void target_tell_received(sluice_io *io) {
    if (target_pending(io))
        take_from_chain(io);
    target_tell_grown(io);
}

void target_tell_ended(sluice_io *io, int error) {
    io->wants_receive = false;
    target_drop(io);
    io->events->ended(io, error);
}
