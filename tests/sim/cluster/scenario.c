/* Some seconds of trouble, then none: everything must be as if there had been none. */
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster_state.h"
#include "sim/cluster/cluster.h"

struct sim sim;

static const char *const names[NAMES] = {"n0", "n1", "n2", "n3"};

/* No encoder goes there in the end. */
static bool is_dead(unsigned name) {
    return sim.has[TROUBLE_DEAD] && name == 1;
}

bool sim_has(enum trouble trouble, uint32_t n) {
    return sim.has[trouble] && !world_is_calm() && world_one_in(n);
}

/* ---- Trouble ---- */

static void start_again(void *user) {
    struct process *process = user;
    if (!process_of(process->node_name) && !sim.is_over)
        process_start(process->name);
}

static void kill_one(struct process *process) {
    process_kill(process);
    after_ms(world_between(10, 6000), start_again, process);
}

static void kill_running(void *user) {
    struct process *process = user;
    if (process->is_running)
        kill_one(process);
}

static void drain(struct process *process) {
    cluster_node_leave(process->node, now_ms());
    after_ms(world_between(500, 8000), kill_running, process);
}

/* As an upgrade: or by mistake. */
static void second(struct process *process) {
    if (world_one_in(2))
        cluster_node_leave(process->node, now_ms());
    process_start(process->name);
    after_ms(world_between(500, 12000), kill_running, process);
}

static void restart_all(void) {
    hub_empty();
    for (unsigned i = 0; i < sim.process_count; i++)
        if (sim.processes[i]->is_running)
            kill_one(sim.processes[i]);
}

static void cut_nodes(void) {
    unsigned one = world_random(NAMES), other = world_random(NAMES);
    sim.cuts[one][other] = sim.cuts[other][one] = now_ms() + world_between(100, 12000);
}

static void look_up(struct process *process) {
    unsigned count = world_between(1, 40);
    for (unsigned i = 0; i < count; i++) {
        struct job *job = job_new(process, CLUSTER_LOCATE, STREAMS);
        snprintf(job->job.stream, sizeof job->job.stream, "none/%u", world_random(1000));
        struct job *forget = job_new(process, CLUSTER_FORGET, STREAMS);
        strcpy(forget->job.stream, job->job.stream);
        process_ask(process, job);
        process_ask(process, forget);
    }
}

static void change_players(struct process *process) {
    unsigned stream = world_random(STREAMS);
    edge_want(process, stream, !process->edges[stream].is_wanted);
}

/* Not to and fro between two renewals: nobody notices that before CLUSTER_REFRESH_MS. */
static void jump(void) {
    int64_t hour_us = INT64_C(3600000000);
    if (now_ms() < sim.jumped_at + CLUSTER_LEASE_MS)
        return;
    sim.jumped_at = now_ms();
    for (unsigned i = 0; i < 2; i++)
        sim.engines[i].offset_us += world_one_in(2) ? hour_us : -hour_us;
    world_trace("jump", sim.engines[sim.master].offset_us / hour_us, 0, 0);
}

static void make_trouble(enum trouble trouble, struct process *process) {
    switch (trouble) {
    case TROUBLE_KILL:
        kill_one(process);
        break;
    case TROUBLE_STOP:
        process_stop(process, world_between(200, 12000));
        break;
    case TROUBLE_CUT_ENGINE:
        process->cut_until = now_ms() + world_between(100, 10000);
        break;
    case TROUBLE_CUT_NODES:
        cut_nodes();
        break;
    case TROUBLE_FAILOVER:
    case TROUBLE_TWO_ENGINES:
        hub_failover(trouble == TROUBLE_TWO_ENGINES);
        break;
    case TROUBLE_EMPTY:
        hub_empty();
        break;
    case TROUBLE_ENGINE_DOWN:
        hub_down(world_between(100, 8000));
        break;
    case TROUBLE_CLOCK:
        jump();
        break;
    case TROUBLE_ALL:
        restart_all();
        break;
    case TROUBLE_DRAIN:
        drain(process);
        break;
    case TROUBLE_SECOND:
        second(process);
        break;
    case TROUBLE_ENCODERS:
        encoder_leave(&sim.encoders[world_random(ENCODERS)]);
        break;
    case TROUBLE_PLAYERS:
        change_players(process);
        break;
    case TROUBLE_NAMES:
        look_up(process);
        break;
    default:
        break;
    }
}

static void trouble(void *none) {
    struct process *process = process_any();
    enum trouble kind = (enum trouble)world_random(TROUBLES);
    if (world_is_calm())
        return;
    if (process && sim.has[kind] && sim.process_count < PROCESSES / 2)
        make_trouble(kind, process);
    after_ms(world_between(10, 800), trouble, none);
}

/* ---- Healing ---- */

