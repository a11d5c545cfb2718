/* Request bodies: the payload comes out as it was, by reference, and bad chunking is refused
 * however it is cut. */
#include <sluice/http.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "reader/cursor.h"
#include "support/http_feed.h"

enum {
    SMALL_BLOCK = 512,
    MAX_BYTES = 65536,
};

/* A growing run of bytes. */
struct text {
    size_t length;
    char bytes[MAX_BYTES];
};

static void add(struct text *text, const void *bytes, size_t n) {
    assert_true(n <= sizeof text->bytes - text->length);
    memcpy(text->bytes + text->length, bytes, n);
    text->length += n;
}

/* What came of a body. */
struct outcome {
    int result;
    int end;
    unsigned status; /* of an error */
    uint64_t consumed;
    uint64_t total;
    struct text payload;
};

static struct outcome whole, other; /* too big for the stack of a sanitized build */

static sluice_http_body begin(sluice_http_body_kind kind, uint64_t length, bool until_close) {
    sluice_http_body body;
    sluice_http_body_begin(&body, &(sluice_http_request){.body = kind, .content_length = length}, until_close);
    return body;
}

/* Empties the chain into the text; reading it in place, so that the pool's count of copies stays
 * the library's own. */
static void drain(sluice_chain *chain, struct text *text) {
    assert_true(chain_is_sound(chain));
    while (sluice_chain_length(chain) > 0) {
        sluice_cursor cursor = cursor_of_chain(chain);
        size_t here;
        const uint8_t *bytes = cursor_view(&cursor, &here);
        add(text, bytes, here);
        sluice_chain_skip(chain, here);
    }
}

/*
 * Feeds the bytes in pieces until there is a result, and the rest behind it: a complete body must
 * leave that alone, an error must outlast it.
 */
static void run_pieces(sluice_pool *pool, sluice_http_body body, const void *bytes, size_t length,
                       const http_feed_cuts *cuts, struct outcome *ret_outcome) {
    sluice_chain *from = http_feed_chain(pool), *to = http_feed_chain(pool);
    size_t done = 0;
    int result = 0;

    for (size_t piece = 0; done < length && result == 0; piece++) {
        size_t end = http_feed_piece_end(cuts, piece, length);
        http_feed_bytes(pool, from, (const uint8_t *)bytes + done, end - done);
        done = end;
        result = sluice_http_body_next(&body, from, to);
        if (result == 0)
            assert_int_equal(sluice_chain_length(from), 0);
    }
    ret_outcome->result = result;
    ret_outcome->consumed = result < 0 ? 0 : sluice_chain_consumed(from);
    ret_outcome->total = body.total;
    ret_outcome->end = sluice_http_body_end(&body);
    ret_outcome->status = result < 0 ? sluice_http_body_error_status(&body) : 0;
    ret_outcome->payload.length = 0;
    drain(to, &ret_outcome->payload);

    http_feed_bytes(pool, from, (const uint8_t *)bytes + done, length - done);
    if (result != 0) {
        size_t left = sluice_chain_length(from);
        http_feed_bytes(pool, from, "\r\n0\r\n\r\n", 7);
        assert_int_equal(sluice_http_body_next(&body, from, to), result);
        assert_int_equal(sluice_chain_length(from), left + 7);
        assert_int_equal(sluice_chain_length(to), 0);
    }
    assert_int_equal(ret_outcome->payload.length, ret_outcome->total);
    sluice_chain_free(from);
    sluice_chain_free(to);
}

static void assert_same(const struct outcome *a, const struct outcome *b, const char *bytes) {
    if (a->result != b->result || a->end != b->end || a->consumed != b->consumed || a->total != b->total ||
        memcmp(a->payload.bytes, b->payload.bytes, (size_t)b->total) != 0)
        fail_msg("cut: %d, end %d, %llu bytes consumed, %llu delivered; whole: %d, %d, %llu, %llu; of %s", a->result,
                 a->end, (unsigned long long)a->consumed, (unsigned long long)a->total, b->result, b->end,
                 (unsigned long long)b->consumed, (unsigned long long)b->total, bytes);
}

