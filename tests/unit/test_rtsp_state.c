/* The daemon's RTSP server without sockets: what is admitted in which state, and what URLs are
 * about. */
#include "daemon/protocols/rtsp/rtsp_state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/http_feed.h"

static const char session_id[] = "abcdefghijkmnpqrstuvwxyz";

/* What a request with these lines is answered in a state; 0 where it is admitted. */
static unsigned admit(enum rtsp_state state, const char *id, const char *method, const char *lines) {
    sluice_pool *pool = http_feed_pool(4096, 64);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    char text[512];
    snprintf(text, sizeof text, "%s rtsp://h/live/a RTSP/1.0\r\n%s\r\n", method, lines);
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    http_feed_bytes(pool, chain, text, strlen(text));
    assert_int_equal(sluice_rtsp_next(rtsp, chain, &message), 1);
    unsigned status = rtsp_admit(state, id, message);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
    return status;
}

/* Each method in each state: "." where it is admitted, "x" for 455. */
static void every_method_in_every_state(void **state) {
    (void)state;
    static const char *const methods[] = {"OPTIONS", "DESCRIBE", "ANNOUNCE", "SETUP",         "PLAY",
                                          "PAUSE",   "RECORD",   "TEARDOWN", "GET_PARAMETER", "SET_PARAMETER"};
    static const struct {
        enum rtsp_state state;
        const char *admitted;
    } rows[] = {
        {RTSP_INIT, "....xxx..."},      {RTSP_WAITING, "xxxxxxxxxx"},   {RTSP_DESCRIBED, "..x.xxx..."},
        {RTSP_TO_PLAY, "..x...x..."},   {RTSP_PLAYING, "..xx..x..."},   {RTSP_ANNOUNCED, ".xx.xxx..."},
        {RTSP_TO_RECORD, ".xx.x....."}, {RTSP_RECORDING, ".xxxx....."}, {RTSP_ENDING, "xxxxxxxxxx"},
    };
    char lines[64];
    snprintf(lines, sizeof lines, "CSeq: 1\r\nSession: %s\r\n", session_id);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char admitted[16] = "";
        for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
            unsigned status = admit(rows[i].state, session_id, methods[k], lines);
            assert_true(status == 0 || status == 455);
            admitted[k] = status ? 'x' : '.';
        }
        assert_string_equal(admitted, rows[i].admitted);
    }
}

static void what_is_refused_in_any_state(void **state) {
    (void)state;
    assert_int_equal(admit(RTSP_INIT, "", "OPTIONS", ""), 400);
    assert_int_equal(admit(RTSP_INIT, "", "OPTIONS", "CSeq: one\r\n"), 400);
    assert_int_equal(admit(RTSP_INIT, "", "options", "CSeq: 1\r\n"), 501);
    assert_int_equal(admit(RTSP_INIT, "", "REDIRECT", "CSeq: 1\r\n"), 405);
    assert_int_equal(admit(RTSP_INIT, "", "OPTIONS", "CSeq: 1\r\nRequire: a\r\n"), 551);
    assert_int_equal(admit(RTSP_INIT, "", "SETUP", "CSeq: 1\r\nProxy-Require: a\r\n"), 551);
}

