/*
 * The reader: the input is a program of calls, and the stream behind it on which they are made. A
 * call for which bytes are missing is made again when more have come, as those do that use one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/bytes.h>
#include <sluice/headers.h>
#include <sluice/reader.h>

#include "fuzz/fuzz.h"
#include "memory/chain.h"

enum { MOST_CALLS = 64, SCRATCH = 300 };

typedef struct reading {
    fuzz_run *run;
    const uint8_t *stream; /* its first byte */
    sluice_chain *chain;
    sluice_reader *reader;
    sluice_headers *headers;
    sluice_bytes bytes;
    size_t left; /* of a range: views may end here */
} reading;

/* The stream at the reader's place. */
static const uint8_t *here(const reading *r) {
    return r->stream + sluice_reader_total(r->reader);
}

/* Makes a call until it does not lack bytes, or there are no more. A call that fails must consume
 * nothing. */
#define ASK(r, result, the_call)                                                                                       \
    do {                                                                                                               \
        uint64_t before = sluice_reader_total((r)->reader);                                                            \
        (result) = (the_call);                                                                                         \
        FUZZ_CHECK((result) == 0 || sluice_reader_total((r)->reader) == before);                                       \
    } while ((result) == -EAGAIN && fuzz_feed((r)->run, (r)->chain))

static int read_window(reading *r, uint8_t *ret_value) {
    sluice_reader_window window = {0};
    int result = sluice_reader_window_u8(r->reader, &window, ret_value);
    FUZZ_CHECK(sluice_reader_close_window(r->reader, &window) == 0);
    return result;
}

static void read_u8(reading *r, uint8_t n) {
    uint8_t value = n;
    int result;
    ASK(r, result, n % 2 ? sluice_reader_u8(r->reader, &value) : read_window(r, &value));
    fuzz_show(r->run, "u8", result == 0 ? value : result);
}

static void read_be(reading *r, uint8_t n) {
    uint64_t value = 0;
    int result;
    ASK(r, result, sluice_reader_be(r->reader, n % 10, &value));
    fuzz_show(r->run, "be", result);
    fuzz_show(r->run, "be", (int64_t)value);
}

static void read_le(reading *r, uint8_t n) {
    uint64_t value = 0;
    int result;
    ASK(r, result, sluice_reader_le(r->reader, n % 10, &value));
    fuzz_show(r->run, "le", result);
    fuzz_show(r->run, "le", (int64_t)value);
}

static void read_leb128(reading *r, uint8_t n) {
    uint64_t value = n;
    int result;
    ASK(r, result, sluice_reader_leb128(r->reader, &value));
    fuzz_show(r->run, "leb128", result);
    fuzz_show(r->run, "leb128", result == 0 ? (int64_t)value : 0);
}

static void peek(reading *r, uint8_t n) {
    uint8_t scratch[UINT8_MAX];
    const uint8_t *view;
    int result;
    do
        result = sluice_reader_peek(r->reader, n, scratch, &view);
    while (result == -EAGAIN && fuzz_feed(r->run, r->chain));
    fuzz_show(r->run, "peek", result);
    if (result != 0)
        return;
    fuzz_show_bytes(r->run, "peek", view, n);
    FUZZ_CHECK(n == 0 || memcmp(view, here(r), n) == 0);
    /* Whether it may do without a copy is a matter of the cuts. */
    result = sluice_reader_peek(r->reader, n, NULL, &view);
    FUZZ_CHECK(result == 0 || result == -EXDEV);
    FUZZ_CHECK(n == 0 || result != 0 || memcmp(view, here(r), n) == 0);
}

static void skip(reading *r, uint8_t n) {
    int result = sluice_reader_skip(r->reader, n);
    while (sluice_reader_skipping(r->reader) > 0 && fuzz_feed(r->run, r->chain))
        FUZZ_CHECK(sluice_reader_skip(r->reader, 0) == 0);
    fuzz_show(r->run, "skip", result);
    fuzz_show(r->run, "owed", (int64_t)sluice_reader_skipping(r->reader));
}

static bool see(const uint8_t *view, size_t length, void *user) {
    reading *r = user;
    FUZZ_CHECK(length > 0 && length <= r->left);
    r->left -= length;
    sluice_slice slice = fuzz_slice(r->run, view, length);
    fuzz_gather(r->run, &slice);
    sluice_slice_release(&slice);
    return true;
}

static void range(reading *r, uint8_t n) {
    int result;
    size_t done;
    r->left = n;
    do {
        size_t before = r->left;
        result = sluice_reader_range(r->reader, r->left, see, r, &done);
        FUZZ_CHECK(done == before - r->left);
    } while (result == -EAGAIN && fuzz_feed(r->run, r->chain));
    fuzz_show(r->run, "range", result);
    fuzz_show_gathered(r->run, "range");
}

static void take_slice(reading *r, uint8_t n) {
    sluice_slice slice;
    int result;
    ASK(r, result, sluice_reader_slice(r->reader, n, &slice));
    fuzz_show(r->run, "slice", result);
    if (result != 0)
        return;
    fuzz_show_slice(r->run, "slice", &slice);
    fuzz_keep(r->run, &slice);
    sluice_slice_release(&slice);
}

