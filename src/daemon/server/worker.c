#include "daemon/server/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cgroup.h"
#include "daemon/base/log.h"
#include "daemon/base/object_id.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"

enum {
    TICK_MS = 500,      /* deadlines are looked at so often */
    TICK_LOOKS = 1024,  /* at so many sessions in one turn */
    TICK_ENDS = 32,     /* and at no more once so many have been answered or closed */
    TICK_REPORTS = 256, /* or so many reports queued: each has memory of its own until it is sent */
    DRAIN_TICK_MS = 20, /* and so often while the server stops */
    RATE_MS = 900,      /* rates are taken with the first tick behind it */
    LIMITS_MS = 2000,   /* and the control group's limit is read, which may change at any time */
    DRAIN_MS = 2000,    /* for sessions to finish when the server stops */
    RECORD_MS = 10000,  /* and for recordings: what is left then is repaired at the next start */
    END_MS = 1000,      /* and for operations under way: a disk that hangs does not end them */
    SLAB_BYTES = 4 << 20,
    BLOCK_BYTES = 4096,
    SMALL_BYTES = 512,
    PACKET_SHARE = 8, /* of the memory is not blocks */
    LENT_SHARE = 4,   /* of the blocks may be lent to other workers where blocks are short */
};

void worker_add(struct worker *worker, struct session *session) {
    if (!session->id)
        session->id = object_id_new();
    session->worker = worker;
    session->prev = NULL;
    session->next = worker->sessions;
    if (session->next)
        session->next->prev = session;
    worker->sessions = session;
    worker->session_count++;
}

void worker_count_tls(struct worker *worker) {
    for (struct session *session = worker->sessions; session; session = session->next)
        if (session->tls)
            tls_link_count(session->tls, &worker->tls_bytes);
}

void worker_remove(struct worker *worker, struct session *session) {
    if (session->tls)
        tls_link_count(session->tls, &worker->tls_bytes);
    if (worker->to_tick == session)
        worker->to_tick = session->next;
    if (session->prev)
        session->prev->next = session->next;
    else
        worker->sessions = session->next;
    if (session->next)
        session->next->prev = session->prev;
    session->next = session->prev = NULL;
    worker->session_count--;
    session_uncharge(session);
    budget_leave(session, worker);
}

void worker_end_session(struct session *session) {
    hook_query_cancel(session);
    free(session->move);
    spread_leave(session);
    worker_remove(session->worker, session);
    server_release_connection(session->worker->server, session->is_uncounted ? NULL : &session->peer_address);
}

/* Sessions close by themselves; their memory goes in a later turn, so the list stays whole
 * meanwhile. */
static void each_session(struct worker *worker, void (*call)(struct session *session, uint64_t now)) {
    uint64_t now = worker_now(worker);
    for (struct session *session = worker->sessions; session; session = session->next)
        if (!session->closing)
            call(session, now);
}

static void tick_session(struct session *session, uint64_t now) {
    hook_query_tick(session, now);
    if (session->closing)
        return;
    session->held_up = sluice_conn_was_held_up(session->conn);
    session->type->tick(session, now);
    session_account(session);
}

/*
 * Connections that arrived together expire together: closing thousands of slow heads would delay
 * all others for a tenth of a second. So the tick closes a few in a turn, and continues in the
 * next.
 */
static void tick_some(void *user) {
    struct worker *worker = user;
    uint64_t now = worker_now(worker);
    uint32_t answers = worker->answers, reports = worker->reports, closed = 0;
    worker->tick_posted = false;
    /* Then the tick itself looks at all. */
    if (worker->draining)
        worker->to_tick = NULL;
    for (uint32_t looks = 0; worker->to_tick && looks < TICK_LOOKS; looks++) {
        struct session *session = worker->to_tick;
        worker->to_tick = session->next;
        if (session->closing)
            continue;
        tick_session(session, now);
        closed += session->closing;
        if (closed + worker->answers - answers >= TICK_ENDS || worker->reports - reports >= TICK_REPORTS)
            break;
    }
    worker->tick_posted = worker->to_tick != NULL;
    if (worker->tick_posted)
        sluice_loop_post_call(worker->loop, &worker->tick_call, tick_some, worker);
}

/* A tick that finds the one before it still at work leaves it at that. */
static void tick_sessions(struct worker *worker) {
    if (worker->draining) {
        each_session(worker, tick_session);
    } else if (!worker->tick_posted) {
        worker->to_tick = worker->sessions;
        tick_some(worker);
    }
}

