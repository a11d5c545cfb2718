/* What a node of a cluster decides, with a model of the engine, and time that the test passes. */
#include "daemon/cluster/cluster_node.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static bool take_command(void *user, const struct cluster_command *command) {
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

static void take_answer(void *user, struct cluster_job *job) {
    struct member *member = user;
    size_t number = (size_t)(job - member->rig->jobs);
    assert_true(number < member->rig->job_count);
    assert_false(member->rig->answered[number]);
    member->rig->answered[number] = true;
    member->rig->answers++;
}

static void take_change(void *user, const char *stream, enum cluster_change change,
                        const struct cluster_location *location) {
    struct member *member = user;
    assert_true(member->change_count < CHANGES);
    struct change *it = &member->changes[member->change_count++];
    strcpy(it->stream, stream);
    it->change = change;
    it->location = *location;
}

static bool take_event(void *user, const struct cluster_event *event) {
    struct member *member = user;
    member->told = *event;
    member->told_count++;
    return !member->loses;
}

static void take_bans_step(void *user, enum cluster_bans_step step) {
    struct member *member = user;
    member->doubts += step == CLUSTER_BANS_DOUBT;
    member->ends += step == CLUSTER_BANS_END;
}

static void take_state(void *user, enum cluster_node_state state) {
    struct member *member = user;
    member->state = state;
    member->states++;
}

/* ---- The engine ---- */

static void publish(const struct cluster_event *event, void *user) {
    struct rig *rig = user;
    for (size_t i = 0; i < NODES; i++)
        if (rig->members[i].node && rig->members[i].is_up)
            cluster_node_heard(rig->members[i].node, event, rig->now);
}

static void set_time(struct rig *rig) {
    cluster_engine_set_time(&rig->engine, START_US + (uint64_t)rig->jump_us + rig->now * 1000);
}

