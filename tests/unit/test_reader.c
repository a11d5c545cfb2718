/* The reader: every call with the bytes cut in every place, and a random walk beside an array. */
#include <sluice/reader.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/reader_cuts.h"

/* A cut lies inside the range, so that it is in more than one piece. */
static bool straddles(size_t from, size_t to, size_t a, size_t b) {
    return (a > from && a < to) || (b > from && b < to);
}

static int read_integer(sluice_reader *reader, int kind, unsigned n, uint64_t *ret_value) {
    uint8_t byte;
    if (kind == 0)
        return sluice_reader_be(reader, n, ret_value);
    if (kind == 1)
        return sluice_reader_le(reader, n, ret_value);
    int error = sluice_reader_u8(reader, &byte);
    if (!error)
        *ret_value = byte;
    return error;
}

/* An integer of n bytes at every place, while its bytes come one after another in a block each or
 * in whole blocks. */
static void check_reader_integer(sluice_pool *pool, int kind, unsigned n, size_t a, size_t b) {
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    feed_cut(chain, pool, bytes, BYTES, a, b);
    for (size_t place = 0; place + n <= BYTES; place += n) {
        uint64_t value;
        assert_int_equal(read_integer(reader, kind, n, &value), 0);
        assert_true(value == (kind == 1 ? little_endian : big_endian)(bytes + place, n));
        assert_int_equal(sluice_reader_total(reader), place + n);
        assert_int_equal(sluice_reader_buffered(reader), BYTES - place - n);
        assert_true(chain_is_sound(chain));
    }
    while (sluice_reader_buffered(reader) < n) {
        uint64_t value = 77;
        size_t there = sluice_reader_buffered(reader);
        assert_int_equal(read_integer(reader, kind, n, &value), -EAGAIN);
        assert_true(value == 77);
        assert_int_equal(sluice_reader_buffered(reader), there);
        feed(chain, pool, "\x01", 1, 0);
    }
    uint64_t value;
    assert_int_equal(read_integer(reader, kind, n, &value), 0);
    assert_int_equal(sluice_reader_buffered(reader), 0);
    assert_int_equal(counts(pool).held, 0);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
}

static void integers_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++)
            for (unsigned n = 1; n <= 8; n++)
                for (int kind = 0; kind < (n == 1 ? 3 : 2); kind++)
                    check_reader_integer(pool, kind, n, a, b);
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void integers_of_no_size(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    const unsigned bad[] = {0, 9, 16, UINT32_MAX};
    for (int full = 0; full < 2; full++) {
        for (int i = 0; i < 4; i++) {
            uint64_t value = 77;
            assert_int_equal(sluice_reader_be(reader, bad[i], &value), -EINVAL);
            assert_int_equal(sluice_reader_le(reader, bad[i], &value), -EINVAL);
            assert_true(value == 77);
        }
        assert_int_equal(sluice_reader_total(reader), 0);
        assert_int_equal(sluice_reader_buffered(reader), full ? BYTES : 0);
        feed(chain, pool, bytes, BYTES, 0);
    }
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    free_pool(pool);
}

typedef struct leb128_case {
    const char *bytes;
    size_t length;
    int error;
    uint64_t value;
} leb128_case;

#define LEB128_CASE(text, error, value)                                                                                \
    { text, sizeof(text) - 1, error, value }