/* The result of the whole, of every cut in two, and byte by byte; they must be the same. */
static int run_all_cuts(sluice_pool *pool, sluice_http_body body, const void *bytes, size_t length) {
    run_pieces(pool, body, bytes, length, &HTTP_FEED_WHOLE, &whole);
    run_pieces(pool, body, bytes, length, &HTTP_FEED_BYTEWISE, &other);
    assert_same(&other, &whole, bytes);
    for (size_t at = 1; at < length; at++) {
        run_pieces(pool, body, bytes, length, &(http_feed_cuts){1, {at}}, &other);
        assert_same(&other, &whole, bytes);
    }
    return whole.result;
}

static sluice_http_body chunked(void) {
    return begin(SLUICE_HTTP_BODY_CHUNKED, 0, false);
}

static void assert_payload(const char *expected) {
    assert_int_equal(whole.payload.length, strlen(expected));
    assert_memory_equal(whole.payload.bytes, expected, strlen(expected));
}

static const char chunked_body[] = "5\r\nfirst\r\n"
                                   "00B;name=value\r\n the\r\n0\r\n\r\n\r\n"
                                   "1 \t;a=\"b \xE9; c\" ; d\r\n.\r\n"
                                   "000;last\r\n"
                                   "X-Trailer: a\r\n"
                                   "Content-Length:\t5 \r\n"
                                   "\r\n";
static const char chunked_payload[] = "first the\r\n0\r\n\r\n.";

static void test_chunked_every_cut(void **state) {
    (void)state;
    static const char next[] = "GET / HTTP/1.1\r\n";
    const size_t body_length = sizeof chunked_body - 1;
    const size_t length = body_length + sizeof next - 1;
    char bytes[sizeof chunked_body + sizeof next];
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);

    memcpy(bytes, chunked_body, body_length);
    memcpy(bytes + body_length, next, sizeof next);
    assert_int_equal(run_all_cuts(pool, chunked(), bytes, length), 1);
    assert_int_equal(whole.consumed, body_length);
    assert_int_equal(whole.end, 0);
    assert_payload(chunked_payload);
    for (size_t first = 1; first < length; first++)
        for (size_t second = first + 1; second < length; second++) {
            run_pieces(pool, chunked(), bytes, length, &(http_feed_cuts){2, {first, second}}, &other);
            assert_same(&other, &whole, bytes);
        }

    /* Short of its last byte, or of any, it is not complete. */
    for (size_t n = 0; n < body_length; n++) {
        run_pieces(pool, chunked(), bytes, n, &HTTP_FEED_WHOLE, &other);
        assert_int_equal(other.result, 0);
        assert_int_equal(other.end, -ECONNRESET);
    }
    http_feed_pool_done(pool);
}

static void test_chunked_valid(void **state) {
    (void)state;
    static const struct {
        const char *body;
        const char *payload;
    } cases[] = {
        {"0\r\n\r\n", ""},
        {"0000000000000000\r\n\r\n", ""},
        {"0000000000000001\r\na\r\n0\r\n\r\n", "a"},
        {"a\r\n0123456789\r\nA\r\nabcdefghij\r\n0\r\n\r\n", "0123456789abcdefghij"},
        {"1;\r\na\r\n0;\r\n\r\n", "a"},
        {"1\t;x\r\na\r\n0\r\n\r\n", "a"},
        {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n"},
        {"0\r\na:\r\n\r\n", ""},
        {"0\r\na:b\r\nc:d\r\n\r\n", ""},
    };
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (run_all_cuts(pool, chunked(), cases[i].body, strlen(cases[i].body)) != 1)
            fail_msg("refused with %d: %s", whole.result, cases[i].body);
        assert_int_equal(whole.consumed, strlen(cases[i].body));
        assert_payload(cases[i].payload);
    }
    http_feed_pool_done(pool);
}

