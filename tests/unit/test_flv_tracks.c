/* Multitrack payloads: which tracks they hold, where each ends, and the payload that a track is by
 * itself. */
#include <sluice/flv.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/slices.h"

enum { TRACKS = 4, BYTES = 64 };

/* What one track is to be, and the payload that it is alone and with its id. */
struct expected {
    uint8_t id;
    uint32_t codec;
    sluice_flv_packet packet;
    bool key_frame;
    int32_t composition_time;
    uint32_t header_size;
    size_t size;
    const char *data;
    uint8_t alone[BYTES], wrapped[BYTES];
    size_t alone_size, wrapped_size;
};

struct example {
    sluice_flv_type type;
    uint8_t bytes[BYTES];
    size_t size, count;
    struct expected tracks[TRACKS];
};

/* clang-format off */
static const struct example examples[] = {
    /* One track: no size. */
    {SLUICE_FLV_VIDEO, {0xA6, 0x01, 'a', 'v', 'c', '1', 3, 0xFF, 0xFF, 0xFE, 'x', 'y'}, 12, 1, {
        {3, SLUICE_CODEC_H264, SLUICE_FLV_FRAME, false, -2, 3, 5, "\xff\xff\xfexy",
         {0x27, 1}, {0xA6, 0x01, 'a', 'v', 'c', '1', 3}, 2, 7}}},
    /* Many of one codec, in any order, one of them empty. */
    {SLUICE_FLV_VIDEO, {0x96, 0x10, 'a', 'v', 'c', '1', 1, 0, 0, 2, 'a', 'b', 0, 0, 0, 0, 255, 0, 0, 1, 'c'}, 21, 3, {
        {1, SLUICE_CODEC_H264, SLUICE_FLV_SEQUENCE_HEADER, false, 0, 0, 2, "ab",
         {0x17, 0, 0, 0, 0}, {0x96, 0, 'a', 'v', 'c', '1', 1}, 5, 7},
        {0, SLUICE_CODEC_H264, SLUICE_FLV_SEQUENCE_HEADER, false, 0, 0, 0, "",
         {0x17, 0, 0, 0, 0}, {0x96, 0, 'a', 'v', 'c', '1', 0}, 5, 7},
        {255, SLUICE_CODEC_H264, SLUICE_FLV_SEQUENCE_HEADER, false, 0, 0, 1, "c",
         {0x17, 0, 0, 0, 0}, {0x96, 0, 'a', 'v', 'c', '1', 255}, 5, 7}}},
    /* Many of many codecs: a composition time is where the codec has one. */
    {SLUICE_FLV_VIDEO, {0x96, 0x21, 'h', 'v', 'c', '1', 0, 0, 0, 4, 0, 0, 5, 'h', 'a', 'v', '0', '1', 2, 0, 0, 1, 'v'},
     23, 2, {
        {0, SLUICE_CODEC_HEVC, SLUICE_FLV_FRAME, true, 5, 3, 4, "\0\0\5h",
         {0x91, 'h', 'v', 'c', '1'}, {0x96, 0x01, 'h', 'v', 'c', '1', 0}, 5, 7},
        {2, SLUICE_CODEC_AV1, SLUICE_FLV_FRAME, true, 0, 0, 1, "v",
         {0x91, 'a', 'v', '0', '1'}, {0x96, 0x01, 'a', 'v', '0', '1', 2}, 5, 7}}},
    /* Without a composition time, behind a modifier; the form before FourCCs has one. */
    {SLUICE_FLV_VIDEO, {0x97, 0, 1, 0x06, 0x13, 'a', 'v', 'c', '1', 9, 0, 0, 1, 'f'}, 14, 1, {
        {9, SLUICE_CODEC_H264, SLUICE_FLV_FRAME, true, 0, 0, 1, "f",
         {0x17, 1, 0, 0, 0}, {0x96, 0x03, 'a', 'v', 'c', '1', 9}, 5, 7}}},
    {SLUICE_FLV_VIDEO, {0x96, 0x02, 'a', 'v', 'c', '1', 1}, 7, 1, {
        {1, SLUICE_CODEC_H264, SLUICE_FLV_SEQUENCE_END, false, 0, 0, 0, "",
         {0x17, 2, 0, 0, 0}, {0x96, 0x02, 'a', 'v', 'c', '1', 1}, 5, 7}}},
    /* What the old form has no words for stays extended. */
    {SLUICE_FLV_VIDEO, {0x96, 0x04, 'a', 'v', 'c', '1', 1, 'm'}, 8, 1, {
        {1, SLUICE_CODEC_H264, SLUICE_FLV_METADATA, false, 0, 0, 1, "m",
         {0x94, 'a', 'v', 'c', '1'}, {0x96, 0x04, 'a', 'v', 'c', '1', 1}, 5, 7}}},
    {SLUICE_FLV_VIDEO, {0x96, 0x05, 'a', 'v', 'c', '1', 1, 't'}, 8, 1, {
        {1, SLUICE_CODEC_H264, SLUICE_FLV_SEQUENCE_HEADER, false, 0, 0, 1, "t",
         {0x95, 'a', 'v', 'c', '1'}, {0x96, 0x05, 'a', 'v', 'c', '1', 1}, 5, 7}}},
    {SLUICE_FLV_AUDIO, {0x95, 0x20, 'm', 'p', '4', 'a', 1, 0, 0, 2, 0x12, 0x10, 'O', 'p', 'u', 's', 2, 0, 0, 1, 'o'},
     21, 2, {
        {1, SLUICE_CODEC_AAC, SLUICE_FLV_SEQUENCE_HEADER, false, 0, 0, 2, "\x12\x10",
         {0xAF, 0}, {0x95, 0x00, 'm', 'p', '4', 'a', 1}, 2, 7},
        {2, SLUICE_CODEC_OPUS, SLUICE_FLV_SEQUENCE_HEADER, false, 0, 0, 1, "o",
         {0x90, 'O', 'p', 'u', 's'}, {0x95, 0x00, 'O', 'p', 'u', 's', 2}, 5, 7}}},
    {SLUICE_FLV_AUDIO, {0x95, 0x01, 'm', 'p', '4', 'a', 4, 'f'}, 8, 1, {
        {4, SLUICE_CODEC_AAC, SLUICE_FLV_FRAME, false, 0, 0, 1, "f",
         {0xAF, 1}, {0x95, 0x01, 'm', 'p', '4', 'a', 4}, 2, 7}}},
    {SLUICE_FLV_AUDIO, {0x95, 0x02, 'm', 'p', '4', 'a', 4}, 7, 1, {
        {4, SLUICE_CODEC_AAC, SLUICE_FLV_SEQUENCE_END, false, 0, 0, 0, "",
         {0x92, 'm', 'p', '4', 'a'}, {0x95, 0x02, 'm', 'p', '4', 'a', 4}, 5, 7}}},
};
/* clang-format on */

