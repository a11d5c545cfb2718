/* What a node of a cluster decides: bounds of all that others can make grow, and replies that make
 * no sense. */
#include "daemon/cluster/cluster_node.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/cluster_engine.h"
#include "support/cluster_member.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(names_have_a_bound),    TEST(dead_nodes_make_room),       TEST(claims_for_a_name_have_a_bound),
        TEST(commands_have_a_bound), TEST(lookups_do_not_make_claims), TEST(foreign_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
