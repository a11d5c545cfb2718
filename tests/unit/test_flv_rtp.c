/* FLV to RTP: which packets a tag becomes, byte for byte, and when they are shown. */
#include <sluice/flv_rtp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/slices.h"

static int set_up(void **state) {
    *state = http_feed_pool(4096, 4096);
    return 0;
}

static int tear_down(void **state) {
    http_feed_pool_done(*state);
    return 0;
}

#define BYTES(...)                                                                                                     \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]) {                                                          \
        __VA_ARGS__                                                                                                    \
    }

/* What x264 has written, behind the tag's own header; the length prefixes' size is in byte 9. */
static const uint8_t avc_header[] = {
    0x17, 0,    0,    0,    0,    0x01, 0x64, 0x00, 0x0A, 0xFF, 0xE1, 0x00, 0x18, 0x67, 0x64, 0x00,
    0x0A, 0xAC, 0xD9, 0x42, 0x0D, 0xB0, 0x11, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00,
    0x14, 0x0F, 0x12, 0x25, 0x96, 0x01, 0x00, 0x04, 0x68, 0xEF, 0x8F, 0xCB, 0xFD, 0xF8, 0xF8, 0x00,
};
enum { LENGTH_SIZE_AT = 9, SPS_AT = 13, SPS_SIZE = 24, PPS_AT = 40, PPS_SIZE = 4 };
static const uint8_t aac_header[] = {0xAF, 0, 0x12, 0x08, 0x56, 0xE5, 0x00};

static sluice_flv_rtp *track_new(sluice_flv_type type, uint32_t max_packet) {
    const sluice_flv_rtp_options options = {.size = sizeof options,
                                            .type = type,
                                            .payload_type = 97,
                                            .ssrc = 0x01020304,
                                            .sequence = 65535,
                                            .timestamp = 1000,
                                            .max_packet = max_packet};
    sluice_flv_rtp *rtp;
    assert_int_equal(sluice_flv_rtp_new(&options, &rtp), 0);
    return rtp;
}

static int push(sluice_pool *pool, sluice_flv_rtp *rtp, sluice_flv_type type, uint32_t timestamp, const uint8_t *bytes,
                size_t size, size_t piece) {
    sluice_slice slice = slice_of(pool, bytes, size, piece);
    int result = sluice_flv_rtp_push(rtp, type, timestamp, &slice);
    sluice_slice_release(&slice);
    return result;
}

/* The next packet: its payload, marker and timestamp. */
static void expect(sluice_flv_rtp *rtp, const uint8_t *payload, size_t size, bool marker, uint32_t timestamp) {
    sluice_flv_rtp_packet packet;
    uint8_t bytes[4096];
    uint16_t sequence = sluice_flv_rtp_sequence(rtp);
    assert_int_equal(sluice_flv_rtp_next(rtp, &packet), 1);
    const uint8_t header[] = {0x80,
                              (uint8_t)(marker << 7 | 97),
                              (uint8_t)(sequence >> 8),
                              (uint8_t)sequence,
                              (uint8_t)(timestamp >> 24),
                              (uint8_t)(timestamp >> 16),
                              (uint8_t)(timestamp >> 8),
                              (uint8_t)timestamp,
                              1,
                              2,
                              3,
                              4};
    if (packet.timestamp != timestamp)
        fail_msg("timestamp %u, not %u", packet.timestamp, timestamp);
    assert_memory_equal(packet.header, header, sizeof header);
    assert_int_equal(packet.marker, marker);
    assert_int_equal(packet.sequence, sequence);
    assert_int_equal(sluice_flv_rtp_sequence(rtp), (uint16_t)(sequence + 1));
    size_t own = packet.header_size - sizeof header;
    memcpy(bytes, packet.header + sizeof header, own);
    assert_int_equal(own + slice_bytes(&packet.slice, bytes + own, sizeof bytes - own), size);
    assert_memory_equal(bytes, payload, size);
}

static void expect_end(sluice_flv_rtp *rtp, int result) {
    sluice_flv_rtp_packet packet;
    assert_int_equal(sluice_flv_rtp_next(rtp, &packet), result);
    assert_int_equal(sluice_flv_rtp_next(rtp, &packet), 0);
}

/* A key picture is preceded by the sets, behind its delimiter; one that brings its own is not, nor
 * are others. */
