/* Request heads: what is taken, what is refused, and that neither depends on how the bytes come. */
#include <sluice/http.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/http_feed.h"

enum {
    BIG_BLOCK = 16384,
    SMALL_BLOCK = 512,
    MAX_TEXT = 32768,
    UNTOUCHED = 0x5A,
};

/* Where HTTP/1.1 wants a Host and the test is about something else. */
#define HOST "Host: h\r\n"

/* A request said in one text, so that two can be compared. */
struct outcome {
    int result;
    size_t consumed;
    size_t length;
    char text[MAX_TEXT];
};

static void say(struct outcome *outcome, const char *label, const char *text, size_t length) {
    assert_true(outcome->length + strlen(label) + length + 2 < sizeof outcome->text);
    outcome->length += (size_t)sprintf(outcome->text + outcome->length, "%s=", label);
    memcpy(outcome->text + outcome->length, text, length);
    outcome->length += length;
    outcome->text[outcome->length++] = '\n';
    outcome->text[outcome->length] = '\0';
}

static void say_text(struct outcome *outcome, const char *label, sluice_http_text text) {
    assert_non_null(text.text);
    say(outcome, label, text.text, text.length);
}

static void say_number(struct outcome *outcome, const char *label, uint64_t number) {
    char digits[24];
    say(outcome, label, digits, (size_t)sprintf(digits, "%llu", (unsigned long long)number));
}

static void say_request(struct outcome *outcome, const sluice_http_request *request) {
    say_text(outcome, "method", request->method);
    say_text(outcome, "target", request->target);
    say_text(outcome, "path", request->path);
    say_text(outcome, "query", request->query);
    say_number(outcome, "minor", request->minor_version);
    say_number(outcome, "keep-alive", request->keep_alive);
    say_number(outcome, "expect", request->expect_continue);
    say_number(outcome, "body", request->body);
    say_number(outcome, "length", request->content_length);
    for (size_t i = 0; i < request->header_count; i++) {
        say_text(outcome, "name", request->headers[i].name);
        say_text(outcome, "value", request->headers[i].value);
    }
}

static bool is_untouched(const sluice_http_request *request) {
    for (size_t i = 0; i < sizeof *request; i++)
        if (((const uint8_t *)request)[i] != UNTOUCHED)
            return false;
    return true;
}

/* Feeds the bytes in pieces until there is a result; then the rest, which an error must outlast. */
static void run_pieces(sluice_pool *pool, const void *bytes, size_t length, const http_feed_cuts *cuts,
                       struct outcome *ret_outcome) {
    sluice_http *http;
    sluice_http_request request;
    sluice_chain *chain = http_feed_chain(pool);
    size_t done = 0;
    int result = 0;

    assert_int_equal(sluice_http_new(&http), 0);
    memset(&request, UNTOUCHED, sizeof request);
    for (size_t piece = 0; done < length && result == 0; piece++) {
        size_t end = http_feed_piece_end(cuts, piece, length);
        http_feed_bytes(pool, chain, (const uint8_t *)bytes + done, end - done);
        done = end;
        result = sluice_http_next(http, chain, &request);
        if (result != 1) {
            assert_true(is_untouched(&request));
            assert_int_equal(sluice_chain_consumed(chain), 0);
        }
    }
    ret_outcome->result = result;
    ret_outcome->consumed = (size_t)sluice_chain_consumed(chain);
    ret_outcome->length = 0;
    ret_outcome->text[0] = '\0';
    if (result == 1)
        say_request(ret_outcome, &request);
    if (result < 0) {
        http_feed_bytes(pool, chain, (const uint8_t *)bytes + done, length - done);
        http_feed_bytes(pool, chain, "\r\n\r\nGET / HTTP/1.0\r\n\r\n", 22);
        assert_int_equal(sluice_http_next(http, chain, &request), result);
        assert_true(is_untouched(&request));
    }
    assert_true(chain_is_sound(chain));
    sluice_http_free(http);
    sluice_chain_free(chain);
}

static void assert_same(const struct outcome *a, const struct outcome *b, const char *bytes) {
    if (a->result != b->result || a->consumed != b->consumed || strcmp(a->text, b->text) != 0)
        fail_msg("cut: %d, %zu bytes\n%swhole: %d, %zu bytes\n%sof: %s", a->result, a->consumed, a->text, b->result,
                 b->consumed, b->text, bytes);
}

static struct outcome whole, other; /* too big for the stack of a sanitized build */

