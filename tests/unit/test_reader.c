/* The cursor and the reader: every call with the bytes cut in every place; lines, their limits and
 * lifetimes. */
#include <sluice/reader.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "memory/pool.h"
#include "reader/cursor.h"
#include "support/feed.h"

enum {
    BLOCK = 512,
    BYTES = 20,
};

static const uint8_t bytes[BYTES] = {0x80, 0x01, 0xfe, 0x7f, 0xff, 0x00, 0x12, 0x34, 0x56, 0x78,
                                     0x9a, 0xbc, 0xde, 0xf0, 0x0f, 0xc3, 0x5a, 0xa5, 0x81, 0x18};

static sluice_pool *new_pool(uint32_t max_blocks) {
    sluice_pool *pool;
    sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .slab_blocks = 8, .max_blocks = max_blocks, .reserve_blocks = 1};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    return pool;
}

static sluice_pool_stats counts(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.total, stats.free + stats.kernel + stats.held);
    return stats;
}

static void free_pool(sluice_pool *pool) {
    sluice_pool_stats stats = counts(pool);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.views, 0);
    sluice_pool_free(pool);
}

static sluice_chain *new_chain(sluice_pool *pool) {
    sluice_chain *chain;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    return chain;
}

static sluice_reader *new_reader(sluice_chain *chain) {
    sluice_reader *reader;
    assert_int_equal(sluice_reader_new(chain, &reader), 0);
    return reader;
}

/* The bytes in three blocks that are cut at a and at b; fewer where a cut is at an end or both are
 * the same. */
static void feed_cut(sluice_chain *chain, sluice_pool *pool, const void *from, size_t size, size_t a, size_t b) {
    feed(chain, pool, from, a, 0);
    feed(chain, pool, (const uint8_t *)from + a, b - a, 0);
    feed(chain, pool, (const uint8_t *)from + b, size - b, 0);
}

/* A cut lies inside the range, so that it is in more than one piece. */
static bool straddles(size_t from, size_t to, size_t a, size_t b) {
    return (a > from && a < to) || (b > from && b < to);
}

static uint64_t big_endian(const uint8_t *from, unsigned n) {
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value = value * 256 + from[i];
    return value;
}

static uint64_t little_endian(const uint8_t *from, unsigned n) {
    uint64_t value = 0;
    while (n-- > 0)
        value = value * 256 + from[n];
    return value;
}

static void assert_same_place(const sluice_cursor *x, const sluice_cursor *y) {
    assert_ptr_equal(x->at.block, y->at.block);
    assert_int_equal(x->at.offset, y->at.offset);
    assert_int_equal(x->at.left, y->at.left);
}

/* The integers of every size at one place; the cursor is a value, so each starts there. */
static void check_integers(const sluice_cursor *at, size_t place) {
    for (unsigned n = 0; n <= 8; n++) {
        sluice_cursor be = *at, le = *at;
        uint64_t value = 77;
        bool there = place + n <= BYTES;
        assert_int_equal(cursor_be(&be, n, &value), there);
        assert_true(value == (there ? big_endian(bytes + place, n) : 77));
        value = 77;
        assert_int_equal(cursor_le(&le, n, &value), there);
        assert_true(value == (there ? little_endian(bytes + place, n) : 77));
        assert_same_place(&be, &le);
        if (there)
            assert_int_equal(cursor_left(&be), BYTES - place - n);
        else
            assert_same_place(&be, at);
    }
    sluice_cursor c8 = *at, c16 = *at, c24 = *at, c32 = *at;
    uint8_t u8 = 77;
    uint16_t u16 = 77;
    uint32_t u24 = 77, u32 = 77;
    assert_int_equal(cursor_u8(&c8, &u8), place + 1 <= BYTES);
    assert_int_equal(u8, place + 1 <= BYTES ? bytes[place] : 77);
    assert_int_equal(cursor_be16(&c16, &u16), place + 2 <= BYTES);
    assert_int_equal(u16, place + 2 <= BYTES ? big_endian(bytes + place, 2) : 77);
    assert_int_equal(cursor_be24(&c24, &u24), place + 3 <= BYTES);
    assert_int_equal(u24, place + 3 <= BYTES ? big_endian(bytes + place, 3) : 77);
    assert_int_equal(cursor_be32(&c32, &u32), place + 4 <= BYTES);
    assert_int_equal(u32, place + 4 <= BYTES ? big_endian(bytes + place, 4) : 77);
    if (place + 4 > BYTES)
        assert_same_place(&c32, at);
}

