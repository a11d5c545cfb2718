#include "daemon/control/cluster_client.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/log.h"
#include "daemon/control/cluster_actions.h"
#include "daemon/control/snapshot.h"
#include "daemon/control/wakeup.h"
#include "daemon/control/worker_query.h"
#include "daemon/edge/edge.h"
#include "daemon/server/refuge.h"
#include "shared/clock.h"

struct cluster_client {
    struct server *server;
    struct worker_query *worker_query;
    struct cluster_self *self;
    struct cluster_engine *engine;
    struct cluster_node *node; /* NULL: closed */
    struct wakeup wakeup;
    struct cluster_actions actions;
    struct event *ticks, *loads, *end;
    void (*no_refuge)(void *user); /* the node drains; or NULL */
    void *drain_user;
    bool is_loading;          /* the workers have been asked for their load */
    uint64_t cpu_ns, load_at; /* the last time; 0: not yet */
    struct cluster_counts counts;
    void (*done)(void *user); /* of cluster_client_finish() */
    void *user;

    pthread_mutex_t lock; /* of the fields below */
    struct cluster_job *first, **last;
};

/* ---- Questions ---- */

static void come_back(void *user) {
    struct cluster_job *job = user;
    job->done(job);
}

static void give_back(struct cluster_job *job) {
    if (job->loop)
        sluice_loop_post_call(job->loop, &job->call, come_back, job);
    else
        come_back(job);
}

void cluster_client_take(void *user, struct cluster_job *job) {
    struct cluster_client *client = user;
    job->next = NULL;
    job->asked_ns = clock_ns();
    pthread_mutex_lock(&client->lock);
    const bool is_first = !client->first;
    *client->last = job;
    client->last = &job->next;
    pthread_mutex_unlock(&client->lock);
    if (is_first)
        wakeup_notify(&client->wakeup);
}

static struct cluster_job *take_all(struct cluster_client *client) {
    pthread_mutex_lock(&client->lock);
    struct cluster_job *first = client->first;
    client->first = NULL;
    client->last = &client->first;
    pthread_mutex_unlock(&client->lock);
    return first;
}

static void on_wake(void *user) {
    struct cluster_client *client = user;
    struct cluster_job *job = take_all(client);
    const uint64_t now = clock_ms();
    while (job) {
        struct cluster_job *next = job->next;
        cluster_node_ask(client->node, job, now);
        job = next;
    }
}

void cluster_client_ask(struct cluster_client *client, struct cluster_job *job) {
    job->asked_ns = clock_ns();
    if (client->node) {
        cluster_node_ask(client->node, job, clock_ms());
        return;
    }
    job->error = -ESHUTDOWN;
    give_back(job);
}

/* ---- What the node does ---- */

static bool on_send(void *user, const struct cluster_command *command) {
    const struct cluster_client *client = user;
    return cluster_engine_send(client->engine, command);
}

static void on_answer(void *user, struct cluster_job *job) {
    struct cluster_client *client = user;
    cluster_counts_add(&client->counts, job, !cluster_engine_is_ready(client->engine));
    give_back(job);
}

static void on_changed(void *user, const char *stream, enum cluster_change change,
                       const struct cluster_location *location) {
    struct cluster_client *client = user;
    client->counts.claims_lost += change == CLUSTER_SUPERSEDED;
    if (edge_post_change(client->server, stream, change, location) < 0)
        LOG(LOG_ERROR, "cluster change lost", {"stream", stream}, {"reason", "out of memory"});
}

static bool on_told(void *user, const struct cluster_event *event) {
    struct cluster_client *client = user;
    int error = cluster_actions_take(&client->actions, event);
    if (error)
        LOG(LOG_ERROR, "kick or ban lost", {"stream", event->stream}, {"node", event->location.node},
            {"reason", strerror(-error)});
    return !error;
}

static void on_bans_step(void *user, enum cluster_bans_step step) {
    struct cluster_client *client = user;
    int error = cluster_actions_take_step(&client->actions, step);
    if (error)
        LOG(LOG_ERROR, "bans kept", {"reason", strerror(-error)});
}

static void on_state(void *user, enum cluster_node_state state) {
    const struct cluster_client *client = user;
    const char *node = client->self->node;
    if (state == CLUSTER_NODE_ONLINE)
        LOG(LOG_INFO, "cluster joined", {"node", node});
    else if (state == CLUSTER_NODE_REPLACED)
        LOG(LOG_ERROR, "cluster node replaced", {"node", node},
            {"reason", "another process has joined with this name later"});
    else if (state == CLUSTER_NODE_LEFT)
        LOG(LOG_INFO, "cluster left", {"node", node});
}

static const struct cluster_node_calls node_calls = {
    .send = on_send,
    .answer = on_answer,
    .changed = on_changed,
    .told = on_told,
    .bans_step = on_bans_step,
    .state_changed = on_state,
};

