#include "backends/io_queue.h"

#include <errno.h>

#include "backends/target.h"
#include "memory/clock.h"

enum {
    STARVED_MS = 5000,
    /* that a turn adds: they are no further apart, but where the process was stopped */
    MOST_STARVED_MS = 1000,
};

void io_queue_insert(io_queue *queue, sluice_io *before, sluice_io *io) {
    sluice_io *next = before ? before->queue_next : queue->first;
    io->queue_prev = before;
    io->queue_next = next;
    if (before)
        before->queue_next = io;
    else
        queue->first = io;
    if (next)
        next->queue_prev = io;
    else
        queue->last = io;
    queue->count++;
}

void io_queue_push(io_queue *queue, sluice_io *io) {
    io_queue_insert(queue, queue->last, io);
}

void io_queue_remove(io_queue *queue, sluice_io *io) {
    if (io->queue_prev)
        io->queue_prev->queue_next = io->queue_next;
    else
        queue->first = io->queue_next;
    if (io->queue_next)
        io->queue_next->queue_prev = io->queue_prev;
    else
        queue->last = io->queue_prev;
    io->queue_next = io->queue_prev = NULL;
    queue->count--;
}

bool io_queue_break_deadlock(const sluice_backend *backend, const sluice_pool *class, io_queue *waiting,
                             uint64_t *since) {
    uint64_t now = clock_ns() / 1000000;
    if (*since == 0)
        *since = waiting->looked_at = now;
    if (now - waiting->looked_at > MOST_STARVED_MS)
        *since += now - waiting->looked_at - MOST_STARVED_MS;
    waiting->looked_at = now;
    if (now - *since < STARVED_MS)
        return false;
    *since = 0;
    sluice_io *largest = backend->largest(backend->user, class);
    if (!largest)
        return false;
    /* Who is told pauses it, which takes it out of whatever queue it is in. */
    target_tell_ended(largest, -ENOBUFS);
    return true;
}
