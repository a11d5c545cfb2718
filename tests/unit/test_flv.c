/* The FLV framer: what it makes of a stream, however the stream is cut into blocks. */
#include <sluice/flv.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

#include "support/feed.h"
#include "support/flv_rig.h"

/* Fixed seeds: a failure comes again. */
static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 16) % limit);
}

/* ---- Making streams ---- */

/* A tag whose payload begins with the @start bytes and is filled up to @size with bytes that
 * differ. */
static void add_filled(struct vector *vector, uint8_t type, uint32_t timestamp, const void *start, uint32_t length,
                       uint32_t size) {
    uint8_t payload[MAX_BYTES];
    if (length > size || size > sizeof payload)
        fail_msg("a payload of %u bytes cannot be made", size);
    memcpy(payload, start, length);
    for (uint32_t i = length; i < size; i++)
        payload[i] = (uint8_t)(i * 7 + vector->size);
    add_tag(vector, type, timestamp, payload, size);
}

static const uint8_t avc_config[] = {0x17, 0, 0, 0, 0, 1, 0x64, 0, 0x1F, 0xFF, 0xE1, 0, 2, 0x67, 0x64, 1, 0, 1, 0x68};

/* composition time -40 */
static const uint8_t avc_inter[] = {0x27, 1, 0xFF, 0xFF, 0xD8, 0, 0, 0, 9, 0x41};
static const uint8_t aac_config[] = {0xAF, 0, 0x12, 0x10};

static const uint8_t hevc_key[] = {0x91, 'h', 'v', 'c', '1', 0, 0, 40, 0, 0, 0, 5};
static const uint8_t opus_frame[] = {0x91, 'O', 'p', 'u', 's', 0xFC};
static const uint8_t script[] = {2, 0, 10, 'o', 'n', 'M', 'e', 't', 'a', 'D', 'a', 't', 'a', 8, 0, 0, 0, 0, 0, 0, 9};

