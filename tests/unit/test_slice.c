/* Slices: their pieces, parts, references and copies, at every offset and length. */
#include <sluice/slice.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/reader.h>

#include "memory/chain.h"
#include "memory/pool.h"
#include "support/feed.h"

enum {
    TEXT = 32,
    BEFORE = 2, /* bytes in front of the slice, in its first block */
    BEHIND = 3, /* bytes behind it, in its last one */
};

static const char text[TEXT + 1] = "abcdefghijklmnopqrstuvwxyz012345";

/* Where a piece of the slice ends; the first piece begins inside a block and the last one ends
 * inside one. */
static const uint32_t ends[] = {1, 2, 7, 8, 19, 20, TEXT};
enum { PIECES = sizeof ends / sizeof *ends };

static sluice_pool *new_pool(uint32_t max_blocks) {
    sluice_pool *pool;
    sluice_pool_options options = {
        .size = sizeof options, .block_size = 512, .slab_blocks = 8, .max_blocks = max_blocks, .reserve_blocks = 2};
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

/* The text as a slice over PIECES blocks, of which nobody else holds any. */
static sluice_slice new_text(sluice_pool *pool) {
    sluice_chain *chain;
    sluice_slice slice;
    char bytes[BEFORE + TEXT + BEHIND + 1] = "<<";
    memcpy(bytes + BEFORE, text, TEXT);
    memcpy(bytes + BEFORE + TEXT, ">>>", BEHIND);
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    uint32_t begin = 0;
    for (int i = 0; i < PIECES; i++) {
        uint32_t end = BEFORE + ends[i] + (i == PIECES - 1 ? BEHIND : 0);
        feed(chain, pool, bytes + begin, end - begin, 0);
        begin = end;
    }
    assert_int_equal(sluice_chain_skip(chain, BEFORE), BEFORE);
    assert_int_equal(sluice_chain_take(chain, TEXT, &slice), 0);
    sluice_chain_free(chain);
    return slice;
}

/* The same, but with views in the middle. */
static sluice_slice new_text_of_views(sluice_pool *pool) {
    sluice_chain *chain;
    sluice_slice middle, whole;
    sluice_slice slice = new_text(pool);
    assert_int_equal(sluice_slice_sub(&slice, 5, 20, &middle), 0);
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    feed(chain, pool, text, 5, 0);
    assert_int_equal(sluice_chain_append_slice(chain, &middle), 0);
    feed(chain, pool, text + 25, TEXT - 25, 3);
    assert_int_equal(sluice_chain_take(chain, TEXT, &whole), 0);
    sluice_slice_release(&slice);
    sluice_slice_release(&middle);
    sluice_chain_free(chain);
    return whole;
}

static void assert_holds(const sluice_slice *slice, const char *bytes, size_t size) {
    struct iovec iov[64];
    assert_int_equal(sluice_slice_length(slice), size);
    size_t count = sluice_slice_iov(slice, 0, iov, 64);
    assert_int_equal(count, sluice_slice_blocks(slice));
    for (size_t i = 0; i < count; i++) {
        assert_true(iov[i].iov_len > 0 && iov[i].iov_len <= size);
        assert_memory_equal(iov[i].iov_base, bytes, iov[i].iov_len);
        bytes += iov[i].iov_len;
        size -= iov[i].iov_len;
    }
    assert_int_equal(size, 0);
}

static size_t pieces_touched(size_t from, size_t to) {
    size_t count = 0, begin = 0;
    for (int i = 0; i < PIECES && from < to; begin = ends[i++])
        count += from < ends[i] && to > begin;
    return count;
}

/* The pieces from an offset on, with room for some of them: those and no others are written. */
static void check_iov(const sluice_slice *slice, size_t offset, size_t room) {
    static uint8_t nowhere;
    struct iovec iov[PIECES + 2];
    for (size_t i = 0; i < PIECES + 2; i++)
        iov[i] = (struct iovec){&nowhere, 12345};
    size_t pieces = pieces_touched(offset, TEXT);
    assert_int_equal(sluice_slice_iov(slice, offset, iov, room), pieces);

    const char *expected = text + offset;
    for (size_t i = 0; i < PIECES + 2; i++) {
        if (i >= room || i >= pieces) {
            assert_ptr_equal(iov[i].iov_base, &nowhere);
            assert_int_equal(iov[i].iov_len, 12345);
            continue;
        }
        size_t end = ends[PIECES - pieces + i];
        assert_int_equal(iov[i].iov_len, text + end - expected);
        assert_memory_equal(iov[i].iov_base, expected, iov[i].iov_len);
        expected += iov[i].iov_len;
    }
}

static void pieces_from_every_offset(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_slice slice = new_text(pool);
    assert_int_equal(sluice_slice_blocks(&slice), PIECES);
    for (size_t offset = 0; offset < TEXT; offset++) {
        for (size_t room = 0; room <= PIECES + 2; room++)
            check_iov(&slice, offset, room);
        assert_int_equal(sluice_slice_iov(&slice, offset, NULL, 0), pieces_touched(offset, TEXT));
    }
    const size_t beyond[] = {TEXT, TEXT + 1, UINT32_MAX, SIZE_MAX};
    struct iovec iov = {NULL, 12345};
    for (int i = 0; i < 4; i++)
        assert_int_equal(sluice_slice_iov(&slice, beyond[i], &iov, 1), 0);
    assert_int_equal(iov.iov_len, 12345);
    sluice_slice_release(&slice);
    free_pool(pool);
}

static void copies_and_counts(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_slice slice = new_text(pool);
    uint64_t copied = 0;
    for (size_t offset = 0; offset <= TEXT + 1; offset++)
        for (size_t n = 0; n <= TEXT + 1; n++) {
            char bytes[TEXT + 2];
            memset(bytes, '#', sizeof bytes);
            size_t there = offset < TEXT ? TEXT - offset : 0;
            size_t expected = n < there ? n : there;
            assert_int_equal(sluice_slice_copy(&slice, offset, bytes, n), expected);
            assert_memory_equal(bytes, text + (expected ? offset : 0), expected);
            for (size_t i = expected; i < sizeof bytes; i++)
                assert_int_equal(bytes[i], '#');
            copied += expected;
            assert_int_equal(counts(pool).bytes_copied, copied);
        }
    char bytes[TEXT];
    assert_int_equal(sluice_slice_copy(&slice, 1, bytes, SIZE_MAX), TEXT - 1);
    assert_int_equal(sluice_slice_copy(&slice, SIZE_MAX, bytes, SIZE_MAX), 0);
    assert_int_equal(sluice_slice_copy(&slice, 0, NULL, 0), 0);
    assert_int_equal(counts(pool).bytes_copied, copied + TEXT - 1);
    sluice_slice_release(&slice);
    free_pool(pool);
}

static bool count_bytes(const uint8_t *view, size_t length, void *user) {
    (void)view;
    *(size_t *)user += length;
    return true;
}

/* Whatever else can be done with bytes leaves them where they are. */
static void nothing_else_copies(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_slice slice = new_text(pool), part, again, kept;
    sluice_chain *chain, *other;
    sluice_reader *reader;
    struct iovec iov[PIECES];
    uint64_t value;
    const uint8_t *view;
    size_t seen = 0;

    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    assert_int_equal(sluice_chain_new(pool, &other), 0);
    assert_int_equal(sluice_reader_new(other, &reader), 0);
    assert_int_equal(sluice_slice_sub(&slice, 1, 25, &part), 0);
    sluice_slice_ref(&part, &again);
    assert_int_equal(sluice_slice_take(&again, &kept), 0);
    sluice_slice_iov(&kept, 3, iov, PIECES);
    assert_int_equal(sluice_chain_append_slice(chain, &kept), 0);
    assert_int_equal(sluice_chain_move(chain, 20, other), 0);
    assert_int_equal(sluice_chain_skip(chain, 2), 2);

    assert_int_equal(sluice_reader_be(reader, 5, &value), 0);
    assert_int_equal(sluice_reader_peek(reader, 1, NULL, &view), 0);
    assert_int_equal(sluice_reader_skip(reader, 3), 0);
    assert_int_equal(sluice_reader_range(reader, 4, count_bytes, &seen, &seen), 0);
    assert_int_equal(sluice_reader_le(reader, 2, &value), 0);
    sluice_slice_release(&again);
    assert_int_equal(sluice_reader_slice(reader, 6, &again), 0);
    assert_int_equal(counts(pool).bytes_copied, 0);

    sluice_reader_free(reader);
    sluice_chain_free(chain);
    sluice_chain_free(other);
    sluice_slice_release(&slice);
    sluice_slice_release(&part);
    sluice_slice_release(&again);
    sluice_slice_release(&kept);
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void check_parts(sluice_pool *pool, sluice_slice (*make)(sluice_pool *pool)) {
    for (size_t offset = 0; offset <= TEXT; offset++)
        for (size_t n = 0; offset + n <= TEXT; n++) {
            sluice_slice slice = make(pool), part, inner;
            uint32_t held = counts(pool).held;
            assert_int_equal(sluice_slice_sub(&slice, offset, n, &part), 0);
            assert_holds(&part, text + offset, n);
            assert_int_equal(counts(pool).held, held);

            /* A part of the part, and it needs neither of them. */
            size_t left = n / 3, right = n / 4;
            assert_int_equal(sluice_slice_sub(&part, left, n - left - right, &inner), 0);
            assert_holds(&slice, text, TEXT);
            sluice_slice_release(n & 1 ? &slice : &part);
            sluice_slice_release(n & 1 ? &part : &slice);
            assert_holds(&inner, text + offset + left, n - left - right);
            sluice_slice_release(&inner);
            assert_int_equal(counts(pool).held, 0);
            assert_int_equal(counts(pool).views, 0);
        }
}

static void every_part(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    check_parts(pool, new_text);
    check_parts(pool, new_text_of_views);
    free_pool(pool);
}

/* A part holds the blocks that it lies in, and lets the others go. */
static void a_part_holds_only_its_blocks(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    for (size_t offset = 0; offset <= TEXT; offset++)
        for (size_t n = 0; offset + n <= TEXT; n++) {
            sluice_slice slice = new_text(pool), part;
            assert_int_equal(sluice_slice_sub(&slice, offset, n, &part), 0);
            sluice_slice_release(&slice);
            assert_int_equal(counts(pool).held, pieces_touched(offset, offset + n));
            assert_int_equal(sluice_slice_blocks(&part), pieces_touched(offset, offset + n));
            sluice_slice_release(&part);
        }
    free_pool(pool);
}

static void parts_beyond_the_end(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_slice slice = new_text(pool);
    sluice_slice empty = {0};
    const size_t bad[][2] = {
        {0, TEXT + 1},
        {1, TEXT},
        {TEXT, 1},
        {TEXT + 1, 0},
        {TEXT + 1, SIZE_MAX},
        {1, SIZE_MAX},
        {0, SIZE_MAX},
        {SIZE_MAX, 1},
        {SIZE_MAX, 0},
        {SIZE_MAX, SIZE_MAX},
        {SIZE_MAX, TEXT},
        {2, SIZE_MAX - 1},
        {TEXT, SIZE_MAX - TEXT + 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sluice_slice part = {.offset = 5, .length = 77};
        assert_int_equal(sluice_slice_sub(&slice, bad[i][0], bad[i][1], &part), -EINVAL);
        assert_null(part.first);
        assert_int_equal(part.offset, 5);
        assert_int_equal(part.length, 77);
        assert_int_equal(sluice_slice_sub(&empty, bad[i][0] | 1, bad[i][1], &part), -EINVAL);
    }
    for (sluice_block *block = slice.first; block; block = block == slice.last ? NULL : block->next)
        assert_int_equal(atomic_load(&block->refs), 1);
    sluice_slice_release(&slice);
    free_pool(pool);
}

static void references_in_any_order(void **state) {
    (void)state;
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    sluice_pool *pool = new_pool(32);
    for (int i = 0; i < 6; i++) {
        sluice_slice slices[3] = {new_text(pool)};
        sluice_slice_ref(&slices[0], &slices[1]);
        sluice_slice_ref(&slices[1], &slices[2]);
        for (int k = 0; k < 3; k++) {
            assert_holds(&slices[orders[i][k]], text, TEXT);
            assert_int_equal(counts(pool).held, PIECES);
            sluice_slice_release(&slices[orders[i][k]]);
            assert_null(slices[orders[i][k]].first);
            /* The second release of a slice takes nothing from the others. */
            sluice_slice_release(&slices[orders[i][k]]);
        }
        assert_int_equal(counts(pool).held, 0);
    }
    free_pool(pool);
}

static void the_empty_slice(void **state) {
    (void)state;
    sluice_slice empty = {0}, other = {.length = 77};
    struct iovec iov;
    char byte;
    assert_int_equal(sluice_slice_length(&empty), 0);
    assert_int_equal(sluice_slice_blocks(&empty), 0);
    assert_int_equal(sluice_slice_iov(&empty, 0, &iov, 1), 0);
    assert_int_equal(sluice_slice_copy(&empty, 0, &byte, 1), 0);
    sluice_slice_ref(&empty, &other);
    assert_int_equal(other.length, 0);
    other.length = 77;
    assert_int_equal(sluice_slice_sub(&empty, 0, 0, &other), 0);
    assert_int_equal(other.length, 0);
    other.length = 77;
    assert_int_equal(sluice_slice_take(&empty, &other), 0);
    assert_int_equal(other.length, 0);
    sluice_slice_release(&empty);
    sluice_slice_release(NULL);
}

static void keep_moves_references(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_slice slice = new_text(pool), kept;
    assert_int_equal(sluice_slice_take(&slice, &kept), 0);
    assert_int_equal(sluice_slice_length(&slice), 0);
    assert_int_equal(sluice_slice_blocks(&slice), 0);
    for (sluice_block *block = kept.first; block; block = block == kept.last ? NULL : block->next)
        assert_int_equal(atomic_load(&block->refs), 1);
    /* The framer releases its slice with its next call: the kept bytes stay. */
    sluice_slice_release(&slice);
    assert_holds(&kept, text, TEXT);
    sluice_slice_release(&kept);
    free_pool(pool);
}

/* A slice ends where it was cut, whatever its last block and the chain behind it become. */
static void the_end_stays_where_it_was(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_chain *chain;
    sluice_slice slice, part;
    sluice_block *block;
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    assert_int_equal(sluice_block_get(pool, &block), 0);
    memcpy(sluice_block_data(block), text, 20);
    assert_int_equal(sluice_block_set_length(block, 10), 0);
    sluice_chain_append(chain, block);
    assert_int_equal(sluice_chain_take(chain, 7, &slice), 0);

    for (int i = 0; i < 3; i++) {
        switch (i) {
        case 0: /* the block grows */
            assert_int_equal(chain_extend(chain, block, 10), 0);
            break;
        case 1: /* another one follows it */
            feed(chain, pool, text + 20, 5, 0);
            break;
        default: /* the chain has gone on, and the other block is free */
            chain_clear(chain);
        }
        assert_holds(&slice, text, 7);
        assert_int_equal(sluice_slice_blocks(&slice), 1);
        assert_int_equal(sluice_slice_sub(&slice, 2, 5, &part), 0);
        assert_holds(&part, text + 2, 5);
        assert_int_equal(sluice_slice_sub(&slice, 2, 6, &(sluice_slice){0}), -EINVAL);
        sluice_slice_release(&part);
    }
    sluice_chain_free(chain);
    sluice_slice_release(&slice);
    free_pool(pool);
}

/*
 * Slices that are put together, as frames are that came in packets: bytes of one block of headers
 * before each part of what was received, the borders of which lie anywhere. Summed up, they hold
 * what the pool says.
 */
static void footprints_add_up(void **state) {
    (void)state;
    enum { FRAMES = 12, HEADER = 15 };
    for (size_t part = 1; part <= 2 * 512; part += 37) {
        sluice_pool *pool = new_pool(128);
        sluice_chain *headers, *received, *media;
        sluice_slice frames[FRAMES], piece;
        static const uint8_t bytes[FRAMES * 1024];
        size_t sum = 0;
        assert_int_equal(sluice_chain_new(pool, &headers), 0);
        assert_int_equal(sluice_chain_new(pool, &received), 0);
        assert_int_equal(sluice_chain_new(pool, &media), 0);
        feed(headers, pool, bytes, 2 * FRAMES * HEADER, 0);
        feed(received, pool, bytes, sizeof bytes, 0);
        for (int i = 0; i < FRAMES; i++) {
            /* Two headers and two parts. */
            for (int j = 0; j < 2; j++) {
                assert_int_equal(sluice_chain_take(headers, HEADER, &piece), 0);
                assert_int_equal(sluice_chain_append_slice(media, &piece), 0);
                sluice_slice_release(&piece);
                assert_int_equal(sluice_chain_take(received, part / 2 + j, &piece), 0);
                assert_int_equal(sluice_chain_append_slice(media, &piece), 0);
                sluice_slice_release(&piece);
            }
            assert_int_equal(sluice_chain_take(media, sluice_chain_length(media), &frames[i]), 0);
            sum += sluice_slice_footprint(&frames[i], i > 0 ? &frames[i - 1] : NULL);
        }
        sluice_chain_free(headers);
        sluice_chain_free(received);
        sluice_chain_free(media);
        assert_int_equal(sum, counts(pool).held);
        for (int i = 0; i < FRAMES; i++)
            sluice_slice_release(&frames[i]);
        free_pool(pool);
    }
}

/* Views run out before blocks where frames are of small pieces: who keeps them leaves some for
 * framing, too. */
static void who_keeps_small_pieces_leaves_views(void **state) {
    (void)state;
    enum { BLOCKS = 128, VIEWS = 4 * BLOCKS };
    sluice_pool *pool = new_pool(BLOCKS);
    sluice_chain *from, *to;
    sluice_slice kept[VIEWS], slice;
    static const uint8_t bytes[2 * VIEWS];
    size_t count = 0;
    int error = 0;
    assert_int_equal(sluice_chain_new(pool, &from), 0);
    assert_int_equal(sluice_chain_new(pool, &to), 0);
    feed(from, pool, bytes, sizeof bytes, 0);
    while (!error) {
        assert_true(count < VIEWS);
        assert_int_equal(sluice_chain_move(from, 1, to), 0);
        assert_int_equal(sluice_chain_skip(from, 1), 1);
        assert_int_equal(sluice_chain_take(to, 1, &slice), 0);
        error = sluice_slice_take(&slice, &kept[count]);
        count += error == 0;
    }
    assert_int_equal(error, -ENOBUFS);
    assert_true(counts(pool).held < BLOCKS / 2);
    assert_true(count > VIEWS / 2 && count < VIEWS);
    for (size_t left = count + 1; left < VIEWS; left++) {
        assert_int_equal(sluice_chain_move(from, 1, to), 0);
        assert_int_equal(sluice_chain_skip(from, 1), 1);
    }
    sluice_chain_free(to);
    while (count > 0)
        sluice_slice_release(&kept[--count]);
    assert_int_equal(sluice_slice_take(&slice, &kept[0]), 0);
    sluice_slice_release(&kept[0]);
    sluice_chain_free(from);
    free_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_from_every_offset),
        cmocka_unit_test(copies_and_counts),
        cmocka_unit_test(nothing_else_copies),
        cmocka_unit_test(every_part),
        cmocka_unit_test(a_part_holds_only_its_blocks),
        cmocka_unit_test(parts_beyond_the_end),
        cmocka_unit_test(references_in_any_order),
        cmocka_unit_test(the_empty_slice),
        cmocka_unit_test(keep_moves_references),
        cmocka_unit_test(the_end_stays_where_it_was),
        cmocka_unit_test(footprints_add_up),
        cmocka_unit_test(who_keeps_small_pieces_leaves_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
