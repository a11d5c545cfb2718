/*
 * A reader and where its bytes come from: the contract between the two, with a source that does as
 * it is told. malloc() and calloc() are counted.
 */
#include <sluice/reader.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/reader_calls.h"

enum { BLOCK = 512, BLOCKS = 256 };

/* The linker puts these in the place of the calls (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static unsigned allocations;

void *__wrap_malloc(size_t size) {
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    allocations++;
    return __real_realloc(memory, size);
}

static const sluice_pool_options pool_options = {.size = sizeof pool_options,
                                                 .block_size = BLOCK,
                                                 .slab_blocks = 8,
                                                 .max_blocks = BLOCKS,
                                                 .reserve_blocks = 1,
                                                 .no_huge_pages = true};

static uint64_t copied(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.bytes_copied;
}

/* A source that does as it is told: it appends a piece at each call, and at the end says so. */

typedef struct script {
    sluice_pool *pool;
    sluice_chain *chain;
    sluice_reader *reader;
    size_t come, end; /* bytes of the stream that have come; that are to come before the error */
    size_t piece;
    int error;
    bool together; /* the error comes with the last piece, not after it */
    bool lies;     /* says that more has come when it has not */
    bool recycles; /* where it closes inside of a call: the reader is reset, and not freed */
    unsigned fills;
    size_t need;
    uint64_t deadline; /* of the last call */
    unsigned direct;   /* calls of read_into */
} script;

static size_t next_piece(const script *s) {
    return s->piece < s->end - s->come ? s->piece : s->end - s->come;
}

static int script_fill(void *user, size_t need, uint64_t deadline) {
    script *s = user;
    assert_true(need > chain_length(s->chain));
    s->fills++;
    s->need = need;
    s->deadline = deadline;
    size_t n = next_piece(s);
    if (n == 0)
        return s->lies ? 0 : s->error;
    feed(s->chain, s->pool, reader_stream + s->come, n, 0);
    s->come += n;
    return s->together && s->come == s->end ? s->error : 0;
}

static int script_read_into(void *user, void *memory, size_t n, uint64_t deadline, size_t *ret_done) {
    script *s = user;
    assert_int_equal(chain_length(s->chain), 0);
    s->direct++;
    s->deadline = deadline;
    size_t here = next_piece(s) < n ? next_piece(s) : n;
    if (here == 0)
        return s->lies ? 0 : s->error;
    memcpy(memory, reader_stream + s->come, here);
    s->come += here;
    *ret_done = here;
    return s->together && s->come == s->end ? s->error : 0;
}

/* Finds it better to go by way of the chain. */
static int script_read_by_chain(void *user, void *memory, size_t n, uint64_t deadline, size_t *ret_done) {
    script *s = user;
    (void)memory, (void)n;
    s->direct++;
    assert_int_equal(*ret_done, 0);
    return script_fill(s, 1, deadline);
}

static const sluice_reader_source by_chain = {.size = sizeof by_chain, .fill = script_fill};
static const sluice_reader_source direct = {.size = sizeof direct, .fill = script_fill, .read_into = script_read_into};
static const sluice_reader_source by_chain_at_will = {
    .size = sizeof by_chain_at_will, .fill = script_fill, .read_into = script_read_by_chain};

static void script_open(script *s, const sluice_reader_source *source) {
    assert_int_equal(sluice_pool_new(&pool_options, &s->pool), 0);
    assert_int_equal(sluice_chain_new(s->pool, &s->chain), 0);
    assert_int_equal(sluice_reader_new(s->chain, &s->reader), 0);
    sluice_reader_set_source(s->reader, source, s);
}

static void script_close(script *s) {
    sluice_reader_free(s->reader);
    sluice_chain_free(s->chain);
    feed_assert_returned(s->pool);
    sluice_pool_free(s->pool);
}

/*
 * The bytes end at every place with every error, come in pieces of every size, and the error comes
 * with the last of them or after it. The call that needs more says the error and has taken nothing,
 * or just what it says; what had come is still there; and with more bytes it succeeds.
 */
