#include "daemon/edge/edge.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#include "daemon/base/log.h"
#include "daemon/edge/edge_target.h"
#include "daemon/edge/edge_window.h"
#include "daemon/pull/pull.h"
#include "daemon/pull/pull_http.h"
#include "daemon/relay/player_list.h"
#include "daemon/server/publish_claim.h"
#include "daemon/server/server.h"
#include "shared/text.h"

struct edge_stream {
    LIST_ENTRY(edge_stream) link;
    struct edges *edges;
    struct stream *stream; /* a reference */
    enum edge_state state;
    struct cluster_job job; /* of asking, finding and forgetting */
    bool job_is_out;
    /* that has the stream, as far as is known; node empty: none */
    struct cluster_location origin;
    struct cluster_location target; /* that is asked for it, or was last */
    enum cluster_mode mode;         /* in which */
    /* parents that are passed over, since the location was asked */
    size_t tried;
    struct pull *pull;                       /* or NULL */
    bool is_over;                            /* the pull is, and is discarded by discard_pull() */
    uint64_t played_at;                      /* loop time of its first media; 0: none has come */
    uint64_t epoch;                          /* of its response */
    sluice_timer *timer;                     /* NULL: the worker drains, and its loop may be gone */
    uint64_t asked_at, wanted_at, needed_at; /* loop times, the last ones; needed_at: 0: never */
    unsigned failures;
    char signature[CLUSTER_SIGNATURE + 1]; /* of the pull's request */
    char reason[EDGE_REASON];
};

/* Of a worker. */
struct edges {
    struct worker *worker;
    LIST_HEAD(, edge_stream) list;
    bool is_stopped; /* begins nothing any more */
    _Atomic uint64_t failed;
};

static const struct component_type type;

static struct edges *edges_of(const struct worker *worker) {
    return components_find(&worker->components, &type);
}

const char *edge_state_name(enum edge_state state) {
    static const char *const names[] = {
        [EDGE_ASKING] = "locating", [EDGE_FINDING] = "finding", [EDGE_FETCHING] = "fetching",
        [EDGE_WAITING] = "waiting", [EDGE_IDLE] = "idle",       [EDGE_FORGETTING] = "ending",
    };
    return names[state];
}

const char *edge_phase_name(enum edge_phase phase) {
    static const char *const names[] = {
        [EDGE_IS_PLAYING] = "playing",   [EDGE_IS_CONNECTING] = "connecting",
        [EDGE_IS_LOCATING] = "locating", [EDGE_IS_WAITING] = "waiting",
        [EDGE_IS_IDLE] = "idle",         [EDGE_IS_ENDING] = "ending",
    };
    return names[phase];
}

static enum edge_phase phase_of(const struct edge_stream *edge) {
    switch (edge->state) {
    case EDGE_ASKING:
    case EDGE_FINDING:
        return EDGE_IS_LOCATING;
    case EDGE_FETCHING:
        return edge->played_at > 0 && !edge->is_over ? EDGE_IS_PLAYING : EDGE_IS_CONNECTING;
    case EDGE_WAITING:
        return EDGE_IS_WAITING;
    case EDGE_IDLE:
        return EDGE_IS_IDLE;
    case EDGE_FORGETTING:
        break;
    }
    return EDGE_IS_ENDING;
}

static uint64_t now_of(const struct edge_stream *edge) {
    return worker_now(edge->edges->worker);
}

/* As they are now: a reload may change them. */
static const struct cluster_options *options_of(const struct edge_stream *edge) {
    return &edge->edges->worker->options->cluster;
}

static const char *own_node(const struct edges *edges) {
    return server_cluster_self(edges->worker->server)->node;
}

/* Whether somebody wants what comes, and no publisher of this node has the stream. */
static bool is_needed(const struct edge_stream *edge) {
    const uint64_t now = now_of(edge);
    return edge->needed_at > 0 && now - edge->needed_at < 2 * COMPONENT_NEEDED_MS;
}