/* From every place on, reached by a skip and by reading each byte before it. */
static void check_cursor(sluice_cursor start) {
    sluice_cursor walked = start;
    for (size_t place = 0; place <= BYTES; place++) {
        sluice_cursor skipped = start;
        size_t here;
        assert_true(cursor_skip(&skipped, place));
        assert_int_equal(cursor_left(&skipped), BYTES - place);
        check_integers(&skipped, place);
        check_integers(&walked, place);

        sluice_cursor beyond = skipped;
        assert_false(cursor_skip(&beyond, BYTES - place + 1));
        assert_false(cursor_skip(&beyond, SIZE_MAX));
        assert_same_place(&beyond, &skipped);
        const uint8_t *view = cursor_view(&skipped, &here);
        if (place == BYTES) {
            assert_null(view);
            assert_int_equal(here, 0);
        } else {
            assert_true(here > 0 && here <= BYTES - place);
            assert_memory_equal(view, bytes + place, here);
            assert_int_equal(cursor_byte(&walked), bytes[place]);
        }
    }
}

static void cursors_at_every_straddle(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++) {
            sluice_chain *chain = new_chain(pool);
            sluice_slice slice;
            /* With foreign bytes on both sides, in the same blocks: a cursor must not run on into
             * them. */
            uint8_t more[BYTES + 5] = {1, 2};
            memcpy(more + 2, bytes, BYTES);
            feed_cut(chain, pool, more, sizeof more, a + 2, b + 2);
            sluice_chain_skip(chain, 2);
            assert_int_equal(sluice_chain_take(chain, BYTES, &slice), 0);
            check_cursor(cursor_of_slice(&slice));
            chain_clear(chain);

            feed_cut(chain, pool, bytes, BYTES, a, b);
            sluice_cursor before = cursor_of_chain(chain);
            check_cursor(before);
            /* What comes later is not the cursor's. */
            feed(chain, pool, "later", 5, 0);
            check_cursor(before);
            sluice_slice_release(&slice);
            sluice_chain_free(chain);
        }
    /* Byte by byte, each in a block of its own. */
    sluice_chain *chain = new_chain(pool);
    feed(chain, pool, bytes, BYTES, 1);
    check_cursor(cursor_of_chain(chain));
    sluice_chain_free(chain);
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void cursors_on_nothing(void **state) {
    (void)state;
    sluice_chain chain;
    chain_init(&chain, NULL);
    sluice_slice slice = {0};
    sluice_cursor cursors[] = {cursor_of_chain(&chain), cursor_of_slice(&slice)};
    for (int i = 0; i < 2; i++) {
        uint64_t value = 77;
        size_t here = 77;
        assert_int_equal(cursor_left(&cursors[i]), 0);
        assert_null(cursor_view(&cursors[i], &here));
        assert_int_equal(here, 0);
        assert_false(cursor_be(&cursors[i], 1, &value));
        assert_true(value == 77);
        assert_true(cursor_skip(&cursors[i], 0));
        assert_false(cursor_skip(&cursors[i], 1));
    }
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

/* What a line call must say when so many bytes are there. */
static int expected_line(const char *there, size_t come, size_t size, size_t *ret_length, size_t *ret_used) {
    size_t limit = size + 2;
    for (size_t place = 0; place < come && place < limit; place++) {
        if (there[place] != '\n')
            continue;
        *ret_used = place + 1;
        *ret_length = place > 0 && there[place - 1] == '\r' ? place - 1 : place;
        return *ret_length <= size ? 0 : -EMSGSIZE;
    }
    return come >= limit ? -EMSGSIZE : -EAGAIN;
}

typedef struct line_case {
    const char *bytes;
    size_t length;
} line_case;

#define LINE_CASE(text)                                                                                                \
    { text, sizeof(text) - 1 }

static const line_case line_cases[] = {
    LINE_CASE("\n"),
    LINE_CASE("\r\n"),
    LINE_CASE("\r\r\n"),
    LINE_CASE("\n\n\n"),
    LINE_CASE("\r\n\r\n"),
    LINE_CASE("\n\r\n\r"),
    LINE_CASE("a\nbc\n"),
    LINE_CASE("a\r\nbc\r\n"),
    LINE_CASE("ab\rcd\r\n"),
    LINE_CASE("x\ry\nz\r\n\r\n"),
    LINE_CASE("\rx\n\r\rx\r\n"),
    LINE_CASE("no end"),
    LINE_CASE("no end\r"),
    LINE_CASE("12345678\n"),
    LINE_CASE("12345678\r\n"),
    LINE_CASE("12345678\rX\n"),
    LINE_CASE("12345678\r\r\n"),
    LINE_CASE("123\n4567\r\n89"),
    LINE_CASE("a\0b\n\0\r\n"),
    LINE_CASE("\xff\x8a\x8d\n\xff"),
};

typedef struct line_run {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
    const line_case *input;
    size_t size;       /* the limit */
    size_t come, used; /* bytes fed, bytes of lines that have been read */
    bool cuts[32];     /* a block begins at this byte */
    char *scratch;
} line_run;

static bool is_torn(const line_run *run, size_t from, size_t to) {
    for (size_t i = from + 1; i < to; i++)
        if (run->cuts[i])
            return true;
    return false;
}

/* Asks once. False when the reader has nothing more to say before more comes. */
static bool read_one_line(line_run *run) {
    const char *there = run->input->bytes + run->used;
    size_t come = run->come - run->used, length = 0, used = 0, ret_length = 77;
    const char *nowhere = "", *line = nowhere;
    uint64_t copied = counts(run->pool).bytes_copied;
    int expected = expected_line(there, come, run->size, &length, &used);
    int error = sluice_reader_line(run->reader, run->scratch, run->size, &line, &ret_length);

    /* One byte over the limit can be known to be too much, unless it may be the CR before the
     * LF. */
    if (expected == -EAGAIN && come == run->size + 1 && there[run->size] != '\r' && error == -EMSGSIZE)
        expected = -EMSGSIZE;
    assert_int_equal(error, expected);
    if (error) {
        assert_ptr_equal(line, nowhere);
        assert_int_equal(ret_length, 77);
        assert_int_equal(sluice_reader_buffered(run->reader), come);
        assert_int_equal(counts(run->pool).bytes_copied, copied);
        return false;
    }
    assert_int_equal(ret_length, length);
    if (length > 0) {
        assert_memory_equal(line, there, length);
        bool torn = is_torn(run, run->used, run->used + length);
        assert_int_equal(line == run->scratch, torn);
        copied += torn ? length : 0;
    }
    assert_int_equal(counts(run->pool).bytes_copied, copied);
    run->used += used;
    assert_int_equal(sluice_reader_total(run->reader), run->used);
    assert_true(chain_is_sound(run->chain));
    return true;
}

/* Feeds the input up to here, and reads what lines there are. */
static void come_to(line_run *run, size_t place) {
    if (place > run->come) {
        run->cuts[run->come] = true;
        feed(run->chain, run->pool, run->input->bytes + run->come, place - run->come, 0);
        run->come = place;
    }
    while (read_one_line(run))
        ;
}

static void begin_lines(line_run *run, sluice_pool *pool, const line_case *input, size_t size) {
    *run = (line_run){.pool = pool, .chain = new_chain(pool), .input = input, .size = size};
    run->reader = new_reader(run->chain);
    run->scratch = malloc(size ? size : 1);
    assert_non_null(run->scratch);
}

static void end_lines(line_run *run) {
    sluice_reader_free(run->reader);
    sluice_chain_free(run->chain);
    free(run->scratch);
    assert_int_equal(counts(run->pool).held, 0);
}

static void lines_at_every_cut_and_limit(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    line_run run;
    for (size_t i = 0; i < sizeof line_cases / sizeof *line_cases; i++)
        for (size_t size = 0; size <= 12; size++) {
            const line_case *input = &line_cases[i];
            for (size_t a = 0; a <= input->length; a++)
                for (size_t b = a; b <= input->length; b++) {
                    begin_lines(&run, pool, input, size);
                    come_to(&run, a);
                    come_to(&run, b);
                    come_to(&run, input->length);
                    end_lines(&run);
                }
            begin_lines(&run, pool, input, size);
            for (size_t place = 1; place <= input->length; place++)
                come_to(&run, place);
            end_lines(&run);
        }
    free_pool(pool);
}

static void lines_as_their_block_grows(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    line_run run;
    for (size_t i = 0; i < sizeof line_cases / sizeof *line_cases; i++)
        for (size_t size = 0; size <= 12; size++) {
            const line_case *input = &line_cases[i];
            sluice_block *block;
            begin_lines(&run, pool, input, size);
            assert_int_equal(sluice_block_get(pool, &block), 0);
            for (size_t place = 0; place < input->length; place++) {
                block->data[place] = (uint8_t)input->bytes[place];
                /* A block that has left the chain comes back as a view, a piece of its own, which
                 * then grows. */
                const sluice_block *last = run.chain->last;
                run.cuts[place] = last != block && !(last && last->parent == block);
                assert_int_equal(chain_extend(run.chain, block, 1), 0);
                run.come++;
                while (read_one_line(&run))
                    ;
            }
            sluice_block_release(block);
            end_lines(&run);
        }
    free_pool(pool);
}

static void a_limit_may_change(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    char scratch[64];
    const char *line;
    size_t length;
    feed(chain, pool, "0123456789", 10, 3);
    assert_int_equal(sluice_reader_line(reader, scratch, 20, &line, &length), -EAGAIN);
    assert_int_equal(sluice_reader_line(reader, scratch, 4, &line, &length), -EMSGSIZE);
    assert_int_equal(sluice_reader_line(reader, scratch, 20, &line, &length), -EAGAIN);
    feed(chain, pool, "ab\nrest", 7, 0);
    /* The end is there, but farther than this one reads. */
    assert_int_equal(sluice_reader_line(reader, scratch, 4, &line, &length), -EMSGSIZE);
    assert_int_equal(sluice_reader_line(reader, scratch, 11, &line, &length), -EMSGSIZE);
    assert_int_equal(sluice_reader_line(reader, scratch, SIZE_MAX, &line, &length), 0);
    assert_int_equal(length, 12);
    assert_memory_equal(line, "0123456789ab", 12);
    assert_int_equal(sluice_reader_buffered(reader), 4);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    free_pool(pool);
}

/* How far a search came counts for the bytes that it went over, not for those that follow when
 * these are gone. */
static void a_search_is_forgotten_when_bytes_go(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    for (int way = 0; way < 4; way++) {
        sluice_chain *chain = new_chain(pool), *other = new_chain(pool);
        sluice_reader *reader = new_reader(chain);
        sluice_slice slice = {0};
        char scratch[64];
        const char *line;
        size_t length;
        feed(chain, pool, "0123456789", 10, 4);
        assert_int_equal(sluice_reader_line(reader, scratch, 60, &line, &length), -EAGAIN);
        if (way == 0)
            assert_int_equal(sluice_reader_skip(reader, 9), 0);
        else if (way == 1)
            assert_int_equal(sluice_chain_take(chain, 9, &slice), 0);
        else if (way == 2)
            assert_int_equal(sluice_chain_move(chain, 9, other), 0);
        else
            assert_int_equal(sluice_chain_skip(chain, 9), 9);
        feed(chain, pool, "\nabcdefghij\n", 12, 0);
        assert_int_equal(sluice_reader_line(reader, scratch, 60, &line, &length), 0);
        assert_int_equal(length, 1);
        assert_memory_equal(line, "9", 1);
        assert_int_equal(sluice_reader_line(reader, scratch, 60, &line, &length), 0);
        assert_int_equal(length, 10);
        assert_memory_equal(line, "abcdefghij", 10);
        sluice_slice_release(&slice);
        sluice_reader_free(reader);
        sluice_chain_free(chain);
        sluice_chain_free(other);
    }
    free_pool(pool);
}

/* Any call on the reader ends the life of the line before it. */
static void call(sluice_reader *reader, int which) {
    uint64_t value;
    uint8_t byte;
    const uint8_t *view;
    const char *line;
    char scratch[4];
    size_t n;
    sluice_slice slice;
    switch (which) {
    case 0:
        assert_int_equal(sluice_reader_u8(reader, &byte), -EAGAIN);
        break;
    case 1:
        assert_int_equal(sluice_reader_be(reader, 8, &value), -EAGAIN);
        break;
    case 2:
        assert_int_equal(sluice_reader_le(reader, 8, &value), -EAGAIN);
        break;
    case 3:
        assert_int_equal(sluice_reader_peek(reader, 1, scratch, &view), -EAGAIN);
        break;
    case 4:
        assert_int_equal(sluice_reader_skip(reader, 0), 0);
        break;
    case 5:
        assert_int_equal(sluice_reader_range(reader, 1, NULL, NULL, &n), -EAGAIN);
        break;
    case 6:
        assert_int_equal(sluice_reader_slice(reader, 1, &slice), -EAGAIN);
        break;
    case 7:
        assert_int_equal(sluice_reader_copy(reader, scratch, 4), 0);
        break;
    default:
        assert_int_equal(sluice_reader_line(reader, scratch, 4, &line, &n), -EAGAIN);
    }
}

static void a_line_outlives_its_block_in_the_chain(void **state) {
    (void)state;
    enum { MAX = 8, CALLS = 9 };
    sluice_pool *pool = new_pool(MAX);
    for (int which = 0; which <= CALLS; which++) {
        sluice_chain *chain = new_chain(pool);
        sluice_reader *reader = new_reader(chain);
        sluice_block *others[MAX], *block;
        char scratch[16];
        const char *line;
        size_t length;
        uint32_t count = 0;
        feed(chain, pool, "the line\r\n", 10, 0);
        assert_int_equal(sluice_reader_line(reader, scratch, 16, &line, &length), 0);
        assert_int_equal(sluice_chain_length(chain), 0);
        assert_int_equal(sluice_chain_blocks(chain), 0);

        /* Nobody else gets the block, and asking how things are ends nothing. */
        while (sluice_block_get(pool, &block) == 0) {
            memset(sluice_block_data(block), '#', BLOCK);
            others[count++] = block;
        }
        assert_int_equal(count, MAX - 1);
        assert_int_equal(sluice_reader_buffered(reader), 0);
        assert_int_equal(sluice_reader_total(reader), 10);
        assert_int_equal(sluice_reader_skipping(reader), 0);
        assert_int_equal(length, 8);
        assert_memory_equal(line, "the line", 8);

        while (count > 0)
            sluice_block_release(others[--count]);
        assert_int_equal(counts(pool).held, 1);
        if (which < CALLS)
            call(reader, which);
        else
            sluice_reader_free(reader);
        assert_int_equal(counts(pool).held, 0);
        if (which < CALLS)
            sluice_reader_free(reader);
        sluice_chain_free(chain);
    }
    free_pool(pool);
}

static void a_line_outlives_what_others_consume(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    char scratch[16];
    const char *line, *second;
    size_t length;
    feed(chain, pool, "one\ntwo\nbody", 12, 0);
    assert_int_equal(sluice_reader_line(reader, scratch, 16, &line, &length), 0);
    assert_int_equal(sluice_reader_line(reader, scratch, 16, &second, &length), 0);
    /* A framer takes the rest of the block out of the chain; the chain itself may go too. */
    assert_int_equal(sluice_chain_skip(chain, 4), 4);
    sluice_chain_free(chain);
    assert_memory_equal(second, "two", 3);
    assert_int_equal(counts(pool).held, 1);
    sluice_reader_free(reader);
    free_pool(pool);
}

/*
 * A line of a mebibyte that comes byte by byte. What has been searched once is made unreadable: a
 * second look at it would be a fault, so the search is linear without anybody measuring time.
 */
static void a_long_line_is_searched_once(void **state) {
    (void)state;
    enum { LENGTH = 1 << 20, LIMIT = 2 << 20 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    sluice_pool_options options = {.size = sizeof options,
                                   .block_size = (uint32_t)page,
                                   .slab_blocks = 8,
                                   .max_blocks = 1024,
                                   .no_huge_pages = true};
    sluice_pool *pool;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    sluice_chain *chain = new_chain(pool);
    sluice_reader *reader = new_reader(chain);
    char *scratch = malloc(LIMIT);
    assert_non_null(scratch);
    const char *line;
    size_t length;
    sluice_block *block = NULL;

    for (size_t i = 0; i < LENGTH; i++) {
        if (i % page == 0) {
            sluice_block_release(block);
            assert_int_equal(sluice_block_get(pool, &block), 0);
            block->data[0] = 'a';
            block->length = 1;
            block_ref(block);
            sluice_chain_append(chain, block);
        } else {
            block->data[i % page] = (uint8_t)('a' + i % 23);
            assert_int_equal(chain_extend(chain, block, 1), 0);
        }
        assert_int_equal(sluice_reader_line(reader, scratch, LIMIT, &line, &length), -EAGAIN);
        if (block_tail(block) == 0)
            assert_int_equal(mprotect(block->data, page, PROT_NONE), 0);
    }
    for (sluice_block *b = chain->first; b; b = b->next)
        assert_int_equal(mprotect(b->data, page, PROT_READ | PROT_WRITE), 0);
    sluice_block_release(block);
    feed(chain, pool, "\r\nmore", 6, 1);
    assert_int_equal(sluice_reader_line(reader, scratch, LIMIT, &line, &length), 0);
    assert_int_equal(length, LENGTH);
    assert_ptr_equal(line, scratch);
    size_t wrong = 0;
    for (size_t i = 0; i < LENGTH; i++)
        wrong += line[i] != (i % page ? (char)('a' + i % 23) : 'a');
    assert_int_equal(wrong, 0);
    assert_int_equal(counts(pool).bytes_copied, LENGTH);
    assert_int_equal(sluice_reader_buffered(reader), 4);
    sluice_reader_free(reader);
    sluice_chain_free(chain);
    free(scratch);
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
    size_t size = pick(m, sizeof scratch + 1), length, expected, used;
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
        cmocka_unit_test(cursors_at_every_straddle),
        cmocka_unit_test(cursors_on_nothing),
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
        cmocka_unit_test(lines_at_every_cut_and_limit),
        cmocka_unit_test(lines_as_their_block_grows),
        cmocka_unit_test(a_limit_may_change),
        cmocka_unit_test(a_search_is_forgotten_when_bytes_go),
        cmocka_unit_test(a_line_outlives_its_block_in_the_chain),
        cmocka_unit_test(a_line_outlives_what_others_consume),
        cmocka_unit_test(a_long_line_is_searched_once),
        cmocka_unit_test(a_random_walk_matches_a_plain_array),
        cmocka_unit_test(null_is_nothing),
        cmocka_unit_test(what_has_arrived_is_not_owed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