/* Each name has one process: what drains or has been replaced ends. */
static void keep_one_each(void) {
    for (unsigned i = 0; i < sim.process_count; i++) {
        struct process *process = sim.processes[i];
        if (!process->is_running)
            continue;
        enum cluster_node_state state = cluster_node_get_state(process->node);
        if (state == CLUSTER_NODE_LEFT || state == CLUSTER_NODE_REPLACED || is_dead(process->name) ||
            process_of(process->node_name) != process)
            process_kill(process);
    }
    for (unsigned name = 0; name < NAMES; name++)
        if (!process_of(names[name]) && !is_dead(name))
            process_start(name);
}

static void heal(void) {
    world_calm(true);
    memset(sim.cuts, 0, sizeof sim.cuts);
    sim.engines[!sim.master].is_up = false;
    sim.engines[sim.master].is_up = true;
    for (unsigned i = 0; i < sim.process_count; i++)
        sim.processes[i]->cut_until = 0;
}

/* Two encoders for each stream: only one goes on, and that always to the same node. */
static void choose_encoders(void) {
    for (unsigned i = 0; i < ENCODERS; i++) {
        struct encoder *encoder = &sim.encoders[i];
        encoder->is_wanted = encoder->stream > 0 && i % 2 == 0;
        encoder->goes_to = names[i % NAMES];
    }
}

/* Those that are not wanted leave, as soon as their process runs. */
static void end_unwanted(void) {
    for (unsigned i = 0; i < ENCODERS; i++)
        if (!sim.encoders[i].is_wanted && sim.encoders[i].state != ENCODER_IDLE)
            encoder_leave(&sim.encoders[i]);
}

static void want_all(void) {
    for (unsigned i = 0; i < sim.process_count; i++)
        for (unsigned s = 0; s < STREAMS; s++)
            if (process_runs(sim.processes[i]))
                edge_want(sim.processes[i], s, true);
}

/* ---- Checks ---- */

struct owned {
    unsigned stream;
    uint64_t epoch; /* 0: not this process's */
};

static void find_own(const char *stream, bool is_own, const struct cluster_location *location, void *user) {
    struct owned *owned = user;
    char name[16];
    snprintf(name, sizeof name, "live/%u", owned->stream);
    if (is_own && strcmp(stream, name) == 0)
        owned->epoch = location->epoch;
}

static uint64_t owned_epoch(const struct process *process, unsigned stream) {
    struct owned owned = {stream, 0};
    cluster_node_each_stream(process->node, find_own, &owned);
    return owned.epoch;
}

/* The only one; NULL: none. */
static struct process *check_origin(unsigned stream) {
    struct process *origin = NULL;
    for (unsigned i = 0; i < sim.process_count; i++) {
        struct process *process = sim.processes[i];
        if (!process->is_running)
            continue;
        uint64_t epoch = owned_epoch(process, stream);
        bool is_live = process->slots[stream].publisher;
        WORLD_CHECK((epoch != 0) == is_live, "process %u, stream %u: published %d, claimed %llu", process->number,
                    stream, is_live, (unsigned long long)epoch);
        WORLD_CHECK(!is_live || epoch == process->slots[stream].epoch, "the worker of process %u has epoch %llu",
                    process->number, (unsigned long long)process->slots[stream].epoch);
        WORLD_CHECK(!is_live || !origin, "stream %u has two origins", stream);
        origin = is_live ? process : origin;
    }
    return origin;
}

static void check_engine(unsigned stream, const struct process *origin) {
    char name[16];
    snprintf(name, sizeof name, "live/%u", stream);
    struct cluster_engine *engine = hub_engine(sim.master);
    const struct cluster_engine_stream *kept = cluster_engine_find(engine, name);
    const struct cluster_location *location = kept ? &kept->location : NULL;
    if (!origin) {
        /* The lease of a dead node may last, if the clock has gone back: nodes know better. */
        const struct process *process = location ? process_of(location->node) : NULL;
        WORLD_CHECK(!process || location->incarnation != cluster_node_incarnation(process->node),
                    "stream %u has ended, but not for the engine", stream);
        return;
    }
    WORLD_CHECK(location && strcmp(location->node, origin->node_name) == 0 &&
                    location->incarnation == cluster_node_incarnation(origin->node) &&
                    location->epoch == origin->slots[stream].epoch,
                "stream %u is elsewhere for the engine", stream);
}

static void check_edges(unsigned stream, const struct process *origin) {
    for (unsigned i = 0; i < sim.process_count; i++) {
        const struct process *process = sim.processes[i];
        const struct edge *edge = &process->edges[stream];
        if (!process->is_running || process == origin)
            continue;
        WORLD_CHECK(edge->is_wanted, "process %u has no players", process->number);
        WORLD_CHECK(edge->state == PULL_OPEN && edge->origin == origin &&
                        edge->incarnation == cluster_node_incarnation(origin->node) &&
                        now_ms() - edge->heard_at <= 1000,
                    "process %u does not play stream %u: %d", process->number, stream, edge->state);
    }
}

