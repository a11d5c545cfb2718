/* Response heads: what is taken, how the body is delimited, what is refused, and that no cut makes
 * a difference. */
#include <sluice/http.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/http_feed.h"

enum {
    BLOCK = 512,
    MAX_TEXT = 32768,
    UNTOUCHED = 0x5A,
};

/* A response said in one text, so that two can be compared. */
struct outcome {
    int result;
    size_t consumed;
    size_t length;
    char text[MAX_TEXT];
};

static struct outcome whole, other; /* too big for the stack of a sanitized build */

static void say(struct outcome *outcome, const char *label, sluice_http_text text) {
    assert_non_null(text.text);
    assert_true(outcome->length + strlen(label) + text.length + 3 < sizeof outcome->text);
    outcome->length += (size_t)sprintf(outcome->text + outcome->length, "%s=", label);
    memcpy(outcome->text + outcome->length, text.text, text.length);
    outcome->length += text.length;
    outcome->length += (size_t)sprintf(outcome->text + outcome->length, "\n");
}

static void say_response(struct outcome *outcome, const sluice_http_response *response) {
    outcome->length += (size_t)sprintf(outcome->text, "status=%u\nminor=%u\ninterim=%d\nswitched=%d\nkeep=%d\n",
                                       response->status, response->minor_version, response->interim, response->switched,
                                       response->keep_alive);
    outcome->length += (size_t)sprintf(outcome->text + outcome->length, "body=%d\nlength=%llu\n", (int)response->body,
                                       (unsigned long long)response->content_length);
    say(outcome, "reason", response->reason);
    for (size_t i = 0; i < response->header_count; i++) {
        say(outcome, "name", response->headers[i].name);
        say(outcome, "value", response->headers[i].value);
    }
}

static bool is_untouched(const sluice_http_response *response) {
    for (size_t i = 0; i < sizeof *response; i++)
        if (((const uint8_t *)response)[i] != UNTOUCHED)
            return false;
    return true;
}

/* Feeds the bytes in pieces until there is a result; then the rest, which an error must outlast. */
static void run_pieces(sluice_pool *pool, const char *method, const void *bytes, size_t length,
                       const http_feed_cuts *cuts, struct outcome *ret_outcome) {
    sluice_http *http;
    sluice_http_response response;
    sluice_chain *chain = http_feed_chain(pool);
    size_t done = 0;
    int result = 0;

    assert_int_equal(sluice_http_new(&http), 0);
    memset(&response, UNTOUCHED, sizeof response);
    for (size_t piece = 0; done < length && result == 0; piece++) {
        size_t end = http_feed_piece_end(cuts, piece, length);
        http_feed_bytes(pool, chain, (const uint8_t *)bytes + done, end - done);
        done = end;
        result = sluice_http_next_response(http, chain, method, &response);
        if (result != 1) {
            assert_true(is_untouched(&response));
            assert_int_equal(sluice_chain_consumed(chain), 0);
        }
    }
    ret_outcome->result = result;
    ret_outcome->consumed = (size_t)sluice_chain_consumed(chain);
    ret_outcome->length = 0;
    ret_outcome->text[0] = '\0';
    if (result == 1)
        say_response(ret_outcome, &response);
    if (result < 0) {
        http_feed_bytes(pool, chain, (const uint8_t *)bytes + done, length - done);
        http_feed_bytes(pool, chain, "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 23);
        assert_int_equal(sluice_http_next_response(http, chain, method, &response), result);
        assert_true(is_untouched(&response));
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

/* The result of the whole, of every cut in two, and byte by byte; they must be the same. */
static int run_all_cuts(sluice_pool *pool, const char *method, const char *bytes, size_t length) {
    run_pieces(pool, method, bytes, length, &HTTP_FEED_WHOLE, &whole);
    run_pieces(pool, method, bytes, length, &HTTP_FEED_BYTEWISE, &other);
    assert_same(&other, &whole, bytes);
    for (size_t at = 1; at < length; at++) {
        run_pieces(pool, method, bytes, length, &(http_feed_cuts){1, {at}}, &other);
        assert_same(&other, &whole, bytes);
    }
    return whole.result;
}

static void assert_text(sluice_http_text text, const char *expected) {
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.text, expected, text.length);
}

static const char full_head[] = "HTTP/1.1 206 Partial Content\r\n"
                                "Server:\t nginx/1.22.1 \t\r\n"
                                "Content-Range: bytes 0-9/20\r\n"
                                "content-LENGTH: 10\r\n"
                                "X-Empty:\r\n"
                                "X-Latin: caf\xE9: \"a, b\"\r\n"
                                "x-empty: second\r\n"
                                "\r\n";

static void test_fields(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BLOCK, 8);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_response response;
    sluice_pool_stats stats = {.size = sizeof stats};

    assert_int_equal(sluice_http_new(&http), 0);
    const uint8_t *memory = sluice_block_data(http_feed_bytes(pool, chain, full_head, sizeof full_head - 1));
    assert_int_equal(sluice_http_next_response(http, chain, "GET", &response), 1);
    assert_int_equal(sluice_chain_length(chain), 0);
    assert_int_equal(response.status, 206);
    assert_text(response.reason, "Partial Content");
    assert_int_equal(response.minor_version, 1);
    assert_true(response.keep_alive);
    assert_false(response.interim);
    assert_false(response.switched);
    assert_int_equal(response.body, SLUICE_HTTP_BODY_LENGTH);
    assert_int_equal(response.content_length, 10);
    assert_int_equal(response.header_count, 6);
    assert_text(response.headers[0].value, "nginx/1.22.1");
    assert_text(response.headers[4].value, "caf\xE9: \"a, b\"");
    assert_ptr_equal(sluice_http_response_find(&response, "X-EMPTY"), &response.headers[3]);
    assert_null(sluice_http_response_find(&response, "X-Empt"));

    /* Read where it lies, which the framer holds until the next call, or until it is to let go. */
    assert_ptr_equal(response.reason.text, memory + 13);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 1);
    sluice_http_release(http);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);

    http_feed_bytes(pool, chain, full_head, sizeof full_head - 1);
    assert_int_equal(sluice_http_next_response(http, chain, NULL, &response), 1);
    assert_int_equal(sluice_http_next_response(http, chain, NULL, &response), 0);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.held, 0);

    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