/* Byte by byte, and cut in every place: what is wrong is refused with the byte that makes it so. */
static void leb128_at_every_cut(void **state) {
    (void)state;
    static const leb128_case cases[] = {
        LEB128_CASE("\x00", 0, 0),
        LEB128_CASE("\x7f", 0, 127),
        LEB128_CASE("\x80\x01", 0, 128),
        LEB128_CASE("\xe5\x8e\x26", 0, 624485),
        LEB128_CASE("\x85\x80\x80\x00", 0, 5),
        LEB128_CASE("\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 0, UINT64_MAX >> 1),
        LEB128_CASE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, UINT64_MAX),
        LEB128_CASE("\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0, 1),
        LEB128_CASE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", -EOVERFLOW, 0),
        LEB128_CASE("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", -EOVERFLOW, 0),
        LEB128_CASE("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", -EPROTO, 0),
        LEB128_CASE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", -EPROTO, 0),
    };
    sluice_pool *pool = new_pool(32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t a = 0; a <= cases[i].length; a++) {
            const leb128_case *c = &cases[i];
            sluice_chain *chain = new_chain(pool);
            sluice_reader *reader = new_reader(chain);
            uint64_t value = 77;
            for (size_t come = 0; come < c->length; come++) {
                assert_int_equal(sluice_reader_leb128(reader, &value), -EAGAIN);
                assert_int_equal(sluice_reader_buffered(reader), come);
                assert_true(value == 77);
                feed(chain, pool, c->bytes + come, 1, 0);
            }
            for (int times = 0; c->error && times < 2; times++)
                assert_int_equal(sluice_reader_leb128(reader, &value), c->error);
            chain_clear(chain);

            feed_cut(chain, pool, c->bytes, c->length, a, a);
            feed(chain, pool, "\xff", 1, 0);
            assert_int_equal(sluice_reader_leb128(reader, &value), c->error);
            assert_true(value == (c->error ? 77 : c->value));
            assert_int_equal(sluice_reader_buffered(reader), c->error ? c->length + 1 : 1);
            assert_true(chain_is_sound(chain));
            sluice_reader_free(reader);
            sluice_chain_free(chain);
        }
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void check_peek(sluice_reader *reader, sluice_pool *pool, size_t place, size_t n, size_t a, size_t b) {
    static const uint8_t nowhere;
    uint8_t scratch[BYTES + 2];
    const uint8_t *view = &nowhere;
    uint64_t copied = counts(pool).bytes_copied;
    bool there = place + n <= BYTES, torn = straddles(place, place + n, a, b);
    memset(scratch, '#', sizeof scratch);

    int error = sluice_reader_peek(reader, n, scratch, &view);
    assert_int_equal(error, there ? 0 : -EAGAIN);
    if (!there)
        assert_ptr_equal(view, &nowhere);
    else if (n > 0)
        assert_memory_equal(view, bytes + place, n);
    if (there && torn) {
        assert_ptr_equal(view, scratch);
        copied += n;
    } else {
        assert_ptr_not_equal(view, scratch);
        assert_int_equal(scratch[0], '#');
    }
    for (size_t i = n; i < sizeof scratch; i++)
        assert_int_equal(scratch[i], '#');

    view = &nowhere;
    error = sluice_reader_peek(reader, n, NULL, &view);
    assert_int_equal(error, !there ? -EAGAIN : torn ? -EXDEV : 0);
    if (error)
        assert_ptr_equal(view, &nowhere);
    else if (n > 0)
        assert_memory_equal(view, bytes + place, n);
    assert_int_equal(counts(pool).bytes_copied, copied);
    assert_int_equal(sluice_reader_buffered(reader), BYTES - place);
    assert_int_equal(sluice_reader_total(reader), place);
}

static void peeks_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++) {
            sluice_chain *chain = new_chain(pool);
            sluice_reader *reader = new_reader(chain);
            feed_cut(chain, pool, bytes, BYTES, a, b);
            for (size_t place = 0; place <= BYTES; place++) {
                for (size_t n = 0; n <= BYTES + 2; n++)
                    check_peek(reader, pool, place, n, a, b);
                const uint8_t *view = bytes;
                assert_int_equal(sluice_reader_peek(reader, SIZE_MAX, NULL, &view), -EAGAIN);
                assert_ptr_equal(view, bytes);
                assert_true(chain_is_sound(chain));
                uint8_t byte = 77;
                assert_int_equal(sluice_reader_u8(reader, &byte), place < BYTES ? 0 : -EAGAIN);
                assert_int_equal(byte, place < BYTES ? bytes[place] : 77);
            }
            sluice_reader_free(reader);
            sluice_chain_free(chain);
        }
    free_pool(pool);
}

static void slices_and_copies_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++)
            for (size_t n = 0; n <= BYTES + 1; n++) {
                sluice_chain *chain = new_chain(pool);
                sluice_reader *reader = new_reader(chain);
                sluice_slice slice = {.length = 77};
                uint8_t out[BYTES + 2];
                feed_cut(chain, pool, bytes, BYTES, a, b);
                int error = sluice_reader_slice(reader, n, &slice);
                assert_int_equal(error, n <= BYTES ? 0 : -EAGAIN);
                if (error) {
                    assert_int_equal(slice.length, 77);
                    slice = (sluice_slice){0};
                }
                size_t taken = error ? 0 : n;
                assert_int_equal(sluice_reader_total(reader), taken);

                /* What the slice left, one byte more than there is; the count is exact. */
                uint64_t copied = counts(pool).bytes_copied;
                memset(out, '#', sizeof out);
                assert_int_equal(sluice_reader_copy(reader, out, BYTES - taken + 1), BYTES - taken);
                assert_memory_equal(out, bytes + taken, BYTES - taken);
                assert_int_equal(out[BYTES - taken], '#');
                assert_int_equal(counts(pool).bytes_copied, copied + BYTES - taken);
                assert_int_equal(sluice_reader_copy(reader, out, 1), 0);
                assert_int_equal(sluice_reader_total(reader), BYTES);

                sluice_reader_free(reader);
                sluice_chain_free(chain);
                assert_int_equal(sluice_slice_copy(&slice, 0, out, sizeof out), taken);
                assert_memory_equal(out, bytes, taken);
                sluice_slice_release(&slice);
                assert_int_equal(counts(pool).held, 0);
            }
    free_pool(pool);
}

