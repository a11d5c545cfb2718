/* Mark and rewind: every consuming call between the two, cut in every place; limits; who else holds
 * or consumes. */
#include <sluice/reader.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/reader_fixture.h"

enum { BYTES = 20 };

static const uint8_t bytes[BYTES + 1] = "abc\ndefg\r\nhijklmnopq";

static fixture begin(void) {
    return reader_fixture_open(1024);
}

static void end(fixture *f) {
    reader_fixture_close(f);
}

static sluice_pool_stats counts(const fixture *f) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(f->pool, &stats);
    return stats;
}

/* All that is in the chain, without consuming it, is this. */
static void assert_readable(const fixture *f, const void *expected, size_t length) {
    uint8_t scratch[1024];
    const uint8_t *view;
    assert_true(chain_is_sound(f->chain));
    assert_int_equal(sluice_reader_buffered(f->reader), length);
    assert_int_equal(sluice_reader_peek(f->reader, length, scratch, &view), 0);
    if (length > 0)
        assert_memory_equal(view, expected, length);
}

static bool go_on(const uint8_t *view, size_t length, void *user) {
    (void)view, (void)length, (void)user;
    return true;
}

enum { CALLS = 9 };

/* One of the calls that consume, for some bytes. */
static void consume_by(const fixture *f, int which) {
    uint64_t value;
    uint8_t byte, out[5];
    char scratch[16];
    const char *line;
    size_t n;
    sluice_slice slice;
    switch (which) {
    case 0:
        assert_int_equal(sluice_reader_u8(f->reader, &byte), 0);
        break;
    case 1:
        assert_int_equal(sluice_reader_be(f->reader, 8, &value), 0);
        break;
    case 2:
        assert_int_equal(sluice_reader_le(f->reader, 3, &value), 0);
        break;
    case 3:
        assert_int_equal(sluice_reader_leb128(f->reader, &value), 0);
        break;
    case 4:
        assert_int_equal(sluice_reader_skip(f->reader, 7), 0);
        break;
    case 5:
        assert_int_equal(sluice_reader_range(f->reader, 9, go_on, NULL, &n), 0);
        break;
    case 6:
        assert_int_equal(sluice_reader_slice(f->reader, 6, &slice), 0);
        sluice_slice_release(&slice);
        break;
    case 7:
        assert_int_equal(sluice_reader_copy(f->reader, out, sizeof out), sizeof out);
        break;
    default:
        assert_int_equal(sluice_reader_line(f->reader, scratch, sizeof scratch, &line, &n), 0);
    }
}

static void every_call_can_be_undone_at_every_cut(void **state) {
    (void)state;
    fixture f = begin();
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++)
            for (int which = 0; which < CALLS; which++) {
                feed(f.chain, f.pool, "x", 1, 0);
                feed(f.chain, f.pool, bytes, a, 0);
                feed(f.chain, f.pool, bytes + a, b - a, 0);
                feed(f.chain, f.pool, bytes + b, BYTES - b, 0);
                assert_int_equal(sluice_reader_skip(f.reader, 1), 0);
                uint64_t place = sluice_reader_total(f.reader);
                uint32_t held = counts(&f).held;
                assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
                for (int times = 0; times < 2; times++) {
                    consume_by(&f, which);
                    assert_true(sluice_reader_total(f.reader) > place);
                    assert_true(chain_is_sound(f.chain));
                    assert_int_equal(sluice_reader_rewind(f.reader), 0);
                    assert_int_equal(sluice_reader_total(f.reader), place);
                    assert_readable(&f, bytes, BYTES);
                }
                assert_int_equal(counts(&f).held, held);
                sluice_reader_unmark(f.reader);
                assert_int_equal(sluice_reader_skip(f.reader, BYTES), 0);
                assert_int_equal(counts(&f).held, 0);
            }
    end(&f);
}

/* The chain runs empty between the blocks: each arrives when all before it have been consumed. */
static void blocks_that_never_followed_each_other_come_back(void **state) {
    (void)state;
    fixture f = begin();
    for (size_t piece = 1; piece <= BYTES; piece++)
        for (size_t rewinds = 1; rewinds <= BYTES; rewinds++) {
            assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
            for (size_t come = 0; come < BYTES;) {
                size_t here = piece < BYTES - come ? piece : BYTES - come;
                feed(f.chain, f.pool, bytes + come, here, 0);
                come += here;
                if (come % rewinds == 0) {
                    assert_int_equal(sluice_reader_rewind(f.reader), 0);
                    assert_readable(&f, bytes, come);
                }
                size_t left = sluice_reader_buffered(f.reader);
                assert_int_equal(sluice_reader_skip(f.reader, left), 0);
                assert_int_equal(sluice_chain_blocks(f.chain), 0);
            }
            assert_int_equal(sluice_reader_rewind(f.reader), 0);
            assert_readable(&f, bytes, BYTES);
            assert_int_equal(sluice_chain_blocks(f.chain), (BYTES + piece - 1) / piece);
            sluice_reader_unmark(f.reader);
            assert_int_equal(sluice_reader_skip(f.reader, BYTES), 0);
            assert_int_equal(counts(&f).held, 0);
        }
    end(&f);
}

