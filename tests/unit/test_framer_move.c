/*
 * Framers and readers that go with their connection to another loop and back, at every byte of what
 * they read: what they make of the bytes does not depend on where they are.
 */
#include <sluice/conn.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/flv.h>
#include <sluice/headers.h>
#include <sluice/http.h>
#include <sluice/loop.h>
#include <sluice/reader.h>
#include <sluice/resp.h>
#include <sluice/rtmp.h>
#include <sluice/rtsp.h>
#include <sluice/websocket.h>

#include "memory/chain.h"
#include "support/sockets.h"

enum {
    GUARD = 120,
    MOST = 8192, /* bytes of a transcript */
};

/* What has been read, as text. */
typedef struct transcript {
    char text[MOST];
    size_t length;
} transcript;

__attribute__((format(printf, 2, 3))) static void say(transcript *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(t->text + t->length, MOST - t->length, format, arguments);
    va_end(arguments);
    assert_in_range(n, 0, MOST - t->length - 1);
    t->length += (size_t)n;
}

static void say_bytes(transcript *t, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        say(t, "%02x", ((const uint8_t *)bytes)[i]);
}

static void say_slice(transcript *t, const sluice_slice *slice) {
    struct iovec pieces[512];
    size_t count = sluice_slice_iov(slice, 0, pieces, 512);
    assert_true(count <= 512);
    for (size_t i = 0; i < count; i++)
        say_bytes(t, pieces[i].iov_base, pieces[i].iov_len);
}

/* Something that reads a connection's bytes, and what it is fed. */
struct journey;
typedef struct subject {
    const char *name;
    const void *bytes;
    size_t size;
    void (*open)(struct journey *j);
    void (*read)(struct journey *j);  /* all that there is to be had now */
    void (*leave)(struct journey *j); /* in the detached callback; NULL: nothing to be done */
    void (*settle)(struct journey *j);
    void (*close)(struct journey *j);
} subject;

/* Two loops, each with its pool, and a connection that goes to and fro. */
typedef struct journey {
    const subject *subject;
    loop_rig rigs[2];
    int at, peer;
    sluice_conn *conn;
    sluice_conn_handover handover;
    unsigned detached;
    size_t sent;
    transcript said;
    union {
        sluice_flv *flv;
        sluice_http *http;
        sluice_rtsp *rtsp;
        sluice_rtmp *rtmp;
        sluice_resp *resp;
        sluice_websocket *websocket;
        sluice_reader *reader;
    };
    sluice_headers *headers;
    bool in_body, is_open;
    sluice_http_body body;
    sluice_chain *to;
    unsigned step;
    uint64_t owed;
} journey;

static sluice_chain *chain_of(journey *j) {
    return sluice_conn_chain(j->conn);
}

static const sluice_conn_events quiet = {.size = sizeof quiet};

static void left(const sluice_conn_handover *handover, void *user) {
    journey *j = user;
    j->handover = *handover;
    if (j->subject->leave)
        j->subject->leave(j);
    j->detached++;
}

/* By way of where an allocator is likely to give the same address again: the old connection is
 * freed before. */
static void move(journey *j) {
    unsigned detached = j->detached;
    assert_int_equal(sluice_conn_detach(j->conn, left, j), 0);
    turn_until_count(j->rigs[j->at].loop, &j->detached, detached + 1);
    j->at = !j->at;
    assert_int_equal(sluice_conn_adopt(j->rigs[j->at].loop, &j->handover, &quiet, NULL, &j->conn), 0);
    assert_true(chain_is_sound(chain_of(j)));
    if (j->subject->settle)
        j->subject->settle(j);
}

static void send_up_to(journey *j, size_t end) {
    if (end == j->sent)
        return;
    sockets_write(j->peer, (const uint8_t *)j->subject->bytes + j->sent, end - j->sent);
    j->sent = end;
    while (sluice_chain_consumed(chain_of(j)) + sluice_chain_length(chain_of(j)) < end)
        turn(j->rigs[j->at].loop);
    j->subject->read(j);
    assert_true(chain_is_sound(chain_of(j)));
}