static void copies_in_small_steps(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t piece = 1; piece <= BYTES; piece++)
        for (size_t n = 1; n <= BYTES; n++) {
            sluice_chain *chain = new_chain(pool);
            sluice_reader *reader = new_reader(chain);
            uint8_t out[BYTES];
            feed(chain, pool, bytes, BYTES, piece);
            assert_int_equal(sluice_reader_copy(reader, NULL, 0), 0);
            for (size_t done = 0; done < BYTES; done += n) {
                size_t expected = n < BYTES - done ? n : BYTES - done;
                assert_int_equal(sluice_reader_copy(reader, out + done, n < BYTES - done ? n : SIZE_MAX), expected);
                assert_int_equal(sluice_reader_buffered(reader), BYTES - done - expected);
            }
            assert_memory_equal(out, bytes, BYTES);
            sluice_reader_free(reader);
            sluice_chain_free(chain);
        }
    free_pool(pool);
}

/* While bytes are owed to a skip, nothing can be read, and trying changes nothing. */
static void assert_nothing_can_be_read(sluice_reader *reader) {
    uint64_t value = 77;
    uint8_t byte = 77;
    const uint8_t *view = &byte;
    const char *line = NULL;
    char scratch[4];
    size_t n = 77;
    sluice_slice slice = {.length = 77};
    assert_int_equal(sluice_reader_u8(reader, &byte), -EAGAIN);
    assert_int_equal(sluice_reader_be(reader, 1, &value), -EAGAIN);
    assert_int_equal(sluice_reader_le(reader, 1, &value), -EAGAIN);
    assert_int_equal(sluice_reader_leb128(reader, &value), -EAGAIN);
    assert_int_equal(sluice_reader_peek(reader, 1, scratch, &view), -EAGAIN);
    assert_int_equal(sluice_reader_slice(reader, 1, &slice), -EAGAIN);
    assert_int_equal(sluice_reader_line(reader, scratch, 4, &line, &n), -EAGAIN);
    assert_int_equal(sluice_reader_copy(reader, scratch, 4), 0);
    assert_true(byte == 77 && value == 77 && view == &byte && !line && n == 77 && slice.length == 77);
    assert_int_equal(sluice_reader_range(reader, 1, NULL, NULL, &n), -EAGAIN);
    assert_int_equal(n, 0);
    assert_int_equal(sluice_reader_buffered(reader), 0);
}

static void skips_what_has_not_come(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t piece = 1; piece <= BYTES; piece++)
        for (size_t n = 0; n <= BYTES; n++) {
            sluice_chain *chain = new_chain(pool);
            sluice_reader *reader = new_reader(chain);
            /* In two calls, the second of which is made while the first one owes. */
            assert_int_equal(sluice_reader_skip(reader, n / 2), 0);
            assert_int_equal(sluice_reader_skip(reader, n - n / 2), 0);
            size_t come = 0;
            while (come < BYTES) {
                size_t here = piece < BYTES - come ? piece : BYTES - come;
                if (come < n) {
                    assert_nothing_can_be_read(reader);
                    assert_int_equal(sluice_reader_skipping(reader), n - come);
                }
                feed(chain, pool, bytes + come, here, 0);
                come += here;
                /* Known at once, before any call has dropped them. */
                assert_int_equal(sluice_reader_buffered(reader), come > n ? come - n : 0);
                if (come > n)
                    break;
            }
            uint8_t byte = 77;
            assert_int_equal(sluice_reader_u8(reader, &byte), n < BYTES ? 0 : -EAGAIN);
            assert_int_equal(byte, n < BYTES ? bytes[n] : 77);
            assert_int_equal(sluice_reader_skipping(reader), 0);
            assert_int_equal(sluice_reader_total(reader), n < BYTES ? n + 1 : n);
            sluice_reader_free(reader);
            sluice_chain_free(chain);
        }
    free_pool(pool);
}