/* The result of the whole, of every cut in two, and byte by byte; they must be the same. */
static int run_all_cuts(sluice_pool *pool, const char *bytes, size_t length) {
    run_pieces(pool, bytes, length, &HTTP_FEED_WHOLE, &whole);
    run_pieces(pool, bytes, length, &HTTP_FEED_BYTEWISE, &other);
    assert_same(&other, &whole, bytes);
    for (size_t at = 1; at < length; at++) {
        run_pieces(pool, bytes, length, &(http_feed_cuts){1, {at}}, &other);
        assert_same(&other, &whole, bytes);
    }
    return whole.result;
}

static int run_text(sluice_pool *pool, const char *text) {
    return run_all_cuts(pool, text, strlen(text));
}

static void assert_text(sluice_http_text text, const char *expected) {
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.text, expected, text.length);
}

static const char full_head[] = "POST /live/a%20b?token=x&y=1?z HTTP/1.1\r\n"
                                "Host: example.com:8080\r\n"
                                "User-Agent:\t Lavf/59.27.100 \t\r\n"
                                "Transfer-Encoding: Chunked\r\n"
                                "EXPECT: 100-Continue\r\n"
                                "X-Empty:\r\n"
                                "X-Latin: caf\xE9: \"a, b\"\r\n"
                                "x-empty: second\r\n"
                                "\r\n";

static void test_fields(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BIG_BLOCK, 8);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_request request;

    assert_int_equal(sluice_http_new(&http), 0);
    http_feed_bytes(pool, chain, full_head, sizeof full_head - 1);
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    assert_text(request.method, "POST");
    assert_text(request.target, "/live/a%20b?token=x&y=1?z");
    assert_text(request.path, "/live/a%20b");
    assert_text(request.query, "token=x&y=1?z");
    assert_int_equal(request.minor_version, 1);
    assert_true(request.keep_alive);
    assert_true(request.expect_continue);
    assert_int_equal(request.body, SLUICE_HTTP_BODY_CHUNKED);
    assert_int_equal(request.header_count, 7);
    assert_text(request.headers[1].name, "User-Agent");
    assert_text(request.headers[1].value, "Lavf/59.27.100");
    assert_text(request.headers[5].value, "caf\xE9: \"a, b\"");

    assert_ptr_equal(sluice_http_find(&request, "hOST"), &request.headers[0]);
    assert_ptr_equal(sluice_http_find(&request, "X-EMPTY"), &request.headers[4]);
    assert_text(request.headers[4].value, "");
    assert_null(sluice_http_find(&request, "Hos"));
    assert_null(sluice_http_find(&request, "Hosts"));
    assert_null(sluice_http_find(&request, ""));

    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

static void test_every_cut(void **state) {
    (void)state;
    const size_t length = sizeof full_head - 1;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 1024);

    assert_int_equal(run_all_cuts(pool, full_head, length), 1);
    assert_int_equal(whole.consumed, length);
    for (size_t first = 1; first < length; first++)
        for (size_t second = first + 1; second < length; second++) {
            run_pieces(pool, full_head, length, &(http_feed_cuts){2, {first, second}}, &other);
            assert_same(&other, &whole, full_head);
        }
    http_feed_pool_done(pool);
}