static void pictures(void **state) {
    sluice_pool *pool = *state;
    static const uint8_t key[] = {0x17, 1, 0, 0, 20, 0, 0, 0, 2, 9, 0xF0, 0, 0, 0, 3, 0x65, 1, 2, 0, 0, 0, 2, 0x65, 3};
    static const uint8_t own[] = {0x17, 1, 0, 0, 0, 0, 0, 0, 2, 0x06, 5, 0, 0, 0, 2, 0x67, 7, 0, 0, 0, 2, 0x65, 3};
    static const uint8_t inter[] = {0x27, 1, 0xFF, 0xFF, 0xF6, 0, 0, 0, 2, 0x41, 1};
    for (size_t piece = 0; piece < 8; piece++) {
        sluice_flv_rtp *rtp = track_new(SLUICE_FLV_VIDEO, 0);
        assert_null(sluice_flv_rtp_config(rtp));
        /* Without its sequence header a picture is not sent. */
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, key, sizeof key, piece), 0);
        expect_end(rtp, 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, avc_header, sizeof avc_header, piece), 0);
        expect_end(rtp, 0);
        assert_int_equal(sluice_flv_rtp_config(rtp)->codec, SLUICE_CODEC_H264);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 40, key, sizeof key, piece), 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 40, key, sizeof key, piece), -EBUSY);
        const uint32_t shown = 1000 + 60 * 90;
        expect(rtp, BYTES(9, 0xF0), false, shown);
        expect(rtp, avc_header + SPS_AT, SPS_SIZE, false, shown);
        expect(rtp, avc_header + PPS_AT, PPS_SIZE, false, shown);
        expect(rtp, BYTES(0x65, 1, 2), false, shown);
        expect(rtp, BYTES(0x65, 3), true, shown);
        expect_end(rtp, 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 80, own, sizeof own, piece), 0);
        expect(rtp, BYTES(0x06, 5), false, 1000 + 80 * 90);
        expect(rtp, BYTES(0x67, 7), false, 1000 + 80 * 90);
        expect(rtp, BYTES(0x65, 3), true, 1000 + 80 * 90);
        expect_end(rtp, 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 120, inter, sizeof inter, piece), 0);
        expect(rtp, BYTES(0x41, 1), true, 1000 + 110 * 90);
        expect_end(rtp, 0);
        /* Audio, metadata, the end of the sequence and what is too short are none of its
         * business. */
        assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 120, aac_header, sizeof aac_header, piece), 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_SCRIPT, 120, BYTES(2, 0, 0), piece), 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 120, BYTES(0x17, 2, 0, 0, 0), piece), 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 120, BYTES(0x17, 1, 0, 0, 0), piece), 0);
        expect_end(rtp, 0);
        sluice_flv_rtp_stats stats = {.size = sizeof stats};
        sluice_flv_rtp_get_stats(rtp, &stats);
        assert_int_equal(stats.packets, 9);
        assert_int_equal(stats.octets, 2 + 24 + 4 + 3 + 2 + 2 + 2 + 2 + 2);
        sluice_flv_rtp_free(rtp);
    }
}

/* A tag can be given up within a NAL unit or between two; the next one begins anew, with the number
 * that is next. */
static void cancelled(void **state) {
    sluice_pool *pool = *state;
    static const uint8_t key[] = {0x17, 1, 0, 0, 0, 0, 0, 0, 2, 9, 0xF0, 0, 0, 0, 3, 0x65, 1, 2};
    uint8_t large[200] = {0x27, 1, 0, 0, 0, 0, 0, 0, 191, 0x41};
    for (size_t piece = 0; piece < 8; piece++) {
        sluice_flv_rtp *rtp = track_new(SLUICE_FLV_VIDEO, 64);
        sluice_flv_rtp_cancel(rtp);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, avc_header, sizeof avc_header, piece), 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 40, key, sizeof key, piece), 0);
        expect(rtp, BYTES(9, 0xF0), false, 1000 + 40 * 90);
        sluice_flv_rtp_cancel(rtp);
        expect_end(rtp, 0);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 80, large, sizeof large, piece), 0);
        sluice_flv_rtp_packet packet;
        uint8_t bytes[64];
        assert_int_equal(sluice_flv_rtp_next(rtp, &packet), 1);
        assert_int_equal(packet.sequence, 0);
        sluice_flv_rtp_cancel(rtp);
        assert_int_equal(slice_bytes(&packet.slice, bytes, sizeof bytes), 64 - packet.header_size);
        expect_end(rtp, 0);
        sluice_flv_rtp_cancel(rtp);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 120, key, sizeof key, piece), 0);
        expect(rtp, BYTES(9, 0xF0), false, 1000 + 120 * 90);
        expect(rtp, avc_header + SPS_AT, SPS_SIZE, false, 1000 + 120 * 90);
        sluice_flv_rtp_free(rtp);
    }
}

