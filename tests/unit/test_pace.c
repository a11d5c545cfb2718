/* How long a message that has begun may take, at times of the test's own: at each bound, and one
 * step beyond. */
#include "daemon/base/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "daemon/base/min_rate.h"

enum { MOST = 10000, BEGIN = 5000 };

/* Without earning, bytes bring no time: the deadline is that of the beginning. */
static void a_message_has_its_time(void **state) {
    struct pace pace = {0};
    struct pace_look look = {.mark = 1, .received = 100, .is_open = true, .most_ms = MOST};
    (void)state;
    assert_false(pace_is_late(&pace, &look, BEGIN));
    assert_int_equal(pace.deadline, BEGIN + MOST);
    for (uint64_t now = BEGIN; now < BEGIN + MOST; now++) {
        look.received += 1 << 20;
        assert_false(pace_is_late(&pace, &look, now));
    }
    assert_int_equal(pace.deadline, BEGIN + MOST);
    assert_true(pace_is_late(&pace, &look, BEGIN + MOST));
    assert_true(pace_is_late(&pace, &look, BEGIN + MOST + 1));
}

/* The next one has a time of its own; a peer that has begun nothing is never late. */
static void the_next_begins_anew(void **state) {
    struct pace pace = {0};
    struct pace_look look = {.mark = 1, .received = 1, .is_open = true, .most_ms = MOST};
    (void)state;
    assert_false(pace_is_late(&pace, &look, BEGIN));
    look.mark = 2;
    assert_false(pace_is_late(&pace, &look, BEGIN + MOST));
    assert_int_equal(pace.deadline, BEGIN + 2 * MOST);
    assert_int_equal(pace.mark, 2);
    assert_false(pace_is_late(&pace, &look, BEGIN + 2 * MOST - 1));
    assert_true(pace_is_late(&pace, &look, BEGIN + 2 * MOST));
    look.is_open = false;
    assert_false(pace_is_late(&pace, &look, BEGIN + 5 * MOST));
    look.is_open = true;
    assert_false(pace_is_late(&pace, &look, BEGIN + 6 * MOST - 1));
    assert_true(pace_is_late(&pace, &look, BEGIN + 6 * MOST));
}

/* With earning, what came since the last look counts, once. */
static void bytes_earn_time(void **state) {
    struct pace pace = {0};
    struct pace_look look = {.mark = 1, .received = 7, .is_open = true, .most_ms = MOST, .earns = true};
    (void)state;
    assert_false(pace_is_late(&pace, &look, BEGIN));
    look.received += MIN_RATE;
    assert_false(pace_is_late(&pace, &look, BEGIN + 2000));
    assert_int_equal(pace.deadline, BEGIN + MOST + 1000);
    assert_false(pace_is_late(&pace, &look, BEGIN + 3000));
    assert_int_equal(pace.deadline, BEGIN + MOST + 1000);
    assert_false(pace_is_late(&pace, &look, BEGIN + MOST + 999));
    assert_true(pace_is_late(&pace, &look, BEGIN + MOST + 1000));
    /* What comes just in time is in time. */
    look.received += MIN_RATE;
    assert_false(pace_is_late(&pace, &look, BEGIN + MOST + 1000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_has_its_time),
        cmocka_unit_test(the_next_begins_anew),
        cmocka_unit_test(bytes_earn_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