static void check_end(const sluice_reader_source *source, size_t end, size_t piece, int error, bool together) {
    script s = {.end = end, .piece = piece, .error = error, .together = together};
    script_open(&s, source);
    reading r;
    reading_open(&r, s.reader);
    size_t place = 0, begin;
    int failed, expected = reader_call_at(end, &begin);
    int at = reading_go_on(&r, 0, &place, &failed);
    if (at != expected || (at < READER_CALLS && failed != error))
        fail_msg("end %zu piece %zu error %d%s: %s (%d) says %d", end, piece, error, together ? " together" : "",
                 at < READER_CALLS ? reader_calls[at].name : "none", at, failed);
    assert_int_equal(place, begin);
    if (at < READER_CALLS) {
        size_t part = reader_calls[at].streaming ? end - begin : 0;
        assert_int_equal(r.part, part);
        assert_int_equal(sluice_reader_total(s.reader), begin + part);
        assert_int_equal(sluice_reader_buffered(s.reader), end - begin - part);
        s.end = READER_STREAM;
        s.together = false;
        assert_int_equal(reading_go_on(&r, at, &place, &failed), READER_CALLS);
    }
    assert_int_equal(sluice_reader_total(s.reader), READER_STREAM);
    reading_close(&r);
    script_close(&s);
}

static void an_end_at_every_place(void **state) {
    (void)state;
    static const sluice_reader_source *const sources[] = {&by_chain, &direct, &by_chain_at_will};
    static const int errors[] = {-EAGAIN, -ENODATA, -ETIMEDOUT, -ECONNRESET};
    for (size_t end = 0; end <= READER_STREAM; end++)
        for (size_t piece = 1; piece <= end + 1; piece += piece < 8 ? 1 : 7)
            for (int i = 0; i < 12; i++)
                check_end(sources[i % 3], end, piece, errors[i / 3], piece & 1);
}

/* What is there is read without a question. */
static void the_source_is_not_asked_for_what_is_there(void **state) {
    (void)state;
    script s = {.end = READER_STREAM, .piece = READER_STREAM, .error = -ENODATA};
    script_open(&s, &direct);
    reading r;
    reading_open(&r, s.reader);
    size_t place = 0;
    int error;
    assert_int_equal(sluice_reader_fill(s.reader, 1), 0);
    assert_int_equal(s.fills, 1);
    assert_int_equal(reading_go_on(&r, 0, &place, &error), READER_CALLS);
    assert_int_equal(s.fills, 1);
    assert_int_equal(s.direct, 0);
    /* Nor for nothing. */
    size_t done = 77;
    assert_int_equal(sluice_reader_fill(s.reader, 0), 0);
    assert_int_equal(sluice_reader_read(s.reader, NULL, 0, &done), 0);
    assert_int_equal(done, 0);
    assert_int_equal(sluice_reader_read_into(s.reader, NULL, 0, &done), 0);
    assert_int_equal(sluice_reader_range(s.reader, 0, reading_see, &r, &done), 0);
    assert_int_equal(sluice_reader_skip(s.reader, 0), 0);
    assert_int_equal(sluice_reader_copy(s.reader, NULL, 5), 0);
    assert_int_equal(s.fills, 1);
    reading_close(&r);
    script_close(&s);
}