/* Length prefixes of one and two bytes, empty NAL units, and lengths that go too far. */
static void length_prefixes(void **state) {
    sluice_pool *pool = *state;
    uint8_t header[sizeof avc_header];
    memcpy(header, avc_header, sizeof header);
    sluice_flv_rtp *rtp = track_new(SLUICE_FLV_VIDEO, 0);
    header[LENGTH_SIZE_AT] = 0xFC;
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, header, sizeof header, 0), 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 0, 2, 0x41, 1, 0, 1, 0x41, 0), 0), 0);
    expect(rtp, BYTES(0x41, 1), false, 1000);
    expect(rtp, BYTES(0x41), true, 1000); /* what follows is empty: this is the last */
    expect_end(rtp, 0);
    header[LENGTH_SIZE_AT] = 0xFD;
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, header, sizeof header, 0), 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 0, 2, 0x41, 1, 0, 9, 0x41), 0), 0);
    expect(rtp, BYTES(0x41, 1), true, 1000);
    expect_end(rtp, -EPROTO);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 0, 2, 0x41, 1, 0), 0), 0);
    expect(rtp, BYTES(0x41, 1), true, 1000);
    expect_end(rtp, -EPROTO);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 1), 0), 0);
    expect_end(rtp, -EPROTO);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 0, 0), 0), 0);
    expect_end(rtp, 0);
    header[LENGTH_SIZE_AT] = 0xFE;
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, header, sizeof header, 0), -EPROTO);
    /* The one before holds on. */
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 0, 1, 0x41), 0), 0);
    expect(rtp, BYTES(0x41), true, 1000);
    expect_end(rtp, 0);
    sluice_flv_rtp_free(rtp);
}

/* A tag whose lengths have a byte: so many empty NAL units, others, and empty ones again. */
static void push_empty(sluice_pool *pool, sluice_flv_rtp *rtp, bool is_key, size_t before, const uint8_t *units,
                       size_t size, size_t behind) {
    size_t total = 5 + before + size + behind;
    uint8_t *tag = calloc(1, total);
    assert_non_null(tag);
    tag[0] = is_key ? 0x17 : 0x27;
    tag[1] = 1;
    for (size_t i = 0; i < size; i++)
        tag[5 + before + i] = units[i];
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, tag, total, 0), 0);
    free(tag);
}

static void expect_sets(sluice_flv_rtp *rtp, bool is_key) {
    if (!is_key)
        return;
    expect(rtp, avc_header + SPS_AT, SPS_SIZE, false, 1000);
    expect(rtp, avc_header + PPS_AT, PPS_SIZE, false, 1000);
}

/* NAL units without a packet: as many as there may be in a tag, wherever they are, one more, and a
 * tag that is full of them. */
