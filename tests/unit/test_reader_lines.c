/* The reader: lines with their limits and lifetimes, over every cut. */
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
#include "support/feed.h"
#include "support/reader_cuts.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_at_every_cut_and_limit),
        cmocka_unit_test(lines_as_their_block_grows),
        cmocka_unit_test(a_limit_may_change),
        cmocka_unit_test(a_search_is_forgotten_when_bytes_go),
        cmocka_unit_test(a_line_outlives_its_block_in_the_chain),
        cmocka_unit_test(a_line_outlives_what_others_consume),
        cmocka_unit_test(a_long_line_is_searched_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
