/* The RTMP framer: chunks into messages, wherever they are cut, as a naive framer does. */
#include <sluice/rtmp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/pool.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/rtmp_chunks.h"
#include "support/slices.h"

static uint64_t copied(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.bytes_copied;
}

static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 16) % limit);
}

/* ---- Bytes that are made by hand ---- */

static void add_id(bytes *b, unsigned format, uint32_t id) {
    if (id < 64)
        add_be(b, 1, format << 6 | id);
    else if (id < 320)
        add_be(b, 2, format << 14 | (id - 64));
    else
        add_be(b, 3, format << 22 | 1 << 16 | ((id - 64) & 0xFF) << 8 | (id - 64) >> 8);
}

/* A header; @time with its extension where it needs one. */
static void add_header(bytes *b, unsigned format, uint32_t id, uint32_t time, uint32_t size, uint8_t type,
                       uint32_t stream) {
    add_id(b, format, id);
    if (format < 3)
        add_be(b, 3, time < 0xFFFFFF ? time : 0xFFFFFF);
    if (format < 2)
        add_be(b, 4, size << 8 | type);
    if (format < 1)
        add_be(b, 4, stream << 24 | (stream & 0xFF00) << 8 | (stream >> 8 & 0xFF00) | stream >> 24);
    if (format < 3 && time >= 0xFFFFFF)
        add_be(b, 4, time);
}

/* ---- The framer ---- */

/* Whole, and cut in every two places over guard pages. */
static void expect(sluice_pool *pool, const bytes *b) {
    char *whole = read_naively(b->at, b->size, SLUICE_RTMP_DEFAULT_MESSAGE);
    expect_whole(pool, b, whole);
    feed_guarded *guarded = feed_guarded_new(b->at, b->size);
    for (size_t first = 0; first <= b->size; first += feed_cuts_apart())
        for (size_t second = first; second <= b->size; second++) {
            const size_t cuts[] = {0, first, second, b->size};
            reading r;
            begin(&r, pool, NULL);
            for (int i = 0; i < 3; i++) {
                feed_guarded_range(guarded, r.chain, cuts[i], cuts[i + 1]);
                read_on(&r);
            }
            char *text = end(&r);
            assert_string_equal(text, whole);
            free(text);
        }
    feed_guarded_free(guarded);
    free(whole);
}

static void every_form_of_header(void **state) {
    static bytes b;
    static const uint32_t ids[] = {2, 3, 63, 64, 319, 320, 65599};
    b.size = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        add_header(&b, 0, ids[i], 1000, 3, 8, 0x01020304);
        add_filled(&b, 3);
    }
    add_header(&b, 1, 3, 20, 2, 9, 0);
    add_filled(&b, 2);
    add_header(&b, 2, 3, 5, 0, 0, 0);
    add_filled(&b, 2);
    add_header(&b, 3, 3, 0, 0, 0, 0);
    add_filled(&b, 2);
    add_header(&b, 0, 4, 7, 0, 18, 1); /* no payload */
    add_header(&b, 3, 4, 0, 0, 0, 0);
    expect(*state, &b);
}

static void messages_are_cut_and_interleaved(void **state) {
    static bytes b;
    b.size = 0;
    add_header(&b, 0, 6, 100, 300, 9, 1);
    add_filled(&b, 128);
    add_header(&b, 0, 4, 100, 5, 8, 1); /* audio inside of the video message */
    add_filled(&b, 5);
    add_header(&b, 3, 6, 0, 0, 0, 0);
    add_filled(&b, 128);
    add_header(&b, 0, 2, 0, 4, 1, 0); /* the chunk size changes within it */
    add_be(&b, 4, 20);
    add_header(&b, 3, 6, 0, 0, 0, 0);
    add_filled(&b, 20);
    add_header(&b, 3, 6, 0, 0, 0, 0);
    add_filled(&b, 20);
    add_header(&b, 3, 6, 0, 0, 0, 0);
    add_filled(&b, 4);
    add_header(&b, 3, 4, 0, 0, 0, 0);
    add_filled(&b, 5);
    expect(*state, &b);
    /* nothing of that has been copied */
    assert_int_equal(copied(*state), 0);
}

