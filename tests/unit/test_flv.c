/* The FLV framer: what it makes of a stream, however the stream is cut into blocks. */
#include <sluice/flv.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/feed.h"

enum {
    MAX_TAGS = 64,
    MAX_BYTES = 4096,
    TAG_OVERHEAD = SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE,
    TYPE_UNKNOWN = 15,
};

/* A stream made by hand. */
struct vector {
    uint8_t bytes[MAX_BYTES];
    size_t size;
};

/* A tag that came out. */
struct event {
    sluice_flv_type type;
    uint32_t timestamp;
    uint32_t size;
    bool trailer_ok;
    sluice_flv_view view;
    uint64_t at; /* of the payload in the stream */
};

/* All that came out. */
struct outcome {
    struct event events[MAX_TAGS];
    size_t count;
    int result; /* of the last next() */
    uint64_t consumed;
    uint8_t flags;
};

static int set_up(void **state) {
    sluice_pool *pool = NULL;
    assert_int_equal(
        sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true}, &pool), 0);
    *state = pool;
    return 0;
}

static int tear_down(void **state) {
    sluice_pool *pool = *state;
    sluice_pool_stats stats = {.size = sizeof stats};
    feed_assert_returned(pool);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    sluice_pool_free(pool);
    return 0;
}

/* Fixed seeds: a failure comes again. */
static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 16) % limit);
}

/* ---- Making streams ---- */

static void add_bytes(struct vector *vector, const void *bytes, size_t size) {
    if (size > sizeof vector->bytes - vector->size)
        fail_msg("the vector is too long");
    memcpy(vector->bytes + vector->size, bytes, size);
    vector->size += size;
}