/* Calls that need their bytes together ask for all of them; streaming ones are content with any. */
static void the_source_hears_what_is_needed(void **state) {
    (void)state;
    script s = {.end = 60, .piece = 10, .error = -ENODATA};
    script_open(&s, &by_chain);
    sluice_slice slice;
    uint8_t out[60];
    size_t done;
    assert_int_equal(sluice_reader_slice(s.reader, 25, &slice), 0);
    assert_int_equal(s.need, 25);
    assert_int_equal(s.fills, 3);
    sluice_slice_release(&slice);
    assert_int_equal(sluice_reader_read(s.reader, out, 15, &done), 0);
    assert_int_equal(s.need, 1);
    assert_int_equal(sluice_reader_skip(s.reader, 15), 0);
    assert_int_equal(s.need, 1);
    assert_int_equal(sluice_reader_slice(s.reader, SIZE_MAX, &slice), -ENODATA);
    assert_true(s.need == SIZE_MAX);
    script_close(&s);
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A call has one deadline, however often it asks; the next call has another. */
static void a_call_has_one_deadline(void **state) {
    (void)state;
    script s = {.end = READER_STREAM, .piece = 1, .error = -ENODATA};
    script_open(&s, &direct);
    uint8_t out[8];
    size_t done;
    assert_int_equal(sluice_reader_read(s.reader, out, 2, &done), 0);
    assert_true(s.deadline == UINT64_MAX);
    sluice_reader_set_timeout(s.reader, UINT32_MAX);
    uint64_t before = nanoseconds();
    assert_int_equal(sluice_reader_fill(s.reader, 2), 0);
    uint64_t first = s.deadline, length = (uint64_t)UINT32_MAX * 1000000;
    assert_true(first >= before + length && first <= nanoseconds() + length);
    assert_int_equal(sluice_reader_read_into(s.reader, out, 4, &done), 0);
    assert_true(s.deadline >= first);
    first = s.deadline;
    s.fills = 0;
    while (nanoseconds() + length == first)
        ;
    assert_int_equal(sluice_reader_fill(s.reader, 5), 0);
    assert_int_equal(s.fills, 5);
    assert_true(s.deadline > first);
    sluice_reader_set_timeout(s.reader, 0);
    assert_int_equal(sluice_reader_fill(s.reader, 6), 0);
    assert_true(s.deadline == UINT64_MAX);
    script_close(&s);
}

/* Whatever the source says, a call ends. */
static void a_source_without_progress_is_not_asked_for_ever(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        script s = {.end = 2, .piece = 2, .lies = true};
        script_open(&s, i ? &direct : &by_chain);
        uint64_t value;
        uint8_t out[4];
        size_t done;
        assert_int_equal(sluice_reader_be(s.reader, 3, &value), -EAGAIN);
        assert_int_equal(sluice_reader_read_into(s.reader, out, 4, &done), -EAGAIN);
        assert_int_equal(done, 2);
        script_close(&s);
    }
}

/* What is in the chain is copied, and counted; the rest is written by the source itself, but not
 * behind a mark. */
static void read_into_goes_past_the_chain(void **state) {
    (void)state;
    for (int marked = 0; marked < 2; marked++) {
        script s = {.end = 60, .piece = 7, .error = -ENODATA};
        script_open(&s, &direct);
        uint8_t out[60];
        size_t done = 77;
        assert_int_equal(sluice_reader_fill(s.reader, 5), 0);
        if (marked)
            assert_int_equal(sluice_reader_mark(s.reader, 100), 0);
        assert_int_equal(sluice_reader_read_into(s.reader, out, 40, &done), 0);
        assert_int_equal(done, 40);
        assert_memory_equal(out, reader_stream, 40);
        assert_int_equal(sluice_reader_total(s.reader), 40);
        assert_int_equal(copied(s.pool), marked ? 40 : 7);
        assert_int_equal(s.direct, marked ? 0 : 5);
        if (marked) {
            assert_int_equal(sluice_reader_rewind(s.reader), 0);
            assert_int_equal(sluice_reader_total(s.reader), 0);
            assert_int_equal(sluice_reader_skip(s.reader, 40), 0);
        }
        /* An early end: the exact count, and after it the same again. */
        sluice_reader_unmark(s.reader);
        assert_int_equal(sluice_reader_read_into(s.reader, out, 60, &done), -ENODATA);
        assert_int_equal(done, 20);
        assert_memory_equal(out, reader_stream + 40, 20);
        assert_int_equal(sluice_reader_read_into(s.reader, out, 1, &done), -ENODATA);
        assert_int_equal(done, 0);
        assert_int_equal(sluice_reader_total(s.reader), 60);
        script_close(&s);
    }
}

