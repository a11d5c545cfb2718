#include "daemon/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/flv_session.h"
#include "daemon/http_session.h"
#include "daemon/log.h"
#include "daemon/rtsp_session.h"

struct server_listener {
    struct server *server;
    const struct listener_option *option;
    sluice_listener *listener;
};

struct server {
    const struct options *options;
    struct users *rtsp_users; /* NULL: everybody */
    uint32_t worker_count;
    struct worker *workers;
    uint64_t started_at;

    /* The first worker's: it accepts for all. */
    struct server_listener *listeners;
    uint32_t next; /* worker for a connection that may be anybody's */

    /* Any thread's: */
    atomic_uint holds; /* one for each worker that does not stop yet, each connection, and each question */
    atomic_bool stopping;
    atomic_bool over;         /* no loop is run any more */
    _Atomic uint64_t refused; /* connections over the limit */
};

const struct options *server_options(const struct server *server) {
    return server->options;
}

const struct users *server_rtsp_users(const struct server *server) {
    return server->rtsp_users;
}

uint32_t server_worker_count(const struct server *server) {
    return server->worker_count;
}

struct worker *server_worker(struct server *server, uint32_t index) {
    return &server->workers[index];
}

uint64_t server_started_at(const struct server *server) {
    return server->started_at;
}

struct worker *server_owner(struct server *server, const char *name, size_t length) {
    return &server->workers[(uint64_t)stream_name_hash(name, length) * server->worker_count >> 32];
}

/* Holds. */

static void stop_loop(void *user) {
    const struct worker *worker = user;
    sluice_loop_stop(worker->loop);
}

/* By a call and not at once: what the workers have closed last is still to go. */
static void stop_loops(struct server *server) {
    for (uint32_t i = 0; i < server->worker_count; i++)
        sluice_loop_post_call(server->workers[i].loop, &server->workers[i].stop_call, stop_loop, &server->workers[i]);
}

bool server_hold(struct server *server) {
    unsigned holds = atomic_load(&server->holds);
    while (holds > 0)
        if (atomic_compare_exchange_weak(&server->holds, &holds, holds + 1))
            return true;
    return false;
}

void server_release(struct server *server) {
    if (atomic_fetch_sub(&server->holds, 1) == 1 && !server_is_over(server))
        stop_loops(server);
}

void server_release_connection(struct server *server) {
    if (atomic_load_explicit(&server->refused, memory_order_relaxed) > 0) {
        uint64_t refused = atomic_exchange(&server->refused, 0);
        if (refused > 0)
            LOG(LOG_WARNING, "connections accepted again", {"refused", log_unsigned(refused).text});
    }
    server_release(server);
}

bool server_is_over(const struct server *server) {
    return atomic_load(&server->over);
}

/* Accepting. */

static const char *protocol_name(enum listener_protocol protocol) {
    static const char *const names[] = {[LISTENER_FLV] = "flv", [LISTENER_HTTP] = "http", [LISTENER_RTSP] = "rtsp"};
    return names[protocol];
}

static void refuse(struct server *server, int fd, const struct listener_option *option, int error) {
    if (error != -ESHUTDOWN)
        LOG(LOG_ERROR, "connection refused", {"proto", protocol_name(option->protocol)}, {"reason", strerror(-error)});
    close(fd);
    server_release_connection(server);
}

/* A connection begins, on the worker's thread. */
static void begin(struct worker *worker, int fd, const struct sockaddr_storage *peer,
                  const struct listener_option *option) {
    int error = -ESHUTDOWN;
    if (!worker->draining && option->protocol == LISTENER_FLV)
        error = flv_session_start(worker, fd, peer, option);
    else if (!worker->draining && option->protocol == LISTENER_RTSP)
        error = rtsp_session_start(worker, fd, peer, option);
    else if (!worker->draining)
        error = http_session_start(worker, fd, peer, option);
    if (error)
        refuse(worker->server, fd, option, error);
}

/* A connection on its way to a worker. */
struct arrival {
    sluice_call call;
    struct worker *worker;
    const struct listener_option *option;
    struct sockaddr_storage peer;
    int fd;
};

static void arrive(void *user) {
    struct arrival *arrival = user;
    begin(arrival->worker, arrival->fd, &arrival->peer, arrival->option);
    free(arrival);
}

/* The worker that is to begin with a connection: its stream's owner where that is known, else each in turn. */
static struct worker *choose(struct server *server, const struct listener_option *option,
                             const struct sockaddr_storage *peer) {
    if (option->protocol == LISTENER_FLV) {
        char name[STREAM_NAME + 1];
        flv_session_name(option, address_port(peer), name);
        return server_owner(server, name, strlen(name));
    }
    uint32_t next = server->next;
    server->next = (next + 1) % server->worker_count;
    return &server->workers[next];
}

static void hand_over(struct server *server, int fd, const struct sockaddr_storage *peer,
                      const struct listener_option *option) {
    struct worker *worker = choose(server, option, peer);
    if (worker->index == 0) {
        begin(worker, fd, peer, option);
        return;
    }
    struct arrival *arrival = malloc(sizeof *arrival);
    if (!arrival) {
        refuse(server, fd, option, -ENOMEM);
        return;
    }
    *arrival = (struct arrival){.worker = worker, .option = option, .peer = *peer, .fd = fd};
    sluice_loop_post_call(worker->loop, &arrival->call, arrive, arrival);
}