static void journey_open(journey *j, const subject *what) {
    int fds[2];
    *j = (journey){.subject = what};
    for (int i = 0; i < 2; i++)
        loop_rig_open(&j->rigs[i], NULL, NULL, GUARD);
    sockets_unix_pair(fds);
    j->peer = fds[1];
    assert_int_equal(sluice_conn_new(j->rigs[0].loop, fds[0], &quiet, NULL, &j->conn), 0);
    what->open(j);
    if (what->settle)
        what->settle(j);
}

/* The second pool refers to blocks of the first, and the other way round: loops end first. Copies
 * of text may be. */
static void journey_close(journey *j) {
    j->subject->close(j);
    sluice_conn_close(j->conn);
    close(j->peer);
    for (int i = 0; i < 2; i++)
        sluice_loop_free(j->rigs[i].loop);
    for (int i = 0; i < 2; i++) {
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(j->rigs[i].pool, &stats);
        assert_int_equal(stats.held, 0);
        assert_int_equal(stats.views, 0);
    }
    for (int i = 0; i < 2; i++)
        sluice_pool_free(j->rigs[i].pool);
    hang_guard(0);
}

static void assert_same(const journey *j, const transcript *expected, const char *how, size_t place) {
    if (strcmp(j->said.text, expected->text) != 0)
        fail_msg("%s, moved %s %zu:\n%s\ninstead of\n%s", j->subject->name, how, place, j->said.text, expected->text);
}

static void goes_anywhere(const subject *what) {
    static journey j;
    static transcript expected;
    journey_open(&j, what);
    send_up_to(&j, what->size);
    expected = j.said;
    assert_true(expected.length > 0);
    journey_close(&j);

    /* Byte by byte, and moved before each. */
    journey_open(&j, what);
    for (size_t n = 1; n <= what->size; n++) {
        move(&j);
        send_up_to(&j, n);
    }
    assert_same(&j, &expected, "before each byte", what->size);
    journey_close(&j);

    /* Moved once, and back some bytes later, when there is nothing new. */
    for (size_t n = 0; n <= what->size; n++) {
        size_t back = n + 3 < what->size ? n + 3 : what->size;
        journey_open(&j, what);
        send_up_to(&j, n);
        move(&j);
        what->read(&j);
        send_up_to(&j, back);
        move(&j);
        move(&j);
        move(&j);
        send_up_to(&j, what->size);
        assert_same(&j, &expected, "at byte", n);
        journey_close(&j);
    }
}

/* FLV. */

#define FLV_TAG(type, size, time) type "\0\0" size "\0\0" time "\0\0\0\0"
static const char flv_bytes[] = "FLV\1\5\0\0\0\11\0\0\0\0" FLV_TAG("\10", "\5", "\1") "\257\1abc\0\0\0\20" FLV_TAG(
    "\17", "\6", "\2") "ignore\0\0\0\21" FLV_TAG("\11", "\12", "\3") "\27\1\0\0\0defgh\0\0\0\25";

static void flv_open(journey *j) {
    assert_int_equal(sluice_flv_new(0, &j->flv), 0);
}

static void flv_read(journey *j) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(j->flv, chain_of(j), &tag)) > 0) {
        say(&j->said, "%d at %u: ", tag->type, tag->timestamp);
        say_slice(&j->said, &tag->payload);
        say(&j->said, "\n");
    }
    assert_int_equal(result, 0);
}

static void flv_close(journey *j) {
    sluice_flv_free(j->flv);
}

static void flv_goes_anywhere(void **state) {
    (void)state;
    goes_anywhere(&(subject){"FLV", flv_bytes, sizeof flv_bytes - 1, flv_open, flv_read, NULL, NULL, flv_close});
}

/* HTTP, heads and bodies. */