static void drain_session(struct session *session, uint64_t now) {
    (void)now;
    session->type->drain(session);
}

static void close_session(struct session *session, uint64_t now) {
    (void)now;
    session_close(session);
}

/*
 * During a stop: closes what takes too long; when nothing is left, the worker has finished.
 * Recordings that have been given up may wait for a disk that hangs: worker_end() decides on them.
 */
static void finish(struct worker *worker, uint64_t now) {
    bool records = now < worker->drain_deadline + RECORD_MS && worker->recorders.count > 0;
    if (now >= worker->drain_deadline)
        each_session(worker, close_session);
    if (now >= worker->drain_deadline + RECORD_MS)
        recorders_give_up(&worker->recorders);
    if (worker->drained || worker->session_count > 0 || records || registry_is_spread(worker->registry))
        return;
    worker->drained = true;
    server_release(worker->server);
}

/* While the next publisher comes to another process, nothing is kept for it here. */
static void set_leaving(struct worker *worker, bool is_leaving) {
    struct stream_limits limits = worker->registry->limits;
    worker->leaving = limits.keeps_none = is_leaving;
    registry_set_limits(worker->registry, &limits);
}

void worker_leave(struct worker *worker) {
    set_leaving(worker, true);
    worker->leave_deadline = worker_now(worker) + worker->options->drain_ms;
    components_stop(&worker->components);
}

void worker_return(struct worker *worker) {
    set_leaving(worker, false);
    components_resume(&worker->components);
}

uint64_t worker_wait_ms(const struct worker *worker, const struct stream *stream) {
    return worker->leaving ? 0 : stream->policy.wait_ms;
}

void worker_set_batch(struct worker *worker, uint32_t us) {
    if (worker->batch_us > 0 && us > 0 && us != worker->batch_us && sluice_loop_set_batch(worker->loop, us) == 0)
        worker->batch_us = us;
}

void worker_note_other(struct worker *worker, uint64_t us) {
    worker->registry->merging.automatic.other_us += us;
}

/* The first worker looks for all. */
static void look_whether_left(const struct worker *worker, uint64_t now) {
    uint32_t connections = server_connection_count(worker->server);
    /* Another one may have to be started in that process's place. */
    if (!server_is_replaced(worker->server))
        return;
    if (connections > 0 && now < worker->leave_deadline)
        return;
    LOG(LOG_INFO, "stopping", {"reason", connections > 0 ? "--drain expired" : "no connections left"},
        {"connections", log_unsigned(connections).text});
    server_stop(worker->server);
}

/* The worker's even part of the processors that the control group lets the process use. */
static void read_limits(struct worker *worker, uint64_t now) {
    struct cgroup_limits limits;
    if (worker->limits_at > 0 && now - worker->limits_at < LIMITS_MS)
        return;
    worker->limits_at = now;
    cgroup_read("", &limits);
    /* Without a limit that is more than a core. */
    worker->registry->merging.automatic.share = (double)limits.milli_cpus / 1000 / (double)worker->options->workers;
}

static void tick(sluice_timer *timer, void *user) {
    struct worker *worker = user;
    uint64_t now = worker_now(worker);
    sluice_timer_start(timer, worker->draining ? DRAIN_TICK_MS : TICK_MS);
    if (worker->draining || now - worker->ticked_at >= RATE_MS) {
        registry_tick(worker->registry, now - worker->ticked_at);
        worker->ticked_at = now;
    }
    read_limits(worker, now);
    auto_window_measure(&worker->registry->merging.automatic, now);
    publish_locks_decide(&worker->registry->locks);
    components_tick(&worker->components, now);
    auth_log_tick(&worker->auth_log, now);
    recorders_tick(&worker->recorders);
    tick_sessions(worker);
    if (worker->draining)
        finish(worker, now);
    else if (worker->leaving && worker->index == 0 && !server_is_stopping(worker->server))
        look_whether_left(worker, now);
}

void worker_drain(struct worker *worker) {
    worker->draining = true;
    worker->drain_deadline = worker_now(worker) + DRAIN_MS;
    components_stop(&worker->components);
    each_session(worker, drain_session);
    sluice_timer_start(worker->ticker, worker->session_count > 0 ? 10 : 0);
}

static void set_window(struct stream *stream, void *user) {
    const struct worker *worker = user;
    for (struct player *player = stream->players; player; player = player->next) {
        const struct session *session = player->user;
        stream_set_merge_window(stream, player,
                                options_merge_window(worker->options, stream->name, session->merge_window_ms));
    }
}