static void a_message_is_aborted(void **state) {
    static bytes b;
    b.size = 0;
    add_header(&b, 0, 6, 100, 300, 9, 1);
    add_filled(&b, 128);
    add_header(&b, 0, 2, 0, 4, 2, 0);
    add_be(&b, 4, 6);
    add_header(&b, 0, 2, 0, 4, 2, 0); /* no such chunk stream */
    add_be(&b, 4, 5000);
    add_header(&b, 1, 6, 20, 4, 9, 0);
    add_filled(&b, 4);
    expect(*state, &b);
}

/* A message of 300 bytes at a time that may need four bytes more, whose further headers have
 * @value, or nothing for 0. */
static void add_long(bytes *b, unsigned format, uint32_t time, uint32_t value) {
    add_header(b, format, 6, time, 300, 9, 1);
    for (int left = 300; left > 0; left -= 128) {
        add_filled(b, left < 128 ? (size_t)left : 128);
        if (left <= 128)
            break;
        add_header(b, 3, 6, 0, 0, 0, 0);
        if (value > 0)
            add_be(b, 4, value);
    }
}

static void every_dialect_of_extended_timestamps(void **state) {
    static bytes b;
    static const uint32_t time = 0x01020304, delta = 0x01000000;
    static const uint32_t values[] = {0, 1, 2}; /* left out, as the header had it, the message's */
    for (int i = 0; i < 3; i++) {
        b.size = 0;
        add_long(&b, 0, time, values[i] ? time : 0);
        add_long(&b, 1, 40, 0);
        add_long(&b, 1, delta, values[i] == 0 ? 0 : values[i] == 1 ? delta : time + 40 + delta);
        add_header(&b, 0, 4, 0xFFFFFF, 3, 8, 1);
        add_filled(&b, 3);
        add_header(&b, 0, 4, 0xFFFFFFFF, 3, 8, 1);
        add_filled(&b, 3);
        add_header(&b, 1, 4, 10, 3, 8, 1); /* wraps */
        add_filled(&b, 3);
        expect_whole(*state, &b, NULL);
        char *text = read_in_pieces(*state, &b, 1, NULL);
        assert_non_null(strstr(text, "9 on 6, stream 1 at 16909060: 300"));
        assert_non_null(strstr(text, "9 on 6, stream 1 at 16909100: 300"));
        assert_non_null(strstr(text, "9 on 6, stream 1 at 33686316: 300"));
        assert_non_null(strstr(text, "8 on 4, stream 1 at 9: 3"));
        free(text);
    }
    /* in short: every cut */
    for (int i = 0; i < 2; i++) {
        b.size = 0;
        add_header(&b, 0, 2, 0, 4, 1, 0);
        add_be(&b, 4, 2);
        add_header(&b, 0, 6, time, 5, 9, 1);
        add_be(&b, 2, 0x0101);
        for (int n = 2; n > 0; n--) {
            add_header(&b, 3, 6, 0, 0, 0, 0);
            if (i == 1)
                add_be(&b, 4, time);
            add_be(&b, (unsigned)n, 0x0102); /* begins like it */
        }
        add_header(&b, 3, 6, 0, 0, 0, 0); /* another one, at the same time */
        if (i == 1)
            add_be(&b, 4, time);
        add_be(&b, 2, 0x0909);
        expect(*state, &b);
    }
}

static int result_of(sluice_pool *pool, const bytes *b, const sluice_rtmp_limits *limits) {
    char *text = read_in_pieces(pool, b, b->size, limits);
    size_t length = strlen(text);
    while (length > 1 && text[length - 2] != '\n')
        length--;
    int result = atoi(text + length - 1);
    free(text);
    return result;
}

