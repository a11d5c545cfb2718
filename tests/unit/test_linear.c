/*
 * The work that small pieces cost: what has been looked through is not walked again when the next
 * piece comes. Counted in steps from block to block, of whatever walks; a search that begins anew
 * for each piece takes thousands of times as many.
 */
#include <sluice/http.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sluice/headers.h>
#include <sluice/reader.h>
#include <sluice/resp.h>
#include <sluice/rtmp.h>
#include <sluice/rtsp.h>
#include <sluice/websocket.h>

#include "support/http_feed.h"

uint64_t slice_steps;

enum {
    BLOCK = 512,
    PIECES = 4000,
    PER_PIECE = 4, /* steps */
    /* and so many to read what is whole: to gather it, to parse it, to take it out */
    ONCE = 6,
    LONGEST = 80000,
};

typedef struct run {
    sluice_pool *pool;
    sluice_chain *chain;
    char *bytes;
    size_t length;
} run;

static int set_up(void **state) {
    static run r;
    r = (run){.pool = http_feed_pool(BLOCK, PIECES + 1000), .bytes = malloc(LONGEST + 1)};
    assert_non_null(r.bytes);
    r.chain = http_feed_chain(r.pool);
    *state = &r;
    return 0;
}

static int tear_down(void **state) {
    run *r = *state;
    sluice_chain_free(r->chain);
    sluice_pool_free(r->pool);
    free(r->bytes);
    return 0;
}

static void add(run *r, const char *text) {
    assert_true(r->length + strlen(text) <= LONGEST);
    memcpy(r->bytes + r->length, text, strlen(text));
    r->length += strlen(text);
}

static void add_many(run *r, const char *text, size_t up_to) {
    while (r->length + strlen(text) <= up_to)
        add(r, text);
}

/* In some thousand pieces; the last of them, and no other, ends something. */
static void feed_all(run *r, int next(run *r, void *framer), void *framer) {
    size_t piece = r->length / PIECES, pieces = 0;
    assert_in_range(piece, 1, BLOCK);
    slice_steps = 0;
    for (size_t done = 0; done < r->length; pieces++) {
        size_t here = piece < r->length - done ? piece : r->length - done;
        http_feed_bytes(r->pool, r->chain, r->bytes + done, here);
        done += here;
        int result = next(r, framer);
        if (result != (done == r->length))
            fail_msg("%d behind %zu of %zu bytes", result, done, r->length);
    }
    if (slice_steps > pieces * (PER_PIECE + ONCE))
        fail_msg("%llu steps for %zu pieces", (unsigned long long)slice_steps, pieces);
    assert_true(slice_steps > 0);
}

static int next_http(run *r, void *framer) {
    sluice_http_request request;
    return sluice_http_next(framer, r->chain, &request);
}

static void http_heads(void **state) {
    run *r = *state;
    sluice_http *http;
    assert_int_equal(sluice_http_new(&http), 0);
    add(r, "GET / HTTP/1.1\r\nHost: x\r\n");
    add(r, "Long: ");
    add_many(r, "x", SLUICE_HTTP_MAX_HEAD - 10);
    add(r, "\r\n\r\n");
    feed_all(r, next_http, http);
    sluice_http_free(http);
}

static int next_response(run *r, void *framer) {
    sluice_http_response response;
    return sluice_http_next_response(framer, r->chain, "GET", &response);
}

static void http_responses(void **state) {
    run *r = *state;
    sluice_http *http;
    assert_int_equal(sluice_http_new(&http), 0);
    add(r, "HTTP/1.1 200 ");
    add_many(r, "reason ", SLUICE_HTTP_MAX_HEAD - 10);
    add(r, "\r\n\r\n");
    feed_all(r, next_response, http);
    sluice_http_free(http);
}

static int next_rtsp(run *r, void *framer) {
    sluice_rtsp_message *message;
    return sluice_rtsp_next(framer, r->chain, &message);
}