/* One command, and its reply. */
static void run_one(struct member *member) {
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

static void run(struct rig *rig) {
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

static void pass(struct rig *rig, uint64_t ms) {
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

static struct member *start(struct rig *rig, const char *name, bool refuses, size_t most) {
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

static void connect_member(struct member *member) {
    member->is_up = true;
    cluster_node_connected(member->node, member->rig->now);
    run(member->rig);
}

static void clear_queue(struct member *member) {
    while (member->queued > 0)
        free(member->queue[--member->queued]);
}

static void disconnect_member(struct member *member) {
    member->is_up = false;
    clear_queue(member);
    cluster_node_disconnected(member->node, member->rig->now);
}

/* As by SIGKILL. */
static void kill_member(struct member *member) {
    clear_queue(member);
    cluster_node_abandon(member->node);
    cluster_node_free(member->node);
    member->node = NULL;
}

static struct member *join(struct rig *rig, const char *name) {
    struct member *member = start(rig, name, false, 1000);
    connect_member(member);
    assert_int_equal(member->state, CLUSTER_NODE_ONLINE);
    return member;
}

static int set_up(void **state) {
    struct rig *rig = calloc(1, sizeof *rig);
    *state = rig;
    if (rig)
        rig->now = FIRST_MS;
    return rig ? 0 : -1;
}

static int tear_down(void **state) {
    struct rig *rig = *state;
    for (size_t i = 0; i < NODES; i++)
        if (rig->members[i].node)
            kill_member(&rig->members[i]);
    assert_int_equal(rig->answers, rig->job_count);
    free(rig);
    return 0;
}

/* ---- Questions ---- */

static struct cluster_job *make_job(struct rig *rig, enum cluster_question question, const char *stream) {
    assert_true(rig->job_count < JOBS);
    struct cluster_job *job = &rig->jobs[rig->job_count++];
    job->question = question;
    strcpy(job->stream, stream);
    job->host.bytes[15] = 1;
    job->error = 1;
    return job;
}

static struct cluster_job *ask(struct member *member, enum cluster_question question, const char *stream) {
    struct cluster_job *job = make_job(member->rig, question, stream);
    cluster_node_ask(member->node, job, member->rig->now);
    run(member->rig);
    return job;
}

static struct cluster_job *claim(struct member *member, const char *stream, enum same_name same_name, uint8_t host) {
    struct cluster_job *job = make_job(member->rig, CLUSTER_CLAIM, stream);
    job->same_name = same_name;
    job->host.bytes[15] = host;
    cluster_node_ask(member->node, job, member->rig->now);
    run(member->rig);
    return job;
}

static struct cluster_job *release(struct member *member, const char *stream, uint64_t epoch, uint64_t keep_ms) {
    struct cluster_job *job = make_job(member->rig, CLUSTER_RELEASE, stream);
    job->epoch = epoch;
    job->keep_ms = keep_ms;
    cluster_node_ask(member->node, job, member->rig->now);
    run(member->rig);
    return job;
}

static bool is_answered(const struct rig *rig, const struct cluster_job *job) {
    return rig->answered[job - rig->jobs];
}

#define ASSERT_ANSWER(rig, job, expected)                                                                              \
    do {                                                                                                               \
        assert_true(is_answered(rig, job));                                                                            \
        assert_int_equal((job)->error, expected);                                                                      \
    } while (0)

static const struct change *last_change(const struct member *member) {
    assert_true(member->change_count > 0);
    return &member->changes[member->change_count - 1];
}

static const char *holder(struct rig *rig, const char *stream) {
    set_time(rig);
    const struct cluster_engine_stream *kept = cluster_engine_find(&rig->engine, stream);
    return kept ? kept->location.node : "";
}

static uint64_t granted(struct member *member, const char *stream) {
    struct cluster_job *job = claim(member, stream, SAME_NAME_REFUSE, 1);
    ASSERT_ANSWER(member->rig, job, 0);
    return job->location.epoch;
}

/* ---- The lease ---- */

static void renews_its_lease(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 10);
    assert_int_equal(cluster_node_get_state(a->node), CLUSTER_NODE_OFFLINE);
    assert_int_equal(cluster_node_engine_offset_ms(a->node), INT64_MIN);
    connect_member(a);
    assert_int_equal(a->states, 2);
    assert_int_equal(a->state, CLUSTER_NODE_ONLINE);
    assert_int_equal(cluster_node_engine_offset_ms(a->node), START_US / 1000);
    uint64_t incarnation = cluster_node_incarnation(a->node);
    assert_int_equal(incarnation & 0xfff, 5);
    pass(rig, 6000);
    assert_int_equal(a->sent[CLUSTER_RENEW], 5);
    assert_int_equal(a->sent[CLUSTER_LIST], 5);
    assert_true(cluster_engine_is_alive(&rig->engine, "a", incarnation));
    a->is_held = true;
    pass(rig, CLUSTER_LEASE_MS);
    assert_false(cluster_engine_is_alive(&rig->engine, "a", incarnation));
}

/* It does not wait for the lease of the process before it, and what that had is free. */
static void restarted_node_replaces_its_own_lease(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t before = cluster_node_incarnation(a->node);
    granted(a, "live/x");
    kill_member(a);
    rig->jump_us = -3600000000; /* and the engine's clock has gone back */
    a = join(rig, "a");
    assert_true(cluster_node_incarnation(a->node) > before);
    assert_int_equal(claim(b, "live/x", SAME_NAME_REFUSE, 1)->error, 0);
}

/* Two processes with one name: the older one ends, once the newer one has shown that it lives. */
static void newer_process_replaces_it(void **state) {
    struct rig *rig = *state;
    struct member *old = join(rig, "a");
    uint64_t epoch = granted(old, "live/x");
    struct member *new = join(rig, "a");
    pass(rig, 4 * CLUSTER_RENEW_MS);
    assert_int_equal(old->state, CLUSTER_NODE_REPLACED);
    assert_int_equal(new->state, CLUSTER_NODE_ONLINE);
    assert_int_equal(last_change(old)->change, CLUSTER_SUPERSEDED);
    assert_string_equal(last_change(old)->location.node, "");
    ASSERT_ANSWER(rig, release(old, "live/x", epoch, 0), 0);
    ASSERT_ANSWER(rig, claim(old, "live/y", SAME_NAME_REFUSE, 1), -ESHUTDOWN);
    size_t renewals = old->sent[CLUSTER_RENEW];
    pass(rig, 4 * CLUSTER_RENEW_MS);
    assert_int_equal(old->sent[CLUSTER_RENEW], renewals);
    disconnect_member(old);
    connect_member(old);
    assert_int_equal(old->state, CLUSTER_NODE_REPLACED);
    assert_int_equal(granted(new, "live/x") > epoch, true);
}

/* A newer one that joined and died at once, while the engine's clock has gone back: its lease
 * stays, and is joined over. */
static void dead_rival_is_overcome(void **state) {
    struct rig *rig = *state;
    struct member *old = join(rig, "a");
    uint64_t epoch = granted(old, "live/x");
    kill_member(join(rig, "a"));
    rig->jump_us = -3600000000;
    pass(rig, 2 * CLUSTER_LEASE_MS);
    assert_int_equal(old->state, CLUSTER_NODE_ONLINE);
    assert_int_equal(old->change_count, 1);
    assert_int_equal(old->changes[0].change, CLUSTER_EPOCH);
    assert_true(old->changes[0].location.epoch > epoch);
    assert_string_equal(holder(rig, "live/x"), "a");
    assert_true(cluster_engine_is_alive(&rig->engine, "a", cluster_node_incarnation(old->node)));
}

/* What the engine has lost of a lease, it may have lost of streams. */
static void engine_that_forgets_is_told_again(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a");
    uint64_t epoch = granted(a, "live/x");
    rig->engine = (struct cluster_engine){0};
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_string_equal(holder(rig, "live/x"), "a");
    assert_int_equal(cluster_engine_find(&rig->engine, "live/x")->location.epoch, epoch);
    /* The same where its clock goes ahead: all that it kept for an hour is gone. */
    rig->jump_us = 2 * INT64_C(3600000000);
    set_time(rig);
    assert_string_equal(holder(rig, "live/x"), "");
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_string_equal(holder(rig, "live/x"), "a");
}

/* ---- Claims ---- */

static void publishers_of_a_node_share_its_claim(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a");
    uint64_t epoch = granted(a, "live/x");
    assert_true(epoch >= START_US);
    size_t sent = a->sent[CLUSTER_TAKE];
    assert_int_equal(granted(a, "live/x"), epoch);
    assert_int_equal(a->sent[CLUSTER_TAKE], sent);
    release(a, "live/x", epoch, 0);
    assert_string_equal(holder(rig, "live/x"), "a");
    release(a, "live/x", epoch, 0);
    assert_string_equal(holder(rig, "live/x"), "");
    assert_int_equal(cluster_engine_find(&rig->engine, "live/x")->location.epoch, epoch);
    release(a, "live/x", epoch, 0); /* once too often */
    assert_true(granted(a, "live/x") > epoch);
    /* What players have had is exceeded. */
    struct cluster_job *job = make_job(rig, CLUSTER_CLAIM, "live/z");
    job->epoch = START_US * 2;
    cluster_node_ask(a->node, job, rig->now);
    run(rig);
    ASSERT_ANSWER(rig, job, 0);
    assert_int_equal(job->location.epoch, START_US * 2 + 1);
}

/* After 1 s, and with a beat of its holder since. */
static void held_claim_is_refused(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    struct cluster_job *job = claim(b, "live/x", SAME_NAME_REFUSE, 2);
    pass(rig, PUBLISH_LOCK_MS - STEP_MS);
    assert_false(is_answered(rig, job));
    pass(rig, CLUSTER_RENEW_MS);
    ASSERT_ANSWER(rig, job, -EEXIST);
    assert_in_range(b->sent[CLUSTER_TAKE], 4, 11);
    /* Its holder leaves meanwhile: no time is lost. */
    job = claim(b, "live/x", SAME_NAME_REFUSE, 2);
    release(a, "live/x", cluster_engine_find(&rig->engine, "live/x")->location.epoch, 0);
    ASSERT_ANSWER(rig, job, 0);
    /* So where the whole node leaves. */
    job = claim(a, "live/x", SAME_NAME_REFUSE, 2);
    assert_false(is_answered(rig, job));
    cluster_node_leave(b->node, rig->now);
    run(rig);
    ASSERT_ANSWER(rig, job, 0);
}

/* A holder that was killed loses its lease before the claim is refused. */
static void claim_waits_for_the_end_of_a_lease(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t epoch = granted(a, "live/x");
    pass(rig, CLUSTER_RENEW_MS);
    kill_member(a);
    struct cluster_job *job = claim(b, "live/x", SAME_NAME_REFUSE, 2);
    pass(rig, CLUSTER_LEASE_MS - TICK_MS);
    assert_false(is_answered(rig, job));
    pass(rig, 2 * TICK_MS);
    ASSERT_ANSWER(rig, job, 0);
    assert_true(job->location.epoch > epoch);
}

/* The engine's clock goes back by an hour with the kill: no lease ends, but no beat comes. */
static void dead_node_is_known_by_its_beat(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    pass(rig, CLUSTER_RENEW_MS);
    kill_member(a);
    rig->jump_us = -3600000000;
    pass(rig, 2000);
    struct cluster_job *job = claim(b, "live/x", SAME_NAME_REFUSE, 2);
    pass(rig, CLUSTER_LEASE_MS);
    ASSERT_ANSWER(rig, job, 0);
    assert_false(cluster_node_is_alive(b->node, "a", rig->now));
    assert_true(cluster_node_is_alive(b->node, "b", rig->now));
}

/* And where it goes ahead, all leases end, and nobody dies for long. */
static void clock_ahead_kills_nobody(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    struct cluster_job *job = ask(b, CLUSTER_LOCATE, "live/x");
    assert_string_equal(job->location.node, "a");
    pass(rig, 100);
    rig->jump_us = 3600000000;
    for (int i = 0; i < 20; i++) {
        pass(rig, 500);
        assert_true(cluster_node_is_alive(b->node, "a", rig->now));
    }
    assert_string_equal(holder(rig, "live/x"), "a");
    for (size_t i = 0; i < b->change_count; i++)
        assert_int_not_equal(b->changes[i].change, CLUSTER_GONE);
}

static void take_over_is_at_once(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t first = granted(a, "live/x");
    struct cluster_job *job = claim(b, "live/x", SAME_NAME_TAKE_OVER, 2);
    ASSERT_ANSWER(rig, job, 0);
    uint64_t second = job->location.epoch;
    assert_true(second > first);
    assert_int_equal(a->change_count, 1);
    assert_int_equal(last_change(a)->change, CLUSTER_SUPERSEDED);
    assert_string_equal(last_change(a)->location.node, "b");
    assert_int_equal(last_change(a)->location.epoch, second);
    /* It comes back; the release of what it has lost is none of what it has now. */
    job = claim(a, "live/x", SAME_NAME_TAKE_OVER, 1);
    ASSERT_ANSWER(rig, job, 0);
    release(a, "live/x", first, 0);
    assert_string_equal(holder(rig, "live/x"), "a");
    release(b, "live/x", second, 0);
    assert_string_equal(holder(rig, "live/x"), "a");
    release(a, "live/x", job->location.epoch, 0);
    assert_string_equal(holder(rig, "live/x"), "");
}

static void resume_goes_by_the_host(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    struct cluster_job *job = claim(a, "live/x", SAME_NAME_RESUME, 1);
    ASSERT_ANSWER(rig, job, 0);
    /* The same host, on another node: its connection to the first is lost. */
    job = claim(b, "live/x", SAME_NAME_RESUME, 1);
    pass(rig, PUBLISH_LOCK_MS - STEP_MS);
    assert_false(is_answered(rig, job));
    pass(rig, 2 * TICK_MS);
    ASSERT_ANSWER(rig, job, 0);
    assert_int_equal(last_change(a)->change, CLUSTER_SUPERSEDED);
    /* Another host is refused; and where it has left, too, for as long as it is kept for it. */
    struct cluster_job *other = claim(a, "live/x", SAME_NAME_RESUME, 2);
    pass(rig, PUBLISH_LOCK_MS + CLUSTER_RENEW_MS);
    ASSERT_ANSWER(rig, other, -EEXIST);
    release(b, "live/x", job->location.epoch, 2000);
    ASSERT_ANSWER(rig, claim(a, "live/x", SAME_NAME_RESUME, 2), -EBUSY);
    ASSERT_ANSWER(rig, claim(b, "live/x", SAME_NAME_RESUME, 2), -EBUSY);
    job = claim(a, "live/x", SAME_NAME_RESUME, 1);
    ASSERT_ANSWER(rig, job, 0);
    release(a, "live/x", job->location.epoch, 2000);
    pass(rig, 1900);
    ASSERT_ANSWER(rig, claim(b, "live/x", SAME_NAME_RESUME, 2), -EBUSY);
    pass(rig, 100);
    ASSERT_ANSWER(rig, claim(b, "live/x", SAME_NAME_RESUME, 2), 0);
}

/* A claim of this node that it does not know is released when somebody wants the stream. */
static void stale_claim_is_released(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t epoch = granted(a, "live/x");
    struct cluster_engine before = rig->engine;
    release(a, "live/x", epoch, 0);
    rig->engine = before; /* the engine has lost that */
    struct cluster_job *job = claim(b, "live/x", SAME_NAME_REFUSE, 2);
    assert_false(is_answered(rig, job));
    pass(rig, PUBLISH_LOCK_MS);
    ASSERT_ANSWER(rig, job, 0);
    /* So where an edge has come for it. */
    epoch = job->location.epoch;
    before = rig->engine;
    release(b, "live/x", epoch, 0);
    rig->engine = before;
    job = make_job(rig, CLUSTER_ASSERT, "live/x");
    job->epoch = epoch;
    cluster_node_ask(b->node, job, rig->now);
    run(rig);
    ASSERT_ANSWER(rig, job, -ESTALE);
    assert_string_equal(holder(rig, "live/x"), "");
}

/* An edge that has seen a higher epoch makes the origin exceed it. */
static void asserts_above_what_was_seen(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a");
    uint64_t epoch = granted(a, "live/x");
    struct cluster_job *job = make_job(rig, CLUSTER_ASSERT, "live/x");
    job->epoch = epoch;
    cluster_node_ask(a->node, job, rig->now);
    ASSERT_ANSWER(rig, job, 0);
    assert_int_equal(job->location.epoch, epoch);
    job = make_job(rig, CLUSTER_ASSERT, "live/x");
    struct cluster_job *other = make_job(rig, CLUSTER_ASSERT, "live/x");
    job->epoch = START_US * 2;
    other->epoch = START_US * 3;
    cluster_node_ask(a->node, job, rig->now);
    cluster_node_ask(a->node, other, rig->now);
    run(rig);
    ASSERT_ANSWER(rig, job, 0);
    ASSERT_ANSWER(rig, other, 0);
    assert_int_equal(other->location.epoch, START_US * 3 + 1);
    assert_int_equal(last_change(a)->change, CLUSTER_EPOCH);
    assert_int_equal(last_change(a)->location.epoch, START_US * 3 + 1);
    assert_string_equal(last_change(a)->location.node, "a");
    /* Without the engine nobody knows. */
    disconnect_member(a);
    job = make_job(rig, CLUSTER_ASSERT, "live/x");
    job->epoch = START_US * 4;
    cluster_node_ask(a->node, job, rig->now);
    ASSERT_ANSWER(rig, job, -EHOSTDOWN);
}

/* ---- Without the engine ---- */

static void accepts_on_its_word(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    char name[24];
    uint64_t epoch = granted(a, "live/x"), high = 0;
    disconnect_member(a);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "live/%d", i);
        struct cluster_job *job = claim(a, name, SAME_NAME_REFUSE, 1);
        ASSERT_ANSWER(rig, job, 0);
        assert_true(job->location.epoch > epoch);
        high = job->location.epoch;
    }
    /* About as the engine would. */
    assert_true(high < START_US + rig->now * 1000 + 1000000);
    struct cluster_job *other = claim(b, "live/0", SAME_NAME_REFUSE, 2);
    ASSERT_ANSWER(rig, other, 0);
    a->sent[CLUSTER_TAKE] = a->items[CLUSTER_TAKE] = 0;
    connect_member(a);
    assert_int_equal(a->items[CLUSTER_TAKE], 201);
    assert_int_equal(a->sent[CLUSTER_TAKE], (201 + CLUSTER_BATCH - 1) / CLUSTER_BATCH);
    /* The highest epoch has won. */
    bool wins = rig->jobs[1].location.epoch > other->location.epoch;
    assert_string_equal(holder(rig, "live/0"), wins ? "a" : "b");
    assert_int_equal(last_change(wins ? b : a)->change, CLUSTER_SUPERSEDED);
    assert_string_equal(holder(rig, "live/199"), "a");
    assert_int_equal(cluster_engine_find(&rig->engine, "live/x")->location.epoch, epoch);
}

static void refuses_new_names(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", true, 100);
    connect_member(a);
    uint64_t epoch = granted(a, "live/x"), other = granted(a, "live/y");
    release(a, "live/y", other, 0);
    disconnect_member(a);
    ASSERT_ANSWER(rig, claim(a, "live/new", SAME_NAME_REFUSE, 1), -EHOSTDOWN);
    assert_int_equal(granted(a, "live/x"), epoch);
    assert_true(granted(a, "live/y") > other);
    connect_member(a);
    assert_string_equal(holder(rig, "live/y"), "a");
}

/* Under way when the connection ends: answered at once, and the engine keeps nothing that is
 * none. */
static void claim_without_a_reply(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", true, 100);
    connect_member(a);
    a->is_held = true;
    struct cluster_job *job = claim(a, "live/x", SAME_NAME_REFUSE, 1), *find = ask(a, CLUSTER_LOCATE, "live/y");
    assert_int_equal(a->queued, 2);
    struct cluster_reply reply = {0};
    cluster_engine_run(&rig->engine, &a->queue[0]->command, &reply, publish, rig);
    cluster_reply_clear(&reply);
    disconnect_member(a);
    ASSERT_ANSWER(rig, job, -EHOSTDOWN);
    ASSERT_ANSWER(rig, find, -EHOSTDOWN);
    assert_string_equal(holder(rig, "live/x"), "a");
    a->is_held = false;
    connect_member(a);
    assert_string_equal(holder(rig, "live/x"), "");
}

/* A release without a reply is repeated; one that was made meanwhile is sent. */
static void release_without_a_reply(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a");
    uint64_t x = granted(a, "live/x"), y = granted(a, "live/y");
    a->is_held = true;
    release(a, "live/x", x, 0);
    disconnect_member(a);
    release(a, "live/y", y, 0);
    a->is_held = false;
    assert_string_equal(holder(rig, "live/x"), "a");
    connect_member(a);
    assert_string_equal(holder(rig, "live/x"), "");
    assert_string_equal(holder(rig, "live/y"), "");
}

/* Questions wait for the first connection, for a while. */
static void first_questions_wait(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 100), *b = start(rig, "b", true, 100);
    struct cluster_job *at_a = claim(a, "live/x", SAME_NAME_REFUSE, 1);
    struct cluster_job *at_b = claim(b, "live/y", SAME_NAME_REFUSE, 1), *find = ask(b, CLUSTER_LOCATE, "live/x");
    pass(rig, 500);
    assert_false(is_answered(rig, at_a));
    connect_member(a);
    ASSERT_ANSWER(rig, at_a, 0);
    assert_string_equal(holder(rig, "live/x"), "a");
    assert_false(is_answered(rig, at_b));
    pass(rig, 1000);
    ASSERT_ANSWER(rig, at_b, -EHOSTDOWN);
    ASSERT_ANSWER(rig, find, -EHOSTDOWN);
    /* From then on, at once. */
    ASSERT_ANSWER(rig, claim(b, "live/y", SAME_NAME_REFUSE, 1), -EHOSTDOWN);
}