static void add_header(struct vector *vector, uint8_t flags) {
    const uint8_t header[] = {'F', 'L', 'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0};
    add_bytes(vector, header, sizeof header);
}

static void add_tag_header(struct vector *vector, uint8_t type, uint32_t timestamp, uint32_t size) {
    const uint8_t header[] = {
        type,
        (uint8_t)(size >> 16),
        (uint8_t)(size >> 8),
        (uint8_t)size,
        (uint8_t)(timestamp >> 16),
        (uint8_t)(timestamp >> 8),
        (uint8_t)timestamp,
        (uint8_t)(timestamp >> 24),
        0,
        0,
        0,
    };
    add_bytes(vector, header, sizeof header);
}

static void add_trailer(struct vector *vector, uint32_t value) {
    const uint8_t trailer[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    add_bytes(vector, trailer, sizeof trailer);
}

static void add_tag(struct vector *vector, uint8_t type, uint32_t timestamp, const void *payload, uint32_t size) {
    add_tag_header(vector, type, timestamp, size);
    add_bytes(vector, payload, size);
    add_trailer(vector, SLUICE_FLV_TAG_HEADER_SIZE + size);
}

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
static const uint8_t avc_key[] = {0x17, 1, 0, 0, 80, 0, 0, 0, 9, 0x65};
/* composition time -40 */
static const uint8_t avc_inter[] = {0x27, 1, 0xFF, 0xFF, 0xD8, 0, 0, 0, 9, 0x41};
static const uint8_t aac_config[] = {0xAF, 0, 0x12, 0x10};
static const uint8_t aac_frame[] = {0xAF, 1, 0x21, 0x10};
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

/* ---- Reading streams ---- */

enum keeping { KEEP_NONE, KEEP_FORWARDS, KEEP_BACKWARDS };

/* A stream under way. */
struct run {
    sluice_flv *flv;
    sluice_chain chain;
    const uint8_t *bytes;           /* of the whole stream */
    const struct outcome *expected; /* to compare with, or NULL to record */
    struct outcome got;
    enum keeping keeping;
    sluice_slice kept[MAX_TAGS];
};

static void begin(struct run *run, sluice_pool *pool, const uint8_t *bytes, const struct outcome *expected) {
    run->bytes = bytes;
    run->expected = expected;
    run->got.count = 0;
    run->got.result = 0;
    run->keeping = KEEP_NONE;
    chain_init(&run->chain, pool);
    if (sluice_flv_new(0, &run->flv) != 0)
        fail_msg("no framer");
}

static bool same_view(const sluice_flv_view *a, const sluice_flv_view *b) {
    return a->codec == b->codec && a->packet == b->packet && a->key_frame == b->key_frame &&
           a->enhanced == b->enhanced && a->multitrack == b->multitrack && a->many_tracks == b->many_tracks &&
           a->track == b->track && a->frame_type == b->frame_type && a->audio_format == b->audio_format &&
           a->channels == b->channels && a->sample_rate == b->sample_rate &&
           a->composition_time == b->composition_time && a->header_size == b->header_size;
}

static bool same_event(const struct event *a, const struct event *b) {
    return a->type == b->type && a->timestamp == b->timestamp && a->size == b->size && a->trailer_ok == b->trailer_ok &&
           a->at == b->at && same_view(&a->view, &b->view);
}

/* The slice holds exactly these bytes. */
static bool slice_is(const sluice_slice *slice, const uint8_t *bytes, size_t size) {
    struct iovec pieces[8];
    size_t done = 0;
    if (sluice_slice_length(slice) != size)
        return false;
    while (done < size) {
        size_t count = sluice_slice_iov(slice, done, pieces, 8);
        for (size_t i = 0; i < count && i < 8; i++) {
            if (pieces[i].iov_len > size - done || memcmp(pieces[i].iov_base, bytes + done, pieces[i].iov_len) != 0)
                return false;
            done += pieces[i].iov_len;
        }
        if (count == 0)
            return false;
    }
    return true;
}

static void take_event(struct run *run, sluice_flv_tag *tag) {
    size_t index = run->got.count++;
    struct event event = {
        .type = tag->type,
        .timestamp = tag->timestamp,
        .size = tag->size,
        .trailer_ok = tag->trailer_ok,
        .view = tag->view,
        .at = sluice_chain_consumed(&run->chain) - SLUICE_FLV_TRAILER_SIZE - tag->size,
    };
    if (index >= MAX_TAGS || (run->expected && index >= run->expected->count))
        fail_msg("too many tags");
    if (!slice_is(&tag->payload, run->bytes + event.at, tag->size))
        fail_msg("tag %zu has another payload", index);
    if (!run->expected)
        run->got.events[index] = event;
    else if (!same_event(&event, &run->expected->events[index]))
        fail_msg("tag %zu is another one", index);
    if (run->keeping != KEEP_NONE && sluice_slice_take(&tag->payload, &run->kept[index]) != 0)
        fail_msg("tag %zu cannot be kept", index);
}

/* Takes all tags that there are. */
static void drain(struct run *run) {
    sluice_flv_tag *tag;
    while ((run->got.result = sluice_flv_next(run->flv, &run->chain, &tag)) == 1)
        take_event(run, tag);
    if (sluice_flv_need(run->flv) <= sluice_chain_length(&run->chain))
        fail_msg("no tag, and nothing needed");
}

/* What is kept holds its bytes though all else is gone, and may go in any order. */
static void release_kept(struct run *run) {
    const struct outcome *known = run->expected ? run->expected : &run->got;
    for (size_t i = 0; i < run->got.count; i++) {
        size_t index = run->keeping == KEEP_FORWARDS ? i : run->got.count - 1 - i;
        const struct event *event = &known->events[index];
        if (!slice_is(&run->kept[index], run->bytes + event->at, event->size))
            fail_msg("kept tag %zu has changed", index);
        sluice_slice_release(&run->kept[index]);
    }
}

static void finish(struct run *run) {
    run->got.consumed = sluice_chain_consumed(&run->chain);
    run->got.flags = sluice_flv_flags(run->flv);
    if (run->expected) {
        if (run->got.count != run->expected->count || run->got.result != run->expected->result)
            fail_msg("%zu tags instead of %zu, result %d instead of %d", run->got.count, run->expected->count,
                     run->got.result, run->expected->result);
        if (run->got.consumed != run->expected->consumed || run->got.flags != run->expected->flags)
            fail_msg("another end");
    }
    if (!chain_is_sound(&run->chain))
        fail_msg("the chain is broken");
    chain_clear(&run->chain);
    sluice_flv_free(run->flv);
    if (run->keeping != KEEP_NONE)
        release_kept(run);
}

/* What the stream gives in one piece. */
static void read_whole(sluice_pool *pool, const struct vector *vector, struct outcome *ret_outcome) {
    struct run run;
    begin(&run, pool, vector->bytes, NULL);
    feed(&run.chain, pool, vector->bytes, vector->size, 0);
    drain(&run);
    finish(&run);
    *ret_outcome = run.got;
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

/* ---- The file header ---- */

/* Fed byte by byte, the stream fails at its last byte, and stays failed. Nothing is consumed. */
static void assert_fails_at_end(sluice_pool *pool, const struct vector *vector, size_t consumed, int error) {
    sluice_flv_tag untouched, *tag = &untouched;
    struct run run;
    begin(&run, pool, vector->bytes, NULL);
    for (size_t i = 0; i < vector->size; i++) {
        assert_int_equal(sluice_flv_next(run.flv, &run.chain, &tag), 0);
        feed(&run.chain, pool, vector->bytes + i, 1, 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sluice_flv_next(run.flv, &run.chain, &tag), error);
        assert_int_equal(sluice_chain_consumed(&run.chain), consumed);
        assert_true(sluice_flv_need(run.flv) >= 1);
        feed(&run.chain, pool, "FLV\1", 4, 0);
    }
    chain_clear(&run.chain);
    assert_int_equal(sluice_flv_next(run.flv, &run.chain, &tag), error);
    assert_ptr_equal(tag, &untouched);
    finish(&run);
}

static void test_wrong_signature(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
        int error;
    } cases[] = {
        {"f", 1, -EPROTO},
        {"G", 1, -EPROTO},
        {"\0", 1, -EPROTO},
        {"Fl", 2, -EPROTO},
        {"FL\0", 3, -EPROTO},
        {"FL!", 3, -EPROTO},
        {"FLV\0", 4, -EPROTONOSUPPORT},
        {"FLV\2", 4, -EPROTONOSUPPORT},
        {"FLV\xFF", 4, -EPROTONOSUPPORT},
        {"FLV\1\5\0\0\0\x08", 9, -EPROTO},
        {"FLV\1\5\0\0\0\0", 9, -EPROTO},
        {"FLV\1\5\0\1\0\1", 9, -EPROTO},
        {"FLV\1\5\xFF\xFF\xFF\xFF", 9, -EPROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vector vector = {.size = 0};
        add_bytes(&vector, cases[i].bytes, cases[i].size);
        assert_fails_at_end(*state, &vector, 0, cases[i].error);
    }
}

/* A header that is longer than ours is skipped whole; the first PreviousTagSize may be anything. */
static void test_data_offset(void **state) {
    static const uint32_t offsets[] = {9, 10, 13, 100, 511, 512, 4096, 65535, 65536};
    static uint8_t filling[65536 + 4];
    memset(filling, 0xA5, sizeof filling);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        uint32_t offset = offsets[i];
        const uint8_t start[] = {
            'F', 'L', 'V', 1, 0xFF, 0, (uint8_t)(offset >> 16), (uint8_t)(offset >> 8), (uint8_t)offset};
        struct vector tag = {.size = 0};
        sluice_flv_tag *ret_tag;
        struct run run;
        add_tag(&tag, SLUICE_FLV_AUDIO, 5, aac_frame, sizeof aac_frame);
        begin(&run, *state, tag.bytes, NULL);
        feed(&run.chain, *state, start, sizeof start, 0);
        assert_int_equal(sluice_flv_next(run.flv, &run.chain, &ret_tag), 0);
        assert_int_equal(sluice_flv_need(run.flv), offset + 4);
        assert_int_equal(sluice_flv_flags(run.flv), 0);
        feed(&run.chain, *state, filling, offset + 4 - sizeof start, 0);
        assert_int_equal(sluice_flv_next(run.flv, &run.chain, &ret_tag), 0);
        assert_int_equal(sluice_flv_flags(run.flv), 0xFF);
        assert_int_equal(sluice_chain_length(&run.chain), 0);
        feed(&run.chain, *state, tag.bytes, tag.size, 0);
        assert_int_equal(sluice_flv_next(run.flv, &run.chain, &ret_tag), 1);
        assert_int_equal(ret_tag->timestamp, 5);
        finish(&run);
    }
}

/* ---- Tags ---- */

/* Text behind a good start, or another stream, must not pass for tags of unknown types that are
 * skipped. */
static void test_reserved_bits(void **state) {
    static const uint8_t types[] = {0x40 | SLUICE_FLV_AUDIO, 0x80 | SLUICE_FLV_VIDEO, 'A', 'F', 0xFF, 0xE9};
    for (size_t i = 0; i < sizeof types; i++) {
        struct vector vector = {.size = 0};
        add_header(&vector, 0);
        add_tag_header(&vector, types[i], 0, 100);
        assert_fails_at_end(*state, &vector, SLUICE_FLV_HEADER_SIZE, -EPROTO);
    }
}

/* The stream id means nothing. */
static void test_liberal_header(void **state) {
    struct vector vector = {.size = 0};
    struct outcome outcome;
    add_header(&vector, 0);
    add_tag(&vector, SLUICE_FLV_AUDIO, 7, aac_frame, sizeof aac_frame);
    size_t at = vector.size;
    add_tag(&vector, SLUICE_FLV_VIDEO, 8, avc_key, sizeof avc_key);
    memset(vector.bytes + at + 8, 0xFF, 3);
    read_whole(*state, &vector, &outcome);
    assert_int_equal(outcome.count, 2);
    assert_int_equal(outcome.events[0].type, SLUICE_FLV_AUDIO);
    assert_int_equal(outcome.events[1].type, SLUICE_FLV_VIDEO);
    assert_int_equal(outcome.events[1].timestamp, 8);
}

static void test_encrypted(void **state) {
    static const uint8_t types[] = {0x20 | SLUICE_FLV_AUDIO, 0x20 | SLUICE_FLV_VIDEO, 0x20 | SLUICE_FLV_SCRIPT};
    for (size_t i = 0; i < sizeof types; i++) {
        struct vector vector = {.size = 0};
        add_header(&vector, 0);
        add_tag_header(&vector, types[i], 0, 100);
        assert_fails_at_end(*state, &vector, SLUICE_FLV_HEADER_SIZE, -EACCES);
    }
}

static void test_trailers(void **state) {
    static const struct {
        uint32_t trailer;
        bool ok;
    } cases[] = {
        {11 + 4, true},  {0, false},          {4, false},         {10 + 4, false},
        {12 + 4, false}, {0xFFFFFFFF, false}, {15u << 24, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vector vector = {.size = 0};
        struct outcome outcome;
        add_header(&vector, 0);
        add_tag_header(&vector, SLUICE_FLV_AUDIO, 0, sizeof aac_frame);
        add_bytes(&vector, aac_frame, sizeof aac_frame);
        add_trailer(&vector, cases[i].trailer);
        add_tag(&vector, SLUICE_FLV_AUDIO, 1, aac_frame, sizeof aac_frame);
        read_whole(*state, &vector, &outcome);
        assert_int_equal(outcome.count, 2);
        assert_int_equal(outcome.events[0].trailer_ok, cases[i].ok);
        assert_true(outcome.events[1].trailer_ok);
    }
}

/* Feeds a tag of @size payload bytes without ever holding them all in memory of the test. */
static int read_sized(sluice_pool *pool, sluice_flv *flv, sluice_chain *chain, uint8_t type, uint32_t size,
                      size_t *ret_most, sluice_flv_tag **ret_tag) {
    static const uint8_t filling[4096];
    struct vector vector = {.size = 0};
    add_tag_header(&vector, type, 0, size);
    feed(chain, pool, vector.bytes, vector.size, 0);
    int result = sluice_flv_next(flv, chain, ret_tag);
    *ret_most = sluice_chain_length(chain);
    for (size_t left = (size_t)size + SLUICE_FLV_TRAILER_SIZE; result == 0 && left > 0;) {
        size_t here = left < sizeof filling ? left : sizeof filling;
        feed(chain, pool, filling, here, 0);
        left -= here;
        result = sluice_flv_next(flv, chain, ret_tag);
        if (sluice_chain_length(chain) > *ret_most)
            *ret_most = sluice_chain_length(chain);
    }
    return result;
}

static void begin_tags(sluice_pool *pool, uint32_t limit, sluice_flv **ret_flv, sluice_chain *ret_chain) {
    struct vector vector = {.size = 0};
    sluice_flv_tag *tag;
    chain_init(ret_chain, pool);
    assert_int_equal(sluice_flv_new(limit, ret_flv), 0);
    add_header(&vector, 0);
    feed(ret_chain, pool, vector.bytes, vector.size, 0);
    assert_int_equal(sluice_flv_next(*ret_flv, ret_chain, &tag), 0);
}

static void test_sizes_around_limit(void **state) {
    static const uint8_t types[] = {SLUICE_FLV_AUDIO, SLUICE_FLV_VIDEO, SLUICE_FLV_SCRIPT};
    static const struct {
        uint32_t limit, size;
        int result;
    } cases[] = {
        {1, 1, 1},
        {1, 2, -EMSGSIZE},
        {1000, 999, 1},
        {1000, 1000, 1},
        {1000, 1001, -EMSGSIZE},
        {1000, 0xFFFFFF, -EMSGSIZE},
        {0, SLUICE_FLV_DEFAULT_LIMIT, 1},
        {0, SLUICE_FLV_DEFAULT_LIMIT + 1, -EMSGSIZE},
        {0, 0xFFFFFF, -EMSGSIZE},
        {SLUICE_FLV_MAX_PAYLOAD, 0xFFFFFF, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t j = 0; j < sizeof types; j++) {
            sluice_flv *flv = NULL;
            sluice_chain chain;
            sluice_flv_tag *tag;
            size_t most;
            begin_tags(*state, cases[i].limit, &flv, &chain);
            assert_int_equal(read_sized(*state, flv, &chain, types[j], cases[i].size, &most, &tag), cases[i].result);
            if (cases[i].result == 1) {
                assert_int_equal(tag->size, cases[i].size);
                assert_int_equal(sluice_slice_length(&tag->payload), cases[i].size);
                assert_int_equal(sluice_chain_length(&chain), 0);
            } else {
                /* The header told: none of the payload was waited for. */
                assert_int_equal(most, SLUICE_FLV_TAG_HEADER_SIZE);
                assert_int_equal(sluice_flv_next(flv, &chain, &tag), -EMSGSIZE);
            }
            chain_clear(&chain);
            sluice_flv_free(flv);
        }
    }
}

/* Tags that nobody wants are dropped as they come, whatever their size, and the next one is
 * found. */
static void test_skipping_buffers_nothing(void **state) {
    static const struct {
        uint8_t type;
        uint32_t size;
    } cases[] = {
        {TYPE_UNKNOWN, 0xFFFFFF}, {TYPE_UNKNOWN, 1},      {0, 5000}, {31, 0}, {0, 0}, {SLUICE_FLV_AUDIO, 0},
        {SLUICE_FLV_VIDEO, 0},    {SLUICE_FLV_SCRIPT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vector vector = {.size = 0};
        sluice_flv *flv = NULL;
        sluice_chain chain;
        sluice_flv_tag *tag;
        size_t most;
        begin_tags(*state, 100, &flv, &chain);
        assert_int_equal(read_sized(*state, flv, &chain, cases[i].type, cases[i].size, &most, &tag), 0);
        assert_int_equal(most, 0);
        assert_int_equal(sluice_chain_length(&chain), 0);
        assert_int_equal(sluice_flv_need(flv), SLUICE_FLV_TAG_HEADER_SIZE);
        add_tag(&vector, SLUICE_FLV_AUDIO, 9, aac_frame, sizeof aac_frame);
        feed(&chain, *state, vector.bytes, vector.size, 0);
        assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
        assert_int_equal(tag->timestamp, 9);
        chain_clear(&chain);
        sluice_flv_free(flv);
    }
}

/* ---- Ownership ---- */

static uint32_t held(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    return stats.held;
}

/* Every block holds one part of one tag: header, payload, trailer. */
static void feed_tag_in_parts(sluice_chain *chain, sluice_pool *pool, uint32_t timestamp) {
    struct vector vector = {.size = 0};
    add_tag(&vector, SLUICE_FLV_AUDIO, timestamp, aac_frame, sizeof aac_frame);
    feed(chain, pool, vector.bytes, SLUICE_FLV_TAG_HEADER_SIZE, 0);
    feed(chain, pool, vector.bytes + SLUICE_FLV_TAG_HEADER_SIZE, sizeof aac_frame, 0);
    feed(chain, pool, vector.bytes + SLUICE_FLV_TAG_HEADER_SIZE + sizeof aac_frame, SLUICE_FLV_TRAILER_SIZE, 0);
}

static void test_payload_until_next_call(void **state) {
    sluice_flv *flv = NULL;
    sluice_chain chain;
    sluice_flv_tag *tag;
    begin_tags(*state, 0, &flv, &chain);
    feed_tag_in_parts(&chain, *state, 1);
    assert_int_equal(held(*state), 3);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
    assert_int_equal(held(*state), 1);
    /* Also a call that finds nothing lets go. */
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 0);
    assert_int_equal(held(*state), 0);

    feed_tag_in_parts(&chain, *state, 2);
    feed_tag_in_parts(&chain, *state, 3);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
    assert_int_equal(held(*state), 1 + 3);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
    assert_int_equal(held(*state), 1);
    sluice_flv_free(flv);
    assert_int_equal(held(*state), 0);
    chain_clear(&chain);
}

static void test_payload_kept(void **state) {
    sluice_flv *flv = NULL;
    sluice_chain chain;
    sluice_flv_tag *tag;
    sluice_slice kept;
    begin_tags(*state, 0, &flv, &chain);
    feed_tag_in_parts(&chain, *state, 1);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
    assert_int_equal(sluice_slice_take(&tag->payload, &kept), 0);
    assert_int_equal(sluice_slice_length(&tag->payload), 0);
    assert_int_equal(tag->size, sizeof aac_frame);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 0);
    sluice_flv_free(flv);
    assert_int_equal(held(*state), 1);
    assert_true(slice_is(&kept, aac_frame, sizeof aac_frame));
    sluice_slice_release(&kept);
    chain_clear(&chain);
}

/* Where the pool refuses, the payload stays the framer's, and goes with its next call. */
static void test_payload_not_kept(void **state) {
    (void)state;
    sluice_pool *pool = NULL;
    sluice_flv *flv = NULL;
    sluice_chain chain;
    sluice_flv_tag *tag;
    sluice_slice kept;
    const sluice_pool_options options = {
        .size = sizeof options, .slab_blocks = 8, .max_blocks = 8, .reserve_blocks = 7, .no_huge_pages = true};
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    begin_tags(pool, 0, &flv, &chain);
    feed_tag_in_parts(&chain, pool, 1);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
    assert_int_equal(sluice_slice_take(&tag->payload, &kept), -ENOBUFS);
    assert_true(slice_is(&tag->payload, aac_frame, sizeof aac_frame));
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 0);
    assert_int_equal(held(pool), 0);
    sluice_flv_free(flv);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

static void test_new_and_free(void **state) {
    (void)state;
    sluice_flv *flv = NULL;
    assert_int_equal(sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD + 1, &flv), -EINVAL);
    assert_int_equal(sluice_flv_new(UINT32_MAX, &flv), -EINVAL);
    assert_null(flv);
    assert_int_equal(sluice_flv_new(SLUICE_FLV_MAX_PAYLOAD, &flv), 0);
    assert_int_equal(sluice_flv_need(flv), 1);
    assert_int_equal(sluice_flv_flags(flv), 0);
    sluice_flv_free(flv);
    sluice_flv_free(NULL);
}

/* ---- Views ---- */

struct view_case {
    sluice_flv_type type;
    uint8_t bytes[24];
    uint32_t size;   /* of the payload */
    uint32_t needed; /* of it, for the header to be whole */
    sluice_flv_view view;
};

#define AUDIO(FORMAT, CODEC, RATE, CHANNELS)                                                                           \
    {                                                                                                                  \
        SLUICE_FLV_AUDIO, {FORMAT, 1}, 2, 1, {                                                                         \
            .codec = (CODEC), .packet = SLUICE_FLV_FRAME, .audio_format = (FORMAT) >> 4, .channels = (CHANNELS),       \
            .sample_rate = (RATE), .header_size = 1                                                                    \
        }                                                                                                              \
    }

/* A case is its payload and what is seen in it: lines that say so, not one for each field. */
/* clang-format off */
static const struct view_case view_cases[] = {
    /* Legacy video. */
    {SLUICE_FLV_VIDEO, {0x17, 0, 1, 2, 3, 9}, 6, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_SEQUENCE_HEADER, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x17, 1, 0, 0, 0, 9}, 6, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .key_frame = true, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x27, 1, 0x7F, 0xFF, 0xFF, 9}, 6, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .frame_type = 2, .composition_time = 8388607,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x27, 1, 0xFF, 0xFF, 0xFF}, 5, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .frame_type = 2, .composition_time = -1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x37, 1, 0x80, 0, 0}, 5, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .frame_type = 3, .composition_time = -8388608,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x47, 1, 0, 0, 1}, 5, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .frame_type = 4, .composition_time = 1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x17, 2, 0, 0, 0}, 5, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_SEQUENCE_END, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x17, 3, 0, 0, 0}, 5, 5,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_OTHER, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x57, 0}, 2, 1,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_COMMAND, .frame_type = 5, .header_size = 1}},
    {SLUICE_FLV_VIDEO, {0x1C, 0, 0, 0, 0, 9}, 6, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_SEQUENCE_HEADER, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x1C, 1, 0, 0, 40, 9}, 6, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .frame_type = 1,
      .composition_time = 40, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x12, 0}, 2, 1,
     {.codec = SLUICE_CODEC_H263, .packet = SLUICE_FLV_FRAME, .key_frame = true, .frame_type = 1, .header_size = 1}},
    {SLUICE_FLV_VIDEO, {0x24, 0}, 2, 1,
     {.codec = SLUICE_CODEC_VP6, .packet = SLUICE_FLV_FRAME, .frame_type = 2, .header_size = 1}},
    {SLUICE_FLV_VIDEO, {0x15, 0}, 2, 1,
     {.codec = SLUICE_CODEC_VP6, .packet = SLUICE_FLV_FRAME, .key_frame = true, .frame_type = 1, .header_size = 1}},
    {SLUICE_FLV_VIDEO, {0x13, 0}, 2, 1,
     {.codec = SLUICE_CODEC_NONE, .packet = SLUICE_FLV_FRAME, .key_frame = true, .frame_type = 1, .header_size = 1}},

    /* Enhanced video. */
    {SLUICE_FLV_VIDEO, {0x90, 'h', 'v', 'c', '1', 1}, 6, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_SEQUENCE_HEADER, .enhanced = true, .frame_type = 1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x91, 'h', 'v', 'c', '1', 0xFF, 0xFF, 0xFE, 1}, 9, 8,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .frame_type = 1,
      .composition_time = -2, .header_size = 8}},
    {SLUICE_FLV_VIDEO, {0xA1, 'a', 'v', 'c', '1', 0, 1, 0, 1}, 9, 8,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .enhanced = true, .frame_type = 2,
      .composition_time = 256, .header_size = 8}},
    {SLUICE_FLV_VIDEO, {0x91, 'v', 'v', 'c', '1', 0, 0, 3}, 8, 8,
     {.codec = SLUICE_CODEC_VVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .frame_type = 1,
      .composition_time = 3, .header_size = 8}},
    {SLUICE_FLV_VIDEO, {0x91, 'a', 'v', '0', '1', 7, 7, 7, 7}, 9, 5,
     {.codec = SLUICE_CODEC_AV1, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .frame_type = 1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0xA1, 'v', 'p', '0', '8', 7}, 6, 5,
     {.codec = SLUICE_CODEC_VP8, .packet = SLUICE_FLV_FRAME, .enhanced = true, .frame_type = 2, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0xA1, 'v', 'p', '0', '9', 7}, 6, 5,
     {.codec = SLUICE_CODEC_VP9, .packet = SLUICE_FLV_FRAME, .enhanced = true, .frame_type = 2, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0xA1, 'n', 'e', 'w', '!', 7}, 6, 5,
     {.codec = SLUICE_FOURCC('n', 'e', 'w', '!'), .packet = SLUICE_FLV_FRAME, .enhanced = true, .frame_type = 2,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x92, 'h', 'v', 'c', '1'}, 5, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_SEQUENCE_END, .enhanced = true, .frame_type = 1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x93, 'h', 'v', 'c', '1', 9, 9, 9}, 8, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .frame_type = 1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x94, 'h', 'v', 'c', '1', 2}, 6, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_METADATA, .enhanced = true, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0xD4, 'h', 'v', 'c', '1', 2}, 6, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_METADATA, .enhanced = true, .frame_type = 5, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x95, 'a', 'v', '0', '1', 2}, 6, 5,
     {.codec = SLUICE_CODEC_AV1, .packet = SLUICE_FLV_SEQUENCE_HEADER, .enhanced = true, .frame_type = 1,
      .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0x98, 'h', 'v', 'c', '1', 2}, 6, 5,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_OTHER, .enhanced = true, .frame_type = 1, .header_size = 5}},
    {SLUICE_FLV_VIDEO, {0xD1, 0}, 2, 1,
     {.packet = SLUICE_FLV_COMMAND, .enhanced = true, .frame_type = 5, .header_size = 1}},
    {SLUICE_FLV_VIDEO, {0xD7, 0, 0xAA, 0x01, 0}, 5, 4,
     {.packet = SLUICE_FLV_COMMAND, .enhanced = true, .frame_type = 5, .header_size = 4}},

    /* Modifiers. */
    {SLUICE_FLV_VIDEO, {0x97, 2, 1, 2, 3, 0x01, 'h', 'v', 'c', '1', 0, 0, 5, 9}, 14, 13,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .frame_type = 1,
      .composition_time = 5, .header_size = 13}},
    {SLUICE_FLV_VIDEO, {0xA7, 0, 1, 0x07, 1, 1, 2, 0xF3, 'h', 'v', 'c', '1', 9}, 13, 12,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .enhanced = true, .frame_type = 2, .header_size = 12}},
    {SLUICE_FLV_VIDEO, {0x97, 0xFF, 0, 0, 7, 0x00, 'h', 'v', 'c', '1', 9}, 11, 10,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_SEQUENCE_HEADER, .enhanced = true, .frame_type = 1,
      .header_size = 10}},

    /* Several tracks: one track, many of one codec, many of many codecs. */
    {SLUICE_FLV_VIDEO, {0x96, 0x01, 'h', 'v', 'c', '1', 3, 0, 0, 8, 9}, 11, 10,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .multitrack = true,
      .track = 3, .frame_type = 1, .composition_time = 8, .header_size = 10}},
    {SLUICE_FLV_VIDEO, {0x96, 0x11, 'a', 'v', 'c', '1', 0, 0, 0, 4, 0xFF, 0xFF, 0xFF, 9}, 14, 13,
     {.codec = SLUICE_CODEC_H264, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .multitrack = true,
      .many_tracks = true, .frame_type = 1, .composition_time = -1, .header_size = 6}},
    {SLUICE_FLV_VIDEO, {0x96, 0x20, 'a', 'v', '0', '1', 7, 0, 0, 1, 9}, 11, 10,
     {.codec = SLUICE_CODEC_AV1, .packet = SLUICE_FLV_SEQUENCE_HEADER, .enhanced = true, .multitrack = true,
      .many_tracks = true, .track = 7, .frame_type = 1, .header_size = 6}},
    {SLUICE_FLV_VIDEO, {0x96, 0x06, 'a', 'v', '0', '1', 0, 9}, 8, 7,
     {.codec = SLUICE_CODEC_AV1, .packet = SLUICE_FLV_OTHER, .enhanced = true, .multitrack = true, .frame_type = 1,
      .header_size = 7}},
    {SLUICE_FLV_VIDEO, {0x96, 0x31, 'a', 'v', '0', '1', 5, 9}, 8, 6,
     {.codec = SLUICE_CODEC_AV1, .packet = SLUICE_FLV_OTHER, .enhanced = true, .multitrack = true,
      .many_tracks = true, .frame_type = 1, .header_size = 6}},
    {SLUICE_FLV_VIDEO, {0x97, 0, 1, 0x06, 0x03, 'h', 'v', 'c', '1', 0, 9}, 11, 10,
     {.codec = SLUICE_CODEC_HEVC, .packet = SLUICE_FLV_FRAME, .key_frame = true, .enhanced = true, .multitrack = true,
      .frame_type = 1, .header_size = 10}},

    /* Legacy audio. */
    {SLUICE_FLV_AUDIO, {0xAF, 0, 0x12}, 3, 2,
     {.codec = SLUICE_CODEC_AAC, .packet = SLUICE_FLV_SEQUENCE_HEADER, .audio_format = 10, .header_size = 2}},
    {SLUICE_FLV_AUDIO, {0xAF, 1, 0x21}, 3, 2,
     {.codec = SLUICE_CODEC_AAC, .packet = SLUICE_FLV_FRAME, .audio_format = 10, .header_size = 2}},
    {SLUICE_FLV_AUDIO, {0xAF, 2, 0x21}, 3, 2,
     {.codec = SLUICE_CODEC_AAC, .packet = SLUICE_FLV_OTHER, .audio_format = 10, .header_size = 2}},
    AUDIO(0x00, SLUICE_CODEC_PCM, 5512, 1),
    AUDIO(0x07, SLUICE_CODEC_PCM, 11025, 2),
    AUDIO(0x1A, SLUICE_CODEC_ADPCM, 22050, 1),
    AUDIO(0x2F, SLUICE_CODEC_MP3, 44100, 2),
    AUDIO(0x2E, SLUICE_CODEC_MP3, 44100, 1),
    AUDIO(0x3F, SLUICE_CODEC_PCM, 44100, 2),
    AUDIO(0x40, SLUICE_CODEC_NELLYMOSER, 16000, 1),
    AUDIO(0x50, SLUICE_CODEC_NELLYMOSER, 8000, 1),
    AUDIO(0x6B, SLUICE_CODEC_NELLYMOSER, 22050, 2),
    AUDIO(0x72, SLUICE_CODEC_PCMA, 8000, 1),
    AUDIO(0x83, SLUICE_CODEC_PCMU, 8000, 2),
    AUDIO(0xB2, SLUICE_CODEC_SPEEX, 16000, 1),
    AUDIO(0xE3, SLUICE_CODEC_MP3, 8000, 2),
    AUDIO(0xC6, SLUICE_CODEC_NONE, 11025, 1),
    AUDIO(0xFF, SLUICE_CODEC_NONE, 44100, 2),

    /* Enhanced audio. */
    {SLUICE_FLV_AUDIO, {0x90, 'O', 'p', 'u', 's', 1}, 6, 5,
     {.codec = SLUICE_CODEC_OPUS, .packet = SLUICE_FLV_SEQUENCE_HEADER, .enhanced = true, .audio_format = 9,
      .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x91, 'f', 'L', 'a', 'C', 1}, 6, 5,
     {.codec = SLUICE_CODEC_FLAC, .packet = SLUICE_FLV_FRAME, .enhanced = true, .audio_format = 9, .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x91, '.', 'm', 'p', '3', 1}, 6, 5,
     {.codec = SLUICE_CODEC_MP3, .packet = SLUICE_FLV_FRAME, .enhanced = true, .audio_format = 9, .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x91, 'm', 'p', '4', 'a', 1}, 6, 5,
     {.codec = SLUICE_CODEC_AAC, .packet = SLUICE_FLV_FRAME, .enhanced = true, .audio_format = 9, .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x91, 'a', 'c', '-', '3', 1}, 6, 5,
     {.codec = SLUICE_CODEC_AC3, .packet = SLUICE_FLV_FRAME, .enhanced = true, .audio_format = 9, .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x91, 'e', 'c', '-', '3', 1}, 6, 5,
     {.codec = SLUICE_CODEC_EAC3, .packet = SLUICE_FLV_FRAME, .enhanced = true, .audio_format = 9, .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x92, 'O', 'p', 'u', 's'}, 5, 5,
     {.codec = SLUICE_CODEC_OPUS, .packet = SLUICE_FLV_SEQUENCE_END, .enhanced = true, .audio_format = 9,
      .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x93, 'O', 'p', 'u', 's'}, 5, 5,
     {.codec = SLUICE_CODEC_OPUS, .packet = SLUICE_FLV_OTHER, .enhanced = true, .audio_format = 9, .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x94, 'O', 'p', 'u', 's', 1, 2}, 7, 5,
     {.codec = SLUICE_CODEC_OPUS, .packet = SLUICE_FLV_METADATA, .enhanced = true, .audio_format = 9,
      .header_size = 5}},
    {SLUICE_FLV_AUDIO, {0x95, 0x01, 'O', 'p', 'u', 's', 1, 9}, 8, 7,
     {.codec = SLUICE_CODEC_OPUS, .packet = SLUICE_FLV_FRAME, .enhanced = true, .multitrack = true, .track = 1,
      .audio_format = 9, .header_size = 7}},
    {SLUICE_FLV_AUDIO, {0x95, 0x21, 'm', 'p', '4', 'a', 1, 0, 0, 1, 9}, 11, 10,
     {.codec = SLUICE_CODEC_AAC, .packet = SLUICE_FLV_FRAME, .enhanced = true, .multitrack = true, .many_tracks = true,
      .track = 1, .audio_format = 9, .header_size = 6}},
    {SLUICE_FLV_AUDIO, {0x97, 2, 0, 0, 9, 0x01, 'O', 'p', 'u', 's', 1}, 11, 10,
     {.codec = SLUICE_CODEC_OPUS, .packet = SLUICE_FLV_FRAME, .enhanced = true, .audio_format = 9, .header_size = 10}},

    {SLUICE_FLV_SCRIPT, {2, 0, 0}, 3, 0, {.packet = SLUICE_FLV_METADATA}},
};
/* clang-format on */

