#include "support/reader_calls.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/bytes.h>

static int read_u8(reading *r, const reader_call *call) {
    uint8_t byte = 77;
    int error = sluice_reader_u8(r->reader, &byte);
    assert_int_equal(byte, error ? 77 : (uint8_t)call->bytes[0]);
    return error;
}

static int read_be(reading *r, const reader_call *call) {
    uint64_t value = 77;
    int error = sluice_reader_be(r->reader, (unsigned)call->length, &value);
    assert_true(value == (error ? 77 : 0x223344));
    return error;
}

static int read_le(reading *r, const reader_call *call) {
    uint64_t value = 77;
    int error = sluice_reader_le(r->reader, (unsigned)call->length, &value);
    assert_true(value == (error ? 77 : 0x9988776655));
    return error;
}

static int read_leb128(reading *r, const reader_call *call) {
    uint64_t value = 77;
    (void)call;
    int error = sluice_reader_leb128(r->reader, &value);
    assert_true(value == (error ? 77 : 624485));
    return error;
}

static int peek_and_slice(reading *r, const reader_call *call) {
    uint8_t scratch[16];
    const uint8_t *view = NULL;
    sluice_slice slice = {.length = 77};
    int error = sluice_reader_peek(r->reader, call->length, scratch, &view);
    if (error) {
        assert_null(view);
        assert_int_equal(sluice_reader_slice(r->reader, call->length, &slice), error);
        assert_int_equal(slice.length, 77);
        return error;
    }
    assert_memory_equal(view, call->bytes, call->length);
    assert_int_equal(sluice_reader_slice(r->reader, call->length, &slice), 0);
    assert_int_equal(sluice_slice_copy(&slice, 0, scratch, sizeof scratch), call->length);
    assert_memory_equal(scratch, call->bytes, call->length);
    sluice_slice_release(&slice);
    return 0;
}

static void assert_line(int error, const char *line, size_t length, const reader_call *call) {
    if (error) {
        assert_null(line);
        assert_int_equal(length, 77);
        return;
    }
    assert_int_equal(length, strcspn(call->bytes, "\r\n"));
    assert_memory_equal(line, call->bytes, length);
}

static int read_line(reading *r, const reader_call *call) {
    char scratch[32];
    const char *line = NULL;
    size_t length = 77;
    int error = sluice_reader_line(r->reader, scratch, sizeof scratch, &line, &length);
    assert_line(error, line, length, call);
    return error;
}

static int read_line_bytes(reading *r, const reader_call *call) {
    sluice_bytes bytes;
    const char *line = NULL;
    size_t length = 77;
    sluice_bytes_init(&bytes, 32);
    int error = sluice_reader_line_bytes(r->reader, &bytes, &line, &length);
    assert_line(error, line, length, call);
    sluice_bytes_free(&bytes);
    return error;
}

static int read_headers(reading *r, const reader_call *call) {
    (void)call;
    int error = sluice_headers_read(r->headers, r->reader);
    assert_int_equal(sluice_headers_count(r->headers), error ? 0 : 2);
    if (!error)
        assert_memory_equal(sluice_headers_find(r->headers, "other")->value, "w", 1);
    sluice_headers_clear(r->headers);
    return error;
}

/* Twice: with a mark, and gone back. */
static int read_marked(reading *r, const reader_call *call) {
    uint64_t first = 0, second = 0;
    int error = sluice_reader_mark(r->reader, 100);
    if (error)
        return error;
    error = sluice_reader_be(r->reader, (unsigned)call->length, &first);
    if (!error) {
        assert_int_equal(sluice_reader_rewind(r->reader), 0);
        assert_int_equal(sluice_reader_be(r->reader, (unsigned)call->length, &second), 0);
        assert_true(first == second && first == 0x6D61726B);
    }
    sluice_reader_unmark(r->reader);
    return error;
}

/* The debt stays when the call fails: it is not made anew. */
static int skip_over(reading *r, const reader_call *call) {
    int error = sluice_reader_skip(r->reader, r->owes ? 0 : call->length);
    uint64_t owed = sluice_reader_skipping(r->reader);
    r->owes = owed > 0;
    r->part = call->length - (size_t)owed;
    if (error)
        assert_true(r->owes);
    return r->owes && !error ? -EAGAIN : error;
}

bool reading_see(const uint8_t *view, size_t length, void *user) {
    reading *r = user;
    assert_true(length > 0 && r->part + length <= sizeof r->seen);
    memcpy(r->seen + r->part, view, length);
    r->part += length;
    return true;
}

