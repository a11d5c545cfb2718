/* The batching window of a worker that fetches streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/edge/edge_window.h"

static uint32_t window_of(uint32_t live, uint32_t fetched, uint32_t usual, uint32_t edge) {
    const struct edge_window_counts counts = {.live = live, .fetched = fetched};
    return edge_window_us(&counts, usual, edge);
}

static void half_of_the_streams_are_enough(void **state) {
    (void)state;
    assert_int_equal(window_of(0, 0, 2000, 5000), 2000);
    assert_int_equal(window_of(7, 0, 2000, 5000), 2000);
    assert_int_equal(window_of(7, 3, 2000, 5000), 2000);
    assert_int_equal(window_of(8, 4, 2000, 5000), 5000);
    assert_int_equal(window_of(7, 4, 2000, 5000), 5000);
    assert_int_equal(window_of(1, 1, 2000, 5000), 5000);
    assert_int_equal(window_of(UINT32_MAX, UINT32_MAX / 2, 2000, 5000), 2000);
    assert_int_equal(window_of(UINT32_MAX, UINT32_MAX / 2 + 1, 2000, 5000), 5000);
}

static void it_is_never_shorter(void **state) {
    (void)state;
    assert_int_equal(window_of(2, 2, 2000, 2000), 2000);
    assert_int_equal(window_of(2, 2, 2000, 1999), 2000);
    assert_int_equal(window_of(2, 2, 2000, 0), 2000);
    assert_int_equal(window_of(2, 2, 2000, 2001), 2001);
}

static void none_stays_none(void **state) {
    (void)state;
    assert_int_equal(window_of(2, 2, 0, 5000), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_streams_are_enough),
        cmocka_unit_test(it_is_never_shorter),
        cmocka_unit_test(none_stays_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