static void test_valid(void **state) {
    (void)state;
    static const struct {
        const char *head;
        const char *says; /* must be part of what the request says */
    } cases[] = {
        {"GET / HTTP/1.0\r\n\r\n", "path=/\nquery=\nminor=0\nkeep-alive=0\nexpect=0\nbody=0\nlength=0\n"},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "name=Host\nvalue=\n"},
        {"\r\nGET / HTTP/1.0\r\n\r\n", "method=GET\n"},
        {"\r\n\r\nGET / HTTP/1.0\r\n\r\n", "method=GET\n"},
        {"!#$%&'*+-.^_`|~09azAZ / HTTP/1.0\r\n\r\n", "method=!#$%&'*+-.^_`|~09azAZ\n"},
        {"GET /! HTTP/1.0\r\n!#$%&'*+-.^_`|~09azAZ:v\r\n\r\n", "name=!#$%&'*+-.^_`|~09azAZ\nvalue=v\n"},
        {"GET /\"<>\\^`{|}~ HTTP/1.0\r\n\r\n", "path=/\"<>\\^`{|}~\n"},
        {"GET /? HTTP/1.0\r\n\r\n", "path=/\nquery=\n"},
        {"GET //a/..//b HTTP/1.0\r\n\r\n", "path=//a/..//b\n"},
        {"GET / HTTP/1.0\r\nA: \t b \t c\t \r\n\r\n", "name=A\nvalue=b \t c\n"},
        {"GET / HTTP/1.0\r\nA: \r\n\r\n", "name=A\nvalue=\n"},
        {"GET / HTTP/1.0\r\nA::b:\r\n\r\n", "name=A\nvalue=:b:\n"},
        {"GET / HTTP/1.0\r\nA: \x80\xFF\r\n\r\n", "value=\x80\xFF\n"},

        {"GET http://a.example:80/p/q?r HTTP/1.1\r\n" HOST "\r\n", "path=/p/q\nquery=r\n"},
        {"GET HTTPS://[2001:db8::1]:443/p HTTP/1.1\r\n" HOST "\r\n", "path=/p\nquery=\n"},
        {"GET http://a HTTP/1.1\r\n" HOST "\r\n", "target=http://a\npath=/\nquery=\n"},
        {"GET http://a?b HTTP/1.1\r\n" HOST "\r\n", "path=/\nquery=b\n"},
        {"OPTIONS http://a HTTP/1.1\r\n" HOST "\r\n", "path=*\nquery=\n"},
        {"OPTIONS http://a? HTTP/1.1\r\n" HOST "\r\n", "path=/\nquery=\n"},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "target=*\npath=*\nquery=\n"},
        {"OPTIONS /a HTTP/1.1\r\n" HOST "\r\n", "path=/a\n"},
        {"CONNECT a.example:443 HTTP/1.1\r\n" HOST "\r\n", "target=a.example:443\npath=\nquery=\n"},
        {"CONNECT [::1]:443 HTTP/1.1\r\n" HOST "\r\n", "target=[::1]:443\npath=\n"},

        {"GET / HTTP/1.1\r\nHost: a_b.c-d~e:80\r\n\r\n", "value=a_b.c-d~e:80\n"},
        {"GET / HTTP/1.1\r\nHost: %41!$&'()*+,;=\r\n\r\n", "value=%41!$&'()*+,;=\n"},
        {"GET / HTTP/1.1\r\nHost: [::ffff:1.2.3.4]\r\n\r\n", "value=[::ffff:1.2.3.4]\n"},
        {"GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "value=a:\n"},

        {"GET / HTTP/1.1\r\n" HOST "\r\n", "keep-alive=1\n"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "keep-alive=0\n"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade,\t, CLOSE \r\n\r\n", "keep-alive=0\n"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: closed, xclose, clos\r\n\r\n", "keep-alive=1\n"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Keep-Alive\r\nConnection: close\r\n\r\n", "keep-alive=0\n"},
        {"GET / HTTP/1.0\r\nConnection: a,Keep-alive\r\n\r\n", "keep-alive=1\n"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "keep-alive=0\n"},
        {"GET / HTTP/1.0\r\nX-Connection: keep-alive\r\n\r\n", "keep-alive=0\n"},
        {"GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "expect=0\n"},
        {"GET / HTTP/1.1\r\n" HOST "Expect: 100-continued\r\n\r\n", "expect=0\n"},
        {"GET / HTTP/1.1\r\n" HOST "Expect: a, 100-CONTINUE\r\n\r\n", "expect=1\n"},
    };
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (run_text(pool, cases[i].head) != 1)
            fail_msg("refused with %d: %s", whole.result, cases[i].head);
        if (!strstr(whole.text, cases[i].says))
            fail_msg("%s does not say %s but %s", cases[i].head, cases[i].says, whole.text);
        assert_int_equal(whole.consumed, strlen(cases[i].head));
    }
    http_feed_pool_done(pool);
}