/* What runs inside of a source may close it, with the chain and the reader; freed, or for another
 * use. */

static int script_close_inside(script *s) {
    if (s->recycles)
        sluice_reader_reset(s->reader, NULL);
    else
        sluice_reader_free(s->reader);
    sluice_chain_free(s->chain);
    return -ECANCELED;
}

static int script_fill_and_close(void *user, size_t need, uint64_t deadline) {
    (void)script_fill(user, need, deadline);
    return script_close_inside(user);
}

static int script_read_and_close(void *user, void *memory, size_t n, uint64_t deadline, size_t *ret_done) {
    (void)script_read_into(user, memory, n, deadline, ret_done);
    return script_close_inside(user);
}

static void nothing_is_touched_behind_a_close(void **state) {
    (void)state;
    static const sluice_reader_source fills = {.size = sizeof fills, .fill = script_fill_and_close};
    static const sluice_reader_source reads = {
        .size = sizeof reads, .fill = script_fill, .read_into = script_read_and_close};
    for (size_t piece = 0; piece <= 5; piece += 5)
        for (int i = 0; i < 4; i++) {
            script s = {.end = READER_STREAM, .piece = piece, .recycles = i / 2};
            uint8_t out[20];
            size_t done = 77;
            script_open(&s, i % 2 ? &reads : &fills);
            assert_int_equal(sluice_reader_read_into(s.reader, out, sizeof out, &done), -ECANCELED);
            assert_int_equal(done, i % 2 ? piece : 0);
            assert_memory_equal(out, reader_stream, done);
            if (s.recycles)
                sluice_reader_free(s.reader);
            feed_assert_returned(s.pool);
            sluice_pool_free(s.pool);
        }
}

static bool see_and_stop(const uint8_t *view, size_t length, void *user) {
    reading_see(view, length, user);
    return false;
}

static void a_range_that_is_stopped_waits_no_more(void **state) {
    (void)state;
    script s = {.end = 20, .piece = 5, .error = -ENODATA};
    script_open(&s, &by_chain);
    reading r = {0};
    size_t done;
    assert_int_equal(sluice_reader_range(s.reader, 20, see_and_stop, &r, &done), -ECANCELED);
    assert_int_equal(done, 5);
    assert_int_equal(s.fills, 1);
    assert_int_equal(sluice_reader_range(s.reader, 15, reading_see, &r, &done), 0);
    assert_memory_equal(r.seen, reader_stream, 20);
    script_close(&s);
}

/* A gigabyte that nobody wants is never held. */
static void what_is_skipped_does_not_pile_up(void **state) {
    (void)state;
    script s = {.end = READER_STREAM, .piece = 3, .error = -ETIMEDOUT};
    script_open(&s, &by_chain);
    uint8_t byte;
    assert_int_equal(sluice_reader_skip(s.reader, READER_STREAM + 10), -ETIMEDOUT);
    assert_int_equal(sluice_reader_skipping(s.reader), 10);
    assert_int_equal(sluice_reader_u8(s.reader, &byte), -ETIMEDOUT);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(s.pool, &stats);
    assert_int_equal(stats.peak_held, 1);
    assert_int_equal(sluice_reader_skip(s.reader, 0), -ETIMEDOUT);
    assert_int_equal(sluice_reader_mark(s.reader, 10), -ETIMEDOUT);
    s.come = 0;
    assert_int_equal(sluice_reader_skip(s.reader, 0), 0);
    assert_int_equal(sluice_reader_u8(s.reader, &byte), 0);
    assert_int_equal(byte, reader_stream[10]);
    script_close(&s);
}