static bool is_used(const struct edge_stream *edge) {
    return stream_player_count(edge->stream) > 0 || is_needed(edge);
}

static bool wants_media(const struct edge_stream *edge) {
    return !edge->stream->cluster.claims && is_used(edge);
}

static void stop_timer(struct edge_stream *edge) {
    if (edge->timer)
        sluice_timer_stop(edge->timer);
}

static void start_timer(struct edge_stream *edge, uint64_t ms) {
    if (edge->timer)
        sluice_timer_start(edge->timer, ms);
}

static void discard_pull(struct edge_stream *edge, int error) {
    struct pull *pull = edge->pull;
    edge->pull = NULL;
    edge->is_over = false;
    edge->played_at = 0;
    pull_discard(pull, error);
}

/* What is there is here, or nowhere; or another node has it, and it comes when it is wanted. */
static void rest(struct edge_stream *edge) {
    const bool may_come = *edge->origin.node && !edge->edges->is_stopped;
    edge->state = EDGE_IDLE;
    if (edge->stream->cluster.claims) {
        edge->origin = (struct cluster_location){0};
        stream_set_search(edge->stream, STREAM_SEARCH_NONE);
    } else {
        stream_set_search(edge->stream, may_come ? STREAM_SEARCH_COMES : STREAM_SEARCH_FAILED);
    }
}

static bool ask_cluster(struct edge_stream *edge, enum cluster_question question, enum edge_state state) {
    struct cluster_job *job = &edge->job;
    job->question = question;
    job->error = 0;
    job->epoch = edge->stream->cluster.seen;
    if (!server_ask_cluster(edge->edges->worker->server, job))
        return false;
    edge->job_is_out = true;
    edge->state = state;
    return true;
}

static void ask(struct edge_stream *edge) {
    edge->tried = 0;
    edge->asked_at = now_of(edge);
    if (edge->edges->is_stopped || !ask_cluster(edge, CLUSTER_LOCATE, EDGE_ASKING))
        rest(edge);
    else
        stream_set_search(edge->stream, STREAM_SEARCH_ASKS);
}

static uint64_t backoff(unsigned failures) {
    uint32_t random = 0;
    uint64_t wait = EDGE_BACKOFF_MS;
    for (unsigned i = 1; i < failures && wait < EDGE_BACKOFF_MOST_MS; i++)
        wait *= 2;
    (void)!getrandom(&random, sizeof random, 0);
    return wait + random % (wait / 4 + 1);
}

/* In a later turn: what has failed may be what is read now. */
static void wait_for(struct edge_stream *edge, uint64_t ms) {
    edge->state = EDGE_WAITING;
    start_timer(edge, ms);
}

/* Nothing came of it: the cluster is asked again after a while. Returns the milliseconds */
static uint64_t ask_later(struct edge_stream *edge, const char *reason) {
    edge->failures++;
    const uint64_t wait = backoff(edge->failures);
    snprintf(edge->reason, sizeof edge->reason, "%s", reason);
    atomic_fetch_add_explicit(&edge->edges->failed, 1, memory_order_relaxed);
    edge->tried = 0;
    wait_for(edge, wait);
    stream_set_search(edge->stream, STREAM_SEARCH_FAILED);
    return wait;
}

static void retry(struct edge_stream *edge, const char *reason) {
    const uint64_t wait = ask_later(edge, reason);
    /* A publisher that ends is looked for once more where it was: nothing is wrong with that. */
    LOG(edge->failures == 1 ? LOG_INFO : LOG_WARNING, "edge", {"stream", edge->stream->name},
        {"node", edge->target.node}, {"address", edge->target.address}, {"state", edge_state_name(EDGE_WAITING)},
        {"reason", reason}, {"failures", log_unsigned(edge->failures).text}, {"retry_ms", log_unsigned(wait).text});
}

/* The pull's owner */

