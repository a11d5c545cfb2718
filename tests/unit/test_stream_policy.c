/* What holds for a stream, where some are otherwise than the others. */
#include "daemon/relay/stream_policy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FIELD(name) offsetof(struct stream_policy, name)

static int add_number(struct stream_policies *policies, const char *pattern, size_t field, uint64_t number) {
    return stream_policies_add(policies, pattern, strlen(pattern), field, &number, sizeof number);
}

static struct stream_policy find(const struct stream_policies *policies, const char *stream) {
    struct stream_policy policy;
    stream_policies_find(policies, stream, &policy);
    return policy;
}

static void first_that_fits_holds(void **state) {
    (void)state;
    struct stream_policies policies = {.all = {.idle_ms = 1, .wait_ms = 2, .same_name = 1}};
    const int choice = 2;
    assert_int_equal(add_number(&policies, "cam/door", FIELD(idle_ms), 10), 0);
    assert_int_equal(add_number(&policies, "cam/*", FIELD(idle_ms), 20), 0);
    assert_int_equal(add_number(&policies, "*/door", FIELD(wait_ms), 30), 0);
    assert_int_equal(stream_policies_add(&policies, "*", 1, FIELD(same_name), &choice, sizeof choice), 0);
    assert_int_equal(find(&policies, "cam/door").idle_ms, 10);
    assert_int_equal(find(&policies, "cam/yard").idle_ms, 20);
    assert_int_equal(find(&policies, "live/door").idle_ms, 1);
    assert_int_equal(find(&policies, "live/door").wait_ms, 30);
    assert_int_equal(find(&policies, "live/a").wait_ms, 2);
    assert_int_equal(find(&policies, "live/a").same_name, 2);
    assert_int_equal(stream_policies_exception(&policies, "cam/x", FIELD(idle_ms))->value.number, 20);
    assert_null(stream_policies_exception(&policies, "live/x", FIELD(idle_ms)));
    stream_policies_clear(&policies);
    assert_int_equal(policies.count, 0);
}

/* In the same place: what another pattern says does not move. */
static void given_again_it_is_another_value(void **state) {
    (void)state;
    struct stream_policies policies = {0};
    assert_int_equal(add_number(&policies, "a", FIELD(idle_ms), 1), 0);
    assert_int_equal(add_number(&policies, "*", FIELD(idle_ms), 2), 0);
    assert_int_equal(add_number(&policies, "a", FIELD(idle_ms), 3), 0);
    assert_int_equal(policies.count, 2);
    assert_int_equal(find(&policies, "a").idle_ms, 3);
    assert_int_equal(add_number(&policies, "a", FIELD(wait_ms), 4), 0);
    assert_int_equal(policies.count, 3);
    assert_int_equal(find(&policies, "a").idle_ms, 3);
    stream_policies_clear(&policies);
}

static void what_a_player_may_not_have_is_less(void **state) {
    (void)state;
    struct stream_policies policies = {.all = {.gop_size = 100, .player_buffer = 200, .frame_limit = 150}};
    assert_int_equal(add_number(&policies, "small", FIELD(player_buffer), 50), 0);
    assert_int_equal(add_number(&policies, "large", FIELD(gop_size), 1000), 0);
    assert_int_equal(add_number(&policies, "large", FIELD(player_buffer), 900), 0);
    assert_int_equal(find(&policies, "small").gop_size, 50);
    assert_int_equal(find(&policies, "small").frame_limit, 50);
    assert_int_equal(find(&policies, "large").gop_size, 900);
    assert_int_equal(find(&policies, "large").frame_limit, 150);
    assert_int_equal(find(&policies, "other").gop_size, 100);
    stream_policies_clear(&policies);
}

static void there_is_a_limit(void **state) {
    (void)state;
    struct stream_policies policies = {0};
    char pattern[16];
    for (unsigned i = 0; i < STREAM_EXCEPTIONS_MOST; i++) {
        snprintf(pattern, sizeof pattern, "s%u", i);
        assert_int_equal(add_number(&policies, pattern, FIELD(idle_ms), i), 0);
    }
    assert_int_equal(add_number(&policies, "more", FIELD(idle_ms), 1), -ENOSPC);
    assert_int_equal(add_number(&policies, "s7", FIELD(idle_ms), 70), 0);
    assert_int_equal(find(&policies, "s7").idle_ms, 70);
    stream_policies_clear(&policies);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_that_fits_holds),
        cmocka_unit_test(given_again_it_is_another_value),
        cmocka_unit_test(what_a_player_may_not_have_is_less),
        cmocka_unit_test(there_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
