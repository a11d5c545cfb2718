/*
 * A session's budget: how much of what it has received it handles in one turn, by pieces of work and by time. When it
 * is used up, the session goes on in a later turn, behind the others. Its worker's thread only.
 */
#ifndef SLUICED_BUDGET_H
#define SLUICED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/chain.h>

struct session;

enum {
    BUDGET_PIECES = 1024,   /* messages and frames that a session handles in one turn */
    BUDGET_US = 2000,       /* and for how long, microseconds */
    BUDGET_LOOKS = 16,      /* pieces for each look at the clock */
    BUDGET_BACKLOG = 65536, /* bytes beyond which a session that has work left receives no more */
};

/* All zero at the beginning: no work is left. Left alone by all others. */
struct budget {
    uint64_t until; /* CLOCK_MONOTONIC, nanoseconds; 0: no limit */
    uint32_t used;
    bool spent;
    bool has_more;  /* on_data will be called for what is left */
    bool is_paused; /* receiving is */
};

/* A new share: wherever a session begins to handle what it has received. */
void budget_begin(struct session *session);

/* The time, which is looked at now and then: true where there is none left. */
bool budget_is_over(const struct budget *budget);

/* A message, or a frame, has been handled. */
static inline void budget_charge(struct budget *budget) {
    budget->used++;
    if (budget->used >= BUDGET_PIECES || (budget->used % BUDGET_LOOKS == 0 && budget_is_over(budget)))
        budget->spent = true;
}

/* Whether no further one may be in this turn. */
static inline bool budget_is_spent(const struct budget *budget) {
    return budget->spent;
}

/*
 * Behind the last one. Where the budget is spent, there may be more: true, and on_data is called for it in a later
 * turn; else receiving goes on where a backlog had paused it. @backlog: where what is received waits: the connection's
 * chain, or the one that it is moved to
 */
bool budget_end(struct session *session, const sluice_chain *backlog);

/* Whether received bytes wait for a later turn, by no fault of the peer. */
bool budget_has_more(const struct session *session);

/* The session has another connection, which receives and has nothing left. */
void budget_reset(struct session *session);

#endif
