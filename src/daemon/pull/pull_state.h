/*
 * When a pull connects, asks, waits and gives up: its state, without sockets. The pull that owns it
 * tells it what has happened, and does what it says.
 */
#ifndef SLUICED_PULL_STATE_H
#define SLUICED_PULL_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PULL_STEP_MS = 10000,    /* for a connection to be made, and for each step of the protocol */
    PULL_SILENCE_MS = 10000, /* without media from a camera that plays */
    PULL_LINGER_MS = 10000,  /* that an on-demand pull goes on without players */
    PULL_STABLE_MS = 30000,  /* of playing, after which earlier failures are forgotten */
    PULL_BACKOFF_MS = 1000,  /* after the first failure; then twice as long each time */
    /* plus up to a quarter by chance, so that many do not come back at once */
    PULL_BACKOFF_MOST_MS = 24000,
    PULL_REDIRECTS = 5, /* that are followed in one attempt */
};

enum pull_state {
    /* nobody wants the stream; set at the start and, on demand, when the last player has been gone
     * for long enough (pull_tick) */
    PULL_IDLE,
    PULL_BACKOFF, /* waits before the next attempt; set by whatever goes wrong (pull_failed) */
    /* the control plane looks the name up and connects; set when an attempt is due (pull_tick,
     * pull_wanted), and by a redirect (pull_redirected) */
    PULL_CONNECTING,
    /* the protocol's own steps, up to media; set when there is a connection (pull_connected) */
    PULL_NEGOTIATING,
    PULL_PLAYING, /* media come; set by the protocol (pull_started) */
    /* the server ends, or another process pulls; set by it (pull_stop, pull_resume) */
    PULL_STOPPED,
};

enum pull_order {
    PULL_NOTHING,
    PULL_CONNECT,    /* begin an attempt */
    PULL_KEEP_ALIVE, /* ask for something, so that the camera does not end the session */
    PULL_LEAVE,      /* end what is under way: nobody wants it any more */
    PULL_GIVE_UP,    /* end what is under way: it takes too long. pull_failed() is to follow */
};

struct pull_machine {
    enum pull_state state;
    bool on_demand;
    uint64_t since;     /* time at which the state was set, or its last step began */
    uint64_t wanted_at; /* on demand: when somebody last wanted the stream */
    uint64_t retry_at;  /* in PULL_BACKOFF */
    uint64_t media_at;  /* in PULL_PLAYING: when some last came */
    uint64_t asked_at;  /* in PULL_PLAYING: the last request */
    uint32_t keep_alive_ms;
    unsigned failures; /* since it was last stable */
    unsigned redirects;
};

const char *pull_state_name(enum pull_state state);

void pull_machine_init(struct pull_machine *machine, bool on_demand, uint64_t now);

/* Twice a second. @wanted: there are players */
enum pull_order pull_tick(struct pull_machine *machine, uint64_t now, bool wanted);

/* The first player has come: begins at once what pull_tick() would begin. */
enum pull_order pull_wanted(struct pull_machine *machine, uint64_t now);

void pull_connected(struct pull_machine *machine, uint64_t now);

/* The protocol's next step begins, or the same one again, and has its own time. */
void pull_step_begun(struct pull_machine *machine, uint64_t now);

/* The protocol is through with its steps. */
void pull_started(struct pull_machine *machine, uint64_t now);

/* The camera says how long its sessions last without a request. */
void pull_set_timeout(struct pull_machine *machine, uint32_t timeout_s);

void pull_media(struct pull_machine *machine, uint64_t now);

/* To another place, in the same attempt. 0, -ELOOP (not again) */
int pull_redirected(struct pull_machine *machine, uint64_t now);

/* Tries again later. @random: any number */
void pull_failed(struct pull_machine *machine, uint64_t now, uint32_t random);

void pull_stop(struct pull_machine *machine, uint64_t now);

/* One that is stopped begins anew. */
void pull_resume(struct pull_machine *machine, uint64_t now);

#endif
