/* The chain: every way out of it at every cut, growth at the tail, and a long random walk against
 * plain byte arrays. */
#include <sluice/chain.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "memory/pool.h"
#include "reader/cursor.h"
#include "support/feed.h"

enum {
    BLOCK = 512,
    TEXT = 43,
};

/* Bytes that differ from their neighbours, in uneven pieces; the ends of the pieces are where
 * things break. */
static const uint32_t pieces[] = {1, 2, 5, 3, 9, 1, 1, 16, 4, 1};
enum { PIECES = sizeof pieces / sizeof *pieces };
static const char text[TEXT + 1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";

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

static sluice_chain *new_text(sluice_pool *pool) {
    sluice_chain *chain = new_chain(pool);
    uint32_t done = 0;
    for (int i = 0; i < PIECES; done += pieces[i++])
        feed(chain, pool, text + done, pieces[i], 0);
    assert_int_equal(done, TEXT);
    return chain;
}

/* The chain holds these bytes and no others; nothing is copied or consumed to see that. */
static void assert_holds(const sluice_chain *chain, const void *bytes, size_t size) {
    assert_true(chain_is_sound(chain));
    assert_int_equal(sluice_chain_length(chain), size);
    sluice_cursor cursor = cursor_of_chain(chain);
    const uint8_t *expected = bytes;
    while (cursor_left(&cursor) > 0) {
        size_t here;
        const uint8_t *view = cursor_view(&cursor, &here);
        assert_memory_equal(view, expected, here);
        expected += here;
        assert_true(cursor_skip(&cursor, here));
    }
    assert_ptr_equal(expected, (const uint8_t *)bytes + size);
}

static void assert_slice_holds(const sluice_slice *slice, const void *bytes, size_t size) {
    struct iovec iov[128];
    assert_int_equal(sluice_slice_length(slice), size);
    size_t count = sluice_slice_iov(slice, 0, iov, 128);
    assert_true(count <= 128);
    const uint8_t *expected = bytes;
    for (size_t i = 0; i < count; i++) {
        assert_true(iov[i].iov_len > 0);
        assert_memory_equal(iov[i].iov_base, expected, iov[i].iov_len);
        expected += iov[i].iov_len;
    }
    assert_ptr_equal(expected, (const uint8_t *)bytes + size);
}

/* Pieces that a range of the text touches. */
static size_t pieces_touched(size_t from, size_t to) {
    size_t begin = 0, count = 0;
    for (int i = 0; i < PIECES; i++) {
        size_t end = begin + pieces[i];
        count += from < end && to > begin && from < to;
        begin = end;
    }
    return count;
}

static bool is_border(size_t place) {
    return place == 0 || place == TEXT || pieces_touched(place - 1, place + 1) == 2;
}

static void takes_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    for (size_t a = 0; a <= TEXT; a++)
        for (size_t b = a; b <= TEXT; b++) {
            sluice_chain *chain = new_text(pool);
            sluice_slice first, second;
            assert_int_equal(sluice_chain_take(chain, a, &first), 0);
            assert_int_equal(sluice_chain_take(chain, b - a, &second), 0);
            assert_slice_holds(&first, text, a);
            assert_slice_holds(&second, text + a, b - a);
            assert_holds(chain, text + b, TEXT - b);
            assert_int_equal(sluice_chain_consumed(chain), b);
            assert_int_equal(sluice_slice_blocks(&first), pieces_touched(0, a));
            assert_int_equal(sluice_slice_blocks(&second), pieces_touched(a, b));
            assert_int_equal(sluice_chain_blocks(chain), pieces_touched(b, TEXT));

            /* References move: only a block that lies on both sides of a cut has more than one. */
            for (sluice_block *block = first.first; block; block = slice_next(&first, block)) {
                bool shared = block == first.last && !is_border(a);
                bool thrice = shared && b > a && block == second.last && !is_border(b);
                if (shared && b == a)
                    assert_int_equal(atomic_load(&block->refs), 2);
                else if (!thrice)
                    assert_int_equal(atomic_load(&block->refs), shared ? 2 : 1);
                else
                    assert_int_equal(atomic_load(&block->refs), 3);
            }
            assert_int_equal(counts(pool).held, PIECES);

            /* In either order. */
            sluice_slice_release(b & 1 ? &first : &second);
            sluice_chain_free(chain);
            sluice_slice_release(&first);
            sluice_slice_release(&second);
            assert_int_equal(counts(pool).held, 0);
        }
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void skips_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    for (size_t a = 0; a <= TEXT; a++)
        for (size_t b = a; b <= TEXT; b++) {
            sluice_chain *chain = new_text(pool);
            assert_int_equal(sluice_chain_skip(chain, a), a);
            assert_holds(chain, text + a, TEXT - a);
            assert_int_equal(sluice_chain_skip(chain, b - a), b - a);
            assert_holds(chain, text + b, TEXT - b);
            /* A block goes back with its last byte: not earlier, and not later. */
            assert_int_equal(counts(pool).held, pieces_touched(b, TEXT));
            assert_int_equal(sluice_chain_blocks(chain), pieces_touched(b, TEXT));
            assert_int_equal(sluice_chain_skip(chain, SIZE_MAX), TEXT - b);
            assert_int_equal(sluice_chain_skip(chain, 1), 0);
            assert_int_equal(sluice_chain_consumed(chain), TEXT);
            assert_holds(chain, "", 0);
            sluice_chain_free(chain);
        }
    free_pool(pool);
}