static void test_chunked_invalid(void **state) {
    (void)state;
    static const char *const cases[] = {
        /* Sizes. */
        "\r\n",
        "\n",
        "g\r\n",
        "-1\r\na\r\n",
        "+1\r\na\r\n",
        "0x1\r\na\r\n",
        "1h\r\na\r\n",
        "1.\r\na\r\n",
        "1,\r\na\r\n",
        "1_0\r\n",
        "\xEF\xBC\x91\r\na\r\n",
        " 1\r\na\r\n",
        "\t1\r\na\r\n",
        ";a\r\n",
        "1 \r\na\r\n",
        "1\t\r\na\r\n",
        "1 1\r\na\r\n",
        "1 a\r\n",
        "00000000000000001\r\na\r\n",
        "00000000000000000\r\n\r\n",
        "8000000000000000\r\n",
        "FFFFFFFFFFFFFFFF\r\n",
        "10000000000000000\r\n",
        /* Line ends of size lines. */
        "1\na\r\n0\r\n\r\n",
        "1\ra\r\n0\r\n\r\n",
        "1\r\r\na\r\n",
        "1;a\na\r\n0\r\n\r\n",
        "1;a\ra\r\n",
        "1;a\r\r\n",
        "1 \n",
        "1;\x01\r\na\r\n",
        "1;\x7F\r\na\r\n",
        "1;a=\"\n\"\r\na\r\n",
        /* Behind the data. */
        "1\r\nab\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\na\r0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "1\r\nab\n0\r\n\r\n",
        "1\r\na\rb0\r\n\r\n",
        "1\r\na\r\r\n",
        "1\r\na \r\n",
        "1\r\na\r\n\r\n",
        "2\r\na\r\n0\r\n\r\n",
        /* The end and trailers. */
        "0\n\n",
        "0\r\n\n",
        "0\r\n\r\r",
        "0\r\n\ra",
        "0\r\na\r\n\r\n",
        "0\r\na : b\r\n\r\n",
        "0\r\na\t: b\r\n\r\n",
        "0\r\n: b\r\n\r\n",
        "0\r\n a: b\r\n\r\n",
        "0\r\na: b\r\n c\r\n\r\n",
        "0\r\na: b\n\r\n",
        "0\r\na: b\n\n",
        "0\r\na: b\rc\r\n",
        "0\r\na: b\r\r\n",
        "0\r\na: \x01\r\n\r\n",
        "0\r\na\xE9: b\r\n\r\n",
    };
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (run_all_cuts(pool, chunked(), cases[i], strlen(cases[i])) != -EPROTO)
            fail_msg("%d for %s", whole.result, cases[i]);
        assert_int_equal(whole.end, -ECONNRESET);
    }
    /* A NUL in any line. */
    assert_int_equal(run_all_cuts(pool, chunked(), "1\0\r\na\r\n", 8), -EPROTO);
    assert_int_equal(run_all_cuts(pool, chunked(), "1;\0\r\na\r\n", 9), -EPROTO);
    assert_int_equal(run_all_cuts(pool, chunked(), "0\r\na: \0\r\n\r\n", 11), -EPROTO);
    assert_int_equal(run_all_cuts(pool, chunked(), "0\r\n\0\r\n\r\n", 8), -EPROTO);
    /* The largest size is accepted, and waited for. */
    assert_int_equal(run_all_cuts(pool, chunked(), "7FFFFFFFFFFFFFFF\r\nab", 20), 0);
    assert_int_equal(whole.total, 2);
    http_feed_pool_done(pool);
}

static void check_limit(sluice_pool *pool, const struct text *text, unsigned status) {
    int expected = status ? -EMSGSIZE : 1;
    run_pieces(pool, chunked(), text->bytes, text->length, &HTTP_FEED_WHOLE, &whole);
    assert_int_equal(whole.result, expected);
    run_pieces(pool, chunked(), text->bytes, text->length, &HTTP_FEED_BYTEWISE, &other);
    assert_same(&other, &whole, "a body at a limit");
    assert_int_equal(whole.status, status);
    assert_int_equal(other.status, status);
}

