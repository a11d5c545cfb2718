#include "daemon/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/flv_session.h"
#include "daemon/http_session.h"
#include "daemon/log.h"
#include "daemon/object_id.h"
#include "daemon/rtsp_session.h"

enum {
    TICK_MS = 500,      /* deadlines are looked at so often */
    DRAIN_TICK_MS = 50, /* and so often while the server stops */
    TICKS_PER_RATE = 2, /* rates are taken each so many ticks */
    DRAIN_MS = 2000,    /* for sessions to finish when the server stops */
    RECORD_MS = 10000,  /* and for recordings: what is left then is repaired at the next start */
    SLAB_BYTES = 4 << 20,
    BLOCK_BYTES = 4096,
    SMALL_BYTES = 512,
};

static void accepted(struct server *server, const struct listener_option *option, int fd) {
    struct sockaddr_storage peer = {0};
    socklen_t length = sizeof peer;
    const int on = 1;

    if (server->draining || getpeername(fd, (struct sockaddr *)&peer, &length) < 0) {
        close(fd);
        return;
    }
    if (server->session_count >= server->options->max_connections) {
        close(fd);
        if (server->refused++ == 0)
            LOG(LOG_WARNING, "connections refused", {"reason", "--max-connections is reached"});
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (option->protocol == LISTENER_FLV)
        flv_session_start(server, fd, &peer, option->stream);
    else if (option->protocol == LISTENER_RTSP)
        rtsp_session_start(server, fd, &peer, option);
    else
        http_session_start(server, fd, &peer, option);
}

void server_add(struct server *server, struct session *session) {
    session->id = object_id_new();
    session->next = server->sessions;
    if (session->next)
        session->next->prev = session;
    server->sessions = session;
    server->session_count++;
}

void server_remove(struct server *server, struct session *session) {
    hook_cancel(session);
    if (session->prev)
        session->prev->next = session->next;
    else
        server->sessions = session->next;
    if (session->next)
        session->next->prev = session->prev;
    server->session_count--;
    if (server->refused > 0) {
        LOG(LOG_WARNING, "connections accepted again", {"refused", log_unsigned(server->refused).text});
        server->refused = 0;
    }
}

/* Sessions close by themselves; their memory goes in a later turn, so the list stays whole meanwhile. */
static void each_session(struct server *server, void (*call)(struct session *session, uint64_t now)) {
    uint64_t now = server_now(server);
    for (struct session *session = server->sessions; session; session = session->next)
        if (!session->closing)
            call(session, now);
}

static void tick_session(struct session *session, uint64_t now) {
    session->type->tick(session, now);
}

static void drain_session(struct session *session, uint64_t now) {
    (void)now;
    session->type->drain(session);
}

static void close_session(struct session *session, uint64_t now) {
    (void)now;
    session->closing = true;
    sluice_conn_close(session->conn);
}

static void tick(sluice_timer *timer, void *user) {
    struct server *server = user;
    uint64_t now = server_now(server);
    sluice_timer_start(timer, server->draining ? DRAIN_TICK_MS : TICK_MS);
    if (++server->ticks % TICKS_PER_RATE == 0) {
        registry_tick(server->registry, now - server->ticked_at);
        server->ticked_at = now;
    }
    pulls_tick(server->pulls, now);
    denials_tick(&server->denials, now);
    recorders_tick(&server->recorders);
    each_session(server, tick_session);
    if (!server->draining)
        return;
    if (now >= server->drain_deadline)
        each_session(server, close_session);
    if (now >= server->drain_deadline + RECORD_MS)
        recorders_give_up(&server->recorders);
    if (server->session_count == 0 && server->recorders.count == 0)
        sluice_loop_stop(server->loop);
}

static int open_listeners(struct server *server) {
    char reason[LISTENERS_ERROR];
    int error = listeners_new(server, accepted, &server->listeners);
    return error ? error : listeners_set(server->listeners, server->options, reason);
}

/* Why io_uring cannot be used, and what to do about it. */
static const char *loop_hint(int error) {
    switch (error) {
    case -ENOSYS:
        return "this kernel has no io_uring, or a seccomp profile hides it: use Linux 5.19 or newer, or allow it there";
    case -EPERM:
    case -EACCES:
        return "io_uring is forbidden here: see sysctl kernel.io_uring_disabled, or the container's seccomp profile";
    case -EOPNOTSUPP:
        return "this kernel's io_uring is too old: use Linux 5.19 or newer";
    case -ENOMEM:
        return "not enough memory, or RLIMIT_MEMLOCK is too low for io_uring: see ulimit -l";
    default:
        return strerror(-error);
    }
}

static int make_loop(struct server *server) {
    const sluice_loop_options options = {.batch_us = (uint32_t)server->options->batch_us,
                                         .backend = (sluice_backend_choice)server->options->backend};
    sluice_loop_stats stats;
    int error = sluice_loop_new(server->pool, &options, &server->loop);
    if (error && options.backend == SLUICE_BACKEND_URING)
        LOG(LOG_ERROR, "cannot use io_uring", {"reason", loop_hint(error)});
    else if (error)
        LOG(LOG_ERROR, "cannot make the loop", {"reason", strerror(-error)});
    if (error)
        return error;
    sluice_loop_get_stats(server->loop, &stats);
    if (stats.fallback_error)
        LOG(LOG_WARNING, "cannot use io_uring, using epoll", {"reason", loop_hint(stats.fallback_error)});
    LOG(LOG_INFO, "loop made", {"backend", stats.backend}, {"features", stats.features});
    return 0;
}

static int open_loop(struct server *server) {
    const struct options *options = server->options;
    const sluice_pool_options pool = {
        .block_size = BLOCK_BYTES,
        .slab_blocks = SLAB_BYTES / BLOCK_BYTES,
        .max_blocks = (uint32_t)(options->memory / BLOCK_BYTES),
        .class_sizes = {SMALL_BYTES},
    };
    const struct stream_limits limits = {.gop_bytes = options->gop_size, .player_bytes = options->player_buffer};

    int error = sluice_pool_new(&pool, &server->pool);
    if (error) {
        LOG(LOG_ERROR, "cannot make the block pool", {"reason", strerror(-error)});
        return error;
    }
    error = make_loop(server);
    if (error)
        return error;
    error = registry_new(server->loop, &limits, &server->registry);
    if (!error)
        error = sluice_timer_new(server->loop, tick, server, &server->ticker);
    if (error)
        LOG(LOG_ERROR, "cannot start", {"reason", strerror(-error)});
    return error;
}

static int open_records(struct server *server) {
    int error = records_new(&server->begun_with->record, &server->records);
    if (error)
        return error;
    recorders_init(&server->recorders, server->records, server->loop, server->options->player_buffer);
    registry_record(server->registry, &server->recorders);
    return 0;
}

static void want(struct stream *stream, void *user) {
    const struct server *server = user;
    pulls_want(server->pulls, stream);
}

static int open_pulls(struct server *server) {
    struct pull *made;
    int error = pulls_new(server, &server->pulls);
    if (!error)
        error = pulls_prepare(server->pulls, &server->options->pulls, &made);
    if (error) {
        LOG(LOG_ERROR, "cannot start", {"reason", strerror(-error)});
        return error;
    }
    pulls_set(server->pulls, &server->options->pulls, made);
    registry_on_wanted(server->registry, want, server);
    return 0;
}

int server_new(const struct options *options, struct server **ret_server) {
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    server->options = options_ref(options);
    server->begun_with = options_ref(options);
    int error = open_loop(server);
    if (!error)
        error = open_records(server);
    if (!error)
        error = open_pulls(server);
    if (!error)
        error = open_listeners(server);
    if (error) {
        server_free(server);
        return error;
    }
    server->started_at = server->ticked_at = server_now(server);
    sluice_timer_start(server->ticker, TICK_MS);
    *ret_server = server;
    return 0;
}

void server_free(struct server *server) {
    if (!server)
        return;
    /* What has been posted and not been called is called with the loop's end. */
    server->draining = true;
    sluice_timer_free(server->ticker);
    listeners_free(server->listeners);
    server->listeners = NULL;
    /* What the connector has sent back and nobody has taken is not begun any more. */
    if (server->pulls)
        pulls_stop(server->pulls);
    sluice_loop_free(server->loop);
    pulls_free(server->pulls);
    records_free(server->records);
    registry_free(server->registry);
    sluice_pool_free(server->pool);
    options_unref(server->options);
    options_unref(server->begun_with);
    free(server);
}

sluice_pool *server_small_pool(struct server *server) {
    sluice_pool *small;
    return sluice_pool_class(server->pool, SMALL_BYTES, &small) < 0 ? server->pool : small;
}

int server_run(struct server *server) {
    return sluice_loop_run(server->loop);
}

static void start_drain(void *user) {
    struct server *server = user;
    server->draining = true;
    server->drain_deadline = server_now(server) + DRAIN_MS;
    listeners_free(server->listeners);
    server->listeners = NULL;
    pulls_stop(server->pulls);
    each_session(server, drain_session);
    sluice_timer_start(server->ticker, server->session_count > 0 ? 10 : 0);
}

void server_stop(struct server *server) {
    if (sluice_loop_post(server->loop, start_drain, server) < 0)
        sluice_loop_stop(server->loop);
}

struct query {
    struct server *server;
    void (*answer)(const struct server_status *status, void *user);
    void *user;
};

static void add_stream(struct stream *stream, void *user) {
    struct server_status *status = user;
    status->streams += stream->live;
    status->subscribers += stream->player_count;
    status->bits_per_second += stream->bits_per_second;
    status->frames += stream->live ? stream->video_frames + stream->audio_frames : 0;
}

static void answer_query(void *user) {
    struct query *query = user;
    struct server_status status = {0};
    sluice_pool_stats pool;
    sluice_pool_get_stats(query->server->pool, &pool);
    status.blocks_held = pool.held;
    status.blocks_max = pool.max;
    registry_each(query->server->registry, add_stream, &status);
    query->answer(&status, query->user);
    free(query);
}

int server_query(struct server *server, void (*answer)(const struct server_status *status, void *user), void *user) {
    struct query *query = malloc(sizeof *query);
    if (!query)
        return -ENOMEM;
    *query = (struct query){server, answer, user};
    int error = sluice_loop_post(server->loop, answer_query, query);
    if (error)
        free(query);
    return error;
}