/* An engine that accepts the connection, and nothing else. */
static void engine_that_rejects_all(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 100);
    a->error = -ENOSPC;
    connect_member(a);
    assert_int_equal(a->state, CLUSTER_NODE_JOINING);
    struct cluster_job *job = claim(a, "live/x", SAME_NAME_REFUSE, 1), *find = ask(a, CLUSTER_LOCATE, "live/z");
    pass(rig, 1500);
    ASSERT_ANSWER(rig, job, 0);
    ASSERT_ANSWER(rig, find, -EHOSTDOWN);
    a->error = 0;
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_string_equal(holder(rig, "live/x"), "a");
    a->error = -ENOSPC;
    ASSERT_ANSWER(rig, claim(a, "live/y", SAME_NAME_REFUSE, 1), 0);
    assert_string_equal(holder(rig, "live/y"), "");
    a->error = 0;
    pass(rig, 2000);
    assert_string_equal(holder(rig, "live/y"), "a");
}

/* ---- Lookups ---- */

static void locations_are_cached(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    struct cluster_job *job = ask(b, CLUSTER_LOCATE, "live/x");
    ASSERT_ANSWER(rig, job, 0);
    assert_string_equal(job->location.node, "");
    assert_int_equal(b->sent[CLUSTER_FIND], 1);
    pass(rig, CLUSTER_NEGATIVE_MS - STEP_MS);
    ask(b, CLUSTER_LOCATE, "live/x");
    assert_int_equal(b->sent[CLUSTER_FIND], 1);
    pass(rig, STEP_MS);
    ask(b, CLUSTER_LOCATE, "live/x");
    assert_int_equal(b->sent[CLUSTER_FIND], 2);
    /* Events keep it right. */
    uint64_t epoch = granted(a, "live/x");
    assert_int_equal(b->change_count, 1);
    assert_int_equal(last_change(b)->change, CLUSTER_MOVED);
    assert_string_equal(last_change(b)->location.node, "a");
    assert_string_equal(last_change(b)->location.address, "a:80");
    assert_int_equal(last_change(b)->location.epoch, epoch);
    assert_int_equal(last_change(b)->location.incarnation, cluster_node_incarnation(a->node));
    job = ask(b, CLUSTER_LOCATE, "live/x");
    assert_string_equal(job->location.node, "a");
    assert_int_equal(b->sent[CLUSTER_FIND], 2);
    /* But not where more is known than that. */
    job = make_job(rig, CLUSTER_LOCATE, "live/x");
    job->epoch = epoch + 1;
    cluster_node_ask(b->node, job, rig->now);
    run(rig);
    ASSERT_ANSWER(rig, job, 0);
    assert_int_equal(job->location.epoch, epoch);
    assert_int_equal(b->sent[CLUSTER_FIND], 3);
    release(a, "live/x", epoch, 0);
    assert_int_equal(last_change(b)->change, CLUSTER_GONE);
    assert_int_equal(b->change_count, 2);
    ask(b, CLUSTER_FORGET, "live/x");
    granted(a, "live/x");
    assert_int_equal(b->change_count, 2);
    /* What this node has is here, without a question. */
    job = ask(a, CLUSTER_LOCATE, "live/x");
    assert_string_equal(job->location.node, "a");
    assert_int_equal(a->sent[CLUSTER_FIND], 0);
}