static void moves_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    char expected[2 * TEXT];
    for (size_t a = 0; a <= TEXT; a++)
        for (size_t b = a; b <= TEXT; b++) {
            sluice_chain *from = new_text(pool), *to = new_chain(pool);
            feed(to, pool, "first ", 6, 4);
            memcpy(expected, "first ", 6);
            assert_int_equal(sluice_chain_skip(to, 1), 1);
            assert_int_equal(sluice_chain_skip(from, a), a);
            assert_int_equal(sluice_chain_move(from, b - a, to), 0);
            memcpy(expected + 6, text + a, b - a);
            assert_holds(to, expected + 1, 5 + b - a);
            assert_holds(from, text + b, TEXT - b);
            assert_int_equal(sluice_chain_consumed(from), b);
            assert_int_equal(sluice_chain_consumed(to), 1);
            if (a & 1)
                sluice_chain_free(from);
            assert_holds(to, expected + 1, 5 + b - a);
            /* What has been moved is as good as any: it moves on. */
            sluice_chain *third = new_chain(pool);
            assert_int_equal(sluice_chain_move(to, 5 + b - a, third), 0);
            sluice_chain_free(to);
            assert_holds(third, expected + 1, 5 + b - a);
            if (!(a & 1))
                sluice_chain_free(from);
            sluice_chain_free(third);
            assert_int_equal(counts(pool).held, 0);
            assert_int_equal(counts(pool).views, 0);
        }
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void appends_slices_at_every_cut(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    for (size_t a = 0; a <= TEXT; a++)
        for (size_t b = a; b <= TEXT; b++) {
            sluice_chain *from = new_text(pool), *to = new_chain(pool);
            sluice_slice slice;
            sluice_chain_skip(from, a);
            assert_int_equal(sluice_chain_take(from, b - a, &slice), 0);
            /* Twice into the same chain, once back into the one that it came from. */
            assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
            assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
            assert_int_equal(sluice_chain_append_slice(from, &slice), 0);
            assert_slice_holds(&slice, text + a, b - a);
            sluice_slice_release(&slice);

            char expected[2 * TEXT];
            memcpy(expected, text + a, b - a);
            memcpy(expected + (b - a), text + a, b - a);
            assert_holds(to, expected, 2 * (b - a));
            memcpy(expected, text + b, TEXT - b);
            memcpy(expected + (TEXT - b), text + a, b - a);
            assert_holds(from, expected, TEXT - a);
            sluice_chain_free(b & 1 ? to : from);
            sluice_chain_free(b & 1 ? from : to);
            assert_int_equal(counts(pool).held, 0);
        }
    assert_int_equal(counts(pool).bytes_copied, 0);
    free_pool(pool);
}

