/* A daemon's process: its node, and the questions of its workers. */
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"
#include "sim/cluster/cluster.h"

enum { QUESTION_MS = 14000 /* in which each has its answer */ };

uint64_t now_ms(void) {
    return world_now() / 1000 + EPOCH_MS;
}

void after_ms(uint64_t ms, world_fn *call, void *user) {
    world_after(ms * 1000, call, user);
}

void at_ms(uint64_t ms, world_fn *call, void *user) {
    uint64_t due = (ms - EPOCH_MS) * 1000;
    world_after(due > world_now() ? due - world_now() : 0, call, user);
}

bool process_runs(const struct process *process) {
    return process->is_running && process->stopped_until <= now_ms();
}

bool process_postpones(const struct process *process, world_fn *call, void *user) {
    if (!process->is_running || process_runs(process))
        return false;
    at_ms(process->stopped_until, call, user);
    return true;
}

struct process *process_of(const char *node_name) {
    for (unsigned i = sim.process_count; i-- > 0;)
        if (sim.processes[i]->is_running && strcmp(sim.processes[i]->node_name, node_name) == 0)
            return sim.processes[i];
    return NULL;
}

struct process *process_any(void) {
    for (unsigned tries = 0; tries < 20; tries++) {
        struct process *process = sim.processes[world_random(sim.process_count)];
        if (process_runs(process))
            return process;
    }
    return NULL;
}

/* ---- Questions ---- */

struct job *job_new(struct process *process, enum cluster_question question, unsigned stream) {
    struct job *job = world_allocate(sizeof *job);
    job->job.question = question;
    job->process = process;
    job->stream = stream;
    if (stream < STREAMS)
        snprintf(job->job.stream, sizeof job->job.stream, "live/%u", stream);
    return job;
}

static void unlink_job(struct job *job) {
    if (job->prev)
        job->prev->next = job->next;
    else
        job->process->jobs = job->next;
    if (job->next)
        job->next->prev = job->prev;
}

void process_ask(struct process *process, struct job *job) {
    job->asked = process->ran;
    job->next = process->jobs;
    if (job->next)
        job->next->prev = job;
    process->jobs = job;
    cluster_node_ask(process->node, &job->job, now_ms());
}

/* In order. */
static void to_worker(struct process *process, world_fn *call, void *user) {
    uint64_t due = world_now() + (sim_has(TROUBLE_WORKERS, 4) ? world_between(1000, 600000) : 500);
    process->worker_at = due > process->worker_at ? due : process->worker_at;
    world_after(process->worker_at - world_now(), call, user);
}

/* On the worker's thread. */
static void job_done(void *user) {
    struct job *job = user;
    if (process_postpones(job->process, job_done, job))
        return;
    if (job->process->is_running && job->job.question == CLUSTER_CLAIM)
        encoder_claimed(job);
    else if (job->process->is_running && job->job.question == CLUSTER_LOCATE && job->stream < STREAMS)
        edge_located(job);
    world_free(job);
}

static void answer(void *user, struct cluster_job *it) {
    struct job *job = (struct job *)it;
    WORLD_CHECK(job->process == user, "an answer for another process");
    unlink_job(job);
    world_trace("answer", job->process->number, it->question, it->error);
    to_worker(job->process, job_done, job);
}

/* ---- Changes ---- */

struct change {
    struct process *process;
    unsigned stream;
    enum cluster_change change;
    struct cluster_location location;
};

static void change_done(void *user) {
    struct change *it = user;
    if (process_postpones(it->process, change_done, it))
        return;
    if (it->process->is_running)
        slot_changed(it->process, it->stream, it->change, &it->location);
    world_free(it);
}

static void changed(void *user, const char *stream, enum cluster_change change,
                    const struct cluster_location *location) {
    struct process *process = user;
    unsigned number = 0;
    world_trace("changed", process->number, change, (int64_t)location->epoch);
    if (sscanf(stream, "live/%u", &number) != 1)
        return;
    struct change *it = world_allocate(sizeof *it);
    *it = (struct change){process, number, change, *location};
    to_worker(process, change_done, it);
}

static bool send_command(void *user, const struct cluster_command *command) {
    return hub_send(user, command);
}

static bool told(void *user, const struct cluster_event *event) {
    (void)user;
    (void)event;
    return true;
}

static void bans_step(void *user, enum cluster_bans_step step) {
    (void)user;
    (void)step;
}

static void state_changed(void *user, enum cluster_node_state state) {
    const struct process *process = user;
    world_trace("state", process->number, state, (int64_t)cluster_node_incarnation(process->node));
}

/* ---- Its life ---- */

static void tick(void *user) {
    struct process *process = user;
    if (!process->is_running || sim.is_over || process_postpones(process, tick, process))
        return;
    process->ran += TICK_MS;
    for (const struct job *job = process->jobs; job; job = job->next)
        WORLD_CHECK(process->ran - job->asked <= QUESTION_MS, "process %u has no answer to question %d of %s",
                    process->number, job->job.question, job->job.stream);
    cluster_node_tick(process->node, now_ms());
    hub_check(process);
    edge_tick(process);
    process_check(process);
    after_ms(TICK_MS, tick, process);
}

