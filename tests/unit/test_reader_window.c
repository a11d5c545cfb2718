/* Windows: bytes read one after the other in place; what is consumed when, and what a forgotten one
 * does. */
#include <sluice/reader.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
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
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(f->pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    reader_fixture_close(f);
}

static void feed_cut(const fixture *f, size_t a, size_t b) {
    feed(f->chain, f->pool, bytes, a, 0);
    feed(f->chain, f->pool, bytes + a, b - a, 0);
    feed(f->chain, f->pool, bytes + b, BYTES - b, 0);
}

/* The next byte is the stream's at @place. */
static void assert_next(const fixture *f, sluice_reader_window *window, size_t place) {
    uint8_t byte = 77;
    assert_int_equal(sluice_reader_window_u8(f->reader, window, &byte), 0);
    assert_int_equal(byte, bytes[place]);
}

static void assert_closed(const sluice_reader_window *window) {
    assert_null(window->at);
    assert_null(window->end);
}

static void assert_place(const fixture *f, size_t place) {
    assert_true(sluice_reader_total(f->reader) == place);
    assert_int_equal(sluice_reader_buffered(f->reader), BYTES - place);
    assert_true(chain_is_sound(f->chain));
}

/* Closed after every so many bytes, and consumed up to there. */
static void bytes_at_every_cut(void **state) {
    (void)state;
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++)
            for (size_t step = 1; step <= BYTES; step++) {
                fixture f = begin();
                sluice_reader_window window = {0};
                feed_cut(&f, a, b);
                for (size_t place = 0; place < BYTES;) {
                    assert_next(&f, &window, place++);
                    if (place % step != 0)
                        continue;
                    assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
                    assert_closed(&window);
                    assert_place(&f, place);
                }
                uint8_t byte = 77;
                assert_int_equal(sluice_reader_window_u8(f.reader, &window, &byte), -EAGAIN);
                assert_int_equal(byte, 77);
                assert_closed(&window);
                assert_place(&f, BYTES);
                end(&f);
            }
}

/* A piece is one block, whatever of it was read before; its block goes back when the window has
 * left it. */
static void a_window_is_what_lies_in_one_piece(void **state) {
    (void)state;
    for (size_t a = 1; a < BYTES; a++)
        for (size_t first = 0; first < a; first++) {
            fixture f = begin();
            sluice_reader_window window = {0};
            feed_cut(&f, a, BYTES);
            assert_int_equal(sluice_reader_skip(f.reader, first), 0);
            assert_int_equal(sluice_reader_next_window(f.reader, &window), 0);
            assert_int_equal(window.end - window.at, a - first);
            assert_memory_equal(window.at, bytes + first, a - first);
            assert_place(&f, first);
            window.at = window.end;
            assert_int_equal(sluice_chain_blocks(f.chain), 2);
            assert_int_equal(sluice_reader_next_window(f.reader, &window), 0);
            assert_int_equal(sluice_chain_blocks(f.chain), 1);
            assert_place(&f, a);
            assert_memory_equal(window.at, bytes + a, BYTES - a);
            assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
            assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
            assert_place(&f, a);
            end(&f);
        }
}

/* Bytes received behind those of the window's block, while it is open: had by moving on, before its
 * end or at it. */
static void a_block_that_grows(void **state) {
    (void)state;
    for (size_t read = 0; read <= 9; read++) {
        fixture f = begin();
        sluice_reader_window window = {0};
        sluice_block *block;
        assert_int_equal(sluice_block_get(f.pool, &block), 0);
        memcpy(sluice_block_data(block), bytes, BYTES);
        assert_int_equal(sluice_block_set_length(block, 9), 0);
        block_ref(block);
        sluice_chain_append(f.chain, block);
        for (size_t place = 0; place < read; place++)
            assert_next(&f, &window, place);
        assert_int_equal(chain_extend(f.chain, block, BYTES - 9), 0);
        assert_int_equal(sluice_reader_next_window(f.reader, &window), 0);
        assert_int_equal(window.end - window.at, BYTES - read);
        assert_place(&f, read);
        for (size_t place = read; place < BYTES; place++)
            assert_next(&f, &window, place);
        assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
        assert_place(&f, BYTES);
        sluice_block_release(block);
        end(&f);
    }
}