static int write_fields(const struct pull *pull, const char *path, char *buffer, size_t size) {
    struct edge_stream *edge = pull->user;
    const struct worker *worker = edge->edges->worker;
    const struct edge_request request = {
        .self = server_cluster_self(worker->server),
        .now_ms = server_cluster_time(worker->server),
        .stream = edge->stream,
        .node = edge->target.node,
        .epoch = edge->stream->cluster.seen,
        .mode = edge->mode,
        .path = path,
    };
    return edge_request_write(&request, buffer, size, edge->signature);
}

static const char *judge(struct pull *pull, const sluice_http_response *response) {
    struct edge_stream *edge = pull->user;
    const struct server *server = edge->edges->worker->server;
    const struct edge_expected expected = {.self = server_cluster_self(server),
                                           .now_ms = server_cluster_time(server),
                                           .signature = edge->signature,
                                           .least = edge->stream->cluster.seen};
    return edge_response_judge(response, &expected, &edge->epoch);
}

static void describe(const struct pull *pull, struct stream_source *source) {
    const struct edge_stream *edge = pull->user;
    source->protocol = "cluster";
    source->is_remote = true;
    source->epoch = edge->epoch;
}

static void playing(struct pull *pull) {
    struct edge_stream *edge = pull->user;
    edge->played_at = now_of(edge);
    edge->reason[0] = '\0';
    stream_set_search(edge->stream, STREAM_SEARCH_NONE);
    LOG(LOG_INFO, "edge", {"stream", edge->stream->name}, {"node", edge->target.node},
        {"address", edge->target.address}, {"state", "playing"}, {"epoch", log_unsigned(edge->epoch).text});
}

/* Its stream's publisher may have moved: a pull that has played asks at once. */
static void failed(struct pull *pull, int error) {
    struct edge_stream *edge = pull->user;
    const bool has_played = edge->played_at > 0 && now_of(edge) - edge->played_at >= EDGE_STABLE_MS;
    (void)error;
    edge->is_over = true;
    if (edge->edges->is_stopped || edge->stream->cluster.claims) {
        start_timer(edge, 0);
        rest(edge);
    } else if (has_played) {
        edge->failures = 0;
        edge->tried = 0;
        LOG(LOG_INFO, "edge", {"stream", edge->stream->name}, {"node", edge->target.node}, {"state", "ended"},
            {"reason", pull->reason});
        wait_for(edge, 0);
        stream_set_search(edge->stream, STREAM_SEARCH_ASKS);
    } else if (edge->mode == CLUSTER_FROM_PARENT) {
        edge->tried++;
        snprintf(edge->reason, sizeof edge->reason, "%s", pull->reason);
        wait_for(edge, 0);
    } else {
        retry(edge, pull->reason);
    }
}

static const struct pull_owner owner = {
    .write_fields = write_fields, .judge = judge, .describe = describe, .playing = playing, .failed = failed};

/* Where to */

static void fetch(struct edge_stream *edge, const struct cluster_location *target, enum cluster_mode mode) {
    struct pull_option option;
    edge->target = *target;
    edge->mode = mode;
    discard_pull(edge, 0);
    if (edge_target_option(edge->stream->name, target, &option) < 0) {
        retry(edge, "not an address");
        return;
    }
    if (pull_new_owned(edge->edges->worker, &option, &owner, edge, &edge->pull) < 0) {
        retry(edge, "out of memory");
        return;
    }
    edge->state = EDGE_FETCHING;
    stream_set_search(edge->stream, STREAM_SEARCH_COMES);
    pull_begin(edge->pull);
}

/* The next parent that may have it; or the stream's own node. */
static void next_target(struct edge_stream *edge) {
    const struct cluster_options *options = options_of(edge);
    for (; edge->tried < options->parent_count; edge->tried++) {
        const char *node = edge_target_parent(options, edge->stream->name, edge->tried);
        if (strcmp(node, edge->origin.node) == 0)
            break;
        if (strcmp(node, own_node(edge->edges)) == 0 || edge_target_is_behind(edge->stream, node))
            continue;
        snprintf(edge->job.location.node, sizeof edge->job.location.node, "%s", node);
        if (ask_cluster(edge, CLUSTER_FIND_NODE, EDGE_FINDING))
            return;
    }
    fetch(edge, &edge->origin, CLUSTER_FROM_ORIGIN);
}

