/* Bodies of the API that ask for a pull: what is one, what is not, and that memory which has held a
 * password is wiped before it is freed. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/admin/admin_pull.h"

#define URL "\"url\":\"rtsp://u:geheim@h/p\""
#define NAME "\"stream\":\"live/x\""

void __real_free(void *memory);
void __wrap_free(void *memory);

static size_t freed, not_wiped;

void __wrap_free(void *memory) {
    if (memory) {
        freed++;
        not_wiped += memmem(memory, malloc_usable_size(memory), "geheim", strlen("geheim")) != NULL;
    }
    __real_free(memory);
}

/* In memory of exactly its size, so that a sanitizer sees what is read behind it. */
static int read_body(const char *text, size_t size, struct pull **ret_pull) {
    char *copy = size > 0 ? malloc(size) : NULL;
    const char *wrong = NULL;
    if (copy)
        memcpy(copy, text, size);
    int error = admin_pull_read(copy, size, ret_pull, &wrong);
    assert_int_equal(error == -EINVAL, wrong != NULL);
    assert_null(wrong ? strstr(wrong, "geheim") : NULL);
    __real_free(copy);
    return error;
}

static void read_pulls(void **state) {
    static const struct {
        const char *body;
        uint64_t ttl_ms;
        bool on_demand;
    } rows[] = {
        {"{" URL "," NAME "}", 0, false},
        {" \t\r\n{ " NAME " ,\n" URL " } ", 0, false},
        {"{" URL "," NAME ",\"ttl\":1,\"on_demand\":true}", 1000, true},
        {"{" URL "," NAME ",\"ttl\":31536000,\"on_demand\":false}", 31536000000, false},
        {"{" URL "," NAME ",\"ttl\":null,\"on_demand\":null}", 0, false},
        {"{\"\\u0075rl\":\"rtsp:\\/\\/u:gehe\\u0069m@h\\/p\"," NAME "}", 0, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pull *pull = NULL;
        assert_int_equal(read_body(rows[i].body, strlen(rows[i].body), &pull), 0);
        assert_string_equal(pull->option.target.url, "rtsp://h/p");
        assert_string_equal(pull->option.password, "geheim");
        assert_string_equal(pull->option.name, "live/x");
        assert_int_equal(pull->option.on_demand, rows[i].on_demand);
        assert_int_equal(pull->ttl_ms, rows[i].ttl_ms);
        pull_free(pull);
    }
}

static void refused(void **state) {
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "[]",
        "null",
        "{}",
        "\"geheim\"",
        "{" URL "}",
        "{" NAME "}",
        "{" URL "," NAME "}}",
        "{" URL "," NAME "} x",
        "{" URL "," NAME ",}",
        "{" URL " " NAME "}",
        "{" URL "," NAME "," NAME "}",
        "{" URL "," NAME ",\"geheim\":1}",
        "{" URL ",\"stream\":[\"live/x\"]}",
        "{" URL ",\"stream\":{}}",
        "{" URL ",\"stream\":null}",
        "{" URL ",\"stream\":\"live/x\\u0000\"}",
        "{" URL ",\"stream\":\"live/\xff\"}",
        "{" URL "," NAME ",\"ttl\":0}",
        "{" URL "," NAME ",\"ttl\":-1}",
        "{" URL "," NAME ",\"ttl\":01}",
        "{" URL "," NAME ",\"ttl\":1.0}",
        "{" URL "," NAME ",\"ttl\":1e3}",
        "{" URL "," NAME ",\"ttl\":\"1\"}",
        "{" URL "," NAME ",\"ttl\":true}",
        "{" URL "," NAME ",\"ttl\":31536001}",
        "{" URL "," NAME ",\"ttl\":9223372036854775808}",
        "{" URL "," NAME ",\"on_demand\":1}",
        "{" URL "," NAME ",\"on_demand\":\"yes\"}",
    };
    (void)state;
    struct pull *pull = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(read_body(rows[i], strlen(rows[i]), &pull), -EINVAL);
    static const char nul[] = "{" URL "," NAME "}\0";
    assert_int_equal(read_body(nul, sizeof nul, &pull), -EINVAL);
    assert_null(pull);
}

/* Of a body, each beginning is refused. */
static void every_cut(void **state) {
    static const char body[] = "{" URL "," NAME ",\"ttl\":12,\"on_demand\":true}";
    struct pull *pull = NULL;
    (void)state;
    for (size_t size = 0; size < sizeof body - 1; size++)
        assert_int_equal(read_body(body, size, &pull), -EINVAL);
    assert_int_equal(read_body(body, sizeof body - 1, &pull), 0);
    pull_free(pull);
}

/* Nested as deeply as a body's length allows, it is refused, and the stack suffices. */
static void nested(void **state) {
    enum { DEPTH = 16384 };
    char body[DEPTH];
    struct pull *pull = NULL;
    (void)state;
    memset(body, '[', sizeof body);
    assert_int_equal(read_body(body, sizeof body, &pull), -EINVAL);
}

static int begin(void **state) {
    (void)state;
    admin_pull_init();
    return 0;
}

/* After all the others. */
static void wiped(void **state) {
    (void)state;
    assert_true(freed > 100);
    assert_int_equal(not_wiped, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_pulls), cmocka_unit_test(refused), cmocka_unit_test(every_cut),
        cmocka_unit_test(nested),     cmocka_unit_test(wiped),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
