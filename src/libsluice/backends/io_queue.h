/* A queue of descriptors, by links inside them: an io is in one queue at a time. */
#ifndef SLUICE_BACKENDS_IO_QUEUE_H
#define SLUICE_BACKENDS_IO_QUEUE_H

#include "backends/backend.h"

typedef struct io_queue {
    sluice_io *first, *last;
    uint32_t count;
    uint64_t looked_at; /* milliseconds, of io_queue_break_deadlock() */
} io_queue;

void io_queue_push(io_queue *queue, sluice_io *io);
/* Behind @before, which is in the queue; NULL: as the first. */
void io_queue_insert(io_queue *queue, sluice_io *before, sluice_io *io);
void io_queue_remove(io_queue *queue, sluice_io *io);

/* Whether it is in this queue, if it is in no other one. */
static inline bool io_queue_has(const io_queue *queue, const sluice_io *io) {
    return io->queue_prev || queue->first == io;
}

/*
 * The last resort when nobody in @waiting gets a block and nobody gives one back: partial frames
 * hold all there are. After some seconds of that the connection that holds most memory ends with
 * -ENOBUFS, which need not be one that waits: one that sends half a frame and then nothing holds
 * its blocks as well. They are seconds in which there were turns: of one in which the process was
 * stopped, nobody could have given a block back. @class: the blocks that are lacking. @since:
 * milliseconds, 0 while blocks come; kept by the caller, which calls once a turn in which none
 * came.
 * True when one was told: do not wait before the loop has passed that on.
 */
bool io_queue_break_deadlock(const sluice_backend *backend, const sluice_pool *class, io_queue *waiting,
                             uint64_t *since);

#endif