static void what_cannot_be(void **state) {
    static bytes b;
    for (unsigned format = 2; format < 4; format++) { /* of a chunk stream that has not begun */
        b.size = 0;
        add_header(&b, format, 6, 1, 0, 0, 0);
        expect_whole(*state, &b, "-71\n");
    }
    b.size = 0;
    add_header(&b, 1, 2, 0, 4, 3, 0); /* that is how some clients begin */
    add_be(&b, 4, 1);
    expect_whole(*state, &b, NULL);
    for (int i = 0; i < 3; i++) { /* CVE-2016-10191: the size, or type, changes within a message */
        b.size = 0;
        add_header(&b, 0, 6, 100, 300, 9, 1);
        add_filled(&b, 128);
        add_header(&b, 1, 6, 100, i == 0 ? 301 : 300, i == 1 ? 8 : 9, 1);
        add_filled(&b, 128);
        add_header(&b, 3, 6, 0, 0, 0, 0);
        add_filled(&b, i == 0 ? 45 : 44);
        assert_int_equal(result_of(*state, &b, NULL), i < 2 ? -EPROTO : 0);
        expect_whole(*state, &b, i < 2 ? "-71\n" : NULL);
    }
    for (uint8_t type = 1; type <= 6; type++) { /* too short */
        b.size = 0;
        add_header(&b, 0, 2, 0, 1, type, 0);
        add_filled(&b, 1);
        expect_whole(*state, &b, "-71\n");
    }
    b.size = 0;
    add_header(&b, 0, 2, 0, 4, 1, 0);
    add_be(&b, 4, 0x80000000); /* a chunk size of 0 */
    expect_whole(*state, &b, "-71\n");
}

static void limits_are_exact(void **state) {
    static bytes b;
    const sluice_rtmp_limits message = {.size = sizeof message, .message = 300};
    const sluice_rtmp_limits gathered = {.size = sizeof gathered, .message = 300, .gathered = 500};
    const sluice_rtmp_limits streams = {.size = sizeof streams, .chunk_streams = 3};
    for (uint32_t size = 300; size <= 301; size++) { /* found by the header alone */
        b.size = 0;
        add_header(&b, 0, 6, 100, size, 9, 1);
        assert_int_equal(result_of(*state, &b, &message), size == 300 ? 0 : -EMSGSIZE);
    }
    for (uint32_t size = 200; size <= 201; size++) {
        b.size = 0;
        add_header(&b, 0, 6, 100, 300, 9, 1);
        add_filled(&b, 128);
        add_header(&b, 0, 7, 100, size, 9, 1);
        assert_int_equal(result_of(*state, &b, &gathered), size == 200 ? 0 : -EMSGSIZE);
        b.size = 0; /* one that is whole in its chunk is not gathered */
        add_header(&b, 0, 6, 100, 300, 9, 1);
        add_filled(&b, 128);
        add_header(&b, 0, 7, 100, 190, 9, 1);
        add_filled(&b, 128);
        add_header(&b, 0, 4, 100, 128, 8, 1);
        add_filled(&b, 128);
        assert_int_equal(result_of(*state, &b, &gathered), 0);
    }
    for (uint32_t count = 3; count <= 4; count++) { /* 65,599 of them, say */
        b.size = 0;
        for (uint32_t i = 0; i < count; i++) {
            add_header(&b, 0, 65599 - i, 100, 1, 9, 1);
            add_filled(&b, 1);
        }
        assert_int_equal(result_of(*state, &b, &streams), count == 3 ? 0 : -EMSGSIZE);
    }
}

static void settings_are_checked(void **state) {
    (void)state;
    sluice_rtmp *rtmp = NULL;
    const sluice_rtmp_limits wrong[] = {
        {.size = 1},
        {.size = sizeof(sluice_rtmp_limits), .message = SLUICE_RTMP_MAX_MESSAGE + 1},
        {.size = sizeof(sluice_rtmp_limits), .chunk_streams = SLUICE_RTMP_MAX_STREAMS + 1},
        {.size = sizeof(sluice_rtmp_limits), .copy_below = 65537},
        {.size = sizeof(sluice_rtmp_limits), .message = 100, .gathered = 99},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_rtmp_new(&wrong[i], &rtmp), -EINVAL);
    sluice_rtmp_free(NULL);
}