/* The view of a payload that comes in pieces of @piece bytes. */
static sluice_flv_view view_of(sluice_pool *pool, sluice_flv_type type, const uint8_t *bytes, uint32_t size,
                               size_t piece) {
    struct vector vector = {.size = 0};
    sluice_flv *flv = NULL;
    sluice_chain chain;
    sluice_flv_tag *tag;
    begin_tags(pool, 0, &flv, &chain);
    add_tag(&vector, (uint8_t)type, 0, bytes, size);
    feed(&chain, pool, vector.bytes, SLUICE_FLV_TAG_HEADER_SIZE, piece);
    feed(&chain, pool, vector.bytes + SLUICE_FLV_TAG_HEADER_SIZE, size, piece);
    feed(&chain, pool, vector.bytes + SLUICE_FLV_TAG_HEADER_SIZE + size, SLUICE_FLV_TRAILER_SIZE, piece);
    assert_int_equal(sluice_flv_next(flv, &chain, &tag), 1);
    sluice_flv_view view = tag->view, again;
    sluice_flv_read_view(type, &tag->payload, &again);
    assert_true(same_view(&again, &view));
    sluice_flv_free(flv);
    chain_clear(&chain);
    return view;
}

static void assert_same_view(size_t index, uint32_t size, const sluice_flv_view *got, const sluice_flv_view *expected) {
    if (same_view(got, expected))
        return;
    fail_msg("case %zu cut to %u: codec %08x packet %d key %d enhanced %d tracks %d%d id %u frame %u format %u "
             "channels %u rate %u composition %d header %u",
             index, size, got->codec, got->packet, got->key_frame, got->enhanced, got->multitrack, got->many_tracks,
             got->track, got->frame_type, got->audio_format, got->channels, got->sample_rate, got->composition_time,
             got->header_size);
}

