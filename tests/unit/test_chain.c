/* The chain: every call at every cut, its last block, and what it tells. */
#include <sluice/chain.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "memory/pool.h"
#include "support/chain_rig.h"
#include "support/feed.h"

/* Bytes that differ from their neighbours, in uneven pieces; the ends of the pieces are where
 * things break. */
static const uint32_t pieces[] = {1, 2, 5, 3, 9, 1, 1, 16, 4, 1};
enum { PIECES = sizeof pieces / sizeof *pieces };
static const char text[TEXT + 1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";

static sluice_chain *new_text(sluice_pool *pool) {
    sluice_chain *chain = new_chain(pool);
    uint32_t done = 0;
    for (int i = 0; i < PIECES; done += pieces[i++])
        feed(chain, pool, text + done, pieces[i], 0);
    assert_int_equal(done, TEXT);
    return chain;
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
        cmocka_unit_test(bytes_behind_an_inner_block_go_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