static void one_lookup_for_a_name(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    b->is_held = true;
    for (int i = 0; i < 50; i++)
        ask(b, CLUSTER_LOCATE, "live/x");
    assert_int_equal(b->sent[CLUSTER_FIND], 1);
    uint32_t answers = rig->answers;
    b->is_held = false;
    run(rig);
    assert_int_equal(rig->answers, answers + 50);
    assert_string_equal(rig->jobs[rig->job_count - 1].location.node, "a");
}

static void locations_without_the_engine(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    ask(b, CLUSTER_LOCATE, "live/x");
    disconnect_member(b);
    pass(rig, 20000);
    struct cluster_job *job = ask(b, CLUSTER_LOCATE, "live/x");
    ASSERT_ANSWER(rig, job, 0);
    assert_string_equal(job->location.node, "a");
    assert_true(cluster_node_is_alive(b->node, "a", rig->now));
    ASSERT_ANSWER(rig, ask(b, CLUSTER_LOCATE, "live/y"), -EHOSTDOWN);
    /* All is looked at again; what has happened meanwhile is reported. */
    uint64_t epoch = cluster_engine_find(&rig->engine, "live/x")->location.epoch;
    release(a, "live/x", epoch, 0);
    granted(a, "live/y");
    b->sent[CLUSTER_FIND] = b->change_count = 0;
    connect_member(b);
    assert_int_equal(b->sent[CLUSTER_FIND], 1);
    assert_int_equal(b->change_count, 2);
}