struct process *process_start(unsigned name) {
    static const struct cluster_node_calls calls = {.send = send_command,
                                                    .answer = answer,
                                                    .changed = changed,
                                                    .told = told,
                                                    .bans_step = bans_step,
                                                    .state_changed = state_changed};
    struct process *process = world_allocate(sizeof *process);
    WORLD_CHECK(sim.process_count < PROCESSES, "too many processes");
    process->number = sim.process_count;
    process->name = name;
    snprintf(process->node_name, sizeof process->node_name, "n%u", name);
    snprintf(process->address, sizeof process->address, "n%u:80", name);
    process->is_running = true;
    sim.processes[sim.process_count++] = process;
    const struct cluster_node_options options = {
        .name = process->node_name,
        .address = process->address,
        .refuses_when_down = sim.refuses_when_down,
        .most_streams = MOST_STREAMS,
        .random = world_random(1024),
        /* Its clock is wrong, sometimes by far. */
        .clock_offset_ms = INT64_C(1764150000000) + (world_one_in(4) ? (int64_t)world_random(7200000) - 3600000 : 0),
    };
    WORLD_CHECK(cluster_node_new(&options, &calls, process, &process->node) == 0, "no memory");
    world_trace("start", process->number, name, 0);
    after_ms(world_between(0, 20), hub_connect, process);
    after_ms(world_between(0, TICK_MS), tick, process);
    return process;
}

void process_kill(struct process *process) {
    world_trace("kill", process->number, process->name, 0);
    for (unsigned i = 0; i < STREAMS; i++) {
        process->slots[i].publisher = NULL;
        process->edges[i] = (struct edge){0};
    }
    process->is_running = process->is_up = false;
    process->link++;
    cluster_node_abandon(process->node);
    WORLD_CHECK(!process->jobs, "questions of process %u were not abandoned", process->number);
    cluster_node_free(process->node);
    process->node = NULL;
    for (unsigned i = 0; i < ENCODERS; i++)
        if (sim.encoders[i].at == process)
            encoder_end(&sim.encoders[i], world_between(50, 1000));
}

void process_stop(struct process *process, uint64_t ms) {
    world_trace("stop", process->number, (int64_t)ms, 0);
    process->stopped_until = now_ms() + ms;
}

/* ---- Checks ---- */

void process_check_down(const struct process *process) {
    for (const struct job *job = process->jobs; job; job = job->next)
        world_fail("process %u has no engine, and question %d of %s waits", process->number, job->job.question,
                   job->job.stream);
}

struct totals {
    size_t streams, idle, own, finds, drops, waiting, in_flight;
};

static void check_stream(const struct cluster_node *node, const struct cluster_stream *stream, struct totals *totals) {
    bool has = stream->hold != CLUSTER_HOLD_NONE;
    WORLD_CHECK(has == (stream->users > 0), "%s: %u users of claim %d", stream->name, stream->users, stream->hold);
    WORLD_CHECK(has == (stream->is_in_own || stream->is_checking) || (!has && stream->is_checking),
                "%s: is not asserted", stream->name);
    WORLD_CHECK(!has || stream->known == CLUSTER_UNKNOWN, "%s: two places", stream->name);
    WORLD_CHECK(!stream->is_wanted || stream->is_in_finds || stream->is_finding, "%s: is not located", stream->name);
    WORLD_CHECK(!stream->attempt || stream->is_claiming, "%s: an attempt that is none", stream->name);
    WORLD_CHECK(stream->wait_count <= CLUSTER_CLAIMS_MAX, "%s: %u claims", stream->name, stream->wait_count);
    WORLD_CHECK(node->state != CLUSTER_NODE_REPLACED || !has, "%s: claimed by what was replaced", stream->name);
    totals->streams++;
    totals->idle += stream->is_idle;
    totals->own += stream->is_in_own;
    totals->finds += stream->is_in_finds;
    totals->drops += stream->is_in_drops;
    totals->waiting += stream->is_in_waiting;
    totals->in_flight += stream->in_flight;
}

#define LENGTH(queue, field, ret_length)                                                                               \
    do {                                                                                                               \
        const struct cluster_stream *element;                                                                          \
        (ret_length) = 0;                                                                                              \
        TAILQ_FOREACH(element, queue, field) {                                                                         \
            (ret_length)++;                                                                                            \
        }                                                                                                              \
    } while (0)

void process_check(const struct process *process) {
    const struct cluster_node *node = process->node;
    struct totals totals = {0}, queues;
    size_t in_flight = 0, commands = 0;
    for (size_t i = 0; i < node->streams.bucket_count; i++) {
        const struct cluster_stream *stream;
        LIST_FOREACH(stream, &node->streams.buckets[i], of_bucket) {
            check_stream(node, stream, &totals);
        }
    }
    LENGTH(&node->streams.idle, of_idle, queues.idle);
    LENGTH(&node->own, of_own, queues.own);
    LENGTH(&node->finds, of_finds, queues.finds);
    LENGTH(&node->drops, of_drops, queues.drops);
    LENGTH(&node->waiting, of_waiting, queues.waiting);
    for (size_t i = 0; i < CLUSTER_COMMANDS_MAX; i++) {
        in_flight += node->commands.records[i] ? node->commands.records[i]->count : 0;
        commands += node->commands.records[i] != NULL;
    }
    WORLD_CHECK(totals.streams == node->streams.count && totals.streams <= MOST_STREAMS, "%zu streams", totals.streams);
    WORLD_CHECK(totals.idle == queues.idle && totals.own == queues.own && totals.finds == queues.finds &&
                    totals.drops == queues.drops && totals.waiting == queues.waiting,
                "a list is not what its members say");
    WORLD_CHECK(totals.in_flight == in_flight && commands == node->commands.count, "%zu streams under way, not %zu",
                totals.in_flight, in_flight);
    WORLD_CHECK(node->peers.count <= NAMES, "%zu nodes", node->peers.count);
}