/* A chunk size of one byte is legal; a call reads so many chunks and no more. */
static void work_of_a_call_is_bounded(void **state) {
    static bytes b;
    const sluice_rtmp_limits limits = {.size = sizeof limits, .work = 10};
    sluice_rtmp_message *m;
    reading r;
    b.size = 0;
    add_header(&b, 0, 2, 0, 4, 1, 0);
    add_be(&b, 4, 1);
    add_header(&b, 0, 6, 0, 30, 9, 1);
    add_filled(&b, 1);
    for (int i = 1; i < 30; i++) {
        add_header(&b, 3, 6, 0, 0, 0, 0);
        add_filled(&b, 1);
    }
    begin(&r, *state, &limits);
    feed(r.chain, *state, b.at, b.size, 0);
    assert_int_equal(sluice_rtmp_next(r.rtmp, r.chain, &m), 1);
    size_t before = sluice_chain_length(r.chain);
    assert_int_equal(sluice_rtmp_next(r.rtmp, r.chain, &m), MORE);
    assert_int_equal(before - sluice_chain_length(r.chain), 11 + 10 * 2);
    assert_int_equal(sluice_rtmp_chunks(r.rtmp), 10);
    assert_int_equal(sluice_rtmp_next(r.rtmp, r.chain, &m), MORE);
    assert_int_equal(sluice_rtmp_next(r.rtmp, r.chain, &m), 1);
    assert_int_equal(sluice_rtmp_chunks(r.rtmp), 10);
    assert_int_equal(m->size, 30);
    assert_int_equal(sluice_rtmp_next(r.rtmp, r.chain, &m), 0);
    assert_int_equal(sluice_rtmp_chunks(r.rtmp), 0);
    free(end(&r));
}

/* A message in chunks of @chunk; the bytes that were copied for it. */
static uint64_t copied_for(sluice_pool *pool, uint32_t size, uint32_t chunk, const sluice_rtmp_limits *limits) {
    static bytes b;
    b.size = 0;
    add_header(&b, 0, 2, 0, 4, 1, 0);
    add_be(&b, 4, chunk);
    add_header(&b, 0, 6, 5, size, 9, 1);
    for (uint32_t left = size; left > 0; left -= left < chunk ? left : chunk) {
        if (left < size)
            add_header(&b, 3, 6, 0, 0, 0, 0);
        add_filled(&b, left < chunk ? left : chunk);
    }
    uint64_t before = copied(pool);
    char *text = read_in_pieces(pool, &b, 1000, limits);
    char *naively = read_naively(b.at, b.size, SLUICE_RTMP_DEFAULT_MESSAGE);
    assert_string_equal(text, naively);
    free(naively);
    free(text);
    return copied(pool) - before;
}

static void only_small_pieces_are_copied(void **state) {
    const sluice_rtmp_limits never = {.size = sizeof never, .copy_below = 1};
    const sluice_rtmp_limits few = {.size = sizeof few, .copy_below = 1, .pieces = 20};
    static const uint32_t chunks[] = {SLUICE_RTMP_DEFAULT_COPY, 4096, 65536, SLUICE_RTMP_MAX_CHUNK};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(copied_for(*state, 100000, chunks[i], NULL), 0);
    assert_int_equal(copied_for(*state, 100000, 128, &never), 0);
    assert_int_equal(copied_for(*state, 1000, 1, &never), 0);
    /* the first ones never are, so that audio is not */
    assert_int_equal(copied_for(*state, 128 * 10, 128, NULL), 0);
    uint64_t most = copied_for(*state, 100000, 128, NULL);
    assert_in_range(most, 100000 - 128 * (SLUICE_RTMP_FREE_PIECES + 2), 100000 - 128 * 8);
    /* beyond a number of pieces all are */
    assert_in_range(copied_for(*state, 100000, 4096, &few), 1, 100000);
}

