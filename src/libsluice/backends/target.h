/*
 * Receiving into the user's memory, past the chain: bytes already received into blocks are copied,
 * the kernel writes the rest in place. The memory is the io's target. A backend arms receives for
 * it as for the free end of a block, also when the pool has no blocks.
 */
#ifndef SLUICE_BACKENDS_TARGET_H
#define SLUICE_BACKENDS_TARGET_H

#include "backends/backend.h"

static inline bool target_pending(const sluice_io *io) {
    return io->target.memory != NULL;
}

/* Sets the target, and copies what the chain has. True when that was all: there is no target
 * then. */
bool target_set(sluice_io *io, void *memory, size_t n);

/* There is a target no more; what has been received into it stays known. */
void target_drop(sluice_io *io);

/* Bytes that one receive into the target may ask for. */
uint32_t target_room(const sluice_io *io);

/* The kernel has written @n bytes to the target. */
void target_written(sluice_io *io, size_t n);

/* Either has grown. Tells whom it concerns. */
void target_tell_grown(sluice_io *io);

/* The chain has grown: the target takes from it first. Tells whom it concerns. */
void target_tell_received(sluice_io *io);

/* Nothing more comes, into the target or into blocks: 0, or why. Tells it. */
void target_tell_ended(sluice_io *io, int error);

#endif