static void empty_units(void **state) {
    enum { MOST = SLUICE_FLV_RTP_MAX_SKIPPED, PLENTY = 1 << 20 };
    static const uint8_t slice[] = {2, 0x65, 1}, sei[] = {2, 0x06, 5};
    sluice_pool *pool = *state;
    uint8_t header[sizeof avc_header];
    memcpy(header, avc_header, sizeof header);
    header[LENGTH_SIZE_AT] = 0xFC;
    sluice_flv_rtp *rtp = track_new(SLUICE_FLV_VIDEO, 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, header, sizeof header, 0), 0);
    for (int is_key = 0; is_key < 2; is_key++) {
        push_empty(pool, rtp, is_key, MOST, NULL, 0, 0);
        expect_end(rtp, 0);
        push_empty(pool, rtp, is_key, MOST + 1, NULL, 0, 0);
        expect_end(rtp, -EMSGSIZE);
        push_empty(pool, rtp, is_key, PLENTY, NULL, 0, 0);
        expect_end(rtp, -EMSGSIZE);
        push_empty(pool, rtp, is_key, MOST + 1, slice, sizeof slice, 0);
        expect_end(rtp, -EMSGSIZE);
        for (size_t before = 0; before <= MOST; before += MOST / 2)
            for (size_t more = 0; more < 2; more++) {
                push_empty(pool, rtp, is_key, before, slice, sizeof slice, MOST - before + more);
                expect_sets(rtp, is_key);
                expect(rtp, slice + 1, 2, true, 1000);
                expect_end(rtp, more ? -EMSGSIZE : 0);
            }
    }
    /* Behind a SEI: of a key picture it is one of those that precede the first slice. */
    push_empty(pool, rtp, false, 0, sei, sizeof sei, PLENTY);
    expect(rtp, sei + 1, 2, true, 1000);
    expect_end(rtp, -EMSGSIZE);
    push_empty(pool, rtp, true, 0, sei, sizeof sei, PLENTY);
    expect_end(rtp, -EMSGSIZE);
    for (size_t more = 0; more < 2; more++) {
        push_empty(pool, rtp, true, MOST - 1 + more, BYTES(2, 0x06, 5, 2, 0x65, 1), 0);
        if (more == 0) {
            expect_sets(rtp, true);
            expect(rtp, sei + 1, 2, false, 1000);
            expect(rtp, slice + 1, 2, true, 1000);
        }
        expect_end(rtp, more ? -EMSGSIZE : 0);
    }
    sluice_flv_rtp_free(rtp);
}

/* AAC's frames follow each other without gaps where milliseconds agree with that; a gap is a
 * gap. */
static void times_of_aac(void **state) {
    sluice_pool *pool = *state;
    sluice_flv_rtp *rtp = track_new(SLUICE_FLV_AUDIO, 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 0, aac_header, sizeof aac_header, 3), 0);
    uint32_t first = UINT32_MAX - 50000; /* the milliseconds wrap round */
    int64_t begin = ((int64_t)first * 44100 + 500) / 1000;
    for (uint64_t i = 0; i < 10000; i++) {
        uint32_t time = first + (uint32_t)((i * 1024 * 1000 * 2 / 44100 + 1) / 2);
        assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, time, BYTES(0xAF, 1, 0x21, 0x22), 0), 0);
        expect(rtp, BYTES(0, 16, 0, 16, 0x21, 0x22), true, (uint32_t)(1000 + begin + (int64_t)i * 1024));
        expect_end(rtp, 0);
    }
    uint32_t later = first + 10000 * 1024 * 10 / 441 + 5000;
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, later, BYTES(0xAF, 1, 0x21), 0), 0);
    int64_t unwrapped = (int64_t)first + 10000 * 1024 * 10 / 441 + 5000;
    expect(rtp, BYTES(0, 16, 0, 8, 0x21), true, (uint32_t)(1000 + (unwrapped * 44100 + 500) / 1000));
    expect_end(rtp, 0);
    sluice_flv_rtp_free(rtp);
}

/* Samples are cut where both channels are whole, and each packet has its own time; Opus is never
 * cut. */
static void g711_and_opus(void **state) {
    sluice_pool *pool = *state;
    uint8_t tag[1 + 130] = {0x73};
    for (size_t i = 1; i < sizeof tag; i++)
        tag[i] = (uint8_t)i;
    sluice_flv_rtp *rtp = track_new(SLUICE_FLV_AUDIO, 65);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 10, tag, sizeof tag, 7), 0);
    assert_true(sluice_flv_rtp_config(rtp)->channels == 2 && sluice_flv_rtp_config(rtp)->clock_rate == 8000);
    expect(rtp, tag + 1, 52, false, 1080);
    expect(rtp, tag + 53, 52, false, 1080 + 26);
    expect(rtp, tag + 105, 26, false, 1080 + 52);
    expect_end(rtp, 0);
    tag[0] = 0x82; /* mono mu-law from now on */
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 20, tag, 54, 7), 0);
    expect(rtp, tag + 1, 53, false, 1160);
    expect_end(rtp, 0);
    assert_int_equal(sluice_flv_rtp_config(rtp)->codec, SLUICE_CODEC_PCMU);

    /* Opus of 20 ms. */
    static const uint8_t head[] = {0x90, 'O', 'p', 'u', 's', 'O', 'p', 'u', 's', 'H', 'e', 'a',
                                   'd',  1,   2,   0,   0,   0,   0,   0,   0,   0,   0,   0};
    uint8_t opus[5 + 54] = {0x91, 'O', 'p', 'u', 's', 0xF8};
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 30, head, sizeof head, 0), 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 30, opus, 5 + 53, 0), 0);
    expect(rtp, opus + 5, 53, false, 1000 + 30 * 48);
    expect_end(rtp, 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 51, opus, sizeof opus, 0), 0);
    expect_end(rtp, -EMSGSIZE);
    sluice_flv_rtp_free(rtp);
}