static int finish_part(reading *r, const reader_call *call, int error) {
    assert_true(error ? r->part < call->length : r->part == call->length);
    assert_memory_equal(r->seen, call->bytes, r->part);
    return error;
}

static int read_range(reading *r, const reader_call *call) {
    size_t done = 77, before = r->part;
    int error = sluice_reader_range(r->reader, call->length - r->part, reading_see, r, &done);
    assert_int_equal(r->part, before + done);
    return finish_part(r, call, error);
}

/* Byte by byte, and the last but one as who parses in place does. */
static int read_window(reading *r, const reader_call *call) {
    sluice_reader_window window = {0};
    uint64_t total = sluice_reader_total(r->reader) - r->part;
    int error = 0;
    while (!error && r->part < call->length) {
        uint8_t byte = 77;
        error = sluice_reader_window_u8(r->reader, &window, &byte);
        if (error)
            break;
        r->seen[r->part++] = byte;
        if (window.at < window.end && r->part + 1 < call->length)
            r->seen[r->part++] = *window.at++;
    }
    assert_true(!error || (!window.at && !window.end));
    assert_int_equal(sluice_reader_close_window(r->reader, &window), 0);
    assert_null(window.at);
    assert_true(sluice_reader_total(r->reader) == total + r->part);
    return finish_part(r, call, error);
}

static int read_copy(reading *r, const reader_call *call) {
    size_t done = 77;
    int error = sluice_reader_read(r->reader, r->seen + r->part, call->length - r->part, &done);
    r->part += done;
    return finish_part(r, call, error);
}

static int read_into(reading *r, const reader_call *call) {
    size_t done = 77;
    int error = sluice_reader_read_into(r->reader, r->seen + r->part, call->length - r->part, &done);
    r->part += done;
    return finish_part(r, call, error);
}

static int fill_and_copy(reading *r, const reader_call *call) {
    uint8_t out[16];
    int error = sluice_reader_fill(r->reader, call->length);
    if (error)
        return error;
    assert_true(sluice_reader_buffered(r->reader) >= call->length);
    assert_int_equal(sluice_reader_copy(r->reader, out, call->length), call->length);
    assert_memory_equal(out, call->bytes, call->length);
    return 0;
}

#define CALL(function, text, streaming)                                                                                \
    { #function, function, text, sizeof(text) - 1, streaming }

const reader_call reader_calls[READER_CALLS] = {
    CALL(read_u8, "\x11", false),
    CALL(read_be, "\x22\x33\x44", false),
    CALL(read_le, "\x55\x66\x77\x88\x99", false),
    CALL(read_leb128, "\xE5\x8E\x26", false),
    CALL(peek_and_slice, "wxyz", false),
    CALL(read_line, "a line\r\n", false),
    CALL(read_line_bytes, "another\n", false),
    CALL(read_line, "\n", false),
    CALL(read_headers, "Key: v\r\nOther: w\r\n\r\n", false),
    CALL(read_marked, "mark", false),
    CALL(skip_over, "dropped", true),
    CALL(read_range, "streamed", true),
    CALL(read_window, "in a window", true),
    CALL(read_copy, "copied", true),
    CALL(read_into, "written", true),
    CALL(fill_and_copy, "end", false),
};

uint8_t reader_stream[READER_STREAM];

int reader_stream_make(void **state) {
    (void)state;
    size_t size = 0;
    for (int i = 0; i < READER_CALLS; i++) {
        memcpy(reader_stream + size, reader_calls[i].bytes, reader_calls[i].length);
        size += reader_calls[i].length;
    }
    assert_int_equal(size, READER_STREAM);
    return 0;
}

void reading_open(reading *r, sluice_reader *reader) {
    *r = (reading){.reader = reader};
    assert_int_equal(sluice_headers_new(NULL, &r->headers), 0);
}

void reading_close(reading *r) {
    sluice_headers_free(r->headers);
}

int reading_go_on(reading *r, int from, size_t *place, int *ret_error) {
    for (int i = from; i < READER_CALLS; i++) {
        int error = reader_calls[i].read(r, &reader_calls[i]);
        if (error) {
            *ret_error = error;
            return i;
        }
        *place += reader_calls[i].length;
        r->part = 0;
    }
    *ret_error = 0;
    return READER_CALLS;
}

int reader_call_at(size_t place, size_t *ret_begin) {
    size_t begin = 0;
    int i = 0;
    while (i < READER_CALLS && begin + reader_calls[i].length <= place)
        begin += reader_calls[i++].length;
    *ret_begin = begin;
    return i;
}
