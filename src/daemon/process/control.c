#include "daemon/process/control.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <sluice/version.h>

#include "daemon/admin/admin.h"
#include "daemon/backup/backup.h"
#include "daemon/base/log.h"
#include "daemon/base/systemd.h"
#include "daemon/control/cluster_client.h"
#include "daemon/control/connector.h"
#include "daemon/control/control_loop.h"
#include "daemon/control/history.h"
#include "daemon/control/hook_client.h"
#include "daemon/control/hook_delivery.h"
#include "daemon/control/hook_post.h"
#include "daemon/control/reload.h"
#include "daemon/control/wakeup.h"
#include "daemon/control/worker_query.h"
#include "daemon/edge/edge.h"
#include "daemon/forward/forward.h"
#include "daemon/process/cluster_setup.h"
#include "daemon/process/upgrade.h"
#include "daemon/pull/pull.h"
#include "daemon/server/evacuate.h"
#include "daemon/tls/tls_expiry.h"

struct control {
    struct server *server;
    struct tls_client *tls;
    struct event_base *base;
    struct event *events[8];
    size_t event_count;
    struct connector *connector;
    struct control_loop *loop;
    struct reload *reload;
    struct worker_query *worker_query;
    struct history *history;
    struct hook_poster *hook_poster;
    struct hook_client *hook_client;
    struct hook_delivery *hook_delivery;
    struct cluster_setup *cluster;         /* NULL: there is no cluster, */
    struct cluster_client *cluster_client; /* nor this */
    struct admin *admin;
    struct upgrade *upgrade;
    struct wakeup wakeup; /* the run has begun, or ended */
    pthread_t thread;
    bool has_thread; /* which is to be joined */
    bool stopping;
    bool draining; /* the server is emptied before it stops */

    pthread_cond_t over;  /* the run has ended */
    pthread_mutex_t lock; /* of the fields below */
    bool begun, ended;
    int error;

    uint64_t frames; /* at the last status line */
};

/* What the status line shows. */
struct status {
    uint32_t streams, players;
    uint64_t bits_per_second;
    uint64_t frames; /* received since the start of the streams that are live */
    uint32_t blocks_held, blocks_max;
};

static const int handled_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR2};

/* libevent's own messages would go to standard error at once. Also on the main thread. */
static void on_library_message(int severity, const char *text) {
    static const enum log_level levels[] = {[EVENT_LOG_DEBUG] = LOG_DEBUG,
                                            [EVENT_LOG_MSG] = LOG_INFO,
                                            [EVENT_LOG_WARN] = LOG_WARNING,
                                            [EVENT_LOG_ERR] = LOG_ERROR};
    LOG(levels[severity & 3], "libevent", {"text", text});
}

void control_prepare(void) {
    event_set_log_callback(on_library_message);
    signal(SIGPIPE, SIG_IGN);
    /* A recording that may not grow any more is an error of that recording. */
    signal(SIGXFSZ, SIG_IGN);
}

/* On a worker's thread. */
static void on_ready(void *user) {
    struct control *control = user;
    pthread_mutex_lock(&control->lock);
    control->begun = true;
    pthread_mutex_unlock(&control->lock);
    wakeup_notify(&control->wakeup);
}

static void *serve(void *user) {
    struct control *control = user;
    int error = server_run(control->server);
    pthread_mutex_lock(&control->lock);
    control->ended = true;
    control->error = error;
    wakeup_notify(&control->wakeup);
    pthread_cond_signal(&control->over);
    pthread_mutex_unlock(&control->lock);
    return NULL;
}

static void add_worker(struct status *status, const struct snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->stream_count; i++) {
        const struct snapshot_stream *stream = &snapshot->streams[i];
        status->streams += stream->live;
        status->players += stream->players;
        status->bits_per_second += stream->bits_per_second;
        status->frames += stream->live ? stream->video_frames + stream->audio_frames : 0;
    }
    status->blocks_held += snapshot->pool.held;
    status->blocks_max += snapshot->pool.max;
}

/* A part of the numbers would look like a fall. */
static void show_status(const struct worker_answer *answer, void *user) {
    struct control *control = user;
    struct status status = {0};
    char line[256];
    if (control->stopping || !worker_answer_is_whole(answer))
        return;
    for (size_t i = 0; i < answer->snapshots.count; i++)
        add_worker(&status, answer->snapshots.list[i]);
    uint64_t frames = status.frames > control->frames ? status.frames - control->frames : 0;
    control->frames = status.frames;
    snprintf(line, sizeof line, "streams %u | %.2f Mbit/s | %llu frames/s | blocks held %u / %u | subscribers %u",
             status.streams, (double)status.bits_per_second / 1e6, (unsigned long long)frames, status.blocks_held,
             status.blocks_max, status.players);
    log_status(line);
}

