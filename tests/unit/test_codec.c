/* Decoder configurations: records of ffmpeg's files, parameters of its SDP, parameter sets; one
 * from the other. */
#include <sluice/codec.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/flv_media.h"
#include "support/slices.h"

static int set_up(void **state) {
    *state = http_feed_pool(512, 16384);
    return 0;
}

static int tear_down(void **state) {
    http_feed_pool_done(*state);
    return 0;
}

static const struct file {
    const char *flv, *session;
    uint32_t codecs[2];
} files[] = {
    {"flv-h264-aac.flv", "flv-h264-aac.publish", {SLUICE_CODEC_H264, SLUICE_CODEC_AAC}},
    {"flv-h265-aac.flv", "flv-h265-aac.publish", {SLUICE_CODEC_HEVC, SLUICE_CODEC_AAC}},
    {"flv-h264-opus.flv", "flv-h264-opus.publish", {SLUICE_CODEC_H264, SLUICE_CODEC_OPUS}},
};
enum { FILES = sizeof files / sizeof *files };

static int read_record(sluice_pool *pool, uint32_t codec, const uint8_t *bytes, size_t size, size_t piece,
                       sluice_codec_config *config) {
    sluice_slice slice = slice_of(pool, bytes, size, piece);
    int result = sluice_codec_read_record(config, codec, &slice, 0);
    sluice_slice_release(&slice);
    return result;
}

static void assert_same_sets(const sluice_codec_config *a, const sluice_codec_config *b) {
    assert_int_equal(a->codec, b->codec);
    assert_int_equal(a->set_count, b->set_count);
    for (size_t i = 0; i < a->set_count; i++) {
        assert_int_equal(a->sets[i].type, b->sets[i].type);
        assert_int_equal(a->sets[i].length, b->sets[i].length);
        assert_memory_equal(a->bytes + a->sets[i].offset, b->bytes + b->sets[i].offset, a->sets[i].length);
    }
}

static int read_fmtp(sluice_codec_config *config, const char *text, sluice_rtp_unpacker_options *options) {
    return sluice_codec_read_fmtp(config, (sluice_http_text){text, strlen(text)}, options);
}

static void records_of_ffmpeg(void **state) {
    sluice_pool *pool = *state;
    for (size_t i = 0; i < FILES; i++) {
        flv_media *media = flv_media_read(files[i].flv);
        flv_media_track tracks[2];
        assert_int_equal(flv_media_tracks(files[i].session, tracks), 2);
        for (int kind = 0; kind < 2; kind++) {
            const flv_media_frame *header = flv_media_find(media, kind ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO,
                                                           SLUICE_FLV_SEQUENCE_HEADER, 0);
            sluice_codec_config config = {0}, again;
            uint8_t record[SLUICE_CODEC_MAX_RECORD];
            char fmtp[SLUICE_CODEC_MAX_FMTP];
            assert_non_null(header);
            for (size_t piece = 0; piece < 4; piece++)
                assert_int_equal(read_record(pool, files[i].codecs[kind], header->bytes, header->size, piece, &config),
                                 0);
            assert_true(sluice_codec_is_complete(&config));
            /* What SDP says is the same. */
            if (kind == 0) {
                assert_same_sets(&config, &tracks[0].config);
                assert_int_equal(config.width, 128);
                assert_int_equal(config.height, 96);
                assert_true(config.reorder_known);
                assert_int_equal(config.reorder, 2);
                assert_int_equal(config.frame_duration, 9000);
                assert_int_equal(config.clock_rate, 90000);
                assert_int_equal(config.length_size, 4);
            } else {
                assert_int_equal(config.clock_rate, tracks[1].config.clock_rate);
                assert_int_equal(config.channels, tracks[1].config.channels);
                assert_int_equal(config.size, tracks[1].config.size);
                assert_memory_equal(config.bytes, tracks[1].config.bytes, config.size);
            }
            /* Written, it is as it was; H.265's holds an SEI too, and Opus a pre-skip. */
            int size = sluice_codec_write_record(&config, record, sizeof record);
            assert_true(size > 0);
            if (config.codec == SLUICE_CODEC_H264 || config.codec == SLUICE_CODEC_AAC) {
                assert_int_equal(size, header->size);
                assert_memory_equal(record, header->bytes, (size_t)size);
            }
            if (config.codec == SLUICE_CODEC_HEVC) /* general profile, chroma, depth, layers */
                assert_memory_equal(record, header->bytes, 22);
            for (int less = 0; less < size; less++)
                assert_int_equal(sluice_codec_write_record(&config, record, (size_t)less), -EMSGSIZE);
            assert_int_equal(sluice_codec_write_record(&config, record, (size_t)size), size);
            assert_int_equal(read_record(pool, config.codec, record, (size_t)size, 0, &again), 0);
            assert_same_sets(&config, &again);

            int length = sluice_codec_write_fmtp(&config, fmtp, sizeof fmtp);
            assert_true(length > 0 && (size_t)length == strlen(fmtp));
            assert_int_equal(sluice_codec_init(&again, config.codec, config.clock_rate, config.channels), 0);
            assert_int_equal(read_fmtp(&again, fmtp, NULL), 0);
            assert_same_sets(&config, &again);
            assert_int_equal(again.size, config.size);
            assert_int_equal(again.frame_duration, config.frame_duration);
            char small[SLUICE_CODEC_MAX_FMTP];
            for (size_t room = 0; room <= (size_t)length; room++)
                assert_int_equal(sluice_codec_write_fmtp(&config, small, room), -EMSGSIZE);
            assert_int_equal(sluice_codec_write_fmtp(&config, small, (size_t)length + 1), length);
        }
        flv_media_free(media);
    }
}