static int tear_down(void **state) {
    feed_assert_returned(*state);
    sluice_pool_free(*state);
    return 0;
}

static void assert_track(const struct example *example, const struct expected *expected, sluice_flv_track *track) {
    uint8_t data[BYTES], header[SLUICE_FLV_MAX_TRACK_HEADER + 1] = {[SLUICE_FLV_MAX_TRACK_HEADER] = 0xEE};
    size_t size = slice_bytes(&track->slice, data, sizeof data);
    assert_int_equal(track->id, expected->id);
    assert_int_equal(track->codec, expected->codec);
    assert_int_equal(track->packet, expected->packet);
    assert_int_equal(track->key_frame, expected->key_frame);
    assert_int_equal(track->composition_time, expected->composition_time);
    assert_int_equal(track->header_size, expected->header_size);
    assert_int_equal(size, expected->size);
    assert_memory_equal(data, expected->data, size);
    assert_int_equal(sluice_flv_write_track_header(header, example->type, track, true), expected->alone_size);
    assert_memory_equal(header, expected->alone, expected->alone_size);
    assert_int_equal(sluice_flv_write_track_header(header, example->type, track, false), expected->wrapped_size);
    assert_memory_equal(header, expected->wrapped, expected->wrapped_size);
    assert_int_equal(header[SLUICE_FLV_MAX_TRACK_HEADER], 0xEE);
    sluice_slice_release(&track->slice);
}