enum { CALLS = 8 };

/* A use of the reader, or of its chain, while a window is open. */
static void use(const fixture *f, int which) {
    uint64_t value;
    uint8_t byte;
    const uint8_t *view;
    switch (which) {
    case 0:
        assert_int_equal(sluice_reader_u8(f->reader, &byte), 0);
        break;
    case 1:
        assert_int_equal(sluice_reader_be(f->reader, 3, &value), 0);
        break;
    case 2:
        assert_int_equal(sluice_reader_skip(f->reader, 2), 0);
        break;
    case 3:
        assert_int_equal(sluice_reader_peek(f->reader, 1, NULL, &view), 0);
        break;
    case 4:
        assert_int_equal(sluice_reader_mark(f->reader, BYTES), 0);
        sluice_reader_unmark(f->reader);
        break;
    case 5:
        assert_int_equal(sluice_reader_rewind(f->reader), 0);
        break;
    case 6:
        assert_int_equal(sluice_chain_skip(f->chain, BYTES - 5), BYTES - 5);
        break;
    default:
        sluice_reader_reset(f->reader, f->chain);
    }
}

/* What had been read of it is not consumed: not once more, and not of other bytes. */
static void a_window_that_was_forgotten_is_stale(void **state) {
    (void)state;
    for (size_t a = 3; a <= BYTES; a++)
        for (int which = 0; which < CALLS; which++)
            for (int move = 0; move < 2; move++) {
                fixture f = begin();
                sluice_reader_window window = {0};
                feed_cut(&f, a, BYTES);
                if (which == 5)
                    assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
                assert_next(&f, &window, 0);
                assert_next(&f, &window, 1);
                use(&f, which);
                size_t place = (size_t)sluice_reader_total(f.reader);
                assert_int_equal(move ? sluice_reader_next_window(f.reader, &window)
                                      : sluice_reader_close_window(f.reader, &window),
                                 -ESTALE);
                assert_closed(&window);
                assert_place(&f, place);
                assert_next(&f, &window, place);
                assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
                assert_place(&f, place + 1);
                end(&f);
            }
}

/* Behind a mark is what has been consumed; a window that consumes more than its limit drops it, as
 * any call does. */
static void a_mark_sees_what_was_read(void **state) {
    (void)state;
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t read = 1; read <= BYTES; read++)
            for (size_t limit = 1; limit <= BYTES; limit++) {
                fixture f = begin();
                sluice_reader_window window = {0};
                feed_cut(&f, a, BYTES);
                assert_int_equal(sluice_reader_mark(f.reader, limit), 0);
                for (size_t place = 0; place < read; place++)
                    assert_next(&f, &window, place);
                assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
                assert_place(&f, read);
                assert_int_equal(sluice_reader_rewind(f.reader), read <= limit ? 0 : -ESTALE);
                assert_place(&f, read <= limit ? 0 : read);
                sluice_reader_unmark(f.reader);
                end(&f);
            }
}

/* What an earlier skip owes is no part of a window. */
static void debts_are_paid_first(void **state) {
    (void)state;
    for (size_t owed = 1; owed < BYTES; owed++) {
        fixture f = begin();
        sluice_reader_window window = {0};
        assert_int_equal(sluice_reader_skip(f.reader, owed), 0);
        for (size_t come = 0; come < BYTES; come++) {
            feed(f.chain, f.pool, bytes + come, 1, 0);
            assert_int_equal(sluice_reader_next_window(f.reader, &window), come < owed ? -EAGAIN : 0);
            if (come < owed) {
                assert_closed(&window);
                continue;
            }
            assert_int_equal(window.end - window.at, 1);
            assert_int_equal(*window.at++, bytes[come]);
        }
        assert_int_equal(sluice_reader_close_window(f.reader, &window), 0);
        assert_place(&f, BYTES);
        end(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_at_every_cut),        cmocka_unit_test(a_window_is_what_lies_in_one_piece),
        cmocka_unit_test(a_block_that_grows),        cmocka_unit_test(a_window_that_was_forgotten_is_stale),
        cmocka_unit_test(a_mark_sees_what_was_read), cmocka_unit_test(debts_are_paid_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