/* A tag that names its track is as good as another; those of other tracks are nothing to this
 * one. */
static void tracks(void **state) {
    static const sluice_flv_rtp_options options = {
        .size = sizeof options, .type = SLUICE_FLV_AUDIO, .payload_type = 97, .ssrc = 0x01020304, .track = 1};
    static const uint8_t frame[] = {0, 16, 0, 24, 'a', 'b', 'c'};
    sluice_pool *pool = *state;
    sluice_flv_rtp *rtp;
    assert_int_equal(sluice_flv_rtp_new(&options, &rtp), 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 0, aac_header, sizeof aac_header, 0), 0);
    assert_null(sluice_flv_rtp_config(rtp));
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 0, BYTES(0x95, 0, 'm', 'p', '4', 'a', 1, 0x12, 0x10), 0), 0);
    assert_int_equal(sluice_flv_rtp_config(rtp)->channels, 2);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 0, BYTES(0x95, 1, 'm', 'p', '4', 'a', 2, 'x'), 0), 0);
    expect_end(rtp, 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 0, BYTES(0xAF, 1, 'x'), 0), 0);
    expect_end(rtp, 0);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_AUDIO, 0, BYTES(0x95, 1, 'm', 'p', '4', 'a', 1, 'a', 'b', 'c'), 3), 0);
    expect(rtp, frame, sizeof frame, true, 0);
    expect_end(rtp, 0);
    sluice_flv_rtp_free(rtp);
}

static void what_is_refused(void **state) {
    sluice_pool *pool = *state;
    sluice_flv_rtp *rtp = NULL;
    static const sluice_flv_rtp_options wrong[] = {
        {.size = sizeof(sluice_flv_rtp_options), .type = SLUICE_FLV_SCRIPT},
        {.size = sizeof(sluice_flv_rtp_options), .type = SLUICE_FLV_VIDEO, .payload_type = 128},
        {.size = sizeof(sluice_flv_rtp_options), .type = SLUICE_FLV_VIDEO, .max_packet = 63},
        {.size = sizeof(sluice_flv_rtp_options), .type = SLUICE_FLV_VIDEO, .max_packet = 65536},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_flv_rtp_new(&wrong[i], &rtp), -EINVAL);
    assert_null(rtp);
    rtp = track_new(SLUICE_FLV_VIDEO, 0);
    /* VP6; a record cut short; AV1; many tracks in a tag. */
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x14, 0, 1, 2), 0), -EOPNOTSUPP);
    for (size_t size = 5; size < PPS_AT; size++)
        assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, avc_header, size, 0), -EPROTO);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x90, 'a', 'v', '0', '1', 1, 2), 0), -EOPNOTSUPP);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x96, 0x10, 'h', 'v', 'c', '1', 0, 0, 0, 0), 0),
                     -EOPNOTSUPP);
    assert_null(sluice_flv_rtp_config(rtp));
    expect_end(rtp, 0);
    uint8_t report[400];
    assert_int_equal(sluice_flv_rtp_report(rtp, 0, 0, "", report, sizeof report), -EINVAL);
    sluice_flv_rtp_free(rtp);
    sluice_flv_rtp_free(NULL);
}