static void too_much_changes_nothing(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    sluice_chain *chain = new_text(pool), *to = new_chain(pool);
    const size_t too_much[] = {1, 2, SIZE_MAX - TEXT};
    for (size_t skipped = 0; skipped <= TEXT; skipped++) {
        for (int i = 0; i < 3; i++) {
            size_t n = TEXT - skipped + too_much[i];
            sluice_slice slice = {.length = 77, .offset = 5};
            assert_int_equal(sluice_chain_take(chain, n, &slice), -EAGAIN);
            assert_int_equal(slice.length, 77);
            assert_int_equal(slice.offset, 5);
            assert_int_equal(sluice_chain_move(chain, n, to), -EAGAIN);
        }
        assert_holds(chain, text + skipped, TEXT - skipped);
        assert_holds(to, "", 0);
        assert_int_equal(sluice_chain_consumed(chain), skipped);
        sluice_chain_skip(chain, 1);
    }
    sluice_chain_free(chain);
    sluice_chain_free(to);
    free_pool(pool);
}

static void nothing_is_a_length_too(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    sluice_chain *empty = new_chain(pool), *chain = new_text(pool);
    sluice_chain *chains[] = {empty, chain};
    for (int i = 0; i < 2; i++) {
        sluice_slice slice = {.length = 77};
        assert_int_equal(sluice_chain_take(chains[i], 0, &slice), 0);
        assert_int_equal(slice.length, 0);
        assert_null(slice.first);
        assert_int_equal(sluice_chain_append_slice(chains[i], &slice), 0);
        assert_int_equal(sluice_chain_skip(chains[i], 0), 0);
        assert_int_equal(sluice_chain_move(chains[i], 0, chains[1 - i]), 0);
        sluice_slice_release(&slice);
    }
    assert_holds(empty, "", 0);
    assert_holds(chain, text, TEXT);

    /* A block without data is released at once: an empty one in a chain would be a piece of no
     * length. */
    sluice_block *block;
    uint32_t held = counts(pool).held;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sluice_block_get(pool, &block), 0);
        sluice_chain_append(chains[i], block);
        assert_int_equal(counts(pool).held, held);
    }
    assert_holds(empty, "", 0);
    assert_holds(chain, text, TEXT);
    sluice_chain_free(empty);
    sluice_chain_free(chain);
    free_pool(pool);
}

static void moves_onto_itself(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(64);
    for (size_t n = 0; n <= TEXT; n++) {
        sluice_chain *chain = new_text(pool);
        char expected[TEXT];
        memcpy(expected, text + n, TEXT - n);
        memcpy(expected + TEXT - n, text, n);
        assert_int_equal(sluice_chain_move(chain, n, chain), 0);
        assert_holds(chain, expected, TEXT);
        sluice_chain_free(chain);
    }
    free_pool(pool);
}

static void pieces_of_one_block_unite(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *from = new_chain(pool), *to = new_chain(pool);
    sluice_slice slice;
    feed(from, pool, text, TEXT, 0);
    for (size_t moved = 3; moved <= 15; moved += 3) {
        assert_int_equal(sluice_chain_move(from, 3, to), 0);
        assert_holds(to, text, moved);
        assert_int_equal(sluice_chain_blocks(to), 1);
        assert_int_equal(counts(pool).views, 1);
    }
    /* Where somebody else refers to the last view, it stays as it is. */
    assert_int_equal(sluice_chain_take(to, 5, &slice), 0);
    assert_int_equal(sluice_chain_move(from, 4, to), 0);
    assert_holds(to, text + 5, 14);
    assert_int_equal(counts(pool).views, 2);
    assert_slice_holds(&slice, text, 5);

    /* Bytes that do not follow on each other stay apart, and so do those of other blocks. */
    assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
    assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
    feed(from, pool, "other", 5, 0);
    assert_int_equal(sluice_chain_skip(from, 1), 1);
    assert_int_equal(sluice_chain_move(from, TEXT - 20 + 5, to), 0);
    char expected[2 * TEXT];
    memcpy(expected, text + 5, 14);
    memcpy(expected + 14, text, 5);
    memcpy(expected + 19, text, 5);
    memcpy(expected + 24, text + 20, TEXT - 20);
    memcpy(expected + 24 + TEXT - 20, "other", 5);
    assert_holds(to, expected, 24 + TEXT - 20 + 5);
    assert_holds(from, "", 0);
    assert_slice_holds(&slice, text, 5);
    sluice_slice_release(&slice);
    sluice_chain_free(from);
    assert_holds(to, expected, 24 + TEXT - 20 + 5);
    sluice_chain_free(to);
    free_pool(pool);
}

