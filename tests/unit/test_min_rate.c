/* The deadline of what is sent: who takes at least the least rate is never late, who takes less is
 * in the end. */
#include "daemon/base/min_rate.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST = 10000, BEGIN = 5000 };

/* Takes so many bytes at intervals: milliseconds until it is late, or 0 when it never is within an
 * hour. */
static uint64_t take(size_t bytes, uint64_t interval) {
    uint64_t deadline = BEGIN + MOST;
    for (uint64_t now = BEGIN + interval; now < BEGIN + 3600000; now += interval) {
        if (now >= deadline)
            return deadline - BEGIN;
        uint64_t moved = min_rate_extend(deadline, now, bytes, MOST);
        assert_true(moved >= deadline);
        assert_true(moved <= now + MOST);
        deadline = moved;
    }
    return 0;
}

static void a_slow_line_is_not_late(void **state) {
    (void)state;
    assert_int_equal(take(MIN_RATE, 1000), 0);
    assert_int_equal(take(9 * MIN_RATE, 9000), 0);
    assert_int_equal(take(1, 1), 0);
    assert_int_equal(take(1 << 20, 9999), 0);
}

static void a_trickle_is(void **state) {
    (void)state;
    assert_in_range(take(1, 1000), MOST, MOST + 100);
    assert_in_range(take(MIN_RATE / 2, 1000), 2 * MOST - 1000, 2 * MOST + 1000);
    assert_int_equal(take(0, 1000), MOST);
    /* What was taken before is no credit. */
    assert_int_equal(take(1 << 30, MOST), MOST);
    assert_int_equal(min_rate_extend(BEGIN, BEGIN, SIZE_MAX, MOST), BEGIN + MOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_line_is_not_late),
        cmocka_unit_test(a_trickle_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