static void sender_reports(void **state) {
    sluice_pool *pool = *state;
    sluice_flv_rtp *rtp = track_new(SLUICE_FLV_VIDEO, 0);
    const uint64_t zero = (uint64_t)3900000000 << 32 | 5, now = zero + ((uint64_t)5 << 31);
    uint8_t bytes[400];
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, avc_header, sizeof avc_header, 0), 0);
    assert_int_equal(sluice_flv_rtp_timestamp(rtp, 2500), 1000 + 225000);
    assert_int_equal(push(pool, rtp, SLUICE_FLV_VIDEO, 0, BYTES(0x27, 1, 0, 0, 0, 0, 0, 0, 1, 0x41), 0), 0);
    expect(rtp, BYTES(0x41), true, 1000);
    expect_end(rtp, 0);
    int size = sluice_flv_rtp_report(rtp, zero, now, "a@b", bytes, sizeof bytes);
    assert_true(size > 0);
    for (int less = 0; less < size; less++)
        assert_int_equal(sluice_flv_rtp_report(rtp, zero, now, "a@b", bytes, (size_t)less), -EMSGSIZE);
    assert_int_equal(sluice_flv_rtp_report(rtp, zero, now, "a@b", bytes, sizeof bytes), size);
    sluice_slice slice = slice_of(pool, bytes, (size_t)size, 5);
    sluice_rtcp_packet p;
    size_t offset = 0;
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SR && p.ssrc == 0x01020304 && p.ntp == now && p.packets == 1 && p.octets == 1);
    assert_int_equal(p.timestamp, sluice_flv_rtp_timestamp(rtp, 2500));
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SDES && p.text_length == 3);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 0);
    sluice_slice_release(&slice);
    sluice_flv_rtp_free(rtp);
}

/* Tags at random, in pieces as in one: the same packets, none too long, and nothing stays
 * behind. */
static void damage(void **state) {
    sluice_pool *pool = *state;
    uint64_t seed = 0x853C49E6748FEA9B;
    unsigned packets = 0, errors = 0;
    for (int round = 0; round < 300; round++) {
        sluice_flv_rtp *tracks[2] = {track_new(SLUICE_FLV_VIDEO, 64), track_new(SLUICE_FLV_VIDEO, 64)};
        for (int i = 0; i < 60; i++) {
            uint8_t tag[300] = {0x17, 1, 0, 0, 0};
            size_t size = i == 0 ? sizeof avc_header : 5 + http_feed_random(&seed) % 290;
            if (i == 0 || http_feed_random(&seed) % 10 == 0)
                memcpy(tag, avc_header, sizeof avc_header);
            else
                for (size_t at = 5; at + 4 < size;) {
                    size_t length = http_feed_random(&seed) % 140;
                    length = length < size - at - 4 ? length : size - at - 4;
                    tag[at + 3] = (uint8_t)length;
                    tag[at + 4] = 0x65;
                    at += 4 + length;
                }
            for (uint64_t n = i ? http_feed_random(&seed) % 3 : 0; n > 0; n--)
                tag[http_feed_random(&seed) % size] = (uint8_t)http_feed_random(&seed);
            size_t piece = 1 + http_feed_random(&seed) % 40;
            int result = push(pool, tracks[0], SLUICE_FLV_VIDEO, (uint32_t)i, tag, size, 0);
            assert_int_equal(push(pool, tracks[1], SLUICE_FLV_VIDEO, (uint32_t)i, tag, size, piece), result);
            sluice_flv_rtp_packet a, b;
            do {
                result = sluice_flv_rtp_next(tracks[0], &a);
                assert_int_equal(sluice_flv_rtp_next(tracks[1], &b), result);
                errors += result < 0;
                if (result != 1)
                    continue;
                uint8_t x[64], y[64];
                size_t n = slice_bytes(&a.slice, x, sizeof x);
                packets++;
                assert_true(n > 0 && a.header_size + n <= 64);
                assert_int_equal(slice_bytes(&b.slice, y, sizeof y), n);
                assert_memory_equal(x, y, n);
                assert_int_equal(a.header_size, b.header_size);
                assert_memory_equal(a.header, b.header, a.header_size);
            } while (result != 0);
        }
        sluice_flv_rtp_free(tracks[0]);
        sluice_flv_rtp_free(tracks[1]);
    }
    assert_true(packets > 10000 && errors > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pictures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(length_prefixes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_of_aac, set_up, tear_down),
        cmocka_unit_test_setup_teardown(g711_and_opus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tracks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sender_reports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("flv_rtp", tests, NULL, NULL);
}
