/*
 * When an outgoing connection is made, waited for, repeated and given up: the state of a pull or a
 * forward, without sockets. The owner reports events to it, and obeys its orders.
 */
#ifndef SLUICED_OUTGOING_H
#define SLUICED_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/log.h"

enum {
    /* for a connection to be made, and for each step of the protocol */
    OUTGOING_STEP_MS = 10000,
    OUTGOING_SILENCE_MS = 10000, /* without media, while they should come */
    OUTGOING_LINGER_MS = 10000,  /* that an on-demand one goes on unwanted */
    OUTGOING_STABLE_MS = 30000,  /* of media, after which earlier failures are forgotten */
    OUTGOING_BACKOFF_MS = 1000,  /* after the first failure; then twice as long each time */
    /* plus up to a quarter by chance, so that many do not come back at once */
    OUTGOING_BACKOFF_MOST_MS = 24000,
    OUTGOING_REDIRECTS = 5, /* that are followed in one attempt */
    OUTGOING_NO_KEEP_ALIVE = 0,
};

enum outgoing_state {
    /* it is not wanted; set at the start and, on demand, when it has been unwanted for long enough
     * (outgoing_tick) */
    OUTGOING_IDLE,
    /* waits before the next attempt; set by whatever goes wrong (outgoing_failed) */
    OUTGOING_BACKOFF,
    /* the control plane looks the name up and connects; set when an attempt is due
     * (outgoing_tick, outgoing_wanted), and by a redirect (outgoing_redirected) */
    OUTGOING_CONNECTING,
    /* the protocol's own steps, up to media; set when there is a connection (outgoing_connected) */
    OUTGOING_NEGOTIATING,
    OUTGOING_ACTIVE, /* media flow; set by the protocol (outgoing_started) */
    /* the server ends, or another process takes over; set by the owner (outgoing_stop,
     * outgoing_resume) */
    OUTGOING_STOPPED,
};

enum outgoing_order {
    OUTGOING_NOTHING,
    OUTGOING_CONNECT,    /* begin an attempt */
    OUTGOING_KEEP_ALIVE, /* ask for something, so that the peer does not end the session */
    OUTGOING_LEAVE,      /* end what is under way: nobody wants it any more */
    /* end what is under way: it takes too long. outgoing_failed() is to follow */
    OUTGOING_GIVE_UP,
};

struct outgoing {
    enum outgoing_state state;
    bool on_demand;
    uint64_t since;     /* time at which the state was set, or its last step began */
    uint64_t wanted_at; /* on demand: when it was last wanted */
    uint64_t retry_at;  /* in OUTGOING_BACKOFF */
    uint64_t media_at;  /* in OUTGOING_ACTIVE: when some last came */
    uint64_t asked_at;  /* in OUTGOING_ACTIVE: the last request */
    /* between requests; or OUTGOING_NO_KEEP_ALIVE: the peer has not said that it wants any */
    uint32_t keep_alive_ms;
    unsigned failures; /* since it was last stable */
    unsigned redirects;
};

const char *outgoing_state_name(enum outgoing_state state);

void outgoing_init(struct outgoing *machine, bool on_demand, uint64_t now);

/* What the log says of one. */
struct outgoing_words {
    const char *event;     /* "pull", "forward" */
    const char *direction; /* "from", "to" */
    const char *stream, *place;
    const char *step;       /* of the protocol's, while it negotiates; or NULL */
    const char *reason;     /* in OUTGOING_BACKOFF */
    const char *active;     /* the name of OUTGOING_ACTIVE */
    enum log_level waiting; /* of OUTGOING_IDLE */
};

/* The state that it has now, or its step. */
void outgoing_log(const struct outgoing *machine, const struct outgoing_words *words);

/* Twice a second. @wanted: of an on-demand one, whether it is wanted */
enum outgoing_order outgoing_tick(struct outgoing *machine, uint64_t now, bool wanted);

/* It is wanted from now on: begins at once what outgoing_tick() would begin. */
enum outgoing_order outgoing_wanted(struct outgoing *machine, uint64_t now);

void outgoing_connected(struct outgoing *machine, uint64_t now);

/* The protocol's next step begins, or the same one again, and has its own time. */
void outgoing_step_begun(struct outgoing *machine, uint64_t now);

/* The protocol is through with its steps. */
void outgoing_started(struct outgoing *machine, uint64_t now);

/* The peer says how long its sessions last without a request. */
void outgoing_set_timeout(struct outgoing *machine, uint32_t timeout_s);

void outgoing_media(struct outgoing *machine, uint64_t now);

/* To another place, in the same attempt. 0, -ELOOP (not again) */
int outgoing_redirected(struct outgoing *machine, uint64_t now);

/* Tries again later. @random: any number */
void outgoing_failed(struct outgoing *machine, uint64_t now, uint32_t random);

void outgoing_stop(struct outgoing *machine, uint64_t now);

/* One that is stopped begins anew. */
void outgoing_resume(struct outgoing *machine, uint64_t now);

#endif
