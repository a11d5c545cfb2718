/*
 * Defects known from an earlier reader of this kind, each by a test that would have caught it: the
 * comment above a test is the defect.
 */
#include <sluice/reader.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/headers.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/reader_fixture.h"

enum { BYTES = 26, BLOCKS = 512 };

static const uint8_t bytes[BYTES + 1] = "abcdefghijklmnopqrstuvwxyz";

static fixture begin(void) {
    return reader_fixture_open(BLOCKS);
}

static void end(fixture *f) {
    reader_fixture_close(f);
}

/* A failed Peek corrupts the length. */
static void a_failed_peek_changes_nothing(void **state) {
    (void)state;
    fixture f = begin();
    uint8_t scratch[2 * BYTES];
    const uint8_t *view = NULL;
    for (size_t come = 0; come < BYTES; come++) {
        for (size_t n = come + 1; n <= BYTES + 1; n++)
            assert_int_equal(sluice_reader_peek(f.reader, n, scratch, &view), -EAGAIN);
        assert_null(view);
        assert_int_equal(sluice_reader_buffered(f.reader), come);
        assert_int_equal(sluice_reader_total(f.reader), 0);
        feed(f.chain, f.pool, bytes + come, 1, 0);
    }
    assert_int_equal(sluice_reader_peek(f.reader, BYTES, NULL, &view), -EXDEV);
    assert_int_equal(sluice_reader_peek(f.reader, BYTES, scratch, &view), 0);
    assert_memory_equal(view, bytes, BYTES);
    end(&f);
}

/* A zero-length read leaves an empty block that later panics. */
static void an_empty_block_never_enters_the_chain(void **state) {
    (void)state;
    fixture f = begin();
    sluice_slice nothing;
    for (size_t i = 0; i < BYTES; i++) {
        sluice_block *block;
        assert_int_equal(sluice_block_get(f.pool, &block), 0);
        sluice_chain_append(f.chain, block);
        assert_int_equal(sluice_reader_slice(f.reader, 0, &nothing), 0);
        assert_int_equal(sluice_chain_append_slice(f.chain, &nothing), 0);
        assert_int_equal(sluice_chain_blocks(f.chain), i);
        feed(f.chain, f.pool, bytes + i, 1, 0);
    }
    for (size_t i = 0; i < BYTES; i++) {
        uint8_t byte;
        assert_int_equal(sluice_reader_copy(f.reader, NULL, 0), 0);
        assert_int_equal(sluice_reader_u8(f.reader, &byte), 0);
        assert_int_equal(byte, bytes[i]);
    }
    end(&f);
}

/* Unread has no lower bound. */
static void going_back_ends_at_the_mark(void **state) {
    (void)state;
    fixture f = begin();
    feed(f.chain, f.pool, bytes, BYTES, 3);
    assert_int_equal(sluice_reader_skip(f.reader, 5), 0);
    assert_int_equal(sluice_reader_rewind(f.reader), -EINVAL);
    assert_int_equal(sluice_reader_mark(f.reader, 10), 0);
    assert_int_equal(sluice_reader_skip(f.reader, 10), 0);
    for (int times = 0; times < 3; times++) {
        assert_int_equal(sluice_reader_rewind(f.reader), 0);
        assert_int_equal(sluice_reader_total(f.reader), 5);
        assert_int_equal(sluice_reader_buffered(f.reader), BYTES - 5);
    }
    assert_int_equal(sluice_reader_skip(f.reader, 11), 0);
    assert_int_equal(sluice_reader_rewind(f.reader), -ESTALE);
    assert_int_equal(sluice_reader_total(f.reader), 16);
    end(&f);
}

/* Skip is wrong with uneven blocks. */
static void skips_over_uneven_blocks(void **state) {
    (void)state;
    fixture f = begin();
    for (size_t n = 0; n < BYTES; n++) {
        /* Blocks of 1, 2, 3, 4, 5, 6 bytes, and what is left. */
        for (size_t from = 0, piece = 1; from < BYTES; from += piece++)
            feed(f.chain, f.pool, bytes + from, piece < BYTES - from ? piece : BYTES - from, 0);
        uint8_t byte;
        assert_int_equal(sluice_reader_skip(f.reader, n), 0);
        assert_int_equal(sluice_reader_u8(f.reader, &byte), 0);
        assert_int_equal(byte, bytes[n]);
        assert_int_equal(sluice_reader_buffered(f.reader), BYTES - n - 1);
        assert_true(chain_is_sound(f.chain));
        assert_int_equal(sluice_reader_skip(f.reader, BYTES - n - 1), 0);
    }
    end(&f);
}

/* Bytes that arrive together with an error are dropped; Read reports the full length even after an
 * error. */