/* Cut short, a record is refused at every length, or holds what is in it; damaged, it is refused or
 * read, no more. */
static void broken_records(void **state) {
    sluice_pool *pool = *state;
    uint64_t seed = 0x2545F4914F6CDD1D;
    unsigned refused = 0;
    for (size_t i = 0; i < FILES; i++) {
        flv_media *media = flv_media_read(files[i].flv);
        for (int kind = 0; kind < 2; kind++) {
            const flv_media_frame *header = flv_media_find(media, kind ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO,
                                                           SLUICE_FLV_SEQUENCE_HEADER, 0);
            uint32_t codec = files[i].codecs[kind];
            size_t least = codec == SLUICE_CODEC_AAC ? 2 : codec == SLUICE_CODEC_H264 ? header->size - 4 : header->size;
            sluice_codec_config config = {.codec = 77};
            for (size_t size = 0; size < least; size++)
                assert_int_equal(read_record(pool, codec, header->bytes, size, 0, &config), -EPROTO);
            assert_int_equal(config.codec, 77);
            assert_int_equal(read_record(pool, SLUICE_CODEC_AV1, header->bytes, header->size, 0, &config), -EOPNOTSUPP);
            assert_int_equal(read_record(pool, SLUICE_CODEC_PCMA, header->bytes, header->size, 0, &config),
                             -EOPNOTSUPP);
            for (int round = 0; round < 20000; round++) {
                uint8_t bytes[512], record[SLUICE_CODEC_MAX_RECORD];
                char fmtp[SLUICE_CODEC_MAX_FMTP];
                size_t size = header->size < sizeof bytes ? header->size : sizeof bytes;
                memcpy(bytes, header->bytes, size);
                for (uint64_t n = 1 + http_feed_random(&seed) % 4; n > 0; n--)
                    bytes[http_feed_random(&seed) % size] = (uint8_t)http_feed_random(&seed);
                int result = read_record(pool, codec, bytes, size, 0, &config);
                refused += result != 0;
                if (result)
                    continue;
                result = sluice_codec_write_record(&config, record, sizeof record);
                assert_true(result >= 0 || (result == -EINVAL && !sluice_codec_is_complete(&config)));
                assert_true(sluice_codec_write_fmtp(&config, fmtp, sizeof fmtp) >= 0);
                assert_true(config.reorder <= SLUICE_CODEC_MAX_REORDER && config.frame_duration <= 90000);
            }
        }
        flv_media_free(media);
    }
    assert_true(refused > 10000);
}

