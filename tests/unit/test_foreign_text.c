/* Text from outside, in JSON and on a terminal: what may be shown is as it was, and nothing else
 * comes through. */
#include "shared/foreign_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/json.h"

#define BAD "\xEF\xBF\xBD"

struct row {
    const char *text, *json, *shown;
};

static const struct row rows[] = {
    {"", "", ""},
    {"live/cam 1", "live/cam 1", "live/cam 1"},
    {"f\xC3\xBCr \xE6\x97\xA5 \xF0\x9F\x8E\xA5 "
     "\xC2\xA0\xE2\x80\xA9\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA\xF4\x8F\xBF\xBF",
     "f\xC3\xBCr \xE6\x97\xA5 \xF0\x9F\x8E\xA5 "
     "\xC2\xA0\xE2\x80\xA9\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA\xF4\x8F\xBF\xBF",
     "f\xC3\xBCr \xE6\x97\xA5 \xF0\x9F\x8E\xA5 "
     "\xC2\xA0\xE2\x80\xA9\xE2\x80\xAF\xE2\x81\xA5\xE2\x81\xAA\xF4\x8F\xBF\xBF"},
    {"\"a\\b\"", "\\\"a\\\\b\\\"", "\"a\\b\""},
    {"\x1b[2J\x01\n\t\r~\x7f", "\\u001b[2J\\u0001\\u000a\\u0009\\u000d~\\u007f", "\\x1b[2J\\x01\\x0a\\x09\\x0d~\\x7f"},
    {"\xC2\x80\xC2\x9B\xC2\x9F", "\\u0080\\u009b\\u009f", "\\u0080\\u009b\\u009f"},
    {"\xE2\x80\xAA\xE2\x80\xAE\xE2\x81\xA6\xE2\x81\xA9", "\\u202a\\u202e\\u2066\\u2069",
     "\\u202a\\u202e\\u2066\\u2069"},
    {"\x9b"
     "31m\xff",
     BAD "31m" BAD, "\\x9b31m\\xff"},
    /* Unicode 3.9, tables 3-8 to 3-11: how many there are of U+FFFD. */
    {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", BAD BAD BAD BAD BAD BAD BAD BAD "A",
     "\\xc0\\xaf\\xe0\\x80\\xbf\\xf0\\x81\\x82A"},
    {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", BAD BAD BAD BAD BAD BAD BAD BAD "A",
     "\\xed\\xa0\\x80\\xed\\xbf\\xbf\\xed\\xafA"},
    {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", BAD BAD BAD BAD BAD "A" BAD BAD "B",
     "\\xf4\\x91\\x92\\x93\\xffA\\x80\\xbfB"},
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", BAD BAD BAD BAD "A", "\\xe1\\x80\\xe2\\xf0\\x91\\x92\\xf1\\xbfA"},
    /* Cut at the text's end. */
    {"a\xF0\x9F\x8E", "a" BAD, "a\\xf0\\x9f\\x8e"},
    {"\xC3", BAD, "\\xc3"},
};

static void in_json(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json json = {0};
        char expected[256];
        int length = snprintf(expected, sizeof expected, "{\"%s\":\"%s\"}", rows[i].json, rows[i].json);
        json_open(&json, NULL, '{');
        json_put_string(&json, rows[i].text, rows[i].text);
        json_close(&json, '}');
        assert_false(json.failed);
        assert_int_equal(json.length, length);
        assert_memory_equal(json.text, expected, (size_t)length);
        free(json.text);
    }
}

static void on_a_terminal(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *shown = foreign_shown(rows[i].text);
        assert_string_equal(shown, rows[i].shown);
        free(shown);
    }
}

/* Of every code there is: read back as it is, and shown as it is unless it is named as one that is
 * not. */
static void every_code(void **state) {
    (void)state;
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        char text[5] = "";
        uint32_t read;
        size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        static const unsigned mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = size; i-- > 1;)
            text[i] = (char)(0x80 | ((code >> 6 * (size - 1 - i)) & 0x3F));
        text[0] = (char)(mark[size] | code >> 6 * (size - 1));
        bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
        assert_int_equal(foreign_character(text, &read), is_surrogate ? 1 : size);
        assert_true(read == (is_surrogate ? FOREIGN_BAD : code));
        bool is_control = code < 0x20 || code == 0x7F || (code >= 0x80 && code <= 0x9F) ||
                          (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
        assert_int_equal(foreign_is_control(code), is_control);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_json),
        cmocka_unit_test(on_a_terminal),
        cmocka_unit_test(every_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