static void tracks_are_where_their_sizes_say(void **state) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (size_t piece = 0; piece < 5; piece++) {
            const struct example *example = &examples[i];
            sluice_slice payload = slice_of(*state, example->bytes, example->size, piece);
            sluice_flv_tracks place = {0};
            sluice_flv_track track;
            size_t sizes = 0;
            for (size_t at = 0; at < example->count; at++) {
                assert_int_equal(sluice_flv_next_track(&place, example->type, &payload, &track), 1);
                sizes += sluice_slice_length(&track.slice);
                assert_track(example, &example->tracks[at], &track);
            }
            assert_true(sizes < example->size);
            assert_int_equal(sluice_flv_next_track(&place, example->type, &payload, &track), 0);
            assert_int_equal(sluice_flv_next_track(&place, example->type, &payload, &track), 0);
            sluice_slice_release(&payload);
        }
}

/* However a payload is cut short, what is told of lies within it, and the end within a track is
 * told. */
static void payloads_that_end_early_are_told(void **state) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (size_t size = 1; size < examples[i].size; size++) {
            const struct example *example = &examples[i];
            sluice_slice payload = slice_of(*state, example->bytes, size, 1);
            sluice_flv_tracks place = {0}, before = {0};
            sluice_flv_track track = {.id = 77};
            size_t count = 0, within = 0;
            int result;
            while ((result = sluice_flv_next_track(&place, example->type, &payload, &track)) == 1) {
                within += sluice_slice_length(&track.slice);
                sluice_slice_release(&track.slice);
                before = place;
                track.id = 77;
                count++;
            }
            assert_true(result == 0 || result == -EPROTO);
            assert_true(count <= example->count && within < size);
            assert_int_equal(track.id, 77);
            assert_memory_equal(&place, &before, sizeof place);
            sluice_slice_release(&payload);
        }
}

/* One byte more than there is, and the most that the field can say. */
static void sizes_beyond_the_payload_are_refused(void **state) {
    static const uint32_t sizes[] = {2, 3, 0xFF, 0x10000, 0xFFFFFF};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint8_t bytes[] = {
            0x95, 0x11, 'O', 'p', 'u', 's', 0, (uint8_t)(sizes[i] >> 16), (uint8_t)(sizes[i] >> 8), (uint8_t)sizes[i],
            'a',  'b'};
        sluice_slice payload = slice_of(*state, bytes, sizeof bytes, 0);
        sluice_flv_tracks place = {0};
        sluice_flv_track track;
        int result = sluice_flv_next_track(&place, SLUICE_FLV_AUDIO, &payload, &track);
        assert_int_equal(result, sizes[i] == 2 ? 1 : -EPROTO);
        if (result == 1)
            sluice_slice_release(&track.slice);
        sluice_slice_release(&payload);
    }
}

/* A composition time that does not fit into its track is not read from the next one. */
static void a_composition_time_is_within_its_track(void **state) {
    static const uint8_t bytes[] = {0x96, 0x11, 'a', 'v', 'c', '1', 0, 0, 0, 2, 0, 0, 1, 0, 0, 3, 0, 0, 7};
    sluice_slice payload = slice_of(*state, bytes, sizeof bytes, 0);
    sluice_flv_tracks place = {0};
    sluice_flv_track track;
    assert_int_equal(sluice_flv_next_track(&place, SLUICE_FLV_VIDEO, &payload, &track), -EPROTO);
    sluice_slice_release(&payload);
}

