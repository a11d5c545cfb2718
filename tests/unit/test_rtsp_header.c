/* What RTSP's headers and URLs say, and that what is written is read the same. */
#include <sluice/rtsp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/feed.h"
#include "support/http_feed.h"

typedef struct fixture {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->pool = http_feed_pool(4096, 64);
    f->chain = http_feed_chain(f->pool);
    assert_int_equal(sluice_rtsp_new(NULL, &f->rtsp), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    sluice_rtsp_free(f->rtsp);
    sluice_chain_free(f->chain);
    http_feed_pool_done(f->pool);
    free(f);
    return 0;
}

/* A message with these header lines. */
static const sluice_rtsp_message *with_headers(fixture *f, const char *lines) {
    char text[2048];
    int length = snprintf(text, sizeof text, "SETUP * RTSP/1.0\r\n%s\r\n", lines);
    http_feed_bytes(f->pool, f->chain, text, (size_t)length);
    assert_int_equal(sluice_rtsp_next(f->rtsp, f->chain, &f->message), 1);
    return f->message;
}

static void assert_text(sluice_http_text text, const char *expected) {
    if (text.length != strlen(expected) || memcmp(text.text, expected, text.length) != 0)
        fail_msg("\"%.*s\" is not \"%s\"", (int)text.length, text.text, expected);
}

static void sessions(void **state) {
    fixture *f = *state;
    static const struct {
        const char *lines, *id;
        uint32_t timeout;
        int result;
    } cases[] = {
        {"Session: 12345678\r\n", "12345678", 60, 0},
        {"session: a-B_c.+$ ; Timeout = 30\r\n", "a-B_c.+$", 30, 0},
        {"Session: x;foo=1;timeout=4294967295;\r\n", "x", UINT32_MAX, 0},
        {"Session: x;timeout=4294967296\r\n", "", 0, -EPROTO},
        {"Session: x;timeout=\r\n", "", 0, -EPROTO},
        {"Session: x;timeout=5s\r\n", "", 0, -EPROTO},
        {"Session: a b\r\n", "", 0, -EPROTO},
        {"Session:\r\n", "", 0, -EPROTO},
        {"Session: ;timeout=5\r\n", "", 0, -EPROTO},
        {"", "", 0, -ENOENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_rtsp_session session = {{"", 0}, 0};
        assert_int_equal(sluice_rtsp_read_session(with_headers(f, cases[i].lines), &session), cases[i].result);
        assert_text(session.id, cases[i].id);
        assert_int_equal(session.timeout, cases[i].timeout);
    }
}

static void transports(void **state) {
    fixture *f = *state;
    const sluice_rtsp_message *message = with_headers(
        f, "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record, , RTP/AVP;multicast;ttl=127;"
           "client_port=3456-3457;mode=\"PLAY,RECORD\"\r\n"
           "X: RTP/AVP\r\n"
           "TRANSPORT: rtp/avp/tcp ; Interleaved = 255 ; mode=receive;ssrc=0badcafe;source=10.0.0.1\r\n"
           "Transport: RTP/SAVPF/UDP;unicast;server_port=0-65535\r\n");
    sluice_rtsp_transport_walk walk = {0};
    sluice_rtsp_transport t;

    assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 1);
    assert_text(t.text, "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record");
    assert_text(t.profile, "RTP/AVP");
    assert_true(t.tcp && t.record && !t.multicast && !t.has_ssrc);
    assert_true(t.interleaved.first == 0 && t.interleaved.second == 1 && t.client_port.first == -1);

    assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 1);
    assert_true(!t.tcp && t.multicast && t.interleaved.first == -1);
    assert_true(t.client_port.first == 3456 && t.client_port.second == 3457);

    assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 1);
    assert_true(t.tcp && t.record && t.has_ssrc && t.ssrc == 0x0BADCAFE);
    assert_true(t.interleaved.first == 255 && t.interleaved.second == -1);

    assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 1);
    assert_text(t.profile, "RTP/SAVPF");
    assert_true(!t.tcp && !t.record && t.server_port.second == 65535);
    assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 0);
    assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 0);
}

