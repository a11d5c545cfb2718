/* JSON objects as they are read: what is one, what is not, and that nothing beyond the text is
 * looked at. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/json_read.h"

enum { SHOWN = 512 };

/* "key=s:text ", "key=i:1 ", "key=t ", "key=f ", "key=n " */
static int show(const struct json_member *member, void *user) {
    static const char kinds[] = "sitfn";
    char *shown = user;
    size_t length = strlen(shown);
    int more = snprintf(shown + length, SHOWN - length, "%s=%c", member->key, kinds[member->kind]);
    length += (size_t)more;
    if (member->kind == JSON_KIND_STRING) {
        assert_int_equal(strlen(member->text), member->length);
        snprintf(shown + length, SHOWN - length, ":%s ", member->text);
    } else if (member->kind == JSON_KIND_INTEGER) {
        snprintf(shown + length, SHOWN - length, ":%lld ", (long long)member->integer);
    } else {
        snprintf(shown + length, SHOWN - length, " ");
    }
    return strcmp(member->key, "stop") == 0 ? -ECANCELED : 0;
}

/* In memory of exactly its size, so that a sanitizer sees what is read behind it. */
static int read_text(const char *text, size_t size, char shown[SHOWN]) {
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    copy[size] = '\0';
    *shown = '\0';
    int result = json_read_object(copy, size, show, shown);
    free(copy);
    return result;
}

static void objects(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{}", ""},
        {" \t\r\n{ \n} ", ""},
        {"{\"a\":\"b\"}", "a=s:b "},
        {" { \"a\" : 1 , \"b\" : -20,\"c\":0, \"a\":true } ", "a=i:1 b=i:-20 c=i:0 a=t "},
        {"{\"a\":false,\"\":null}", "a=f =n "},
        {"{\"a\":9223372036854775807}", "a=i:9223372036854775807 "},
        {"{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "a=s:\"\\/\b\f\n\r\t "},
        {"{\"a\\u0062\":\"\\u00e9\\u20AC\\ud83d\\ude00\\u007f\"}", "ab=s:\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f "},
        {"{\"a\":\"\xc3\xa9\"}", "a=s:\xc3\xa9 "},
    };
    char shown[SHOWN];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_text(rows[i][0], strlen(rows[i][0]), shown), 0);
        assert_string_equal(shown, rows[i][1]);
    }
}

static void not_objects(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "[]",
        "null",
        "\"a\"",
        "{}}",
        "{} x",
        "{a:1}",
        "{'a':1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[]}",
        "{\"a\":{}}",
        "{\"a\":1.0}",
        "{\"a\":1e3}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":+1}",
        "{\"a\":9223372036854775808}",
        "{\"a\":tru}",
        "{\"a\":truex}",
        "{\"a\":\"",
        "{\"a\":\"b",
        "{\"a\":\"b\\",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u000\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\\ud83d\"}",
        "{\"a\":\"\\ud83d\\u0041\"}",
        "{\"a\":\"\\ude00\"}",
        "{\"a\":\"\n\"}",
        "{\"a\\u0000\":1}",
    };
    char shown[SHOWN];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(read_text(rows[i], strlen(rows[i]), shown), -EINVAL);
    assert_int_equal(read_text("{}\0", 3, shown), -EINVAL);
    assert_int_equal(read_text("{\"a\0\":1}", 8, shown), -EINVAL);
}

/* Whatever is cut off, it is none any more. */
static void every_cut(void **state) {
    (void)state;
    static const char text[] = "{\"a\":\"\\ud83d\\ude00\\n\",\"b\":-12,\"c\":true}";
    char shown[SHOWN];
    for (size_t size = 0; size < sizeof text - 1; size++)
        assert_int_equal(read_text(text, size, shown), -EINVAL);
    assert_int_equal(read_text(text, sizeof text - 1, shown), 0);
}

static void the_caller_ends_it(void **state) {
    (void)state;
    static const char text[] = "{\"a\":1,\"stop\":2,\"b\":x";
    char shown[SHOWN];
    assert_int_equal(read_text(text, sizeof text - 1, shown), -ECANCELED);
    assert_string_equal(shown, "a=i:1 stop=i:2 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects),
        cmocka_unit_test(not_objects),
        cmocka_unit_test(every_cut),
        cmocka_unit_test(the_caller_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