static void an_emptied_chain_is_as_new(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_chain *chain = new_chain(pool);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(sluice_chain_consumed(chain), i * TEXT);
        feed(chain, pool, text, TEXT, 0);
        assert_holds(chain, text, TEXT);
        chain_clear(chain);
        assert_holds(chain, "", 0);
    }
    sluice_chain_free(chain);
    free_pool(pool);
}

/* Uses up views until exactly @left can still be had. */
static uint32_t use_up_views(sluice_pool *pool, sluice_block *block, sluice_block **views, uint32_t left) {
    uint32_t count = 0;
    while (pool_view(pool, block, 0, 1, &views[count]) == 0)
        count++;
    for (; left > 0; left--)
        sluice_block_release(views[--count]);
    return count;
}

static void without_views_nothing_moves(void **state) {
    (void)state;
    enum { SKIPPED = 4, TAKEN = 20 };
    static sluice_block *views[512];
    const size_t needed = pieces_touched(SKIPPED, SKIPPED + TAKEN);
    for (uint32_t left = 0; left <= needed; left++) {
        sluice_pool *pool = new_pool(64);
        sluice_chain *from = new_text(pool), *to = new_chain(pool), *source = new_text(pool);
        sluice_block *block;
        sluice_slice slice;
        feed(to, pool, "to", 2, 0);
        sluice_chain_skip(from, SKIPPED);
        sluice_chain_skip(source, SKIPPED);
        assert_int_equal(sluice_chain_take(source, TAKEN, &slice), 0);
        assert_int_equal(sluice_block_get(pool, &block), 0);
        uint32_t count = use_up_views(pool, block, views, left);

        if (left < needed) {
            assert_int_equal(sluice_chain_move(from, TAKEN, to), -ENOBUFS);
            assert_holds(to, "to", 2);
            assert_holds(from, text + SKIPPED, TEXT - SKIPPED);
            assert_int_equal(sluice_chain_consumed(from), SKIPPED);
            assert_int_equal(sluice_chain_append_slice(to, &slice), -ENOBUFS);
            assert_holds(to, "to", 2);
        } else {
            assert_int_equal(sluice_chain_append_slice(to, &slice), 0);
            chain_clear(to);
            assert_int_equal(sluice_chain_move(from, TAKEN, to), 0);
            assert_holds(to, text + SKIPPED, TAKEN);
        }
        assert_slice_holds(&slice, text + SKIPPED, TAKEN);
        assert_int_equal(counts(pool).views, count + (left < needed ? 0 : needed));

        while (count > 0)
            sluice_block_release(views[--count]);
        sluice_block_release(block);
        sluice_slice_release(&slice);
        sluice_chain_free(from);
        sluice_chain_free(to);
        sluice_chain_free(source);
        free_pool(pool);
    }
}

/* Where the next receive may aim. */
static uint8_t *tail_of(sluice_block *block) {
    return block->data + (block->capacity - block_tail(block));
}

/* Puts bytes behind what the block has, as a receive that aims there does. */
static int extend(sluice_chain *chain, sluice_block *block, const void *bytes, uint32_t n) {
    assert_true(n <= block_tail(block));
    memcpy(tail_of(block), bytes, n);
    return chain_extend(chain, block, n);
}

/* A chain of one block, on which the caller has a reference too. */
static sluice_chain *new_tail(sluice_pool *pool, sluice_block **ret_block) {
    sluice_chain *chain = new_chain(pool);
    assert_int_equal(sluice_block_get(pool, ret_block), 0);
    memcpy((*ret_block)->data, "0123", 4);
    assert_int_equal(sluice_block_set_length(*ret_block, 4), 0);
    block_ref(*ret_block);
    sluice_chain_append(chain, *ret_block);
    return chain;
}

