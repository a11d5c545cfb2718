/* What the tools are pointed at: URLs taken apart, and streams numbered. */
#include "tools/target.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void urls(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum target_kind kind;
        const char *host;
        unsigned port;
        const char *user, *password, *path, *url;
    } rows[] = {
        {"flv://127.0.0.1", TARGET_FLV, "127.0.0.1", 9000, "", "", "/", "flv://127.0.0.1:9000/"},
        {"http://host/live/a.flv?token=1", TARGET_HTTP, "host", 80, "", "", "/live/a.flv?token=1",
         "http://host:80/live/a.flv?token=1"},
        {"HTTP://host:8080", TARGET_HTTP, "host", 8080, "", "", "/", "http://host:8080/"},
        {"http://host?a=b", TARGET_HTTP, "host", 80, "", "", "/?a=b", "http://host:80/?a=b"},
        {"rtsp://[::1]:554/a#b", TARGET_RTSP, "::1", 554, "", "", "/a", "rtsp://[::1]:554/a"},
        {"rtsp://[::1]/a", TARGET_RTSP, "::1", 554, "", "", "/a", "rtsp://[::1]:554/a"},
        {"rtsp://eve:s%3ac%40@h/a", TARGET_RTSP, "h", 554, "eve", "s:c@", "/a", "rtsp://h:554/a"},
        {"rtsp://eve@h/a@b", TARGET_RTSP, "h", 554, "eve", "", "/a@b", "rtsp://h:554/a@b"},
        {"rtmp://eve:s@h/live/a?k=v", TARGET_RTMP, "h", 1935, "eve", "s", "/live/a?k=v", "rtmp://h:1935/live/a?k=v"},
        {"flvs://h", TARGET_FLV, "h", 9000, "", "", "/", "flvs://h:9000/"},
        {"https://h/a.flv", TARGET_HTTP, "h", 443, "", "", "/a.flv", "https://h:443/a.flv"},
        {"HTTPS://h:8443/a.flv", TARGET_HTTP, "h", 8443, "", "", "/a.flv", "https://h:8443/a.flv"},
        {"rtsps://[::1]/a", TARGET_RTSP, "::1", 322, "", "", "/a", "rtsps://[::1]:322/a"},
        {"rtmps://eve:s@h/live/a", TARGET_RTMP, "h", 443, "eve", "s", "/live/a", "rtmps://h:443/live/a"},
        {"-", TARGET_INPUT, "", 0, "", "", "", NULL},
        {"a.flv", TARGET_FILE, "", 0, "", "", "", NULL},
        {"/tmp/x://y", TARGET_FILE, "", 0, "", "", "", NULL},
        {"./http://y", TARGET_FILE, "", 0, "", "", "", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target target;
        char url[RTSP_URL + 1];
        assert_int_equal(target_read(rows[i].text, &target), 0);
        assert_int_equal(target.kind, rows[i].kind);
        assert_int_equal(target.secure, rows[i].url && strstr(rows[i].url, "s://"));
        assert_null(target.tls);
        assert_string_equal(target.host, rows[i].host);
        assert_int_equal(target.port, rows[i].port);
        assert_string_equal(target.user, rows[i].user);
        assert_string_equal(target.password, rows[i].password);
        assert_string_equal(target.path, rows[i].path);
        if (!rows[i].url)
            continue;
        assert_int_equal(target_url(&target, url), 0);
        assert_string_equal(url, rows[i].url);
    }
}

static void what_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "ftp://h/a",    "srt://h/a",     "flvss://h/a",     "httpss://h/a",     "http://",
        "http:///a",    "http://:80/a",  "http://h:/a",     "http://h:0/a",     "http://h:65536/",
        "http://h:8x/", "http://[::1/a", "http://[::1]8/a", "http://a b/",      "http://h/a b",
        "http://h/\n",  "rtsp://u%4@h/", "rtsp://u%zz@h",   "rtsp://u:%00@h/a", "://h/a",
    };
    struct target target = {.port = 77};
    char text[2 * TARGET_PATH];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(target_read(texts[i], &target), -EPROTO);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "http://h/", 9);
    assert_int_equal(target_read(text, &target), -EMSGSIZE);
    memcpy(text, "http://", 7);
    memset(text + 7, 'h', 300);
    text[307] = '\0';
    assert_int_equal(target_read(text, &target), -EMSGSIZE);
    assert_int_equal(target.port, 77);
}

/* What an RTMP client says of itself has the scheme, too. */
static void rtmp_urls(void **state) {
    (void)state;
    struct target target;
    struct rtmp_url url;
    assert_int_equal(target_read("rtmps://eve:s@h/live/a?k=v", &target), 0);
    assert_int_equal(target_rtmp_url(&target, &url), 0);
    assert_string_equal(url.tc_url, "rtmps://h:443/live");
    assert_string_equal(url.name, "a?k=v");
    assert_int_equal(target_read("rtmps://h/a", &target), 0);
    assert_int_equal(target_rtmp_url(&target, &url), -EPROTO);
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int always;
        const char *path;
    } rows[] = {
        {"http://h/live/a.flv", 0, "/live/a.flv"},
        {"http://h/live/a.flv", 1, "/live/a-42.flv"},
        {"rtsp://h/live/a", 1, "/live/a-42"},
        {"http://h/live/a%d.flv", 0, "/live/a42.flv"},
        {"http://h/live/%d/a.flv", 1, "/live/42/a.flv"},
        {"http://h/a.flv?b=.flv", 1, "/a-42.flv?b=.flv"},
        {"http://h/a?b=%d", 1, "/a?b=42"},
        {"http://h/%20a", 0, "/%20a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct target target;
        assert_int_equal(target_read(rows[i].text, &target), 0);
        assert_int_equal(target_number(&target, 42, rows[i].always), 0);
        assert_string_equal(target.path, rows[i].path);
    }
}

static void a_number_that_does_not_fit(void **state) {
    (void)state;
    struct target target = {.kind = TARGET_HTTP};
    memset(target.path, 'a', TARGET_PATH);
    assert_int_equal(target_number(&target, 1, 1), -EMSGSIZE);
    assert_int_equal(strlen(target.path), TARGET_PATH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(rtmp_urls),
        cmocka_unit_test(numbers),
        cmocka_unit_test(a_number_that_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
