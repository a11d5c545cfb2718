/*
 * Descriptors that are read at intervals rather than when something comes: nothing of them is
 * armed, so an arrival costs no wake-up and no event. Time is divided into slots, in each of which
 * a part of the descriptors is read: one wake-up for all of them, and not all in one turn.
 */
#ifndef SLUICE_BACKENDS_INTERVAL_H
#define SLUICE_BACKENDS_INTERVAL_H

#include "backends/io_queue.h"

enum {
    INTERVAL_SLOT_US = 10000,
    INTERVAL_SLOTS = 16,           /* in which one may be due; more than INTERVAL_MOST */
    INTERVAL_MOST = 10,            /* slots, of one interval */
    INTERVAL_TURN = 32,            /* reads of one turn, at most */
    INTERVAL_MUCH = 32 << 10,      /* bytes of one read: the socket's buffer may be little more */
    INTERVAL_DUE = INTERVAL_SLOTS, /* sluice_io.slot: among those that are due */
};

typedef struct interval_wheel {
    io_queue slots[INTERVAL_SLOTS]; /* by the number of the slot, modulo INTERVAL_SLOTS */
    io_queue due;                   /* to be read in the next turn */
    uint32_t count;                 /* in all of them */
    uint32_t begun;                 /* intervals, counted: spreads them over the slots */
    uint64_t passed;                /* the number of the last slot that has begun */
} interval_wheel;

/*
 * Becomes due again behind a read of @n bytes: in the next turn if it took all that it had room for
 * (@full), in the next slot if that was much, else in its interval. Behind the first read the
 * descriptors are spread over the slots of their interval. It is in no queue.
 */
void interval_add_behind(interval_wheel *wheel, sluice_io *io, size_t n, bool full);

void interval_remove(interval_wheel *wheel, sluice_io *io);

/*
 * Those of the slots that have begun become due. How many of them to read in this turn: what comes
 * to others is not to wait for all of a thousand. On a core that is full each waits for its turn
 * longer than its interval, and then one read takes more.
 */
uint32_t interval_look(interval_wheel *wheel);

/* Takes the next one that is due; NULL: none is. */
sluice_io *interval_take(interval_wheel *wheel);

/* Microseconds until one is due; negative: there is none. */
int64_t interval_left(const interval_wheel *wheel);

#endif