static void test_invalid(void **state) {
    (void)state;
    static const struct {
        int error;
        const char *head;
    } cases[] = {
        /* Request lines. */
        {-EPROTO, "\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "\nGET / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "\r\rGET / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "\r\n GET / HTTP/1.0\r\n\r\n"},
        {-EPROTO, " GET / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "\tGET / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET  / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET  HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET\t/ HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /  HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /\tHTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0 \r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\r\n\r\n"},
        {-EPROTO, "GET / a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /\r\n\r\n"},
        {-EPROTO, "GET / \r\n\r\n"},
        {-EPROTO, "GET\r\n\r\n"},
        {-EPROTO, "GET /\x7F HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /\x01 HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /\x80 HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /\xC3\xA9 HTTP/1.0\r\n\r\n"},
        {-EPROTO, "G(T / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "G\xE9T / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\n\n"},
        {-EPROTO, "GET / http/1.0\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.10\r\n\r\n"},
        {-EPROTO, "GET / HTTP/01.1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1,1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.x\r\n\r\n"},
        {-EPROTO, "GET / HTTP/x.1\r\n\r\n"},
        {-EPROTO, "GET / RTSP/1.0\r\n\r\n"},
        {-EPROTO, "GET / HTTPS/1.1\r\n\r\n"},
        {-EPROTONOSUPPORT, "GET / HTTP/1.2\r\n\r\n"},
        {-EPROTONOSUPPORT, "GET / HTTP/0.9\r\n\r\n"},
        {-EPROTONOSUPPORT, "GET / HTTP/3.0\r\n\r\n"},
        {-EPROTONOSUPPORT, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        /* Targets. */
        {-EPROTO, "GET * HTTP/1.0\r\n\r\n"},
        {-EPROTO, "OPTIONS ** HTTP/1.0\r\n\r\n"},
        {-EPROTO, "options * HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET ?a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET /a#b HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET a.example:80 HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET ftp://a/b HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http: HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http:// HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http:/a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http:///a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http://:80/a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http://u@a/b HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http://a:b/c HTTP/1.0\r\n\r\n"},
        {-EPROTO, "GET http://[::1/c HTTP/1.0\r\n\r\n"},
        {-EPROTO, "CONNECT / HTTP/1.0\r\n\r\n"},
        {-EPROTO, "CONNECT a HTTP/1.0\r\n\r\n"},
        {-EPROTO, "CONNECT a: HTTP/1.0\r\n\r\n"},
        {-EPROTO, "CONNECT :1 HTTP/1.0\r\n\r\n"},
        {-EPROTO, "CONNECT http://a:1/ HTTP/1.0\r\n\r\n"},
        /* Header lines. */
        {-EPROTO, "GET / HTTP/1.0\r\nA : b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA\t: b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA b: c\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\n: b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\r\n c\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\r\n\tc: d\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\n A: b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\n \r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA\xE9: b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA(: b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\nC: d\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\r\n\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\n\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\rc\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\r\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\n\r\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\x1B\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\nA: b\x7F\r\n\r\n"},
        /* Hosts. */
        {-EPROTO, "GET / HTTP/1.1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHos: a\r\n\r\n"},
        {-EPROTO, "GET http://a/ HTTP/1.1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\n" HOST HOST "\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.0\r\n" HOST HOST "\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: %4\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: %4g\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: []\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: [::1]1\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: [::g]\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\nHost: caf\xE9\r\n\r\n"},
    };
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (run_text(pool, cases[i].head) != cases[i].error)
            fail_msg("%d, not %d: %s", whole.result, cases[i].error, cases[i].head);
    http_feed_pool_done(pool);
}

/* A NUL cannot stand in the tables above. Each place of a head gets one. */
static void test_nul_anywhere(void **state) {
    (void)state;
    const size_t length = sizeof full_head - 1;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    char bytes[sizeof full_head];

    for (size_t at = 0; at < length; at++) {
        memcpy(bytes, full_head, length);
        bytes[at] = '\0';
        run_pieces(pool, bytes, length, &HTTP_FEED_WHOLE, &whole);
        /* In place of one of the last two LF it only means that the end has not come. */
        assert_int_equal(whole.result, at == length - 1 || at == length - 3 ? 0 : -EPROTO);
    }
    http_feed_pool_done(pool);
}

/* Which bytes are taken where, over all 256, against lists written out. */
static void test_bytes_by_place(void **state) {
    (void)state;
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    char method[] = "GxT / HTTP/1.0\r\n\r\n", target[] = "GET /x HTTP/1.0\r\n\r\n";
    char name[] = "GET / HTTP/1.0\r\nAxB: c\r\n\r\n", value[] = "GET / HTTP/1.0\r\nA: bxc\r\n\r\n";

    for (int c = 0; c < 256; c++) {
        bool is_token = c != 0 && strchr(token, c);
        method[1] = target[5] = name[17] = value[20] = (char)c;
        assert_int_equal(run_all_cuts(pool, method, sizeof method - 1) == 1, is_token);
        assert_int_equal(run_all_cuts(pool, target, sizeof target - 1) == 1, c > 0x20 && c < 0x7F && c != '#');
        assert_int_equal(run_all_cuts(pool, name, sizeof name - 1) == 1, is_token || c == ':');
        assert_int_equal(run_all_cuts(pool, value, sizeof value - 1) == 1, (c >= 0x20 && c != 0x7F) || c == '\t');
    }
    http_feed_pool_done(pool);
}

enum verdict { ABSENT, GOOD, UNKNOWN, BAD };

struct variant {
    enum verdict verdict;
    const char *lines;
    uint64_t length;
};

static const struct variant codings[] = {
    {ABSENT, "", 0},
    {ABSENT, "Transfer_Encoding: chunked\r\n", 0},
    {ABSENT, "TE: chunked\r\n", 0},
    {GOOD, "Transfer-Encoding: chunked\r\n", 0},
    {GOOD, "transfer-encoding:\tCHUNKED \r\n", 0},
    {UNKNOWN, "Transfer-Encoding: xchunked\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: chunke\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: identity\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: gzip, chunked\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: chunked, gzip\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: chunked, chunked\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: chunked,\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: chunked;q=1\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: \"chunked\"\r\n", 0},
    {UNKNOWN, "Transfer-Encoding: chunked\xFF\r\n", 0},
    {UNKNOWN, "Transfer-Encoding:\r\n", 0},
    {BAD, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 0},
    {BAD, "Transfer-Encoding: gzip\r\nTRANSFER-ENCODING: chunked\r\n", 0},
    {BAD, "Transfer-Encoding : chunked\r\n", 0},
    {BAD, "Transfer-Encoding\t: chunked\r\n", 0},
    {BAD, " Transfer-Encoding: chunked\r\n", 0},
    {BAD, "X: a\r\n Transfer-Encoding: chunked\r\n", 0},
    {BAD, "Transfer-Encoding:\r\n chunked\r\n", 0},
    {BAD, "Transfer-Encoding:\n chunked\r\n", 0},
    {BAD, "Transfer-Encoding: \013chunked\r\n", 0},
    {BAD, "X: a\nTransfer-Encoding: chunked\r\n", 0},
    {BAD, "X: a\rTransfer-Encoding: chunked\r\n", 0},
};

static const struct variant lengths[] = {
    {ABSENT, "", 0},
    {ABSENT, "Content_Length: 5\r\n", 0},
    {GOOD, "Content-Length: 5\r\n", 5},
    {GOOD, "CONTENT-length:5\t\r\n", 5},
    {GOOD, "Content-Length: 0\r\n", 0},
    {GOOD, "Content-Length: 0005\r\n", 5},
    {GOOD, "Content-Length: 9223372036854775807\r\n", INT64_MAX},
    {BAD, "Content-Length: 9223372036854775808\r\n", 0},
    {BAD, "Content-Length: 18446744073709551621\r\n", 0},
    {BAD, "Content-Length: 99999999999999999999999999999\r\n", 0},
    {BAD, "Content-Length:\r\n", 0},
    {BAD, "Content-Length: +5\r\n", 0},
    {BAD, "Content-Length: -5\r\n", 0},
    {BAD, "Content-Length: 0x5\r\n", 0},
    {BAD, "Content-Length: 5.0\r\n", 0},
    {BAD, "Content-Length: 5 5\r\n", 0},
    {BAD, "Content-Length: 5, 5\r\n", 0},
    {BAD, "Content-Length: 5,\r\n", 0},
    {BAD, "Content-Length: 5;\r\n", 0},
    {BAD, "Content-Length: \"5\"\r\n", 0},
    {BAD, "Content-Length: \xEF\xBC\x95\r\n", 0},
    {BAD, "Content-Length: 5\r\nContent-Length: 5\r\n", 0},
    {BAD, "Content-Length: 5\r\ncontent-length: 6\r\n", 0},
    {BAD, "Content-Length : 5\r\n", 0},
    {BAD, "X: a\r\n Content-Length: 5\r\n", 0},
    {BAD, "X: a\nContent-Length: 5\r\n", 0},
    {BAD, "Content-Length: \0145\r\n", 0},
};

/* What is to be refused, decided from the variants alone. */
static void check_framing(sluice_pool *pool, const struct variant *coding, const struct variant *length, int minor,
                          bool coding_first) {
    char head[512];
    char says[64];
    int expected = 1;
    sluice_http_body_kind kind = SLUICE_HTTP_BODY_NONE;
    int size = snprintf(head, sizeof head, "POST / HTTP/1.%d\r\n" HOST "%s%sX: y\r\n\r\n", minor,
                        coding_first ? coding->lines : length->lines, coding_first ? length->lines : coding->lines);

    if (coding->verdict == GOOD)
        kind = SLUICE_HTTP_BODY_CHUNKED;
    else if (length->verdict == GOOD)
        kind = SLUICE_HTTP_BODY_LENGTH;
    if (coding->verdict == BAD || length->verdict == BAD)
        expected = -EPROTO;
    else if (coding->verdict != ABSENT && (length->verdict != ABSENT || minor == 0))
        expected = -EPROTO;
    else if (coding->verdict == UNKNOWN)
        expected = -EOPNOTSUPP;

    run_pieces(pool, head, (size_t)size, &HTTP_FEED_WHOLE, &whole);
    if (whole.result != expected)
        fail_msg("%d, not %d: %s", whole.result, expected, head);
    run_pieces(pool, head, (size_t)size, &HTTP_FEED_BYTEWISE, &other);
    assert_same(&other, &whole, head);
    if (expected != 1)
        return;
    snprintf(says, sizeof says, "\nbody=%d\nlength=%llu\n", (int)kind, (unsigned long long)length->length);
    if (!strstr(whole.text, says))
        fail_msg("%s does not say %s but %s", head, says, whole.text);
}

static void test_smuggling_matrix(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            for (int form = 0; form < 4; form++)
                check_framing(pool, &codings[i], &lengths[k], form & 1, form & 2);
    http_feed_pool_done(pool);
}

/* How many bytes are fed one by one before the framer refuses; the error goes to *ret_error. */
static size_t refused_after(sluice_pool *pool, const char *bytes, size_t length, int *ret_error) {
    sluice_http *http;
    sluice_http_request request;
    sluice_chain *chain = http_feed_chain(pool);
    size_t done = 0;

    assert_int_equal(sluice_http_new(&http), 0);
    *ret_error = 0;
    while (done < length && *ret_error == 0) {
        http_feed_bytes(pool, chain, bytes + done++, 1);
        *ret_error = sluice_http_next(http, chain, &request);
    }
    sluice_http_free(http);
    sluice_chain_free(chain);
    return done;
}

static void test_early_refusals(void **state) {
    (void)state;
    static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03";
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16384);
    static char bytes[16384];
    int error;

    assert_int_equal(refused_after(pool, hello, sizeof hello - 1, &error), 1);
    assert_int_equal(error, -EPROTO);
    assert_int_equal(refused_after(pool, "\r\n\0\0", 4, &error), 3);
    assert_int_equal(error, -EPROTO);
    assert_int_equal(refused_after(pool, "\r\n\r\n\r\n\r\n", 8, &error), 5);
    assert_int_equal(error, -EPROTO);
    assert_int_equal(refused_after(pool, "GET / HTTP/1.0\nA: b\n", 20, &error), 15);
    assert_int_equal(error, -EPROTO);

    memset(bytes, 'A', sizeof bytes);
    assert_int_equal(refused_after(pool, bytes, sizeof bytes, &error), SLUICE_HTTP_MAX_METHOD + 1);
    assert_int_equal(error, -EPROTO);
    memcpy(bytes, "GET /", 5);
    assert_int_equal(refused_after(pool, bytes, sizeof bytes, &error), 4 + SLUICE_HTTP_MAX_TARGET + 1);
    assert_int_equal(error, -ENAMETOOLONG);
    memcpy(bytes, "GET / ", 6);
    assert_int_equal(refused_after(pool, bytes, sizeof bytes, &error), SLUICE_HTTP_MAX_HEAD);
    assert_int_equal(error, -EMSGSIZE);
    memcpy(bytes, "\r\n\r\nGET / HTTP/1.0\r\nA: ", 23);
    assert_int_equal(refused_after(pool, bytes, sizeof bytes, &error), 4 + SLUICE_HTTP_MAX_HEAD);
    assert_int_equal(error, -EMSGSIZE);
    http_feed_pool_done(pool);
}

/* A head whose last header makes it exactly @size bytes long. */
static size_t make_head(char *head, const char *start, size_t size) {
    size_t used = strlen(start);
    memcpy(head, start, used);
    memcpy(head + used, "X: ", 3);
    memset(head + used + 3, 'v', size - used - 7);
    memcpy(head + size - 4, "\r\n\r\n", 4);
    return size;
}

static void check_limit(sluice_pool *pool, const char *head, size_t length, int expected) {
    run_pieces(pool, head, length, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.result, expected);
    run_pieces(pool, head, length, &HTTP_FEED_BYTEWISE, &other);
    assert_same(&other, &whole, "a head at a limit");
    for (size_t at = length - 6; at < length; at++) {
        run_pieces(pool, head, length, &(http_feed_cuts){1, {at}}, &other);
        assert_same(&other, &whole, "a head at a limit");
    }
}

static void test_limits(void **state) {
    (void)state;
    static char head[16384];
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16384);
    size_t length;

    for (int lead = 0; lead <= 4; lead += 2) {
        const char *start = &"\r\n\r\nGET / HTTP/1.0\r\n"[4 - lead];
        check_limit(pool, head, make_head(head, start, SLUICE_HTTP_MAX_HEAD + lead), 1);
        check_limit(pool, head, make_head(head, start, SLUICE_HTTP_MAX_HEAD + lead + 1), -EMSGSIZE);
    }
    for (int more = 0; more <= 1; more++) {
        length = (size_t)sprintf(head, "GET /%0*d HTTP/1.0\r\n\r\n", SLUICE_HTTP_MAX_TARGET - 1 + more, 0);
        check_limit(pool, head, length, more ? -ENAMETOOLONG : 1);
        length = (size_t)sprintf(head, "%0*d / HTTP/1.0\r\n\r\n", SLUICE_HTTP_MAX_METHOD + more, 0);
        check_limit(pool, head, length, more ? -EPROTO : 1);
        length = (size_t)sprintf(head, "GET / HTTP/1.0\r\n");
        for (int i = 0; i < SLUICE_HTTP_MAX_HEADERS + more; i++)
            length += (size_t)sprintf(head + length, "h%d:%d\r\n", i, i);
        length += (size_t)sprintf(head + length, "\r\n");
        check_limit(pool, head, length, more ? -EMSGSIZE : 1);
    }
    http_feed_pool_done(pool);
}

static bool lies_in(sluice_http_text text, const uint8_t *memory, size_t size) {
    const uint8_t *start = (const uint8_t *)text.text;
    return start >= memory && start + text.length <= memory + size;
}

/* The texts of a head in one block lie in the block, and stay while every other block of the pool
 * is overwritten. */
static void test_in_place(void **state) {
    (void)state;
    enum { BLOCKS = 8 };
    const size_t length = sizeof full_head - 1;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, BLOCKS);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_request request;
    sluice_pool_stats stats = {.size = sizeof stats};

    assert_int_equal(sluice_http_new(&http), 0);
    http_feed_bytes(pool, chain, "\r\n", 2);
    const uint8_t *memory = sluice_block_data(http_feed_bytes(pool, chain, full_head, length));
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    assert_int_equal(sluice_chain_length(chain), 0);
    assert_true(lies_in(request.method, memory, length));
    assert_true(lies_in(request.target, memory, length));
    assert_true(lies_in(request.path, memory, length));
    assert_true(lies_in(request.query, memory, length));
    for (size_t i = 0; i < request.header_count; i++) {
        assert_true(lies_in(request.headers[i].name, memory, length));
        assert_true(lies_in(request.headers[i].value, memory, length));
    }

    char noise[SMALL_BLOCK];
    memset(noise, 'Z', sizeof noise);
    for (int i = 0; i < 3 * BLOCKS; i++) {
        http_feed_bytes(pool, chain, noise, sizeof noise);
        if (i % (BLOCKS - 1) == BLOCKS - 2)
            sluice_chain_skip(chain, sluice_chain_length(chain));
    }
    assert_text(request.path, "/live/a%20b");
    assert_text(sluice_http_find(&request, "user-agent")->value, "Lavf/59.27.100");

    /* The next call lets go, whatever it finds. */
    sluice_chain_skip(chain, sluice_chain_length(chain));
    assert_int_equal(sluice_http_next(http, chain, &request), 0);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);

    /* So does the end. */
    http_feed_bytes(pool, chain, full_head, length);
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* The texts of a head that straddles blocks need none of them. */
static void test_straddling_holds_nothing(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_request request;
    sluice_pool_stats stats = {.size = sizeof stats};

    assert_int_equal(sluice_http_new(&http), 0);
    http_feed_bytes(pool, chain, full_head, 20);
    http_feed_bytes(pool, chain, full_head + 20, sizeof full_head - 21);
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);
    assert_text(request.path, "/live/a%20b");
    assert_text(request.headers[6].value, "second");
    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* Bytes that the search has gone over are not looked at again until the head is whole. */
static void test_search_is_linear(void **state) {
    (void)state;
    enum { PAGE = 64 << 10, PART = 2000 }; /* the largest page: of arm64 */
    static char head[PART * 4];
    sluice_pool *pool = http_feed_pool(PAGE, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_request request;
    uint8_t *sealed[3];

    make_head(head, "GET / HTTP/1.0\r\n", sizeof head);
    assert_int_equal(sluice_http_new(&http), 0);
    for (int i = 0; i < 3; i++) {
        sealed[i] = sluice_block_data(http_feed_bytes(pool, chain, head + PART * i, PART));
        assert_int_equal(sluice_http_next(http, chain, &request), 0);
        assert_int_equal(sluice_http_next(http, chain, &request), 0);
        assert_int_equal(mprotect(sealed[i], PAGE, PROT_NONE), 0);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(mprotect(sealed[i], PAGE, PROT_READ | PROT_WRITE), 0);
    http_feed_bytes(pool, chain, head + PART * 3, PART);
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    assert_int_equal(request.headers[0].value.length, sizeof head - 23);
    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* Takes what is there of a stream of requests, and of a body of four bytes behind "/2". Says what
 * it has taken. */
static void take_pipelined(sluice_http *http, sluice_chain *chain, char *taken) {
    sluice_http_request request;
    while (strcmp(taken, "/1/2b/3") != 0) {
        size_t length = strlen(taken);
        if (length > 0 && taken[length - 1] == '2') {
            if (sluice_chain_length(chain) < 4)
                return;
            sluice_chain_skip(chain, 4);
            strcpy(taken + length, "b");
            continue;
        }
        int result = sluice_http_next(http, chain, &request);
        assert_true(result >= 0);
        if (result == 0)
            return;
        assert_int_equal(request.path.length, 2);
        memcpy(taken + length, request.path.text, 2);
        taken[length + 2] = '\0';
    }
}

/* Three requests in a row in pieces of every size; the body looks like an empty line, and so does
 * what follows it. */
static void test_pipelined(void **state) {
    (void)state;
    static const char stream[] = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
                                 "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\r\n\r\n"
                                 "\r\nGET /3 HTTP/1.0\r\n\r\nrest";
    const size_t length = sizeof stream - 1;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);

    for (size_t piece = 1; piece <= length; piece++) {
        sluice_chain *chain = http_feed_chain(pool);
        sluice_http *http;
        char taken[8] = "";
        assert_int_equal(sluice_http_new(&http), 0);
        for (size_t done = 0; done < length; done += piece) {
            http_feed_bytes(pool, chain, stream + done, piece < length - done ? piece : length - done);
            take_pipelined(http, chain, taken);
        }
        assert_string_equal(taken, "/1/2b/3");
        assert_int_equal(sluice_chain_length(chain), 4);
        sluice_http_free(http);
        sluice_chain_free(chain);
    }
    http_feed_pool_done(pool);
}

/* Whoever takes bytes of an unfinished head away makes the search begin again. */
static void test_search_follows_the_chain(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_request request;

    assert_int_equal(sluice_http_new(&http), 0);
    http_feed_bytes(pool, chain, "proxy line: GET /", 17);
    http_feed_bytes(pool, chain, "x", 1);
    sluice_chain_skip(chain, 12);
    assert_int_equal(sluice_http_next(http, chain, &request), 0);
    sluice_chain_skip(chain, 6);
    http_feed_bytes(pool, chain, "PATCH /yy HTTP/1.0\r\n\r\n", 22);
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    assert_text(request.method, "PATCH");
    assert_text(request.path, "/yy");
    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

static void test_error_status(void **state) {
    (void)state;
    static const struct {
        int error;
        unsigned status;
    } cases[] = {
        {-EPROTO, 400},     {-EMSGSIZE, 431}, {-ENAMETOOLONG, 414}, {-EPROTONOSUPPORT, 505},
        {-EOPNOTSUPP, 501}, {-ENOBUFS, 503},  {-ENOMEM, 503},       {-ECONNRESET, 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sluice_http_error_status(cases[i].error), cases[i].status);
    sluice_http_free(NULL);
}

/* Changed heads: whatever they give, they give it at random cuts too; and what is taken keeps to
 * the rules. */
static void test_random(void **state) {
    (void)state;
    static const char *const seeds[] = {
        full_head,
        "\r\nGET http://a.example:80/p?q HTTP/1.1\r\nHost: [::1]:80\r\nConnection: a, close\r\n\r\n",
        "PUT /x HTTP/1.0\r\nContent-Length: 123\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: %41\r\nContent-Length: 0\r\nTransfer_Encoding: x\r\n\r\n",
    };
    static const char telling[] = "\r\n\0 \t:/?#*%,;[]@-5\x7F\x80GHc";
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    uint64_t seed = 0x9E3779B97F4A7C15;
    size_t taken = 0, refused = 0;
    char bytes[1024];

    for (int round = 0; round < 20000; round++) {
        const char *original = seeds[http_feed_random(&seed) % 4];
        size_t length = strlen(original);
        memcpy(bytes, original, length);
        for (uint64_t i = http_feed_random(&seed) % 4; i > 0; i--)
            length = http_feed_change(&seed, telling, sizeof telling - 1, bytes, length);
        bytes[length] = '\0';
        run_pieces(pool, bytes, length, &HTTP_FEED_WHOLE, &whole);
        http_feed_cuts cuts = http_feed_random_cuts(&seed, length);
        run_pieces(pool, bytes, length, &cuts, &other);
        assert_same(&other, &whole, bytes);
        taken += whole.result == 1;
        refused += whole.result < 0;
        if (whole.result == 1) {
            assert_memory_equal(bytes + whole.consumed - 4, "\r\n\r\n", 4);
            assert_null(memchr(bytes, '\0', whole.consumed));
            for (size_t i = 0; i < whole.consumed; i++)
                assert_true((bytes[i] == '\n') == (i > 0 && bytes[i - 1] == '\r'));
        }
    }
    assert_true(taken > 2000 && refused > 2000);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_nul_anywhere),
        cmocka_unit_test(test_bytes_by_place),
        cmocka_unit_test(test_smuggling_matrix),
        cmocka_unit_test(test_early_refusals),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_straddling_holds_nothing),
        cmocka_unit_test(test_search_is_linear),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_search_follows_the_chain),
        cmocka_unit_test(test_error_status),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
