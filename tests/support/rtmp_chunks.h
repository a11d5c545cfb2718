/* Chunks of RTMP made by hand, and a framer that is as simple as one can be. */
#ifndef SLUICE_TESTS_SUPPORT_RTMP_CHUNKS_H
#define SLUICE_TESTS_SUPPORT_RTMP_CHUNKS_H

#include <sluice/rtmp.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/pool.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/slices.h"

enum {
    MOST_BYTES = 1 << 18,
    MOST_STREAMS = 65600,
    MORE = 2,
    ROUNDS = 1500,
};

static inline int set_up(void **state) {
    sluice_pool *pool = NULL;
    const sluice_pool_options options = {.size = sizeof options, .no_huge_pages = true};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    *state = pool;
    return 0;
}

static inline int tear_down(void **state) {
    sluice_pool *pool = *state;
    feed_assert_returned(pool);
    sluice_pool_free(pool);
    return 0;
}

/* ---- Bytes that are made by hand ---- */

typedef struct bytes {
    uint8_t at[MOST_BYTES];
    size_t size;
} bytes;

static inline void add(bytes *b, const void *from, size_t n) {
    assert_true(n <= sizeof b->at - b->size);
    memcpy(b->at + b->size, from, n);
    b->size += n;
}

static inline void add_be(bytes *b, unsigned n, uint32_t value) {
    while (n-- > 0)
        add(b, &(uint8_t){(uint8_t)(value >> (8 * n))}, 1);
}

static inline void add_filled(bytes *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        add_be(b, 1, (uint8_t)(b->size * 7 + 1));
}

/* ---- A framer that is as simple as one can be: all bytes are there, everything is copied ---- */

typedef struct naive_stream {
    bool begun, extended;
    uint8_t type;
    uint32_t size, stream, timestamp, field, step, have;
    uint8_t *payload;
} naive_stream;

typedef struct naive {
    naive_stream *streams;
    uint32_t chunk_size, limit;
    const uint8_t *at, *end;
    char *text;
    size_t length;
} naive;

/* What has been read, as text; of a payload its size and a sum. */
static inline void say(char **text, size_t *length, const char *format, ...) {
    va_list arguments;
    enum { LONGEST = 100 };
    char line[LONGEST];
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_in_range(n, 0, LONGEST - 1);
    *text = realloc(*text, *length + (size_t)n + 1);
    assert_non_null(*text);
    memcpy(*text + *length, line, (size_t)n + 1);
    *length += (size_t)n;
}

static inline uint32_t sum_of(uint32_t sum, const uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + at[i] + 1;
    return sum;
}

static inline uint32_t naive_be(naive *f, unsigned n) {
    uint32_t value = 0;
    while (n-- > 0)
        value = value << 8 | *f->at++;
    return value;
}

static inline bool naive_has(const naive *f, size_t n) {
    return (size_t)(f->end - f->at) >= n;
}

/* Whether the next bytes are, or begin, the value: 1, 0, or -1 where they end. */
static inline int naive_is(const naive *f, uint32_t value) {
    for (unsigned i = 0; i < 4; i++) {
        if (!naive_has(f, i + 1))
            return -1;
        if (f->at[i] != (uint8_t)(value >> (24 - 8 * i)))
            return 0;
    }
    return 1;
}

static inline int naive_deliver(naive *f, uint32_t id, naive_stream *s) {
    uint32_t value = s->size >= 4
                         ? (uint32_t)s->payload[0] << 24 | s->payload[1] << 16 | s->payload[2] << 8 | s->payload[3]
                         : 0;
    s->have = 0;
    if ((s->type >= 1 && s->type <= 3) || s->type == 5 || s->type == 6) {
        if (s->size < 4)
            return -EPROTO;
        if (s->type == 1 && (value & 0x7FFFFFFF) == 0)
            return -EPROTO;
        if (s->type == 1)
            f->chunk_size = value & 0x7FFFFFFF;
        if (s->type == 2 && value < MOST_STREAMS)
            f->streams[value].have = 0;
    }
    if (s->type == 4 && s->size < 2)
        return -EPROTO;
    say(&f->text, &f->length, "%u on %u, stream %u at %u: %u, %08x\n", s->type, id, s->stream, s->timestamp, s->size,
        sum_of(0, s->payload, s->size));
    return 1;
}