static void test_line_limits(void **state) {
    (void)state;
    static const char fill[SLUICE_HTTP_MAX_HEAD] = {0};
    static struct text text;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16384);

    for (size_t more = 0; more <= 1; more++) {
        size_t size = SLUICE_HTTP_MAX_CHUNK_LINE + more;
        text.length = 0;
        add(&text, "0;", 2);
        add(&text, fill, size - 4);
        memset(text.bytes + 2, 'x', size - 4);
        add(&text, "\r\n\r\n", 4);
        check_limit(pool, &text, more ? 413 : 0);

        /* The trailer's limit is for all its lines and the empty one. */
        text.length = 0;
        add(&text, "0\r\na: b\r\nc:", 11);
        size = SLUICE_HTTP_MAX_HEAD + more - 12;
        add(&text, fill, size);
        memset(text.bytes + 11, 'x', size);
        add(&text, "\r\n\r\n", 4);
        check_limit(pool, &text, more ? 431 : 0);
    }
    /* Neither is waited for: no end of the line has come. */
    text.length = 0;
    add(&text, "1;", 2);
    add(&text, fill, SLUICE_HTTP_MAX_CHUNK_LINE - 1);
    memset(text.bytes + 2, ' ', text.length - 2);
    check_limit(pool, &text, 413);
    text.bytes[1] = ' ';
    check_limit(pool, &text, 413);
    http_feed_pool_done(pool);
}

/* What is delivered lies where it was received. */
static void test_by_reference(void **state) {
    (void)state;
    static const char bytes[] = "6\r\nabcdef\r\n3\r\nghi";
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16);
    sluice_chain *from = http_feed_chain(pool), *to = http_feed_chain(pool);
    sluice_http_body body = chunked();
    struct iovec iov[4];
    sluice_slice slice;

    const uint8_t *memory = sluice_block_data(http_feed_bytes(pool, from, bytes, sizeof bytes - 1));
    const uint8_t *more = sluice_block_data(http_feed_bytes(pool, from, "\r\n1\r\nj\r\n", 8));
    assert_int_equal(sluice_http_body_next(&body, from, to), 0);
    sluice_chain_free(from);
    assert_int_equal(sluice_chain_take(to, 10, &slice), 0);
    assert_int_equal(sluice_slice_iov(&slice, 0, iov, 4), 3);
    assert_ptr_equal(iov[0].iov_base, memory + 3);
    assert_int_equal(iov[0].iov_len, 6);
    assert_ptr_equal(iov[1].iov_base, memory + 14);
    assert_int_equal(iov[1].iov_len, 3);
    assert_ptr_equal(iov[2].iov_base, more + 5);
    assert_int_equal(iov[2].iov_len, 1);
    assert_memory_equal(iov[0].iov_base, "abcdef", 6);
    sluice_slice_release(&slice);
    sluice_chain_free(to);
    http_feed_pool_done(pool);
}

static void test_length(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    sluice_http_body body = begin(SLUICE_HTTP_BODY_LENGTH, 10, true);

    assert_int_equal(run_all_cuts(pool, body, "0123456789GET /", 15), 1);
    assert_int_equal(whole.consumed, 10);
    assert_int_equal(whole.end, 0);
    assert_payload("0123456789");
    assert_int_equal(run_all_cuts(pool, body, "0123456789", 10), 1);
    assert_int_equal(run_all_cuts(pool, body, "012345678", 9), 0);
    assert_int_equal(whole.end, -ECONNRESET);
    assert_payload("012345678");

    body = begin(SLUICE_HTTP_BODY_LENGTH, INT64_MAX, false);
    assert_int_equal(run_all_cuts(pool, body, "01", 2), 0);
    assert_int_equal(whole.end, -ECONNRESET);

    body = begin(SLUICE_HTTP_BODY_LENGTH, 0, true);
    assert_int_equal(sluice_http_body_end(&body), 0);
    assert_int_equal(run_all_cuts(pool, body, "GET", 3), 1);
    assert_int_equal(whole.consumed, 0);
    http_feed_pool_done(pool);
}

