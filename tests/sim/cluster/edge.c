/* Edges follow locations, pull from origins, and fence by epoch; and what origins answer. */
#include <string.h>

#include "sim/cluster/cluster.h"

enum { FRAME_MS = 100, LEAST_BACKOFF_MS = 250, MOST_BACKOFF_MS = 2000 };

/* A request, its response, a frame, or the end of a pull. */
struct parcel {
    struct process *edge, *origin;
    unsigned stream;
    uint32_t pull;
    uint64_t epoch, incarnation;
    bool is_accepted;
};

static bool is_cut(const struct process *one, const struct process *other) {
    return sim.cuts[one->name][other->name] > now_ms();
}

static bool is_below(uint64_t epoch, uint64_t incarnation, uint64_t other_epoch, uint64_t other_incarnation) {
    return epoch != other_epoch ? epoch < other_epoch : incarnation < other_incarnation;
}

void edge_accept(struct process *process, unsigned stream, uint64_t epoch, uint64_t incarnation) {
    struct edge *edge = &process->edges[stream];
    WORLD_CHECK(!is_below(epoch, incarnation, edge->frame_epoch, edge->frame_incarnation),
                "process %u, stream %u: epoch %llu of %llx after %llu of %llx", process->number, stream,
                (unsigned long long)epoch, (unsigned long long)incarnation, (unsigned long long)edge->frame_epoch,
                (unsigned long long)edge->frame_incarnation);
    edge->frame_epoch = epoch;
    edge->frame_incarnation = incarnation;
    edge->frames++;
    if (is_below(edge->seen, edge->seen_incarnation, epoch, incarnation)) {
        edge->seen = epoch;
        edge->seen_incarnation = incarnation;
    }
}

bool edge_has_seen(const struct process *process, unsigned stream, uint64_t epoch) {
    const struct edge *edge = &process->edges[stream];
    bool is_own = edge->seen_incarnation == cluster_node_incarnation(process->node);
    return epoch < edge->seen || (epoch == edge->seen && !is_own);
}

/* ---- Questions ---- */

struct retry {
    struct process *process;
    unsigned stream;
};

static void retry(void *user);

static void retry_later(struct process *process, unsigned stream) {
    struct edge *edge = &process->edges[stream];
    if (edge->is_retrying || !edge->is_wanted || sim.is_over)
        return;
    struct retry *it = world_allocate(sizeof *it);
    *it = (struct retry){process, stream};
    edge->is_retrying = true;
    after_ms(edge->backoff_ms, retry, it);
    edge->backoff_ms = edge->backoff_ms < MOST_BACKOFF_MS ? 2 * edge->backoff_ms : MOST_BACKOFF_MS;
}

static void ask(struct process *process, unsigned stream) {
    struct edge *edge = &process->edges[stream];
    if (edge->is_asking)
        return;
    edge->is_asking = true;
    struct job *job = job_new(process, CLUSTER_LOCATE, stream);
    job->job.epoch = edge->seen;
    process_ask(process, job);
}

static void retry(void *user) {
    struct retry *it = user;
    struct process *process = it->process;
    struct edge *edge = &process->edges[it->stream];
    if (process_postpones(process, retry, it))
        return;
    if (process->is_running) {
        edge->is_retrying = false;
        if (edge->is_wanted && edge->state == PULL_NONE && !process->slots[it->stream].publisher && !sim.is_over)
            ask(process, it->stream);
        else if (process->slots[it->stream].publisher)
            retry_later(process, it->stream); /* it may leave */
    }
    world_free(it);
}

void edge_want(struct process *process, unsigned stream, bool is_wanted) {
    struct edge *edge = &process->edges[stream];
    if (edge->is_wanted == is_wanted)
        return;
    world_trace("wants", process->number, stream, is_wanted);
    if (is_wanted) {
        edge->is_wanted = true;
        edge->backoff_ms = LEAST_BACKOFF_MS;
        ask(process, stream);
        return;
    }
    /* Other players come later: they have seen nothing. */
    *edge = (struct edge){.pull = edge->pull + 1, .is_asking = edge->is_asking, .is_retrying = edge->is_retrying};
    if (process->slots[stream].publisher)
        edge_accept(process, stream, process->slots[stream].epoch, cluster_node_incarnation(process->node));
    process_ask(process, job_new(process, CLUSTER_FORGET, stream));
}