/* ---- What the engine does ---- */

/* The pulls of other nodes are verified by it. */
static void keep_time(const struct cluster_client *client) {
    atomic_store_explicit(&client->self->engine_offset_ms, cluster_node_engine_offset_ms(client->node),
                          memory_order_relaxed);
}

static void end_if_left(struct cluster_client *client) {
    struct cluster_engine_status status;
    cluster_engine_get_status(client->engine, &status);
    if (client->done && (status.state != CLUSTER_ENGINE_READY || status.waiting == 0))
        event_active(client->end, EV_TIMEOUT, 1);
}

static void on_ready(void *user) {
    const struct cluster_client *client = user;
    cluster_node_connected(client->node, clock_ms());
}

static void on_lost(void *user) {
    struct cluster_client *client = user;
    cluster_node_disconnected(client->node, clock_ms());
    end_if_left(client);
}

static void on_replied(void *user, uint64_t tag, const struct cluster_reply *reply) {
    struct cluster_client *client = user;
    cluster_node_replied(client->node, tag, reply, clock_ms());
    keep_time(client);
    end_if_left(client);
}

static void on_heard(void *user, const struct cluster_event *event) {
    const struct cluster_client *client = user;
    cluster_node_heard(client->node, event, clock_ms());
}

static const struct cluster_engine_calls engine_calls = {
    .ready = on_ready, .lost = on_lost, .replied = on_replied, .heard = on_heard};

/* ---- Other nodes for clients of this one ---- */

struct places {
    const struct cluster_client *client;
    struct refuge_place list[REFUGE_MOST];
    uint32_t players[REFUGE_MOST]; /* rising */
    size_t count;
};

static void add_place(const struct cluster_peer *peer, void *user) {
    struct places *places = user;
    const struct cluster_client *client = places->client;
    size_t at = places->count;
    if (!*peer->address || strcmp(peer->name, client->self->node) == 0 ||
        !cluster_node_is_alive(client->node, peer->name, clock_ms()))
        return;
    while (at > 0 && places->players[at - 1] > peer->load.players)
        at--;
    if (at == REFUGE_MOST)
        return;
    places->count += places->count < REFUGE_MOST;
    memmove(&places->list[at + 1], &places->list[at], (places->count - 1 - at) * sizeof places->list[0]);
    memmove(&places->players[at + 1], &places->players[at], (places->count - 1 - at) * sizeof places->players[0]);
    snprintf(places->list[at].address, sizeof places->list[at].address, "%s", peer->address);
    places->list[at].is_secure = peer->is_secure;
    places->players[at] = peer->load.players;
}

static bool seek_refuge(const struct cluster_client *client) {
    struct places places = {.client = client};
    cluster_node_each_peer(client->node, add_place, &places);
    refuge_set(client->self->refuge, places.list, places.count);
    return places.count > 0;
}

static void seek_again(struct cluster_client *client) {
    void (*none)(void *user) = client->no_refuge;
    if (!none || seek_refuge(client))
        return;
    client->no_refuge = NULL;
    none(client->drain_user);
}

bool cluster_client_seek_refuge(struct cluster_client *client, void (*none)(void *user), void *user) {
    if (!seek_refuge(client))
        return false;
    client->no_refuge = none;
    client->drain_user = user;
    return true;
}

/* ---- Time and load ---- */

static void on_tick(evutil_socket_t fd, short what, void *user) {
    const struct cluster_client *client = user;
    (void)fd, (void)what;
    cluster_node_tick(client->node, clock_ms());
}

static uint64_t process_cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Of a core, since the last time. */
static uint32_t cpu_permille(struct cluster_client *client) {
    const uint64_t cpu = process_cpu_ns(), now = clock_ns(), before = client->load_at;
    const uint64_t used = cpu - client->cpu_ns, passed = now - before;
    client->cpu_ns = cpu;
    client->load_at = now;
    return before == 0 || passed == 0 ? 0 : (uint32_t)(used * 1000 / passed);
}

static void on_load(const struct worker_answer *answer, void *user) {
    struct cluster_client *client = user;
    struct cluster_load load = {0};
    client->is_loading = false;
    if (!client->node || !worker_answer_is_whole(answer))
        return;
    for (size_t i = 0; i < answer->snapshots.count; i++) {
        const struct snapshot_sums *sums = &answer->snapshots.list[i]->sums;
        load.streams += (uint32_t)sums->live;
        load.players += (uint32_t)sums->players;
        load.bits_per_second += sums->bits_per_second;
    }
    load.cpu_permille = cpu_permille(client);
    cluster_node_set_load(client->node, &load);
}

static void on_load_time(evutil_socket_t fd, short what, void *user) {
    struct cluster_client *client = user;
    (void)fd, (void)what;
    seek_again(client);
    if (!client->is_loading)
        client->is_loading = worker_query_snapshot(client->worker_query, SNAPSHOT_SUMS, on_load, client) == 0;
}

