/* Nodes of a cluster with a model of the engine, and time that the test passes. */
#ifndef SLUICE_TESTS_SUPPORT_CLUSTER_MEMBER_H
#define SLUICE_TESTS_SUPPORT_CLUSTER_MEMBER_H

#include "daemon/cluster/cluster_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_script.h"
#include "support/cluster_engine.h"

#define START_US UINT64_C(1764150000000000)

enum { NODES = 3, QUEUED = 1100, JOBS = 5000, CHANGES = 64, STEP_MS = 50, TICK_MS = 250, FIRST_MS = 10000 };

struct sent {
    struct cluster_command command;
    struct cluster_item items[CLUSTER_BATCH];
    char names[CLUSTER_BATCH][STREAM_NAME + 1];
    struct cluster_event event;
};

struct change {
    char stream[STREAM_NAME + 1];
    enum cluster_change change;
    struct cluster_location location;
};

struct rig;

/* A node, and its connection. */
struct member {
    struct rig *rig;
    char name[8];
    struct cluster_node *node; /* NULL: there is none */
    bool is_up;
    bool is_held;    /* commands are not worked on */
    bool is_refused; /* the connection takes none */
    int error;       /* what the engine answers to all */
    struct sent *queue[QUEUED];
    size_t queued;
    size_t sent[CLUSTER_VERBS];
    size_t items[CLUSTER_VERBS];
    struct change changes[CHANGES];
    size_t change_count;
    struct cluster_event told;
    size_t told_count, states;
    size_t doubts, ends; /* of bans */
    bool loses;          /* what it is told */
    enum cluster_node_state state;
};

struct rig {
    struct cluster_engine engine;
    int64_t jump_us;
    uint64_t now;
    struct member members[NODES];
    struct cluster_job jobs[JOBS];
    bool answered[JOBS];
    size_t job_count;
    uint32_t answers;
};

/* ---- The node's calls ---- */

static inline bool take_command(void *user, const struct cluster_command *command) {
    struct member *member = user;
    if (!member->is_up || member->is_refused)
        return false;
    assert_true(member->queued < QUEUED);
    struct sent *sent = calloc(1, sizeof *sent);
    assert_non_null(sent);
    sent->command = *command;
    assert_string_equal(command->node, member->name);
    for (size_t i = 0; i < command->count; i++) {
        sent->items[i] = command->items[i];
        strcpy(sent->names[i], command->items[i].stream);
        sent->items[i].stream = sent->names[i];
    }
    sent->command.items = sent->items;
    if (command->event)
        sent->event = *command->event;
    sent->command.event = &sent->event;
    member->queue[member->queued++] = sent;
    member->sent[command->verb]++;
    member->items[command->verb] += command->count;
    return true;
}

static inline void take_answer(void *user, struct cluster_job *job) {
    struct member *member = user;
    size_t number = (size_t)(job - member->rig->jobs);
    assert_true(number < member->rig->job_count);
    assert_false(member->rig->answered[number]);
    member->rig->answered[number] = true;
    member->rig->answers++;
}

static inline void take_change(void *user, const char *stream, enum cluster_change change,
                               const struct cluster_location *location) {
    struct member *member = user;
    assert_true(member->change_count < CHANGES);
    struct change *it = &member->changes[member->change_count++];
    strcpy(it->stream, stream);
    it->change = change;
    it->location = *location;
}

static inline bool take_event(void *user, const struct cluster_event *event) {
    struct member *member = user;
    member->told = *event;
    member->told_count++;
    return !member->loses;
}

static inline void take_bans_step(void *user, enum cluster_bans_step step) {
    struct member *member = user;
    member->doubts += step == CLUSTER_BANS_DOUBT;
    member->ends += step == CLUSTER_BANS_END;
}

static inline void take_state(void *user, enum cluster_node_state state) {
    struct member *member = user;
    member->state = state;
    member->states++;
}

/* ---- The engine ---- */

static inline void publish(const struct cluster_event *event, void *user) {
    struct rig *rig = user;
    for (size_t i = 0; i < NODES; i++)
        if (rig->members[i].node && rig->members[i].is_up)
            cluster_node_heard(rig->members[i].node, event, rig->now);
}

static inline void set_time(struct rig *rig) {
    cluster_engine_set_time(&rig->engine, START_US + (uint64_t)rig->jump_us + rig->now * 1000);
}

/* One command, and its reply. */
static inline void run_one(struct member *member) {
    struct rig *rig = member->rig;
    struct sent *sent = member->queue[0];
    struct cluster_reply reply = {.error = member->error};
    memmove(member->queue, member->queue + 1, --member->queued * sizeof member->queue[0]);
    set_time(rig);
    if (!reply.error)
        cluster_engine_run(&rig->engine, &sent->command, &reply, publish, rig);
    cluster_node_replied(member->node, sent->command.tag, &reply, rig->now);
    cluster_reply_clear(&reply);
    free(sent);
}

static inline void run(struct rig *rig) {
    bool is_quiet = false;
    while (!is_quiet) {
        is_quiet = true;
        for (size_t i = 0; i < NODES; i++) {
            struct member *member = &rig->members[i];
            if (member->queued > 0 && member->is_up && !member->is_held) {
                run_one(member);
                is_quiet = false;
            }
        }
    }
}

