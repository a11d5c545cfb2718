/*
 * Who holds how much of a worker's blocks with bytes that are not a frame of a stream: heads, bodies, unfinished
 * messages and frames. Each byte is charged to the session that sent it, by the blocks that it keeps from others.
 *
 * Sessions that do not publish (not authorized yet, players, pulls before they play) share one quota, an eighth of the
 * blocks. Beyond it the largest of them is evicted. Publishers hold what their frames need; when blocks run short and
 * unfinished messages hold more than half of them, the largest holder of all is evicted.
 */
#ifndef SLUICED_HOLDINGS_H
#define SLUICED_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;
struct worker;

enum { HOLDINGS_SIZES = 64 };

/* Of a session. All zero at the beginning. */
struct holding {
    size_t charged; /* bytes, to the quota */
    size_t extra;   /* bytes besides the connection's chain */
    uint8_t size;   /* the list that it is in, where something is charged */
    struct session *next, *prev;
};

/* Of a worker. */
struct holdings {
    uint64_t bytes;                                               /* of the worker's blocks */
    uint64_t quota;                                               /* of those charged to it */
    uint64_t charged;                                             /* to the quota, of all sessions */
    uint64_t extra;                                               /* of all sessions */
    uint64_t sizes;                                               /* bit n: list n is not empty */
    struct session *first[HOLDINGS_SIZES], *last[HOLDINGS_SIZES]; /* those charged, by the blocks that they hold */
    uint64_t looked_at; /* loop time at which reclaiming found nothing to take */
};

/* @bytes: of the worker's blocks */
void holdings_init(struct holdings *holdings, uint64_t bytes);

/* Reclaims whenever the worker's loop runs short of blocks. */
void holdings_watch(struct worker *worker);

/*
 * Charges the session with what it holds now. To be called when it has handled what came, as the last thing: where the
 * quota is exceeded, the largest holder is evicted, which may be this one.
 */
void session_account(struct session *session);

/* It ends, for want of memory, and holds nothing any more. Not while it handles what came. */
void session_evict(struct session *session);

/* It leaves its worker's list. */
void session_uncharge(struct session *session);

#endif
