/* The daemon's forwards without sockets: what operators may write, and where streams go. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/config/forward_option.h"

static void options_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *pattern, *host, *place, *url, *user, *password;
        int port;
    } good[] = {
        {"live/x=http://h/p", "live/x", "h", "http://h:80", "http://h/p", "", "", 80},
        {"*=http://u:a%3Ab=c@[::1]:81/p/*?k=*&x=y", "*", "::1", "http://[::1]:81", "http://[::1]:81/p/*?k=*&x=y", "u",
         "a:b=c", 81},
        {"a/*/b=HTTP://h", "a/*/b", "h", "http://h:80", "http://h", "", "", 80},
        {"*/*=http://h/p", "*/*", "h", "http://h:80", "http://h/p", "", "", 80},
        {"live/*=rtmp://HOST/APP/KEY", "live/*", "HOST", "rtmp://HOST:1935", "rtmp://HOST/APP/KEY", "", "", 1935},
        {"live/*=rtsp://h/*", "live/*", "h", "rtsp://h:554", "rtsp://h/*", "", "", 554},
        {"x*=http://us*er@h/", "x*", "h", "http://h:80", "http://h/", "us*er", "", 80},
        {"x=http://h/?tracks=default", "x", "h", "http://h:80", "http://h/?tracks=default", "", "", 80},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct forward_options *options = NULL;
        assert_null(forward_options_add(&options, good[i].text));
        const struct forward_option *option = &options->list[0];
        assert_int_equal(options->count, 1);
        assert_string_equal(option->pattern, good[i].pattern);
        assert_int_equal(option->tracks, FORWARD_TRACKS_KNOWN);
        assert_string_equal(option->target.host, good[i].host);
        assert_string_equal(option->target.place, good[i].place);
        assert_string_equal(option->target.url, good[i].url);
        assert_int_equal(option->target.port, good[i].port);
        assert_string_equal(option->user, good[i].user);
        assert_string_equal(option->password, good[i].password);
        assert_int_equal(option->has_user, *good[i].user != '\0');
        forward_options_free(options);
    }
}

static void tracks_are_chosen(void **state) {
    static const struct {
        const char *text;
        enum forward_tracks tracks;
    } cases[] = {
        {"live/*=http://h/p?q=*", FORWARD_TRACKS_KNOWN},
        {"live/*?tracks=all=http://h/p?q=*", FORWARD_TRACKS_ALL},
        {"live/*?tracks=default=http://h/p?q=*", FORWARD_TRACKS_DEFAULT},
    };
    struct forward_options *options = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(forward_options_add(&options, cases[i].text));
        const struct forward_option *option = &options->list[i];
        assert_string_equal(option->pattern, "live/*");
        assert_int_equal(option->tracks, cases[i].tracks);
        assert_string_equal(option->target.url, "http://h/p?q=*");
        for (size_t k = 0; k < i; k++)
            assert_false(forward_option_equal(option, &options->list[k]));
    }
    forward_options_free(options);
}

static void wrong_ones_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "live/x",
        "=http://h/p",
        "live//x=http://h/p",
        "live/x y=http://h/p",
        "live/x=",
        "live/x=h/p",
        "live/x=ftp://h/geheim",
        "live/x=http://",
        "live/x=http://h:0/p",
        "live/x=http://h:65536/p",
        "live/x=http://h/p geheim",
        "live/x=http://h/*",
        "*/*=http://h/*",
        "*=http://*/geheim",
        "*=http://h:*/geheim",
        "*=http://%0a:geheim@h/p",
        "*=rtmp://h/geheim",
        "*=rtmp://h/*",
        "live/x=rtmps://h/geheim",
        "live/x=rtmpts://h/app/geheim",
        "live/x?tracks=http://h/geheim",
        "live/x?tracks=Default=http://h/geheim",
        "live/x?tracks=defaults=http://h/geheim",
        "live/x?x=1&tracks=all=http://h/geheim",
        "live/x?=http://h/geheim",
        "live/x?tracks=all",
        "live/x?tracks=all=",
    };
    struct forward_options *options = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *wrong = forward_options_add(&options, texts[i]);
        assert_non_null(wrong);
        assert_null(strstr(wrong, "geheim"));
        assert_int_equal(forward_options_count(options), 0);
    }
    assert_null(forward_options_add(&options, "live/x=http://h/p"));
    assert_non_null(forward_options_add(&options, "live/x=http://h/p"));
    assert_int_equal(forward_options_count(options), 1);
    forward_options_free(options);
}

static void they_are_bounded(void **state) {
    (void)state;
    struct forward_options *options = NULL;
    char text[PULL_URL + 64];
    for (int i = 0; i < FORWARD_OPTIONS_MAX; i++) {
        snprintf(text, sizeof text, "live/x=http://h/%d", i);
        assert_null(forward_options_add(&options, text));
    }
    assert_non_null(forward_options_add(&options, "live/x=http://h/one-more"));
    assert_int_equal(forward_options_count(options), FORWARD_OPTIONS_MAX);
    forward_options_free(options);
}

static int target(const char *text, const char *stream, struct pull_target *ret_target) {
    struct forward_options *options = NULL;
    assert_null(forward_options_add(&options, text));
    int error = forward_option_target(&options->list[0], stream, ret_target);
    forward_options_free(options);
    return error;
}

static void stars_become_names(void **state) {
    (void)state;
    static const struct {
        const char *option, *stream, *url;
        int error;
    } cases[] = {
        {"live/x=http://h/p", "live/x", "http://h/p", 0},
        {"live/x=http://h/p", "live/y", "", -ENOENT},
        {"live/*=http://h/p", "live/y", "http://h/p", 0},
        {"live/*=http://h/a/*.flv?key=*", "live/b/c", "http://h/a/b/c.flv?key=b/c", 0},
        {"*/main=http://h/*", "a/main", "http://h/a", 0},
        {"a*b=http://h/*", "aXb", "http://h/X", 0},
        {"a*b=http://h/*", "ab", "http://h/", 0},
        {"a*b=http://h/*", "aXc", "", -ENOENT},
        /* Not a parent folder. */
        {"a*=http://h/p/*", "a..", "", -EINVAL},
        {"a*=http://h/p", "a..", "http://h/p", 0},
        {"a*=rtmp://h/app/*?k=1", "ab/c", "rtmp://h/app/b/c?k=1", 0},
        {"a*=rtmp://h/app/*", "a", "", -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pull_target got = {.url = ""};
        assert_int_equal(target(cases[i].option, cases[i].stream, &got), cases[i].error);
        assert_string_equal(got.url, cases[i].url);
    }
}

/* As long as it may be, and one more. */
static void a_url_is_bounded(void **state) {
    (void)state;
    char option[PULL_URL + 64] = "x*=http://h/*";
    struct pull_target got;
    size_t at = strlen(option), room = PULL_URL - strlen("http://h/abc");
    memset(option + at, 'p', room);
    assert_int_equal(target(option, "xabc", &got), 0);
    assert_int_equal(strlen(got.url), PULL_URL);
    assert_int_equal(target(option, "xabcd", &got), -EMSGSIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read),       cmocka_unit_test(tracks_are_chosen),
        cmocka_unit_test(wrong_ones_are_refused), cmocka_unit_test(they_are_bounded),
        cmocka_unit_test(stars_become_names),     cmocka_unit_test(a_url_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
