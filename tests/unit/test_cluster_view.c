/* What a node shows of streams: pages by name, what is confirmed; and a question that leaves no
 * interest behind. */
#include "daemon/cluster/cluster_view.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 700, PAGE = 100 };

struct rig {
    struct cluster_node *node;
    uint64_t now;
    uint64_t tags[CLUSTER_VERBS]; /* of the last command of each verb; 0: none */
    size_t answers, changes;
    struct cluster_location moved; /* by the last change */
};

static bool take_command(void *user, const struct cluster_command *command) {
    struct rig *rig = user;
    rig->tags[command->verb] = command->tag;
    return true;
}

static void take_answer(void *user, struct cluster_job *job) {
    struct rig *rig = user;
    (void)job;
    rig->answers++;
}

static void take_change(void *user, const char *stream, enum cluster_change change,
                        const struct cluster_location *location) {
    struct rig *rig = user;
    (void)stream, (void)change;
    rig->changes++;
    rig->moved = *location;
}

static bool take_event(void *user, const struct cluster_event *event) {
    (void)user, (void)event;
    return true;
}

static void take_bans_step(void *user, enum cluster_bans_step step) {
    (void)user, (void)step;
}

static void take_state(void *user, enum cluster_node_state state) {
    (void)user, (void)state;
}

static void open_rig(struct rig *rig) {
    static const struct cluster_node_calls calls = {take_command, take_answer,    take_change,
                                                    take_event,   take_bans_step, take_state};
    const struct cluster_node_options options = {.name = "a", .address = "127.0.0.1:1", .most_streams = MANY};
    *rig = (struct rig){.now = 10000};
    assert_int_equal(cluster_node_new(&options, &calls, rig, &rig->node), 0);
}

static void close_rig(struct rig *rig) {
    cluster_node_abandon(rig->node);
    cluster_node_free(rig->node);
}

static void ask(struct rig *rig, struct cluster_job *job, enum cluster_question question, const char *stream) {
    *job = (struct cluster_job){.question = question};
    snprintf(job->stream, sizeof job->stream, "%s", stream);
    cluster_node_ask(rig->node, job, rig->now);
}

/* Another node's stream, as the engine answers. */
static void reply_find(struct rig *rig, const char *node, uint64_t epoch) {
    struct cluster_item_reply item = {.result = CLUSTER_GRANTED, .lease_incarnation = 7, .lease_beat = 1};
    struct cluster_reply reply = {.items = &item, .count = 1};
    item.location = (struct cluster_location){.incarnation = 7, .epoch = epoch};
    strcpy(item.location.node, node);
    strcpy(item.location.address, "127.0.0.1:2");
    assert_int_not_equal(rig->tags[CLUSTER_FIND], 0);
    cluster_node_replied(rig->node, rig->tags[CLUSTER_FIND], &reply, rig->now);
    rig->tags[CLUSTER_FIND] = 0;
}

static void join(struct rig *rig) {
    const struct cluster_reply reply = {.lease = CLUSTER_LEASE_OURS, .incarnation = 5, .engine_us = 1};
    cluster_node_connected(rig->node, rig->now);
    cluster_node_replied(rig->node, rig->tags[CLUSTER_RENEW], &reply, rig->now);
    assert_int_equal(cluster_node_get_state(rig->node), CLUSTER_NODE_ONLINE);
}

/* ---- Pages ---- */

static struct cluster_job jobs[MANY];

/* Claimed without an engine, in another order than that of their names. */
static void claim_many(struct rig *rig) {
    cluster_node_disconnected(rig->node, rig->now);
    for (size_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "live/%03zu", i * 37 % MANY);
        ask(rig, &jobs[i], CLUSTER_CLAIM, name);
        assert_int_equal(jobs[i].error, 0);
    }
    assert_int_equal(rig->answers, MANY);
}

static size_t get_page(const struct rig *rig, const char *search, const char *node, uint32_t offset, uint32_t limit,
                       struct cluster_stream_view list[PAGE], size_t *ret_matching) {
    struct cluster_stream_page page = {.offset = offset, .limit = limit};
    size_t count;
    strcpy(page.search, search);
    strcpy(page.node, node);
    assert_int_equal(cluster_view_page(rig->node, &page, rig->now, list, &count, ret_matching), 0);
    return count;
}

static void pages_are_by_name(void **state) {
    struct cluster_stream_view list[PAGE];
    struct rig rig;
    size_t matching;
    (void)state;
    open_rig(&rig);
    assert_int_equal(get_page(&rig, "", "", 0, PAGE, list, &matching), 0);
    assert_int_equal(matching, 0);
    claim_many(&rig);
    for (uint32_t offset = 0; offset < MANY; offset += 60) {
        const size_t count = get_page(&rig, "", "", offset, PAGE, list, &matching);
        assert_int_equal(count, MANY - offset < PAGE ? MANY - offset : PAGE);
        assert_int_equal(matching, MANY);
        for (size_t i = 0; i < count; i++) {
            char name[32];
            snprintf(name, sizeof name, "live/%03zu", offset + i);
            assert_string_equal(list[i].name, name);
            assert_true(list[i].is_own);
            assert_false(list[i].is_confirmed);
            assert_string_equal(list[i].location.node, "a");
        }
    }
    assert_int_equal(get_page(&rig, "", "", MANY - 1, PAGE, list, &matching), 1);
    assert_int_equal(get_page(&rig, "", "", MANY, PAGE, list, &matching), 0);
    assert_int_equal(get_page(&rig, "", "", UINT32_MAX, PAGE, list, &matching), 0);
    assert_int_equal(cluster_view_count(rig.node).own, MANY);
    close_rig(&rig);
}