static void test_none_and_until_close(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    sluice_http_body body = begin(SLUICE_HTTP_BODY_NONE, 0, false);

    assert_int_equal(body.kind, SLUICE_HTTP_BODY_NONE);
    assert_int_equal(run_all_cuts(pool, body, "GET / HTTP/1.1", 14), 1);
    assert_int_equal(whole.consumed, 0);
    assert_int_equal(whole.end, 0);

    body = begin(SLUICE_HTTP_BODY_NONE, 0, true);
    assert_int_equal(body.kind, SLUICE_HTTP_BODY_UNTIL_CLOSE);
    assert_int_equal(run_all_cuts(pool, body, "FLV\r\n0\r\n\r\n.", 11), 0);
    assert_int_equal(whole.consumed, 11);
    assert_int_equal(whole.end, 0);
    assert_payload("FLV\r\n0\r\n\r\n.");

    /* It is for bodies that the request does not delimit. */
    body = begin(SLUICE_HTTP_BODY_CHUNKED, 0, true);
    assert_int_equal(run_all_cuts(pool, body, "1\r\na\r\n0\r\n\r\n.", 12), 1);
    assert_payload("a");
    http_feed_pool_done(pool);
}

/* Nothing in the chain is no error. */
static void test_empty_chain(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 16);
    sluice_chain *from = http_feed_chain(pool), *to = http_feed_chain(pool);
    sluice_http_body bodies[] = {
        begin(SLUICE_HTTP_BODY_LENGTH, 1, false),
        chunked(),
        begin(SLUICE_HTTP_BODY_NONE, 0, true),
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        assert_int_equal(sluice_http_body_next(&bodies[i], from, to), 0);
    sluice_chain_free(from);
    sluice_chain_free(to);
    http_feed_pool_done(pool);
}

/* Chunks of @size bytes, @count of them, without the end. */
static void add_chunks(struct text *text, size_t size, size_t count) {
    static const char data[256] = "data";
    char line[16];
    for (size_t i = 0; i < count; i++) {
        add(text, line, (size_t)sprintf(line, "%zx\r\n", size));
        add(text, data, size);
        add(text, "\r\n", 2);
    }
}

static void test_tiny_chunks(void **state) {
    (void)state;
    static struct text text;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 1024);
    sluice_chain *from = http_feed_chain(pool), *to = http_feed_chain(pool);
    sluice_http_body body = chunked();

    /* 1034 pieces of 1034 bytes are within 1024 and 1034 / 128 views and 1034 / 512 blocks; one
     * more is not. */
    add_chunks(&text, 1, 1034);
    http_feed_bytes(pool, from, text.bytes, text.length);
    assert_int_equal(sluice_http_body_next(&body, from, to), 0);
    assert_int_equal(sluice_chain_blocks(to), 1034);
    http_feed_bytes(pool, from, "1\r\na\r\n1\r\nb\r\n", 12);
    assert_int_equal(sluice_http_body_next(&body, from, to), -EMSGSIZE);
    assert_int_equal(sluice_http_body_error_status(&body), 413);
    assert_int_equal(sluice_chain_blocks(to), 1035);
    sluice_chain_skip(to, sluice_chain_length(to));
    assert_int_equal(sluice_http_body_next(&body, from, to), -EMSGSIZE);
    assert_int_equal(sluice_chain_length(to), 0);
    assert_int_equal(sluice_http_body_end(&body), -ECONNRESET);
    sluice_chain_skip(from, sluice_chain_length(from));

    /* The same chunks are well where the consumer takes them as they come. */
    body = chunked();
    for (int i = 0; i < 5; i++) {
        http_feed_bytes(pool, from, text.bytes, text.length);
        assert_int_equal(sluice_http_body_next(&body, from, to), 0);
        sluice_chain_skip(to, sluice_chain_length(to));
    }
    assert_int_equal(body.total, 5 * 1034);

    /* Chunks that are worth their views may pile up. */
    text.length = 0;
    add_chunks(&text, 96, 600);
    body = chunked();
    for (int i = 0; i < 3; i++) {
        http_feed_bytes(pool, from, text.bytes, text.length);
        assert_int_equal(sluice_http_body_next(&body, from, to), 0);
    }
    assert_true(sluice_chain_blocks(to) >= 1800);
    sluice_chain_free(from);
    sluice_chain_free(to);
    http_feed_pool_done(pool);
}

