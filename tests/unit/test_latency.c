/* A histogram: each value is in the range whose upper bound it does not exceed. */
#include "daemon/base/latency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void counts_on_both_sides_of_each_bound(void **state) {
    (void)state;
    for (size_t range = 0; range < LATENCY_BOUNDS; range++) {
        struct latency latency = {0};
        const uint64_t bound = (uint64_t)(latency_bound(range) * 1e9 + 0.5);
        latency_add(&latency, bound - 1);
        latency_add(&latency, bound);
        latency_add(&latency, bound + 1);
        assert_int_equal(latency.counts[range], 2);
        assert_int_equal(latency.counts[range + 1], 1);
        assert_int_equal(latency.count, 3);
        assert_int_equal(latency.sum_ns, 3 * bound);
    }
}

static void counts_what_takes_no_time_and_all_of_it(void **state) {
    struct latency latency = {0};
    (void)state;
    latency_add(&latency, 0);
    latency_add(&latency, UINT64_MAX);
    assert_int_equal(latency.counts[0], 1);
    assert_int_equal(latency.counts[LATENCY_BOUNDS], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_on_both_sides_of_each_bound),
        cmocka_unit_test(counts_what_takes_no_time_and_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