static const char http_bytes[] = "\r\nGET /a?b HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n"
                                 "POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "5;ext=1\r\nhello\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"
                                 "PUT /it HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n1234567"
                                 "GET / HTTP/1.1\r\nHost: last\r\n\r\n";

static void http_open(journey *j) {
    assert_int_equal(sluice_http_new(&j->http), 0);
}

/* What has come of a body is the user's, in a chain of the loop's pool. */
static void http_settle(journey *j) {
    sluice_chain *to;
    sluice_slice slice;
    assert_int_equal(sluice_chain_new(j->rigs[j->at].pool, &to), 0);
    if (j->to) {
        assert_int_equal(sluice_chain_take(j->to, sluice_chain_length(j->to), &slice), 0);
        assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
        sluice_slice_release(&slice);
    }
    sluice_chain_free(j->to);
    j->to = to;
}

static bool http_read_body(journey *j) {
    sluice_slice slice;
    int result = sluice_http_body_next(&j->body, chain_of(j), j->to);
    assert_in_range(result, 0, 1);
    if (result == 0)
        return false;
    j->in_body = false;
    assert_int_equal(sluice_chain_take(j->to, sluice_chain_length(j->to), &slice), 0);
    say_slice(&j->said, &slice);
    sluice_slice_release(&slice);
    say(&j->said, "\n");
    return true;
}

static void http_read(journey *j) {
    sluice_http_request request;
    for (;;) {
        if (j->in_body && !http_read_body(j))
            return;
        int result = sluice_http_next(j->http, chain_of(j), &request);
        assert_in_range(result, 0, 1);
        if (result == 0)
            return;
        say(&j->said, "%.*s %.*s", (int)request.method.length, request.method.text, (int)request.target.length,
            request.target.text);
        for (size_t i = 0; i < request.header_count; i++)
            say(&j->said, " %.*s", (int)request.headers[i].value.length, request.headers[i].value.text);
        say(&j->said, "\n");
        sluice_http_body_begin(&j->body, &request, false);
        j->in_body = true;
    }
}

static void http_close(journey *j) {
    sluice_http_free(j->http);
    sluice_chain_free(j->to);
}

static void http_goes_anywhere(void **state) {
    (void)state;
    goes_anywhere(
        &(subject){"HTTP", http_bytes, sizeof http_bytes - 1, http_open, http_read, NULL, http_settle, http_close});
}

/* RTSP, with bytes that belong to nothing. */

static const char rtsp_bytes[] = "\r\nOPTIONS * RTSP/1.0\r\nCSeq: 1\r\nX: a\r\n b\r\n\r\n"
                                 "$\0\0\5\200abcd"
                                 "junk$ANNOUNCE rtsp://h/s RTSP/1.0\r\nCSeq: 2\r\nContent-Length: 6\r\n\r\nv=0\r\n."
                                 "RTSP/1.0 200 OK\r\nCSeq: 3\r\n\r\n";

static void rtsp_open(journey *j) {
    assert_int_equal(
        sluice_rtsp_new(&(sluice_rtsp_options){.size = sizeof(sluice_rtsp_options), .max_skip = 1000}, &j->rtsp), 0);
}

static void rtsp_read(journey *j) {
    sluice_rtsp_message *message;
    int result;
    while ((result = sluice_rtsp_next(j->rtsp, chain_of(j), &message)) > 0) {
        say(&j->said, "%d, %lld behind %zu:", message->kind, (long long)message->cseq, message->skipped);
        for (size_t i = 0; message->kind != SLUICE_RTSP_INTERLEAVED && i < message->header_count; i++)
            say(&j->said, " %.*s", (int)message->headers[i].value.length, message->headers[i].value.text);
        say_slice(&j->said, &message->payload);
        say(&j->said, "\n");
    }
    assert_int_equal(result, 0);
}

static void rtsp_close(journey *j) {
    sluice_rtsp_free(j->rtsp);
}