static void other_payloads_have_no_tracks(void **state) {
    static const struct {
        sluice_flv_type type;
        uint8_t bytes[10];
    } cases[] = {
        {SLUICE_FLV_VIDEO, {0x17, 1, 0, 0, 0, 1, 2, 3, 4, 5}},
        {SLUICE_FLV_VIDEO, {0x16, 0x00, 'a', 'v', 'c', '1', 0, 3, 4, 5}}, /* not extended */
        {SLUICE_FLV_VIDEO, {0x91, 'h', 'v', 'c', '1', 0, 0, 3, 4, 5}},
        {SLUICE_FLV_VIDEO, {0xD6, 0x00, 'a', 'v', 'c', '1', 0, 3, 4, 5}}, /* a command */
        /* kinds that are reserved */
        {SLUICE_FLV_VIDEO, {0x96, 0x30, 'a', 'v', 'c', '1', 0, 3, 4, 5}},
        {SLUICE_FLV_VIDEO, {0x96, 0xF0, 'a', 'v', 'c', '1', 0, 3, 4, 5}},
        {SLUICE_FLV_VIDEO, {0x95, 0x00, 'a', 'v', 'c', '1', 0, 3, 4, 5}}, /* audio's number */
        {SLUICE_FLV_AUDIO, {0x96, 0x00, 'O', 'p', 'u', 's', 0, 3, 4, 5}},
        {SLUICE_FLV_AUDIO, {0xA5, 0x00, 'O', 'p', 'u', 's', 0, 3, 4, 5}},
        {SLUICE_FLV_SCRIPT, {0x96, 0x00, 'a', 'v', 'c', '1', 0, 3, 4, 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_slice payload = slice_of(*state, cases[i].bytes, sizeof cases[i].bytes, 0);
        sluice_flv_tracks place = {0};
        sluice_flv_track track;
        assert_int_equal(sluice_flv_next_track(&place, cases[i].type, &payload, &track), 0);
        sluice_slice_release(&payload);
    }
}

/* Behind as many modifiers as there may be, and behind one more. */
static void tracks_are_behind_so_many_modifiers(void **state) {
    for (size_t count = SLUICE_FLV_MAX_MODIFIERS; count <= SLUICE_FLV_MAX_MODIFIERS + 1; count++) {
        static const uint8_t rest[] = {0x01, 'O', 'p', 'u', 's', 3, 'o'};
        uint8_t bytes[1 + 3 * (SLUICE_FLV_MAX_MODIFIERS + 1) + sizeof rest] = {0x97};
        for (size_t i = 0; i < count; i++)
            bytes[1 + 3 * i + 2] = i + 1 < count ? 0x07 : 0x05;
        memcpy(bytes + 1 + 3 * count, rest, sizeof rest);
        sluice_slice payload = slice_of(*state, bytes, 1 + 3 * count + sizeof rest, 0);
        sluice_flv_tracks place = {0};
        sluice_flv_track track = {0};
        bool is_read = count <= SLUICE_FLV_MAX_MODIFIERS;
        assert_int_equal(sluice_flv_next_track(&place, SLUICE_FLV_AUDIO, &payload, &track), is_read);
        assert_int_equal(track.id, is_read ? 3 : 0);
        sluice_slice_release(&track.slice);
        sluice_slice_release(&payload);
    }
}

static void a_place_of_another_payload_is_refused(void **state) {
    sluice_slice payload = slice_of(*state, examples[0].bytes, 5, 0);
    sluice_flv_tracks place = {.at = 6};
    sluice_flv_track track;
    assert_int_equal(sluice_flv_next_track(&place, SLUICE_FLV_VIDEO, &payload, &track), -EINVAL);
    sluice_slice_release(&payload);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, feed_set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(tracks_are_where_their_sizes_say),      TEST(payloads_that_end_early_are_told),
        TEST(sizes_beyond_the_payload_are_refused),  TEST(a_composition_time_is_within_its_track),
        TEST(other_payloads_have_no_tracks),         TEST(tracks_are_behind_so_many_modifiers),
        TEST(a_place_of_another_payload_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