static void pages_are_searched(void **state) {
    struct cluster_stream_view list[PAGE];
    struct rig rig;
    size_t matching;
    (void)state;
    open_rig(&rig);
    claim_many(&rig);
    assert_int_equal(get_page(&rig, "VE/01", "", 8, 1, list, &matching), 1);
    assert_int_equal(matching, 10);
    assert_string_equal(list[0].name, "live/018");
    assert_int_equal(get_page(&rig, "699", "a", 0, PAGE, list, &matching), 1);
    assert_int_equal(get_page(&rig, "700", "", 0, PAGE, list, &matching), 0);
    assert_int_equal(get_page(&rig, "699", "b", 0, PAGE, list, &matching), 0);
    close_rig(&rig);
}

/* ---- Questions of operators ---- */

static void look_asks_once(void **state) {
    struct cluster_stream_view view;
    struct cluster_job job;
    struct rig rig;
    (void)state;
    open_rig(&rig);
    join(&rig);
    assert_false(cluster_view_find(rig.node, "live/x", rig.now, &view));
    ask(&rig, &job, CLUSTER_LOOK, "live/x");
    assert_int_equal(rig.answers, 0);
    reply_find(&rig, "b", 40);
    assert_int_equal(rig.answers, 1);
    assert_int_equal(job.error, 0);
    assert_string_equal(job.location.node, "b");
    rig.now += 300;
    assert_true(cluster_view_find(rig.node, "live/x", rig.now, &view));
    assert_true(view.is_confirmed);
    assert_false(view.is_own);
    assert_int_equal(view.age_ms, 300);
    assert_int_equal(view.location.epoch, 40);
    assert_int_equal(cluster_view_count(rig.node).remote, 1);
    assert_int_equal(cluster_view_count_nodes(rig.node, rig.now).alive, 1);
    /* Nobody hears of its end, and nothing asks again. */
    struct cluster_event event = {.verb = CLUSTER_EVENT_RELEASE, .stream = "live/x"};
    event.location = view.location;
    cluster_node_heard(rig.node, &event, rig.now);
    assert_false(cluster_view_find(rig.node, "live/x", rig.now, &view));
    cluster_node_tick(rig.node, rig.now += 2 * CLUSTER_REFRESH_MS);
    assert_int_equal(rig.tags[CLUSTER_FIND], 0);
    assert_int_equal(rig.changes, 0);
    close_rig(&rig);
}

/* What the worker was told is the answer to its own question. */
static void look_hides_no_change(void **state) {
    struct cluster_job locate, look;
    struct rig rig;
    (void)state;
    open_rig(&rig);
    join(&rig);
    ask(&rig, &locate, CLUSTER_LOCATE, "live/x");
    reply_find(&rig, "b", 40);
    assert_int_equal(rig.answers, 1);
    rig.changes = 0;
    rig.now += CLUSTER_NEGATIVE_MS;
    ask(&rig, &look, CLUSTER_LOOK, "live/x");
    reply_find(&rig, "b", 50);
    assert_int_equal(rig.answers, 2);
    assert_int_equal(look.location.epoch, 50);
    assert_int_equal(rig.changes, 1);
    assert_int_equal(rig.moved.epoch, 50);
    close_rig(&rig);
}

/* What is known stays known without the engine, and is said to be no more than that. */
static void look_without_engine(void **state) {
    struct cluster_stream_view view;
    struct cluster_job known, unknown;
    struct rig rig;
    (void)state;
    open_rig(&rig);
    join(&rig);
    ask(&rig, &known, CLUSTER_LOOK, "live/x");
    reply_find(&rig, "b", 40);
    cluster_node_disconnected(rig.node, rig.now);
    rig.now += 2 * CLUSTER_NEGATIVE_MS;
    ask(&rig, &known, CLUSTER_LOOK, "live/x");
    assert_int_equal(known.error, 0);
    assert_string_equal(known.location.node, "b");
    assert_true(cluster_view_find(rig.node, "live/x", rig.now, &view));
    assert_false(view.is_confirmed);
    ask(&rig, &unknown, CLUSTER_LOOK, "live/y");
    assert_int_equal(unknown.error, -EHOSTDOWN);
    close_rig(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_by_name),    cmocka_unit_test(pages_are_searched),  cmocka_unit_test(look_asks_once),
        cmocka_unit_test(look_hides_no_change), cmocka_unit_test(look_without_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
