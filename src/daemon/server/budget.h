/*
 * A session's budget: how much received data it processes in one turn, limited in units of work and
 * in time. When it is used up, the session continues in a later turn, after the others. All
 * sessions of a worker share a slice of each turn; after that is used up, each session gets a few
 * units. While others have work left, a session that has used much lately is not served before
 * them. Its worker's thread only.
 */
#ifndef SLUICED_BUDGET_H
#define SLUICED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/chain.h>

struct session;
struct worker;

enum {
    BUDGET_PIECES = 1024, /* messages and frames that a session handles in one turn */
    BUDGET_US = 2000,     /* and for how long, microseconds */
    BUDGET_LOOKS = 16,    /* pieces for each look at the clock; a request counts as so many */
    /* of a turn, for all sessions that have no work left from an earlier one */
    BUDGET_SLICE_US = 5000,
    BUDGET_LEAST = 16, /* pieces of such a session when the slice is used up */
    /* pieces that a session may have had lately to go ahead of those that have work left */
    BUDGET_AHEAD = 256,
    BUDGET_PER_MS = 4,      /* of them are forgotten in each millisecond */
    BUDGET_LATELY = 2048,   /* pieces that are remembered, at most */
    BUDGET_BACKLOG = 65536, /* bytes beyond which a session that has work left receives no more */
};

/* All zero at the beginning: no work is left. Left alone by all others. */
struct budget {
    uint64_t until; /* CLOCK_MONOTONIC, nanoseconds; 0: no limit */
    uint64_t since; /* loop time up to which pieces are forgotten */
    uint32_t lately;
    /* used, at the beginning: more than 0 where less than all of a budget is left */
    uint32_t began;
    uint32_t used;
    bool spent;
    bool has_more;  /* on_data will be called for what is left */
    bool is_paused; /* receiving is */
};

/* What the sessions of a worker have together. All zero at the beginning. */
struct budget_turn {
    uint64_t at;      /* loop time of the turn */
    uint64_t until;   /* the end of its slice, as above */
    uint32_t waiting; /* sessions that have work left */
};

/* A new share: wherever a session begins to handle what it has received. It may be spent
 * already. */
void budget_begin(struct session *session);

/*
 * The same where one request is handled and no more: whether it may be in this turn. Else on_data
 * is called for it in a later one.
 */
bool budget_admits_request(struct session *session);

/* The time, which is looked at now and then: true where there is none left. */
bool budget_is_over(const struct budget *budget);

/* A message, or a frame, has been handled. */
static inline void budget_charge(struct budget *budget) {
    budget->used++;
    if (budget->used >= BUDGET_PIECES || (budget->used % BUDGET_LOOKS == 0 && budget_is_over(budget)))
        budget->spent = true;
}

/* Work that costs as much as so many of them. */
static inline void budget_charge_many(struct budget *budget, uint32_t pieces) {
    uint32_t looks = budget->used / BUDGET_LOOKS;
    budget->used += pieces;
    if (budget->used >= BUDGET_PIECES || (budget->used / BUDGET_LOOKS > looks && budget_is_over(budget)))
        budget->spent = true;
}

/* A request has been handled, which costs as much as many frames. */
static inline void budget_charge_request(struct budget *budget) {
    budget->used += BUDGET_LOOKS;
    if (budget->used >= BUDGET_PIECES || budget_is_over(budget))
        budget->spent = true;
}

/* Whether no further one may be in this turn. */
static inline bool budget_is_spent(const struct budget *budget) {
    return budget->spent;
}

/*
 * Behind the last one. Where the budget is spent, there may be more: true, and on_data is called
 * for it in a later turn; else receiving goes on where a backlog had paused it. @backlog: where
 * what is received waits: the connection's chain, or the one that it is moved to
 */
bool budget_end(struct session *session, const sluice_chain *backlog);

/*
 * In place of budget_end() where the session waits for something else, and handles nothing before
 * that has come: no work is left, spent or not, and receiving goes on, so that the end of the
 * connection is noticed. Also to be called where a session begins to end and drops what it
 * receives: as long as it had work left, other sessions would be put behind it.
 */
void budget_rest(struct session *session);

/* Whether received bytes wait for a later turn, by no fault of the peer. */
bool budget_has_more(const struct session *session);

/* The session leaves the worker. Its next connection receives, and has nothing left. */
void budget_leave(struct session *session, struct worker *worker);

#endif