static void test_views(void **state) {
    for (size_t i = 0; i < sizeof view_cases / sizeof *view_cases; i++) {
        const struct view_case *one = &view_cases[i];
        for (size_t piece = 0; piece < 4; piece++) {
            sluice_flv_view view = view_of(*state, one->type, one->bytes, one->size, piece);
            assert_same_view(i, one->size, &view, &one->view);
        }
    }
}

/* A payload that ends inside its header is no error and never a frame; one that ends behind it is
 * what it was. */
static void test_short_views(void **state) {
    for (size_t i = 0; i < sizeof view_cases / sizeof *view_cases; i++) {
        const struct view_case *one = &view_cases[i];
        for (uint32_t size = 1; size < one->size; size++) {
            sluice_flv_view whole = view_of(*state, one->type, one->bytes, size, 0);
            sluice_flv_view pieces = view_of(*state, one->type, one->bytes, size, 1);
            assert_same_view(i, size, &pieces, &whole);
            if (size >= one->needed) {
                assert_same_view(i, size, &whole, &one->view);
                continue;
            }
            assert_int_equal(whole.packet, SLUICE_FLV_OTHER);
            assert_false(whole.key_frame);
            assert_int_equal(whole.composition_time, 0);
            assert_int_equal(whole.header_size, size);
            assert_int_equal(whole.enhanced, one->view.enhanced);
        }
    }
}

