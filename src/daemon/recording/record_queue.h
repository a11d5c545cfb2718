/*
 * Lists of recordings take turns: a worker looks into one folder at a time, and some who ask wait.
 * So the thread for work, which opens recordings to be played as well, has one list before it at
 * most, and what strangers may ask for holds a bounded memory. The worker's thread only.
 */
#ifndef SLUICED_RECORD_QUEUE_H
#define SLUICED_RECORD_QUEUE_H

#include <stdbool.h>
#include <sys/queue.h>

enum { RECORD_QUEUE_MOST = 16 };

/* A place in the queue; a part of who waits. All zero: in none. */
struct record_queue_slot {
    TAILQ_ENTRY(record_queue_slot) link;
    bool waits;
};

/* All zero: nobody's turn. */
struct record_queue {
    TAILQ_HEAD(, record_queue_slot) slots; /* that wait; nobody's turn: of no meaning */
    unsigned waiting;
    bool taken;
};

/* 1: it is the caller's turn, which ends with record_queue_next(); 0: it waits; -EBUSY: as many
 * wait as may. */
int record_queue_enter(struct record_queue *turns, struct record_queue_slot *turn);

/* Does not wait any more. False: it does not wait, and nothing has changed. */
bool record_queue_leave(struct record_queue *turns, struct record_queue_slot *turn);

/* A turn is over. Whose it is now, who does not wait any more; NULL: nobody's. */
struct record_queue_slot *record_queue_next(struct record_queue *turns);

#endif
