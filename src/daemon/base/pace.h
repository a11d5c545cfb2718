/*
 * The time that a peer has for a message or a frame that it has begun. Silence has separate
 * deadlines: a peer that sends a byte now and then is not silent, and holds all bytes received
 * before.
 */
#ifndef SLUICED_PACE_H
#define SLUICED_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { PACE_MESSAGE_MS = 10000 }; /* for a request or a WebSocket message to be whole */

/* All zero at the beginning. */
struct pace {
    uint64_t mark, received;
    uint64_t deadline; /* loop time; 0: there was no look yet */
};

/* What a tick finds. */
struct pace_look {
    /* another number when a message has ended: those that have, or bytes consumed */
    uint64_t mark;
    uint64_t received; /* bytes in all */
    bool is_open;      /* one has begun, and waits for the peer */
    uint64_t most_ms;  /* until it is whole; or, with @earns, until more of it comes */
    bool earns;        /* received bytes earn time, at MIN_RATE */
};

/* Whether the one that is under way has come too slowly. @now: loop time */
bool pace_is_late(struct pace *pace, const struct pace_look *look, uint64_t now);

#endif