static void test_every_cut(void **state) {
    (void)state;
    const size_t length = sizeof full_head - 1;
    sluice_pool *pool = http_feed_pool(BLOCK, 1024);

    assert_int_equal(run_all_cuts(pool, NULL, full_head, length), 1);
    assert_int_equal(whole.consumed, length);
    for (size_t first = 1; first < length; first++)
        for (size_t second = first + 1; second < length; second++) {
            run_pieces(pool, NULL, full_head, length, &(http_feed_cuts){2, {first, second}}, &other);
            assert_same(&other, &whole, full_head);
        }
    http_feed_pool_done(pool);
}

#define NONE "body=0\nlength=0\n"
#define LENGTH_5 "body=1\nlength=5\n"
#define CHUNKED "body=2\nlength=0\n"
#define CLOSE "body=3\nlength=0\n"
#define FIVE "Content-Length: 5\r\n"
#define CODED "Transfer-Encoding: chunked\r\n"

static void test_valid(void **state) {
    (void)state;
    static const struct {
        const char *method;
        const char *head;
        const char *says; /* must be part of what the response says */
    } cases[] = {
        /* Status lines. */
        {"GET", "HTTP/1.1 200 OK\r\n\r\n", "status=200\nminor=1\ninterim=0\nswitched=0\nkeep=0\n" CLOSE "reason=OK\n"},
        {"GET", "HTTP/1.1 200 \r\n\r\n", "reason=\n"},
        {"GET", "HTTP/1.1 200\r\n\r\n", "reason=\n"},
        {"GET", "HTTP/1.1 200\r\nA: b\r\n\r\n", "reason=\nname=A\nvalue=b\n"},
        {"GET", "HTTP/1.0 404  Not\tFound \xC3\xA9\r\n\r\n", "reason= Not\tFound \xC3\xA9\n"},
        {"GET", "HTTP/1.1 403 \x1B]0;x\x07\x7F\xFF\r\n\r\n", "reason=\x1B]0;x\x07\x7F\xFF\n"},
        {"GET", "HTTP/1.1 999 x\r\n\r\n", "status=999\n"},

        /* Whether more may follow. */
        {"GET", "HTTP/1.1 200 OK\r\n" FIVE "\r\n", "keep=1\n" LENGTH_5},
        {"GET", "HTTP/1.1 200 OK\r\n" FIVE "Connection: a, Close\r\n\r\n", "keep=0\n" LENGTH_5},
        {"GET", "HTTP/1.0 200 OK\r\n" FIVE "\r\n", "keep=0\n" LENGTH_5},
        {"GET", "HTTP/1.0 200 OK\r\n" FIVE "Connection: keep-alive\r\n\r\n", "keep=1\n" LENGTH_5},
        {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", "keep=0\n" CLOSE},
        {"GET", "HTTP/1.1 200 OK\r\n" CODED "\r\n", "keep=1\n" CHUNKED},

        /* Without a body by their status, whatever the headers say. */
        {"GET", "HTTP/1.1 100 Continue\r\n\r\n", "interim=1\nswitched=0\nkeep=1\n" NONE},
        {"GET", "HTTP/1.1 103 Early Hints\r\n" FIVE "\r\n", "interim=1\nswitched=0\nkeep=1\n" NONE},
        {"GET", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
         "interim=0\nswitched=1\nkeep=0\n" NONE},
        {"GET", "HTTP/1.1 204 No Content\r\n" CODED "\r\n", "keep=1\n" NONE},
        {"GET", "HTTP/1.1 304 Not Modified\r\n" FIVE "\r\n", "keep=1\n" NONE},
        {"GET", "HTTP/1.1 205 Reset\r\n\r\n", CLOSE},
        /* By their request. */
        {"HEAD", "HTTP/1.1 200 OK\r\n" FIVE "\r\n", "keep=1\n" NONE "reason=OK\nname=Content-Length\nvalue=5\n"},
        {"HEAD", "HTTP/1.1 404 Not Found\r\n" CODED "\r\n", "keep=1\n" NONE},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", NONE},
        {"head", "HTTP/1.1 200 OK\r\n" FIVE "\r\n", LENGTH_5},
        {"CONNECT", "HTTP/1.1 200 OK\r\n" FIVE "\r\n", "switched=1\nkeep=0\n" NONE},
        {"CONNECT", "HTTP/1.1 299 OK\r\n\r\n", "switched=1\nkeep=0\n" NONE},
        {"CONNECT", "HTTP/1.1 407 Login\r\n" FIVE "\r\n", "switched=0\nkeep=1\n" LENGTH_5},
        {NULL, "HTTP/1.1 200 OK\r\n" FIVE "\r\n", "switched=0\nkeep=1\n" LENGTH_5},
        /* A server need not say its name. */
        {NULL, "HTTP/1.1 200 OK\r\nHost: a b\r\n\r\n", CLOSE},
    };
    sluice_pool *pool = http_feed_pool(BLOCK, 512);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (run_all_cuts(pool, cases[i].method, cases[i].head, strlen(cases[i].head)) != 1)
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
        {-EPROTO, "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
        {-EPROTO, "RTSP/1.0 200 OK\r\n\r\n"},
        {-EPROTO, "GET / HTTP/1.1\r\n\r\n"},
        {-EPROTO, "\r\nHTTP/1.1 200 OK\r\n\r\n"},
        {-EPROTO, " HTTP/1.1 200 OK\r\n\r\n"},
        {-EPROTO, "http/1.1 200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/x.1 200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.x 200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1,1 200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.10 200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1  200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1\t200 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 20\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 2x0 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 20x OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 099 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 2000 OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200\tOK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\n\r\n"},
        {-EPROTO, "HTTP/1.1 200\r \r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 O\rK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200\r OK\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200\rOK\r\n\r\n"},
        {-EPROTONOSUPPORT, "HTTP/2 200 OK\r\n\r\n"},
        {-EPROTONOSUPPORT, "HTTP/0.9 200 OK\r\n\r\n"},
        {-EPROTONOSUPPORT, "HTTP/1.2 200 OK\r\n\r\n"},
        /* Header lines. */
        {-EPROTO, "HTTP/1.1 200 OK\r\nA : b\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\n A: b\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nA: b\x1B\r\n\r\n"},
        /* What two recipients could delimit in two ways. */
        {-EPROTO, "HTTP/1.1 200 OK\r\n" FIVE CODED "\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\n" CODED FIVE "\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\n" CODED CODED "\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\n" FIVE FIVE "\r\n"},
        {-EPROTO, "HTTP/1.0 200 OK\r\n" CODED "\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
        {-EPROTO, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n"},
        {-EOPNOTSUPP, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
        {-EOPNOTSUPP, "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n"},
    };
    sluice_pool *pool = http_feed_pool(BLOCK, 512);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (run_all_cuts(pool, "GET", cases[i].head, strlen(cases[i].head)) != cases[i].error)
            fail_msg("%d, not %d: %s", whole.result, cases[i].error, cases[i].head);
    http_feed_pool_done(pool);
}

/* How many bytes are fed one by one before the framer refuses; the error goes to *ret_error. */
static size_t refused_after(sluice_pool *pool, const char *bytes, size_t length, int *ret_error) {
    sluice_http *http;
    sluice_http_response response;
    sluice_chain *chain = http_feed_chain(pool);
    size_t done = 0;

    assert_int_equal(sluice_http_new(&http), 0);
    *ret_error = 0;
    while (done < length && *ret_error == 0) {
        http_feed_bytes(pool, chain, bytes + done++, 1);
        *ret_error = sluice_http_next_response(http, chain, "GET", &response);
    }
    sluice_http_free(http);
    sluice_chain_free(chain);
    return done;
}

static void test_early_refusals(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BLOCK, 16384);
    static char bytes[16384];
    int error;

    assert_int_equal(refused_after(pool, "\x15\x03\x01", 3, &error), 1);
    assert_int_equal(error, -EPROTO);
    assert_int_equal(refused_after(pool, "HTTP/2", 6, &error), 6);
    assert_int_equal(error, -EPROTONOSUPPORT);
    assert_int_equal(refused_after(pool, "HTTP/1.1 200;", 13, &error), 13);
    assert_int_equal(error, -EPROTO);
    memset(bytes, 'A', sizeof bytes);
    memcpy(bytes, "HTTP/1.1 200 ", 13);
    assert_int_equal(refused_after(pool, bytes, sizeof bytes, &error), SLUICE_HTTP_MAX_HEAD);
    assert_int_equal(error, -EMSGSIZE);
    memcpy(bytes, "HTTP/1.1 200 OK\r\nA: ", 20);
    assert_int_equal(refused_after(pool, bytes, sizeof bytes, &error), SLUICE_HTTP_MAX_HEAD);
    assert_int_equal(error, -EMSGSIZE);
    http_feed_pool_done(pool);
}

static void test_limits(void **state) {
    (void)state;
    static char head[16384];
    sluice_pool *pool = http_feed_pool(BLOCK, 16384);

    for (int more = 0; more <= 1; more++) {
        size_t length = (size_t)sprintf(head, "HTTP/1.1 200 OK\r\nX: %0*d\r\n\r\n", SLUICE_HTTP_MAX_HEAD - 24 + more,
                                        0);
        assert_int_equal(length, SLUICE_HTTP_MAX_HEAD + more);
        run_pieces(pool, "GET", head, length, &HTTP_FEED_WHOLE, &whole);
        assert_int_equal(whole.result, more ? -EMSGSIZE : 1);
        run_pieces(pool, "GET", head, length, &HTTP_FEED_BYTEWISE, &other);
        assert_same(&other, &whole, "a head at the limit");

        length = (size_t)sprintf(head, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < SLUICE_HTTP_MAX_HEADERS + more; i++)
            length += (size_t)sprintf(head + length, "h%d:%d\r\n", i, i);
        length += (size_t)sprintf(head + length, "\r\n");
        run_pieces(pool, "GET", head, length, &HTTP_FEED_WHOLE, &whole);
        assert_int_equal(whole.result, more ? -EMSGSIZE : 1);
    }
    http_feed_pool_done(pool);
}

/* A client's connection: what it has asked, and what has come, as one text. */
struct client {
    sluice_http *http;
    sluice_chain *from, *to;
    const char *const *asked;
    bool in_body;
    sluice_http_body body;
    char taken[128];
};

static void note(struct client *client, const char *text) {
    assert_true(strlen(client->taken) + strlen(text) < sizeof client->taken);
    strcat(client->taken, text);
}

static void take(struct client *client) {
    char text[64];
    for (;;) {
        sluice_http_response response;
        int result = client->in_body ? sluice_http_body_next(&client->body, client->from, client->to)
                                     : sluice_http_next_response(client->http, client->from, *client->asked, &response);
        assert_true(result >= 0);
        if (result == 0)
            return;
        if (!client->in_body) {
            sprintf(text, "%u", response.status);
            note(client, text);
            sluice_http_body_begin_response(&client->body, &response);
            client->asked += !response.interim;
        } else {
            sprintf(text, ":%zu ", sluice_chain_length(client->to));
            note(client, text);
            sluice_chain_skip(client->to, sluice_chain_length(client->to));
        }
        client->in_body = !client->in_body;
    }
}

/* Responses of all kinds in a row, in pieces of every size; bodies look like heads. */
static void test_in_a_row(void **state) {
    (void)state;
    static const char stream[] =
        "HTTP/1.1 103 Early\r\nLink: a\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\n\r\n\r\r\n4\r\nHTTP\r\n0\r\nA: b\r\n\r\n"
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"
        "HTTP/1.1 204\r\n\r\n"
        "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    static const char *const asked[] = {"GET", "HEAD", "GET", "GET", "DELETE", "GET", NULL};
    const size_t length = sizeof stream - 1;
    sluice_pool *pool = http_feed_pool(BLOCK, 1024);

    for (size_t piece = 1; piece <= length; piece++) {
        struct client client = {.from = http_feed_chain(pool), .to = http_feed_chain(pool), .asked = asked};
        assert_int_equal(sluice_http_new(&client.http), 0);
        for (size_t done = 0; done < length; done += piece) {
            http_feed_bytes(pool, client.from, stream + done, piece < length - done ? piece : length - done);
            take(&client);
        }
        assert_string_equal(client.taken, "103:0 200:19 200:0 200:7 304:0 204:0 200");
        assert_int_equal(sluice_chain_length(client.to), 19);
        assert_int_equal(sluice_http_body_end(&client.body), 0);
        sluice_http_free(client.http);
        sluice_chain_free(client.from);
        sluice_chain_free(client.to);
    }
    http_feed_pool_done(pool);
}

/* Bytes taken away, and a framer asked for the other kind of head: the search begins anew. */
static void test_search_begins_anew(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BLOCK, 16);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_http *http;
    sluice_http_request request;
    sluice_http_response response;

    assert_int_equal(sluice_http_new(&http), 0);
    http_feed_bytes(pool, chain, "HTTP/1.1 200 OK\r\nHTTP/1.1 404 Not", 33);
    assert_int_equal(sluice_http_next_response(http, chain, "GET", &response), 0);
    sluice_chain_skip(chain, 17);
    http_feed_bytes(pool, chain, " Found\r\n\r\n", 10);
    assert_int_equal(sluice_http_next_response(http, chain, "GET", &response), 1);
    assert_int_equal(response.status, 404);
    assert_int_equal(response.header_count, 0);

    http_feed_bytes(pool, chain, "H", 1);
    assert_int_equal(sluice_http_next_response(http, chain, "GET", &response), 0);
    assert_int_equal(sluice_http_next(http, chain, &request), 0);
    http_feed_bytes(pool, chain, "EAD / HTTP/1.0\r\n\r\n", 18);
    assert_int_equal(sluice_http_next(http, chain, &request), 1);
    assert_text(request.method, "HEAD");
    sluice_http_free(http);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* The same rules, written down as simply as can be, over a text that is all there. */

static bool is_name(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\0' ||
            !strchr("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", text[i]))
            return false;
    return length > 0;
}

static bool has_control(const char *line) {
    for (; *line; line++)
        if ((unsigned char)*line == 0x7F || ((unsigned char)*line < ' ' && *line != '\t'))
            return true;
    return false;
}

/* Whether a line is a header that counts for the body: its value, trimmed; NULL where it is not. */
static char *value_of(char *line, const char *name) {
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':')
        return NULL;
    char *value = line + length + 1;
    value += strspn(value, " \t");
    for (size_t end = strlen(value); end > 0 && strchr(" \t", value[end - 1]); end--)
        value[end - 1] = '\0';
    return value;
}

static bool reads_status(const char *line, unsigned *ret_status) {
    char digits[4] = "";
    int end = 0;
    if (strpbrk(line, "\r\n") || sscanf(line, "HTTP/1.%*1[01] %3[0-9]%n", digits, &end) != 1 || end != 12 ||
        line[8] != ' ' || line[9] == ' ' || line[9] == '\t' || digits[0] == '0')
        return false;
    *ret_status = (unsigned)atoi(digits);
    return line[12] == '\0' || line[12] == ' ';
}

/* The body's kind where the bytes begin with a head that is right; -1 where they do not. */
static int naive_kind(const char *bytes, size_t size, const char *method) {
    char text[2048], *coding = NULL, *length = NULL, *rest = text;
    unsigned status = 0, codings = 0, lengths = 0, number = 0;
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    if (!end || memchr(bytes, '\0', (size_t)(end - bytes)))
        return -1;
    memcpy(text, bytes, (size_t)(end - bytes));
    text[end - bytes] = '\0';
    while (rest) {
        char *line = rest, *border = strstr(rest, "\r\n"), *value;
        rest = border ? border + 2 : NULL;
        if (border)
            *border = '\0';
        if (number++ == 0) {
            if (!reads_status(line, &status))
                return -1;
            continue;
        }
        if (!is_name(line, strcspn(line, ":")) || !strchr(line, ':') || has_control(line))
            return -1;
        if ((value = value_of(line, "Transfer-Encoding"))) {
            coding = value;
            codings++;
        } else if ((value = value_of(line, "Content-Length"))) {
            length = value;
            lengths++;
        }
    }
    if (codings > 1 || lengths > 1)
        return -1;
    if (strcmp(method, "HEAD") == 0 || status < 200 || status == 204 || status == 304)
        return SLUICE_HTTP_BODY_NONE;
    if (coding)
        return length || bytes[7] == '0' || strcasecmp(coding, "chunked") != 0 ? -1 : SLUICE_HTTP_BODY_CHUNKED;
    if (length)
        return !*length || length[strspn(length, "0123456789")] || strlen(length) > 18 ? -1 : SLUICE_HTTP_BODY_LENGTH;
    return SLUICE_HTTP_BODY_UNTIL_CLOSE;
}

/* Changed heads: the same at random cuts, and taken where the simple rules take them, with the same
 * kind of body. */
static void test_random(void **state) {
    (void)state;
    static const char *const seeds[] = {
        full_head,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n",
        "HTTP/1.0 304\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 123\r\nTransfer_Encoding: x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    };
    static const char telling[] = "\r\n\0 \t:/,;-0123456789\x7F\x80HTPc";
    sluice_pool *pool = http_feed_pool(BLOCK, 512);
    uint64_t seed = 0x9E3779B97F4A7C15;
    size_t taken = 0, refused = 0;
    char bytes[1024];

    for (int round = 0; round < 20000; round++) {
        const char *original = seeds[http_feed_random(&seed) % 5],
                   *method = http_feed_random(&seed) % 8 ? "GET" : "HEAD";
        size_t length = strlen(original);
        char says[32];
        memcpy(bytes, original, length);
        for (uint64_t i = http_feed_random(&seed) % 4; i > 0; i--)
            length = http_feed_change(&seed, telling, sizeof telling - 1, bytes, length);
        bytes[length] = '\0';
        run_pieces(pool, method, bytes, length, &HTTP_FEED_WHOLE, &whole);
        http_feed_cuts cuts = http_feed_random_cuts(&seed, length);
        run_pieces(pool, method, bytes, length, &cuts, &other);
        assert_same(&other, &whole, bytes);
        int kind = naive_kind(bytes, length, method);
        sprintf(says, "\nbody=%d\n", kind);
        if ((whole.result == 1) != (kind >= 0) || (kind >= 0 && !strstr(whole.text, says)))
            fail_msg("%d, and simply read %d: %s\n%s", whole.result, kind, bytes, whole.text);
        taken += whole.result == 1;
        refused += whole.result < 0;
    }
    assert_true(taken > 2000 && refused > 2000);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),   cmocka_unit_test(test_every_cut),          cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),  cmocka_unit_test(test_early_refusals),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_in_a_row), cmocka_unit_test(test_search_begins_anew), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("http_response", tests, NULL, NULL);
}