/* One of everything; the sizes of the payloads grow with @scale. */
static void make_stream(struct vector *vector, uint32_t scale) {
    vector->size = 0;
    add_header(vector, SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    add_tag(vector, SLUICE_FLV_SCRIPT, 0, script, sizeof script);
    add_tag(vector, SLUICE_FLV_VIDEO, 0, avc_config, sizeof avc_config);
    add_tag(vector, SLUICE_FLV_AUDIO, 0, aac_config, sizeof aac_config);
    add_filled(vector, SLUICE_FLV_VIDEO, 40, avc_key, sizeof avc_key, sizeof avc_key + 10 * scale);
    add_filled(vector, SLUICE_FLV_AUDIO, 43, aac_frame, sizeof aac_frame, sizeof aac_frame + 3 * scale);
    add_tag(vector, SLUICE_FLV_AUDIO, 44, "", 0);
    add_tag(vector, SLUICE_FLV_AUDIO, 45, "\x2E", 1);
    add_filled(vector, TYPE_UNKNOWN, 46, "?", 1, 1 + 2 * scale);
    add_filled(vector, SLUICE_FLV_VIDEO, 0xFFFFFF, avc_inter, sizeof avc_inter, sizeof avc_inter + 5 * scale);
    add_filled(vector, SLUICE_FLV_AUDIO, 0x1000000, aac_frame, sizeof aac_frame, sizeof aac_frame + scale);
    memset(vector->bytes + vector->size - SLUICE_FLV_TRAILER_SIZE, 0xEE, SLUICE_FLV_TRAILER_SIZE);
    add_filled(vector, SLUICE_FLV_VIDEO, 0x89ABCDEF, hevc_key, sizeof hevc_key, sizeof hevc_key + 6 * scale);
    add_tag(vector, SLUICE_FLV_SCRIPT, 0, "", 0);
    add_filled(vector, SLUICE_FLV_AUDIO, 0xFFFFFFFF, opus_frame, sizeof opus_frame, sizeof opus_frame + scale);
}

/* Fewer tags, where the runs are by the million. */
static void make_short_stream(struct vector *vector, uint32_t scale) {
    vector->size = 0;
    add_header(vector, SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    add_tag(vector, SLUICE_FLV_VIDEO, 0, avc_config, sizeof avc_config);
    add_filled(vector, SLUICE_FLV_VIDEO, 0x1000000, hevc_key, sizeof hevc_key, sizeof hevc_key + 20 * scale);
    add_filled(vector, TYPE_UNKNOWN, 46, "?", 1, 1 + 2 * scale);
    add_tag(vector, SLUICE_FLV_VIDEO, 0, "", 0);
    add_filled(vector, SLUICE_FLV_AUDIO, 0xFFFFFFFF, aac_frame, sizeof aac_frame, sizeof aac_frame + 5 * scale);
    memset(vector->bytes + vector->size - SLUICE_FLV_TRAILER_SIZE, 0xEE, SLUICE_FLV_TRAILER_SIZE);
}

/* Fills the stream up to exactly @size bytes with a last tag. */
static void fill_up(struct vector *vector, uint32_t size) {
    uint32_t left = size - (uint32_t)vector->size - TAG_OVERHEAD;
    add_filled(vector, SLUICE_FLV_VIDEO, 1, avc_inter, sizeof avc_inter, left);
    assert_int_equal(vector->size, size);
}

/* ---- Whole streams ---- */

static void test_stream(void **state) {
    const struct expected {
        sluice_flv_type type;
        uint32_t timestamp, size;
        bool trailer_ok;
        sluice_flv_packet packet;
        bool key_frame;
        uint32_t codec;
        int32_t composition_time;
    } expected[] = {
        {SLUICE_FLV_SCRIPT, 0, sizeof script, true, SLUICE_FLV_METADATA, false, 0, 0},
        {SLUICE_FLV_VIDEO, 0, sizeof avc_config, true, SLUICE_FLV_SEQUENCE_HEADER, false, SLUICE_CODEC_H264, 0},
        {SLUICE_FLV_AUDIO, 0, sizeof aac_config, true, SLUICE_FLV_SEQUENCE_HEADER, false, SLUICE_CODEC_AAC, 0},
        {SLUICE_FLV_VIDEO, 40, sizeof avc_key + 100, true, SLUICE_FLV_FRAME, true, SLUICE_CODEC_H264, 80},
        {SLUICE_FLV_AUDIO, 43, sizeof aac_frame + 30, true, SLUICE_FLV_FRAME, false, SLUICE_CODEC_AAC, 0},
        {SLUICE_FLV_AUDIO, 45, 1, true, SLUICE_FLV_FRAME, false, SLUICE_CODEC_MP3, 0},
        {SLUICE_FLV_VIDEO, 0xFFFFFF, sizeof avc_inter + 50, true, SLUICE_FLV_FRAME, false, SLUICE_CODEC_H264, -40},
        {SLUICE_FLV_AUDIO, 0x1000000, sizeof aac_frame + 10, false, SLUICE_FLV_FRAME, false, SLUICE_CODEC_AAC, 0},
        {SLUICE_FLV_VIDEO, 0x89ABCDEF, sizeof hevc_key + 60, true, SLUICE_FLV_FRAME, true, SLUICE_CODEC_HEVC, 40},
        {SLUICE_FLV_AUDIO, 0xFFFFFFFF, sizeof opus_frame + 10, true, SLUICE_FLV_FRAME, false, SLUICE_CODEC_OPUS, 0},
    };
    struct vector vector;
    struct outcome outcome;
    make_stream(&vector, 10);
    read_whole(*state, &vector, &outcome);

    assert_int_equal(outcome.count, sizeof expected / sizeof *expected);
    assert_int_equal(outcome.result, 0);
    assert_int_equal(outcome.consumed, vector.size);
    assert_int_equal(outcome.flags, SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    for (size_t i = 0; i < outcome.count; i++) {
        const struct event *event = &outcome.events[i];
        assert_int_equal(event->type, expected[i].type);
        assert_int_equal(event->timestamp, expected[i].timestamp);
        assert_int_equal(event->size, expected[i].size);
        assert_int_equal(event->trailer_ok, expected[i].trailer_ok);
        assert_int_equal(event->view.packet, expected[i].packet);
        assert_int_equal(event->view.key_frame, expected[i].key_frame);
        assert_int_equal(event->view.codec, expected[i].codec);
        assert_int_equal(event->view.composition_time, expected[i].composition_time);
    }
}

/* ---- Cuts: the same comes out wherever the blocks end, and nothing behind them is touched ---- */

static void run_pieces(sluice_pool *pool, feed_guarded *guarded, const struct vector *vector,
                       const struct outcome *expected, size_t piece, enum keeping keeping) {
    struct run run;
    begin(&run, pool, vector->bytes, expected);
    run.keeping = keeping;
    for (size_t from = 0; from < vector->size; from += piece) {
        feed_guarded_range(guarded, &run.chain, from, from + piece < vector->size ? from + piece : vector->size);
        drain(&run);
    }
    finish(&run);
}

static void test_pieces_of_each_size(void **state) {
    struct vector vector;
    struct outcome expected;
    make_stream(&vector, 40);
    fill_up(&vector, 2048);
    read_whole(*state, &vector, &expected);
    feed_guarded *guarded = feed_guarded_new(vector.bytes, vector.size);
    for (size_t piece = 1; piece <= vector.size; piece++)
        run_pieces(*state, guarded, &vector, &expected, piece, (enum keeping)(piece % 3));
    feed_guarded_free(guarded);
}

static void run_cuts(sluice_pool *pool, feed_guarded *guarded, const struct vector *vector,
                     const struct outcome *expected, size_t first, size_t second, enum keeping keeping) {
    struct run run;
    begin(&run, pool, vector->bytes, expected);
    run.keeping = keeping;
    feed_guarded_range(guarded, &run.chain, 0, first);
    drain(&run);
    feed_guarded_range(guarded, &run.chain, first, second);
    drain(&run);
    feed_guarded_range(guarded, &run.chain, second, vector->size);
    drain(&run);
    finish(&run);
}

/* Every cut of 2 KiB, with all that is kept released in both orders. */
static void test_each_cut(void **state) {
    struct vector vector;
    struct outcome expected;
    make_stream(&vector, 40);
    fill_up(&vector, 2048);
    read_whole(*state, &vector, &expected);
    feed_guarded *guarded = feed_guarded_new(vector.bytes, vector.size);
    for (size_t cut = 0; cut < vector.size; cut++)
        for (int keeping = KEEP_NONE; keeping <= KEEP_BACKWARDS; keeping++)
            run_cuts(*state, guarded, &vector, &expected, cut, cut, (enum keeping)keeping);
    feed_guarded_free(guarded);
}

static void run_all_pairs(sluice_pool *pool, const struct vector *vector, enum keeping keeping) {
    struct outcome expected;
    read_whole(pool, vector, &expected);
    feed_guarded *guarded = feed_guarded_new(vector->bytes, vector->size);
    for (size_t first = 1; first < vector->size; first += feed_cuts_apart())
        for (size_t second = first; second < vector->size; second++)
            run_cuts(pool, guarded, vector, &expected, first, second, keeping);
    feed_guarded_free(guarded);
}

static void test_each_pair_of_cuts_kept_forwards(void **state) {
    struct vector vector;
    make_stream(&vector, 1);
    run_all_pairs(*state, &vector, KEEP_FORWARDS);
}

static void test_each_pair_of_cuts_kept_backwards(void **state) {
    struct vector vector;
    make_stream(&vector, 3);
    fill_up(&vector, 600);
    run_all_pairs(*state, &vector, KEEP_BACKWARDS);
}

static void test_each_pair_of_cuts(void **state) {
    struct vector vector;
    make_short_stream(&vector, 40);
    fill_up(&vector, 2048);
    run_all_pairs(*state, &vector, KEEP_NONE);
}

static void test_random_cuts(void **state) {
    uint64_t seed = 0x5EEDF1F0;
    struct vector vector;
    struct outcome expected;
    make_stream(&vector, 40);
    fill_up(&vector, 2048);
    read_whole(*state, &vector, &expected);
    feed_guarded *guarded = feed_guarded_new(vector.bytes, vector.size);
    for (int round = 0; round < 2000; round++) {
        struct run run;
        uint32_t longest = 1 + random_below(&seed, 300);
        begin(&run, *state, vector.bytes, &expected);
        run.keeping = (enum keeping)random_below(&seed, 3);
        for (size_t from = 0; from < vector.size;) {
            size_t to = from + 1 + random_below(&seed, longest);
            if (to > vector.size)
                to = vector.size;
            feed_guarded_range(guarded, &run.chain, from, to);
            from = to;
            /* Arrivals need not be looked at one by one. */
            if (random_below(&seed, 3) > 0 || from == vector.size)
                drain(&run);
        }
        finish(&run);
    }
    feed_guarded_free(guarded);
}

/* Broken streams give the same tags and the same error however they are cut. */
static void test_random_damage(void **state) {
    uint64_t seed = 0xBADBADF1;
    struct vector vector;
    size_t failed = 0;
    for (int round = 0; round < 20000; round++) {
        struct outcome expected;
        struct run run;
        make_stream(&vector, 1);
        for (uint32_t damage = 1 + random_below(&seed, 4); damage > 0; damage--)
            vector.bytes[random_below(&seed, (uint32_t)vector.size)] = (uint8_t)random_below(&seed, 256);
        read_whole(*state, &vector, &expected);
        failed += expected.result < 0;

        begin(&run, *state, vector.bytes, &expected);
        for (size_t from = 0; from < vector.size;) {
            size_t here = 1 + random_below(&seed, 60);
            if (here > vector.size - from)
                here = vector.size - from;
            feed(&run.chain, *state, vector.bytes + from, here, 1 + random_below(&seed, 60));
            from += here;
            drain(&run);
        }
        finish(&run);
    }
    assert_in_range(failed, 1000, 19000);
}

/* ---- need ---- */

/* Below the need nothing happens, and at it something does. */
static void test_need_is_exact(void **state) {
    struct vector vector;
    struct outcome expected;
    struct run run;
    make_stream(&vector, 10);
    read_whole(*state, &vector, &expected);
    feed_guarded *guarded = feed_guarded_new(vector.bytes, vector.size);
    begin(&run, *state, vector.bytes, &expected);
    size_t fed = 0;
    assert_int_equal(sluice_flv_need(run.flv), 1);
    while (fed < vector.size) {
        size_t need = sluice_flv_need(run.flv);
        size_t have = sluice_chain_length(&run.chain);
        uint64_t consumed = sluice_chain_consumed(&run.chain);
        size_t tags = run.got.count;
        assert_true(need > have);
        feed_guarded_range(guarded, &run.chain, fed, fed + need - 1 - have);
        fed += need - 1 - have;
        drain(&run);
        assert_int_equal(run.got.count, tags);
        assert_int_equal(sluice_flv_need(run.flv), need);
        assert_int_equal(sluice_chain_length(&run.chain), need - 1);
        assert_int_equal(sluice_chain_consumed(&run.chain), consumed);

        feed_guarded_range(guarded, &run.chain, fed, fed + 1);
        fed++;
        drain(&run);
        assert_true(run.got.count > tags || sluice_flv_need(run.flv) > need ||
                    sluice_chain_consumed(&run.chain) > consumed);
    }
    finish(&run);
    feed_guarded_free(guarded);
}

/* The steps by which a first tag comes, in numbers. */
static void test_need_in_numbers(void **state) {
    struct vector vector = {.size = 0};
    struct run run;
    add_header(&vector, 0);
    add_filled(&vector, SLUICE_FLV_VIDEO, 0, avc_key, sizeof avc_key, 300);
    const size_t needs[][2] = {
        {0, 1},
        {1, 2},
        {2, 3},
        {3, 4},
        {4, 9},
        {8, 9},
        {9, 13},
        {12, 13},
        {13, 11},
        {23, 11},
        {24, 11 + 300 + 4},
        {13 + 11 + 300 + 3, 11 + 300 + 4},
        {13 + 11 + 300 + 4, 11},
    };
    size_t fed = 0;
    begin(&run, *state, vector.bytes, NULL);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        feed(&run.chain, *state, vector.bytes + fed, needs[i][0] - fed, 0);
        fed = needs[i][0];
        drain(&run);
        assert_int_equal(sluice_flv_need(run.flv), needs[i][1]);
        assert_int_equal(sluice_chain_consumed(&run.chain), fed < 13 ? 0 : fed < vector.size ? 13 : fed);
    }
    assert_int_equal(run.got.count, 1);
    finish(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_stream),
        TEST(test_pieces_of_each_size),
        TEST(test_each_cut),
        TEST(test_each_pair_of_cuts_kept_forwards),
        TEST(test_each_pair_of_cuts_kept_backwards),
        TEST(test_each_pair_of_cuts),
        TEST(test_random_cuts),
        TEST(test_random_damage),
        TEST(test_need_is_exact),
        TEST(test_need_in_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
