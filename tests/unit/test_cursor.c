/* The cursor: integers and places, over every cut. */
#include <sluice/reader.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "reader/cursor.h"
#include "support/feed.h"
#include "support/reader_cuts.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursors_at_every_straddle),
        cmocka_unit_test(cursors_on_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