/* A receive that is aimed behind a block goes on while the mark holds that block. */
static void a_block_that_is_held_may_still_be_filled(void **state) {
    (void)state;
    for (size_t consumed = 0; consumed <= 3; consumed++)
        for (int rewind_first = 0; rewind_first < 2; rewind_first++) {
            fixture f = begin();
            sluice_block *block;
            assert_int_equal(sluice_block_get(f.pool, &block), 0);
            memcpy(sluice_block_data(block), bytes, 9);
            block->length = 3;
            block_ref(block);
            sluice_chain_append(f.chain, block);
            assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
            assert_int_equal(sluice_reader_skip(f.reader, consumed), 0);
            if (rewind_first)
                assert_int_equal(sluice_reader_rewind(f.reader), 0);
            assert_int_equal(chain_extend(f.chain, block, 3), 0);
            assert_int_equal(sluice_reader_skip(f.reader, sluice_reader_buffered(f.reader)), 0);
            assert_int_equal(chain_extend(f.chain, block, 3), 0);
            assert_int_equal(sluice_reader_rewind(f.reader), 0);
            assert_readable(&f, bytes, 9);
            sluice_block_release(block);
            end(&f);
        }
}

static void a_mark_holds_no_more_than_its_limit(void **state) {
    (void)state;
    fixture f = begin();
    for (size_t limit = 0; limit <= BYTES; limit++)
        for (size_t step = 1; step <= BYTES; step++) {
            size_t behind = 0;
            feed(f.chain, f.pool, bytes, BYTES, 1);
            assert_int_equal(sluice_reader_mark(f.reader, limit), 0);
            assert_int_equal(sluice_reader_rewind(f.reader), 0);
            for (size_t done = 0; done + step <= BYTES; done += step) {
                assert_int_equal(sluice_reader_skip(f.reader, step), 0);
                bool kept = done + step <= limit;
                behind = kept ? done + step : 0;
                assert_int_equal(counts(&f).held, BYTES - done - step + behind);
                if (!kept)
                    for (int times = 0; times < 2; times++) {
                        assert_int_equal(sluice_reader_rewind(f.reader), -ESTALE);
                        assert_readable(&f, bytes + done + step, BYTES - done - step);
                    }
            }
            sluice_reader_unmark(f.reader);
            assert_int_equal(sluice_reader_rewind(f.reader), -EINVAL);
            assert_int_equal(sluice_reader_skip(f.reader, sluice_reader_buffered(f.reader)), 0);
            assert_int_equal(counts(&f).held, 0);
        }
    end(&f);
}

static void a_new_mark_takes_the_place_of_the_old(void **state) {
    (void)state;
    fixture f = begin();
    feed(f.chain, f.pool, bytes, BYTES, 1);
    assert_int_equal(sluice_reader_rewind(f.reader), -EINVAL);
    assert_int_equal(sluice_reader_mark(f.reader, 4), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 4), 0);
    assert_int_equal(sluice_reader_mark(f.reader, SIZE_MAX), 0);
    assert_int_equal(counts(&f).held, BYTES - 4);
    assert_int_equal(sluice_reader_skip(f.reader, 10), 0);
    /* The last three bytes, unread: rewind, and skip what was before them. */
    assert_int_equal(sluice_reader_rewind(f.reader), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 7), 0);
    assert_readable(&f, bytes + 11, BYTES - 11);
    /* A reader that is freed gives back what its mark holds. */
    end(&f);
}

static void what_a_skip_owes_is_forgiven(void **state) {
    (void)state;
    fixture f = begin();
    feed(f.chain, f.pool, bytes, 5, 2);
    assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 7), 0);
    assert_int_equal(sluice_reader_skipping(f.reader), 2);
    /* The place of a second mark has not come: the first one stays. */
    assert_int_equal(sluice_reader_mark(f.reader, BYTES), -EAGAIN);
    feed(f.chain, f.pool, bytes + 5, 1, 0);
    assert_int_equal(sluice_reader_rewind(f.reader), 0);
    assert_int_equal(sluice_reader_skipping(f.reader), 0);
    assert_readable(&f, bytes, 6);

    /* A mark that is lost forgives nothing. */
    assert_int_equal(sluice_reader_mark(f.reader, 5), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 8), 0);
    assert_int_equal(sluice_reader_rewind(f.reader), -ESTALE);
    assert_int_equal(sluice_reader_skipping(f.reader), 2);
    end(&f);
}

static void a_mark_is_void_when_others_consume(void **state) {
    (void)state;
    for (size_t before = 0; before <= 4; before++)
        for (size_t after = 0; after <= 4; after++) {
            fixture f = begin();
            feed(f.chain, f.pool, bytes, BYTES, 3);
            assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
            assert_int_equal(sluice_reader_skip(f.reader, before), 0);
            assert_int_equal(sluice_chain_skip(f.chain, 2), 2);
            assert_int_equal(sluice_reader_skip(f.reader, after), 0);
            assert_int_equal(sluice_reader_rewind(f.reader), -ESTALE);
            assert_readable(&f, bytes + before + 2 + after, BYTES - before - 2 - after);
            assert_int_equal(counts(&f).held, sluice_chain_blocks(f.chain));
            end(&f);
        }
}