/* Units of a record of H.265, in two arrays, none of which is a set: as many as there may be, and
 * one more. */
static void units_of_a_record(void **state) {
    enum { HEADER = 23, ARRAY = 3, FIRST = 200, MOST = 256 };
    for (uint8_t more = 0; more < 2; more++) {
        uint8_t record[HEADER + 2 * ARRAY + 2 * (MOST + 1)] = {1, [21] = 3, [22] = 2};
        sluice_codec_config config = {.codec = 77};
        uint8_t *first = record + HEADER, *second = first + ARRAY + 2 * FIRST;
        first[2] = FIRST;
        second[2] = (uint8_t)(MOST - FIRST + more);
        size_t size = HEADER + 2 * ARRAY + 2 * (MOST + (size_t)more);
        assert_int_equal(read_record(*state, SLUICE_CODEC_HEVC, record, size, 0, &config), more ? -EMSGSIZE : 0);
        assert_int_equal(config.codec, more ? 77 : SLUICE_CODEC_HEVC);
    }
}

/* A minimal SPS of the baseline: 16 x 16 pixels, with this number. */
static size_t make_sps(uint8_t id, uint8_t level, uint8_t *to) {
    /* ue(0) frame number, ue(2) order, ue(1) references, no gaps, ue(0) ue(0), frames, 8x8, no
     * crop, no VUI, end */
    const char *tail = "1"
                       "011"
                       "010"
                       "0"
                       "1"
                       "1"
                       "1"
                       "1"
                       "0"
                       "0"
                       "1";
    char bits[64] = "";
    unsigned code = id + 1U, length = 0;
    while (code >> length > 1)
        length++;
    for (unsigned i = 0; i < length; i++)
        strcat(bits, "0");
    for (int i = (int)length; i >= 0; i--)
        strcat(bits, code >> i & 1 ? "1" : "0");
    strcat(bits, tail);
    const uint8_t start[] = {0x67, 66, 0, level};
    memcpy(to, start, 4);
    memset(to + 4, 0, 8);
    for (size_t i = 0; bits[i]; i++)
        to[4 + i / 8] |= (uint8_t)((bits[i] == '1') << (7 - i % 8));
    return 4 + (strlen(bits) + 7) / 8;
}

