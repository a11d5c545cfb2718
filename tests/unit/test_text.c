/* Words, numbers and parameters in texts of peers, in the programs. */
#include "shared/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void folds_words(void **state) {
    (void)state;
    assert_true(text_folds_to(text_of("bAsIc"), "Basic"));
    assert_false(text_folds_to(text_of("Basic "), "Basic"));
    assert_false(text_is(text_of("get"), "GET"));
    assert_true(text_is((sluice_http_text){"GETS", 3}, "GET"));
    sluice_http_text list = text_of("\t auth-int ,auth");
    assert_true(text_is(text_trimmed(text_split(&list, ',')), "auth-int"));
    assert_true(text_is(text_split(&list, ','), "auth"));
    assert_int_equal(list.length, 0);
}

static void reads_numbers(void **state) {
    static const struct {
        const char *text;
        uint64_t most, number;
        bool good;
    } cases[] = {
        {"0", 0, 0, true},
        {"1", 0, 0, false},
        {"5", 3, 0, false},
        {"10", 10, 10, true},
        {"11", 10, 0, false},
        {"19", 18, 0, false},
        {"007", 7, 7, true},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, true},
        {"18446744073709551616", UINT64_MAX, 0, false},
        {"99999999999999999999", UINT64_MAX, 0, false},
        {"", 9, 0, false},
        {"+1", 9, 0, false},
        {"-1", 9, 0, false},
        {" 1", 9, 0, false},
        {"1x", 9, 0, false},
        {"0x1", 9, 0, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t number = 77;
        assert_int_equal(text_number(text_of(cases[i].text), cases[i].most, &number), cases[i].good);
        assert_int_equal(number, cases[i].good ? cases[i].number : 77);
    }
}

static void finds_parameters(void **state) {
    sluice_http_text value = text_of("as it was"), query = text_of("limitless=1&limit&a=&limit=2=3&limit=4");
    (void)state;
    assert_false(text_parameter(query, "none", &value));
    assert_true(text_is(value, "as it was"));
    assert_true(text_parameter(query, "limit", &value));
    assert_true(text_is(value, "2=3"));
    assert_true(text_parameter(query, "a", &value));
    assert_int_equal(value.length, 0);
    assert_false(text_parameter(text_of(""), "a", &value));
}

static void decodes_percents(void **state) {
    static const struct {
        const char *text, *decoded;
        int error;
    } cases[] = {
        {"", "", 0},
        {"a%20B%2b%2B", "a B++", 0},
        {"%C3%A9", "\xc3\xa9", 0},
        {"100%", "100%", 0},
        {"%4", "%4", 0},
        {"%4g%g4", "%4g%g4", 0},
        {"%2541", "%41", 0},
        {"1234567", "1234567", 0},
        {"%31234567", "1234567", 0},
        {"12345678", NULL, -EMSGSIZE},
        {"a%00", NULL, -EINVAL},
        {"a%0d", NULL, -EINVAL},
        {"a\n", NULL, -EINVAL},
        {"%7f", NULL, -EINVAL},
    };
    char out[8];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_decode(text_of(cases[i].text), out, sizeof out), cases[i].error);
        if (cases[i].decoded)
            assert_string_equal(out, cases[i].decoded);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_words),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(finds_parameters),
        cmocka_unit_test(decodes_percents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