static void what_has_arrived_is_not_owed(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    assert_int_equal(sluice_reader_skip(reader, BYTES + 2), 0);
    feed(chain, pool, bytes, BYTES, 0);
    /* Like the bytes that can be read, this does not depend on a call in between. */
    assert_int_equal(sluice_reader_skipping(reader), 2);
    feed(chain, pool, bytes, BYTES, 0);
    assert_int_equal(sluice_reader_skipping(reader), 0);
    assert_int_equal(sluice_reader_buffered(reader), BYTES - 2);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    free_pool(pool);
}

static void skips_what_is_there(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t n = 0; n <= BYTES; n++) {
            sluice_chain *chain = new_chain(pool);
            sluice_reader *reader = new_reader(chain);
            feed_cut(chain, pool, bytes, BYTES, a, a);
            assert_int_equal(sluice_reader_skip(reader, n), 0);
            assert_int_equal(sluice_reader_skipping(reader), 0);
            /* The blocks go back now, not with the next read. */
            assert_int_equal(sluice_chain_consumed(chain), n);
            assert_int_equal(counts(pool).held, (a > n) + (n < BYTES && a < BYTES));
            sluice_reader_free(reader);
            sluice_chain_free(chain);
        }
    free_pool(pool);
}

static void skips_no_more_than_can_be_counted(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    assert_int_equal(sluice_reader_skip(reader, UINT64_MAX), 0);
    assert_int_equal(sluice_reader_skip(reader, 0), 0);
    assert_int_equal(sluice_reader_skip(reader, 1), -EOVERFLOW);
    assert_int_equal(sluice_reader_skip(reader, UINT64_MAX), -EOVERFLOW);
    assert_true(sluice_reader_skipping(reader) == UINT64_MAX);

    feed(chain, pool, bytes, BYTES, 0);
    assert_nothing_can_be_read(reader);
    assert_true(sluice_reader_skipping(reader) == UINT64_MAX - BYTES);
    assert_int_equal(counts(pool).held, 0);
    assert_int_equal(sluice_reader_skip(reader, BYTES + 1), -EOVERFLOW);
    assert_int_equal(sluice_reader_skip(reader, BYTES), 0);
    assert_true(sluice_reader_skipping(reader) == UINT64_MAX);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    free_pool(pool);
}

typedef struct seen {
    uint8_t bytes[BYTES];
    size_t length;
    size_t views;
    size_t stop_at; /* with so many views the callback has had enough; 0 for never */
} seen;

static bool see(const uint8_t *view, size_t length, void *user) {
    seen *s = user;
    assert_true(length > 0 && s->length + length <= BYTES);
    memcpy(s->bytes + s->length, view, length);
    s->length += length;
    s->views++;
    return s->views != s->stop_at;
}

static void check_range(sluice_pool *pool, size_t n, size_t stop_at, size_t a, size_t b) {
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    seen s = {.stop_at = stop_at};
    size_t done = 77;
    feed_cut(chain, pool, bytes, BYTES, a, b);

    int error = sluice_reader_range(reader, n, see, &s, &done);
    assert_int_equal(done, s.length);
    assert_memory_equal(s.bytes, bytes, done);
    assert_int_equal(sluice_reader_total(reader), done);
    assert_int_equal(sluice_reader_buffered(reader), BYTES - done);
    assert_true(chain_is_sound(chain));
    size_t most = n < BYTES ? n : BYTES;
    size_t views = (most > 0) + (a > 0 && a < most) + (b > a && b < most);
    if (stop_at > 0 && stop_at <= views) {
        const size_t ends[] = {a, b, BYTES};
        size_t skipped = (a == 0) + (a == b && a > 0 && stop_at > 1) + (b == 0);
        size_t end = stop_at - 1 + skipped < 3 ? ends[stop_at - 1 + skipped] : BYTES;
        assert_int_equal(error, -ECANCELED);
        assert_int_equal(s.views, stop_at);
        assert_int_equal(done, end < most ? end : most);
    } else {
        assert_int_equal(error, n <= BYTES ? 0 : -EAGAIN);
        assert_int_equal(s.views, views);
        assert_int_equal(done, most);
    }

    /* After any end the rest is there, once and in order. */
    s.stop_at = 0;
    error = sluice_reader_range(reader, SIZE_MAX, see, &s, &done);
    assert_int_equal(error, -EAGAIN);
    assert_int_equal(s.length, BYTES);
    assert_memory_equal(s.bytes, bytes, BYTES);
    assert_int_equal(counts(pool).held, 0);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
}

