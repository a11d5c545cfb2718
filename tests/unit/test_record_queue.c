/* Lists of recordings take turns: in order, a bounded number, and who leaves holds up nobody. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/recording/record_queue.h"

static void turns_come_in_order(void **state) {
    struct record_queue turns = {0};
    struct record_queue_slot turn[4] = {0};
    (void)state;
    assert_int_equal(record_queue_enter(&turns, &turn[0]), 1);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(record_queue_enter(&turns, &turn[i]), 0);
    for (unsigned i = 1; i < 4; i++)
        assert_ptr_equal(record_queue_next(&turns), &turn[i]);
    assert_null(record_queue_next(&turns));
    assert_int_equal(record_queue_enter(&turns, &turn[0]), 1);
}

static void some_wait_and_no_more(void **state) {
    struct record_queue turns = {0};
    struct record_queue_slot first = {0}, waiting[RECORD_QUEUE_MOST] = {0}, more = {0};
    (void)state;
    assert_int_equal(record_queue_enter(&turns, &first), 1);
    for (unsigned i = 0; i < RECORD_QUEUE_MOST; i++)
        assert_int_equal(record_queue_enter(&turns, &waiting[i]), 0);
    assert_int_equal(record_queue_enter(&turns, &more), -EBUSY);
    assert_false(record_queue_leave(&turns, &more));
    assert_true(record_queue_leave(&turns, &waiting[3]));
    assert_int_equal(record_queue_enter(&turns, &more), 0);
    assert_ptr_equal(record_queue_next(&turns), &waiting[0]);
    assert_int_equal(record_queue_enter(&turns, &waiting[3]), 0);
    assert_int_equal(record_queue_enter(&turns, &first), -EBUSY);
}

static void who_leaves_has_no_turn(void **state) {
    struct record_queue turns = {0};
    struct record_queue_slot turn[6] = {0};
    (void)state;
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(record_queue_enter(&turns, &turn[i]), i == 0);
    assert_false(record_queue_leave(&turns, &turn[0]));
    assert_true(record_queue_leave(&turns, &turn[1]));
    assert_true(record_queue_leave(&turns, &turn[3]));
    assert_true(record_queue_leave(&turns, &turn[5]));
    assert_false(record_queue_leave(&turns, &turn[3]));
    assert_ptr_equal(record_queue_next(&turns), &turn[2]);
    assert_false(record_queue_leave(&turns, &turn[2]));
    assert_ptr_equal(record_queue_next(&turns), &turn[4]);
    assert_null(record_queue_next(&turns));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_come_in_order),
        cmocka_unit_test(some_wait_and_no_more),
        cmocka_unit_test(who_leaves_has_no_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