/* A tag is never empty, but a message of RTMP may be. */
static void test_empty_views(void **state) {
    static const sluice_flv_type types[] = {SLUICE_FLV_AUDIO, SLUICE_FLV_VIDEO};
    const sluice_flv_view other = {.packet = SLUICE_FLV_OTHER};
    const sluice_slice empty = {0};
    sluice_flv_view view;
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        sluice_flv_read_view(types[i], &empty, &view);
        assert_true(same_view(&view, &other));
    }
}

/* The length of a modifier takes one byte up to 255, and three from 256 on. */
static void test_modifier_lengths(void **state) {
    static const uint32_t lengths[] = {1, 2, 254, 255, 256, 257, 3000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct vector payload = {.size = 0};
        uint32_t length = lengths[i];
        const uint8_t short_start[] = {0x97, (uint8_t)(length - 1)};
        const uint8_t long_start[] = {0x97, 0xFF, (uint8_t)((length - 1) >> 8), (uint8_t)(length - 1)};
        static const uint8_t rest[] = {0x01, 'h', 'v', 'c', '1', 0, 0, 7, 0};
        if (length < 256)
            add_bytes(&payload, short_start, sizeof short_start);
        else
            add_bytes(&payload, long_start, sizeof long_start);
        memset(payload.bytes + payload.size, 0x77, length);
        payload.size += length;
        uint32_t header_size = (uint32_t)payload.size + 8;
        add_bytes(&payload, rest, sizeof rest);
        for (size_t piece = 0; piece < 300; piece += 7) {
            sluice_flv_view view = view_of(*state, SLUICE_FLV_VIDEO, payload.bytes, (uint32_t)payload.size, piece);
            assert_int_equal(view.codec, SLUICE_CODEC_HEVC);
            assert_int_equal(view.packet, SLUICE_FLV_FRAME);
            assert_int_equal(view.composition_time, 7);
            assert_int_equal(view.header_size, header_size);
        }
        sluice_flv_view view = view_of(*state, SLUICE_FLV_VIDEO, payload.bytes, header_size - 9, 0);
        assert_int_equal(view.packet, SLUICE_FLV_OTHER);
    }
}

