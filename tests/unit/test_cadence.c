/* When the next frame of a track is expected, at times of the test's own. */
#include "daemon/base/cadence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CAME = 70000, STAMP = 123 };

static void frames_come_at_their_interval(void **state) {
    struct cadence cadence = {0};
    (void)state;
    assert_int_equal(cadence_next(&cadence, CAME), 0);
    cadence_note(&cadence, STAMP, CAME);
    assert_int_equal(cadence_next(&cadence, CAME), 0);
    for (unsigned i = 1; i < 100; i++) {
        cadence_note(&cadence, STAMP + 23 * i, CAME + 23 * i);
        assert_int_equal(cadence_next(&cadence, CAME + 23 * i), CAME + 23 * (i + 1));
    }
}

/* As late as the last one. */
static void late_frames_are_late_again(void **state) {
    struct cadence cadence = {0};
    (void)state;
    cadence_note(&cadence, STAMP, CAME);
    cadence_note(&cadence, STAMP + 40, CAME + 45);
    assert_int_equal(cadence_next(&cadence, CAME + 45), CAME + 85);
    cadence_note(&cadence, STAMP + 80, CAME + 80);
    assert_int_equal(cadence_next(&cadence, CAME + 80), CAME + 120);
}

/* Four at a time: the next ones come when four intervals have passed. */
static void frames_that_come_together_have_waited(void **state) {
    struct cadence cadence = {0};
    (void)state;
    for (unsigned i = 0; i < 40; i++)
        cadence_note(&cadence, STAMP + 21 * i, CAME + 84 * (i / 4));
    assert_int_equal(cadence_next(&cadence, CAME + 84 * 9), CAME + 84 * 10);
}

/* Of several tracks of a kind, whose frames have the same times. */
static void tracks_share_their_timestamps(void **state) {
    struct cadence cadence = {0};
    (void)state;
    for (unsigned i = 0; i < 40; i++)
        cadence_note(&cadence, STAMP + 40 * (i / 4), CAME + 40 * (i / 4) + i % 4);
    assert_in_range(cadence_next(&cadence, CAME + 363), CAME + 400, CAME + 403);
}

/* The timestamp goes round; the interval before a jump is not that behind it. */
static void timestamps_wrap_and_jump(void **state) {
    struct cadence cadence = {0};
    (void)state;
    cadence_note(&cadence, UINT32_MAX - 9, CAME);
    cadence_note(&cadence, 10, CAME + 20);
    assert_int_equal(cadence_next(&cadence, CAME + 20), CAME + 40);
    cadence_note(&cadence, 10010, CAME + 40);
    assert_int_equal(cadence_next(&cadence, CAME + 40), CAME + 10040);
    cadence_note(&cadence, 20011, CAME + 60);
    assert_int_equal(cadence_next(&cadence, CAME + 60), 0);
    cadence_note(&cadence, 20031, CAME + 80);
    assert_int_equal(cadence_next(&cadence, CAME + 80), CAME + 100);
    cadence_note(&cadence, 31, CAME + 100);
    assert_int_equal(cadence_next(&cadence, CAME + 100), 0);
}

/* It is waited for while it is late by no more than an interval. */
static void a_track_that_has_stopped_is_not_expected(void **state) {
    struct cadence cadence = {0};
    (void)state;
    cadence_note(&cadence, STAMP, CAME);
    cadence_note(&cadence, STAMP + 40, CAME + 40);
    assert_int_equal(cadence_next(&cadence, CAME + 120), CAME + 80);
    assert_int_equal(cadence_next(&cadence, CAME + 121), UINT64_MAX);
    cadence_note(&cadence, STAMP + 200, CAME + 200);
    assert_int_equal(cadence_next(&cadence, CAME + 200), CAME + 360);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_at_their_interval),
        cmocka_unit_test(late_frames_are_late_again),
        cmocka_unit_test(frames_that_come_together_have_waited),
        cmocka_unit_test(tracks_share_their_timestamps),
        cmocka_unit_test(timestamps_wrap_and_jump),
        cmocka_unit_test(a_track_that_has_stopped_is_not_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