static void rtsp_goes_anywhere(void **state) {
    (void)state;
    goes_anywhere(&(subject){"RTSP", rtsp_bytes, sizeof rtsp_bytes - 1, rtsp_open, rtsp_read, NULL, NULL, rtsp_close});
}

/* RTMP: a sound inside a picture, another chunk size, a message that is aborted. */

enum { RTMP_MOST = 1024 };

static size_t rtmp_chunks(sluice_rtmp_chunking *chunking, uint8_t *to, size_t count, uint8_t fill) {
    sluice_rtmp_chunk chunk;
    size_t n = 0;
    for (; count > 0 && sluice_rtmp_chunk_next(chunking, &chunk) == 1; count--) {
        memcpy(to + n, chunk.header, chunk.header_size);
        for (uint32_t i = 0; i < chunk.length; i++)
            to[n + chunk.header_size + i] = (uint8_t)(fill + chunk.offset + i);
        n += chunk.header_size + chunk.length;
    }
    return n;
}

static size_t rtmp_control(uint8_t *to, uint8_t type, uint32_t value) {
    const sluice_rtmp_control control = {.type = type, .value = value};
    return (size_t)sluice_rtmp_write_control(to, &control);
}

static size_t rtmp_make(uint8_t bytes[RTMP_MOST]) {
    const sluice_rtmp_message video = {
        .type = SLUICE_RTMP_VIDEO, .chunk_stream = 6, .stream = 1, .timestamp = 0x1000000, .size = 300};
    const sluice_rtmp_message audio = {
        .type = SLUICE_RTMP_AUDIO, .chunk_stream = 400, .stream = 1, .timestamp = 40, .size = 20};
    sluice_rtmp_chunking picture, sound;
    assert_int_equal(sluice_rtmp_chunk_begin(&picture, &video, 128), 0);
    assert_int_equal(sluice_rtmp_chunk_begin(&sound, &audio, 128), 0);
    size_t n = rtmp_chunks(&picture, bytes, 2, 1);
    n += rtmp_chunks(&sound, bytes + n, 1, 2);
    n += rtmp_chunks(&picture, bytes + n, 1, 1);
    assert_int_equal(sluice_rtmp_chunk_begin(&picture, &video, 128), 0);
    n += rtmp_chunks(&picture, bytes + n, 1, 3);
    n += rtmp_control(bytes + n, SLUICE_RTMP_ABORT, 6);
    n += rtmp_control(bytes + n, SLUICE_RTMP_SET_CHUNK_SIZE, 4096);
    assert_int_equal(sluice_rtmp_chunk_begin(&picture, &video, 4096), 0);
    return n + rtmp_chunks(&picture, bytes + n, 1, 4);
}

static void rtmp_open(journey *j) {
    assert_int_equal(sluice_rtmp_new(NULL, &j->rtmp), 0);
}

static void rtmp_read(journey *j) {
    sluice_rtmp_message *message;
    int result;
    while ((result = sluice_rtmp_next(j->rtmp, chain_of(j), &message)) > 0) {
        say(&j->said, "%u on %u at %u:", message->type, message->chunk_stream, message->timestamp);
        say_slice(&j->said, &message->payload);
        say(&j->said, "\n");
    }
    assert_int_equal(result, 0);
}

static void rtmp_close(journey *j) {
    sluice_rtmp_free(j->rtmp);
}

static void rtmp_goes_anywhere(void **state) {
    static uint8_t bytes[RTMP_MOST];
    const size_t size = rtmp_make(bytes);
    (void)state;
    goes_anywhere(&(subject){"RTMP", bytes, size, rtmp_open, rtmp_read, NULL, NULL, rtmp_close});
}

/* RESP, whole replies. */

static const char resp_bytes[] = "+OK\r\n*3\r\n$5\r\nhello\r\n:42\r\n*2\r\n=8\r\ntxt:some\r\n#t\r\n"
                                 "%1\r\n+key\r\n,1.5\r\n>2\r\n+push\r\n_\r\n-ERR no\r\n";