static struct stream_limits limits_of(struct server *server, const struct options *options) {
    return (struct stream_limits){
        .most_streams = options->max_streams,
        .streams = server_stream_count(server),
        .policies = &options->streams,
        .merge_window_most = (uint32_t)options->merge_window_most,
        .unwatched_ms = (uint32_t)options->unwatched_ms,
    };
}

void worker_set_options(struct worker *worker, const struct options *options) {
    const struct options *before = worker->options;
    const struct stream_limits limits = limits_of(worker->server, options);
    worker->options = options_ref(options);
    registry_set_limits(worker->registry, &limits);
    recorders_set_limit(&worker->recorders, options->streams.all.player_buffer);
    registry_each(worker->registry, set_window, worker);
    options_unref(before);
}

/* Why io_uring cannot be used, and what to do about it. */
static const char *loop_hint(int error) {
    switch (error) {
    case -ENOSYS:
        return "io_uring missing: use Linux 5.19 or newer, or allow io_uring in the seccomp profile";
    case -EPERM:
    case -EACCES:
        return "io_uring forbidden: see sysctl kernel.io_uring_disabled, or the container's seccomp profile";
    case -EOPNOTSUPP:
        return "io_uring too old: use Linux 5.19 or newer";
    case -ENOMEM:
        return "out of memory: or RLIMIT_MEMLOCK is too low for io_uring, see ulimit -l";
    default:
        return strerror(-error);
    }
}

static int fallback_error(const struct worker *worker) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(worker->loop, &stats);
    return stats.fallback_error;
}

static const char *reason_phrase(sluice_backend_reason reason) {
    switch (reason) {
    case SLUICE_REASON_REQUESTED:
        return "requested";
    case SLUICE_REASON_URING_WORKS:
        return "io_uring works";
    case SLUICE_REASON_EPOLL_CHEAPER:
        return "epoll costs less: no receive bundles, no batching window";
    case SLUICE_REASON_URING_FAILED:
        return "io_uring unavailable";
    }
    return "?";
}

/*
 * All workers' loops are made alike: one line describes them, unless the fallback error of one
 * differs from the first.
 */
static void log_loop(const struct worker *worker) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(worker->loop, &stats);
    bool is_told = worker->index > 0 && stats.fallback_error == fallback_error(server_worker(worker->server, 0));
    if (stats.fallback_error && !is_told)
        LOG(LOG_WARNING, "io_uring unavailable", {"reason", loop_hint(stats.fallback_error)});
    if (worker->index == 0)
        LOG(LOG_INFO, "loop created", {"backend", stats.backend}, {"features", stats.features},
            {"workers", log_unsigned(server_worker_count(worker->server)).text},
            {"memory", log_unsigned(worker->options->memory).text}, {"reason", reason_phrase(stats.reason)});
}

/* The others have the first one's backend, whatever their own probes would find. */
static sluice_backend_choice backend_of(const struct worker *worker) {
    sluice_loop_stats stats = {.size = sizeof stats};
    if (worker->index == 0 || worker->options->backend != SLUICE_BACKEND_AUTO)
        return (sluice_backend_choice)worker->options->backend;
    sluice_loop_get_stats(server_worker(worker->server, 0)->loop, &stats);
    return strcmp(stats.backend, "epoll") == 0 ? SLUICE_BACKEND_EPOLL : SLUICE_BACKEND_URING;
}

static int make_loop(struct worker *worker) {
    sluice_loop_options options = {.size = sizeof options,
                                   .batch_us = (uint32_t)worker->options->batch_us,
                                   /* a slab takes milliseconds to register */
                                   .no_fixed = true,
                                   .backend = backend_of(worker)};
    int error = sluice_loop_new(worker->pool, &options, &worker->loop);
    /* Locked memory for one ring more may be missing. */
    if (error && worker->options->backend == SLUICE_BACKEND_AUTO && options.backend == SLUICE_BACKEND_URING) {
        options.backend = SLUICE_BACKEND_AUTO;
        error = sluice_loop_new(worker->pool, &options, &worker->loop);
    }
    if (error && options.backend == SLUICE_BACKEND_URING)
        LOG(LOG_ERROR, "cannot use io_uring", {"reason", loop_hint(error)});
    else if (error)
        LOG(LOG_ERROR, "cannot create loop", {"reason", strerror(-error)});
    else
        log_loop(worker);
    if (!error)
        worker->batch_us = options.batch_us;
    return error;
}