/* One that is malformed is said, and the next one is still to be had. */
static void malformed_transports(void **state) {
    fixture *f = *state;
    static const char *const wrong[] = {
        "RTP",
        "/AVP",
        "RTP/",
        "RTP/AVP/SCTP",
        "RTP/AVP/TCP/x",
        "RTP/AVP;interleaved=256",
        "RTP/AVP;interleaved=0-256",
        "RTP/AVP;interleaved=",
        "RTP/AVP;interleaved=0-",
        "RTP/AVP;interleaved=-1",
        "RTP/AVP;interleaved=0-1-2",
        "RTP/AVP;client_port=65536",
        "RTP/AVP;server_port=x",
        "RTP/AVP;ssrc=",
        "RTP/AVP;ssrc=123456789",
        "RTP/AVP;ssrc=xyz",
        ";unicast",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char lines[256];
        sluice_rtsp_transport_walk walk = {0};
        sluice_rtsp_transport t = {.ssrc = 1234};
        snprintf(lines, sizeof lines, "Transport: %s,RTP/AVP/TCP;interleaved=2-3\r\n", wrong[i]);
        const sluice_rtsp_message *message = with_headers(f, lines);
        if (sluice_rtsp_next_transport(message, &walk, &t) != -EPROTO || t.ssrc != 1234)
            fail_msg("%s is taken", wrong[i]);
        assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 1);
        assert_int_equal(t.interleaved.first, 2);
        assert_int_equal(sluice_rtsp_next_transport(message, &walk, &t), 0);
    }
}

static void ranges(void **state) {
    fixture *f = *state;
    static const struct {
        const char *lines;
        int result;
        bool now;
        int64_t start, end;
    } cases[] = {
        {"Range: npt=0.000-\r\n", 0, false, 0, -1},
        {"range: NPT = 1.5 - 7.7419\r\n", 0, false, 1500, 7741},
        {"Range: npt=now-\r\n", 0, true, 0, -1},
        {"Range: npt=-20\r\n", 0, false, 0, 20000},
        {"Range: npt=0:01:30.25-100:00:00;time=19970123T153600Z\r\n", 0, false, 90250, 360000000},
        {"Range: npt=2147483647-\r\n", 0, false, 2147483647000, -1},
        {"Range: npt=2147483648-\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=0:60:00-\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=0:00:60-\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=-\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=5\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=1.-\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=1.x-\r\n", -EPROTO, false, 0, 0},
        {"Range: npt=a-b\r\n", -EPROTO, false, 0, 0},
        {"Range: bytes=0-\r\n", -EPROTO, false, 0, 0},
        {"Range: clock=19961108T142300Z-\r\n", -EOPNOTSUPP, false, 0, 0},
        {"Range: smpte-30-drop=10:07:33-\r\n", -EOPNOTSUPP, false, 0, 0},
        {"", -ENOENT, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_rtsp_range range = {0};
        if (sluice_rtsp_read_range(with_headers(f, cases[i].lines), &range) != cases[i].result)
            fail_msg("%s", cases[i].lines);
        assert_int_equal(range.now, cases[i].now);
        assert_int_equal(range.start, cases[i].start);
        assert_int_equal(range.end, cases[i].end);
    }
}

static void public_methods(void **state) {
    fixture *f = *state;
    assert_int_equal(sluice_rtsp_public(with_headers(f, "")), 0);
    const unsigned methods = sluice_rtsp_public(
        with_headers(f, "Public: OPTIONS, DESCRIBE ,GET_PARAMETER,x,, play\r\npublic: TEARDOWN\r\n"));
    assert_int_equal(methods,
                     SLUICE_RTSP_OPTIONS | SLUICE_RTSP_DESCRIBE | SLUICE_RTSP_GET_PARAMETER | SLUICE_RTSP_TEARDOWN);
}

static void challenges_and_credentials(void **state) {
    (void)state;
    static const char challenges[] =
        "Digest realm=\"a, \\\"b\\\"\", nonce = \"n0==\", algorithm=MD5,stale=TRUE , x=\"=\", "
        "Basic realm=\"c\",Negotiate , Bearer";
    sluice_http_text rest = {challenges, sizeof challenges - 1};
    sluice_rtsp_auth auth;
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 1);
    assert_text(auth.scheme, "Digest");
    assert_text(auth.realm, "a, \\\"b\\\"");
    assert_text(auth.nonce, "n0==");
    assert_text(auth.algorithm, "MD5");
    assert_text(auth.qop, "");
    assert_true(auth.stale);
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 1);
    assert_text(auth.scheme, "Basic");
    assert_text(auth.realm, "c");
    assert_text(auth.credentials, "");
    assert_false(auth.stale);
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 1);
    assert_text(auth.scheme, "Negotiate");
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 1);
    assert_text(auth.scheme, "Bearer");
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 0);

    /* RFC 7616, section 3.9.1, and a token where a quoted text is usual. */
    static const char digest[] =
        "digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", algorithm=MD5, "
        "nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, "
        "cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, "
        "response=8ca523f5e9506fed4657c9700eebdbec, opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
    rest = (sluice_http_text){digest, sizeof digest - 1};
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 1);
    assert_text(auth.username, "Mufasa");
    assert_text(auth.uri, "/dir/index.html");
    assert_text(auth.nc, "00000001");
    assert_text(auth.cnonce, "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ");
    assert_text(auth.qop, "auth");
    assert_text(auth.response, "8ca523f5e9506fed4657c9700eebdbec");
    assert_text(auth.opaque, "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS");
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 0);

    static const char *const wrong[] = {
        "=", "Digest realm=\"a", "Digest realm=\"a\\\"", "Digest realm=a,realm=b", "Digest =b", "Digest realm=a \"b\"",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rest = (sluice_http_text){wrong[i], strlen(wrong[i])};
        if (sluice_rtsp_next_auth(&rest, &auth) != -EPROTO || sluice_rtsp_next_auth(&rest, &auth) != 0)
            fail_msg("%s is taken", wrong[i]);
    }
}