/* A pool without views to give ends a body for good, and loses nothing that was delivered. */
static void test_no_views(void **state) {
    (void)state;
    static struct text text;
    static const sluice_http_body_kind kinds[] = {SLUICE_HTTP_BODY_CHUNKED, SLUICE_HTTP_BODY_LENGTH,
                                                  SLUICE_HTTP_BODY_UNTIL_CLOSE};

    text.length = 0;
    add_chunks(&text, 1, 400);
    for (int i = 0; i < 3; i++) {
        sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 8);
        sluice_chain *from = http_feed_chain(pool), *to = http_feed_chain(pool), *hoard = http_feed_chain(pool);
        sluice_http_body body = begin(kinds[i], 6, false);
        uint64_t delivered = kinds[i] == SLUICE_HTTP_BODY_CHUNKED ? 10 : 0;
        sluice_slice slice;

        /* The hoard takes every view there is; for the chunks it gives ten of them back. */
        http_feed_bytes(pool, from, text.bytes, 2 * SMALL_BLOCK);
        assert_int_equal(sluice_chain_take(from, 1, &slice), 0);
        size_t views = 0;
        while (sluice_chain_append_slice(hoard, &slice) == 0)
            views++;
        sluice_slice_release(&slice);
        sluice_chain_skip(from, 5);
        assert_true(views > delivered);
        sluice_chain_skip(hoard, delivered);

        assert_int_equal(sluice_http_body_next(&body, from, to), -ENOBUFS);
        assert_int_equal(body.total, delivered);
        assert_int_equal(sluice_chain_length(to), body.total);
        sluice_chain_free(hoard);
        assert_int_equal(sluice_http_body_next(&body, from, to), -ENOBUFS);
        assert_int_equal(sluice_chain_length(to), body.total);
        assert_int_equal(sluice_http_body_end(&body), -ECONNRESET);
        sluice_chain_free(from);
        sluice_chain_free(to);
        http_feed_pool_done(pool);
    }
}

/* A head and its chunked body, then another request, in one stream in random pieces. */
static void test_behind_a_head(void **state) {
    (void)state;
    static const char head[] = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char next[] = "GET /b HTTP/1.0\r\n\r\n";
    static struct text stream, payload;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 512);
    uint64_t seed = 1;

    stream.length = 0;
    add(&stream, head, sizeof head - 1);
    add(&stream, chunked_body, sizeof chunked_body - 1);
    add(&stream, next, sizeof next - 1);
    for (int round = 0; round < 2000; round++) {
        http_feed_cuts cuts = http_feed_random_cuts(&seed, stream.length);
        sluice_chain *from = http_feed_chain(pool), *to = http_feed_chain(pool);
        sluice_http_request request;
        sluice_http_body body;
        sluice_http *http;
        int step = 0; /* the first head, its body, the second head, done */
        size_t done = 0;

        assert_int_equal(sluice_http_new(&http), 0);
        for (size_t piece = 0; done < stream.length; piece++) {
            size_t end = http_feed_piece_end(&cuts, piece, stream.length);
            http_feed_bytes(pool, from, stream.bytes + done, end - done);
            done = end;
            for (int result = 1; result == 1 && step < 3; step += result) {
                if (step == 1)
                    result = sluice_http_body_next(&body, from, to);
                else
                    result = sluice_http_next(http, from, &request);
                assert_true(result >= 0);
                if (step == 0 && result == 1)
                    sluice_http_body_begin(&body, &request, false);
            }
        }
        assert_int_equal(step, 3);
        assert_memory_equal(request.path.text, "/b", 2);
        assert_int_equal(sluice_chain_length(from), 0);
        payload.length = 0;
        drain(to, &payload);
        assert_int_equal(payload.length, sizeof chunked_payload - 1);
        assert_memory_equal(payload.bytes, chunked_payload, payload.length);
        sluice_http_free(http);
        sluice_chain_free(from);
        sluice_chain_free(to);
    }
    http_feed_pool_done(pool);
}