static void views_that_run_out_are_no_error(void **state) {
    (void)state;
    enum { BLOCKS = 64 };
    static bytes b;
    sluice_pool *pool = http_feed_pool(512, BLOCKS);
    const sluice_rtmp_limits limits = {.size = sizeof limits, .copy_below = 1};
    b.size = 0;
    add_header(&b, 0, 2, 0, 4, 1, 0);
    add_be(&b, 4, 1);
    add_header(&b, 0, 6, 5, 2000, 9, 1);
    for (int i = 0; i < 2000; i++) {
        if (i > 0)
            add_header(&b, 3, 6, 0, 0, 0, 0);
        add_filled(&b, 1);
    }
    char *text = read_in_pieces(pool, &b, 100, &limits);
    char *naively = read_naively(b.at, b.size, SLUICE_RTMP_DEFAULT_MESSAGE);
    assert_string_equal(text, naively);
    free(naively);
    free(text);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

static void what_is_held_is_known(void **state) {
    static bytes b;
    reading r;
    b.size = 0;
    add_header(&b, 0, 6, 5, 1000, 9, 1);
    add_filled(&b, 128);
    begin(&r, *state, NULL);
    assert_int_equal(sluice_rtmp_footprint(r.rtmp), 0);
    feed(r.chain, *state, b.at, b.size, 0);
    read_on(&r);
    assert_int_equal(sluice_rtmp_footprint(r.rtmp), 4096);
    free(end(&r));
}

/* The connection goes to a loop with another pool, and back: in the middle of two messages. */
static void a_connection_moves(void **state) {
    static bytes b;
    sluice_pool *other = http_feed_pool(512, 64);
    b.size = 0;
    add_header(&b, 0, 6, 5, 2000, 9, 1);
    for (int i = 0; i < 16; i++) {
        add_filled(&b, i < 15 ? 128 : 80);
        if (i == 4 || i == 9) {
            add_header(&b, i == 4 ? 0 : 3, 7, 6, 200, 8, 1);
            add_filled(&b, i == 4 ? 128 : 72);
        }
        if (i < 15)
            add_header(&b, 3, 6, 0, 0, 0, 0);
    }
    char *naively = read_naively(b.at, b.size, SLUICE_RTMP_DEFAULT_MESSAGE);
    for (size_t first = 1; first < b.size; first += 37) {
        size_t second = first + (b.size - first) / 2;
        reading r;
        begin(&r, *state, NULL);
        sluice_chain *chains[] = {r.chain, http_feed_chain(other)};
        const size_t cuts[] = {0, first, second, b.size};
        for (int i = 0; i < 3; i++) {
            sluice_chain *to = chains[i % 2];
            if (to != r.chain) { /* what has not been read goes along */
                sluice_slice left;
                assert_int_equal(sluice_chain_take(r.chain, sluice_chain_length(r.chain), &left), 0);
                assert_int_equal(sluice_chain_append_slice(to, &left), 0);
                sluice_slice_release(&left);
                r.chain = to;
            }
            feed(r.chain, i % 2 ? other : *state, b.at + cuts[i], cuts[i + 1] - cuts[i], 0);
            read_on(&r);
        }
        sluice_chain_free(chains[r.chain == chains[0]]);
        char *text = end(&r);
        assert_string_equal(text, naively);
        free(text);
    }
    free(naively);
    feed_assert_returned(other);
    sluice_pool_free(other);
}

static void acknowledgements(void **state) {
    static bytes b;
    reading r;
    uint32_t sequence = 7;
    b.size = 0;
    add_header(&b, 0, 2, 0, 4, 5, 0);
    add_be(&b, 4, 200); /* 16 bytes so far */
    begin(&r, *state, NULL);
    assert_false(sluice_rtmp_must_acknowledge(r.rtmp, &sequence));
    feed(r.chain, *state, b.at, b.size, 0);
    read_on(&r);
    assert_false(sluice_rtmp_must_acknowledge(r.rtmp, &sequence));
    b.size = 0;
    add_header(&b, 0, 6, 0, 72, 9, 0); /* 84 more: 100 */
    add_filled(&b, 72);
    feed(r.chain, *state, b.at, b.size - 1, 0);
    read_on(&r);
    assert_false(sluice_rtmp_must_acknowledge(r.rtmp, &sequence));
    feed(r.chain, *state, b.at + b.size - 1, 1, 0);
    read_on(&r);
    assert_true(sluice_rtmp_must_acknowledge(r.rtmp, &sequence));
    assert_int_equal(sequence, 100);
    assert_false(sluice_rtmp_must_acknowledge(r.rtmp, &sequence));
    free(end(&r));
}

/* Half of the largest window has not come, half of the smallest with each byte. */
static void windows_of_any_size(void **state) {
    static const uint32_t windows[] = {UINT32_MAX, UINT32_MAX - 1, 1U << 31, 1};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        static bytes b;
        reading r;
        uint32_t sequence = 7;
        bool is_due = windows[i] == 1;
        b.size = 0;
        add_header(&b, 0, 2, 0, 4, 5, 0);
        add_be(&b, 4, windows[i]);
        begin(&r, *state, NULL);
        for (uint32_t messages = 1; messages < 4; messages++) {
            feed(r.chain, *state, b.at, b.size, 0);
            read_on(&r);
            assert_int_equal(sluice_rtmp_must_acknowledge(r.rtmp, &sequence), is_due);
            assert_int_equal(sequence, is_due ? messages * b.size : 7);
            assert_false(sluice_rtmp_must_acknowledge(r.rtmp, &sequence));
        }
        free(end(&r));
    }
}