static void resp_open(journey *j) {
    assert_int_equal(sluice_resp_new(NULL, &j->resp), 0);
}

static void resp_read(journey *j) {
    sluice_resp_reply *reply;
    int result;
    while ((result = sluice_resp_next(j->resp, chain_of(j), &reply)) > 0) {
        sluice_resp_value value = reply->value;
        do {
            say(&j->said, "%c%u %lld ", value.type, value.count, (long long)value.integer);
            say_slice(&j->said, &value.text);
        } while (sluice_resp_walk_next(&reply->elements, &value));
        say(&j->said, "\n");
    }
    assert_int_equal(result, 0);
}

static void resp_close(journey *j) {
    sluice_resp_free(j->resp);
}

static void resp_goes_anywhere(void **state) {
    (void)state;
    goes_anywhere(&(subject){"RESP", resp_bytes, sizeof resp_bytes - 1, resp_open, resp_read, NULL, NULL, resp_close});
}

/* Bulk strings that leave in pieces. */

static const char bulk_bytes[] = "$11\r\nin pieces..\r\n$0\r\n\r\n$4\r\nlast\r\n";

static void bulk_read(journey *j) {
    sluice_slice piece;
    for (;;) {
        uint64_t length;
        if (!j->is_open) {
            int result = sluice_resp_bulk_open(j->resp, chain_of(j), &length);
            assert_in_range(result, 0, 1);
            if (result == 0)
                return;
            j->is_open = true;
            say(&j->said, "%llu: ", (unsigned long long)length);
        }
        while (sluice_resp_bulk_left(j->resp) > 0 && sluice_resp_bulk_take(j->resp, chain_of(j), 100, &piece) == 1) {
            say_slice(&j->said, &piece);
            sluice_slice_release(&piece);
        }
        if (sluice_resp_bulk_left(j->resp) > 0 || sluice_resp_bulk_close(j->resp, chain_of(j)) == 0)
            return;
        say(&j->said, "\n");
        j->is_open = false;
    }
}

static void bulk_strings_go_anywhere(void **state) {
    (void)state;
    goes_anywhere(
        &(subject){"bulk strings", bulk_bytes, sizeof bulk_bytes - 1, resp_open, bulk_read, NULL, NULL, resp_close});
}

/* WebSocket: fragmented messages, one after the other, control frames between, text that is cut
 * inside a character. */

static size_t add_frame(uint8_t *to, bool last, sluice_websocket_opcode opcode, const char *payload, size_t n) {
    const uint8_t mask[] = {0x37, 0xfa, 0x21, 0x3d};
    uint8_t *at = to;
    *at++ = (uint8_t)((last ? 0x80 : 0) | opcode);
    *at++ = (uint8_t)(0x80 | n);
    memcpy(at, mask, sizeof mask);
    at += sizeof mask;
    memcpy(at, payload, n);
    sluice_websocket_mask(at, n, mask, 0);
    return (size_t)(at + n - to);
}

static size_t websocket_bytes(uint8_t *to) {
    uint8_t *at = to;
    for (int i = 0; i < 2; i++) {
        at += add_frame(at, false, SLUICE_WEBSOCKET_TEXT, "a\xc3", 2);
        at += add_frame(at, true, SLUICE_WEBSOCKET_PING, "now?", 4);
        at += add_frame(at, false, SLUICE_WEBSOCKET_CONTINUATION, "\xa4 and", 5);
        at += add_frame(at, false, SLUICE_WEBSOCKET_CONTINUATION, "", 0);
        at += add_frame(at, true, SLUICE_WEBSOCKET_CONTINUATION, " more", 5);
        at += add_frame(at, true, SLUICE_WEBSOCKET_BINARY, "whole", 5);
    }
    at += add_frame(at, true, SLUICE_WEBSOCKET_CLOSE,
                    "\x03\xe8"
                    "bye",
                    5);
    return (size_t)(at - to);
}

static void websocket_open(journey *j) {
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, NULL, &j->websocket), 0);
}

