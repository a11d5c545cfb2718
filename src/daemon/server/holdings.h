/*
 * How many of a worker's blocks each session holds with bytes that are not frames of a stream:
 * heads, bodies, incomplete messages and frames. Each byte is charged to the session that received
 * it, by the blocks that it keeps in use.
 *
 * Answers that a peer does not read are charged in the same way until it is authorized.
 *
 * Sessions that do not publish (not yet authorized, players, pulls before they play) share one
 * quota, an eighth of the blocks. Beyond it, the largest session of the address that holds most is
 * closed: many small sessions of one address do not lock out other addresses. An IPv6 /64 network
 * is one address (cidr_host()). Publishers hold what their frames need; when blocks run short and
 * incomplete messages hold more than half of them, the largest holder of all is closed.
 */
#ifndef SLUICED_HOLDINGS_H
#define SLUICED_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/cidr.h"
#include "daemon/base/heap.h"

struct session;
struct worker;

/* Of a session. All zero at the beginning. */
struct holding {
    size_t charged; /* bytes, to the quota */
    size_t extra;   /* bytes besides the connection's chain */
    size_t reads;   /* bytes that were read from a file for it */

    /* Where something is charged: */
    struct host_holding *host;
    struct heap_node node; /* in its host's heap */
    uint64_t since;        /* the change that gave it its size */
};

/* An address, and what its sessions are charged with. */
struct host_holding {
    struct cidr_address address; /* first: the tree compares it */
    size_t charged;              /* bytes, of all its sessions */
    uint64_t since;              /* the change that gave it its size */
    /* the largest first; of several that are equal the one that has been so for longest */
    struct heap sessions;
    struct heap_node node;
};

/* Whether sessions may be evicted now: one that is being called, and goes on behind the eviction,
 * may not. See holdings_enter(). */
struct holdings_call {
    const struct session *session; /* it publishes, or is evicted; compared only. NULL: none does */
    bool may_evict;                /* all but that one: no other is being called */
};

/* Of a worker. */
struct holdings {
    uint64_t bytes;              /* of the worker's blocks */
    uint64_t quota;              /* of those charged to it */
    uint64_t charged;            /* to the quota, of all sessions */
    uint64_t extra;              /* of all sessions */
    uint64_t reads;              /* of all sessions */
    void *tree;                  /* tsearch(3): the hosts that are charged, by address */
    struct heap hosts;           /* the same, the largest first, as sessions are */
    struct host_holding unknown; /* for the addresses that there was no memory for */
    uint64_t changes;            /* of sizes, ever */
    uint64_t looked_at;          /* loop time at which reclaiming found nothing to take */
    struct holdings_call call;
};

/* @bytes: of the worker's blocks */
void holdings_init(struct holdings *holdings, uint64_t bytes);

/* Reclaims whenever the worker's loop, or one of its streams, runs short of blocks. */
void holdings_watch(struct worker *worker);

/*
 * Charges the session with what it holds now. To be called when it has handled what came, as the
 * last thing: where the quota is exceeded, the largest session of the address that holds the most
 * is evicted, which may be this one.
 */
void session_account(struct session *session);

/*
 * The session begins to publish a frame, or is evicted. Until holdings_leave(), which gets the
 * result, the largest of the others is evicted where blocks run short, if @may_evict is set and
 * this is inside no other such call: then the loop has called this session, and no other one is on
 * the stack. @session: NULL: none is
 */
static inline struct holdings_call holdings_enter(struct holdings *holdings, const struct session *session,
                                                  bool may_evict) {
    struct holdings_call outer = holdings->call;
    holdings->call = (struct holdings_call){.session = session, .may_evict = may_evict && !outer.session};
    return outer;
}

static inline void holdings_leave(struct holdings *holdings, struct holdings_call outer) {
    holdings->call = outer;
}

/*
 * It ends, for want of memory, and holds nothing any more. Not while it is being called. Its end
 * evicts no other session.
 */
void session_evict(struct session *session);

/* It leaves its worker's list. */
void session_uncharge(struct session *session);

#endif