/* A payload of nothing but modifiers ends. */
static void test_modifiers_without_end(void **state) {
    uint8_t payload[3000];
    for (size_t i = 0; i < sizeof payload; i += 3)
        memcpy(payload + i, i == 0 ? "\x97\0\0" : "\x07\0\0", 3);
    sluice_flv_view view = view_of(*state, SLUICE_FLV_VIDEO, payload, sizeof payload, 0);
    assert_int_equal(view.packet, SLUICE_FLV_OTHER);
    assert_int_equal(view.header_size, sizeof payload);
    payload[0] = 0x97;
    view = view_of(*state, SLUICE_FLV_AUDIO, payload, sizeof payload, 1);
    assert_int_equal(view.packet, SLUICE_FLV_OTHER);
}

/* ---- Writing ---- */

static void test_writers(void **state) {
    uint8_t header[SLUICE_FLV_HEADER_SIZE], tag_header[SLUICE_FLV_TAG_HEADER_SIZE], trailer[SLUICE_FLV_TRAILER_SIZE];
    memset(header, 0xEE, sizeof header);
    memset(tag_header, 0xEE, sizeof tag_header);
    memset(trailer, 0xEE, sizeof trailer);
    sluice_flv_write_header(header, SLUICE_FLV_HAS_VIDEO);
    assert_memory_equal(header, ((uint8_t[]){'F', 'L', 'V', 1, 1, 0, 0, 0, 9, 0, 0, 0, 0}), sizeof header);
    sluice_flv_write_tag_header(tag_header, SLUICE_FLV_VIDEO, 0x010203, 0xA1B2C3D4);
    assert_memory_equal(tag_header, ((uint8_t[]){9, 1, 2, 3, 0xB2, 0xC3, 0xD4, 0xA1, 0, 0, 0}), sizeof tag_header);
    sluice_flv_write_trailer(trailer, SLUICE_FLV_MAX_PAYLOAD);
    assert_memory_equal(trailer, ((uint8_t[]){1, 0, 0, 10}), sizeof trailer);

    /* And read again. */
    struct vector vector = {.size = 0};
    struct outcome outcome;
    add_bytes(&vector, header, sizeof header);
    sluice_flv_write_tag_header(tag_header, SLUICE_FLV_AUDIO, sizeof aac_frame, 0xFEDCBA98);
    sluice_flv_write_trailer(trailer, sizeof aac_frame);
    add_bytes(&vector, tag_header, sizeof tag_header);
    add_bytes(&vector, aac_frame, sizeof aac_frame);
    add_bytes(&vector, trailer, sizeof trailer);
    read_whole(*state, &vector, &outcome);
    assert_int_equal(outcome.flags, SLUICE_FLV_HAS_VIDEO);
    assert_int_equal(outcome.count, 1);
    assert_int_equal(outcome.events[0].type, SLUICE_FLV_AUDIO);
    assert_int_equal(outcome.events[0].timestamp, 0xFEDCBA98);
    assert_true(outcome.events[0].trailer_ok);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, set_up, tear_down)

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
        TEST(test_wrong_signature),
        TEST(test_data_offset),
        TEST(test_reserved_bits),
        TEST(test_liberal_header),
        TEST(test_encrypted),
        TEST(test_trailers),
        TEST(test_sizes_around_limit),
        TEST(test_skipping_buffers_nothing),
        TEST(test_payload_until_next_call),
        TEST(test_payload_kept),
        TEST(test_payload_not_kept),
        TEST(test_new_and_free),
        TEST(test_views),
        TEST(test_short_views),
        TEST(test_empty_views),
        TEST(test_modifier_lengths),
        TEST(test_modifiers_without_end),
        TEST(test_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
