/* Other nodes for clients of one that drains: in turn, not without TLS for a client that has it, no
 * more than there is room for. */
#include "daemon/server/refuge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct refuge *make(void) {
    struct refuge *refuge = NULL;
    assert_int_equal(refuge_new("192.0.2.1:80", &refuge), 0);
    return refuge;
}

static void there_may_be_none(void **state) {
    (void)state;
    struct refuge *refuge = make();
    struct refuge_place place = {.address = "untouched"};
    assert_false(refuge_next(refuge, false, &place));
    refuge_set(refuge, &(struct refuge_place){.address = "192.0.2.2:80"}, 1);
    assert_false(refuge_next(refuge, true, &place));
    assert_string_equal(place.address, "untouched");
    refuge_set(refuge, &place, 0);
    assert_false(refuge_next(refuge, false, &place));
    refuge_free(refuge);
    refuge_free(NULL);
}

static void they_are_named_in_turn(void **state) {
    (void)state;
    struct refuge *refuge = make();
    const struct refuge_place list[] = {
        {.address = "a:80"}, {.address = "b:443", .is_secure = true}, {.address = "[fd00::1]:443", .is_secure = true}};
    struct refuge_place place;
    refuge_set(refuge, list, 3);
    for (unsigned i = 0; i < 6; i++) {
        assert_true(refuge_next(refuge, false, &place));
        assert_string_equal(place.address, list[i % 3].address);
        assert_int_equal(place.is_secure, i % 3 > 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_true(refuge_next(refuge, true, &place));
        assert_string_equal(place.address, list[1 + i % 2].address);
    }
    refuge_free(refuge);
}

static void there_is_room_for_so_many(void **state) {
    (void)state;
    struct refuge *refuge = make();
    struct refuge_place list[REFUGE_MOST + 1], place;
    memset(list, 0, sizeof list);
    for (unsigned i = 0; i <= REFUGE_MOST; i++)
        snprintf(list[i].address, sizeof list[i].address, "n%u:80", i);
    refuge_set(refuge, list, REFUGE_MOST + 1);
    for (unsigned i = 0; i < REFUGE_MOST; i++) {
        assert_true(refuge_next(refuge, false, &place));
        assert_string_equal(place.address, list[i].address);
    }
    assert_true(refuge_next(refuge, false, &place));
    assert_string_equal(place.address, list[0].address);
    refuge_free(refuge);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_may_be_none),
        cmocka_unit_test(they_are_named_in_turn),
        cmocka_unit_test(there_is_room_for_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
