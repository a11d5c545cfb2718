/* The engine, and the connections to it. */
#include <errno.h>
#include <string.h>

#include "daemon/cluster/cluster_script.h"
#include "sim/cluster/cluster.h"

#define START_US UINT64_C(1764150000000000)

/* A command on its way; it is the engine's own when it has arrived. */
struct request {
    struct process *process;
    uint32_t link;
    unsigned engine;
    struct cluster_command command;
    struct cluster_event event;
    struct cluster_item items[CLUSTER_BATCH];
    char names[CLUSTER_BATCH][STREAM_NAME + 1];
};

/* A reply or an event on its way. */
struct answer {
    struct process *process;
    uint32_t link;
    bool is_event;
    uint64_t tag;
    struct cluster_reply reply;
    struct cluster_event event;
};

struct cluster_engine *hub_engine(unsigned engine) {
    struct engine *it = &sim.engines[engine];
    cluster_engine_set_time(&it->data, START_US + world_now() + (uint64_t)it->offset_us);
    return &it->data;
}

static uint64_t latency_us(void) {
    return sim_has(TROUBLE_SLOW, 4) ? world_between(1000, 1500000) : world_between(100, 3000);
}

/* In order, on one connection. */
static void later(uint64_t *at, uint64_t delay_us, world_fn *call, void *user) {
    uint64_t due = world_now() + delay_us;
    *at = due > *at ? due : *at;
    world_after(*at - world_now(), call, user);
}

static void disconnect(struct process *process) {
    process->is_up = false;
    process->link++;
    world_trace("disconnected", process->number, process->engine, 0);
    cluster_node_disconnected(process->node, now_ms());
    process_check_down(process);
    after_ms(world_between(50, 400), hub_connect, process);
}

struct broken {
    struct process *process;
    uint32_t link;
};

static void broken(void *user) {
    struct broken *it = user;
    if (process_postpones(it->process, broken, it))
        return;
    if (it->process->is_running && it->process->is_up && it->process->link == it->link)
        disconnect(it->process);
    world_free(it);
}

static void break_later(struct process *process, uint64_t delay_us) {
    struct broken *it = world_allocate(sizeof *it);
    *it = (struct broken){process, process->link};
    world_after(delay_us, broken, it);
}

static void break_all(unsigned engine) {
    for (unsigned i = 0; i < sim.process_count; i++) {
        struct process *process = sim.processes[i];
        if (!process->is_running || !process->is_up || process->engine != engine)
            continue;
        break_later(process, world_between(0, 2000));
    }
}

void hub_connect(void *user) {
    struct process *process = user;
    if (!process->is_running || process->is_up || process_postpones(process, hub_connect, process))
        return;
    unsigned engine = sim.master;
    /* A node may still reach the old one, which does not know that it is no master any more. */
    if (sim.engines[!engine].is_up && world_one_in(2))
        engine = !engine;
    if (!sim.engines[engine].is_up || process->cut_until > now_ms()) {
        cluster_node_disconnected(process->node, now_ms());
        after_ms(250u << (process->attempts < 2 ? process->attempts : 2), hub_connect, process);
        process->attempts++;
        return;
    }
    process->attempts = 0;
    process->is_up = true;
    process->engine = engine;
    process->link++;
    process->sent = process->answered = 0;
    process->to_at = process->from_at = world_now();
    world_trace("connected", process->number, engine, process->link);
    cluster_node_connected(process->node, now_ms());
}

/* The client ends a connection whose oldest command has no reply for too long. */
void hub_check(struct process *process) {
    if (process->is_up && process->sent != process->answered &&
        now_ms() - process->sent_at[process->answered % SENT] > ENGINE_TIMEOUT_MS)
        disconnect(process);
}

static void arrive_back(void *user) {
    struct answer *answer = user;
    struct process *process = answer->process;
    if (process_postpones(process, arrive_back, answer))
        return;
    bool is_current = process->is_running && process->is_up && process->link == answer->link;
    if (is_current && process->cut_until > now_ms()) {
        at_ms(process->cut_until, arrive_back, answer);
        return;
    }
    if (is_current && answer->is_event) {
        world_trace("hears", process->number, answer->event.verb, (int64_t)answer->event.location.epoch);
        cluster_node_heard(process->node, &answer->event, now_ms());
    } else if (is_current) {
        process->answered++;
        cluster_node_replied(process->node, answer->tag, &answer->reply, now_ms());
    }
    cluster_reply_clear(&answer->reply);
    world_free(answer);
}

static void publish(const struct cluster_event *event, void *user) {
    const struct request *request = user;
    for (unsigned i = 0; i < sim.process_count; i++) {
        struct process *process = sim.processes[i];
        uint64_t own_way = world_now();
        if (!process->is_running || !process->is_up || process->engine != request->engine || sim.loses_events ||
            sim_has(TROUBLE_LOST_EVENTS, 8))
            continue;
        bool is_late = sim_has(TROUBLE_LATE_EVENTS, 4);
        struct answer *answer = world_allocate(sizeof *answer);
        *answer = (struct answer){.process = process, .link = process->link, .is_event = true, .event = *event};
        later(is_late ? &own_way : &process->from_at, is_late ? world_between(0, 3000000) : latency_us(), arrive_back,
              answer);
    }
}

