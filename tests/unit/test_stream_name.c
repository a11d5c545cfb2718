/* Names of streams: which are allowed, and how they spread over workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/stream_name.h"

static void names_are_checked(void **state) {
    (void)state;
    static const char *const good[] = {"a", "live/a", "a/b/c/d", "A-_.0", "apis/x", "live/api"};
    static const char *const bad[] = {"",   "/",    "/a",  "a/",     "a//b", "a/b/c/d/e",
                                      ".a", "a/.b", "api", "api/v1", "a b",  "a%"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(stream_name_is_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(stream_name_is_valid(bad[i], strlen(bad[i])));
}

static void patterns_are_checked(void **state) {
    (void)state;
    static const char *const good[] = {"a", "live/a", "*", "live/*", "*/a*/*", "a/b/c/d/*"};
    static const char *const bad[] = {"", "/", "a//b", "a b*", "live/?", "*,*", "*="};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(stream_pattern_is_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(stream_pattern_is_valid(bad[i], strlen(bad[i])));
    assert_true(stream_pattern_is_valid("live/*=5", 6));
    assert_true(stream_pattern_fits("live/*", "live/cam", 8));
    assert_false(stream_pattern_fits("live/*", "live", 4));
}

/* As the server chooses a worker. */
static uint32_t owner(const char *name, uint32_t workers) {
    return (uint32_t)((uint64_t)stream_name_hash(name, strlen(name)) * workers >> 32);
}

/* Names as people give them, which differ in their last characters, go to all workers about
 * alike. */
static void names_spread(void **state) {
    (void)state;
    enum { NAMES = 3000, MOST = 16 };
    static const char *const forms[] = {"live/cam%u", "live/flv-%u", "%u", "studio/%04x/main"};
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        for (uint32_t workers = 2; workers <= MOST; workers++) {
            uint32_t counts[MOST] = {0};
            for (unsigned i = 0; i < NAMES; i++) {
                char name[STREAM_NAME + 1];
                /* The form is one of the above. */
                snprintf(name, sizeof name, forms[form], i);
                uint32_t at = owner(name, workers);
                assert_true(at < workers);
                counts[at]++;
            }
            for (uint32_t i = 0; i < workers; i++)
                assert_in_range(counts[i], NAMES / workers * 3 / 4, NAMES / workers * 5 / 4);
        }
    }
}

static void one_worker_has_all(void **state) {
    (void)state;
    assert_int_equal(owner("live/a", 1), 0);
    /* The length counts, not what is behind it. */
    assert_int_equal(stream_name_hash("live/a", 6), stream_name_hash("live/ab", 6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(patterns_are_checked),
        cmocka_unit_test(names_spread),
        cmocka_unit_test(one_worker_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