/* Nobody outside has to hear anything any more. */
static void on_left(void *user) {
    const struct control *control = user;
    event_base_loopbreak(control->base);
}

/* Hooks have been told of the end of everything. */
static void on_told(void *user) {
    struct control *control = user;
    if (control->cluster_client)
        cluster_client_finish(control->cluster_client, on_left, control);
    else
        on_left(control);
}

/* Other nodes are to go elsewhere. */
static void leave_cluster(void *user) {
    const struct control *control = user;
    if (control->cluster_client)
        cluster_client_leave(control->cluster_client);
}

static void add_sample(const struct worker_answer *answer, void *user) {
    const struct control *control = user;
    history_add(control->history, &answer->snapshots);
}

static void on_sample(evutil_socket_t fd, short what, void *user) {
    struct control *control = user;
    (void)fd;
    (void)what;
    if (!control->stopping)
        (void)worker_query_snapshot(control->worker_query, 0, add_sample, control);
}

static void on_day(evutil_socket_t fd, short what, void *user) {
    const struct control *control = user;
    (void)fd;
    (void)what;
    if (!control->stopping && !upgrade_is_over(control->upgrade))
        tls_expiry_warn(reload_tls(control->reload));
}

static void on_wake(void *user) {
    struct control *control = user;
    pthread_mutex_lock(&control->lock);
    bool begun = control->begun, ended = control->ended;
    control->begun = false;
    pthread_mutex_unlock(&control->lock);
    if (begun && !ended && !control->stopping) {
        LOG(LOG_INFO, "ready", {"version", SLUICE_VERSION});
        systemd_ready();
        on_sample(-1, 0, control);
    }
    if (ended)
        hook_delivery_finish(control->hook_delivery, on_told, control);
}

static void reload(struct control *control) {
    LOG(LOG_INFO, "reloading", {"signal", "SIGHUP"});
    int error = reload_start(control->reload, NULL, NULL);
    if (error)
        LOG(LOG_ERROR, "cannot reload", {"reason", error == -EBUSY ? "upgrade in progress" : "out of memory"});
}

static int start_upgrade(admin_upgraded_fn *done, void *user, void *upgrader) {
    return upgrade_start(upgrader, done, user);
}

static void upgrade(struct control *control) {
    int error = upgrade_start(control->upgrade, NULL, NULL);
    if (error)
        LOG(LOG_ERROR, "cannot upgrade",
            {"reason", error == -EBUSY ? "reload or upgrade in progress" : "out of memory"});
}

static void stop(struct control *control, int number) {
    control->stopping = true;
    /* The manager has heard of another process that is the service. */
    if (!upgrade_is_over(control->upgrade))
        systemd_stopping();
    log_status_end();
    LOG(LOG_INFO, "stopping", {"signal", number == SIGINT ? "SIGINT" : "SIGTERM"});
    upgrade_cancel(control->upgrade);
    leave_cluster(control);
    server_stop(control->server);
}

/* The other nodes have gone, too: there is nobody to leave clients to. */
static void on_alone(void *user) {
    struct control *control = user;
    if (!control->stopping)
        stop(control, SIGTERM);
}

/* Whether there are other nodes for the clients of this one: it leaves the cluster, and ends when
 * it is empty. */
static bool drain(struct control *control) {
    if (!control->cluster_client || control->draining || upgrade_is_over(control->upgrade) ||
        !cluster_client_seek_refuge(control->cluster_client, on_alone, control))
        return false;
    upgrade_cancel(control->upgrade);
    leave_cluster(control);
    if (evacuate_start(control->server) < 0)
        return false;
    control->draining = true;
    systemd_stopping();
    admin_drain(control->admin);
    log_status_end();
    LOG(LOG_INFO, "draining", {"signal", "SIGTERM"});
    return true;
}

static void on_signal(evutil_socket_t number, short what, void *user) {
    struct control *control = user;
    (void)what;
    if (control->stopping)
        return;
    if (number == SIGHUP)
        reload(control);
    else if (number == SIGUSR2)
        upgrade(control);
    else if (number == SIGINT || !drain(control))
        stop(control, number);
}