/* The next chunk. 1 (read), 0 (it is not all there), or an error. */
static inline int naive_chunk(naive *f) {
    if (!naive_has(f, 1))
        return 0;
    uint8_t first = *f->at++;
    unsigned format = first >> 6, lengths[] = {11, 7, 3, 0};
    uint32_t id = first & 63;
    if (id < 2) {
        if (!naive_has(f, id + 1))
            return 0;
        uint32_t low = naive_be(f, 1);
        id = 64 + low + (id == 1 ? 256 * naive_be(f, 1) : 0);
    }
    naive_stream *s = &f->streams[id];
    bool within = s->have > 0;
    if (!s->begun && format > 1)
        return -EPROTO;
    if (!naive_has(f, lengths[format]))
        return 0;
    naive_stream was = *s;
    if (format < 3) {
        s->field = naive_be(f, 3);
        if (format < 2) {
            s->size = naive_be(f, 3);
            s->type = (uint8_t)naive_be(f, 1);
        }
        if (format < 1) {
            s->stream = naive_be(f, 4);
            s->stream = __builtin_bswap32(s->stream);
        }
        s->extended = s->field == 0xFFFFFF;
        if (s->extended && !naive_has(f, 4))
            return 0;
        if (s->extended)
            s->field = naive_be(f, 4);
        if (within) {
            if (s->size != was.size || s->type != was.type)
                return -EPROTO;
            *s = was;
        } else {
            s->step = format == 0 && s->extended ? 0 : s->field;
            s->timestamp = format == 0 ? s->field : s->timestamp + s->field;
        }
    } else {
        uint32_t timestamp = within ? s->timestamp : s->timestamp + s->step;
        if (s->extended) {
            int a = naive_is(f, s->field), b = naive_is(f, timestamp);
            if (a == 1 || b == 1)
                f->at += 4;
            else if (a < 0 || b < 0)
                return 0;
        }
        s->timestamp = timestamp;
    }
    if (!within && s->size > f->limit)
        return -EMSGSIZE;
    uint32_t left = s->size - (within ? s->have : 0), here = left < f->chunk_size ? left : f->chunk_size;
    if (!naive_has(f, here))
        return 0;
    s->begun = true;
    if (!within) {
        free(s->payload);
        s->payload = malloc(s->size + 1);
        assert_non_null(s->payload);
    }
    memcpy(s->payload + s->have, f->at, here);
    f->at += here;
    s->have += here;
    return s->have < s->size ? 1 : naive_deliver(f, id, s);
}

static inline char *read_naively(const uint8_t *at, size_t size, uint32_t limit) {
    naive f = {calloc(MOST_STREAMS, sizeof(naive_stream)), 128, limit, at, at + size, NULL, 0};
    int result;
    assert_non_null(f.streams);
    while ((result = naive_chunk(&f)) == 1)
        ;
    say(&f.text, &f.length, "%d\n", result);
    for (size_t i = 0; i < MOST_STREAMS; i++)
        free(f.streams[i].payload);
    free(f.streams);
    return f.text;
}

/* ---- The framer ---- */

typedef struct reading {
    sluice_rtmp *rtmp;
    sluice_chain *chain;
    char *text;
    size_t length;
    int result;
} reading;

static inline void say_message(reading *r, const sluice_rtmp_message *m) {
    struct iovec pieces[4096];
    size_t count = sluice_slice_iov(&m->payload, 0, pieces, 4096);
    uint32_t sum = 0;
    assert_int_equal(m->size, m->payload.length);
    assert_true(count <= 4096);
    for (size_t i = 0; i < count; i++)
        sum = sum_of(sum, pieces[i].iov_base, pieces[i].iov_len);
    say(&r->text, &r->length, "%u on %u, stream %u at %u: %u, %08x\n", m->type, m->chunk_stream, m->stream,
        m->timestamp, m->size, sum);
}

static inline void begin(reading *r, sluice_pool *pool, const sluice_rtmp_limits *limits) {
    *r = (reading){0};
    assert_int_equal(sluice_rtmp_new(limits, &r->rtmp), 0);
    r->chain = http_feed_chain(pool);
}

/* All messages that there are. The need is exact: below it nothing comes. */
static inline void read_on(reading *r) {
    sluice_rtmp_message *m;
    bool enough = sluice_chain_length(r->chain) >= sluice_rtmp_need(r->rtmp);
    while (r->result >= 0 && (r->result = sluice_rtmp_next(r->rtmp, r->chain, &m)) > 0) {
        assert_true(enough);
        if (r->result == 1)
            say_message(r, m);
    }
    assert_true(chain_is_sound(r->chain));
    if (r->result == 0)
        assert_true(sluice_rtmp_need(r->rtmp) > sluice_chain_length(r->chain));
    else
        assert_int_equal(sluice_rtmp_next(r->rtmp, r->chain, &m), r->result);
}

/* Its text; the caller's. */
static inline char *end(reading *r) {
    say(&r->text, &r->length, "%d\n", r->result);
    sluice_rtmp_free(r->rtmp);
    sluice_chain_free(r->chain);
    return r->text;
}

static inline char *read_in_pieces(sluice_pool *pool, const bytes *b, size_t piece, const sluice_rtmp_limits *limits) {
    reading r;
    begin(&r, pool, limits);
    for (size_t at = 0; at < b->size; at += piece) {
        size_t n = b->size - at < piece ? b->size - at : piece;
        feed(r.chain, pool, b->at + at, n, 0);
        read_on(&r);
    }
    return end(&r);
}

static inline void expect_whole(sluice_pool *pool, const bytes *b, const char *expected) {
    char *text = read_in_pieces(pool, b, b->size, NULL);
    if (expected)
        assert_string_equal(text, expected);
    char *naively = read_naively(b->at, b->size, SLUICE_RTMP_DEFAULT_MESSAGE);
    assert_string_equal(text, naively);
    free(naively);
    free(text);
}

#endif