static void pieces_open(journey *j) {
    const sluice_websocket_options options = {.size = sizeof options, .pieces = true};
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, &options, &j->websocket), 0);
}

/* In how many pieces data comes depends on how it is sent; a control frame between them does
 * not. */
static void websocket_read(journey *j) {
    sluice_websocket_message *message;
    int result;
    while ((result = sluice_websocket_next(j->websocket, chain_of(j), &message)) > 0) {
        if (message->first)
            say(&j->said, "%d %u:", message->opcode, message->close_code);
        say_slice(&j->said, &message->payload);
        if (message->last)
            say(&j->said, "\n");
    }
    if (result < 0)
        fail_msg("WebSocket failed with %d behind %zu bytes", result, j->sent);
}

static void websocket_close(journey *j) {
    sluice_websocket_free(j->websocket);
}

static void websocket_goes_anywhere(void **state) {
    (void)state;
    uint8_t bytes[512];
    size_t size = websocket_bytes(bytes);
    goes_anywhere(&(subject){"WebSocket", bytes, size, websocket_open, websocket_read, NULL, NULL, websocket_close});
    goes_anywhere(&(subject){"pieces", bytes, size, pieces_open, websocket_read, NULL, NULL, websocket_close});
}

/* A reader: attached anew where the connection arrives, with what skips owe; and header blocks. */

static const char reader_bytes[] = "a line\r\nanother one\n\1\2\3\4\5skipped bytes...\345\216\046"
                                   "Key: value\r\nOther:  one \r\n\r\nthe rest";

static void reader_open(journey *j) {
    assert_int_equal(sluice_reader_new(chain_of(j), &j->reader), 0);
    assert_int_equal(sluice_headers_new(NULL, &j->headers), 0);
}

static void reader_leave(journey *j) {
    uint64_t value;
    char byte;
    size_t done;
    j->owed = sluice_reader_skipping(j->reader);
    /* It is cut off, and says so whatever it is asked; nothing of the handover changes. */
    assert_int_equal(sluice_reader_buffered(j->reader), 0);
    assert_int_equal(sluice_reader_total(j->reader), j->handover.consumed);
    assert_int_equal(sluice_reader_be(j->reader, 1, &value), -ECANCELED);
    assert_int_equal(sluice_reader_read(j->reader, &byte, 1, &done), -ECANCELED);
    assert_int_equal(sluice_reader_copy(j->reader, &byte, 1), 0);
    assert_int_equal(sluice_headers_read(j->headers, j->reader), -ECANCELED);
    assert_int_not_equal(sluice_reader_rewind(j->reader), 0);
}

static void reader_settle(journey *j) {
    sluice_conn_attach_reader(j->conn, j->reader);
    assert_int_equal(sluice_reader_skip(j->reader, j->owed), 0);
    j->owed = 0;
}

/* One step; false where more is needed. */
static bool reader_step(journey *j) {
    char scratch[100];
    const char *line;
    size_t length;
    uint64_t value;
    sluice_slice slice;
    int error;
    switch (j->step) {
    case 0:
    case 1:
        error = sluice_reader_line(j->reader, scratch, sizeof scratch, &line, &length);
        if (!error)
            say(&j->said, "%.*s\n", (int)length, line);
        break;
    case 2:
        /* Looked at, gone back, and read again. */
        assert_int_equal(sluice_reader_mark(j->reader, 100), 0);
        error = sluice_reader_be(j->reader, 4, &value);
        assert_int_equal(sluice_reader_rewind(j->reader), 0);
        sluice_reader_unmark(j->reader);
        if (!error)
            error = sluice_reader_be(j->reader, 5, &value);
        if (!error)
            error = sluice_reader_skip(j->reader, strlen("skipped bytes..."));
        if (!error)
            say(&j->said, "%llx\n", (unsigned long long)value);
        break;
    case 3:
        error = sluice_reader_leb128(j->reader, &value);
        if (!error)
            say(&j->said, "%llu\n", (unsigned long long)value);
        break;
    case 4:
        error = sluice_headers_read(j->headers, j->reader);
        for (size_t i = 0; !error && i < sluice_headers_count(j->headers); i++) {
            const sluice_header *header = sluice_headers_at(j->headers, i);
            say(&j->said, "%.*s=%.*s\n", (int)header->key_length, header->key, (int)header->value_length,
                header->value);
        }
        break;
    case 5:
        error = sluice_reader_slice(j->reader, strlen("the rest"), &slice);
        if (!error) {
            say_slice(&j->said, &slice);
            sluice_slice_release(&slice);
        }
        break;
    default:
        return false;
    }
    assert_true(error == 0 || error == -EAGAIN);
    j->step += error == 0;
    return error == 0;
}

