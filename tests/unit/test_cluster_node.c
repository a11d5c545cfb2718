/* What a node of a cluster decides: its lease, locations, and what it tells others. */
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
#include "support/cluster_member.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(renews_its_lease),
        TEST(restarted_node_replaces_its_own_lease),
        TEST(newer_process_replaces_it),
        TEST(dead_rival_is_overcome),
        TEST(engine_that_forgets_is_told_again),
        TEST(locations_are_cached),
        TEST(one_lookup_for_a_name),
        TEST(locations_without_the_engine),
        TEST(dead_nodes_have_no_streams),
        TEST(everything_is_looked_at_now_and_then),
        TEST(leaves),
        TEST(tells_others),
        TEST(bans_are_kept_for_those_that_join),
        TEST(shows_nodes_and_streams),
        TEST(bans_are_what_the_engine_says),
        TEST(open_questions_are_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
