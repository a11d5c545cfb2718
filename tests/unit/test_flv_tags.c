/* The FLV framer: headers, trailers and sizes of tags, and who holds their payloads. */
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
#include "support/flv_rig.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
