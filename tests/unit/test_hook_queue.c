/* The queue of questions to hooks: what an address may have of it, and in which order they are
 * asked. */
#include "daemon/control/hook_queue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/server/hook_query.h"

enum { MOST = HOOK_WAITING + HOOK_ASKED + 2 * HOOK_FIRST };

typedef struct rig {
    struct hook_queue *queue;
    struct hook_query jobs[MOST];
    unsigned used;
} rig;

static struct cidr_address host_of(unsigned number) {
    const struct cidr_address address = {
        {[10] = 0xff, 0xff, 10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}};
    return cidr_host(&address);
}

static int open_rig(void **state) {
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(hook_queue_new(&r->queue), 0);
    *state = r;
    return 0;
}

static int close_rig(void **state) {
    rig *r = *state;
    while (hook_queue_remove(r->queue)) {}
    hook_queue_free(r->queue);
    free(r);
    return 0;
}

static int add(rig *r, unsigned host) {
    struct hook_query *job = &r->jobs[r->used];
    job->host = host_of(host);
    int error = hook_queue_add(r->queue, job);
    r->used += !error;
    return error;
}

static void add_many(rig *r, unsigned host, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(add(r, host), 0);
}

/* The next question is of that host. */
static void take(rig *r, unsigned host) {
    const struct cidr_address expected = host_of(host);
    const struct hook_query *job = hook_queue_take(r->queue);
    assert_non_null(job);
    assert_memory_equal(job->host.bytes, expected.bytes, sizeof expected.bytes);
}

static void done(rig *r, unsigned host) {
    const struct cidr_address address = host_of(host);
    hook_queue_done(r->queue, &address);
}

/* One that is alone has everything but what is kept for others. */
static void one_alone(void **state) {
    rig *r = *state;
    add_many(r, 1, HOOK_WAITING / 2);
    assert_int_equal(add(r, 1), -EUSERS);
    for (unsigned i = 0; i < HOOK_ASKED; i++)
        assert_ptr_equal(hook_queue_take(r->queue), &r->jobs[i]);
    assert_null(hook_queue_take(r->queue));
    done(r, 1);
    assert_ptr_equal(hook_queue_take(r->queue), &r->jobs[HOOK_ASKED]);
    assert_null(hook_queue_take(r->queue));
    for (unsigned i = 0; i < HOOK_ASKED; i++)
        done(r, 1);
}

/* However much one asks, another one is asked about at once, and has room to wait. */
static void nobody_is_locked_out(void **state) {
    rig *r = *state;
    add_many(r, 1, HOOK_WAITING / 2);
    for (unsigned i = 0; i < HOOK_ASKED; i++)
        take(r, 1);
    /* The first question of each other one does not wait; the second does. */
    for (unsigned host = 2; host < 2 + HOOK_FIRST; host++) {
        add_many(r, host, 2);
        take(r, host);
        assert_null(hook_queue_take(r->queue));
    }
    /* So many beyond the others, and no more. */
    add_many(r, 1000, 1);
    assert_null(hook_queue_take(r->queue));
    done(r, 2);
    /* Two are idle now: the one that has waited for longer is first. */
    take(r, 1000);
    assert_null(hook_queue_take(r->queue));
    for (unsigned i = 0; i < HOOK_ASKED; i++)
        done(r, 1);
    take(r, 2);
    take(r, 1);
    for (unsigned host = 3; host < 2 + HOOK_FIRST; host++)
        done(r, host);
    done(r, 2);
    done(r, 1);
    done(r, 1000);
}

/* Of those that have questions out, each in turn. */
static void they_take_turns(void **state) {
    rig *r = *state;
    add_many(r, 1, 10);
    add_many(r, 2, 3);
    add_many(r, 3, 2);
    static const unsigned order[] = {1, 2, 3, 1, 2, 3, 1, 2, 1, 1};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        take(r, order[i]);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        done(r, order[i]);
    for (int i = 0; i < 5; i++)
        take(r, 1);
    assert_null(hook_queue_take(r->queue));
    for (int i = 0; i < 5; i++)
        done(r, 1);
}

/* As many as are left for others: half alone, a third of two; and never all. */
static void shares_shrink_as_the_queue_fills(void **state) {
    rig *r = *state;
    unsigned waiting = 0;
    for (unsigned host = 1; host <= 10; host++) {
        unsigned of_host = 0;
        for (; add(r, host) == 0; of_host++)
            waiting++;
        assert_int_equal(of_host, (HOOK_WAITING - (waiting - of_host) + 1) / 2);
    }
    assert_true(waiting < HOOK_WAITING);
    assert_int_equal(add(r, 11), 0);
}

static void a_network_of_64_bits_has_one_share(void **state) {
    rig *r = *state;
    struct cidr_address address = {{0x20, 1, 0xd, 0xb8}};
    for (unsigned i = 0; i < HOOK_WAITING / 2; i++) {
        address.bytes[14] = (uint8_t)(i >> 8);
        address.bytes[15] = (uint8_t)i;
        r->jobs[i].host = cidr_host(&address);
        assert_int_equal(hook_queue_add(r->queue, &r->jobs[i]), 0);
    }
    r->used = HOOK_WAITING / 2;
    r->jobs[r->used].host = cidr_host(&address);
    assert_int_equal(hook_queue_add(r->queue, &r->jobs[r->used]), -EUSERS);
    address.bytes[7] = 1;
    r->jobs[r->used].host = cidr_host(&address);
    assert_int_equal(hook_queue_add(r->queue, &r->jobs[r->used]), 0);
}

/* Of all that wait and are asked nothing is lost, whatever the order. */
static void nothing_is_lost(void **state) {
    rig *r = *state;
    uint64_t random = 12345;
    unsigned added = 0, taken = 0, out[8] = {0};
    for (unsigned step = 0; step < 200000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned host = (unsigned)(random >> 40) % 8, what = (unsigned)(random >> 33) % 3;
        if (what == 0 && added < MOST && add(r, host) == 0)
            added++;
        const struct hook_query *job = what == 1 ? hook_queue_take(r->queue) : NULL;
        if (job) {
            taken++;
            for (unsigned i = 0; i < 8; i++) {
                const struct cidr_address of_i = host_of(i);
                out[i] += memcmp(job->host.bytes, of_i.bytes, sizeof of_i.bytes) == 0;
            }
        }
        if (what == 2 && out[host] > 0) {
            out[host]--;
            done(r, host);
        }
    }
    assert_int_equal(added, MOST);
    unsigned removed = 0;
    while (hook_queue_remove(r->queue))
        removed++;
    assert_int_equal(taken + removed, added);
    for (unsigned host = 0; host < 8; host++)
        for (; out[host] > 0; out[host]--)
            done(r, host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_alone, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(nobody_is_locked_out, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(they_take_turns, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(shares_shrink_as_the_queue_fills, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_network_of_64_bits_has_one_share, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(nothing_is_lost, open_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