void edge_drop(struct process *process, unsigned stream) {
    struct edge *edge = &process->edges[stream];
    edge->state = PULL_NONE;
    edge->pull++;
}

static void fail(struct process *process, unsigned stream) {
    edge_drop(process, stream);
    retry_later(process, stream);
}

void edge_located(struct job *job) {
    struct edge *edge = &job->process->edges[job->stream];
    edge->is_asking = false;
    if (job->job.error)
        retry_later(job->process, job->stream);
    else
        edge_consider(job->process, job->stream, &job->job.location);
}

/* ---- Pulls ---- */

static void fail_later(void *user) {
    struct parcel *it = user;
    if (process_postpones(it->edge, fail_later, it))
        return;
    struct edge *edge = &it->edge->edges[it->stream];
    if (it->edge->is_running && edge->pull == it->pull && edge->state == PULL_REQUESTED)
        fail(it->edge, it->stream);
    world_free(it);
}

static void respond(void *user) {
    struct parcel *it = user;
    if (process_postpones(it->edge, respond, it))
        return;
    struct edge *edge = &it->edge->edges[it->stream];
    bool is_current = it->edge->is_running && edge->pull == it->pull && edge->state == PULL_REQUESTED;
    bool is_fresh = !is_below(it->epoch, it->incarnation, edge->seen, edge->seen_incarnation);
    if (is_current && it->is_accepted && is_fresh) {
        edge->state = PULL_OPEN;
        edge->origin = it->origin;
        edge->incarnation = it->incarnation;
        edge->epoch = edge->seen = it->epoch;
        edge->seen_incarnation = it->incarnation;
        edge->heard_at = now_ms();
        edge->backoff_ms = LEAST_BACKOFF_MS;
        world_trace("pulls", it->edge->number, it->origin->number, (int64_t)it->epoch);
    } else if (is_current) {
        sim.gone++;
        fail(it->edge, it->stream);
    }
    world_free(it);
}

/* The origin's answer: 200, or 410 and a look at why it was asked. */
static void serve(void *user) {
    struct parcel *it = user;
    struct process *origin = it->origin;
    if (process_postpones(origin, serve, it))
        return;
    const struct slot *slot = &origin->slots[it->stream];
    if (!origin->is_running || is_cut(it->edge, origin)) {
        after_ms(1000, fail_later, it);
        return;
    }
    it->is_accepted = slot->publisher && slot->epoch >= it->epoch;
    if (!it->is_accepted) {
        struct job *job = job_new(origin, CLUSTER_ASSERT, it->stream);
        job->job.epoch = it->epoch;
        process_ask(origin, job);
    }
    sim.served += it->is_accepted;
    it->epoch = slot->epoch;
    it->incarnation = cluster_node_incarnation(origin->node);
    world_after(world_between(100, 3000), respond, it);
}

static void request(struct process *process, unsigned stream, const struct cluster_location *location) {
    struct edge *edge = &process->edges[stream];
    struct process *origin = process_of(location->node);
    struct parcel *it = world_allocate(sizeof *it);
    edge_drop(process, stream);
    edge->state = PULL_REQUESTED;
    edge->incarnation = location->incarnation;
    edge->epoch = location->epoch;
    /* A location below what was seen is asked for what was; of the same epoch, for more. */
    uint64_t epoch = location->epoch;
    if (is_below(location->epoch, location->incarnation, edge->seen, edge->seen_incarnation))
        epoch = edge->seen + (edge->seen == location->epoch);
    *it = (struct parcel){.edge = process, .origin = origin, .stream = stream, .pull = edge->pull, .epoch = epoch};
    world_trace("requests", process->number, origin ? (int64_t)origin->number : -1, (int64_t)epoch);
    if (!origin || is_cut(process, origin))
        after_ms(origin ? 2000 : 1, fail_later, it);
    else
        world_after(world_between(100, 3000), serve, it);
    if (origin && origin->stopped_until > now_ms()) { /* nobody answers for long */
        struct parcel *late = world_allocate(sizeof *late);
        *late = *it;
        after_ms(2000, fail_later, late);
    }
}