static void ranges_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++)
            for (size_t n = 0; n <= BYTES + 2; n++)
                for (size_t stop_at = 0; stop_at <= 3; stop_at++)
                    check_range(pool, n, stop_at, a, b);
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void ranges_go_on_when_more_has_come(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t n = 1; n <= BYTES; n++) {
        sluice_chain *chain = new_chain(pool);
        sluice_reader *reader = new_reader(chain);
        seen s = {0};
        for (size_t come = 0; come < n; come++) {
            size_t done = 77;
            feed(chain, pool, bytes + come, 1, 0);
            int error = sluice_reader_range(reader, n - come, see, &s, &done);
            assert_int_equal(done, 1);
            assert_int_equal(error, come + 1 < n ? -EAGAIN : 0);
            assert_int_equal(counts(pool).held, 0);
        }
        assert_memory_equal(s.bytes, bytes, n);
        sluice_reader_free(reader);
        sluice_chain_free(chain);
    }
    free_pool(pool);
}

/* Everything at random against a plain array: a stream of short words and line ends in blocks of
 * any length. */
enum {
    ROOM = 4096,
    STEPS = 40000,
};

typedef struct model {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
    uint8_t bytes[ROOM];
    size_t length;
    uint64_t owed, consumed, copied, seed;
    uint32_t lines, waited, torn;
} model;

static uint32_t pick(model *m, uint32_t below) {
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->seed >> 33) % below;
}

static void consume(model *m, size_t n) {
    assert_true(n <= m->length);
    m->length -= n;
    m->consumed += n;
    memmove(m->bytes, m->bytes + n, m->length);
}

static void pay(model *m) {
    size_t n = m->owed < m->length ? (size_t)m->owed : m->length;
    m->owed -= n;
    consume(m, n);
}

static void step_append(model *m) {
    static const char alphabet[] = "abcdefg\r\r\n\n\xff";
    uint8_t block[80];
    uint32_t n = 1 + pick(m, pick(m, 3) ? 6 : sizeof block);
    if (m->length + n > ROOM)
        return;
    for (uint32_t i = 0; i < n; i++)
        block[i] = (uint8_t)alphabet[pick(m, sizeof alphabet)];
    feed(m->chain, m->pool, block, n, 0);
    memcpy(m->bytes + m->length, block, n);
    m->length += n;
}

static void step_integer(model *m) {
    unsigned n = 1 + pick(m, 8);
    int kind = (int)pick(m, 2);
    uint64_t value;
    pay(m);
    int error = read_integer(m->reader, kind, n, &value);
    assert_int_equal(error, m->owed == 0 && n <= m->length ? 0 : -EAGAIN);
    if (error)
        return;
    assert_true(value == (kind == 1 ? little_endian : big_endian)(m->bytes, n));
    consume(m, n);
}

static void step_peek(model *m) {
    uint8_t scratch[64];
    const uint8_t *view;
    size_t n = pick(m, 64);
    pay(m);
    int error = sluice_reader_peek(m->reader, n, scratch, &view);
    assert_int_equal(error, m->owed == 0 && n <= m->length ? 0 : -EAGAIN);
    if (error || n == 0)
        return;
    assert_memory_equal(view, m->bytes, n);
    if (view == scratch) {
        m->copied += n;
        m->torn++;
    }
}

static void step_line(model *m) {
    char scratch[40];
    const char *line;
    size_t size = pick(m, sizeof scratch + 1), length, expected, used = 0;
    pay(m);
    int outcome = expected_line((char *)m->bytes, m->length, size, &expected, &used);
    int error = sluice_reader_line(m->reader, scratch, size, &line, &length);
    if (m->owed > 0) {
        assert_int_equal(error, -EAGAIN);
        return;
    }
    if (outcome == -EAGAIN && m->length == size + 1 && error == -EMSGSIZE)
        return;
    assert_int_equal(error, outcome);
    if (error)
        return;
    assert_int_equal(length, expected);
    if (length > 0)
        assert_memory_equal(line, m->bytes, length);
    if (length > 0 && line == scratch)
        m->copied += length;
    consume(m, used);
    m->lines++;
}

typedef struct compared {
    const uint8_t *expected;
    size_t views_left;
} compared;