static void run(const struct request *request, struct cluster_reply *reply) {
    world_trace("command", request->process->number, request->command.verb, (int64_t)request->command.count);
    if (sim_has(TROUBLE_ERRORS, 10)) {
        reply->error = -ENOSPC;
        return;
    }
    cluster_engine_run(hub_engine(request->engine), &request->command, reply, publish, (void *)request);
    for (size_t i = 0; i < reply->count; i++)
        world_trace("  item", (int64_t)reply->items[i].result, (int64_t)reply->items[i].location.epoch,
                    (int64_t)reply->items[i].location.incarnation);
}

static void arrive(void *user) {
    struct request *request = user;
    struct process *process = request->process;
    bool is_current = process->is_running && process->is_up && process->link == request->link;
    if (is_current && process->cut_until > now_ms()) {
        at_ms(process->cut_until, arrive, request);
        return;
    }
    struct cluster_reply reply = {0};
    /* What was on its way when the connection ended may arrive, or not. */
    bool runs = sim.engines[request->engine].is_up && (is_current || world_one_in(2));
    if (runs)
        run(request, &reply);
    if (runs && is_current) {
        struct answer *answer = world_allocate(sizeof *answer);
        *answer = (struct answer){
            .process = process, .link = process->link, .tag = request->command.tag, .reply = reply};
        later(&process->from_at, latency_us(), arrive_back, answer);
    } else {
        cluster_reply_clear(&reply);
        if (is_current) /* nobody listens there */
            break_later(process, 100);
    }
    world_free(request);
}

bool hub_send(struct process *process, const struct cluster_command *command) {
    if (!process->is_up || sim_has(TROUBLE_BUSY, 10))
        return false;
    struct request *request = world_allocate(sizeof *request);
    *request = (struct request){
        .process = process, .link = process->link, .engine = process->engine, .command = *command};
    WORLD_CHECK(command->count <= CLUSTER_BATCH, "%zu items in a command", command->count);
    for (size_t i = 0; i < command->count; i++) {
        request->items[i] = command->items[i];
        strcpy(request->names[i], command->items[i].stream);
        request->items[i].stream = request->names[i];
    }
    request->command.items = request->items;
    request->command.node = process->node_name;
    request->command.address = process->address;
    if (command->event)
        request->event = *command->event;
    request->command.event = &request->event;
    WORLD_CHECK(process->sent - process->answered < SENT, "too many commands are under way");
    process->sent_at[process->sent++ % SENT] = now_ms();
    later(&process->to_at, latency_us(), arrive, request);
    return true;
}

/* ---- What becomes of the engine ---- */

void hub_snapshot(void *none) {
    if (sim.is_over)
        return;
    sim.snapshots[sim.snapshot_count++ % SNAPSHOTS] = *hub_engine(sim.master);
    after_ms(1000, hub_snapshot, none);
}

static void end_old(void *user) {
    struct engine *engine = user;
    if (engine == &sim.engines[sim.master] || !engine->is_up)
        return;
    engine->is_up = false;
    break_all((unsigned)(engine - sim.engines));
}

void hub_failover(bool keeps_old) {
    unsigned old = sim.master;
    uint64_t known = sim.snapshot_count < SNAPSHOTS ? sim.snapshot_count : SNAPSHOTS;
    if (sim.engines[!old].is_up || known == 0)
        return;
    uint64_t age = world_random((uint32_t)known);
    sim.master = !old;
    sim.engines[sim.master] = (struct engine){.data = sim.snapshots[(sim.snapshot_count - 1 - age) % SNAPSHOTS],
                                              .is_up = true,
                                              .offset_us = sim.engines[old].offset_us};
    world_trace("failover", (int64_t)age, keeps_old, 0);
    if (keeps_old) {
        after_ms(world_between(500, 8000), end_old, &sim.engines[old]);
        return;
    }
    sim.engines[old].is_up = false;
    break_all(old);
}

void hub_empty(void) {
    world_trace("empty", 0, 0, 0);
    sim.engines[sim.master].data = (struct cluster_engine){0};
    sim.snapshot_count = 0;
    break_all(sim.master);
}

static void up(void *user) {
    struct engine *engine = user;
    engine->is_up = engine == &sim.engines[sim.master];
}

void hub_down(uint64_t ms) {
    if (!sim.engines[sim.master].is_up)
        return;
    world_trace("engine down", (int64_t)ms, 0, 0);
    sim.engines[sim.master].is_up = false;
    break_all(sim.master);
    after_ms(ms, up, &sim.engines[sim.master]);
}