/* A node that stops: its streams are nowhere, until it goes on. */
static void dead_nodes_have_no_streams(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    ask(b, CLUSTER_LOCATE, "live/x");
    struct cluster_job *find = make_job(rig, CLUSTER_FIND_NODE, "");
    strcpy(find->location.node, "a");
    pass(rig, CLUSTER_RENEW_MS);
    cluster_node_ask(b->node, find, rig->now);
    ASSERT_ANSWER(rig, find, 0);
    assert_string_equal(find->location.address, "a:80");
    a->is_held = true;
    pass(rig, 7000);
    assert_int_equal(last_change(b)->change, CLUSTER_GONE);
    find = make_job(rig, CLUSTER_FIND_NODE, "");
    strcpy(find->location.node, "a");
    cluster_node_ask(b->node, find, rig->now);
    ASSERT_ANSWER(rig, find, -ENOENT);
    assert_string_equal(ask(b, CLUSTER_LOCATE, "live/x")->location.node, "");
    a->is_held = false;
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_int_equal(last_change(b)->change, CLUSTER_MOVED);
    assert_int_equal(b->change_count, 2);
}

/* Events that are lost are not missed for longer than that. */
static void everything_is_looked_at_now_and_then(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t epoch = granted(a, "live/x");
    ask(b, CLUSTER_LOCATE, "live/x");
    /* Another node claims, as the engine knows alone. */
    struct cluster_reply reply = {0};
    struct cluster_item item = {.stream = "live/x", .take = CLUSTER_TAKE_OVER};
    struct cluster_command command = {.verb = CLUSTER_RENEW, .node = "c", .address = "c:80", .beat = 1};
    struct cluster_engine before = rig->engine;
    cluster_engine_run(&rig->engine, &command, &reply, publish, rig);
    command.incarnation = reply.incarnation;
    command.verb = CLUSTER_TAKE;
    command.items = &item;
    command.count = 1;
    a->is_up = b->is_up = false;
    cluster_engine_run(&rig->engine, &command, &reply, publish, rig);
    a->is_up = b->is_up = true;
    cluster_reply_clear(&reply);
    (void)before;
    pass(rig, CLUSTER_REFRESH_MS + CLUSTER_RENEW_MS);
    /* It has died since, so that this node has it again, with an epoch above. */
    assert_true(cluster_engine_find(&rig->engine, "live/x")->location.epoch > epoch);
    assert_string_equal(holder(rig, "live/x"), "a");
    assert_int_equal(last_change(a)->change, CLUSTER_EPOCH);
    assert_int_equal(last_change(b)->location.epoch, cluster_engine_find(&rig->engine, "live/x")->location.epoch);
}

