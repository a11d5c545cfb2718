/* What a chain knows without looking through it: the memory that it keeps, and the place where a
 * search goes on. */
#include <sluice/chain.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <sluice/reader.h>

#include "memory/chain.h"
#include "memory/poison.h"
#include "reader/cursor.h"
#include "support/http_feed.h"

enum { BLOCK = 512, TEXT = 2000 };

static void append_pieces(sluice_pool *pool, sluice_chain *chain, unsigned count, size_t piece) {
    uint8_t bytes[BLOCK] = {0};
    for (unsigned i = 0; i < count; i++)
        http_feed_bytes(pool, chain, bytes, piece);
}

/* Whole blocks count, however little of them is the chain's, until their last byte is consumed. */
static void a_block_counts_whole(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BLOCK, 64);
    sluice_chain *chain = http_feed_chain(pool);
    assert_int_equal(sluice_chain_footprint(chain), 0);
    append_pieces(pool, chain, 10, 16);
    assert_int_equal(sluice_chain_length(chain), 160);
    assert_int_equal(sluice_chain_footprint(chain), 10 * BLOCK);
    sluice_chain_skip(chain, 15);
    assert_int_equal(sluice_chain_footprint(chain), 10 * BLOCK);
    sluice_chain_skip(chain, 1);
    assert_int_equal(sluice_chain_footprint(chain), 9 * BLOCK);
    sluice_slice slice;
    assert_int_equal(sluice_chain_take(chain, 20, &slice), 0);
    assert_int_equal(sluice_chain_footprint(chain), 8 * BLOCK);
    sluice_slice_release(&slice);
    sluice_chain_skip(chain, 1000);
    assert_int_equal(sluice_chain_footprint(chain), 0);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* Views of one block, one after the other, are one block; the user's memory is none of the
 * pool's. */
static void neighbours_in_a_block_count_once(void **state) {
    (void)state;
    static const char text[] = "the user's";
    sluice_pool *pool = http_feed_pool(BLOCK, 64);
    sluice_chain *chain = http_feed_chain(pool), *to = http_feed_chain(pool);
    append_pieces(pool, chain, 2, BLOCK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(sluice_chain_move(chain, 100, to), 0);
        if (i % 3 == 2)
            sluice_chain_append_memory(to, text, sizeof text, NULL, NULL);
        assert_true(chain_is_sound(to));
    }
    /* Of the first block up to 512, with something else before 300; of the second the rest, before
     * and behind 600. */
    assert_int_equal(sluice_chain_footprint(to), 4 * BLOCK);
    assert_int_equal(sluice_chain_footprint(chain), BLOCK);
    sluice_chain_skip(to, 300);
    assert_int_equal(sluice_chain_footprint(to), 3 * BLOCK);
    sluice_chain_free(to);
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* What a reader has put back counts again, whether or not the chain was empty meanwhile. */
static void what_is_put_back_counts_again(void **state) {
    (void)state;
    for (size_t n = 0; n <= 160; n++) {
        sluice_pool *pool = http_feed_pool(BLOCK, 64);
        sluice_chain *chain = http_feed_chain(pool);
        sluice_reader *reader;
        assert_int_equal(sluice_reader_new(chain, &reader), 0);
        append_pieces(pool, chain, 10, 16);
        assert_int_equal(sluice_reader_mark(reader, 1000), 0);
        assert_int_equal(sluice_reader_skip(reader, n), 0);
        assert_int_equal(sluice_chain_footprint(chain), (10 - n / 16) * BLOCK);
        assert_int_equal(sluice_reader_rewind(reader), 0);
        assert_int_equal(sluice_chain_footprint(chain), 10 * BLOCK);
        assert_true(chain_is_sound(chain));
        sluice_reader_free(reader);
        sluice_chain_free(chain);
        http_feed_pool_done(pool);
    }
}

/* Another pool's blocks count as they do at home; what comes home again is a view, and no guest of
 * a guest. */
static void guests_count_as_at_home(void **state) {
    (void)state;
    sluice_pool *home = http_feed_pool(BLOCK, 64), *abroad = http_feed_pool(1024, 64);
    sluice_chain *chain = http_feed_chain(home), *other = http_feed_chain(abroad);
    append_pieces(home, chain, 10, 16);
    for (int i = 0; i < 5; i++) {
        sluice_slice slice;
        assert_int_equal(sluice_chain_take(chain, 160, &slice), 0);
        assert_int_equal(sluice_chain_append_slice(other, &slice), 0);
        sluice_slice_release(&slice);
        assert_int_equal(sluice_chain_footprint(other), 10 * BLOCK);
        assert_true(chain_is_sound(other));
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(home, &stats);
        assert_int_equal(stats.views, 0);
        assert_int_equal(sluice_chain_take(other, 160, &slice), 0);
        assert_int_equal(sluice_chain_append_slice(chain, &slice), 0);
        sluice_slice_release(&slice);
        assert_int_equal(sluice_chain_footprint(chain), 10 * BLOCK);
        assert_true(chain_is_sound(chain));
        sluice_pool_get_stats(abroad, &stats);
        assert_int_equal(stats.views, 0);
    }
    sluice_chain_free(other);
    sluice_chain_free(chain);
    http_feed_pool_done(abroad);
    http_feed_pool_done(home);
}

/* The byte at each place, however the chain has been walked before, while it grows and is
 * consumed. */
static void each_place_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        sluice_pool *pool = http_feed_pool(BLOCK, 4096);
        sluice_chain *chain = http_feed_chain(pool);
        uint64_t random = seed;
        uint8_t bytes[TEXT];
        size_t appended = 0, consumed = 0;
        for (size_t i = 0; i < TEXT; i++)
            bytes[i] = (uint8_t)(i * 7 + i / 251);
        while (consumed < TEXT) {
            size_t piece = http_feed_random(&random) % 40;
            piece = piece < TEXT - appended ? piece : TEXT - appended;
            http_feed_bytes(pool, chain, bytes + appended, piece);
            appended += piece;
            for (int i = 0; i < 4; i++) {
                size_t n = http_feed_random(&random) % (appended - consumed + 1);
                sluice_cursor cursor = cursor_of_chain_at(chain, n);
                assert_int_equal(cursor_left(&cursor), appended - consumed - n);
                if (n < appended - consumed)
                    assert_int_equal(cursor_byte(&cursor), bytes[consumed + n]);
                assert_true(chain_is_sound(chain));
            }
            size_t drop = http_feed_random(&random) % 30;
            consumed += sluice_chain_skip(chain, drop);
            assert_true(chain_is_sound(chain));
        }
        sluice_chain_free(chain);
        http_feed_pool_done(pool);
    }
}

