/* Every unit test runs the cases that SLUICE_TEST_CASE matches, where it is set: a name, or a
 * pattern with * and ?. */

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The linker puts this in the place of what cmocka_run_group_tests() calls (--wrap). */
int __real__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);

int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown) {
    const char *pattern = getenv("SLUICE_TEST_CASE");
    if (pattern && *pattern) {
        size_t matching = 0;
        for (size_t i = 0; i < count; i++)
            matching += fnmatch(pattern, tests[i].name, 0) == 0;
        if (matching == 0) { /* for which cmocka would report success */
            fprintf(stderr, "no case matches SLUICE_TEST_CASE=%s\n", pattern);
            return EXIT_FAILURE;
        }
        cmocka_set_test_filter(pattern);
    }
    return __real__cmocka_run_group_tests(group, tests, count, setup, teardown);
}