static void on_second(evutil_socket_t fd, short what, void *user) {
    struct control *control = user;
    (void)fd;
    (void)what;
    if (!control->stopping && !upgrade_is_over(control->upgrade))
        (void)worker_query_snapshot(control->worker_query, SNAPSHOT_STREAMS, show_status, control);
}

/* The workers are what has to be alive, each of them. */
static void say_alive(const struct worker_answer *answer, void *user) {
    (void)user;
    if (answer->answered == answer->snapshots.count)
        systemd_alive();
}

static void on_watchdog(evutil_socket_t fd, short what, void *user) {
    struct control *control = user;
    (void)fd;
    (void)what;
    /* After an upgrade the manager watches the other process. */
    if (!upgrade_is_over(control->upgrade))
        (void)worker_query_snapshot(control->worker_query, 0, say_alive, NULL);
}

static bool add_event(struct control *control, evutil_socket_t fd, short what, event_callback_fn call,
                      const struct timeval *time) {
    struct event *event = event_new(control->base, fd, what, call, control);
    if (!event)
        return false;
    control->events[control->event_count++] = event;
    return event_add(event, time) == 0;
}

static int open_cluster(struct control *control) {
    struct cluster_setup *cluster = control->cluster;
    const struct cluster_client_setup setup = {.base = control->base,
                                               .server = control->server,
                                               .loop = control->loop,
                                               .connector = control->connector,
                                               .worker_query = control->worker_query,
                                               .options = cluster ? cluster->options : NULL,
                                               .self = cluster ? &cluster->self : NULL,
                                               .address = cluster ? cluster->address : NULL,
                                               .is_secure = cluster && cluster->is_secure};
    return cluster ? cluster_client_new(&setup, &control->cluster_client) : 0;
}

static int open_control(struct control *control, const struct command_line *line, const struct options *options) {
    static const struct timeval second = {.tv_sec = 1}, sample = {.tv_sec = HISTORY_SECONDS}, day = {.tv_sec = 86400};
    control->base = event_base_new();
    if (!control->base)
        return -ENOMEM;
    int error = wakeup_init(&control->wakeup, control->base, on_wake, control);
    if (error)
        return error;
    bool added = true;
    for (size_t i = 0; i < sizeof handled_signals / sizeof *handled_signals; i++)
        added = added && add_event(control, handled_signals[i], EV_SIGNAL | EV_PERSIST, on_signal, NULL);
    added = added && connector_new(control->base, control->tls, &control->connector) == 0;
    added = added && control_loop_new(control->base, &control->loop) == 0;
    const char *node = control->cluster ? control->cluster->self.node : NULL;
    added = added &&
            hook_poster_new(control->base, control->loop, control->connector, node, &control->hook_poster) == 0;
    added = added && hook_client_new(control->base, control->hook_poster, &control->hook_client) == 0;
    added = added && reload_new(control->base, control->server, line, options, control->tls, &control->reload) == 0;
    added = added &&
            hook_delivery_new(control->base, control->hook_poster, control->reload, &control->hook_delivery) == 0;
    added = added && add_event(control, -1, EV_PERSIST, on_sample, &sample);
    added = added && add_event(control, -1, EV_PERSIST, on_day, &day);
    if (options->status)
        added = added && add_event(control, -1, EV_PERSIST, on_second, &second);
    /* Twice as often as it is wanted, as sd_watchdog_enabled(3) asks for. */
    const uint64_t watchdog_us = systemd_watchdog_us() / 2;
    const struct timeval watchdog = {.tv_sec = (time_t)(watchdog_us / 1000000),
                                     .tv_usec = (suseconds_t)(watchdog_us % 1000000)};
    if (watchdog_us > 0)
        added = added && add_event(control, -1, EV_PERSIST, on_watchdog, &watchdog);
    if (!added)
        return -ENOMEM;
    error = worker_query_new(control->base, control->server, &control->worker_query);
    error = error ? error : open_cluster(control);
    error = error ? error : history_new(server_worker_count(control->server), &control->history);
    error = error ? error
                  : admin_new(control->base, control->server, options, control->worker_query, control->reload,
                              control->hook_delivery, control->history, &control->admin);
    error = error
                ? error
                : upgrade_new(control->base, control->server, line, control->admin, control->reload, &control->upgrade);
    if (!error) {
        admin_set_upgrade(control->admin, start_upgrade, control->upgrade);
        admin_set_cluster(control->admin, control->cluster_client);
        upgrade_set_leaving(control->upgrade, leave_cluster, control);
    }
    return error;
}

