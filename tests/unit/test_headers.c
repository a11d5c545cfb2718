/* Header blocks: cut in every place, in place and gathered; limits, refusals, lifetimes. */
#include <sluice/headers.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"

typedef struct fixture {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
    sluice_headers *headers;
} fixture;

static fixture begin(const sluice_headers_options *limits) {
    fixture f;
    sluice_pool_options options = {
        .size = sizeof options, .block_size = 512, .slab_blocks = 8, .max_blocks = 1024, .reserve_blocks = 1};
    assert_int_equal(sluice_pool_new(&options, &f.pool), 0);
    assert_int_equal(sluice_chain_new(f.pool, &f.chain), 0);
    assert_int_equal(sluice_reader_new(f.chain, &f.reader), 0);
    assert_int_equal(sluice_headers_new(limits, &f.headers), 0);
    return f;
}

static void end(fixture *f) {
    sluice_headers_free(f->headers);
    sluice_reader_free(f->reader);
    sluice_chain_free(f->chain);
    feed_assert_returned(f->pool);
    sluice_pool_free(f->pool);
}

static sluice_pool_stats counts(const fixture *f) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(f->pool, &stats);
    return stats;
}

static void assert_value(const fixture *f, const char *key, const char *value) {
    const sluice_header *header = sluice_headers_find(f->headers, key);
    assert_non_null(header);
    assert_int_equal(header->value_length, strlen(value));
    assert_memory_equal(header->value, value, strlen(value));
}

static void blocks_at_every_cut(void **state) {
    (void)state;
    static const char text[] = "CSeq: 1\r\nX-Empty:\r\nContent-Type: \t a b\t \r\nx:y\ncseq: 2\n\r\n";
    const size_t length = sizeof text - 1;
    fixture f = begin(NULL);
    for (size_t a = 0; a <= length; a++)
        for (size_t b = a; b <= length; b++) {
            uint64_t copied = counts(&f).bytes_copied;
            feed(f.chain, f.pool, text, a, 0);
            assert_int_equal(sluice_headers_read(f.headers, f.reader), a < length ? -EAGAIN : 0);
            feed(f.chain, f.pool, text + a, b - a, 0);
            if (a < length)
                assert_int_equal(sluice_headers_read(f.headers, f.reader), b < length ? -EAGAIN : 0);
            if (b < length) {
                assert_int_equal(sluice_headers_count(f.headers), 0);
                assert_int_equal(sluice_reader_buffered(f.reader), b);
            }
            feed(f.chain, f.pool, text + b, length - b, 0);
            feed(f.chain, f.pool, "body", 4, 0);
            if (b < length)
                assert_int_equal(sluice_headers_read(f.headers, f.reader), 0);

            assert_int_equal(sluice_reader_buffered(f.reader), 4);
            bool torn = (a > 0 && a < length) || (b > 0 && b < length);
            assert_int_equal(counts(&f).bytes_copied, copied + (torn ? length : 0));
            assert_int_equal(counts(&f).held, torn ? 1 : 2);
            /* What the reader and others do afterwards does not touch the texts. */
            assert_int_equal(sluice_reader_skip(f.reader, 4), 0);
            assert_int_equal(sluice_headers_count(f.headers), 5);
            assert_value(&f, "CSEQ", "1");
            assert_value(&f, "x-empty", "");
            assert_value(&f, "content-type", "a b");
            assert_value(&f, "X", "y");
            assert_memory_equal(sluice_headers_at(f.headers, 4)->key, "cseq", 4);
            assert_memory_equal(sluice_headers_at(f.headers, 4)->value, "2", 1);
            assert_null(sluice_headers_at(f.headers, 5));
            assert_null(sluice_headers_find(f.headers, "CSe"));
            assert_null(sluice_headers_find(f.headers, "CSeqq"));
            sluice_headers_clear(f.headers);
            assert_int_equal(sluice_headers_count(f.headers), 0);
            assert_int_equal(counts(&f).held, 0);
        }
    end(&f);
}

static void no_lines_is_a_block(void **state) {
    (void)state;
    static const char *const texts[] = {"\n", "\r\n"};
    fixture f = begin(NULL);
    for (int i = 0; i < 2; i++)
        for (size_t piece = 1; piece <= 2; piece++) {
            feed(f.chain, f.pool, texts[i], strlen(texts[i]), piece);
            assert_int_equal(sluice_headers_read(f.headers, f.reader), 0);
            assert_int_equal(sluice_headers_count(f.headers), 0);
            assert_int_equal(sluice_reader_buffered(f.reader), 0);
            assert_null(sluice_headers_find(f.headers, "a"));
        }
    end(&f);
}

static void what_is_malformed_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "a: 1\r\n b\r\n\r\n", "a: 1\r\n\tb: 2\r\n\r\n",
        " a: 1\r\n\r\n",      "a : 1\r\n\r\n",
        "a\r\n\r\n",          ": 1\r\n\r\n",
        "a: 1\rb: 2\r\n\r\n", "a: \x01\n\n",
        "a: \x7f\r\n\r\n",    "\xc3\xa9: 1\r\n\r\n",
        "a: 1\r\n\r\r\n\r\n", "a(b): 1\n\n",
    };
    fixture f = begin(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t piece = 1; piece <= strlen(texts[i]); piece++) {
            feed(f.chain, f.pool, texts[i], strlen(texts[i]), piece);
            for (int times = 0; times < 2; times++) {
                assert_int_equal(sluice_headers_read(f.headers, f.reader), -EPROTO);
                assert_int_equal(sluice_headers_count(f.headers), 0);
                assert_int_equal(sluice_reader_buffered(f.reader), strlen(texts[i]));
            }
            assert_int_equal(sluice_reader_skip(f.reader, strlen(texts[i])), 0);
        }
    end(&f);
}