static void copy_out(reading *r, uint8_t n) {
    uint8_t *memory = malloc(n ? n : 1u);
    FUZZ_CHECK(memory);
    int result;
    ASK(r, result, sluice_reader_fill(r->reader, n));
    size_t done = sluice_reader_copy(r->reader, memory, n);
    FUZZ_CHECK(result != 0 || done == n);
    fuzz_show(r->run, "fill", result);
    fuzz_show_bytes(r->run, "copy", memory, done);
    free(memory);
}

static void read_out(reading *r, uint8_t n) {
    uint8_t *memory = malloc(n ? n : 1u);
    size_t done, all = 0;
    int result;
    FUZZ_CHECK(memory);
    do {
        result = n % 2 ? sluice_reader_read(r->reader, memory + all, n - all, &done)
                       : sluice_reader_read_into(r->reader, memory + all, n - all, &done);
        all += done;
        FUZZ_CHECK(all <= n && (result != 0 || all == n));
    } while (result == -EAGAIN && fuzz_feed(r->run, r->chain));
    fuzz_show(r->run, "read", result);
    fuzz_show_bytes(r->run, "read", memory, all);
    free(memory);
}

static void read_line(reading *r, uint8_t n) {
    char scratch[SCRATCH];
    const char *line;
    size_t length;
    int result;
    ASK(r, result, sluice_reader_line(r->reader, scratch, n, &line, &length));
    fuzz_show(r->run, "line", result);
    if (result == 0)
        fuzz_show_bytes(r->run, "line", line, length);
}

static void read_line_bytes(reading *r, uint8_t n) {
    const char *line;
    size_t length;
    int result;
    sluice_bytes_free(&r->bytes);
    sluice_bytes_init(&r->bytes, n);
    ASK(r, result, sluice_reader_line_bytes(r->reader, &r->bytes, &line, &length));
    fuzz_show(r->run, "line bytes", result);
    if (result == 0)
        fuzz_show_bytes(r->run, "line bytes", line, length);
}

static void mark(reading *r, uint8_t n) {
    int result;
    ASK(r, result, sluice_reader_mark(r->reader, n));
    fuzz_show(r->run, "mark", result);
}

static void rewind_reader(reading *r, uint8_t n) {
    fuzz_show(r->run, "rewind", sluice_reader_rewind(r->reader));
    if (n % 4 == 0)
        sluice_reader_unmark(r->reader);
    fuzz_show(r->run, "owed", (int64_t)sluice_reader_skipping(r->reader));
}

static void read_headers(reading *r, uint8_t n) {
    (void)n;
    int result;
    ASK(r, result, sluice_headers_read(r->headers, r->reader));
    fuzz_show(r->run, "headers", result);
    FUZZ_CHECK(result == 0 || sluice_headers_count(r->headers) == 0);
    for (size_t i = 0; i < sluice_headers_count(r->headers); i++) {
        const sluice_header *header = sluice_headers_at(r->headers, i);
        fuzz_show_bytes(r->run, "key", header->key, header->key_length);
        fuzz_show_bytes(r->run, "value", header->value, header->value_length);
    }
    const sluice_header *found = sluice_headers_find(r->headers, "Host");
    fuzz_show(r->run, "host", found ? found - sluice_headers_at(r->headers, 0) : -1);
}

static void (*const calls[])(reading *r, uint8_t n) = {
    read_u8,  read_be,  read_le,   read_leb128,     peek, skip,          range,        take_slice,
    copy_out, read_out, read_line, read_line_bytes, mark, rewind_reader, read_headers,
};

void fuzz_target(fuzz_run *run) {
    static const sluice_headers_options few = {
        .size = sizeof few, .max_count = 3, .max_key = 8, .max_value = 20, .max_total = 60};
    reading r = {.run = run};
    size_t count = run->settings[0] % MOST_CALLS;
    if (count > run->size / 2)
        count = run->size / 2;
    const uint8_t *program = run->bytes;
    run->done = 2 * count;
    r.stream = program + 2 * count;
    FUZZ_CHECK(sluice_chain_new(run->pool, &r.chain) == 0);
    FUZZ_CHECK(sluice_reader_new(r.chain, &r.reader) == 0);
    FUZZ_CHECK(sluice_headers_new(run->settings[1] % 2 ? &few : NULL, &r.headers) == 0);
    sluice_bytes_init(&r.bytes, 0);
    for (size_t i = 0; i < count; i++) {
        calls[program[2 * i] % (sizeof calls / sizeof *calls)](&r, program[2 * i + 1]);
        fuzz_show(run, "place", (int64_t)sluice_reader_total(r.reader));
        FUZZ_CHECK(chain_is_sound(r.chain));
    }
    sluice_bytes_free(&r.bytes);
    sluice_headers_free(r.headers);
    sluice_reader_free(r.reader);
    sluice_chain_free(r.chain);
}