static void parameter_sets(void **state) {
    (void)state;
    sluice_codec_config config;
    uint8_t sps[32];
    static const uint8_t pps[] = {0x68, 0xE0}, other_pps[] = {0x68, 0x58, 0x80}, slice[] = {0x65, 1, 2};
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_H264, 0, 0), 0);
    assert_false(sluice_codec_is_complete(&config));
    assert_int_equal(sluice_codec_add_set(&config, pps, sizeof pps), 1);
    assert_int_equal(sluice_codec_add_set(&config, sps, make_sps(0, 10, sps)), 1);
    assert_true(sluice_codec_is_complete(&config));
    assert_true(config.width == 16 && config.height == 16 && config.reorder_known && config.reorder == 0);
    assert_int_equal(config.sets[0].type, 7);
    assert_int_equal(sluice_codec_add_set(&config, pps, sizeof pps), 0);
    /* One of the same number takes its place, whatever the lengths; another number is another
     * set. */
    assert_int_equal(sluice_codec_add_set(&config, sps, make_sps(0, 20, sps)), 1);
    assert_int_equal(config.set_count, 2);
    assert_int_equal(sluice_codec_add_set(&config, sps, make_sps(9, 20, sps)), 1);
    assert_int_equal(sluice_codec_add_set(&config, other_pps, sizeof other_pps), 1);
    assert_int_equal(config.set_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(config.sets[i].type, i < 2 ? 7 : 8);
    assert_memory_equal(config.bytes + config.sets[3].offset, other_pps, sizeof other_pps);
    const sluice_codec_config before = config;
    assert_int_equal(sluice_codec_add_set(&config, slice, sizeof slice), -EINVAL);
    assert_int_equal(sluice_codec_add_set(&config, slice, 0), -EINVAL);
    assert_int_equal(sluice_codec_add_set(&config, sps, 4), -EPROTO);
    assert_int_equal(sluice_codec_add_set(&config, pps, 1), -EPROTO);
    assert_memory_equal(&config, &before, sizeof config);

    /* Limits: 32 sets, 2048 bytes. */
    int result = 1;
    for (uint8_t id = 10; result == 1 && id < 32; id++)
        result = sluice_codec_add_set(&config, sps, make_sps(id, 20, sps));
    assert_int_equal(result, 1);
    for (uint8_t id = 1; result == 1 && id < 9; id++)
        result = sluice_codec_add_set(&config, sps, make_sps(id, 20, sps));
    assert_int_equal(result, -EMSGSIZE);
    assert_int_equal(config.set_count, SLUICE_CODEC_MAX_SETS);
    assert_int_equal(sluice_codec_add_set(&config, sps, make_sps(9, 30, sps)), 1);
    uint8_t large[SLUICE_CODEC_MAX_BYTES + 1] = {0x68, 0xE0};
    memset(large + 2, 0x55, sizeof large - 2);
    assert_int_equal(sluice_codec_add_set(&config, large, sizeof large), -EMSGSIZE);
    assert_int_equal(sluice_codec_add_set(&config, large, 2048 - config.size + 2), 1);
    assert_int_equal(config.size, 2048);
    assert_int_equal(sluice_codec_add_set(&config, sps, make_sps(9, 31, sps)), 1);
    uint8_t record[SLUICE_CODEC_MAX_RECORD];
    char fmtp[SLUICE_CODEC_MAX_FMTP];
    assert_true(sluice_codec_write_record(&config, record, sizeof record) > 2048);
    assert_true(sluice_codec_write_fmtp(&config, fmtp, sizeof fmtp) > 2048);
}

/* Numbers of a PPS go to 255. */
static void the_last_number_of_a_set(void **state) {
    (void)state;
    static const uint8_t pps_255[] = {0x68, 0, 0x80, 0x60}, pps_256[] = {0x68, 0, 0x80, 0xE0},
                         pps_257[] = {0x68, 0, 0x81, 0x60};
    sluice_codec_config config;
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_H264, 0, 0), 0);
    assert_int_equal(sluice_codec_add_set(&config, pps_255, sizeof pps_255), 1);
    assert_int_equal(config.sets[0].id, 255);
    assert_int_equal(sluice_codec_add_set(&config, pps_256, sizeof pps_256), -EPROTO);
    assert_int_equal(sluice_codec_add_set(&config, pps_257, sizeof pps_257), -EPROTO);
}

/* What is known of a codec before its configuration has come. */
static void what_the_codec_alone_says(void **state) {
    (void)state;
    static const struct {
        uint32_t codec, clock_rate, frame_duration;
        uint8_t channels;
    } cases[] = {
        {SLUICE_CODEC_H264, 90000, 0, 0}, {SLUICE_CODEC_HEVC, 90000, 0, 0}, {SLUICE_CODEC_OPUS, 48000, 0, 2},
        {SLUICE_CODEC_PCMA, 8000, 0, 1},  {SLUICE_CODEC_PCMU, 8000, 0, 1},
    };
    sluice_codec_config config;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sluice_codec_init(&config, cases[i].codec, 0, 0), 0);
        assert_int_equal(config.clock_rate, cases[i].clock_rate);
        assert_int_equal(config.frame_duration, cases[i].frame_duration);
        assert_int_equal(config.channels, cases[i].channels);
    }
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_AAC, 44100, 2), 0);
    assert_int_equal(config.frame_duration, 1024);
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_VP9, 0, 0), -EOPNOTSUPP);
}