static void rtsp_heads(void **state) {
    run *r = *state;
    sluice_rtsp *rtsp;
    const sluice_rtsp_options options = {.size = sizeof options, .max_head = 1 << 20, .max_headers = 10000};
    assert_int_equal(sluice_rtsp_new(&options, &rtsp), 0);
    add(r, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n");
    add_many(r, "Another: header, and another\r\n", LONGEST - 10);
    add(r, "\r\n");
    feed_all(r, next_rtsp, rtsp);
    sluice_rtsp_free(rtsp);
}

/* The start line alone, which is checked as soon as it is there. */
static void rtsp_start_lines(void **state) {
    run *r = *state;
    sluice_rtsp *rtsp;
    const sluice_rtsp_options options = {.size = sizeof options, .max_head = 1 << 20, .max_url = 1 << 20};
    assert_int_equal(sluice_rtsp_new(&options, &rtsp), 0);
    add(r, "OPTIONS rtsp://");
    add_many(r, "host/", LONGEST - 30);
    add(r, " RTSP/1.0\r\n\r\n");
    feed_all(r, next_rtsp, rtsp);
    sluice_rtsp_free(rtsp);
}

static int next_resp(run *r, void *framer) {
    sluice_resp_reply *reply;
    return sluice_resp_next(framer, r->chain, &reply);
}

static void resp_lines(void **state) {
    run *r = *state;
    sluice_resp *resp;
    assert_int_equal(sluice_resp_new(&(sluice_resp_limits){.size = sizeof(sluice_resp_limits), .line = 1 << 20}, &resp),
                     0);
    add(r, "+");
    add_many(r, "a long simple string ", LONGEST - 10);
    add(r, "\r\n");
    feed_all(r, next_resp, resp);
    sluice_resp_free(resp);
}

static void resp_aggregates(void **state) {
    run *r = *state;
    sluice_resp *resp;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    add(r, "*7000\r\n");
    for (int i = 0; i < 7000; i++)
        add(r, i % 2 ? "$3\r\nabc\r\n" : ":42\r\n");
    feed_all(r, next_resp, resp);
    sluice_resp_free(resp);
}

static int next_headers(run *r, void *framer) {
    void **pair = framer;
    (void)r;
    int error = sluice_headers_read(pair[0], pair[1]);
    assert_true(error == 0 || error == -EAGAIN);
    return error == 0;
}

static void header_blocks(void **state) {
    run *r = *state;
    sluice_headers *headers;
    sluice_reader *reader;
    const sluice_headers_options options = {.size = sizeof options, .max_count = 10000, .max_total = 1 << 20};
    assert_int_equal(sluice_headers_new(&options, &headers), 0);
    assert_int_equal(sluice_reader_new(r->chain, &reader), 0);
    add_many(r, "Another: header, and another\r\n", LONGEST - 10);
    add(r, "\r\n");
    feed_all(r, next_headers, (void *[]){headers, reader});
    sluice_headers_free(headers);
    sluice_reader_free(reader);
}

static int next_line(run *r, void *framer) {
    static char scratch[LONGEST];
    const char *line;
    size_t length;
    (void)r;
    int error = sluice_reader_line(framer, scratch, sizeof scratch, &line, &length);
    assert_true(error == 0 || error == -EAGAIN);
    return error == 0;
}

static int next_line_bytes(run *r, void *framer) {
    sluice_bytes bytes;
    const char *line;
    size_t length;
    (void)r;
    sluice_bytes_init(&bytes, LONGEST);
    int error = sluice_reader_line_bytes(framer, &bytes, &line, &length);
    assert_true(error == 0 || error == -EAGAIN);
    sluice_bytes_free(&bytes);
    return error == 0;
}

static void lines(void **state) {
    run *r = *state;
    sluice_reader *reader;
    assert_int_equal(sluice_reader_new(r->chain, &reader), 0);
    add_many(r, "a line that goes on and on ", LONGEST - 10);
    add(r, "\r\n");
    feed_all(r, next_line, reader);
    feed_all(r, next_line_bytes, reader);
    sluice_reader_free(reader);
}

static int next_websocket(run *r, void *framer) {
    sluice_websocket_message *message;
    return sluice_websocket_next(framer, r->chain, &message);
}

/* Text is unmasked and checked as it comes. */
static void websocket_text(void **state) {
    run *r = *state;
    sluice_websocket *ws;
    const char header[] = {(char)0x81, (char)0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    enum { TEXT = 1 << 16 };
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, NULL, &ws), 0);
    memcpy(r->bytes, header, sizeof header);
    r->length = sizeof header;
    add_many(r, "x", sizeof header + TEXT);
    feed_all(r, next_websocket, ws);
    sluice_websocket_free(ws);
}

static int next_rtmp(run *r, void *framer) {
    sluice_rtmp_message *message;
    return sluice_rtmp_next(framer, r->chain, &message);
}

/* A message of hundreds of chunks, each of which comes in pieces. */
static void rtmp_chunks(void **state) {
    run *r = *state;
    enum { SIZE = 60000, CHUNK = 200 };
    const sluice_rtmp_message message = {.type = SLUICE_RTMP_VIDEO, .chunk_stream = 6, .stream = 1, .size = SIZE};
    const sluice_rtmp_control control = {.type = SLUICE_RTMP_SET_CHUNK_SIZE, .value = CHUNK};
    sluice_rtmp *rtmp;
    sluice_rtmp_message *set;
    sluice_rtmp_chunking chunking;
    sluice_rtmp_chunk chunk;
    assert_int_equal(sluice_rtmp_new(NULL, &rtmp), 0);
    const int size = sluice_rtmp_write_control((uint8_t *)r->bytes, &control);
    http_feed_bytes(r->pool, r->chain, r->bytes, (size_t)size);
    assert_int_equal(sluice_rtmp_next(rtmp, r->chain, &set), 1);
    assert_int_equal(sluice_rtmp_chunk_begin(&chunking, &message, CHUNK), 0);
    while (sluice_rtmp_chunk_next(&chunking, &chunk) == 1) {
        memcpy(r->bytes + r->length, chunk.header, chunk.header_size);
        memset(r->bytes + r->length + chunk.header_size, 'x', chunk.length);
        r->length += chunk.header_size + chunk.length;
    }
    feed_all(r, next_rtmp, rtmp);
    sluice_rtmp_free(rtmp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(http_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(http_responses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rtsp_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rtsp_start_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resp_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(resp_aggregates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(header_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(websocket_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rtmp_chunks, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