static void what_came_before_the_end_is_read_and_counted_exactly(void **state) {
    (void)state;
    for (size_t come = 0; come <= BYTES; come++) {
        fixture f = begin();
        uint8_t out[2 * BYTES];
        uint64_t value = 77;
        memset(out, '#', sizeof out);
        /* The stream ends here: the chain is all there is, and will not grow. */
        feed(f.chain, f.pool, bytes, come, 4);
        assert_int_equal(sluice_reader_mark(f.reader, BYTES), 0);
        assert_int_equal(sluice_reader_copy(f.reader, out, sizeof out), come);
        assert_memory_equal(out, bytes, come);
        assert_int_equal(out[come], '#');
        assert_int_equal(sluice_reader_copy(f.reader, out, sizeof out), 0);
        assert_int_equal(sluice_reader_be(f.reader, 1, &value), -EAGAIN);
        assert_true(value == 77);
        assert_int_equal(sluice_reader_total(f.reader), come);
        end(&f);
    }
}

/* ReadLine and ReadMIMEHeader are unbounded. */
static void lines_and_headers_are_bounded(void **state) {
    (void)state;
    fixture f = begin();
    char scratch[16];
    const char *line = NULL;
    size_t length = 77;
    sluice_headers *headers;
    sluice_headers_options limits = {.size = sizeof limits, .max_total = 24};
    assert_int_equal(sluice_headers_new(&limits, &headers), 0);
    feed(f.chain, f.pool, bytes, BYTES, 1);
    assert_int_equal(sluice_reader_line(f.reader, scratch, sizeof scratch, &line, &length), -EMSGSIZE);
    assert_null(line);
    assert_int_equal(length, 77);
    assert_int_equal(sluice_headers_read(headers, f.reader), -EMSGSIZE);
    assert_int_equal(sluice_reader_buffered(f.reader), BYTES);
    sluice_headers_free(headers);
    end(&f);
}

typedef struct releases {
    sluice_slice slices[BLOCKS / 2];
} releases;

static void *release_all(void *user) {
    releases *r = user;
    for (size_t i = 0; i < BLOCKS / 2; i++)
        sluice_slice_release(&r->slices[i]);
    return NULL;
}

/* The block allocator raced when a block was freed on another thread: its owner goes on taking
 * meanwhile. */
static void blocks_may_be_released_on_any_thread(void **state) {
    (void)state;
    fixture f = begin();
    releases r;
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        for (size_t i = 0; i < BLOCKS / 2; i++) {
            feed(f.chain, f.pool, bytes, BYTES, 0);
            assert_int_equal(sluice_reader_slice(f.reader, BYTES, &r.slices[i]), 0);
        }
        assert_int_equal(pthread_create(&thread, NULL, release_all, &r), 0);
        for (size_t i = 0; i < BLOCKS / 2; i++) {
            uint64_t value;
            feed(f.chain, f.pool, bytes, 8, 3);
            assert_int_equal(sluice_reader_be(f.reader, 8, &value), 0);
            assert_true(value == 0x6162636465666768);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        sluice_pool_stats stats = {.size = sizeof stats};
        sluice_pool_get_stats(f.pool, &stats);
        assert_int_equal(stats.held, 0);
        assert_int_equal(stats.total, stats.free);
    }
    end(&f);
}

/* Recycle: what a reader leaves goes back with it, and another can follow on the same chain without
 * a trace. */
static void a_freed_reader_leaves_nothing_behind(void **state) {
    (void)state;
    fixture f = begin();
    char scratch[4];
    const char *line;
    size_t length;
    feed(f.chain, f.pool, "ab\ncd", 5, 3);
    assert_int_equal(sluice_reader_mark(f.reader, 100), 0);
    assert_int_equal(sluice_reader_line(f.reader, scratch, sizeof scratch, &line, &length), 0);
    sluice_reader_free(f.reader);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(f.pool, &stats);
    assert_int_equal(stats.held, 1);
    assert_int_equal(sluice_reader_new(f.chain, &f.reader), 0);
    assert_int_equal(sluice_reader_buffered(f.reader), 2);
    assert_int_equal(sluice_reader_rewind(f.reader), -EINVAL);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_peek_changes_nothing),
        cmocka_unit_test(an_empty_block_never_enters_the_chain),
        cmocka_unit_test(going_back_ends_at_the_mark),
        cmocka_unit_test(skips_over_uneven_blocks),
        cmocka_unit_test(what_came_before_the_end_is_read_and_counted_exactly),
        cmocka_unit_test(lines_and_headers_are_bounded),
        cmocka_unit_test(blocks_may_be_released_on_any_thread),
        cmocka_unit_test(a_freed_reader_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