/* What comes from elsewhere ends first. */
static void begin(struct edge_stream *edge) {
    edge->tried = 0;
    stop_timer(edge);
    discard_pull(edge, -ESTALE);
    if (wants_media(edge) && !edge->edges->is_stopped)
        next_target(edge);
    else
        rest(edge);
}

/* It is known where the stream is. */
static void take_location(struct edge_stream *edge, const struct cluster_location *location) {
    struct stream_cluster *cluster = &edge->stream->cluster;
    const bool is_here = strcmp(location->node, own_node(edge->edges)) == 0;
    edge->origin = is_here ? (struct cluster_location){0} : *location;
    if (cluster->seen < location->epoch)
        cluster->seen = location->epoch;
    if (*edge->origin.node)
        begin(edge);
    else
        rest(edge);
}

static void free_edge(struct edge_stream *edge) {
    struct stream *stream = edge->stream;
    LIST_REMOVE(edge, link);
    stream->cluster.edge = NULL;
    stream_set_search(stream, STREAM_SEARCH_NONE);
    discard_pull(edge, 0);
    sluice_timer_free(edge->timer);
    stream_unref(stream);
    free(edge);
}

static void look_at(struct edge_stream *edge);

static void located(struct edge_stream *edge) {
    const struct cluster_job *job = &edge->job;
    if (!job->error)
        take_location(edge, &job->location);
    else if (edge->edges->is_stopped || job->error == -ESHUTDOWN)
        rest(edge);
    else if (job->error == -EHOSTDOWN && *edge->origin.node)
        begin(edge);
    else if (!is_used(edge))
        rest(edge);
    else /* not logged: the engine's failure is, and clients choose the names */
        (void)ask_later(edge, job->error == -EHOSTDOWN ? "cluster engine unavailable" : strerror(-job->error));
}

/* A client has only asked whether it is there, and it is not: nothing of that stays, or names that
 * clients choose would fill --max-streams. The control plane knows the answer for a while. */
static bool is_done(const struct edge_stream *edge) {
    return edge->state == EDGE_IDLE && !*edge->origin.node && !is_used(edge);
}

static void found(struct edge_stream *edge) {
    const struct cluster_job *job = &edge->job;
    if (!wants_media(edge) || edge->edges->is_stopped) {
        rest(edge);
    } else if (job->error) {
        edge->tried++;
        next_target(edge);
    } else {
        fetch(edge, &job->location, CLUSTER_FROM_PARENT);
    }
}

static void come_back(struct cluster_job *job) {
    struct edge_stream *edge = job->user;
    const enum edge_state state = edge->state;
    edge->job_is_out = false;
    if (state == EDGE_ASKING) {
        located(edge);
        if (is_done(edge))
            start_timer(edge, 0);
    } else if (state == EDGE_FINDING)
        found(edge);
    else if (state == EDGE_FORGETTING && !edge->edges->is_stopped && wants_media(edge))
        ask(edge);
    else if (state == EDGE_FORGETTING)
        free_edge(edge);
}

/* Nobody wants it. */
static void forget(struct edge_stream *edge) {
    discard_pull(edge, 0);
    stop_timer(edge);
    stream_set_search(edge->stream, STREAM_SEARCH_NONE);
    edge->origin = (struct cluster_location){0};
    if (!ask_cluster(edge, CLUSTER_FORGET, EDGE_FORGETTING))
        free_edge(edge);
}

static void on_timer(sluice_timer *timer, void *user) {
    struct edge_stream *edge = user;
    (void)timer;
    if (edge->is_over)
        discard_pull(edge, 0);
    if (is_done(edge) && !edge->job_is_out && !edge->edges->is_stopped)
        forget(edge);
    else if (edge->state != EDGE_WAITING)
        return;
    else if (!wants_media(edge))
        rest(edge);
    else if (edge->tried > 0 && *edge->origin.node)
        next_target(edge);
    else
        ask(edge);
}