static void parameters_of_sdp(void **state) {
    (void)state;
    sluice_codec_config config;
    sluice_rtp_unpacker_options options = {.size = sizeof options};
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_H264, 0, 0), 0);
    /* Blanks, unknown parameters, sets that are none. */
    assert_int_equal(
        read_fmtp(&config, " packetization-mode = 1 ;foo;;bar=; SPROP-parameter-sets=Z0IAFJWgUH5A, aM4xsg== ,!,", NULL),
        0);
    assert_true(config.set_count == 2 || config.set_count == 1);
    assert_int_equal(read_fmtp(&config, "packetization-mode=2", NULL), -EOPNOTSUPP);
    assert_int_equal(read_fmtp(&config, "packetization-mode=x", NULL), -EPROTO);
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_HEVC, 0, 0), 0);
    assert_int_equal(read_fmtp(&config, "sprop-max-don-diff=0;sprop-depack-buf-nalus=0", NULL), 0);
    assert_int_equal(read_fmtp(&config, "sprop-max-don-diff=1", NULL), -EOPNOTSUPP);
    assert_int_equal(read_fmtp(&config, "sprop-depack-buf-nalus=2", NULL), -EOPNOTSUPP);
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_AAC, 44100, 2), 0);
    assert_false(sluice_codec_is_complete(&config));
    assert_int_equal(
        read_fmtp(&config, "mode=AAC-lbr; SizeLength=6;indexLength=2; indexDeltaLength=2;config=139056E5A0", &options),
        0);
    assert_true(options.size_length == 6 && options.index_length == 2 && options.index_delta_length == 2);
    /* The clock is rtpmap's: twice the rate that the config gives. */
    assert_int_equal(options.frame_duration, 2048);
    assert_true(config.clock_rate == 44100 && config.channels == 2 && config.size == 5);
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_AAC, 0, 0), 0);
    assert_int_equal(read_fmtp(&config, "config=139056E5A0", NULL), 0);
    assert_true(config.clock_rate == 22050 && config.frame_duration == 1024);
    static const char *const wrong[] = {"config=1",          "config=1x",   "config=",
                                        "sizelength=17",     "sizelength=", "indexlength=9",
                                        "sizelength=100000", "config=F8",   "config=0000"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_fmtp(&config, wrong[i], &options), -EPROTO);
    assert_int_equal(read_fmtp(&config, "constantsize=100", &options), -EOPNOTSUPP);
    static const char *const unused[] = {"sizelength=1",
                                         "sizelength=5",
                                         "sizelength=12",
                                         "sizelength=15",
                                         "sizelength=13;indexlength=1",
                                         "sizelength=13;indexlength=4",
                                         "sizelength=13;indexdeltalength=8"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        assert_int_equal(read_fmtp(&config, unused[i], &options), -EOPNOTSUPP);
    assert_int_equal(options.size_length, 6);

    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_OPUS, 48000, 2), 0);
    char fmtp[64];
    assert_int_equal(sluice_codec_write_fmtp(&config, fmtp, sizeof fmtp), 14);
    assert_string_equal(fmtp, "sprop-stereo=1");
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_PCMU, 0, 0), 0);
    assert_true(config.clock_rate == 8000 && config.channels == 1);
    assert_int_equal(sluice_codec_write_fmtp(&config, fmtp, sizeof fmtp), 0);
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_MP3, 0, 0), -EOPNOTSUPP);
    assert_int_equal(sluice_codec_by_rtp_name((sluice_http_text){"h264", 4}), SLUICE_CODEC_H264);
    assert_int_equal(sluice_codec_by_rtp_name((sluice_http_text){"mpeg4-generic", 13}), SLUICE_CODEC_AAC);
    assert_int_equal(sluice_codec_by_rtp_name((sluice_http_text){"VP8", 3}), SLUICE_CODEC_NONE);
    assert_null(sluice_codec_rtp_name(SLUICE_CODEC_VP8));
    assert_int_equal(sluice_codec_rtp_format(SLUICE_CODEC_VP8), -EOPNOTSUPP);
}