static void reader_read(journey *j) {
    while (reader_step(j))
        ;
}

static void reader_close(journey *j) {
    sluice_headers_free(j->headers);
    sluice_reader_free(j->reader);
}

static void a_reader_goes_anywhere(void **state) {
    (void)state;
    goes_anywhere(&(subject){"reader", reader_bytes, sizeof reader_bytes - 1, reader_open, reader_read, reader_leave,
                             reader_settle, reader_close});
}

/* Readers may be many, may go in any order, and may stay behind: none touches a connection that has
 * gone. */
static void readers_may_outlive_their_connection(void **state) {
    (void)state;
    enum { READERS = 4 };
    for (int moves = 0; moves < 2; moves++) {
        journey j;
        sluice_reader *readers[READERS];
        const uint8_t *view;
        sluice_slice kept;
        journey_open(&j, &(subject){"flv", flv_bytes, 20, flv_open, flv_read, NULL, NULL, flv_close});
        for (int i = 0; i < READERS; i++) {
            assert_int_equal(sluice_reader_new(chain_of(&j), &readers[i]), 0);
            sluice_conn_attach_reader(j.conn, readers[i]);
        }
        sockets_write(j.peer, "0123456789", 10);
        turn_until_buffered(j.rigs[0].loop, j.conn, 10);
        /* One has a mark, one is attached twice, one is freed, one is reset; one view is kept. */
        assert_int_equal(sluice_reader_mark(readers[0], 100), 0);
        assert_int_equal(sluice_reader_slice(readers[0], 3, &kept), 0);
        sluice_conn_attach_reader(j.conn, readers[1]);
        sluice_reader_free(readers[2]);
        sluice_reader_reset(readers[3], chain_of(&j));
        if (moves) {
            move(&j);
        } else {
            sluice_conn_close(j.conn);
            turn_through(j.rigs[0].loop, 3);
            j.conn = NULL;
        }
        assert_int_equal(sluice_reader_rewind(readers[0]), -ESTALE);
        assert_int_equal(sluice_reader_peek(readers[0], 1, NULL, &view), -ECANCELED);
        assert_int_equal(sluice_reader_total(readers[0]), 3);
        assert_int_equal(sluice_reader_peek(readers[1], 1, NULL, &view), -ECANCELED);
        if (moves) {
            sluice_conn_attach_reader(j.conn, readers[1]);
            assert_int_equal(sluice_reader_peek(readers[1], 7, NULL, &view), 0);
            assert_memory_equal(view, "3456789", 7);
        }
        sluice_reader_free(readers[1]);
        sluice_slice_release(&kept);
        journey_close(&j);
        sluice_reader_free(readers[0]);
        sluice_reader_free(readers[3]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flv_goes_anywhere),
        cmocka_unit_test(http_goes_anywhere),
        cmocka_unit_test(rtsp_goes_anywhere),
        cmocka_unit_test(resp_goes_anywhere),
        cmocka_unit_test(bulk_strings_go_anywhere),
        cmocka_unit_test(websocket_goes_anywhere),
        cmocka_unit_test(rtmp_goes_anywhere),
        cmocka_unit_test(a_reader_goes_anywhere),
        cmocka_unit_test(readers_may_outlive_their_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