/* A random body: the stream, and what must come out. */
static void make_random(uint64_t *seed, struct text *stream, struct text *payload) {
    static const char *const extensions[] = {"", ";a", " ;b=c", "\t ; d=\"e\"", ";"};
    char line[64];
    uint8_t data[400];

    stream->length = payload->length = 0;
    for (uint64_t chunks = http_feed_random(seed) % 8; chunks > 0; chunks--) {
        size_t size = 1 + http_feed_random(seed) % (http_feed_random(seed) % 2 ? sizeof data : 20);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)http_feed_random(seed);
        const char *format = http_feed_random(seed) % 2 ? "%zx%s\r\n" : "%08zX%s\r\n";
        add(stream, line, (size_t)sprintf(line, format, size, extensions[http_feed_random(seed) % 5]));
        add(stream, data, size);
        add(stream, "\r\n", 2);
        add(payload, data, size);
    }
    add(stream, line, (size_t)sprintf(line, "0%s\r\n", extensions[http_feed_random(seed) % 5]));
    for (uint64_t trailers = http_feed_random(seed) % 3; trailers > 0; trailers--)
        add(stream, "Name: value\r\n", 13);
    add(stream, "\r\n", 2);
}

static void test_random(void **state) {
    (void)state;
    static struct text stream, payload;
    sluice_pool *pool = http_feed_pool(SMALL_BLOCK, 1024);
    uint64_t seed = 0x9E3779B97F4A7C15;
    size_t refused = 0;

    for (int round = 0; round < 5000; round++) {
        make_random(&seed, &stream, &payload);
        size_t length = stream.length;
        add(&stream, "GET /", http_feed_random(&seed) % 6);
        http_feed_cuts cuts = http_feed_random_cuts(&seed, stream.length);
        run_pieces(pool, chunked(), stream.bytes, stream.length, &cuts, &other);
        assert_int_equal(other.result, 1);
        assert_int_equal(other.consumed, length);
        assert_int_equal(other.total, payload.length);
        assert_memory_equal(other.payload.bytes, payload.bytes, payload.length);

        /* With a byte changed, whatever comes of it does not depend on the cuts. */
        static const char telling[] = "\r\n\0 ;:0fg\t";
        stream.bytes[http_feed_random(&seed) % length] = telling[http_feed_random(&seed) % (sizeof telling - 1)];
        run_pieces(pool, chunked(), stream.bytes, stream.length, &HTTP_FEED_WHOLE, &whole);
        run_pieces(pool, chunked(), stream.bytes, stream.length, &cuts, &other);
        assert_same(&other, &whole, "a random body");
        refused += whole.result < 0;
    }
    assert_true(refused > 500);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunked_every_cut),    cmocka_unit_test(test_chunked_valid),
        cmocka_unit_test(test_chunked_invalid),      cmocka_unit_test(test_line_limits),
        cmocka_unit_test(test_by_reference),         cmocka_unit_test(test_length),
        cmocka_unit_test(test_none_and_until_close), cmocka_unit_test(test_empty_chain),
        cmocka_unit_test(test_tiny_chunks),          cmocka_unit_test(test_no_views),
        cmocka_unit_test(test_behind_a_head),        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("http_body", tests, NULL, NULL);
}
