/* What a node of a cluster decides: claims, with the engine and without. */
#include "daemon/cluster/cluster_node.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "daemon/cluster/cluster_script.h"
#include "support/cluster_engine.h"
#include "support/cluster_member.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