/* The edge of a stream, made where there is none; NULL without memory. */
static struct edge_stream *get(struct edges *edges, struct stream *stream) {
    if (stream->cluster.edge)
        return stream->cluster.edge;
    struct edge_stream *edge = calloc(1, sizeof *edge);
    if (!edge || sluice_timer_new(edges->worker->loop, on_timer, edge, &edge->timer) < 0) {
        free(edge);
        return NULL;
    }
    edge->edges = edges;
    edge->stream = stream_ref(stream);
    edge->state = EDGE_IDLE;
    edge->job = (struct cluster_job){.loop = edges->worker->loop, .done = come_back, .user = edge};
    strcpy(edge->job.stream, stream->name);
    stream->cluster.edge = edge;
    LIST_INSERT_HEAD(&edges->list, edge, link);
    return edge;
}

/* A node that is asked, and that has come for the stream itself: neither would ever get it. */
static bool is_ring(const struct edge_stream *edge) {
    return edge->state == EDGE_FETCHING && edge->mode == CLUSTER_FROM_PARENT && !edge->stream->live &&
           edge_target_is_behind(edge->stream, edge->target.node);
}

/* Somebody wants it, or asks whether it is there. */
static void look_at(struct edge_stream *edge) {
    const uint64_t now = now_of(edge);
    edge->wanted_at = now;
    if (is_ring(edge)) {
        discard_pull(edge, 0);
        edge->tried++;
        next_target(edge);
    } else if (edge->state != EDGE_IDLE || edge->job_is_out || edge->stream->cluster.claims) {
        return;
    } else if (*edge->origin.node) {
        begin(edge);
    } else if (edge->asked_at == 0 || now - edge->asked_at >= EDGE_NEGATIVE_MS) {
        ask(edge);
    }
}

static void look(struct edges *edges, struct stream *stream) {
    if (edges->is_stopped || stream->fed_by)
        return;
    struct edge_stream *edge = get(edges, stream);
    if (edge)
        look_at(edge);
}

/* What the cluster says */

static void moved(struct edge_stream *edge, const struct cluster_location *location) {
    struct stream_cluster *cluster = &edge->stream->cluster;
    const bool is_fetched = edge->state == EDGE_FETCHING && !edge->is_over;
    const bool is_same = strcmp(location->node, edge->origin.node) == 0 && location->epoch == cluster->seen;
    /* The answer that is on its way is newer. */
    if (edge->job_is_out || edge->edges->is_stopped) {
        if (cluster->seen < location->epoch)
            cluster->seen = location->epoch;
        return;
    }
    /* What comes is that, or newer. Where nothing comes, the engine may have forgotten newer ones:
     * then the node asserts what it has. */
    if (is_fetched && (is_same || location->epoch < cluster->seen))
        return;
    edge->failures = 0;
    take_location(edge, location);
}

/* What comes still is the end of it. */
static void gone(struct edge_stream *edge) {
    if (edge->job_is_out)
        return;
    edge->origin = (struct cluster_location){0};
    if (edge->state == EDGE_FETCHING)
        return;
    stop_timer(edge);
    rest(edge);
}

static void superseded(struct stream *stream, const struct cluster_location *location) {
    if (publish_claims_lose(stream, *location->node ? location->epoch : 0))
        LOG(LOG_WARNING, "stream lost", {"stream", stream->name}, {"node", location->node},
            {"epoch", log_unsigned(location->epoch).text});
}

