#include "daemon/server/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/access/ip_limit.h"
#include "daemon/base/fd_limit.h"
#include "daemon/base/log.h"
#include "daemon/base/tcp_delay.h"
#include "daemon/config/protocol.h"
#include "daemon/server/handshake_limit.h"
#include "shared/clock.h"

/*
 * Most that the kernel takes of a peer that does not take it in turn: two of the largest sends of
 * coalesce.c. What it has cannot be skipped, nor is it in --memory, and by itself it would take 4
 * MB.
 */
enum { UNSENT_BYTES = 256 << 10 };

/* What the workers' threads wait for, once they are there. */
enum gate { GATE_SHUT, GATE_OPEN, GATE_GONE };

struct server {
    const struct options *begun_with; /* what a reload does not change points into these */
    uint32_t worker_count;
    struct worker *workers;
    struct record_store *records; /* NULL: nothing is recorded */
    hook_query_fn *ask_hook;
    void *hook_client;
    cluster_ask_fn *ask_cluster; /* NULL: there is no cluster */
    void *cluster;
    const struct cluster_self *cluster_self;
    /* of the two below: recordings are repaired by a thread of their own */
    pthread_mutex_t notify_lock;
    hook_event_fn *notify;
    void *hook_delivery;
    pthread_mutex_t tls_lock;
    sluice_tls_context *tls; /* of new connections; NULL: there is none */
    uint64_t started_at;
    uint32_t thread_count; /* of workers behind the first one; those that are to be joined */
    void (*ready)(void *user);
    void *ready_user;
    pthread_mutex_t gate_lock; /* of the gate, and of which workers have ended */
    pthread_cond_t gate_changed;
    enum gate gate;
    int descriptors; /* a connection has one below that */

    /*
     * worker for a connection that any worker may have: the first worker's, which accepts for all
     */
    uint32_t next;

    /* Any thread's: */
    /* one for each worker that has not finished, each connection, and a reload */
    atomic_uint holds;
    atomic_uint connections;
    atomic_uint unready; /* workers that have not made a turn yet */
    atomic_bool stopping;
    atomic_bool replaced; /* another process has taken over */
    atomic_uint streams;
    atomic_bool over;         /* no loop is run any more */
    _Atomic uint64_t refused; /* connections over the limit, since there was last room */
    _Atomic uint64_t refusals[REJECT_CAUSES];
    struct ip_limit *addresses;
    struct handshake_limit *handshakes;
};

uint32_t server_worker_count(const struct server *server) {
    return server->worker_count;
}

struct worker *server_worker(struct server *server, uint32_t index) {
    return &server->workers[index];
}

uint64_t server_started_at(const struct server *server) {
    return server->started_at;
}

uint64_t server_refused(const struct server *server, enum reject_cause refusal) {
    return atomic_load_explicit(&server->refusals[refusal], memory_order_relaxed);
}

void server_count_reject(struct server *server, enum reject_cause refusal) {
    atomic_fetch_add_explicit(&server->refusals[refusal], 1, memory_order_relaxed);
}

uint64_t server_repaired(const struct server *server, enum recovery_result result) {
    return server->records ? recovery_count(server->records->repairs, result) : 0;
}

struct handshake_limit *server_handshakes(struct server *server) {
    return server->handshakes;
}

atomic_uint *server_stream_count(struct server *server) {
    return &server->streams;
}

const atomic_bool *server_over(const struct server *server) {
    return &server->over;
}

uint32_t server_connection_count(const struct server *server) {
    return atomic_load(&server->connections);
}

void server_replaced(struct server *server) {
    atomic_store(&server->replaced, true);
}

bool server_is_replaced(const struct server *server) {
    return atomic_load(&server->replaced);
}

bool server_is_stopping(const struct server *server) {
    return atomic_load(&server->stopping);
}

bool server_ask_hook(const struct server *server, struct hook_query *job) {
    if (server->ask_hook)
        server->ask_hook(server->hook_client, job);
    return server->ask_hook;
}