/* A mark that is void must not touch the links that others' slices follow. */
static void a_void_mark_leaves_slices_of_others_alone(void **state) {
    (void)state;
    fixture f = begin();
    sluice_slice others;
    uint8_t out[4];
    feed(f.chain, f.pool, bytes, 9, 3);
    assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 2), 0);
    assert_int_equal(sluice_chain_take(f.chain, 4, &others), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 1), 0);
    assert_int_equal(sluice_slice_copy(&others, 0, out, sizeof out), sizeof out);
    assert_memory_equal(out, bytes + 2, sizeof out);
    assert_int_equal(sluice_reader_rewind(f.reader), -ESTALE);
    sluice_slice_release(&others);
    end(&f);
}

static void slices_and_rewound_bytes_share_their_blocks(void **state) {
    (void)state;
    fixture f = begin();
    sluice_slice first, again;
    struct iovec a[BYTES], b[BYTES];
    feed(f.chain, f.pool, bytes, BYTES, 3);
    assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
    assert_int_equal(sluice_reader_slice(f.reader, BYTES - 1, &first), 0);
    assert_int_equal(sluice_reader_rewind(f.reader), 0);
    assert_int_equal(sluice_reader_slice(f.reader, BYTES - 1, &again), 0);
    size_t pieces = sluice_slice_iov(&first, 0, a, BYTES);
    assert_int_equal(sluice_slice_iov(&again, 0, b, BYTES), pieces);
    for (size_t i = 0; i < pieces; i++) {
        assert_ptr_equal(a[i].iov_base, b[i].iov_base);
        assert_int_equal(a[i].iov_len, b[i].iov_len);
    }
    assert_int_equal(counts(&f).bytes_copied, 0);
    assert_int_equal(counts(&f).held, 7);
    sluice_slice_release(&first);
    sluice_reader_unmark(f.reader);
    uint8_t out[BYTES];
    assert_int_equal(sluice_slice_copy(&again, 0, out, BYTES), BYTES - 1);
    assert_memory_equal(out, bytes, BYTES - 1);
    sluice_slice_release(&again);
    assert_int_equal(counts(&f).held, 1);
    end(&f);
}

/* Marks, rewinds and reads at random; the bytes of a stream are known by their place. */
static void a_random_walk_goes_back_to_the_same_bytes(void **state) {
    (void)state;
    fixture f = begin();
    uint64_t seed = 11, fed = 0, at = 0, marked = 0;
    size_t limit = 0;
    bool is_marked = false;
    uint32_t rewinds = 0, lost = 0;
    for (int i = 0; i < 40000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t what = (uint32_t)(seed >> 33) % 8, n = (uint32_t)(seed >> 40) % 50;
        uint8_t piece[50], out[50];
        if (what < 3 && fed - at < 200) {
            for (uint32_t k = 0; k < n; k++)
                piece[k] = (uint8_t)((fed + k) * 37 >> 3);
            feed(f.chain, f.pool, piece, n, 1 + n % 17);
            fed += n;
        } else if (what < 6) {
            size_t done = sluice_reader_copy(f.reader, out, n);
            assert_int_equal(done, n < fed - at ? n : fed - at);
            for (size_t k = 0; k < done; k++)
                assert_int_equal(out[k], (uint8_t)((at + k) * 37 >> 3));
            at += done;
        } else if (what == 6 && n > 25) {
            limit = n * 4;
            assert_int_equal(sluice_reader_mark(f.reader, limit), 0);
            marked = at;
            is_marked = true;
        } else if (is_marked) {
            bool kept = at - marked <= limit;
            assert_int_equal(sluice_reader_rewind(f.reader), kept ? 0 : -ESTALE);
            if (kept)
                at = marked;
            else
                is_marked = false;
            rewinds += kept;
            lost += !kept;
        }
        assert_true(chain_is_sound(f.chain));
        assert_int_equal(sluice_reader_total(f.reader), at);
        assert_int_equal(sluice_reader_buffered(f.reader), fed - at);
    }
    assert_true(rewinds > 500 && lost > 100);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_can_be_undone_at_every_cut),
        cmocka_unit_test(blocks_that_never_followed_each_other_come_back),
        cmocka_unit_test(a_block_that_is_held_may_still_be_filled),
        cmocka_unit_test(a_mark_holds_no_more_than_its_limit),
        cmocka_unit_test(a_new_mark_takes_the_place_of_the_old),
        cmocka_unit_test(what_a_skip_owes_is_forgiven),
        cmocka_unit_test(a_mark_is_void_when_others_consume),
        cmocka_unit_test(a_void_mark_leaves_slices_of_others_alone),
        cmocka_unit_test(slices_and_rewound_bytes_share_their_blocks),
        cmocka_unit_test(a_random_walk_goes_back_to_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
