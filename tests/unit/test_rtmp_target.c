/* The stream and the query in what clients of RTMP say in connect, publish and play. */
#include "daemon/protocols/rtmp/rtmp_target.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct form {
    const char *app, *url, *name;
    const char *stream, *query; /* stream: NULL: none */
};

static const struct form forms[] = {
    /* ffmpeg: rtmp://h/live/cam, with a query, with an instance */
    {"live", "rtmp://h:1935/live", "cam", "live/cam", ""},
    {"live", "rtmp://h:1935/live", "cam?token=x", "live/cam", "token=x"},
    {"live/a", "rtmp://h:1935/live/a", "cam", "live/a/cam", ""},
    {"live?token=x", "rtmp://h/live?token=x", "cam", "live/cam", "token=x"},
    /* GStreamer, librtmp: slashes in the name */
    {"live", "rtmp://h/live", "a/cam", "live/a/cam", ""},
    {"live", "rtmp://h:80/live", "/cam", "live/cam", ""},
    {"live/", "rtmp://h/live/", "cam", "live/cam", ""},
    /* no app */
    {"", "rtmp://h", "cam", "cam", ""},
    {"", "rtmp://h/live", "cam", "live/cam", ""},
    /* OBS: the key in the server's field; a key that is a query alone */
    {"live/cam", "rtmp://h/live/cam", "", "live/cam", ""},
    {"live/cam?token=x", "rtmp://h/live/cam?token=x", "", "live/cam", "token=x"},
    {"live/cam", "rtmp://h/live/cam", "?token=x", "live/cam", "token=x"},
    {"live", "rtmp://h/live", "?k=v", "live", "k=v"},
    /* a query in the URL alone, in all, and different ones */
    {"live", "rtmp://h/live?token=x", "cam", "live/cam", "token=x"},
    {"live?b=2", "rtmp://h/live?c=3", "cam?a=1", "live/cam", "a=1&b=2&c=3"},
    {"live?user=u&pass=p", "", "cam", "live/cam", "user=u&pass=p"},
    /* quotes around the URL */
    {"live", "rtmp://h/live", "\"cam\"", "live/cam", ""},
    {"'live'", "'rtmp://h/live'", "'cam?a=1'", "live/cam", "a=1"},
    /* Flash */
    {"live", "rtmp://h/live", "mp4:cam", "live/cam", ""},
    {"live", "rtmp://h/live", "flv:a/cam", "live/a/cam", ""},
    /* none */
    {"", "", "", NULL, NULL},
    {"live", "", "../cam", NULL, NULL},
    {"live", "", "a b", NULL, NULL},
    {"api", "", "cam", NULL, NULL},
    {"a/b/c/d", "", "e", NULL, NULL},
    {"", "://", "?", NULL, NULL},
};

static void forms_of_urls(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form *form = &forms[i];
        struct rtmp_target target = {.name = "untouched"};
        int error = rtmp_target_read(form->app, form->url, form->name, &target);
        assert_int_equal(error, form->stream ? 0 : -EINVAL);
        assert_string_equal(target.name, form->stream ? form->stream : "untouched");
        if (form->stream)
            assert_string_equal(target.query, form->query);
    }
}

static void the_app_alone(void **state) {
    (void)state;
    struct rtmp_target target;
    assert_int_equal(rtmp_target_read_app("live/?a=1", "rtmp://h/live?b=2", &target), 0);
    assert_string_equal(target.name, "live");
    assert_string_equal(target.query, "a=1&b=2");
    assert_int_equal(rtmp_target_read_app("", "", &target), 0);
    assert_string_equal(target.name, "");
}

static void lengths(void **state) {
    (void)state;
    struct rtmp_target target;
    char name[STREAM_NAME + 2], query[RTMP_QUERY_TEXT + 2];
    memset(name, 'a', sizeof name);
    for (size_t i = 64; i < STREAM_NAME; i += 65)
        name[i] = '/';
    name[STREAM_NAME] = '\0';
    assert_int_equal(rtmp_target_read("", "", name, &target), 0);
    assert_int_equal(rtmp_target_read("x", "", name, &target), -EINVAL);
    query[0] = '?';
    memset(query + 1, 'q', sizeof query - 1);
    query[RTMP_QUERY_TEXT] = '\0';
    assert_int_equal(rtmp_target_read("live", "", query, &target), 0);
    assert_int_equal(rtmp_target_read("live?bbbb", "", query, &target), -EMSGSIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_urls),
        cmocka_unit_test(the_app_alone),
        cmocka_unit_test(lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