void edge_consider(struct process *process, unsigned stream, const struct cluster_location *location) {
    struct edge *edge = &process->edges[stream];
    bool is_here = process->slots[stream].publisher || strcmp(location->node, process->node_name) == 0;
    if (!edge->is_wanted)
        return;
    if (is_here || !location->node[0]) {
        if (edge->state == PULL_NONE)
            retry_later(process, stream);
        return;
    }
    if (edge->state == PULL_OPEN && location->incarnation == edge->incarnation) {
        /* The same origin: what it sends is of that epoch, too. */
        if (location->epoch > edge->seen) {
            edge->seen = location->epoch;
            edge->seen_incarnation = location->incarnation;
        }
        return;
    }
    if (edge->state == PULL_REQUESTED && location->incarnation == edge->incarnation && location->epoch <= edge->epoch)
        return;
    /* One that runs is not given up for a location that is older. */
    if (edge->state == PULL_OPEN &&
        is_below(location->epoch, location->incarnation, edge->seen, edge->seen_incarnation))
        return;
    request(process, stream, location);
}

/* ---- Frames ---- */

static void frame(void *user) {
    struct parcel *it = user;
    if (process_postpones(it->edge, frame, it))
        return;
    struct edge *edge = &it->edge->edges[it->stream];
    if (it->edge->is_running && edge->pull == it->pull && edge->state == PULL_OPEN) {
        edge->heard_at = now_ms();
        sim.frames++;
        edge_accept(it->edge, it->stream, it->epoch, it->incarnation);
    }
    world_free(it);
}

static void closed(void *user) {
    struct parcel *it = user;
    if (process_postpones(it->edge, closed, it))
        return;
    struct edge *edge = &it->edge->edges[it->stream];
    if (it->edge->is_running && edge->pull == it->pull && edge->state == PULL_OPEN)
        fail(it->edge, it->stream);
    world_free(it);
}

static void send_parcel(struct process *process, unsigned stream, world_fn *call) {
    const struct edge *edge = &process->edges[stream];
    struct parcel *it = world_allocate(sizeof *it);
    *it = (struct parcel){.edge = process,
                          .origin = edge->origin,
                          .stream = stream,
                          .pull = edge->pull,
                          .epoch = edge->epoch,
                          .incarnation = edge->incarnation};
    world_after(3000, call, it);
}

void edge_close(struct process *origin, unsigned stream) {
    if (origin->edges[stream].state == PULL_NONE)
        retry_later(origin, stream); /* its own players wait for another one */
    for (unsigned i = 0; i < sim.process_count; i++) {
        struct process *process = sim.processes[i];
        const struct edge *edge = &process->edges[stream];
        if (process->is_running && edge->state == PULL_OPEN && edge->origin == origin && !is_cut(process, origin))
            send_parcel(process, stream, closed);
    }
}

void edge_frames(void *none) {
    if (sim.is_over)
        return;
    for (unsigned i = 0; i < sim.process_count; i++) {
        struct process *process = sim.processes[i];
        for (unsigned s = 0; s < STREAMS && process->is_running; s++) {
            const struct edge *edge = &process->edges[s];
            const struct process *origin = edge->origin;
            if (edge->state == PULL_OPEN && origin->slots[s].publisher && process_runs(origin) &&
                !is_cut(process, origin))
                send_parcel(process, s, frame);
        }
    }
    after_ms(FRAME_MS, edge_frames, none);
}

void edge_tick(struct process *process) {
    for (unsigned s = 0; s < STREAMS; s++) {
        struct edge *edge = &process->edges[s];
        if (edge->state == PULL_OPEN && now_ms() - edge->heard_at > SILENCE_MS)
            fail(process, s);
    }
}