/* A thread that may not end before the process does has nothing left to do when the run is over. */
static void join(struct control *control) {
    if (!control->has_thread)
        return;
    pthread_mutex_lock(&control->lock);
    while (!control->ended)
        pthread_cond_wait(&control->over, &control->lock);
    pthread_mutex_unlock(&control->lock);
    (void)(server_is_stuck(control->server) ? pthread_detach(control->thread) : pthread_join(control->thread, NULL));
    control->has_thread = false;
}

/* The process is about to end by itself: a signal that comes when its handler has gone would change
 * the status. */
static void hold_signals(void) {
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof handled_signals / sizeof *handled_signals; i++)
        sigaddset(&held, handled_signals[i]);
    (void)pthread_sigmask(SIG_BLOCK, &held, NULL);
}

void control_free(struct control *control) {
    if (!control)
        return;
    /* Where it has been started and not run. */
    server_cancel(control->server);
    join(control);
    /* A run that has failed leaves sessions, which end with the server: after this. */
    server_set_notifier(control->server, NULL, NULL);
    server_set_hook_asker(control->server, NULL, NULL);
    if (control->cluster)
        server_set_cluster(control->server, NULL, NULL, &control->cluster->self);
    hook_client_free(control->hook_client);
    cluster_client_close(control->cluster_client);
    worker_query_free(control->worker_query);
    upgrade_free(control->upgrade);
    reload_free(control->reload);
    admin_free(control->admin);
    history_free(control->history);
    hook_delivery_free(control->hook_delivery);
    connector_free(control->connector);
    control_loop_close(control->loop);
    hook_poster_free(control->hook_poster);
    cluster_client_free(control->cluster_client);
    control_loop_free(control->loop);
    hold_signals();
    for (size_t i = 0; i < control->event_count; i++)
        event_free(control->events[i]);
    wakeup_clear(&control->wakeup);
    if (control->base)
        event_base_free(control->base);
    pthread_cond_destroy(&control->over);
    pthread_mutex_destroy(&control->lock);
    free(control);
}

int control_new(struct server *server, const struct command_line *line, const struct options *options,
                struct tls_client *tls, struct cluster_setup *cluster, struct control **ret_control) {
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return -ENOMEM;
    control->server = server;
    control->tls = tls;
    control->cluster = cluster;
    control->wakeup.fd = -1;
    pthread_mutex_init(&control->lock, NULL);
    pthread_cond_init(&control->over, NULL);
    int error = open_control(control, line, options);
    if (!error)
        error = pulls_register(server, connector_take, control->connector);
    if (!error && cluster)
        error = edges_register(server);
    if (!error)
        error = forwards_register(server, connector_take, control->connector);
    if (!error)
        error = backups_register(server);
    if (error) {
        control_free(control);
        return error;
    }
    if (cluster)
        server_set_cluster(server, cluster_client_take, control->cluster_client, &cluster->self);
    server_set_hook_asker(server, hook_client_take, control->hook_client);
    server_set_notifier(server, hook_delivery_take, control->hook_delivery);
    server_set_ready(server, on_ready, control);
    *ret_control = control;
    return 0;
}

int control_start(struct control *control) {
    sigset_t all, before;
    /* The workers take no signals: they are the control plane's. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = server_start(control->server);
    if (!error)
        error = -pthread_create(&control->thread, NULL, serve, control);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    control->has_thread = !error;
    return error;
}

void control_take_over(struct control *control, int channel) {
    upgrade_take_over(control->upgrade, channel);
}

int control_run(struct control *control) {
    admin_begin(control->admin);
    server_begin(control->server);
    if (control->cluster_client)
        cluster_client_start(control->cluster_client);
    event_base_dispatch(control->base);
    /* Without the loops of the administration and of connections the base does not run either:
     * nothing could stop the server any more. */
    const int of_admin = admin_error(control->admin);
    const int failed = of_admin ? of_admin : control_loop_error(control->loop);
    if (failed) {
        LOG(LOG_ERROR, "stopping", {"reason", of_admin ? "administration failed" : "connections failed"},
            {"error", strerror(-failed)});
        server_stop(control->server);
    }
    join(control);
    log_status_end();
    if (failed)
        return failed;
    return !control->error && upgrade_is_lost(control->upgrade) ? -ECHILD : control->error;
}
