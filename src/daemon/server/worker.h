/*
 * A worker: one thread with a pool, a loop, and its own sessions, streams, components and
 * recordings. Workers share only the server; they communicate by posted calls. The worker's thread
 * only, unless stated otherwise.
 */
#ifndef SLUICED_WORKER_H
#define SLUICED_WORKER_H

#include <pthread.h>

#include <sluice/conn.h>
#include <sluice/loop.h>
#include <sluice/pool.h>

#include "daemon/base/auth_log.h"
#include "daemon/config/options.h"
#include "daemon/recording/record_queue.h"
#include "daemon/recording/recorder.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"
#include "daemon/relay/replica.h"
#include "daemon/server/component.h"
#include "daemon/server/listeners.h"
#include "daemon/server/session.h"
#include "shared/tls_link.h"

struct server;

struct worker {
    struct server *server;
    const struct options *options; /* a reference of its own; another one after a reload */
    uint32_t index;                /* among the server's workers */
    sluice_pool *pool;
    sluice_loop *loop;
    uint32_t batch_us; /* the loop's batching window; 0: none, which stays so */
    struct registry *registry;
    struct replica_site site;
    struct components components;
    struct record_store *records; /* the server's; NULL: nothing is recorded */
    struct recorders recorders;
    struct record_queue record_lists;
    /* the first worker's; NULL for the others, and once the server stops */
    struct listeners *listeners;
    struct budget_turn turn; /* what its sessions have of it */
    struct session *sessions;
    uint32_t session_count;
    /* the next of them that this tick looks at, in a later turn; NULL: it has seen all */
    struct session *to_tick;
    sluice_call tick_call;
    bool tick_posted; /* that call is: the tick is not over */
    uint32_t answers; /* responses begun, ever */
    uint32_t reports; /* RTCP queued, ever */
    /* ever; of sessions that are there, as far as worker_count_tls() has seen them */
    struct tls_bytes tls_bytes;
    struct auth_log auth_log;
    struct holdings holdings;
    sluice_timer *ticker;
    uint64_t ticked_at; /* loop time at which rates were taken */
    uint64_t limits_at; /* and the control group's limit was read */
    bool leaving;       /* another process accepts in this one's place */
    /* it leaves, and accepts still, to send clients to other nodes: see evacuate.h */
    bool evacuates;
    uint64_t leave_deadline;
    bool draining;
    bool drained; /* it does not hold the run any more */
    /*
     * a thread, or the kernel, is in a file operation that does not return, and uses memory of the
     * loop, the pool, recordings and requests: nothing of the worker is freed. Set by worker_end()
     */
    bool is_stuck;
    uint64_t drain_deadline;
    sluice_call ready_call, drain_call, stop_call; /* the server's messages */
    pthread_t thread;                              /* of all but the first */
    bool has_ended;                                /* with the server's gate_lock */
    int error;                                     /* with which it has ended */
};

/*
 * Makes everything but listeners, and runs nothing. Says on the log what is wrong. 0 or -errno.
 * Takes a reference on the options of its own. @records: NULL: nothing is recorded
 */
int worker_open(struct worker *worker, struct server *server, uint32_t index, const struct options *options,
                struct record_store *records);

/*
 * When its run has ended, on the thread that ran it: closes what is open, and waits for the kernel,
 * but for file operations that do not return: then worker->is_stuck. 0, or the error of a failed
 * turn.
 */
int worker_end(struct worker *worker);

/* When no worker runs any more, on any thread. One that was not opened, or only in part, is
 * allowed. */
void worker_close(struct worker *worker);

/*
 * The server stops: sessions finish what is under way, within a moment, and recordings what is
 * queued. Then the worker lets go of the run.
 */
void worker_drain(struct worker *worker);

/*
 * Another process accepts from now on. Sessions go on until they end, or until the drain time is
 * over, when the server stops; but components stop, and players do not wait for a publisher, which
 * would connect to the other process.
 */
void worker_leave(struct worker *worker);

/* No other process does: connections come here again, and components go on. Not while it drains. */
void worker_return(struct worker *worker);

/* How long a player waits for a publisher of that stream, milliseconds. */
uint64_t worker_wait_ms(const struct worker *worker, const struct stream *stream);

/* Other options are in force. Cannot fail. */
void worker_set_options(struct worker *worker, const struct options *options);

/* Brings worker->tls_bytes up to date. */
void worker_count_tls(struct worker *worker);

/* A session enters and leaves the worker's list. */
void worker_add(struct worker *worker, struct session *session);
void worker_remove(struct worker *worker, struct session *session);

/* A session has ended: it leaves the list, waits for no hook, and is no connection of the server's
 * any more. */
void worker_end_session(struct session *session);

/* The pool of small blocks, for what is put between received bytes; the pool itself where there are
 * none to be had. */
sluice_pool *worker_small_pool(struct worker *worker);

/* Processor time of its thread that frames had no part in: no reason for a merge window. */
void worker_note_other(struct worker *worker, uint64_t us);

/* Another batching window of its loop, microseconds; nothing where the loop has none, or @us is
 * 0. */
void worker_set_batch(struct worker *worker, uint32_t us);

static inline uint64_t worker_now(const struct worker *worker) {
    return sluice_loop_now(worker->loop);
}

#endif