/* ---- Bounds ---- */

static void names_have_a_bound(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 10);
    char name[24];
    connect_member(a);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "live/%d", i);
        granted(a, name);
    }
    /* Names that nobody wants any more make room; those that are wanted do not. */
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "none/%d", i);
        ASSERT_ANSWER(rig, ask(a, CLUSTER_LOCATE, name), 0);
        ask(a, CLUSTER_FORGET, name);
    }
    ASSERT_ANSWER(rig, ask(a, CLUSTER_LOCATE, "none/a"), 0);
    ASSERT_ANSWER(rig, ask(a, CLUSTER_LOCATE, "none/b"), 0);
    ASSERT_ANSWER(rig, ask(a, CLUSTER_LOCATE, "none/c"), -EHOSTDOWN);
    ASSERT_ANSWER(rig, claim(a, "live/9", SAME_NAME_REFUSE, 1), -ENOMEM);
    ask(a, CLUSTER_FORGET, "none/a");
    ASSERT_ANSWER(rig, claim(a, "live/9", SAME_NAME_REFUSE, 1), 0);
}

/* Nodes that come with a name of their own each time are not remembered for ever. */
static void dead_nodes_make_room(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 4000);
    connect_member(a);
    for (unsigned i = 0; i < 2 * CLUSTER_NODES_MAX; i++) {
        struct cluster_event event = {
            .verb = CLUSTER_EVENT_CLAIM,
            .location = {.address = "c:80", .incarnation = 100 + i, .epoch = 100 + i},
        };
        snprintf(event.stream, sizeof event.stream, "old/%u", i);
        snprintf(event.location.node, sizeof event.location.node, "old-%u", i);
        ask(a, CLUSTER_LOCATE, event.stream);
        cluster_node_heard(a->node, &event, rig->now);
        ask(a, CLUSTER_FORGET, event.stream);
        a->change_count = 0;
    }
    struct member *b = join(rig, "b");
    granted(b, "live/x");
    pass(rig, 3 * CLUSTER_LEASE_MS);
    struct cluster_job *job = ask(a, CLUSTER_LOCATE, "live/x");
    ASSERT_ANSWER(rig, job, 0);
    assert_string_equal(job->location.node, "b");
}

static void claims_for_a_name_have_a_bound(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    granted(a, "live/x");
    for (int i = 0; i < 64; i++)
        assert_false(is_answered(rig, claim(b, "live/x", SAME_NAME_REFUSE, 1)));
    ASSERT_ANSWER(rig, claim(b, "live/x", SAME_NAME_REFUSE, 1), -EEXIST);
    /* One command at a time, whatever their number. */
    size_t sent = b->sent[CLUSTER_TAKE];
    pass(rig, CLUSTER_RETRY_MS);
    assert_int_equal(b->sent[CLUSTER_TAKE], sent + 1);
    pass(rig, 3000);
    assert_int_equal(rig->answers, rig->job_count);
}

static void commands_have_a_bound(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", true, 1500);
    char name[24];
    size_t found = 0;
    connect_member(a);
    a->is_held = true;
    for (int i = 0; i < 1050; i++) {
        snprintf(name, sizeof name, "live/%d", i);
        struct cluster_job *job = ask(a, CLUSTER_LOCATE, name);
        found += !is_answered(rig, job);
        if (is_answered(rig, job))
            assert_int_equal(job->error, -EHOSTDOWN);
    }
    assert_in_range(found, 700, CLUSTER_COMMANDS_MAX - 256);
    /* There is room for claims; what is beyond it waits. */
    size_t sent = a->sent[CLUSTER_TAKE];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "new/%d", i);
        assert_false(is_answered(rig, claim(a, name, SAME_NAME_REFUSE, 1)));
    }
    assert_int_equal(a->sent[CLUSTER_TAKE], sent + 256);
    /* There is room for the lease. */
    size_t renewals = a->sent[CLUSTER_RENEW];
    pass(rig, CLUSTER_RENEW_MS);
    assert_int_equal(a->sent[CLUSTER_RENEW], renewals + 1);
    a->is_held = false;
    run(rig);
    pass(rig, TICK_MS);
    assert_int_equal(rig->answers, rig->job_count);
    a->is_refused = true;
    struct cluster_job *job = claim(a, "live/x", SAME_NAME_REFUSE, 1);
    ASSERT_ANSWER(rig, ask(a, CLUSTER_LOCATE, "live/y"), -EHOSTDOWN);
    pass(rig, CLUSTER_LEASE_MS);
    assert_false(is_answered(rig, job));
    pass(rig, CLUSTER_LEASE_MS);
    ASSERT_ANSWER(rig, job, -EHOSTDOWN);
}

/* Players that ask for as many names as they like do not make a publisher take the stream of
 * another node. */