void edge_changed(struct worker *worker, const char *name, enum cluster_change change,
                  const struct cluster_location *location) {
    const struct edges *edges = edges_of(worker);
    struct stream *stream = registry_find(worker->registry, name);
    if (!edges || !stream)
        return;
    stream_ref(stream);
    if (change == CLUSTER_SUPERSEDED)
        superseded(stream, location);
    else if (change == CLUSTER_EPOCH)
        publish_claims_raise(stream, location->epoch);
    struct edge_stream *edge = stream->cluster.edge;
    if (edge && change != CLUSTER_EPOCH) {
        if (change == CLUSTER_GONE || !*location->node)
            gone(edge);
        else
            moved(edge, location);
    }
    stream_unref(stream);
}

struct message {
    sluice_call call;
    struct worker *worker;
    enum cluster_change change;
    struct cluster_location location;
    char stream[STREAM_NAME + 1];
};

static void deliver(void *user) {
    struct message *message = user;
    if (!server_is_over(message->worker->server))
        edge_changed(message->worker, message->stream, message->change, &message->location);
    free(message);
}

int edge_post_change(struct server *server, const char *stream, enum cluster_change change,
                     const struct cluster_location *location) {
    struct message *message = calloc(1, sizeof *message);
    if (!message)
        return -ENOMEM;
    message->worker = server_owner(server, stream, strlen(stream));
    message->change = change;
    message->location = *location;
    snprintf(message->stream, sizeof message->stream, "%s", stream);
    sluice_loop_post_call(message->worker->loop, &message->call, deliver, message);
    return 0;
}

/* The component */

static int open_edges(struct worker *worker, void *user, void **ret_component) {
    struct edges *edges = calloc(1, sizeof *edges);
    (void)user;
    if (!edges)
        return -ENOMEM;
    edges->worker = worker;
    *ret_component = edges;
    return 0;
}

static void close_edges(void *component) {
    struct edges *edges = component;
    struct edge_stream *edge;
    while ((edge = LIST_FIRST(&edges->list))) {
        /* Nobody is told any more: there is no loop. */
        edge->stream->cluster.search = STREAM_SEARCH_NONE;
        free_edge(edge);
    }
    free(edges);
}

static int prepare(void *component, const struct options *options, void **ret_prepared) {
    (void)component, (void)options;
    *ret_prepared = NULL;
    return 0;
}

static void commit(void *component, const struct options *options, void *prepared) {
    (void)component, (void)options, (void)prepared;
}

static void discard(void *prepared) {
    (void)prepared;
}

static void wanted(void *component, const struct stream *stream) {
    struct edges *edges = component;
    look(edges, registry_find(edges->worker->registry, stream->name));
}

/* Where a node has seen a higher epoch, what comes is old. */
static void asked(void *component, struct stream *stream, uint64_t epoch) {
    struct edge_stream *edge = stream->cluster.edge;
    if (stream->cluster.seen < epoch)
        stream->cluster.seen = epoch;
    if (edge && stream->live && stream->source.is_remote && stream->cluster.epoch < epoch &&
        edge->state == EDGE_FETCHING) {
        discard_pull(edge, -ESTALE);
        ask(edge);
    }
    look(component, stream);
}

/* Its players wait for another publisher, wherever that comes. */
static void left(void *component, const struct stream *stream) {
    if (stream_player_count(stream) > 0)
        wanted(component, stream);
}

/* Another stream has it as a source: there may be nobody else who holds it. */
static void needed(void *component, const char *name) {
    struct edges *edges = component;
    struct worker *worker = edges->worker;
    struct stream *stream;
    if (edges->is_stopped || registry_get(worker->registry, name, strlen(name), worker_now(worker), &stream) < 0)
        return;
    if (!stream->live || stream->cluster.edge) {
        struct edge_stream *edge = get(edges, stream);
        if (edge) {
            edge->needed_at = worker_now(worker);
            look_at(edge);
        }
    }
    stream_unref(stream);
}