static void the_last_block_grows(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_block *block;
    sluice_chain *chain = new_tail(pool, &block);
    sluice_slice before, after;

    /* What was cut out before the growth does not grow with it. */
    assert_int_equal(sluice_chain_take(chain, 2, &before), 0);
    assert_int_equal(extend(chain, block, "456", 3), 0);
    assert_holds(chain, "23456", 5);
    assert_int_equal(sluice_chain_blocks(chain), 1);
    assert_int_equal(counts(pool).views, 0);
    assert_slice_holds(&before, "01", 2);
    assert_int_equal(sluice_chain_take(chain, 4, &after), 0);
    assert_int_equal(extend(chain, block, "789", 3), 0);
    assert_slice_holds(&after, "2345", 4);
    assert_holds(chain, "6789", 4);

    /* To the very end of the block. */
    char rest[BLOCK];
    memset(rest, 'x', sizeof rest);
    assert_int_equal(extend(chain, block, rest, block_tail(block)), 0);
    assert_int_equal(block_tail(block), 0);
    assert_int_equal(sluice_chain_length(chain), BLOCK - 6);
    assert_true(chain_is_sound(chain));
    sluice_slice_release(&after);
    sluice_chain_free(chain);
    assert_slice_holds(&before, "01", 2);
    sluice_block_release(block);
    assert_int_equal(counts(pool).held, 1);
    sluice_slice_release(&before);
    free_pool(pool);
}

static void a_block_that_has_left_comes_back_as_views(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_block *block;
    sluice_chain *chain = new_tail(pool, &block);
    sluice_slice slice, longer;
    assert_int_equal(sluice_chain_take(chain, 4, &slice), 0);
    assert_holds(chain, "", 0);

    assert_int_equal(extend(chain, block, "456", 3), 0);
    assert_holds(chain, "456", 3);
    assert_slice_holds(&slice, "0123", 4);
    assert_int_equal(counts(pool).views, 1);
    assert_int_equal(extend(chain, block, "78", 2), 0);
    assert_holds(chain, "45678", 5);
    assert_int_equal(sluice_chain_take(chain, 4, &longer), 0);
    assert_int_equal(extend(chain, block, "9", 1), 0);
    assert_holds(chain, "89", 2);
    sluice_chain_skip(chain, 2);
    assert_int_equal(extend(chain, block, "a", 1), 0);
    assert_holds(chain, "a", 1);

    /* Also behind blocks that have come meanwhile. */
    feed(chain, pool, "other", 5, 0);
    assert_int_equal(extend(chain, block, "b", 1), 0);
    assert_holds(chain, "aotherb", 7);
    assert_slice_holds(&slice, "0123", 4);
    assert_slice_holds(&longer, "4567", 4);

    sluice_block_release(block);
    sluice_slice_release(&slice);
    sluice_chain_free(chain);
    assert_slice_holds(&longer, "4567", 4);
    assert_int_equal(counts(pool).held, 1);
    sluice_slice_release(&longer);
    free_pool(pool);
}

static void without_views_nothing_is_extended(void **state) {
    (void)state;
    static sluice_block *views[512];
    sluice_pool *pool = new_pool(8);
    sluice_block *block;
    sluice_chain *chain = new_tail(pool, &block);
    uint32_t count = use_up_views(pool, block, views, 0);
    /* The last block needs none. */
    assert_int_equal(extend(chain, block, "45", 2), 0);
    assert_holds(chain, "012345", 6);
    sluice_chain_skip(chain, 6);

    assert_int_equal(extend(chain, block, "67", 2), -ENOBUFS);
    assert_holds(chain, "", 0);
    assert_int_equal(block_tail(block), BLOCK - 6);
    sluice_block_release(views[--count]);
    assert_int_equal(extend(chain, block, "67", 2), 0);
    assert_holds(chain, "67", 2);

    while (count > 0)
        sluice_block_release(views[--count]);
    sluice_block_release(block);
    sluice_chain_free(chain);
    free_pool(pool);
}

static void bytes_behind_an_inner_block_go_to_the_end(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(8);
    sluice_block *block;
    sluice_chain *chain = new_tail(pool, &block);
    feed(chain, pool, "abc", 3, 0);
    sluice_slice slice, all;
    assert_int_equal(sluice_chain_take(chain, 5, &slice), 0);
    sluice_slice_ref(&slice, &all);

    /* The block is neither the chain's last nor has it left a slice that goes on behind it. */
    assert_int_equal(extend(chain, block, "456", 3), 0);
    assert_slice_holds(&slice, "0123a", 5);
    assert_holds(chain, "bc456", 5);

    sluice_slice_release(&slice);
    sluice_slice_release(&all);
    sluice_block_release(block);
    sluice_chain_free(chain);
    free_pool(pool);
}