/* Recycled: as new, over another chain, with nothing of the old one and without an allocation. */
static void a_reset_reader_is_as_new(void **state) {
    (void)state;
    script s = {.end = 60, .piece = 60, .error = -ENODATA};
    script_open(&s, &by_chain);
    char scratch[8];
    const char *line;
    size_t length;
    uint8_t byte;
    for (int round = 0; round < 3; round++) {
        sluice_chain *chain;
        assert_int_equal(sluice_chain_new(s.pool, &chain), 0);
        unsigned before = allocations;
        sluice_reader_reset(s.reader, chain);
        feed(chain, s.pool, "ab\ncdef", 7, 7);
        assert_int_equal(sluice_reader_rewind(s.reader), -EINVAL);
        assert_int_equal(sluice_reader_mark(s.reader, 100), 0);
        assert_int_equal(sluice_reader_line(s.reader, scratch, sizeof scratch, &line, &length), 0);
        assert_int_equal(sluice_reader_u8(s.reader, &byte), 0);
        sluice_reader_set_source(s.reader, &by_chain, &s);
        sluice_reader_set_timeout(s.reader, 5);
        assert_int_equal(sluice_reader_skip(s.reader, 1), 0);
        sluice_reader_set_source(s.reader, NULL, NULL);
        assert_int_equal(sluice_reader_skip(s.reader, 1000), 0);
        /* What mark and line hold goes with the reset, after the chain. */
        sluice_chain_free(chain);
        sluice_reader_reset(s.reader, NULL);
        assert_int_equal(allocations, before);
        feed_assert_returned(s.pool);
    }
    sluice_reader_reset(s.reader, s.chain);
    assert_int_equal(sluice_reader_total(s.reader), 0);
    assert_int_equal(sluice_reader_skipping(s.reader), 0);
    assert_int_equal(sluice_reader_u8(s.reader, &byte), -EAGAIN);
    assert_int_equal(s.fills, 0);
    script_close(&s);
}

/* Gathered where it straddles, in place where it does not; the heap only beyond the inline
 * bytes. */
static void lines_in_inline_first_bytes(void **state) {
    (void)state;
    enum { LIMIT = 200 };
    char text[LIMIT + 8];
    for (size_t n = 0; n <= LIMIT + 2; n++)
        for (size_t piece = 1; piece <= 300; piece += piece < 3 ? 1 : 99) {
            script s = {0};
            script_open(&s, NULL);
            sluice_bytes bytes;
            const char *line = NULL;
            size_t length = 77;
            sluice_bytes_init(&bytes, LIMIT);
            memset(text, 'x', n);
            memcpy(text + n, "\r\nnext", 6);
            feed(s.chain, s.pool, text, n + 6, piece);
            unsigned before = allocations;
            int error = sluice_reader_line_bytes(s.reader, &bytes, &line, &length);
            bool torn = n > piece;
            if (n > LIMIT) {
                assert_int_equal(error, -EMSGSIZE);
                assert_null(line);
                assert_int_equal(sluice_reader_buffered(s.reader), n + 6);
            } else {
                assert_int_equal(error, 0);
                assert_int_equal(length, n);
                assert_memory_equal(line, text, n);
                assert_int_equal(allocations - before, torn && n > SLUICE_BYTES_INLINE);
                assert_int_equal(copied(s.pool), torn ? n : 0);
                assert_int_equal(line == (const char *)sluice_bytes_view(&bytes), torn || n == 0);
                assert_int_equal(sluice_reader_buffered(s.reader), 4);
            }
            sluice_bytes_free(&bytes);
            script_close(&s);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_at_every_place),
        cmocka_unit_test(the_source_is_not_asked_for_what_is_there),
        cmocka_unit_test(the_source_hears_what_is_needed),
        cmocka_unit_test(a_call_has_one_deadline),
        cmocka_unit_test(a_source_without_progress_is_not_asked_for_ever),
        cmocka_unit_test(read_into_goes_past_the_chain),
        cmocka_unit_test(nothing_is_touched_behind_a_close),
        cmocka_unit_test(a_range_that_is_stopped_waits_no_more),
        cmocka_unit_test(what_is_skipped_does_not_pile_up),
        cmocka_unit_test(a_reset_reader_is_as_new),
        cmocka_unit_test(lines_in_inline_first_bytes),
    };
    return cmocka_run_group_tests(tests, reader_stream_make, NULL);
}
