/* Whose pages may: origins as browsers send them, against lists of origins. */
#include "daemon/access/cors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum cors_grant judge(const char *list, const char *origin, const char *host) {
    struct cors_origins origins = {0};
    char copy[1024], *at = copy, *word;
    snprintf(copy, sizeof copy, "%s", list);
    while ((word = strsep(&at, " ")))
        if (*word)
            assert_null(cors_add(&origins, word));
    enum cors_grant grant = cors_judge(&origins, (sluice_http_text){origin, strlen(origin)},
                                       (sluice_http_text){host, strlen(host)});
    cors_clear(&origins);
    return grant;
}

static void pages_of_the_same_host(void **state) {
    static const struct {
        const char *origin, *host;
        bool same;
    } cases[] = {
        {"http://127.0.0.1:1", "127.0.0.1:2", true},
        {"https://10.0.0.1", "10.0.0.1:8080", true},
        {"http://localhost:1", "LocalHost:2", true},
        {"https://localhost", "localhost", true},
        {"http://localhost.evil", "localhost.evil", false},
        {"http://localhost.", "localhost.", false},
        {"http://127.0.0.1.evil", "127.0.0.1.evil", false},
        {"http://127.1", "127.1", false},
        {"http://[::1%lo]", "[::1%lo]", false},
        {"http://::1", "::1", false},
        {"http://a", "a", false},
        {"http://127.0.0.1:8081", "127.0.0.1:8080", true},
        {"http://[::1]:8081", "[::1]", true},
        {"http://[::1]", "[::1]:1", true},
        {"http://[::1]", "[::2]:1", false},
        {"http://localhost", "127.0.0.1", false},
        {"http://a.b", "b", false},
        {"http://b", "a.b", false},
        {"http://ab", "a", false},
        {"http://a", "ab", false},
        {"http://a", "", false},
        {"http://", "", false},
        {"http://:1", ":2", false},
        {"null", "null", false},
        {"a", "a", false},
        {"file://a", "a", false},
        {"ftp://a", "a", false},
        {"http://a@b", "a", false},
        {"http://a/b", "a", false},
        {"chrome-extension://a", "a", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(judge("", cases[i].origin, cases[i].host), cases[i].same ? CORS_OWN_HOST : CORS_OTHER);
    assert_int_equal(judge("", "", "a"), CORS_UNKNOWN);
}

/* By DNS rebinding: its owner has its name resolved to this host's address. */
static void a_name_that_leads_here_is_anybodys(void **state) {
    (void)state;
    assert_int_equal(judge("", "http://evil.example:8080", "evil.example:8080"), CORS_OTHER);
    assert_int_equal(judge("https://good.example", "http://evil.example:8080", "evil.example:8080"), CORS_OTHER);
    assert_int_equal(judge("https://good.example", "https://good.example", "good.example"), CORS_NAMED);
}

static void pages_that_are_named(void **state) {
    static const char list[] = "https://a.example http://b.example:3000 https://*.c.example http://*.d.example:1 "
                               "http://[::1]:5";
    static const struct {
        const char *origin;
        bool named;
    } cases[] = {
        {"https://a.example", true},
        {"HTTPS://A.example", true},
        {"http://a.example", false},
        {"https://a.example:443", false},
        {"https://a.example.evil", false},
        {"https://xa.example", false},
        {"http://b.example:3000", true},
        {"http://b.example", false},
        {"http://b.example:30001", false},
        {"https://x.c.example", true},
        {"https://x.y.c.example", true},
        {"https://c.example", false},
        {"https://.c.example", false},
        {"https://xc.example", false},
        {"https://evil/.c.example", false},
        {"https://evil:1.c.example", false},
        {"https://evil?.c.example", false},
        {"https://evil#.c.example", false},
        {"https://evil@x.c.example", false},
        {"https://x.c.example:1", false},
        {"http://x.d.example:1", true},
        {"http://[::1]:5", true},
        {"null", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(judge(list, cases[i].origin, "h"), cases[i].named ? CORS_NAMED : CORS_OTHER);
    /* Who is named may more than who is of the same host. */
    assert_int_equal(judge(list, "http://[::1]:5", "[::1]"), CORS_NAMED);
    assert_int_equal(judge(list, "http://[::1]:6", "[::1]"), CORS_OWN_HOST);
    assert_int_equal(judge(list, "", "a"), CORS_UNKNOWN);
}

static void all_pages(void **state) {
    (void)state;
    assert_int_equal(judge("https://a *", "null", "h"), CORS_ANY);
    assert_int_equal(judge("* https://a", "https://a", "h"), CORS_ANY);
    assert_int_equal(judge("*", "", "h"), CORS_ANY);
}

static void what_an_origin_is(void **state) {
    static const char *const wrong[] = {
        "",
        "**",
        "a",
        "http://",
        "http://a/",
        "http://a/b",
        "http://a:",
        "http://a:x",
        "http://a:123456",
        "http://a b",
        "http://*",
        "http://*.",
        "http://*a",
        "http://a.*.b",
        "http://a?",
        "http://[::1",
        "http://[]:1",
        "ftp://a",
        "http://u@a",
        "https://*.*.a",
        "http://a\r\nX: y",
    };
    struct cors_origins origins = {0};
    char text[CORS_ORIGIN + 2] = "https://";
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(cors_add(&origins, wrong[i]));
    assert_int_equal(origins.count, 0);
    memset(text + 8, 'a', sizeof text - 9);
    text[sizeof text - 1] = '\0';
    assert_non_null(cors_add(&origins, text));
    assert_int_equal(judge("https://*.example", text, "h"), CORS_OTHER);
    assert_int_equal(judge("", text, text + 8), CORS_OTHER);
    text[CORS_ORIGIN] = '\0';
    for (int i = 0; i < CORS_MOST; i++)
        assert_null(cors_add(&origins, text));
    assert_non_null(cors_add(&origins, text));
    cors_clear(&origins);
    assert_int_equal(judge(text, text, "h"), CORS_NAMED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_the_same_host), cmocka_unit_test(a_name_that_leads_here_is_anybodys),
        cmocka_unit_test(pages_that_are_named),   cmocka_unit_test(all_pages),
        cmocka_unit_test(what_an_origin_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
