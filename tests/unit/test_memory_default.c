/* The default of --memory for machines, control groups and workers, and one step beyond each of its
 * bounds. */
#include "daemon/base/memory_default.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* With both the other way round: it is the same. */
static void expect(uint64_t machine, uint64_t groups, uint64_t workers, uint64_t memory) {
    assert_true(memory_default(machine, groups, workers) == memory);
    assert_true(memory_default(groups, machine, workers) == memory);
}

static void a_quarter(void **state) {
    (void)state;
    expect(24 * GIB, UINT64_MAX, 2, 6 * GIB);
    expect(24 * GIB, 8 * GIB, 2, 2 * GIB);
    expect(24 * GIB, 48 * GIB, 2, 6 * GIB);
    expect(2 * GIB, 2 * GIB, 1, 512 * MIB);
}

static void whole_mebibytes(void **state) {
    (void)state;
    expect(4 * GIB + 4 * MIB - 1, UINT64_MAX, 1, GIB);
    expect(4 * GIB + 4 * MIB, UINT64_MAX, 1, GIB + MIB);
}

static void at_least_what_is_usual(void **state) {
    (void)state;
    expect(GIB, UINT64_MAX, 1, 256 * MIB);
    expect(GIB + 4 * MIB - 1, UINT64_MAX, 1, 256 * MIB);
    expect(GIB + 4 * MIB, UINT64_MAX, 1, 257 * MIB);
    expect(600 * MIB, UINT64_MAX, 1, 256 * MIB);
    expect(16 * GIB, UINT64_MAX, 64, 4 * GIB);
    expect(16 * GIB, UINT64_MAX, 65, 4 * GIB + 64 * MIB);
    expect(GIB, UINT64_MAX, 4, 256 * MIB);
    expect(GIB, UINT64_MAX, 5, 320 * MIB);
}

static void at_most_half(void **state) {
    (void)state;
    expect(512 * MIB, UINT64_MAX, 1, 256 * MIB);
    expect(512 * MIB - 1, UINT64_MAX, 1, 255 * MIB);
    expect(24 * GIB, 96 * MIB, 2, 48 * MIB);
    expect(4 * GIB, UINT64_MAX, 32, 2 * GIB);
    expect(4 * GIB, UINT64_MAX, 33, 2 * GIB);
}

static void at_most_what_may_be_set(void **state) {
    (void)state;
    expect(256 * GIB, UINT64_MAX, 8, 64 * GIB);
    expect(256 * GIB + 4 * MIB, UINT64_MAX, 8, 64 * GIB);
    expect(UINT64_MAX - 1, UINT64_MAX - 1, 8, 64 * GIB);
    expect(1024 * GIB, UINT64_MAX, 1025, 64 * GIB);
}

/* It starts, however little there is. */
static void at_least_what_it_needs(void **state) {
    (void)state;
    expect(8 * MIB - 1, UINT64_MAX, 1, 4 * MIB);
    expect(0, UINT64_MAX, 1, 4 * MIB);
    expect(0, UINT64_MAX, 4, 4 * MIB);
    expect(0, UINT64_MAX, 5, 5 * MIB);
}

static void nothing_is_known(void **state) {
    (void)state;
    expect(UINT64_MAX, UINT64_MAX, 1, 256 * MIB);
    expect(UINT64_MAX, UINT64_MAX, 8, 512 * MIB);
    assert_true(memory_of_machine() > 16 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter),
        cmocka_unit_test(whole_mebibytes),
        cmocka_unit_test(at_least_what_is_usual),
        cmocka_unit_test(at_most_half),
        cmocka_unit_test(at_most_what_may_be_set),
        cmocka_unit_test(at_least_what_it_needs),
        cmocka_unit_test(nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