static void accepted(sluice_listener *listener, int fd, void *user) {
    const struct server_listener *from = user;
    struct server *server = from->server;
    struct sockaddr_storage peer = {0};
    socklen_t length = sizeof peer;
    const int on = 1;
    (void)listener;

    if (server->workers[0].draining || getpeername(fd, (struct sockaddr *)&peer, &length) < 0) {
        close(fd);
        return;
    }
    if (atomic_load(&server->holds) - server->worker_count >= server->options->max_connections) {
        close(fd);
        if (atomic_fetch_add(&server->refused, 1) == 0)
            LOG(LOG_WARNING, "connections refused", {"reason", "--max-connections is reached"});
        return;
    }
    /* The worker, which does not drain, holds the run itself. */
    (void)server_hold(server);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    hand_over(server, fd, &peer, from->option);
}

static int open_listener(struct server *server, const struct listener_option *option, struct server_listener *ret) {
    const struct sockaddr *address = (const struct sockaddr *)&option->address;
    char text[ADDRESS_TEXT];
    struct sockaddr_storage bound;

    *ret = (struct server_listener){.server = server, .option = option};
    int error = sluice_listener_new(server->workers[0].loop, address, address_length(&option->address), accepted, ret,
                                    &ret->listener);
    if (!error)
        error = sluice_listener_address(ret->listener, &bound);
    address_format(error ? &option->address : &bound, text);
    if (error)
        LOG(LOG_ERROR, "cannot listen", {"proto", protocol_name(option->protocol)}, {"address", text},
            {"reason", strerror(-error)});
    else
        LOG(LOG_INFO, "listening", {"proto", protocol_name(option->protocol)}, {"address", text});
    return error;
}

static int open_listeners(struct server *server) {
    const struct options *options = server->options;
    server->listeners = calloc(options->listener_count, sizeof *server->listeners);
    if (!server->listeners)
        return -ENOMEM;
    for (size_t i = 0; i < options->listener_count; i++) {
        int error = open_listener(server, &options->listeners[i], &server->listeners[i]);
        if (error)
            return error;
    }
    return 0;
}

/* Its life. */

static int load_users(struct server *server) {
    char text[USERS_ERROR];
    if (!server->options->rtsp_users)
        return 0;
    int error = users_load(server->options->rtsp_users, &server->rtsp_users, text);
    if (error)
        LOG(LOG_ERROR, "cannot read the users", {"reason", text});
    return error;
}

static int open_workers(struct server *server) {
    server->workers = calloc(server->worker_count, sizeof *server->workers);
    int error = server->workers ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < server->worker_count && !error; i++)
        error = worker_open(&server->workers[i], server, i);
    return error;
}

int server_new(const struct options *options, struct server **ret_server) {
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    server->options = options;
    server->worker_count = (uint32_t)options->workers;
    atomic_init(&server->holds, server->worker_count);
    int error = load_users(server);
    if (!error)
        error = open_workers(server);
    if (!error)
        error = open_listeners(server);
    if (error) {
        server_free(server);
        return error;
    }
    server->started_at = worker_now(&server->workers[0]);
    *ret_server = server;
    return 0;
}

void server_free(struct server *server) {
    if (!server)
        return;
    /* After a run that has failed there is still something, which goes now; none of it goes to another loop. */
    atomic_store(&server->over, true);
    for (uint32_t i = 0; i < server->worker_count && server->workers; i++)
        worker_close(&server->workers[i]);
    users_free(server->rtsp_users);
    free(server->listeners);
    free(server->workers);
    free(server);
}

void server_set_connector(struct server *server, connect_fn *connect, void *connector) {
    for (uint32_t i = 0; i < server->worker_count; i++)
        pulls_set_connector(server->workers[i].pulls, connect, connector);
}

/* Without one worker the others are of no use. */
static void stop_others(struct server *server) {
    for (uint32_t i = 0; i < server->worker_count; i++)
        sluice_loop_stop(server->workers[i].loop);
}

static int run_worker(struct worker *worker) {
    int error = sluice_loop_run(worker->loop);
    if (error)
        stop_others(worker->server);
    return error;
}

static void *run_thread(void *user) {
    struct worker *worker = user;
    worker->error = run_worker(worker);
    return NULL;
}

/* Not bound to a core: the kernel knows better where there is one to spare. */
static int start_thread(struct worker *worker) {
    char name[16];
    int error = -pthread_create(&worker->thread, NULL, run_thread, worker);
    if (error) {
        LOG(LOG_ERROR, "cannot start a worker", {"reason", strerror(-error)});
        return error;
    }
    snprintf(name, sizeof name, "worker %u", worker->index % 10000);
    (void)pthread_setname_np(worker->thread, name);
    return 0;
}

int server_run(struct server *server) {
    uint32_t started = 1;
    int error = 0;
    (void)pthread_setname_np(pthread_self(), "worker 0");
    for (; started < server->worker_count && !error; started += !error)
        error = start_thread(&server->workers[started]);
    if (error)
        stop_others(server);
    else
        error = run_worker(&server->workers[0]);
    for (uint32_t i = 1; i < started; i++) {
        (void)pthread_join(server->workers[i].thread, NULL);
        error = error ? error : server->workers[i].error;
    }
    return error;
}

/* Stopping: the first worker, which accepts, before the others. */

static void drain(void *user) {
    struct worker *worker = user;
    struct server *server = worker->server;
    for (size_t i = 0; worker->index == 0 && i < server->options->listener_count; i++)
        sluice_listener_free(server->listeners[i].listener);
    worker_drain(worker);
    for (uint32_t i = 1; worker->index == 0 && i < server->worker_count; i++)
        sluice_loop_post_call(server->workers[i].loop, &server->workers[i].drain_call, drain, &server->workers[i]);
    server_release(server);
}

void server_stop(struct server *server) {
    if (!atomic_exchange(&server->stopping, true))
        sluice_loop_post_call(server->workers[0].loop, &server->workers[0].drain_call, drain, &server->workers[0]);
}