/* Every limit is reached and exceeded by one, by each piece size. */
static void limits_are_exact(void **state) {
    (void)state;
    static const char text[] = "abc: 1234\r\nd: 5\r\n\r\n";
    const size_t length = sizeof text - 1;
    const struct {
        sluice_headers_options limits;
        int result;
    } cases[] = {
        {{sizeof(sluice_headers_options), 2, 3, 4, 19}, 0},
        {{sizeof(sluice_headers_options), 1, 3, 4, 19}, -EMSGSIZE},
        {{sizeof(sluice_headers_options), 2, 2, 4, 19}, -EMSGSIZE},
        {{sizeof(sluice_headers_options), 2, 3, 3, 19}, -EMSGSIZE},
        {{sizeof(sluice_headers_options), 2, 3, 4, 18}, -EMSGSIZE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= length; piece++) {
            fixture f = begin(&cases[i].limits);
            feed(f.chain, f.pool, text, length, piece);
            for (int times = 0; times < (cases[i].result ? 2 : 1); times++)
                assert_int_equal(sluice_headers_read(f.headers, f.reader), cases[i].result);
            assert_int_equal(sluice_reader_buffered(f.reader), cases[i].result ? length : 0);
            end(&f);
        }
}

/* A peer that never ends its block is refused at the limit, byte by byte or at once. */
static void what_does_not_end_is_refused(void **state) {
    (void)state;
    const sluice_headers_options limits = {.size = sizeof limits, .max_count = 3, .max_total = 100};
    fixture f = begin(&limits);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(sluice_headers_read(f.headers, f.reader), -EAGAIN);
        feed(f.chain, f.pool, "a", 1, 0);
    }
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EMSGSIZE);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EMSGSIZE);
    chain_clear(f.chain);
    feed(f.chain, f.pool, "a:\na:\na:\n", 9, 2);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EAGAIN);
    feed(f.chain, f.pool, "a:\n", 3, 0);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EMSGSIZE);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EMSGSIZE);
    end(&f);
}

static void a_mark_brings_a_block_back(void **state) {
    (void)state;
    static const char text[] = "a: 1\r\nb: 2\r\n\r\n";
    fixture f = begin(NULL);
    for (size_t piece = 1; piece < sizeof text; piece++) {
        feed(f.chain, f.pool, text, sizeof text - 1, piece);
        assert_int_equal(sluice_reader_mark(f.reader, 100), 0);
        for (int times = 0; times < 2; times++) {
            assert_int_equal(sluice_headers_read(f.headers, f.reader), 0);
            assert_value(&f, "B", "2");
            if (times == 0)
                assert_int_equal(sluice_reader_rewind(f.reader), 0);
        }
        sluice_reader_unmark(f.reader);
    }
    end(&f);
}

/* Another stream's chain may lie where the last one's was, with fewer bytes than have been
 * searched. */
static void another_stream_in_the_same_place(void **state) {
    (void)state;
    fixture f = begin(NULL);
    feed(f.chain, f.pool, "a: 123456789 more", 17, 17);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EAGAIN);
    chain_clear(f.chain);
    chain_init(f.chain, f.pool);
    sluice_reader_reset(f.reader, f.chain);
    feed(f.chain, f.pool, "a: b\r\n\r\n", 8, 8);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), 0);
    assert_value(&f, "a", "b");

    /* With more of them, it has to be said. */
    chain_clear(f.chain);
    chain_init(f.chain, f.pool);
    sluice_reader_reset(f.reader, f.chain);
    feed(f.chain, f.pool, "a: 1234", 7, 7);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), -EAGAIN);
    sluice_headers_clear(f.headers);
    chain_clear(f.chain);
    chain_init(f.chain, f.pool);
    sluice_reader_reset(f.reader, f.chain);
    feed(f.chain, f.pool, "a: b\r\nc: d\r\n\r\n", 14, 14);
    assert_int_equal(sluice_headers_read(f.headers, f.reader), 0);
    assert_int_equal(sluice_headers_count(f.headers), 2);
    assert_value(&f, "c", "d");
    end(&f);
}

static void limits_out_of_range(void **state) {
    (void)state;
    sluice_headers *headers = NULL;
    sluice_headers_options limits = {.size = sizeof limits, .max_count = 10001};
    assert_int_equal(sluice_headers_new(&limits, &headers), -EINVAL);
    limits = (sluice_headers_options){.size = sizeof(sluice_headers_options), .max_total = (1 << 20) + 1};
    assert_int_equal(sluice_headers_new(&limits, &headers), -EINVAL);
    assert_null(headers);
    sluice_headers_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_at_every_cut),
        cmocka_unit_test(no_lines_is_a_block),
        cmocka_unit_test(what_is_malformed_is_refused),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(what_does_not_end_is_refused),
        cmocka_unit_test(a_mark_brings_a_block_back),
        cmocka_unit_test(another_stream_in_the_same_place),
        cmocka_unit_test(limits_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
