/* The version that a program is built with, and the one that it runs with. */
#include <sluice/version.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void the_librarys_is_that_of_its_headers(void **state) {
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
    assert_string_equal(SLUICE_VERSION, text);
    assert_string_equal(sluice_version(), text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_librarys_is_that_of_its_headers)};
    return cmocka_run_group_tests_name("version", tests, NULL, NULL);
}
