/*
 * The data plane: pool, loop, listeners and sessions, all on one thread. The control plane talks to it by posted calls
 * only.
 */
#ifndef SLUICED_SERVER_H
#define SLUICED_SERVER_H

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/pool.h>

#include "daemon/denials.h"
#include "daemon/hook.h"
#include "daemon/listeners.h"
#include "daemon/options.h"
#include "daemon/pull.h"
#include "daemon/recorder.h"
#include "daemon/session.h"
#include "daemon/stream.h"

struct server {
    const struct options *options;    /* a reference of its own; another one after a reload */
    const struct options *begun_with; /* what a reload does not change points into these */
    sluice_pool *pool;
    sluice_loop *loop;
    struct registry *registry;
    struct pulls *pulls;
    struct records *records; /* NULL: nothing is recorded */
    struct recorders recorders;
    struct listeners *listeners;
    struct session *sessions;
    uint32_t session_count;
    uint64_t refused; /* connections over the limit */
    struct denials denials;
    hook_fn *ask_hook; /* who asks hooks; set before the server runs */
    void *hook_asker;
    uint64_t started_at;
    sluice_timer *ticker;
    uint64_t ticked_at;
    uint32_t ticks;
    bool draining;
    uint64_t drain_deadline;
};

/* What the status line shows. */
struct server_status {
    uint32_t streams;
    uint32_t subscribers;
    uint64_t bits_per_second;
    uint64_t frames; /* received since the start of the streams that are live */
    uint32_t blocks_held;
    uint32_t blocks_max;
};

/*
 * Makes everything and listens, but runs nothing. Says on the log what is wrong. 0 or -errno.
 * Takes a reference on the options of its own.
 */
int server_new(const struct options *options, struct server **ret_server);
void server_free(struct server *server);

/* Runs the loop until server_stop(). Any one thread, which owns the server meanwhile. 0 or -errno. */
int server_run(struct server *server);

/* Stops listening, lets sessions finish for a moment, and ends the run. Any thread. */
void server_stop(struct server *server);

/* Calls with the status, on the server's thread. Any thread. 0, -ENOMEM */
int server_query(struct server *server, void (*answer)(const struct server_status *status, void *user), void *user);

/* For sessions: enter and leave the server's list. */
void server_add(struct server *server, struct session *session);
void server_remove(struct server *server, struct session *session);

/* The pool of small blocks, for what is put between received bytes; the pool itself where there are none to be had. */
sluice_pool *server_small_pool(struct server *server);

static inline uint64_t server_now(const struct server *server) {
    return sluice_loop_now(server->loop);
}

#endif
