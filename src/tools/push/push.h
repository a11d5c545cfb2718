/* What the parts of sluice-push share: senders (publishers), watchers (players), and what they have
 * come to. */
#ifndef TOOLS_PUSH_H
#define TOOLS_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "tools/connector.h"
#include "tools/media.h"
#include "tools/play.h"
#include "tools/publish.h"
#include "tools/push/follow.h"
#include "tools/push/push_options.h"

enum { PUSH_RETRY_MS = 1000, PUSH_LATE_MS = 100, PUSH_LATENCIES = 2000, PUSH_FAILURES = 10 };

struct push;

/* A publisher, over all its connections. */
enum sender_state {
    SENDER_WAITING,    /* for its time to begin, or to try again */
    SENDER_CONNECTING, /* for a connection, and the server's consent */
    SENDER_SENDING,
    SENDER_FINISHING, /* for the server to have taken all */
    SENDER_DONE,
    SENDER_FAILED, /* has given up */
};

struct sender {
    struct push *push;
    enum sender_state state;
    uint32_t number; /* from 1 */
    struct target target;
    struct connector_job job;
    struct publish *publish;
    sluice_timer *timer;
    bool started;   /* has sent anything */
    bool blocked;   /* the last tag found no room */
    uint64_t zero;  /* when the time 0 was due, loop's milliseconds */
    uint64_t next;  /* number of the next tag */
    uint64_t bytes; /* of connections that are over */
    uint64_t tags, late;
    uint32_t reconnects, failures, in_a_row;
};

/* A player, over all its connections. */
enum watcher_state { WATCHER_WAITING, WATCHER_CONNECTING, WATCHER_PLAYING, WATCHER_DONE, WATCHER_FAILED };

struct watcher {
    struct push *push;
    enum watcher_state state;
    uint32_t number; /* from 1, stalled ones behind the others */
    bool stalled;
    bool started;          /* has had a first frame */
    bool has_begun;        /* the server has agreed, once */
    struct sender *sender; /* of the stream; NULL if it has another publisher */
    struct target target;
    struct connector_job job;
    struct play *play;
    sluice_timer *timer;
    struct follow follow;
    uint64_t asked_at;    /* when this connection was begun */
    uint64_t sent_before; /* the sender's next tag then: latency is of what came later */
    int64_t last[MEDIA_TRACKS];
    uint64_t back; /* timestamps that went back */
    uint64_t frames, bytes;
    uint64_t rtp_lost;
    uint32_t reconnects, failures, in_a_row;
};

/* Times in milliseconds: their sum, the largest, and how many of each. */
struct push_times {
    uint64_t count, sum, most;
    uint32_t each[PUSH_LATENCIES + 1]; /* the last one: and more */
};

struct push_failure {
    char text[200];
};

struct push {
    const struct push_options *options;
    struct media *media; /* NULL without publishers */
    sluice_pool *pool;
    sluice_loop *loop;
    struct addrinfo *publish_addresses, *play_addresses;
    struct sender *senders;
    struct watcher *watchers; /* players, then stalled ones */
    uint32_t watcher_count;
    sluice_timer *ticker;
    uint64_t begun_at, ended_at; /* ended_at: no more is sent, 0 before */
    uint32_t looks_at_end;       /* since ended_at */
    uint64_t reported_at;
    uint64_t last_sent, last_received; /* bytes, at the last report */
    bool ending, over;
    struct push_times startup, latency;
    struct push_failure failures[PUSH_FAILURES];
    uint32_t failure_count;
};

void push_note_time(struct push_times *times, uint64_t ms);
__attribute__((format(printf, 2, 3))) void push_note_failure(struct push *push, const char *format, ...);

/* Senders. Addresses and targets are set; what goes wrong later is theirs to count. */
int sender_init(struct sender *sender, struct push *push, uint32_t number);
void sender_free(struct sender *sender);
/* Begins so many milliseconds from now. */
void sender_start(struct sender *sender, uint64_t delay);
/* Sends no more, and ends well. */
void sender_finish(struct sender *sender);
void sender_tick(struct sender *sender, uint64_t now);
bool sender_is_over(const struct sender *sender);
uint64_t sender_bytes(const struct sender *sender);

/* Watchers. */
int watcher_init(struct watcher *watcher, struct push *push, uint32_t number, bool stalled);
void watcher_free(struct watcher *watcher);
void watcher_start(struct watcher *watcher, uint64_t delay);
void watcher_stop(struct watcher *watcher);
void watcher_tick(struct watcher *watcher, uint64_t now);
/* Has all that its stream's sender has sent, or will get no more. */
bool watcher_is_through(const struct watcher *watcher);
uint64_t watcher_bytes(const struct watcher *watcher);
/* The stream has another publisher's session. */
void watcher_restarted(struct watcher *watcher);

/* A sender is ready: the watchers of its stream may begin. */
void push_sender_ready(struct push *push, const struct sender *sender, bool again);

/* Reports. True from push_report_total() where all were served. */
void push_report_second(struct push *push);
bool push_report_total(struct push *push);

#endif
