/*
 * Requests to list recordings: a worker reads one directory at a time, and a limited number of
 * requests wait. So the work thread, which also opens recordings to be played, has at most one list
 * in its queue, and requests of clients hold bounded memory. The worker's thread only.
 */
#ifndef SLUICED_RECORD_QUEUE_H
#define SLUICED_RECORD_QUEUE_H

#include <stdbool.h>
#include <sys/queue.h>

enum { RECORD_QUEUE_MOST = 16 };

/* A place in the queue; a member of the waiting object. All zero: in none. */
struct record_queue_slot {
    TAILQ_ENTRY(record_queue_slot) link;
    bool waits;
};

/* All zero: no list is being made. */
struct record_queue {
    TAILQ_HEAD(, record_queue_slot) slots; /* waiting; unused while no list is being made */
    unsigned waiting;
    bool taken;
};

/* 1: it is the caller's turn, which ends with record_queue_next(); 0: it waits; -EBUSY: as many
 * wait as may. */
int record_queue_enter(struct record_queue *turns, struct record_queue_slot *turn);

/* Does not wait any more. False: it does not wait, and nothing has changed. */
bool record_queue_leave(struct record_queue *turns, struct record_queue_slot *turn);

/* A list is finished. Returns the next slot, which no longer waits; NULL: none. */
struct record_queue_slot *record_queue_next(struct record_queue *turns);

#endif