static bool compare(const uint8_t *view, size_t length, void *user) {
    compared *c = user;
    assert_memory_equal(view, c->expected, length);
    c->expected += length;
    return --c->views_left > 0;
}

static void step_range(model *m) {
    size_t n = pick(m, 100), done = 77;
    compared c = {m->bytes, 1 + pick(m, 6)};
    pay(m);
    size_t most = m->owed > 0 ? 0 : n < m->length ? n : m->length;
    int error = sluice_reader_range(m->reader, n, compare, &c, &done);
    assert_int_equal(done, c.expected - m->bytes);
    if (c.views_left == 0)
        assert_int_equal(error, -ECANCELED);
    else
        assert_int_equal(error, done < n ? -EAGAIN : 0);
    assert_true(error == -ECANCELED ? done <= most : done == most);
    consume(m, done);
}

static void step_out(model *m) {
    uint8_t out[128];
    size_t n = pick(m, sizeof out + 1), there;
    sluice_slice slice = {0};
    pay(m);
    there = m->owed > 0 ? 0 : m->length;
    if (pick(m, 2)) {
        size_t done = sluice_reader_copy(m->reader, out, n);
        assert_int_equal(done, n < there ? n : there);
        assert_memory_equal(out, m->bytes, done);
        m->copied += done;
        consume(m, done);
        return;
    }
    int error = sluice_reader_slice(m->reader, n, &slice);
    assert_int_equal(error, m->owed == 0 && n <= there ? 0 : -EAGAIN);
    if (error)
        return;
    assert_int_equal(sluice_slice_copy(&slice, 0, out, sizeof out), n);
    assert_memory_equal(out, m->bytes, n);
    m->copied += n;
    sluice_slice_release(&slice);
    consume(m, n);
}

static void step(model *m) {
    switch (pick(m, 12)) {
    case 0:
    case 1:
    case 2:
        step_append(m);
        break;
    case 3:
    case 4:
        step_integer(m);
        break;
    case 5:
        step_peek(m);
        break;
    case 6: {
        uint32_t n = pick(m, pick(m, 8) ? 10 : 300);
        assert_int_equal(sluice_reader_skip(m->reader, n), 0);
        m->owed += n;
        pay(m);
        m->waited += m->owed > 0;
        break;
    }
    case 7:
        step_range(m);
        break;
    case 8:
        step_out(m);
        break;
    case 9:
        if (m->owed == 0) {
            size_t n = pick(m, 4);
            consume(m, sluice_chain_skip(m->chain, n < m->length ? n : m->length));
        }
        break;
    default:
        step_line(m);
    }
}

static void a_random_walk_matches_a_plain_array(void **state) {
    (void)state;
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->pool = new_pool(ROOM + 8);
    m->chain = new_chain(m->pool);
    m->reader = new_reader(m->chain);
    m->seed = 7;
    for (int i = 0; i < STEPS; i++) {
        step(m);
        assert_true(chain_is_sound(m->chain));
        assert_int_equal(sluice_reader_buffered(m->reader), m->owed < m->length ? m->length - m->owed : 0);
        if (m->owed == 0 || m->length == 0)
            assert_int_equal(sluice_reader_skipping(m->reader), m->owed);
        assert_int_equal(sluice_reader_total(m->reader), m->consumed);
        assert_int_equal(counts(m->pool).bytes_copied, m->copied);
    }
    /* The walk went into every corner. */
    assert_true(m->lines > 100 && m->waited > 100 && m->torn > 100);
    sluice_reader_free(m->reader);
    sluice_chain_free(m->chain);
    free_pool(m->pool);
    free(m);
}

static void null_is_nothing(void **state) {
    (void)state;
    sluice_reader_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_at_every_cut),
        cmocka_unit_test(integers_of_no_size),
        cmocka_unit_test(leb128_at_every_cut),
        cmocka_unit_test(peeks_at_every_cut),
        cmocka_unit_test(slices_and_copies_at_every_cut),
        cmocka_unit_test(copies_in_small_steps),
        cmocka_unit_test(skips_what_has_not_come),
        cmocka_unit_test(skips_what_is_there),
        cmocka_unit_test(skips_no_more_than_can_be_counted),
        cmocka_unit_test(ranges_at_every_cut),
        cmocka_unit_test(ranges_go_on_when_more_has_come),
        cmocka_unit_test(a_random_walk_matches_a_plain_array),
        cmocka_unit_test(null_is_nothing),
        cmocka_unit_test(what_has_arrived_is_not_owed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