static inline void pass(struct rig *rig, uint64_t ms) {
    for (uint64_t end = rig->now + ms; rig->now < end;) {
        rig->now += STEP_MS;
        set_time(rig);
        for (size_t i = 0; i < NODES && rig->now % TICK_MS == 0; i++)
            if (rig->members[i].node)
                cluster_node_tick(rig->members[i].node, rig->now);
        run(rig);
    }
}

/* ---- Nodes ---- */

static const struct cluster_node_calls calls = {.send = take_command,
                                                .answer = take_answer,
                                                .changed = take_change,
                                                .told = take_event,
                                                .bans_step = take_bans_step,
                                                .state_changed = take_state};

static inline struct member *start(struct rig *rig, const char *name, bool refuses, size_t most) {
    char address[16];
    struct member *member = rig->members;
    while (member->node)
        member++;
    snprintf(address, sizeof address, "%s:80", name);
    *member = (struct member){.rig = rig};
    strcpy(member->name, name);
    const struct cluster_node_options options = {.name = name,
                                                 .address = address,
                                                 .refuses_when_down = refuses,
                                                 .most_streams = most,
                                                 .random = 5,
                                                 .clock_offset_ms = (int64_t)(START_US / 1000)};
    assert_int_equal(cluster_node_new(&options, &calls, member, &member->node), 0);
    return member;
}

static inline void connect_member(struct member *member) {
    member->is_up = true;
    cluster_node_connected(member->node, member->rig->now);
    run(member->rig);
}

static inline void clear_queue(struct member *member) {
    while (member->queued > 0)
        free(member->queue[--member->queued]);
}

static inline void disconnect_member(struct member *member) {
    member->is_up = false;
    clear_queue(member);
    cluster_node_disconnected(member->node, member->rig->now);
}

/* As by SIGKILL. */
static inline void kill_member(struct member *member) {
    clear_queue(member);
    cluster_node_abandon(member->node);
    cluster_node_free(member->node);
    member->node = NULL;
}

static inline struct member *join(struct rig *rig, const char *name) {
    struct member *member = start(rig, name, false, 1000);
    connect_member(member);
    assert_int_equal(member->state, CLUSTER_NODE_ONLINE);
    return member;
}

static inline int set_up(void **state) {
    struct rig *rig = calloc(1, sizeof *rig);
    *state = rig;
    if (rig)
        rig->now = FIRST_MS;
    return rig ? 0 : -1;
}

static inline int tear_down(void **state) {
    struct rig *rig = *state;
    for (size_t i = 0; i < NODES; i++)
        if (rig->members[i].node)
            kill_member(&rig->members[i]);
    assert_int_equal(rig->answers, rig->job_count);
    free(rig);
    return 0;
}

/* ---- Questions ---- */

static inline struct cluster_job *make_job(struct rig *rig, enum cluster_question question, const char *stream) {
    assert_true(rig->job_count < JOBS);
    struct cluster_job *job = &rig->jobs[rig->job_count++];
    job->question = question;
    strcpy(job->stream, stream);
    job->host.bytes[15] = 1;
    job->error = 1;
    return job;
}

static inline struct cluster_job *ask(struct member *member, enum cluster_question question, const char *stream) {
    struct cluster_job *job = make_job(member->rig, question, stream);
    cluster_node_ask(member->node, job, member->rig->now);
    run(member->rig);
    return job;
}

static inline struct cluster_job *claim(struct member *member, const char *stream, enum same_name same_name,
                                        uint8_t host) {
    struct cluster_job *job = make_job(member->rig, CLUSTER_CLAIM, stream);
    job->same_name = same_name;
    job->host.bytes[15] = host;
    cluster_node_ask(member->node, job, member->rig->now);
    run(member->rig);
    return job;
}

static inline struct cluster_job *release(struct member *member, const char *stream, uint64_t epoch, uint64_t keep_ms) {
    struct cluster_job *job = make_job(member->rig, CLUSTER_RELEASE, stream);
    job->epoch = epoch;
    job->keep_ms = keep_ms;
    cluster_node_ask(member->node, job, member->rig->now);
    run(member->rig);
    return job;
}

static inline bool is_answered(const struct rig *rig, const struct cluster_job *job) {
    return rig->answered[job - rig->jobs];
}

#define ASSERT_ANSWER(rig, job, expected)                                                                              \
    do {                                                                                                               \
        assert_true(is_answered(rig, job));                                                                            \
        assert_int_equal((job)->error, expected);                                                                      \
    } while (0)

static inline const struct change *last_change(const struct member *member) {
    assert_true(member->change_count > 0);
    return &member->changes[member->change_count - 1];
}

static inline const char *holder(struct rig *rig, const char *stream) {
    set_time(rig);
    const struct cluster_engine_stream *kept = cluster_engine_find(&rig->engine, stream);
    return kept ? kept->location.node : "";
}

static inline uint64_t granted(struct member *member, const char *stream) {
    struct cluster_job *job = claim(member, stream, SAME_NAME_REFUSE, 1);
    ASSERT_ANSWER(member->rig, job, 0);
    return job->location.epoch;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