/* The end of a chain is a place, which becomes that of the bytes that come next: in the same block
 * or another. */
static void the_end_is_a_place(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BLOCK, 64);
    sluice_chain *chain = http_feed_chain(pool);
    append_pieces(pool, chain, 2, 10);
    sluice_cursor cursor = cursor_of_chain_at(chain, 20);
    assert_int_equal(cursor_left(&cursor), 0);
    unpoison_memory(block_tail_data(chain->last), 1);
    memcpy(block_tail_data(chain->last), "x", 1);
    assert_int_equal(chain_extend(chain, chain->last, 1), 0);
    http_feed_bytes(pool, chain, "y", 1);
    cursor = cursor_of_chain_at(chain, 20);
    assert_int_equal(cursor_byte(&cursor), 'x');
    assert_int_equal(cursor_byte(&cursor), 'y');
    /* All is consumed, with the block that was found, and more comes. */
    assert_int_equal(sluice_chain_skip(chain, 22), 22);
    http_feed_bytes(pool, chain, "ab", 2);
    cursor = cursor_of_chain_at(chain, 1);
    assert_int_equal(cursor_byte(&cursor), 'b');
    assert_true(chain_is_sound(chain));
    sluice_chain_free(chain);
    http_feed_pool_done(pool);
}

/* Chains that follow each other in the same place of memory are not taken for each other. */
static void a_place_is_of_one_stream(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(BLOCK, 64), *other = http_feed_pool(BLOCK, 64);
    sluice_chain chain, second;
    chain_init(&chain, pool);
    chain_place place = chain_place_of(&chain);
    assert_true(chain_is_at(&chain, place));
    http_feed_bytes(pool, &chain, "ab", 2);
    assert_true(chain_is_at(&chain, place));
    sluice_chain_skip(&chain, 1);
    assert_false(chain_is_at(&chain, place));
    chain_clear(&chain);
    chain_init(&chain, pool);
    assert_false(chain_is_at(&chain, place));
    chain_init(&second, other);
    assert_true(second.generation != chain.generation);
    assert_false(chain_is_at(&second, place));
    sluice_pool_free(other);
    http_feed_pool_done(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_counts_whole),          cmocka_unit_test(neighbours_in_a_block_count_once),
        cmocka_unit_test(what_is_put_back_counts_again), cmocka_unit_test(guests_count_as_at_home),
        cmocka_unit_test(each_place_is_found),           cmocka_unit_test(the_end_is_a_place),
        cmocka_unit_test(a_place_is_of_one_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