/*
 * The random walk: some chains and slices of a small pool, and beside each a plain array of the
 * bytes that it must hold. The pool's limits are met on the way, and a refusal must have changed
 * nothing.
 */
enum {
    CHAINS = 3,
    SLICES = 40,
    ROOM = 64 * 1024,
    STEPS = 40000,
};

typedef struct model_chain {
    sluice_chain *chain;
    sluice_block *tail; /* where the next receive may aim */
    uint64_t consumed;
    size_t length;
    uint8_t bytes[ROOM];
} model_chain;

typedef struct model_slice {
    sluice_slice slice;
    size_t length;
    uint8_t *bytes;
} model_slice;

typedef struct model {
    sluice_pool *pool;
    model_chain chains[CHAINS];
    model_slice slices[SLICES]; /* those in use come first */
    uint32_t slice_count;
    uint64_t copied;
    uint64_t seed;
    bool hoards; /* for a while: more is referenced than released */
    uint32_t without_blocks, without_views, grown, extended;
} model;

static uint32_t pick(model *m, uint32_t below) {
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->seed >> 33) % below;
}

/* A length: mostly short, sometimes all there is, rarely too much. */
static size_t pick_length(model *m, size_t most) {
    switch (pick(m, 8)) {
    case 0:
        return most;
    case 1:
        return most + 1 + pick(m, 5);
    case 2:
        return pick(m, 3);
    default:
        return pick(m, (uint32_t)(most < 700 ? most : 700) + 1);
    }
}

static void drop_tail(model_chain *c) {
    sluice_block_release(c->tail);
    c->tail = NULL;
}

static void model_append(model_chain *c, const uint8_t *bytes, size_t n) {
    assert_true(c->length + n <= ROOM);
    memmove(c->bytes + c->length, bytes, n);
    c->length += n;
}

static void model_consume(model_chain *c, size_t n) {
    c->length -= n;
    c->consumed += n;
    memmove(c->bytes, c->bytes + n, c->length);
}

static void model_keep(model *m, const sluice_slice *slice, const uint8_t *bytes, size_t n) {
    uint8_t *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    m->slices[m->slice_count++] = (model_slice){*slice, n, copy};
}

static void model_release(model *m, uint32_t i) {
    sluice_slice_release(&m->slices[i].slice);
    sluice_slice_release(&m->slices[i].slice);
    free(m->slices[i].bytes);
    m->slices[i] = m->slices[--m->slice_count];
}

static void step_append(model *m, model_chain *c) {
    sluice_block *block;
    if (c->length + BLOCK > ROOM / 4)
        return;
    if (sluice_block_get(m->pool, &block) < 0) {
        assert_int_equal(counts(m->pool).free, 0);
        m->without_blocks++;
        return;
    }
    uint32_t n = pick(m, 4) == 0 ? pick(m, BLOCK + 1) : pick(m, 40);
    for (uint32_t i = 0; i < n; i++)
        block->data[i] = (uint8_t)pick(m, 256);
    assert_int_equal(sluice_block_set_length(block, n), 0);
    model_append(c, block->data, n);
    drop_tail(c);
    if (n > 0 && n < BLOCK && pick(m, 2) == 0) {
        c->tail = block;
        block_ref(block);
    }
    sluice_chain_append(c->chain, block);
}

static void step_extend(model *m, model_chain *c) {
    if (!c->tail || c->length + BLOCK > ROOM / 4)
        return;
    uint32_t n = 1 + pick(m, pick(m, 3) ? 20 : BLOCK);
    if (n > block_tail(c->tail))
        n = block_tail(c->tail);
    if (n == 0) {
        drop_tail(c);
        return;
    }
    bool is_last = c->chain->last == c->tail;
    uint8_t *place = tail_of(c->tail);
    for (uint32_t i = 0; i < n; i++)
        place[i] = (uint8_t)pick(m, 256);
    int error = chain_extend(c->chain, c->tail, n);
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        assert_false(is_last);
        m->without_views++;
        return;
    }
    m->grown += is_last;
    m->extended += !is_last;
    model_append(c, place, n);
}