static void lookups_do_not_make_claims(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 1500), *b = join(rig, "b");
    char name[24];
    connect_member(a);
    uint64_t epoch = granted(b, "live/x");
    a->is_held = true;
    for (int i = 0; i < 1050; i++) {
        snprintf(name, sizeof name, "none/%d", i);
        ask(a, CLUSTER_LOCATE, name);
    }
    struct cluster_job *job = claim(a, "live/x", SAME_NAME_REFUSE, 1);
    assert_false(is_answered(rig, job));
    a->is_held = false;
    pass(rig, 4000);
    ASSERT_ANSWER(rig, job, -EEXIST);
    assert_string_equal(holder(rig, "live/x"), "b");
    assert_int_equal(cluster_engine_find(&rig->engine, "live/x")->location.epoch, epoch);
    assert_int_equal(b->change_count, 0);
}

/* Replies that are none of a command's, or of another size. */
static void foreign_replies(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", true, 100);
    struct cluster_item_reply item = {.location = {.node = "b", .address = "b:1", .incarnation = 9, .epoch = 9}};
    struct cluster_reply reply = {.items = &item, .count = 1};
    connect_member(a);
    for (uint64_t tag = 0; tag < 5000; tag++)
        cluster_node_replied(a->node, tag, &reply, rig->now);
    a->is_held = true;
    struct cluster_job *find = ask(a, CLUSTER_LOCATE, "live/x"), *job = claim(a, "live/y", SAME_NAME_REFUSE, 1);
    assert_int_equal(a->queued, 2);
    reply.count = 0;
    cluster_node_replied(a->node, a->queue[0]->command.tag, &reply, rig->now);
    ASSERT_ANSWER(rig, find, -EHOSTDOWN);
    cluster_node_replied(a->node, a->queue[1]->command.tag, &reply, rig->now);
    ASSERT_ANSWER(rig, job, -EHOSTDOWN);
    /* An epoch that is not above what was known. */
    job = make_job(rig, CLUSTER_CLAIM, "live/z");
    job->epoch = 100;
    cluster_node_ask(a->node, job, rig->now);
    reply.count = 1;
    cluster_node_replied(a->node, a->queue[a->queued - 1]->command.tag, &reply, rig->now);
    ASSERT_ANSWER(rig, job, -EHOSTDOWN);
}

/* ---- Leaving, and the rest ---- */

static void leaves(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t epoch = granted(a, "live/x");
    granted(b, "live/y");
    ask(b, CLUSTER_LOCATE, "live/x");
    struct cluster_job *waits = claim(a, "live/y", SAME_NAME_REFUSE, 1);
    cluster_node_leave(a->node, rig->now);
    run(rig);
    assert_int_equal(a->state, CLUSTER_NODE_LEFT);
    ASSERT_ANSWER(rig, waits, -ESHUTDOWN);
    ASSERT_ANSWER(rig, claim(a, "live/z", SAME_NAME_REFUSE, 1), -ESHUTDOWN);
    assert_int_equal(last_change(b)->change, CLUSTER_GONE);
    assert_false(cluster_engine_is_alive(&rig->engine, "a", cluster_node_incarnation(a->node)));
    /* Its publisher stays until another one comes elsewhere. */
    assert_int_equal(a->change_count, 0);
    pass(rig, 10000);
    assert_false(cluster_engine_is_alive(&rig->engine, "a", cluster_node_incarnation(a->node)));
    ASSERT_ANSWER(rig, claim(b, "live/x", SAME_NAME_REFUSE, 2), 0);
    assert_int_equal(last_change(a)->change, CLUSTER_SUPERSEDED);
    release(a, "live/x", epoch, 0);
    assert_string_equal(holder(rig, "live/x"), "b");
    /* Told again, where the engine has not heard of it. */
    cluster_node_leave(b->node, rig->now);
    disconnect_member(b);
    size_t sent = b->sent[CLUSTER_LEAVE];
    connect_member(b);
    pass(rig, TICK_MS);
    assert_int_equal(b->sent[CLUSTER_LEAVE], sent + 1);
}

static void tells_others(void **state) {
    struct rig *rig = *state;
    struct member *a = start(rig, "a", false, 10), *b = join(rig, "b");
    struct cluster_event event = {.verb = CLUSTER_EVENT_KICK, .stream = "live/x", .ms = 60};
    assert_false(cluster_node_tell(a->node, &event));
    connect_member(a);
    assert_true(cluster_node_tell(a->node, &event));
    run(rig);
    assert_int_equal(a->told_count, 0);
    assert_int_equal(b->told_count, 1);
    assert_int_equal(b->told.verb, CLUSTER_EVENT_KICK);
    assert_string_equal(b->told.stream, "live/x");
    assert_string_equal(b->told.location.node, "a");
    assert_int_equal(b->told.ms, 60);
}

/* Bans come to those that join, and come back with each connection. What the engine does not answer
 * is asked again. */
static void bans_are_kept_for_those_that_join(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a");
    struct cluster_event event = {.verb = CLUSTER_EVENT_BAN, .stream = "live/x", .host.bytes = {1}, .ms = 60000};
    assert_true(cluster_node_tell(a->node, &event));
    run(rig);
    /* Its own, which the engine has. */
    assert_int_equal(a->told_count, 1);
    assert_true(a->told.is_own);
    pass(rig, 20000);
    struct member *b = join(rig, "b");
    assert_int_equal(b->told_count, 1);
    assert_int_equal(b->told.verb, CLUSTER_EVENT_BAN);
    assert_string_equal(b->told.stream, "live/x");
    assert_string_equal(b->told.location.node, "");
    assert_false(b->told.is_own);
    assert_int_equal(b->doubts, 0);
    assert_memory_equal(&b->told.host, &event.host, sizeof event.host);
    assert_in_range(b->told.ms, 38000, 40000);
    disconnect_member(b);
    b->error = -EACCES;
    connect_member(b);
    pass(rig, 2000);
    assert_int_equal(b->told_count, 1);
    b->error = 0;
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_int_equal(b->told_count, 2);
    pass(rig, 10000);
    assert_int_equal(b->told_count, 2);
    struct cluster_job *job = make_job(rig, CLUSTER_TELL_UNBAN, "live/x");
    cluster_node_ask(a->node, job, rig->now);
    ASSERT_ANSWER(rig, job, 0);
    run(rig);
    assert_int_equal(b->told.verb, CLUSTER_EVENT_UNBAN);
    struct member *c = join(rig, "c");
    assert_int_equal(c->told_count, 0);
    disconnect_member(a);
    job = make_job(rig, CLUSTER_TELL_KICK, "live/x");
    cluster_node_ask(a->node, job, rig->now);
    ASSERT_ANSWER(rig, job, -EHOSTDOWN);
}

