/* FLV: views of payloads, and what the writers write. */
#include <sluice/flv.h>

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

/* As many as there may be, and one more. */
static void test_modifier_limit(void **state) {
    static const struct {
        sluice_flv_type type;
        uint32_t codec;
        uint8_t rest[5];
    } cases[] = {{SLUICE_FLV_VIDEO, SLUICE_CODEC_AV1, {'a', 'v', '0', '1', 9}},
                 {SLUICE_FLV_AUDIO, SLUICE_CODEC_OPUS, {'O', 'p', 'u', 's', 9}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t count = 1; count <= SLUICE_FLV_MAX_MODIFIERS + 1; count++) {
            struct vector payload = {.size = 0};
            add_bytes(&payload, "\x97", 1);
            for (uint32_t left = count; left > 0; left--)
                add_bytes(&payload, left > 1 ? "\0\xAA\x07" : "\0\xAA\x01", 3);
            add_bytes(&payload, cases[i].rest, sizeof cases[i].rest);
            sluice_flv_view view = view_of(*state, cases[i].type, payload.bytes, (uint32_t)payload.size, 1 + count % 5);
            bool is_read = count <= SLUICE_FLV_MAX_MODIFIERS;
            assert_int_equal(view.packet, is_read ? SLUICE_FLV_FRAME : SLUICE_FLV_OTHER);
            assert_int_equal(view.codec, is_read ? cases[i].codec : SLUICE_CODEC_NONE);
            assert_int_equal(view.header_size, is_read ? payload.size - 1 : payload.size);
        }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_views),
        TEST(test_short_views),
        TEST(test_empty_views),
        TEST(test_modifier_lengths),
        TEST(test_modifiers_without_end),
        TEST(test_modifier_limit),
        TEST(test_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