static void step_take(model *m, model_chain *c) {
    sluice_slice slice = {.length = 77};
    if (m->slice_count == SLICES)
        return;
    size_t n = pick_length(m, c->length);
    int error = sluice_chain_take(c->chain, n, &slice);
    assert_int_equal(error, n > c->length ? -EAGAIN : 0);
    if (error) {
        assert_int_equal(slice.length, 77);
        return;
    }
    model_keep(m, &slice, c->bytes, n);
    model_consume(c, n);
}

static void step_move(model *m, model_chain *from, model_chain *to) {
    size_t n = pick_length(m, from->length);
    if (n <= from->length && to->length + n > ROOM / 4)
        return;
    int error = sluice_chain_move(from->chain, n, to->chain);
    if (n > from->length) {
        assert_int_equal(error, -EAGAIN);
        return;
    }
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        m->without_views++;
        return;
    }
    model_append(to, from->bytes, n);
    model_consume(from, n);
    if (n > 0)
        drop_tail(to);
}

static void step_append_slice(model *m, model_chain *c) {
    if (m->slice_count == 0)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    if (c->length + s->length > ROOM / 4)
        return;
    int error = sluice_chain_append_slice(c->chain, &s->slice);
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        m->without_views++;
        return;
    }
    model_append(c, s->bytes, s->length);
    if (s->length > 0)
        drop_tail(c);
}

static void step_sub(model *m) {
    sluice_slice part;
    if (m->slice_count == 0 || m->slice_count == SLICES)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    size_t offset = pick(m, (uint32_t)s->length + 1);
    size_t n = pick_length(m, s->length - offset);
    int error = sluice_slice_sub(&s->slice, offset, n, &part);
    assert_int_equal(error, n > s->length - offset ? -EINVAL : 0);
    if (!error)
        model_keep(m, &part, s->bytes + offset, n);
}

static void step_ref(model *m) {
    sluice_slice again;
    if (m->slice_count == 0 || m->slice_count == SLICES)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    sluice_slice_ref(&s->slice, &again);
    model_keep(m, &again, s->bytes, s->length);
}

static void step_copy(model *m) {
    uint8_t bytes[ROOM / 4];
    if (m->slice_count == 0)
        return;
    model_slice *s = &m->slices[pick(m, m->slice_count)];
    size_t offset = pick(m, (uint32_t)s->length + 1);
    size_t n = pick_length(m, s->length - offset);
    size_t done = sluice_slice_copy(&s->slice, offset, bytes, n);
    assert_int_equal(done, n < s->length - offset ? n : s->length - offset);
    assert_memory_equal(bytes, s->bytes + offset, done);
    m->copied += done;
}

static void step(model *m) {
    model_chain *c = &m->chains[pick(m, CHAINS)];
    switch (pick(m, 16)) {
    case 0:
    case 1:
    case 2:
        step_append(m, c);
        break;
    case 3:
    case 4:
        step_extend(m, c);
        break;
    case 5:
    case 6:
        step_take(m, c);
        break;
    case 7: {
        size_t n = pick_length(m, c->length);
        size_t done = sluice_chain_skip(c->chain, n);
        assert_int_equal(done, n < c->length ? n : c->length);
        model_consume(c, done);
        break;
    }
    case 8:
        step_move(m, c, &m->chains[pick(m, CHAINS)]);
        break;
    case 9:
        step_append_slice(m, c);
        break;
    case 10:
        step_sub(m);
        break;
    case 11:
        step_ref(m);
        break;
    case 12:
        step_copy(m);
        break;
    default:
        if (m->hoards && pick(m, 4) > 0)
            step_append_slice(m, c);
        else if (m->slice_count > 0)
            model_release(m, pick(m, m->slice_count));
    }
}