static void tick_edge(struct edge_stream *edge, uint64_t now) {
    /* Where another process takes over, no player comes any more. */
    const bool lingers = edge->state == EDGE_FETCHING && !edge->edges->is_stopped;
    if (edge->pull && !edge->is_over)
        pull_tick(edge->pull, now);
    const uint64_t least = lingers ? options_of(edge)->linger_ms : *edge->origin.node ? EDGE_NEGATIVE_MS : 0;
    if (is_used(edge))
        edge->wanted_at = now;
    else if (!edge->job_is_out && now - edge->wanted_at >= least)
        forget(edge);
}

static void count_stream(struct stream *stream, void *user) {
    struct edge_window_counts *counts = user;
    counts->live += stream->live;
    counts->fetched += stream->live && stream->source.is_remote;
}

/* Of the loop: see edge_window.h. Without edges no stream is fetched. */
static void set_window(const struct edges *edges) {
    struct worker *worker = edges->worker;
    const struct options *options = worker->options;
    struct edge_window_counts counts = {0};
    if (!LIST_EMPTY(&edges->list))
        registry_each(worker->registry, count_stream, &counts);
    worker_set_batch(worker, edge_window_us(&counts, (uint32_t)options->batch_us, (uint32_t)options->cluster.batch_us));
}

static void tick(void *component, uint64_t now) {
    const struct edges *edges = component;
    if (edges->is_stopped && edges->worker->draining)
        return;
    for (struct edge_stream *edge = LIST_FIRST(&edges->list), *next; edge; edge = next) {
        next = LIST_NEXT(edge, link);
        tick_edge(edge, now);
    }
    set_window(edges);
}

/* Whether it goes on where another process takes over: one that has no connection yet gets none any
 * more. */
static bool outlasts_stop(const struct edge_stream *edge) {
    return edge->state == EDGE_FETCHING && edge->pull->machine.state != OUTGOING_CONNECTING &&
           !edge->edges->worker->draining;
}

/* Where another process takes over, players stay here until they end, and so do their pulls. */
static void stop(void *component) {
    struct edges *edges = component;
    edges->is_stopped = true;
    for (struct edge_stream *edge = LIST_FIRST(&edges->list), *next; edge; edge = next) {
        next = LIST_NEXT(edge, link);
        if (outlasts_stop(edge))
            continue;
        discard_pull(edge, -ESHUTDOWN);
        stop_timer(edge);
        if (edges->worker->draining) {
            sluice_timer_free(edge->timer);
            edge->timer = NULL;
        }
        if (!edge->job_is_out)
            rest(edge);
    }
}

static void resume(void *component) {
    struct edges *edges = component;
    edges->is_stopped = false;
    for (struct edge_stream *edge = LIST_FIRST(&edges->list), *next; edge; edge = next) {
        next = LIST_NEXT(edge, link);
        edge->asked_at = 0;
        look_at(edge);
    }
}

static const struct component_type type = {
    .open = open_edges,
    .prepare = prepare,
    .commit = commit,
    .discard = discard,
    .wanted = wanted,
    .needed = needed,
    .asked = asked,
    .left = left,
    .tick = tick,
    .stop = stop,
    .resume = resume,
    .close = close_edges,
};

int edges_register(struct server *server) {
    return server_add_component(server, &type, NULL);
}

void edges_each(const struct worker *worker, void (*call)(const struct edge_status *status, void *user), void *user) {
    const struct edges *edges = edges_of(worker);
    const struct edge_stream *edge;
    if (!edges)
        return;
    LIST_FOREACH(edge, &edges->list, link) {
        const struct edge_status status = {
            .stream = edge->stream->name,
            .phase = phase_of(edge),
            .node = edge->target.node,
            .address = edge->target.address,
            .mode = edge->mode,
            .epoch = edge->epoch,
            .reason = edge->reason,
            .failures = edge->failures,
        };
        call(&status, user);
    }
}

uint64_t edges_failed(struct server *server) {
    uint64_t failed = 0;
    for (uint32_t i = 0; i < server_worker_count(server); i++) {
        const struct edges *edges = edges_of(server_worker(server, i));
        failed += edges ? atomic_load_explicit(&edges->failed, memory_order_relaxed) : 0;
    }
    return failed;
}