static void basic_credentials(void **state) {
    (void)state;
    static const char value[] = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    sluice_http_text rest = {value, sizeof value - 1};
    sluice_rtsp_auth auth;
    char buffer[32];
    size_t length = 99, user = 99;
    assert_int_equal(sluice_rtsp_next_auth(&rest, &auth), 1);
    assert_text(auth.credentials, "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_int_equal(sluice_rtsp_decode_basic(auth.credentials, buffer, 8, &length, &user), -EMSGSIZE);
    assert_int_equal(length, 99);
    assert_int_equal(sluice_rtsp_decode_basic(auth.credentials, buffer, sizeof buffer, &length, &user), 0);
    assert_int_equal(length, 19);
    assert_int_equal(user, 7);
    assert_memory_equal(buffer, "Aladdin:open sesame", 19);
    static const char *const wrong[] = {"", "QQ==", "Q", "!!!!"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_rtsp_decode_basic((sluice_http_text){wrong[i], strlen(wrong[i])}, buffer, sizeof buffer,
                                                  &length, &user),
                         -EPROTO);
}

static void urls(void **state) {
    (void)state;
    static const struct {
        const char *url, *scheme, *user, *host, *path, *query;
        uint16_t port;
    } cases[] = {
        {"rtsp://h", "rtsp", "", "h", "", "", 554},
        {"RTSP://h:8554/live/a?b=c/streamid=0", "RTSP", "", "h", "/live/a", "b=c/streamid=0", 8554},
        {"rtsps://u:p@ss@[::1]:1/", "rtsps", "u:p@ss", "[::1]", "/", "", 1},
        {"rtsps://10.0.0.1?x", "rtsps", "", "10.0.0.1", "", "x", 322},
        {"rtspu://h:/a", "rtspu", "", "h", "/a", "", 554},
        {"/live/a/trackID=1?q", "", "", "", "/live/a/trackID=1", "q", 554},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_rtsp_url url;
        assert_int_equal(sluice_rtsp_split_url((sluice_http_text){cases[i].url, strlen(cases[i].url)}, &url), 0);
        assert_text(url.scheme, cases[i].scheme);
        assert_text(url.user, cases[i].user);
        assert_text(url.host, cases[i].host);
        assert_text(url.path, cases[i].path);
        assert_text(url.query, cases[i].query);
        assert_int_equal(url.port, cases[i].port);
    }
    static const char *const wrong[] = {"",
                                        "*",
                                        "http://h/",
                                        "rtsp:/h",
                                        "rtsp://",
                                        "rtsp:///a",
                                        "rtsp://:554/",
                                        "rtsp://u@/",
                                        "rtsp://h:65536",
                                        "rtsp://h:x",
                                        "rtsp://[::1/",
                                        "rtsp://[::1]x/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sluice_rtsp_url url = {.port = 7};
        if (sluice_rtsp_split_url((sluice_http_text){wrong[i], strlen(wrong[i])}, &url) != -EPROTO || url.port != 7)
            fail_msg("%s is taken", wrong[i]);
    }
}

/* What is written is what is expected, and the framer reads it back; at each smaller size it is
 * refused. */
static void written_messages(void **state) {
    fixture *f = *state;
    static const char expected[] = "RTSP/1.0 200 OK\r\nCSeq: 3\r\nSession: abc;timeout=60\r\n"
                                   "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=0000CAFE;mode=record\r\n"
                                   "Content-Type: application/sdp\r\nContent-Length: 5\r\n\r\n";
    const sluice_rtsp_transport transport = {.tcp = true,
                                             .record = true,
                                             .interleaved = {0, 1},
                                             .client_port = {-1, -1},
                                             .server_port = {-1, -1},
                                             .has_ssrc = true,
                                             .ssrc = 0xCAFE};
    char buffer[sizeof expected];
    for (size_t size = 0; size <= sizeof expected; size++) {
        sluice_rtsp_writer writer;
        char *exact = malloc(size + 1);
        sluice_rtsp_write_reply(&writer, exact, size, 200, 3);
        sluice_rtsp_write_header(&writer, "Session", "%s;timeout=%d", "abc", 60);
        sluice_rtsp_write_transport(&writer, &transport);
        int length = sluice_rtsp_write_end(&writer, "application/sdp", 5);
        assert_int_equal(length, size < sizeof expected ? -EMSGSIZE : (int)sizeof expected - 1);
        if (length > 0)
            memcpy(buffer, exact, (size_t)length);
        free(exact);
    }
    assert_memory_equal(buffer, expected, sizeof expected - 1);
    http_feed_bytes(f->pool, f->chain, buffer, sizeof expected - 1);
    http_feed_bytes(f->pool, f->chain, "v=0\r\n", 5);
    assert_int_equal(sluice_rtsp_next(f->rtsp, f->chain, &f->message), 1);
    assert_int_equal(f->message->cseq, 3);
    assert_int_equal(sluice_slice_length(&f->message->payload), 5);
    sluice_rtsp_transport_walk walk = {0};
    sluice_rtsp_transport back;
    assert_int_equal(sluice_rtsp_next_transport(f->message, &walk, &back), 1);
    assert_true(back.tcp && back.record && back.ssrc == 0xCAFE && back.interleaved.second == 1);

    char request[256];
    sluice_rtsp_writer writer;
    sluice_rtsp_write_request(&writer, request, sizeof request, "SETUP", "rtsp://h/a", 9);
    const sluice_rtsp_transport udp = {.interleaved = {-1, -1}, .client_port = {5000, 5001}, .server_port = {6000, -1}};
    sluice_rtsp_write_transport(&writer, &udp);
    int length = sluice_rtsp_write_end(&writer, NULL, 0);
    static const char setup[] = "SETUP rtsp://h/a RTSP/1.0\r\nCSeq: 9\r\n"
                                "Transport: RTP/AVP;unicast;client_port=5000-5001;server_port=6000\r\n\r\n";
    assert_int_equal(length, sizeof setup - 1);
    assert_memory_equal(request, setup, sizeof setup - 1);

    sluice_rtsp_write_reply(&writer, request, sizeof request, 461, -1);
    length = sluice_rtsp_write_end(&writer, NULL, 0);
    assert_int_equal(length, 38);
    assert_memory_equal(request, "RTSP/1.0 461 Unsupported transport\r\n\r\n", 38);
    assert_string_equal(sluice_rtsp_reason(599), "Unknown");
}

/* Nothing that is written can end a line, or begin another. */
static void nothing_is_smuggled_in(void **state) {
    (void)state;
    char buffer[256];
    sluice_rtsp_writer writer;
    static const char *const urls_and_methods[][2] = {
        {"PL AY", "*"}, {"PLAY\r\n", "*"}, {"PLAY", "a b"}, {"PLAY", "a\nX: y"}, {"PLAY", "a\x7f"}};
    for (size_t i = 0; i < 5; i++) {
        sluice_rtsp_write_request(&writer, buffer, sizeof buffer, urls_and_methods[i][0], urls_and_methods[i][1], 1);
        assert_int_equal(sluice_rtsp_write_end(&writer, NULL, 0), -EINVAL);
    }
    static const char *const headers[][2] = {{"A B", "c"}, {"A\r\nB", "c"}, {"A", "b\r\nC: d"}, {"A", "b\rc"}};
    for (size_t i = 0; i < 4; i++) {
        sluice_rtsp_write_reply(&writer, buffer, sizeof buffer, 200, 1);
        sluice_rtsp_write_header(&writer, headers[i][0], "%s", headers[i][1]);
        assert_int_equal(sluice_rtsp_write_end(&writer, NULL, 0), -EINVAL);
    }
    sluice_rtsp_write_reply(&writer, buffer, sizeof buffer, 200, 1);
    assert_int_equal(sluice_rtsp_write_end(&writer, "a/b\r\nc: d", 0), -EINVAL);
    sluice_rtsp_write_reply(&writer, buffer, sizeof buffer, 99, 1);
    assert_int_equal(sluice_rtsp_write_end(&writer, NULL, 0), -EINVAL);
    sluice_rtsp_write_status(&writer, buffer, sizeof buffer, 415, "video/AV1 is not supported", 7);
    assert_true(sluice_rtsp_write_end(&writer, NULL, 0) > 0);
    assert_string_equal(buffer, "RTSP/1.0 415 video/AV1 is not supported\r\nCSeq: 7\r\n\r\n");
    sluice_rtsp_write_status(&writer, buffer, sizeof buffer, 415, "a\r\nb: c", 7);
    assert_int_equal(sluice_rtsp_write_end(&writer, NULL, 0), -EINVAL);
}

/* RFC 2326, section 7.1.1. */
static void reasons(void **state) {
    (void)state;
    static const char known[] =
        "100 Continue|200 OK|201 Created|250 Low on Storage Space|300 Multiple Choices|301 Moved Permanently|"
        "302 Moved Temporarily|303 See Other|304 Not Modified|305 Use Proxy|400 Bad Request|401 Unauthorized|"
        "402 Payment Required|403 Forbidden|404 Not Found|405 Method Not Allowed|406 Not Acceptable|"
        "407 Proxy Authentication Required|408 Request Time-out|410 Gone|411 Length Required|412 Precondition Failed|"
        "413 Request Entity Too Large|414 Request-URI Too Large|415 Unsupported Media Type|"
        "451 Parameter Not Understood|452 Conference Not Found|453 Not Enough Bandwidth|454 Session Not Found|"
        "455 Method Not Valid in This State|456 Header Field Not Valid for Resource|457 Invalid Range|"
        "458 Parameter Is Read-Only|459 Aggregate operation not allowed|460 Only aggregate operation allowed|"
        "461 Unsupported transport|462 Destination unreachable|500 Internal Server Error|501 Not Implemented|"
        "502 Bad Gateway|503 Service Unavailable|504 Gateway Time-out|505 RTSP Version not supported|"
        "551 Option not supported|";
    const char *at = known;
    for (unsigned status = 0; status < 1000; status++) {
        const char *reason = sluice_rtsp_reason(status);
        if (!*at || strtoul(at, NULL, 10) != status) {
            assert_string_equal(reason, "Unknown");
            continue;
        }
        size_t length = strcspn(at + 4, "|");
        assert_int_equal(strlen(reason), length);
        assert_memory_equal(reason, at + 4, length);
        at += 4 + length + 1;
    }
    assert_int_equal(*at, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sessions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(transports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_transports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(public_methods, set_up, tear_down),
        cmocka_unit_test(challenges_and_credentials),
        cmocka_unit_test(basic_credentials),
        cmocka_unit_test(urls),
        cmocka_unit_test(reasons),
        cmocka_unit_test_setup_teardown(written_messages, set_up, tear_down),
        cmocka_unit_test(nothing_is_smuggled_in),
    };
    return cmocka_run_group_tests_name("rtsp_header", tests, NULL, NULL);
}
