/*
 * Lists of recordings take turns: a worker looks into one folder at a time, and some who ask wait. So the thread for
 * work, which opens recordings to be played as well, has one list before it at most, and what strangers may ask for
 * holds a bounded memory. The worker's thread only.
 */
#ifndef SLUICED_RECORD_TURN_H
#define SLUICED_RECORD_TURN_H

#include <stdbool.h>

enum { RECORD_TURNS_WAITING = 16 };

/* A place in the queue; a part of who waits. All zero: in none. */
struct record_turn {
    struct record_turn *next, *prev;
    bool waits;
};

/* All zero: nobody's turn. */
struct record_turns {
    struct record_turn *first, *last;
    unsigned waiting;
    bool taken;
};

/* 1: it is the caller's turn, which ends with record_turns_next(); 0: it waits; -EBUSY: as many wait as may. */
int record_turns_ask(struct record_turns *turns, struct record_turn *turn);

/* Does not wait any more. False: it does not wait, and nothing has changed. */
bool record_turns_leave(struct record_turns *turns, struct record_turn *turn);

/* A turn is over. Whose it is now, who does not wait any more; NULL: nobody's. */
struct record_turn *record_turns_next(struct record_turns *turns);

#endif