static void check_all(void) {
    for (unsigned i = 0; i < sim.process_count; i++) {
        const struct process *process = sim.processes[i];
        WORLD_CHECK(!process->is_running || cluster_node_get_state(process->node) == CLUSTER_NODE_ONLINE,
                    "process %u is not online", process->number);
    }
    for (unsigned stream = 0; stream < STREAMS; stream++) {
        const struct process *origin = check_origin(stream);
        bool is_published = sim.encoders[2 * stream].is_wanted;
        WORLD_CHECK(is_published == (origin != NULL), "stream %u has %s origin", stream, origin ? "an" : "no");
        check_engine(stream, origin);
        if (origin)
            check_edges(stream, origin);
    }
}

/* ---- The scenario ---- */

static void begin(void) {
    memset(&sim, 0, sizeof sim);
    for (unsigned i = 0; i < TROUBLES; i++)
        sim.has[i] = world_one_in(3);
    sim.same_name = (enum same_name)world_random(3);
    sim.refuses_when_down = world_one_in(2);
    sim.engines[0].is_up = true;
    for (unsigned i = 0; i < ENCODERS; i++) {
        sim.encoders[i] = (struct encoder){.number = i, .stream = i / 2, .is_wanted = true};
        after_ms(world_between(0, 2000), encoder_try, &sim.encoders[i]);
    }
    for (unsigned name = 0; name < NAMES; name++) {
        struct process *process = process_start(name);
        for (unsigned s = 0; s < STREAMS; s++)
            edge_want(process, s, world_one_in(2));
    }
    hub_snapshot(NULL);
    edge_frames(NULL);
    after_ms(world_between(0, 500), trouble, NULL);
}

static void pass_until(uint64_t ms) {
    while (now_ms() < ms)
        world_advance((ms - EPOCH_MS) * 1000);
}

/* Trouble is over, and everything has been repaired. */
static void keep_up(uint64_t ms) {
    uint64_t begun = now_ms();
    for (uint64_t done = 0; done < ms; done += 500) {
        keep_one_each();
        end_unwanted();
        want_all();
        pass_until(begun + done);
    }
    pass_until(begun + ms);
}

/* ---- Acts: what is promised while there is no trouble ---- */

/* The encoders of an even number go to other nodes. */
static void move(bool with_events) {
    static const char *const elsewhere[NAMES] = {"n2", "n2", "n3", "n0"};
    sim.loses_events = !with_events;
    for (unsigned i = 0; i < ENCODERS; i += 2) {
        struct encoder *encoder = &sim.encoders[i];
        encoder->goes_to = elsewhere[encoder->goes_to[1] - '0'];
        encoder_leave(encoder);
    }
    keep_up(with_events ? 4000 : 6000);
    check_all();
    sim.loses_events = false;
}

/* A second publisher, on another node. */
static void contend(void) {
    struct encoder *first = &sim.encoders[2], *second = &sim.encoders[3];
    uint64_t refusals = second->refusals;
    second->goes_to = first->goes_to[1] == '3' ? "n2" : "n3";
    second->is_wanted = true;
    if (second->state == ENCODER_IDLE)
        encoder_try(second);
    pass_until(now_ms() + (sim.same_name == SAME_NAME_TAKE_OVER ? 100 : CLUSTER_RENEW_MS + 500));
    if (sim.same_name == SAME_NAME_TAKE_OVER)
        WORLD_CHECK(second->state == ENCODER_LIVE && first->state != ENCODER_LIVE, "it was not taken over");
    else
        WORLD_CHECK(second->refusals > refusals && first->state == ENCODER_LIVE, "it was not refused");
    second->is_wanted = false;
    keep_up(8000);
    check_all();
}

/* kill -9 of an origin, whose publisher comes back elsewhere. */
static void lose(void) {
    struct encoder *encoder = &sim.encoders[2];
    struct process *process = encoder->at;
    encoder->goes_to = process->name == 3 ? "n2" : "n3";
    process_kill(process);
    pass_until(now_ms() + 7000);
    check_edges(1, check_origin(1));
    keep_up(4000);
    check_all();
}

void scenario(void) {
    uint64_t begun = now_ms();
    world_calm(false);
    begin();
    pass_until(begun + FAULTY_MS - SETTLING_MS);
    choose_encoders();
    end_unwanted();
    pass_until(begun + FAULTY_MS);
    heal();
    keep_up(HEALING_MS + (sim.has[TROUBLE_LOST_EVENTS] ? CLUSTER_REFRESH_MS : 0));
    check_all();
    move(true);
    move(false);
    contend();
    lose();
    sim.is_over = true;
    for (unsigned i = 0; i < sim.process_count; i++)
        if (sim.processes[i]->is_running)
            process_kill(sim.processes[i]);
    while (world_advance(UINT64_MAX))
        ;
    for (unsigned i = 0; i < sim.process_count; i++)
        world_free(sim.processes[i]);
}
