#include "daemon/control.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/control_connect.h"
#include "daemon/log.h"
#include "daemon/snapshot.h"

/* What the status line shows. */
struct status {
    uint32_t live, blocks_held, blocks_max;
    uint64_t players, bits_per_second, frames;
};

struct control {
    struct server *server;
    struct event_base *base;
    struct event *events[5];
    size_t event_count;
    struct connector *connector;
    int wake_fd; /* the server's thread has something to tell */
    bool stopping;

    pthread_mutex_t lock; /* of the fields below */
    struct status status;
    bool has_status;
    bool ended;
    int error;

    uint64_t frames; /* at the last status line */
};

static const int handled_signals[] = {SIGINT, SIGTERM, SIGHUP};

void control_prepare(void) {
    signal(SIGPIPE, SIG_IGN);
}

static void tell(struct control *control) {
    uint64_t one = 1;
    (void)!write(control->wake_fd, &one, sizeof one);
}

static void *serve(void *user) {
    struct control *control = user;
    int error = server_run(control->server);
    pthread_mutex_lock(&control->lock);
    control->ended = true;
    control->error = error;
    pthread_mutex_unlock(&control->lock);
    tell(control);
    return NULL;
}

/* On a worker's thread. */
static void take_status(const struct snapshot *snapshot, void *user) {
    struct control *control = user;
    struct status status = {0};
    if (!snapshot)
        return;
    for (uint32_t i = 0; i < snapshot->worker_count; i++) {
        const struct worker_snapshot *worker = &snapshot->workers[i];
        status.live += worker->live;
        status.players += worker->player_count;
        status.bits_per_second += worker->bits_per_second;
        status.frames += worker->frames;
        status.blocks_held += worker->pool.held;
        status.blocks_max += worker->pool.max;
    }
    pthread_mutex_lock(&control->lock);
    control->status = status;
    control->has_status = true;
    pthread_mutex_unlock(&control->lock);
    tell(control);
}

static void show_status(struct control *control, const struct status *status) {
    char line[256];
    uint64_t frames = status->frames > control->frames ? status->frames - control->frames : 0;
    control->frames = status->frames;
    snprintf(line, sizeof line, "streams %u | %.2f Mbit/s | %llu frames/s | blocks held %u / %u | subscribers %llu",
             status->live, (double)status->bits_per_second / 1e6, (unsigned long long)frames, status->blocks_held,
             status->blocks_max, (unsigned long long)status->players);
    log_status(line);
}

static void on_wake(evutil_socket_t fd, short what, void *user) {
    struct control *control = user;
    uint64_t count;
    (void)what;
    (void)!read(fd, &count, sizeof count);
    pthread_mutex_lock(&control->lock);
    struct status status = control->status;
    bool has_status = control->has_status, ended = control->ended;
    control->has_status = false;
    pthread_mutex_unlock(&control->lock);
    if (has_status)
        show_status(control, &status);
    if (ended)
        event_base_loopbreak(control->base);
}

static void on_signal(evutil_socket_t number, short what, void *user) {
    struct control *control = user;
    (void)what;
    if (number == SIGHUP || control->stopping)
        return;
    control->stopping = true;
    log_status_end();
    LOG(LOG_INFO, "stopping", {"signal", number == SIGINT ? "SIGINT" : "SIGTERM"});
    server_stop(control->server);
}

static void on_second(evutil_socket_t fd, short what, void *user) {
    struct control *control = user;
    (void)fd;
    (void)what;
    if (!control->stopping)
        (void)server_snapshot(control->server, 0, NULL, take_status, control);
}

static bool add_event(struct control *control, evutil_socket_t fd, short what, event_callback_fn call,
                      const struct timeval *time) {
    struct event *event = event_new(control->base, fd, what, call, control);
    if (!event)
        return false;
    control->events[control->event_count++] = event;
    return event_add(event, time) == 0;
}

static bool open_control(struct control *control, bool status) {
    static const struct timeval second = {.tv_sec = 1};
    control->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    control->base = event_base_new();
    if (control->wake_fd < 0 || !control->base)
        return false;
    bool added = add_event(control, control->wake_fd, EV_READ | EV_PERSIST, on_wake, NULL);
    for (size_t i = 0; i < sizeof handled_signals / sizeof *handled_signals; i++)
        added = added && add_event(control, handled_signals[i], EV_SIGNAL | EV_PERSIST, on_signal, NULL);
    added = added && connector_new(control->base, &control->connector) == 0;
    if (status)
        added = added && add_event(control, -1, EV_PERSIST, on_second, &second);
    return added;
}

static void close_control(struct control *control) {
    connector_free(control->connector);
    for (size_t i = 0; i < control->event_count; i++)
        event_free(control->events[i]);
    if (control->base)
        event_base_free(control->base);
    if (control->wake_fd >= 0)
        close(control->wake_fd);
    pthread_mutex_destroy(&control->lock);
}

int control_run(struct server *server, bool status) {
    struct control control = {.server = server, .wake_fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    sigset_t all, before;
    int error = open_control(&control, status) ? 0 : -ENOMEM;
    if (!error) {
        server_set_connector(server, connector_take, control.connector);
        /* The server's thread takes no signals: they are the control plane's. */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        error = -pthread_create(&thread, NULL, serve, &control);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!error) {
        event_base_dispatch(control.base);
        pthread_join(thread, NULL);
        error = control.error;
    }
    log_status_end();
    close_control(&control);
    return error;
}
