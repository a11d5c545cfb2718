/* The sizes of frames in each second of the last minute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/relay/frame_minute.h"

enum { LAST = FRAME_MINUTE_SECONDS - 1 };

static void frames_of_a_second(void **state) {
    (void)state;
    struct frame_minute minute = {0};
    struct frame_second seconds[FRAME_MINUTE_SECONDS];
    frame_minute_add(&minute, 5000, 700, true);
    frame_minute_add(&minute, 5400, 900, false);
    frame_minute_add(&minute, 5999, 800, true);
    frame_minute_get(&minute, 5999, seconds);
    assert_int_equal(seconds[LAST].bytes, 2400);
    assert_int_equal(seconds[LAST].frames, 3);
    assert_int_equal(seconds[LAST].key_frames, 2);
    assert_int_equal(seconds[LAST].largest, 900);
    assert_int_equal(seconds[LAST].largest_key, 800);
    for (int i = 0; i < LAST; i++)
        assert_int_equal(seconds[i].frames, 0);
}

/* Where there is no room for more, it stays at the most. */
static void so_much_in_a_second(void **state) {
    (void)state;
    struct frame_minute minute = {0};
    struct frame_second seconds[FRAME_MINUTE_SECONDS];
    for (int i = 0; i < UINT16_MAX - 1; i++)
        frame_minute_add(&minute, 5000, 1, true);
    frame_minute_add(&minute, 5000, UINT32_MAX - (UINT16_MAX - 1) - 1, true);
    frame_minute_get(&minute, 5000, seconds);
    assert_int_equal(seconds[LAST].bytes, UINT32_MAX - 1);
    assert_int_equal(seconds[LAST].frames, UINT16_MAX);
    for (uint32_t size = 0; size <= 2; size++) {
        frame_minute_add(&minute, 5000, size, true);
        frame_minute_get(&minute, 5000, seconds);
        assert_true(seconds[LAST].bytes == (size == 0 ? UINT32_MAX - 1 : UINT32_MAX));
        assert_int_equal(seconds[LAST].frames, UINT16_MAX);
        assert_int_equal(seconds[LAST].key_frames, UINT16_MAX);
    }
}

/* A second is there for a minute, and not for a second longer. */
static void after_a_minute(void **state) {
    (void)state;
    struct frame_minute minute = {0};
    struct frame_second seconds[FRAME_MINUTE_SECONDS];
    frame_minute_add(&minute, 100999, 10, false);
    frame_minute_get(&minute, 159999, seconds);
    assert_int_equal(seconds[0].frames, 1);
    frame_minute_get(&minute, 160000, seconds);
    for (int i = 0; i < FRAME_MINUTE_SECONDS; i++)
        assert_int_equal(seconds[i].frames, 0);
    /* The same where it is a frame that comes so late. */
    for (uint64_t later = 159999; later <= 160000; later++) {
        struct frame_minute copy = minute;
        frame_minute_add(&copy, later, 20, false);
        frame_minute_get(&copy, later, seconds);
        assert_int_equal(seconds[0].frames, later < 160000);
        assert_int_equal(seconds[LAST].bytes, 20);
    }
}

/* One per second, for several minutes: the last sixty are there, in their order. */
static void goes_round(void **state) {
    (void)state;
    struct frame_minute minute = {0};
    struct frame_second seconds[FRAME_MINUTE_SECONDS];
    for (uint32_t second = 0; second <= 200; second++)
        frame_minute_add(&minute, second * 1000ull, second + 1, second % 2 == 0);
    frame_minute_get(&minute, 200999, seconds);
    for (uint32_t i = 0; i < FRAME_MINUTE_SECONDS; i++) {
        assert_int_equal(seconds[i].bytes, 201 - LAST + i);
        assert_int_equal(seconds[i].key_frames, i % 2);
    }
}

/* A frame of an earlier second counts for the last one. */
static void time_that_goes_back(void **state) {
    (void)state;
    struct frame_minute minute = {0};
    struct frame_second seconds[FRAME_MINUTE_SECONDS];
    frame_minute_add(&minute, 9000, 1, false);
    frame_minute_add(&minute, 8000, 2, false);
    frame_minute_get(&minute, 8000, seconds);
    assert_int_equal(seconds[LAST].bytes, 3);
    assert_int_equal(seconds[LAST].frames, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_a_second), cmocka_unit_test(so_much_in_a_second), cmocka_unit_test(after_a_minute),
        cmocka_unit_test(goes_round),         cmocka_unit_test(time_that_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
