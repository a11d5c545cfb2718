/* When a batching window is worth its wake-up: the rule alone, at times that are said and not
 * waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backends/window.h"

enum { LENGTH = 2000, APART = 33000, CLOSE = 300 };

/* A wait is over so long after the last one, and has brought so many events. Whether it lasted for
 * a window. */
static bool wait_over(batch_window *window, uint64_t after, uint32_t events) {
    bool waited = window_pays(window);
    window->opened += waited && after > LENGTH ? LENGTH : after;
    window_judge(window, waited, events);
    return waited;
}

static void events_far_apart_open_one_window(void **state) {
    (void)state;
    batch_window window = {.length = LENGTH};
    wait_over(&window, APART, 1);
    /* Nothing comes in the first, so there is no second. */
    assert_true(wait_over(&window, APART, 0));
    for (int i = 0; i < 10; i++)
        assert_false(wait_over(&window, APART, 1));
}

static void events_close_together_open_windows_again(void **state) {
    (void)state;
    batch_window window = {.length = LENGTH};
    wait_over(&window, APART, 1);
    wait_over(&window, APART, 0);
    assert_false(wait_over(&window, APART, 1));
    assert_false(wait_over(&window, CLOSE, 1));
    for (int i = 0; i < 10; i++)
        assert_true(wait_over(&window, LENGTH, 5));
}

/* All publishers send in the same moment, and then nobody for a while: each burst has its
 * window. */
static void bursts_keep_their_windows(void **state) {
    (void)state;
    batch_window window = {.length = LENGTH};
    for (int i = 0; i < 10; i++) {
        assert_false(wait_over(&window, APART, 1));
        assert_true(wait_over(&window, LENGTH, 99));
        /* The end of the burst: an empty window behind a full one. */
        assert_true(wait_over(&window, LENGTH, 0));
    }
}

static void without_a_length_there_is_none(void **state) {
    (void)state;
    batch_window window = {0};
    for (int i = 0; i < 4; i++)
        assert_false(wait_over(&window, CLOSE, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_far_apart_open_one_window),
        cmocka_unit_test(events_close_together_open_windows_again),
        cmocka_unit_test(bursts_keep_their_windows),
        cmocka_unit_test(without_a_length_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