/* ---- Beginning and end ---- */

static void on_end(evutil_socket_t fd, short what, void *user) {
    struct cluster_client *client = user;
    void (*done)(void *user) = client->done;
    (void)fd, (void)what;
    client->done = NULL;
    if (done)
        done(client->user);
}

void cluster_client_start(struct cluster_client *client) {
    static const struct timeval tick = {.tv_usec = CLUSTER_CLIENT_TICK_MS * 1000},
                                load = {.tv_sec = CLUSTER_CLIENT_LOAD_MS / 1000,
                                        .tv_usec = CLUSTER_CLIENT_LOAD_MS % 1000 * 1000};
    (void)event_add(client->ticks, &tick);
    (void)event_add(client->loads, &load);
    cluster_engine_start(client->engine);
}

void cluster_client_leave(struct cluster_client *client) {
    cluster_node_leave(client->node, clock_ms());
}

void cluster_client_finish(struct cluster_client *client, void (*done)(void *user), void *user) {
    static const struct timeval time = {.tv_sec = CLUSTER_CLIENT_FINISH_MS / 1000,
                                        .tv_usec = CLUSTER_CLIENT_FINISH_MS % 1000 * 1000};
    client->done = done;
    client->user = user;
    (void)evtimer_add(client->end, &time);
    end_if_left(client);
}

void cluster_client_close(struct cluster_client *client) {
    struct cluster_job *job;
    if (!client || !client->node)
        return;
    cluster_engine_stop(client->engine);
    wakeup_stop(&client->wakeup);
    event_del(client->ticks);
    event_del(client->loads);
    event_del(client->end);
    cluster_node_abandon(client->node);
    while ((job = take_all(client))) {
        for (struct cluster_job *next; job; job = next) {
            next = job->next;
            job->error = -ESHUTDOWN;
            give_back(job);
        }
    }
    cluster_node_free(client->node);
    client->node = NULL;
}

void cluster_client_free(struct cluster_client *client) {
    if (!client)
        return;
    cluster_client_close(client);
    cluster_engine_free(client->engine);
    struct event *const events[] = {client->ticks, client->loads, client->end};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    wakeup_clear(&client->wakeup);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

static int open_node(struct cluster_client *client, const struct cluster_client_setup *setup) {
    const uint64_t most = setup->options->max_streams;
    struct timespec wall;
    struct cluster_node_options options = {.name = setup->self->node,
                                           .address = setup->address,
                                           .is_secure = setup->is_secure,
                                           .refuses_when_down = setup->options->cluster.down == CLUSTER_DOWN_REFUSE,
                                           .most_streams = CLUSTER_CLIENT_STREAMS};
    if (most > CLUSTER_CLIENT_STREAMS)
        options.most_streams = most;
    if (getrandom(&options.random, sizeof options.random, 0) != sizeof options.random)
        return -EIO;
    clock_gettime(CLOCK_REALTIME, &wall);
    options.clock_offset_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000 - (int64_t)clock_ms();
    return cluster_node_new(&options, &node_calls, client, &client->node);
}

static int open_client(struct cluster_client *client, const struct cluster_client_setup *setup) {
    client->ticks = event_new(setup->base, -1, EV_PERSIST, on_tick, client);
    client->loads = event_new(setup->base, -1, EV_PERSIST, on_load_time, client);
    client->end = evtimer_new(setup->base, on_end, client);
    if (!client->ticks || !client->loads || !client->end)
        return -ENOMEM;
    int error = wakeup_init(&client->wakeup, setup->base, on_wake, client);
    if (!error)
        error = cluster_engine_new(setup->base, setup->loop, setup->connector, &setup->options->cluster, &engine_calls,
                                   client, &client->engine);
    return error ? error : open_node(client, setup);
}

int cluster_client_new(const struct cluster_client_setup *setup, struct cluster_client **ret_client) {
    struct cluster_client *client = calloc(1, sizeof *client);
    if (!client)
        return -ENOMEM;
    client->server = client->actions.server = setup->server;
    client->worker_query = setup->worker_query;
    client->self = setup->self;
    client->wakeup.fd = -1;
    client->last = &client->first;
    pthread_mutex_init(&client->lock, NULL);
    int error = open_client(client, setup);
    if (error) {
        cluster_client_free(client);
        return error;
    }
    *ret_client = client;
    return 0;
}

const struct cluster_node *cluster_client_node(const struct cluster_client *client) {
    return client->node;
}

void cluster_client_engine(const struct cluster_client *client, struct cluster_engine_status *ret_status) {
    cluster_engine_get_status(client->engine, ret_status);
}

const struct cluster_counts *cluster_client_counts(const struct cluster_client *client) {
    return &client->counts;
}

uint64_t cluster_client_pull_failures(const struct cluster_client *client) {
    return edges_failed(client->server);
}