static void assert_matches(model *m, bool all_slices) {
    for (int i = 0; i < CHAINS; i++) {
        assert_holds(m->chains[i].chain, m->chains[i].bytes, m->chains[i].length);
        assert_int_equal(sluice_chain_consumed(m->chains[i].chain), m->chains[i].consumed);
    }
    uint8_t bytes[ROOM / 4];
    for (uint32_t i = 0; all_slices && i < m->slice_count; i++) {
        model_slice *s = &m->slices[i];
        assert_int_equal(sluice_slice_copy(&s->slice, 0, bytes, sizeof bytes), s->length);
        assert_memory_equal(bytes, s->bytes, s->length);
        m->copied += s->length;
    }
    assert_int_equal(counts(m->pool).bytes_copied, m->copied);
}

static void a_random_walk_matches_plain_arrays(void **state) {
    (void)state;
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->pool = new_pool(64);
    m->seed = 42;
    for (int i = 0; i < CHAINS; i++)
        m->chains[i].chain = new_chain(m->pool);
    for (int i = 0; i < STEPS; i++) {
        m->hoards = i / 500 % 2 == 1;
        step(m);
        assert_matches(m, i % 16 == 0);
    }
    /* The walk went into every corner. */
    assert_true(m->without_blocks > 0 && m->without_views > 0 && m->grown > 100 && m->extended > 50);

    for (int i = 0; i < CHAINS; i++) {
        drop_tail(&m->chains[i]);
        sluice_chain_free(m->chains[i].chain);
    }
    while (m->slice_count > 0)
        model_release(m, pick(m, m->slice_count));
    free_pool(m->pool);
    free(m);
}

static unsigned heard;
static size_t heard_length;

static void hear(sluice_chain *chain) {
    heard++;
    heard_length = sluice_chain_length(chain);
    assert_true(chain_is_sound(chain));
}

/* Whoever keeps a chain filled hears once, when a block is gone, of any way in which it goes. */
static void consumption_is_told_once(void **state) {
    (void)state;
    sluice_pool *pool = new_pool(32);
    sluice_chain *chain = new_text(pool), *other = new_chain(pool);
    sluice_slice slice;
    heard = 0;
    chain->on_consumed = hear;
    assert_int_equal(sluice_chain_skip(chain, 0), 0);
    assert_int_equal(sluice_chain_take(chain, 0, &slice), 0);
    assert_int_equal(sluice_chain_take(chain, TEXT + 1, &slice), -EAGAIN);
    assert_int_equal(heard, 0);
    assert_int_equal(sluice_chain_skip(chain, 2), 2);
    assert_int_equal(heard, 1);
    assert_int_equal(heard_length, TEXT - 2);
    assert_int_equal(sluice_chain_skip(chain, 1), 1);
    assert_int_equal(heard, 1);
    chain->on_consumed = hear;
    assert_int_equal(sluice_chain_skip(chain, 2), 2);
    assert_int_equal(heard, 1);
    assert_int_equal(sluice_chain_take(chain, 5, &slice), 0);
    sluice_slice_release(&slice);
    assert_int_equal(heard, 2);
    assert_int_equal(heard_length, TEXT - 10);
    chain->on_consumed = hear;
    assert_int_equal(sluice_chain_move(chain, 10, other), 0);
    assert_int_equal(heard, 3);
    assert_int_equal(heard_length, TEXT - 20);
    chain->on_consumed = hear;
    sluice_chain_free(chain);
    assert_int_equal(heard, 4);
    sluice_chain_free(other);
    free_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_at_every_cut),
        cmocka_unit_test(skips_at_every_cut),
        cmocka_unit_test(moves_at_every_cut),
        cmocka_unit_test(appends_slices_at_every_cut),
        cmocka_unit_test(too_much_changes_nothing),
        cmocka_unit_test(nothing_is_a_length_too),
        cmocka_unit_test(moves_onto_itself),
        cmocka_unit_test(pieces_of_one_block_unite),
        cmocka_unit_test(an_emptied_chain_is_as_new),
        cmocka_unit_test(without_views_nothing_moves),
        cmocka_unit_test(the_last_block_grows),
        cmocka_unit_test(a_block_that_has_left_comes_back_as_views),
        cmocka_unit_test(without_views_nothing_is_extended),
        cmocka_unit_test(consumption_is_told_once),
        cmocka_unit_test(a_random_walk_matches_plain_arrays),
        cmocka_unit_test(bytes_behind_an_inner_block_go_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