static void sessions(void **state) {
    (void)state;
    static const char own[] = "CSeq: 1\r\nSession: abcdefghijkmnpqrstuvwxyz;timeout=60\r\n";
    static const char *const others[] = {"abcdefghijkmnpqrstuvwxy", "abcdefghijkmnpqrstuvwxyz2", "2",
                                         "ABCDEFGHIJKMNPQRSTUVWXYZ"};
    assert_int_equal(admit(RTSP_PLAYING, session_id, "PAUSE", own), 0);
    assert_int_equal(admit(RTSP_PLAYING, session_id, "PAUSE", "CSeq: 1\r\n"), 454);
    assert_int_equal(admit(RTSP_TO_PLAY, session_id, "SETUP", "CSeq: 1\r\n"), 454);
    assert_int_equal(admit(RTSP_PLAYING, session_id, "GET_PARAMETER", "CSeq: 1\r\n"), 0);
    assert_int_equal(admit(RTSP_INIT, "", "SETUP", "CSeq: 1\r\n"), 0);
    assert_int_equal(admit(RTSP_INIT, "", "SETUP", own), 454);
    assert_int_equal(admit(RTSP_INIT, "", "TEARDOWN", "CSeq: 1\r\n"), 454);
    assert_int_equal(admit(RTSP_PLAYING, session_id, "PAUSE", "CSeq: 1\r\nSession: \r\n"), 400);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char lines[64];
        snprintf(lines, sizeof lines, "CSeq: 1\r\nSession: %s\r\n", others[i]);
        assert_int_equal(admit(RTSP_PLAYING, session_id, "PAUSE", lines), 454);
    }
}

static void lists_of_methods(void **state) {
    (void)state;
    char text[RTSP_METHODS_TEXT];
    rtsp_write_methods(rtsp_methods(), text);
    assert_string_equal(text, "OPTIONS, DESCRIBE, ANNOUNCE, SETUP, PLAY, PAUSE, RECORD, TEARDOWN, GET_PARAMETER, "
                              "SET_PARAMETER");
    rtsp_write_methods(rtsp_methods_in(RTSP_ANNOUNCED), text);
    assert_string_equal(text, "OPTIONS, SETUP, TEARDOWN, GET_PARAMETER, SET_PARAMETER");
    rtsp_write_methods(0, text);
    assert_string_equal(text, "");
}

static void targets(void **state) {
    (void)state;
    static const sluice_http_text controls[] = {{"streamid=0", 10}, {"", 0}, {"a/b", 3}, {"rtsp://x/y?z", 12}};
    static const struct {
        const char *url, *name;
        int track;
    } good[] = {
        {"rtsp://h/live/a", "live/a", -1},
        {"rtsp://h:8554/live/a/", "live/a", -1},
        {"rtsp://user:pass@[::1]/live/a?token=1", "live/a", -1},
        {"rtsp://h/live/a/streamid=0", "live/a", 0},
        {"rtsp://h/live/a/streamid=0/", "live/a", 0},
        {"rtsp://h/live/a?token=1/streamid=0", "live/a", 0},
        {"rtsp://h/live/a/?token=1/streamid=0", "live/a", 0},
        {"rtsp://h/live/a/streamid=0?token=1", "live/a", 0},
        {"rtsp://h/live/a/a/b", "live/a", 2},
        {"rtsp://x/y?z", "y", 3},
        {"rtsp://h/live/astreamid=0", "live/astreamid=0", -1},
        {"rtsp://h/live/a/streamid=00", "live/a/streamid=00", -1},
        {"rtsp://h/streamid=0", "", 0},
        {"rtsp://h/", "", -1},
        {"rtsp://h", "", -1},
        {"/live/a", "live/a", -1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rtsp_target target = {.track = 99};
        const sluice_http_text url = {good[i].url, strlen(good[i].url)};
        assert_int_equal(rtsp_read_target(url, controls, sizeof controls / sizeof *controls, &target), 0);
        assert_int_equal(target.track, good[i].track);
        assert_int_equal(target.name.length, strlen(good[i].name));
        assert_memory_equal(target.name.length ? target.name.text : "", good[i].name, target.name.length);
    }
    static const char *const bad[] = {"*", "", "http://h/live/a", "rtspu://h/live/a", "rtsp://", "live/a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rtsp_target target;
        assert_int_equal(rtsp_read_target((sluice_http_text){bad[i], strlen(bad[i])}, NULL, 0, &target), -EPROTO);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_in_every_state),
        cmocka_unit_test(what_is_refused_in_any_state),
        cmocka_unit_test(sessions),
        cmocka_unit_test(lists_of_methods),
        cmocka_unit_test(targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