static void add_name(const struct cluster_peer *peer, void *user) {
    char *names = user;
    strcat(names, peer->name);
    assert_int_equal(peer->load.players, peer->name[0] == 'a' ? 7 : 0);
}

static void add_stream(const char *stream, bool is_own, const struct cluster_location *location, void *user) {
    char *text = user, line[STREAM_NAME + 100];
    snprintf(line, sizeof line, "%s %d %s\n", stream, is_own, location->node);
    strcat(text, line);
}

static void shows_nodes_and_streams(void **state) {
    struct rig *rig = *state;
    struct member *c = join(rig, "c"), *a = join(rig, "a"), *b = join(rig, "b");
    char names[16] = "", streams[400] = "";
    cluster_node_set_load(a->node, &(struct cluster_load){.players = 7});
    pass(rig, 2 * CLUSTER_RENEW_MS);
    cluster_node_each_peer(c->node, add_name, names);
    assert_string_equal(names, "abc");
    granted(b, "live/x");
    ask(b, CLUSTER_LOCATE, "live/none");
    granted(a, "live/y");
    ask(b, CLUSTER_LOCATE, "live/y");
    cluster_node_each_stream(b->node, add_stream, streams);
    assert_non_null(strstr(streams, "live/x 1 b\n"));
    assert_non_null(strstr(streams, "live/y 0 a\n"));
    assert_null(strstr(streams, "none"));
    kill_member(a);
    pass(rig, 8000);
    names[0] = '\0';
    cluster_node_each_peer(c->node, add_name, names);
    assert_string_equal(names, "bc");
}

/* What the engine lists ends what it does not list, unless it has forgotten its bans, or the list
 * did not arrive as a whole. */
static void bans_are_what_the_engine_says(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    struct cluster_event event = {.verb = CLUSTER_EVENT_BAN, .stream = "live/x", .host.bytes = {1}, .ms = 60000};
    assert_true(cluster_node_tell(a->node, &event));
    run(rig);
    assert_int_equal(b->told_count, 1);
    assert_string_equal(b->told.location.node, "a");
    disconnect_member(b);
    event.verb = CLUSTER_EVENT_UNBAN;
    assert_true(cluster_node_tell(a->node, &event));
    run(rig);
    connect_member(b);
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_int_equal(b->told_count, 1);
    assert_int_equal(b->doubts, 1);
    assert_int_equal(b->ends, 1);
    /* One that is lost may be one that is in force. */
    event.verb = CLUSTER_EVENT_BAN;
    assert_true(cluster_node_tell(a->node, &event));
    run(rig);
    b->loses = true;
    disconnect_member(b);
    connect_member(b);
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_int_equal(b->told_count, 3);
    assert_int_equal(b->doubts, 2);
    assert_int_equal(b->ends, 1);
    b->loses = false;
    /* An engine without data has no bans: those that the nodes know are kept. */
    disconnect_member(b);
    rig->engine = (struct cluster_engine){0};
    set_time(rig);
    connect_member(b);
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_int_equal(b->doubts, 2);
    assert_int_equal(b->ends, 1);
    disconnect_member(b);
    connect_member(b);
    pass(rig, 2 * CLUSTER_RENEW_MS);
    assert_int_equal(b->doubts, 3);
    assert_int_equal(b->ends, 2);
}

static void open_questions_are_abandoned(void **state) {
    struct rig *rig = *state;
    struct member *a = join(rig, "a"), *b = join(rig, "b");
    uint64_t epoch = granted(a, "live/x");
    b->is_held = true;
    struct cluster_job *job = claim(b, "live/x", SAME_NAME_REFUSE, 1), *find = ask(b, CLUSTER_LOCATE, "live/y");
    a->is_held = true;
    struct cluster_job *assertion = make_job(rig, CLUSTER_ASSERT, "live/x");
    assertion->epoch = epoch + 1;
    cluster_node_ask(a->node, assertion, rig->now);
    kill_member(b);
    kill_member(a);
    ASSERT_ANSWER(rig, job, -ESHUTDOWN);
    ASSERT_ANSWER(rig, find, -ESHUTDOWN);
    ASSERT_ANSWER(rig, assertion, -ESHUTDOWN);
    cluster_node_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(renews_its_lease),
        TEST(restarted_node_replaces_its_own_lease),
        TEST(newer_process_replaces_it),
        TEST(dead_rival_is_overcome),
        TEST(engine_that_forgets_is_told_again),
        TEST(publishers_of_a_node_share_its_claim),
        TEST(held_claim_is_refused),
        TEST(claim_waits_for_the_end_of_a_lease),
        TEST(dead_node_is_known_by_its_beat),
        TEST(clock_ahead_kills_nobody),
        TEST(take_over_is_at_once),
        TEST(resume_goes_by_the_host),
        TEST(stale_claim_is_released),
        TEST(asserts_above_what_was_seen),
        TEST(accepts_on_its_word),
        TEST(refuses_new_names),
        TEST(claim_without_a_reply),
        TEST(release_without_a_reply),
        TEST(first_questions_wait),
        TEST(engine_that_rejects_all),
        TEST(locations_are_cached),
        TEST(one_lookup_for_a_name),
        TEST(locations_without_the_engine),
        TEST(dead_nodes_have_no_streams),
        TEST(everything_is_looked_at_now_and_then),
        TEST(names_have_a_bound),
        TEST(dead_nodes_make_room),
        TEST(claims_for_a_name_have_a_bound),
        TEST(commands_have_a_bound),
        TEST(lookups_do_not_make_claims),
        TEST(foreign_replies),
        TEST(leaves),
        TEST(tells_others),
        TEST(bans_are_kept_for_those_that_join),
        TEST(shows_nodes_and_streams),
        TEST(bans_are_what_the_engine_says),
        TEST(open_questions_are_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