/* Half of one and half of another would be none: here mono of the first, and what the second says
 * of a rate. */
static void two_configurations_are_not_mixed(void **state) {
    sluice_codec_config config;
    (void)state;
    assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_AAC, 0, 0), 0);
    assert_int_equal(read_fmtp(&config, "config=1188;CONFIG=4640", NULL), 0);
    assert_true(config.clock_rate == 48000 && config.channels == 1 && config.frame_duration == 1024);
    assert_true(config.size == 2 && config.bytes[0] == 0x11 && config.bytes[1] == 0x88);
}

static int read_latm(sluice_codec_config *config, sluice_rtp_unpacker_options *options, const char *fmtp) {
    *options = (sluice_rtp_unpacker_options){.size = sizeof(sluice_rtp_unpacker_options)};
    assert_int_equal(sluice_codec_read_rtpmap(config, (sluice_http_text){"mp4a-latm", 9}, 48000, 0, options), 0);
    assert_true(config->codec == SLUICE_CODEC_AAC && options->latm);
    return read_fmtp(config, fmtp, options);
}

/* MP4A-LATM: the AudioSpecificConfig is taken out of the StreamMuxConfig, which is not at a byte's
 * beginning. */
static void latm_configurations(void **state) {
    (void)state;
    static const struct {
        const char *fmtp, *config;
        uint32_t duration;
        uint8_t channels;
    } good[] = {
        /* As RFC 6416 has it, and as GStreamer writes it, where the AudioSpecificConfig is the
         * end. */
        {"cpresent=0;config=400023203FC0", "1190", 1024, 2},
        {"config=40002320; cpresent=0", "1190", 1024, 2},
        {"cpresent=0;config=40002320ADCA00", "119056E500", 1024, 2},
        /* SBR, told first or behind; an explicit rate; a CRC behind; a core coder's delay. */
        {"object=5; cpresent=0; config=40005623101FE0", "2B118800", 2048, 2},
        {"cpresent=0; config=40002620ADCB3A911FE0", "131056E59D4880", 2048, 2},
        {"cpresent=0;config=40002F00BB80103FC0", "17805DC008", 1024, 1},
        {"cpresent=0;config=400023103FDA50", "1188", 1024, 1},
        {"cpresent=0;config=400023240000FF00", "11920000", 1024, 2},
    };
    sluice_codec_config config;
    sluice_rtp_unpacker_options options = {.size = sizeof options};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char hex[64] = "";
        assert_int_equal(read_latm(&config, &options, good[i].fmtp), 0);
        for (size_t at = 0; at < config.size; at++)
            snprintf(hex + 2 * at, 3, "%02X", config.bytes[at]);
        assert_string_equal(hex, good[i].config);
        assert_int_equal(options.frame_duration, good[i].duration);
        assert_int_equal(config.channels, good[i].channels);
    }
    /* In band; version 1; times of their own; two frames; two programs; two layers; channels by an
     * element; CELP; with an extension; a fixed length; other data. */
    static const char *const other[] = {"config=400023203FC0",
                                        "cpresent=1;config=400023203FC0",
                                        "cpresent=0;config=C00023203FC0",
                                        "cpresent=0;config=000023203FC0",
                                        "cpresent=0;config=410023203FC0",
                                        "cpresent=0;config=401023203FC0",
                                        "cpresent=0;config=400223203FC0",
                                        "cpresent=0;config=400023003FC0",
                                        "cpresent=0;config=400083203FC0",
                                        "cpresent=0;config=400023223FC0",
                                        "cpresent=0;config=400023207FC0",
                                        "cpresent=0;config=400023203FE0"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_equal(read_latm(&config, &options, other[i]), -EOPNOTSUPP);
    static const char *const wrong[] = {"cpresent=0;config=", "cpresent=0;config=40", "cpresent=0;config=4000",
                                        "cpresent=0;config=400023", "cpresent=x;config=400023203FC0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_latm(&config, &options, wrong[i]), -EPROTO);
    assert_int_equal(read_latm(&config, &options, "cpresent=0"), 0);
    assert_false(sluice_codec_is_complete(&config));
    options.latm = true;
    assert_int_equal(sluice_codec_read_rtpmap(&config, (sluice_http_text){"mpeg4-generic", 13}, 0, 0, &options), 0);
    assert_false(options.latm);
    assert_int_equal(sluice_codec_read_rtpmap(&config, (sluice_http_text){"VP8", 3}, 0, 0, &options), -EOPNOTSUPP);
}

/* An AudioSpecificConfig of ISO/IEC 14496-3: object type, rate, channels, short frames. */
static int read_config(sluice_pool *pool, uint64_t bits, unsigned count, sluice_codec_config *config) {
    uint8_t bytes[8];
    bits <<= 64 - count;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(bits >> (56 - 8 * i));
    return read_record(pool, SLUICE_CODEC_AAC, bytes, (count + 7) / 8, 0, config);
}

static void rates_and_channels_of_aac(void **state) {
    static const uint32_t rates[] = {96000, 88200, 64000, 48000, 44100, 32000, 24000,
                                     22050, 16000, 12000, 11025, 8000,  7350};
    static const uint8_t channels[16] = {0, 1, 2, 3, 4, 5, 6, 8, 0, 0, 0, 7, 8, 24, 8, 0};
    sluice_codec_config config;
    for (uint32_t rate = 0; rate < 15; rate++) {
        for (uint32_t layout = 0; layout < 16; layout++) {
            for (uint32_t is_short = 0; is_short < 2; is_short++) {
                int result = read_config(*state, 2 << 10 | rate << 6 | layout << 2 | is_short << 1, 15, &config);
                assert_int_equal(result, rate < 13 ? 0 : -EPROTO);
                if (result)
                    continue;
                assert_int_equal(config.clock_rate, rates[rate]);
                assert_int_equal(config.frame_duration, is_short ? 960 : 1024);
                assert_int_equal(config.channels, channels[layout]);
            }
        }
    }
    /* A rate that has no number; an object type of more bits; none; and both that are an extension
     * of another. */
    assert_int_equal(read_config(*state, UINT64_C(2) << 34 | UINT64_C(15) << 30 | 12345 << 6 | 2 << 2, 39, &config), 0);
    assert_int_equal(config.clock_rate, 12345);
    assert_int_equal(read_config(*state, 31 << 16 | 5 << 10 | 4 << 6 | 1 << 2 | 2, 21, &config), 0);
    assert_true(config.clock_rate == 44100 && config.channels == 1 && config.frame_duration == 960);
    assert_int_equal(read_config(*state, 0 << 10 | 4 << 6 | 2 << 2, 15, &config), -EPROTO);
    for (uint64_t type = 5; type <= 29; type += 24) {
        assert_int_equal(read_config(*state, type << 19 | 6 << 15 | 2 << 11 | 3 << 7 | 2 << 2 | 2, 24, &config), 0);
        assert_true(config.clock_rate == 24000 && config.channels == 2 && config.frame_duration == 960);
        assert_int_equal(read_config(*state, type << 19 | 6 << 15 | 2 << 11 | 3 << 7 | 0 << 2, 24, &config), -EPROTO);
    }
    assert_int_equal(read_config(*state, 2 << 6 | 4 << 2, 8, &config), -EPROTO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_of_ffmpeg, set_up, tear_down),
        cmocka_unit_test_setup_teardown(broken_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(units_of_a_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rates_and_channels_of_aac, set_up, tear_down),
        cmocka_unit_test(parameter_sets),
        cmocka_unit_test(the_last_number_of_a_set),
        cmocka_unit_test(what_the_codec_alone_says),
        cmocka_unit_test(latm_configurations),
        cmocka_unit_test(parameters_of_sdp),
        cmocka_unit_test(two_configurations_are_not_mixed),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