/* ---- Random input ---- */

/* What a lively sender writes: any form of header that can stand there, and some that cannot. */
static void add_random(bytes *b, uint64_t *seed, uint32_t *chunk) {
    uint32_t id = random_below(seed, 8) ? 3 + random_below(seed, 3) : 60 + random_below(seed, 300);
    uint32_t format = random_below(seed, 10) < 6 ? 3 : random_below(seed, 3);
    uint32_t time = random_below(seed, 5) ? random_below(seed, 2000) : 0xFFFFF0 + random_below(seed, 32);
    uint32_t size = random_below(seed, 4) ? random_below(seed, 40) : random_below(seed, 400);
    if (random_below(seed, 12) == 0) {
        add_header(b, 0, 2, 0, 4, 1 + (uint8_t)random_below(seed, 2), 0);
        *chunk = 1 + random_below(seed, 200);
        add_be(b, 4, random_below(seed, 3) ? *chunk : id);
        return;
    }
    add_header(b, format, id, time, size, (uint8_t)(7 + random_below(seed, 4)), 1);
    if (format == 3 && random_below(seed, 8) == 0)
        add_be(b, 4, 0x1000000);
    add_filled(b, random_below(seed, 6) ? (size < *chunk ? size : *chunk) : random_below(seed, 300));
}

static void random_input_is_read_as_a_naive_framer_does(void **state) {
    static bytes b;
    static const size_t pieces[] = {1, 7, 100, 1000, MOST_BYTES};
    uint64_t seed = 0x5EED;
    size_t messages = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t chunk = 128, parts = 1 + random_below(&seed, 60);
        b.size = 0;
        for (uint32_t i = 0; i < 5; i++) { /* so that later ones may leave things out */
            add_header(&b, 0, 2 + i, 10, 3, 8, 1);
            add_filled(&b, 3);
        }
        for (uint32_t i = 0; i < parts; i++)
            add_random(&b, &seed, &chunk);
        for (uint32_t damage = random_below(&seed, 3); damage > 1; damage--)
            b.at[random_below(&seed, (uint32_t)b.size)] = (uint8_t)random_below(&seed, 256);
        char *naively = read_naively(b.at, b.size, SLUICE_RTMP_DEFAULT_MESSAGE);
        const sluice_rtmp_limits limits = {.size = sizeof limits,
                                           .chunk_streams = SLUICE_RTMP_MAX_STREAMS,
                                           .gathered = UINT32_MAX,
                                           .copy_below = random_below(&seed, 2) ? 1 : 0,
                                           .work = 1 + random_below(&seed, 20)};
        char *text = read_in_pieces(*state, &b, pieces[random_below(&seed, 5)], &limits);
        assert_string_equal(text, naively);
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            messages++;
        free(text);
        free(naively);
    }
    assert_true(messages > 5 * ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_form_of_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_are_cut_and_interleaved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_is_aborted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_dialect_of_extended_timestamps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_are_exact, set_up, tear_down),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test_setup_teardown(work_of_a_call_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_small_pieces_are_copied, set_up, tear_down),
        cmocka_unit_test(views_that_run_out_are_no_error),
        cmocka_unit_test_setup_teardown(what_is_held_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_moves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acknowledgements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(windows_of_any_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_input_is_read_as_a_naive_framer_does, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