/*
 * Each worker has its share of the memory: one part of it for what describes the streams' tags, the
 * rest for blocks.
 */
static uint64_t packet_bytes(const struct worker *worker) {
    return worker->options->memory / server_worker_count(worker->server) / PACKET_SHARE;
}

static int make_pool(struct worker *worker) {
    uint64_t share = worker->options->memory / server_worker_count(worker->server) - packet_bytes(worker);
    uint64_t slab = share < SLAB_BYTES ? share : SLAB_BYTES;
    const sluice_pool_options pool = {
        .size = sizeof pool,
        .block_size = BLOCK_BYTES,
        .slab_blocks = (uint32_t)(slab / BLOCK_BYTES),
        .max_blocks = (uint32_t)(share / BLOCK_BYTES),
        .class_sizes = {SMALL_BYTES},
    };
    worker->site.most_lent = share / LENT_SHARE;
    holdings_init(&worker->holdings, share);
    int error = sluice_pool_new(&pool, &worker->pool);
    if (error)
        LOG(LOG_ERROR, "cannot create block pool", {"reason", strerror(-error)});
    return error;
}

static void want(struct stream *stream, void *user) {
    const struct worker *worker = user;
    components_wanted(&worker->components, stream);
}

static void opened(struct stream *stream, void *user) {
    struct worker *worker = user;
    recorders_opened(&worker->recorders, stream);
    components_opened(&worker->components, stream);
}

static void leave(struct stream *stream, void *user) {
    const struct worker *worker = user;
    components_left(&worker->components, stream);
}

static int make_rest(struct worker *worker) {
    struct stream_limits limits = limits_of(worker->server, worker->options);
    limits.packet_bytes = packet_bytes(worker);
    int error = registry_new(worker->loop, &limits, &worker->registry);
    if (!error) {
        worker->site.loop = worker->loop;
        worker->site.registry = worker->registry;
        worker->site.index = worker->index;
        worker->site.over = server_over(worker->server);
        recorders_init(&worker->recorders, worker->records, worker->loop, worker->options->streams.all.player_buffer);
        error = sluice_timer_new(worker->loop, tick, worker, &worker->ticker);
    }
    if (error)
        return error;
    holdings_watch(worker);
    registry_on_wanted(worker->registry, want, worker);
    registry_on_opened(worker->registry, opened, worker);
    registry_on_left(worker->registry, leave, worker);
    return 0;
}

int worker_open(struct worker *worker, struct server *server, uint32_t index, const struct options *options,
                struct record_store *records) {
    *worker = (struct worker){.server = server, .options = options_ref(options), .index = index, .records = records};
    int error = make_pool(worker);
    if (!error)
        error = make_loop(worker);
    if (!error)
        error = make_rest(worker);
    if (error)
        return error;
    worker->ticked_at = worker_now(worker);
    sluice_timer_start(worker->ticker, TICK_MS);
    return 0;
}

/* After a drain nothing is left to be stopped. */
static void stop_all(struct worker *worker) {
    worker->draining = true;
    sluice_timer_free(worker->ticker);
    worker->ticker = NULL;
    listeners_free(worker->listeners);
    worker->listeners = NULL;
    components_stop(&worker->components);
}

int worker_end(struct worker *worker) {
    stop_all(worker);
    int error = sluice_loop_close_within(worker->loop, END_MS);
    if (error != -ETIMEDOUT)
        return error;
    worker->is_stuck = true;
    LOG(LOG_WARNING, "file operations abandoned", {"reason", "the disk does not answer"},
        {"recordings", log_unsigned(worker->recorders.count).text});
    recorders_abandon(&worker->recorders);
    return 0;
}

void worker_close(struct worker *worker) {
    /* What has been posted and not been called is called with the loop's end. */
    stop_all(worker);
    sluice_loop_free(worker->loop);
    if (worker->registry)
        registry_on_left(worker->registry, NULL, NULL);
    components_close(&worker->components);
    registry_free(worker->registry);
    recorders_clear(&worker->recorders);
    sluice_pool_free(worker->pool);
    options_unref(worker->options);
}

sluice_pool *worker_small_pool(struct worker *worker) {
    sluice_pool *small;
    return sluice_pool_class(worker->pool, SMALL_BYTES, &small) < 0 ? worker->pool : small;
}