bool server_ask_cluster(const struct server *server, struct cluster_job *job) {
    if (server->ask_cluster)
        server->ask_cluster(server->cluster, job);
    return server->ask_cluster;
}

const struct cluster_self *server_cluster_self(const struct server *server) {
    return server->cluster_self;
}

uint64_t server_cluster_time(const struct server *server) {
    const int64_t offset = atomic_load_explicit(&server->cluster_self->engine_offset_ms, memory_order_relaxed);
    struct timespec now;
    if (offset != INT64_MIN)
        return clock_ms() + (uint64_t)offset;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void server_set_notifier(struct server *server, hook_event_fn *notify, void *hook_delivery) {
    pthread_mutex_lock(&server->notify_lock);
    server->notify = notify;
    server->hook_delivery = hook_delivery;
    pthread_mutex_unlock(&server->notify_lock);
}

void server_notify(struct server *server, struct hook_event *notice) {
    pthread_mutex_lock(&server->notify_lock);
    if (server->notify)
        server->notify(server->hook_delivery, notice);
    else
        hook_event_free(notice);
    pthread_mutex_unlock(&server->notify_lock);
}

void server_set_tls_context(struct server *server, sluice_tls_context *context) {
    sluice_tls_context *next = context ? sluice_tls_context_ref(context) : NULL;
    pthread_mutex_lock(&server->tls_lock);
    sluice_tls_context *last = server->tls;
    server->tls = next;
    pthread_mutex_unlock(&server->tls_lock);
    sluice_tls_context_unref(last);
}

sluice_tls_context *server_tls_context(struct server *server) {
    pthread_mutex_lock(&server->tls_lock);
    sluice_tls_context *context = server->tls ? sluice_tls_context_ref(server->tls) : NULL;
    pthread_mutex_unlock(&server->tls_lock);
    return context;
}

static void recorded(const struct record_done *done, void *user) {
    struct hook_event *notice = hook_event_recording(done);
    if (notice)
        server_notify(user, notice);
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

void server_add_connection(struct server *server) {
    (void)server_hold(server);
    atomic_fetch_add(&server->connections, 1);
}

void server_release_connection(struct server *server, const struct cidr_address *peer) {
    if (peer)
        ip_limit_remove(server->addresses, peer);
    atomic_fetch_sub(&server->connections, 1);
    if (atomic_load_explicit(&server->refused, memory_order_relaxed) > 0) {
        uint64_t refused = atomic_exchange(&server->refused, 0);
        if (refused > 0)
            LOG(LOG_WARNING, "accepting resumed", {"refused", log_unsigned(refused).text});
    }
    server_release(server);
}

void server_uncount_address(struct session *session) {
    if (session->is_uncounted)
        return;
    session->is_uncounted = true;
    ip_limit_remove(session->worker->server->addresses, &session->peer_address);
}

bool server_is_over(const struct server *server) {
    return atomic_load(&server->over);
}

/* Accepting. */

/* The worker that is to begin with a connection: its stream's owner where that is known, else each
 * in turn. */
static struct worker *choose(struct server *server, const struct handover *handover) {
    const struct protocol *protocol = handover->listener.protocol;
    if (protocol->stream) {
        char name[STREAM_NAME + 1];
        protocol->stream(handover, name);
        return server_owner(server, name, strlen(name));
    }
    uint32_t next = server->next;
    server->next = (next + 1) % server->worker_count;
    return &server->workers[next];
}

/* The connection is taken. */
static void hand_over(struct worker *first, struct handover *handover) {
    struct worker *worker = choose(first->server, handover);
    struct handover *sent = worker != first ? malloc(sizeof *sent) : NULL;
    if (worker == first) {
        handover_begin(worker, handover);
    } else if (sent) {
        *sent = *handover;
        handover_send(worker, sent);
    } else {
        handover_refuse(first, handover, -ENOMEM);
    }
}

static void turn_away(struct server *server, int fd, const struct listener_option *option, enum reject_cause refusal) {
    server_count_reject(server, refusal);
    reject_close(fd, option->protocol, refusal);
}

/* Whether there may be one connection more; where not, it has been told so and closed. */
static bool has_room(const struct worker *first, const struct listener_option *option, int fd) {
    struct server *server = first->server;
    bool many = atomic_load(&server->connections) >= first->options->max_connections;
    if (!many && fd < server->descriptors)
        return true;
    if (atomic_fetch_add(&server->refused, 1) == 0)
        LOG(LOG_WARNING, "connections refused",
            {"reason", many ? "--max-connections reached" : "open file limit reached"});
    turn_away(server, fd, option, REJECT_CONNECTIONS);
    return false;
}

/* The same of one more of that address, which is then counted. */
static bool admit(const struct worker *first, const struct handover *handover) {
    struct server *server = first->server;
    const struct cidr_address address = cidr_address(&handover->peer);
    uint64_t most = first->options->max_per_address;
    int error = ip_limit_add(server->addresses, &address, most ? most : UINT64_MAX);
    if (!error)
        return true;
    handover_log_refusal(handover, error == -EUSERS ? reject_reason(REJECT_PER_ADDRESS) : strerror(-error));
    if (error == -EUSERS)
        turn_away(server, handover->connection.fd, &handover->listener, REJECT_PER_ADDRESS);
    else
        close(handover->connection.fd);
    return false;
}

static bool is_proxy(const struct worker *first, const struct sockaddr_storage *peer) {
    const struct cidr_address address = cidr_address(peer);
    return proxies_has(&first->options->proxies, &address);
}

void server_tune_socket(int fd) {
    const int unsent = UNSENT_BYTES;
    tcp_delay_set(fd, false);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static void accepted(struct worker *first, const struct listener_option *option, int fd) {
    struct server *server = first->server;
    /* Nothing has been received, and there is no end to report. */
    struct handover handover = {.connection = {.fd = fd, .told = true}, .listener = *option};
    socklen_t length = sizeof handover.peer;

    if (first->draining || getpeername(fd, (struct sockaddr *)&handover.peer, &length) < 0) {
        close(fd);
        return;
    }
    bool proxied = is_proxy(first, &handover.peer);
    if (!has_room(first, option, fd) || (!proxied && !admit(first, &handover)))
        return;
    server_add_connection(server);
    server_tune_socket(fd);
    if (!proxied) {
        hand_over(first, &handover);
        return;
    }
    int error = session_start(handover_proxy_stage, first, &handover, NULL);
    if (error) {
        handover_log_refusal(&handover, strerror(-error));
        sluice_conn_handover_discard(&handover.connection);
        server_release_connection(server, NULL);
    }
}

/* The socket, for an answer: what has been received is not looked at. */
static int take_socket(sluice_conn_handover *connection) {
    int fd = connection->fd;
    connection->fd = -1;
    sluice_conn_handover_discard(connection);
    return fd;
}

void server_begin_proxied(struct worker *first, struct handover *handover) {
    if (admit(first, handover)) {
        hand_over(first, handover);
    } else {
        (void)take_socket(&handover->connection);
        server_release_connection(first->server, NULL);
    }
}

void server_reject_proxy(struct worker *first, struct handover *handover) {
    turn_away(first->server, take_socket(&handover->connection), &handover->listener, REJECT_PROXY_HEADER);
    server_release_connection(first->server, NULL);
}

/* Its life. */

static int open_workers(struct server *server) {
    server->workers = calloc(server->worker_count, sizeof *server->workers);
    int error = server->workers ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < server->worker_count && !error; i++)
        error = worker_open(&server->workers[i], server, i, server->begun_with, server->records);
    return error;
}

static int open_listeners(struct server *server) {
    struct worker *first = &server->workers[0];
    char reason[LISTENERS_ERROR];
    int error = listeners_new(first, accepted, &first->listeners);
    return error ? error : listeners_set(first->listeners, first->options, reason);
}

int server_new(const struct options *options, struct server **ret_server) {
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    server->begun_with = options_ref(options);
    server->worker_count = (uint32_t)options->workers;
    atomic_init(&server->holds, server->worker_count);
    atomic_init(&server->unready, server->worker_count);
    pthread_mutex_init(&server->notify_lock, NULL);
    pthread_mutex_init(&server->tls_lock, NULL);
    pthread_mutex_init(&server->gate_lock, NULL);
    pthread_cond_init(&server->gate_changed, NULL);
    server->descriptors = fd_limit_raise(options->max_connections);
    int error = ip_limit_new(&server->addresses);
    if (!error)
        error = handshake_limit_new(&server->handshakes);
    if (!error)
        error = record_store_new(&server->begun_with->record, &server->records);
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

static void move_gate(struct server *server, enum gate gate) {
    pthread_mutex_lock(&server->gate_lock);
    if (server->gate == GATE_SHUT)
        server->gate = gate;
    pthread_cond_broadcast(&server->gate_changed);
    pthread_mutex_unlock(&server->gate_lock);
}

/* Whether the run has begun; false when it never will. */
static bool pass_gate(struct server *server) {
    pthread_mutex_lock(&server->gate_lock);
    while (server->gate == GATE_SHUT)
        pthread_cond_wait(&server->gate_changed, &server->gate_lock);
    bool is_open = server->gate == GATE_OPEN;
    pthread_mutex_unlock(&server->gate_lock);
    return is_open;
}

void server_cancel(struct server *server) {
    move_gate(server, GATE_GONE);
}

static void wait_until_ended(struct server *server, const struct worker *worker) {
    pthread_mutex_lock(&server->gate_lock);
    while (!worker->has_ended)
        pthread_cond_wait(&server->gate_changed, &server->gate_lock);
    pthread_mutex_unlock(&server->gate_lock);
}

/*
 * The error of the first one that had one. The kernel does not let the thread of a worker that is
 * stuck end, as long as its ring has a worker in the file operation: it ends with the process.
 */
static int join_threads(struct server *server) {
    int error = 0;
    for (; server->thread_count > 0; server->thread_count--) {
        const struct worker *worker = &server->workers[server->thread_count];
        wait_until_ended(server, worker);
        (void)(worker->is_stuck ? pthread_detach(worker->thread) : pthread_join(worker->thread, NULL));
        error = error ? error : worker->error;
    }
    return error;
}

bool server_is_stuck(const struct server *server) {
    for (uint32_t i = 0; i < server->worker_count && server->workers; i++)
        if (server->workers[i].is_stuck)
            return true;
    return false;
}

bool server_free(struct server *server) {
    if (!server)
        return true;
    /* After a run that has failed there is still something, which goes now; none of it goes to
     * another loop. */
    atomic_store(&server->over, true);
    server_cancel(server);
    join_threads(server);
    bool repairs_ended = !server->records || recovery_end(server->records->repairs);
    if (server_is_stuck(server) || !repairs_ended)
        return false;
    for (uint32_t i = 0; i < server->worker_count && server->workers; i++)
        worker_close(&server->workers[i]);
    record_store_free(server->records);
    ip_limit_free(server->addresses);
    handshake_limit_free(server->handshakes);
    options_unref(server->begun_with);
    sluice_tls_context_unref(server->tls);
    pthread_mutex_destroy(&server->tls_lock);
    pthread_mutex_destroy(&server->notify_lock);
    pthread_cond_destroy(&server->gate_changed);
    pthread_mutex_destroy(&server->gate_lock);
    free(server->workers);
    free(server);
    return true;
}

int server_add_component(struct server *server, const struct component_type *type, void *user) {
    int error = 0;
    for (uint32_t i = 0; i < server->worker_count && !error; i++) {
        struct worker *worker = &server->workers[i];
        error = components_add(&worker->components, type, user, worker, worker->options);
    }
    return error;
}

void server_set_hook_asker(struct server *server, hook_query_fn *ask, void *worker_query) {
    server->ask_hook = ask;
    server->hook_client = worker_query;
}

void server_set_cluster(struct server *server, cluster_ask_fn *ask, void *cluster, const struct cluster_self *self) {
    server->ask_cluster = ask;
    server->cluster = cluster;
    server->cluster_self = self;
}

/* Without one worker the others are of no use; nothing goes from one to another any more. */
static void stop_others(struct server *server) {
    atomic_store(&server->over, true);
    for (uint32_t i = 0; i < server->worker_count; i++)
        sluice_loop_stop(server->workers[i].loop);
}

/* What is still being closed ends on this thread: no other one can make turns of the loop. */
static int run_worker(struct worker *worker) {
    int error = sluice_loop_run(worker->loop);
    error = error ? error : worker_end(worker);
    if (error)
        stop_others(worker->server);
    return error;
}

static void *run_thread(void *user) {
    struct worker *worker = user;
    struct server *server = worker->server;
    if (pass_gate(server))
        worker->error = run_worker(worker);
    pthread_mutex_lock(&server->gate_lock);
    worker->has_ended = true;
    pthread_cond_broadcast(&server->gate_changed);
    pthread_mutex_unlock(&server->gate_lock);
    return NULL;
}

/* Not bound to a core: the kernel knows better where there is one to spare. */
static int start_thread(struct worker *worker) {
    char name[16];
    int error = -pthread_create(&worker->thread, NULL, run_thread, worker);
    if (error) {
        LOG(LOG_ERROR, "cannot start worker", {"reason", strerror(-error)});
        return error;
    }
    snprintf(name, sizeof name, "worker %u", worker->index % 10000);
    (void)pthread_setname_np(worker->thread, name);
    return 0;
}

int server_start(struct server *server) {
    int error = 0;
    while (server->thread_count + 1 < server->worker_count && !error) {
        error = start_thread(&server->workers[server->thread_count + 1]);
        server->thread_count += !error;
    }
    return error;
}

void server_set_ready(struct server *server, void (*ready)(void *user), void *user) {
    server->ready = ready;
    server->ready_user = user;
}

/* A worker makes its first turn. */
static void turn(void *user) {
    const struct worker *worker = user;
    struct server *server = worker->server;
    if (!server_is_over(server) && atomic_fetch_sub(&server->unready, 1) == 1 && server->ready)
        server->ready(server->ready_user);
}

void server_begin(struct server *server) {
    int error = server->records ? record_store_begin(server->records, recorded, server) : 0;
    /* No reason not to serve: they are repaired at the next start. */
    if (error)
        LOG(LOG_ERROR, "cannot repair recordings", {"reason", strerror(-error)});
    for (uint32_t i = 0; i < server->worker_count; i++)
        sluice_loop_post_call(server->workers[i].loop, &server->workers[i].ready_call, turn, &server->workers[i]);
    move_gate(server, GATE_OPEN);
}

void server_repair_recordings(struct server *server) {
    int error = server->records ? record_store_repair(server->records) : 0;
    if (error)
        LOG(LOG_ERROR, "cannot repair recordings", {"reason", strerror(-error)});
}

int server_run(struct server *server) {
    if (!pass_gate(server))
        return 0;
    (void)pthread_setname_np(pthread_self(), "worker 0");
    int error = run_worker(&server->workers[0]);
    int other = join_threads(server);
    return error ? error : other;
}

/* Stopping: the first worker, which accepts, before the others. */

static void drain(void *user) {
    struct worker *worker = user;
    struct server *server = worker->server;
    /* A run that has not begun is being taken apart already. */
    if (worker->draining)
        return;
    listeners_free(worker->listeners);
    worker->listeners = NULL;
    for (uint32_t i = 1; worker->index == 0 && i < server->worker_count; i++)
        sluice_loop_post_call(server->workers[i].loop, &server->workers[i].drain_call, drain, &server->workers[i]);
    worker_drain(worker);
}

void server_stop(struct server *server) {
    if (!atomic_exchange(&server->stopping, true))
        sluice_loop_post_call(server->workers[0].loop, &server->workers[0].drain_call, drain, &server->workers[0]);
}
