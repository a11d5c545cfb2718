/* RTP to FLV: sessions of ffmpeg give the file they were made of, and so does our own way there. */
#include <sluice/rtp_flv.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/flv_rtp.h>
#include <sluice/rtsp.h>

#include "support/flv_media.h"
#include "support/slices.h"
#include "support/vectors.h"

enum { SMALL = 512 }; /* blocks for headers, bytes */

static int set_up(void **state) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = 4096,
                                         .slab_blocks = 8,
                                         .max_blocks = 16384,
                                         .no_huge_pages = true,
                                         .class_sizes = {SMALL}};
    assert_int_equal(sluice_pool_new(&options, (sluice_pool **)state), 0);
    return 0;
}

static int tear_down(void **state) {
    http_feed_pool_done(*state);
    return 0;
}

static sluice_rtp_flv *session_new(sluice_pool *pool, const flv_media_track *tracks, size_t count) {
    sluice_rtp_flv *flv;
    sluice_pool *small;
    if (sluice_pool_class(pool, SMALL, &small) != 0)
        small = pool;
    assert_int_equal(sluice_rtp_flv_new(small, &flv), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sluice_rtp_flv_add(flv, &tracks[i].config, &tracks[i].unpacker, SLUICE_RTP_FLV_ANY), i);
    return flv;
}

static void drain(sluice_rtp_flv *flv, flv_media *out) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_rtp_flv_next(flv, &tag)) == 1)
        flv_media_add(out, tag);
    assert_int_equal(result, 0);
}

/* The tags of an RTSP session in tests/vectors, received in blocks of @piece bytes. */
static flv_media *receive(sluice_pool *pool, const char *name, size_t piece) {
    flv_media_track tracks[2];
    size_t size, count = flv_media_tracks(name, tracks);
    uint8_t *bytes = vector_read(name, &size);
    sluice_rtp_flv *flv = session_new(pool, tracks, count);
    sluice_chain *chain = http_feed_chain(pool);
    flv_media *out = calloc(1, sizeof *out);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    drain(flv, out);
    for (size_t done = 0; done < size;) {
        size_t more = size - done < piece * 64 ? size - done : piece * 64;
        feed(chain, pool, bytes + done, more, piece);
        done += more;
        while (sluice_rtsp_next(rtsp, chain, &message) == 1) {
            if (message->kind != SLUICE_RTSP_INTERLEAVED)
                continue;
            unsigned track = message->channel / 2;
            if (message->channel % 2)
                assert_int_equal(sluice_rtp_flv_push_rtcp(flv, track, &message->payload, 0, NULL), 0);
            else
                assert_int_equal(sluice_rtp_flv_push(flv, track, &message->payload, 0), 0);
            drain(flv, out);
        }
    }
    sluice_rtp_flv_flush(flv);
    drain(flv, out);
    for (unsigned i = 0; i < count; i++) {
        sluice_rtp_flv_stats stats = {.size = sizeof stats};
        assert_int_equal(sluice_rtp_flv_get_stats(flv, i, &stats), 0);
        assert_true(stats.frames > 0 && stats.lost == 0 && stats.malformed == 0 && stats.damaged == 0);
        assert_true(stats.dropped == 0 && stats.jumps == 0 && stats.skew_us == 0);
    }
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    sluice_rtp_flv_free(flv);
    free(bytes);
    return out;
}

/* ffmpeg gathers AAC frames, and forgets those it has at the end. */
static const struct file {
    const char *flv, *session;
    size_t unsent;
} files[] = {
    {"flv-h264-aac.flv", "flv-h264-aac.publish", 3},   {"flv-h265-aac.flv", "flv-h265-aac.publish", 4},
    {"flv-h264-opus.flv", "flv-h264-opus.publish", 0}, {"flv-pcma.flv", "flv-pcma.publish", 0},
    {"flv-pcmu.flv", "flv-pcmu.publish", 0},
};
enum { FILES = sizeof files / sizeof *files };

static void published_by_ffmpeg(void **state) {
    static const size_t pieces[] = {4096, 1000, 100, 7};
    for (size_t i = 0; i < FILES; i++) {
        flv_media *media = flv_media_read(files[i].flv);
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            flv_media *out = receive(*state, files[i].session, pieces[p]);
            flv_media_compare(media, out, files[i].unsent);
            flv_media_free(out);
        }
        flv_media_free(media);
    }
}

/* A packet as it is on the wire: a player would send the two parts; here they are received
 * again. */
static sluice_slice packet_slice(sluice_pool *pool, const sluice_flv_rtp_packet *packet, size_t piece) {
    static uint8_t bytes[70000];
    memcpy(bytes, packet->header, packet->header_size);
    size_t size = packet->header_size;
    size += slice_bytes(&packet->slice, bytes + size, sizeof bytes - size);
    return slice_of(pool, bytes, size, piece);
}

/* A file on its way to RTP and back. */
struct round_trip {
    sluice_pool *pool;
    size_t piece, most;
    sluice_flv_rtp *tracks[2]; /* video, audio */
    int numbers[2];            /* of them in the session; -1 before there is one */
    sluice_rtp_flv *flv;
    flv_media *out;
    uint64_t zero; /* NTP time of the file's 0 */
};

static void add_track(struct round_trip *trip, int kind) {
    const sluice_codec_config *config = sluice_flv_rtp_config(trip->tracks[kind]);
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    char fmtp[SLUICE_CODEC_MAX_FMTP];
    if (!config || trip->numbers[kind] >= 0)
        return;
    /* What SDP would carry from one to the other. */
    const char *name = sluice_codec_rtp_name(config->codec);
    int length = sluice_codec_write_fmtp(config, fmtp, sizeof fmtp);
    assert_true(length >= 0);
    uint32_t codec = sluice_codec_by_rtp_name((sluice_http_text){name, strlen(name)});
    assert_int_equal(sluice_codec_init(&track.config, codec, config->clock_rate, config->channels), 0);
    assert_int_equal(sluice_codec_read_fmtp(&track.config, (sluice_http_text){fmtp, (size_t)length}, &track.unpacker),
                     0);
    trip->numbers[kind] = sluice_rtp_flv_add(trip->flv, &track.config, &track.unpacker, SLUICE_RTP_FLV_ANY);
    assert_true(trip->numbers[kind] >= 0);
}

static void send_report(struct round_trip *trip, int kind, uint32_t milliseconds) {
    uint8_t bytes[400];
    uint64_t now = trip->zero + ((uint64_t)milliseconds << 32) / 1000;
    int size = sluice_flv_rtp_report(trip->tracks[kind], trip->zero, now, "x@y", bytes, sizeof bytes);
    assert_true(size > 0);
    sluice_slice slice = slice_of(trip->pool, bytes, (size_t)size, trip->piece);
    assert_int_equal(sluice_rtp_flv_push_rtcp(trip->flv, (unsigned)trip->numbers[kind], &slice, 0, NULL), 0);
    sluice_slice_release(&slice);
}

static void send_tag(struct round_trip *trip, int kind, const sluice_flv_tag *tag) {
    sluice_flv_rtp_packet packet;
    bool marker = true;
    int result;
    assert_int_equal(sluice_flv_rtp_push(trip->tracks[kind], tag->type, tag->timestamp, &tag->payload), 0);
    add_track(trip, kind);
    if (tag->view.packet == SLUICE_FLV_FRAME)
        send_report(trip, kind, tag->timestamp);
    while ((result = sluice_flv_rtp_next(trip->tracks[kind], &packet)) == 1) {
        sluice_slice slice = packet_slice(trip->pool, &packet, trip->piece);
        assert_true(slice.length <= trip->most);
        marker = packet.marker;
        assert_int_equal(sluice_rtp_flv_push(trip->flv, (unsigned)trip->numbers[kind], &slice, 0), 0);
        sluice_slice_release(&slice);
        drain(trip->flv, trip->out);
    }
    if (result)
        fail_msg("%d at %u ms, kind %d, packets of %zu", result, tag->timestamp, kind, trip->most);
    assert_true(marker || tag->type == SLUICE_FLV_AUDIO);
}

static flv_media *send_file(sluice_pool *pool, const char *name, size_t piece, uint32_t most) {
    struct round_trip trip = {.pool = pool, .piece = piece, .most = most, .numbers = {-1, -1}, .zero = 9ULL << 61};
    size_t size;
    uint8_t *bytes = vector_read(name, &size);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_flv *flv;
    sluice_flv_tag *tag;
    trip.out = calloc(1, sizeof *trip.out);
    trip.flv = session_new(pool, NULL, 0);
    for (int i = 0; i < 2; i++) {
        const sluice_flv_rtp_options options = {.size = sizeof options,
                                                .type = i ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO,
                                                .payload_type = 96,
                                                .ssrc = 7,
                                                .sequence = 65530,
                                                .timestamp = UINT32_MAX - 1000,
                                                .max_packet = most};
        assert_int_equal(sluice_flv_rtp_new(&options, &trip.tracks[i]), 0);
    }
    assert_int_equal(sluice_flv_new(0, &flv), 0);
    feed(chain, pool, bytes, size, piece);
    while (sluice_flv_next(flv, chain, &tag) == 1)
        if (tag->type != SLUICE_FLV_SCRIPT)
            send_tag(&trip, tag->type == SLUICE_FLV_AUDIO, tag);
    for (int i = 0; i < 2; i++)
        sluice_flv_rtp_free(trip.tracks[i]);
    sluice_flv_free(flv);
    sluice_chain_free(chain);
    sluice_rtp_flv_free(trip.flv);
    free(bytes);
    return trip.out;
}

/* The sequence headers that ffmpeg has written; H.265's holds an SEI too, which is no parameter
 * set. */
static void compare_headers(const flv_media *media, const flv_media *out) {
    for (int type = SLUICE_FLV_AUDIO; type <= SLUICE_FLV_VIDEO; type++) {
        const flv_media_frame *a = flv_media_find(media, (sluice_flv_type)type, SLUICE_FLV_SEQUENCE_HEADER, 0);
        const flv_media_frame *b = flv_media_find(out, (sluice_flv_type)type, SLUICE_FLV_SEQUENCE_HEADER, 0);
        assert_int_equal(!a, !b);
        assert_null(flv_media_find(out, (sluice_flv_type)type, SLUICE_FLV_SEQUENCE_HEADER, 1));
        if (!a || a->view.codec == SLUICE_CODEC_HEVC)
            continue;
        assert_int_equal(a->view.codec, b->view.codec);
        /* but for the pre-skip, which RTP does not tell */
        if (a->view.codec == SLUICE_CODEC_OPUS) {
            assert_int_equal(b->size, 19);
            assert_int_equal(a->bytes[9], b->bytes[9]);
            continue;
        }
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->bytes, b->bytes, a->size);
    }
}

static void there_and_back(void **state) {
    static const size_t pieces[] = {4096, 500, 33};
    static const uint32_t limits[] = {64, 200, 1400, 65535};
    for (size_t i = 0; i < FILES; i++) {
        flv_media *media = flv_media_read(files[i].flv);
        for (size_t p = 0; p < 3; p++)
            for (size_t l = 0; l < 4; l++) {
                /* Opus frames fit into one packet each. */
                if (i == 2 && limits[l] < 1400)
                    continue;
                flv_media *out = send_file(*state, files[i].flv, pieces[p], limits[l]);
                flv_media_compare(media, out, 0);
                compare_headers(media, out);
                flv_media_free(out);
            }
        flv_media_free(media);
    }
}

/* The interleaved frames of a session in tests/vectors. */
struct frames {
    uint8_t *bytes;
    size_t count;
    struct {
        uint8_t channel;
        const uint8_t *bytes;
        size_t size;
    } all[1000];
};

static struct frames *frames_read(const char *name) {
    struct frames *frames = calloc(1, sizeof *frames);
    size_t size;
    assert_non_null(frames);
    frames->bytes = vector_read(name, &size);
    const uint8_t *at = memmem(frames->bytes, size, "RECORD ", 7), *end = frames->bytes + size;
    assert_non_null(at);
    at = (const uint8_t *)memmem(at, (size_t)(end - at), "\r\n\r\n", 4) + 4;
    for (; at < end && *at == '$'; at += 4 + (at[2] << 8 | at[3])) {
        size_t i = frames->count++;
        assert_true(i < 1000);
        frames->all[i].channel = at[1];
        frames->all[i].bytes = at + 4;
        frames->all[i].size = (size_t)at[2] << 8 | at[3];
    }
    return frames;
}

static void frames_free(struct frames *frames) {
    free(frames->bytes);
    free(frames);
}

static int push_bytes(sluice_pool *pool, sluice_rtp_flv *flv, unsigned channel, const uint8_t *bytes, size_t size,
                      uint64_t now) {
    sluice_slice slice = slice_of(pool, bytes, size, 0);
    int result = channel % 2 ? sluice_rtp_flv_push_rtcp(flv, channel / 2, &slice, now, NULL)
                             : sluice_rtp_flv_push(flv, channel / 2, &slice, now);
    sluice_slice_release(&slice);
    return result;
}

static void forget_sets(flv_media_track *track) {
    sluice_codec_init(&track->config, track->config.codec, 0, 0);
}

static size_t count_of(const flv_media *media, sluice_flv_type type, sluice_flv_packet packet) {
    size_t count = 0;
    while (flv_media_find(media, type, packet, count))
        count++;
    return count;
}

/* The NAL units of a picture are behind lengths that fill it, and none of them is a parameter
 * set. */
static void assert_well_formed(const flv_media_frame *frame) {
    if (frame->type != SLUICE_FLV_VIDEO || frame->view.packet != SLUICE_FLV_FRAME)
        return;
    size_t at = 0, units = 0;
    for (; at + 4 < frame->size; units++) {
        size_t length = (size_t)frame->bytes[at] << 24 | (size_t)frame->bytes[at + 1] << 16 |
                        (size_t)frame->bytes[at + 2] << 8 | frame->bytes[at + 3];
        uint8_t type = frame->bytes[at + 4] & 0x1F;
        assert_true(length > 0 && length <= frame->size - at - 4);
        if (frame->view.codec == SLUICE_CODEC_H264)
            assert_true(type != 7 && type != 8);
        at += 4 + length;
    }
    assert_true(units > 0);
    assert_int_equal(at, frame->size);
}

/* Encoders that repeat their parameter sets: with SDP's and without, there is one sequence header,
 * before a key. */
static void sets_among_the_pictures(void **state) {
    sluice_pool *pool = *state;
    struct frames *frames = frames_read("h264-aac.publish");
    for (int known = 0; known < 2; known++) {
        flv_media_track tracks[2];
        flv_media *out = calloc(1, sizeof *out);
        assert_int_equal(flv_media_tracks("h264-aac.publish", tracks), 2);
        if (!known)
            forget_sets(&tracks[0]);
        sluice_rtp_flv *flv = session_new(pool, tracks, 2);
        drain(flv, out);
        /* What SDP has told comes at once. */
        assert_int_equal(out->count, 1 + known);
        for (size_t i = 0; i < frames->count; i++) {
            push_bytes(pool, flv, frames->all[i].channel, frames->all[i].bytes, frames->all[i].size, 0);
            drain(flv, out);
        }
        assert_int_equal(count_of(out, SLUICE_FLV_VIDEO, SLUICE_FLV_SEQUENCE_HEADER), 1);
        assert_int_equal(count_of(out, SLUICE_FLV_VIDEO, SLUICE_FLV_FRAME), 10);
        const flv_media_frame *first = flv_media_find(out, SLUICE_FLV_VIDEO, SLUICE_FLV_FRAME, 0);
        const flv_media_frame *header = flv_media_find(out, SLUICE_FLV_VIDEO, SLUICE_FLV_SEQUENCE_HEADER, 0);
        assert_true(header < first && first->view.key_frame);
        for (size_t i = 0; i < out->count; i++)
            assert_well_formed(&out->frames[i]);
        sluice_rtp_flv_free(flv);
        flv_media_free(out);
    }
    frames_free(frames);
}

/* An RTP packet of a test. */
static size_t make_packet(uint8_t *to, uint32_t ssrc, uint16_t sequence, uint32_t timestamp, bool marker,
                          const uint8_t *payload, size_t size) {
    const sluice_rtp_packet header = {
        .marker = marker, .payload_type = 96, .sequence = sequence, .timestamp = timestamp, .ssrc = ssrc};
    sluice_rtp_write(to, &header);
    memcpy(to + SLUICE_RTP_HEADER_SIZE, payload, size);
    return SLUICE_RTP_HEADER_SIZE + size;
}

static void push_packet(sluice_pool *pool, sluice_rtp_flv *flv, uint32_t ssrc, uint16_t sequence, uint32_t timestamp,
                        bool marker, const uint8_t *payload, size_t size, flv_media *out) {
    uint8_t bytes[4096];
    assert_int_equal(push_bytes(pool, flv, 0, bytes,
                                make_packet(bytes, ssrc, sequence, timestamp, marker, payload, size),
                                (uint64_t)timestamp * 100000 / 9),
                     0);
    drain(flv, out);
}
#define BYTES(...)                                                                                                     \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]) {                                                          \
        __VA_ARGS__                                                                                                    \
    }

/* An SPS and PPS of the baseline at two levels, in a STAP-A. */
#define SETS(level) BYTES(0x78, 0, 6, 0x67, 66, 0, level, 0xDA, 0x79, 0, 2, 0x68, 0xE0)

static void a_camera_without_sprop(void **state) {
    sluice_pool *pool = *state;
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    flv_media *out = calloc(1, sizeof *out);
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_codec_init(&track.config, SLUICE_CODEC_H264, 0, 0), 0);
    sluice_rtp_flv *flv = session_new(pool, &track, 1);
    assert_int_equal(sluice_rtp_flv_flags(flv), SLUICE_FLV_HAS_VIDEO);
    /* Nothing before the sets, and nothing before a key. */
    push_packet(pool, flv, 1, 1, 0, true, BYTES(0x65, 1), out);
    push_packet(pool, flv, 1, 2, 3600, false, SETS(10), out);
    push_packet(pool, flv, 1, 3, 3600, true, BYTES(0x41, 1), out);
    assert_int_equal(out->count, 1);
    assert_int_equal(out->frames[0].view.packet, SLUICE_FLV_SEQUENCE_HEADER);
    push_packet(pool, flv, 1, 4, 7200, true, BYTES(0x65, 1, 2, 3), out);
    assert_int_equal(out->count, 2);
    assert_true(out->frames[1].view.key_frame && out->frames[1].view.composition_time == 0);
    assert_int_equal(out->frames[1].size, 8);
    /* The same sets again are no news, others are. A picture of sets alone is none. */
    push_packet(pool, flv, 1, 5, 10800, false, SETS(10), out);
    push_packet(pool, flv, 1, 6, 10800, true, BYTES(0x65, 1), out);
    assert_int_equal(out->count, 3);
    push_packet(pool, flv, 1, 7, 14400, true, SETS(20), out);
    assert_int_equal(out->count, 4);
    assert_int_equal(out->frames[3].view.packet, SLUICE_FLV_SEQUENCE_HEADER);
    assert_int_equal(out->frames[3].bytes[3], 20);
    push_packet(pool, flv, 1, 8, 18000, true, BYTES(0x41, 1), out);
    assert_int_equal(out->count, 5);
    assert_int_equal(out->frames[4].timestamp - out->frames[1].timestamp, 120);
    /* Packets are lost: what has come whole is delivered, and counted as damaged. */
    push_packet(pool, flv, 1, 10, 21600, true, BYTES(0x41, 1), out);
    push_packet(pool, flv, 1, 10, 21600, true, BYTES(0x41, 1), out);
    push_packet(pool, flv, 1, 9, 21600, true, BYTES(0x41, 1), out);
    assert_int_equal(out->count, 6);
    assert_int_equal(sluice_rtp_flv_get_stats(flv, 0, &stats), 0);
    assert_true(stats.packets == 10 && stats.lost == 0 && stats.reordered == 1 && stats.duplicates == 1);
    assert_true(stats.damaged == 1 && stats.dropped == 2 && stats.frames == 4 && stats.malformed == 0);
    /* Another source: one packet is a stray, two are a new beginning. */
    push_packet(pool, flv, 2, 777, 1900000000, true, BYTES(0x41, 7), out);
    push_packet(pool, flv, 1, 11, 25200, true, BYTES(0x41, 1), out);
    push_packet(pool, flv, 2, 778, 1900000000, true, BYTES(0x41, 7), out);
    assert_int_equal(out->count, 7);
    push_packet(pool, flv, 2, 779, 1900003600, true, BYTES(0x41, 8), out);
    push_packet(pool, flv, 2, 780, 1900007200, true, BYTES(0x41, 9), out);
    assert_int_equal(out->count, 9);
    assert_int_equal(out->frames[8].timestamp - out->frames[7].timestamp, 40);
    assert_true(out->frames[7].timestamp - out->frames[6].timestamp <= 10000);
    sluice_rtp_flv_get_stats(flv, 0, &stats);
    assert_int_equal(stats.jumps, 1);
    for (size_t i = 0; i < out->count; i++)
        assert_well_formed(&out->frames[i]);
    assert_int_equal(sluice_rtp_flv_config(flv, 0)->width, 16);
    assert_null(sluice_rtp_flv_config(flv, 1));
    sluice_rtp_flv_free(flv);
    flv_media_free(out);
}

/* Parameter sets may be as large as to come in fragments, whose NAL unit header RTP has taken
 * apart. */
static void sets_in_fragments(void **state) {
    sluice_pool *pool = *state;
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    flv_media *out = calloc(1, sizeof *out);
    assert_int_equal(sluice_codec_init(&track.config, SLUICE_CODEC_H264, 0, 0), 0);
    sluice_rtp_flv *flv = session_new(pool, &track, 1);
    /* FU-A: of an SPS, the first */
    push_packet(pool, flv, 1, 1, 0, false, BYTES(0x7C, 0x87, 66, 0), out);
    push_packet(pool, flv, 1, 2, 0, false, BYTES(0x7C, 0x07, 10, 0xDA), out);
    push_packet(pool, flv, 1, 3, 0, false, BYTES(0x7C, 0x47, 0x79), out);
    push_packet(pool, flv, 1, 4, 0, false, BYTES(0x68, 0xE0), out);
    push_packet(pool, flv, 1, 5, 0, true, BYTES(0x65, 1, 2), out);
    assert_int_equal(out->count, 2);
    assert_int_equal(out->frames[0].view.packet, SLUICE_FLV_SEQUENCE_HEADER);
    const uint8_t sets[] = {0xE1, 0, 6, 0x67, 66, 0, 10, 0xDA, 0x79, 1, 0, 2, 0x68, 0xE0};
    assert_true(out->frames[0].size >= 5 + sizeof sets);
    assert_memory_equal(out->frames[0].bytes + 5, sets, sizeof sets);
    assert_well_formed(&out->frames[1]);
    assert_int_equal(out->frames[1].size, 4 + 3); /* the sets have left the picture */
    sluice_rtp_flv_free(flv);
    flv_media_free(out);
}

/* A payload that cannot be: counted, and nothing else; the next picture is well. */
static void a_malformed_payload_is_counted(void **state) {
    sluice_pool *pool = *state;
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    flv_media *out = calloc(1, sizeof *out);
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_codec_init(&track.config, SLUICE_CODEC_H264, 0, 0), 0);
    sluice_rtp_flv *flv = session_new(pool, &track, 1);
    push_packet(pool, flv, 1, 1, 0, false, SETS(10), out);
    push_packet(pool, flv, 1, 2, 0, true, BYTES(0x65, 1), out);
    assert_int_equal(out->count, 2);
    /* a fragment without a beginning */
    push_packet(pool, flv, 1, 3, 3600, true, BYTES(0x7C, 0x05, 1), out);
    push_packet(pool, flv, 1, 4, 7200, true, BYTES(0x41, 1), out);
    assert_int_equal(out->count, 3);
    assert_int_equal(sluice_rtp_flv_get_stats(flv, 0, &stats), 0);
    assert_true(stats.malformed == 1 && stats.packets == 4 && stats.lost == 0 && stats.frames == 2);
    sluice_rtp_flv_free(flv);
    flv_media_free(out);
}

/* It was taken note of, so that it was dropped as a duplicate when it was given again. */
static void a_packet_that_came_too_early_is_no_duplicate(void **state) {
    sluice_pool *pool = *state;
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    flv_media *out = calloc(1, sizeof *out);
    const uint8_t first[] = {0x80, 0x88, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 5},
                  second[] = {0x80, 8, 0, 2, 0, 0, 0, 80, 0, 0, 0, 1, 6};
    assert_int_equal(sluice_codec_init(&track.config, SLUICE_CODEC_PCMA, 8000, 1), 0);
    sluice_rtp_flv *flv = session_new(pool, &track, 1);
    assert_int_equal(push_bytes(pool, flv, 0, first, sizeof first, 0), 0);
    assert_int_equal(push_bytes(pool, flv, 0, second, sizeof second, 0), -EBUSY);
    drain(flv, out);
    assert_int_equal(out->count, 1);
    assert_int_equal(push_bytes(pool, flv, 0, second, sizeof second, 0), 0);
    drain(flv, out);
    assert_int_equal(out->count, 2);
    assert_int_equal(out->frames[1].bytes[0], 6);
    sluice_rtp_flv_free(flv);
    flv_media_free(out);
}

static void reports(void **state) {
    sluice_pool *pool = *state;
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    flv_media *out = calloc(1, sizeof *out);
    uint8_t bytes[SLUICE_RTP_FLV_REPORT_SIZE];
    const uint64_t second = 1000000000;
    sluice_codec_init(&track.config, SLUICE_CODEC_PCMU, 8000, 1);
    sluice_rtp_flv *flv = session_new(pool, &track, 1);
    assert_int_equal(sluice_rtp_flv_report(flv, 0, 5, 0, "a@b", bytes, sizeof bytes), -EINVAL);
    for (uint16_t i = 0; i < 10; i++)
        if (i != 4)
            push_packet(pool, flv, 9, i, i * 8, false, BYTES(1, 2, 3), out);
    const sluice_rtcp_packet sr = {.type = SLUICE_RTCP_SR, .ssrc = 9, .ntp = 0x1122334455667788, .timestamp = 80};
    const sluice_rtcp_packet foreign = {.type = SLUICE_RTCP_SR, .ssrc = 8, .ntp = 1, .timestamp = 2};
    assert_int_equal(push_bytes(pool, flv, 1, bytes, (size_t)sluice_rtcp_write(bytes, sizeof bytes, &sr), second), 0);
    assert_int_equal(push_bytes(pool, flv, 1, bytes, (size_t)sluice_rtcp_write(bytes, sizeof bytes, &foreign), second),
                     0);
    int size = sluice_rtp_flv_report(flv, 0, 5, 3 * second, "a@b", bytes, sizeof bytes);
    assert_true(size > 0);
    for (int less = 0; less < size; less++)
        assert_int_equal(sluice_rtp_flv_report(flv, 0, 5, 3 * second, "a@b", bytes, (size_t)less), -EMSGSIZE);
    sluice_slice slice = slice_of(pool, bytes, (size_t)size, 3);
    sluice_rtcp_packet p;
    size_t offset = 0;
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_RR && p.ssrc == 5 && p.count == 1 && p.reports[0].ssrc == 9);
    assert_true(p.reports[0].lost == 1 && p.reports[0].fraction_lost == 25 && p.reports[0].highest == 9);
    assert_true(p.reports[0].last_sr == 0x33445566 && p.reports[0].delay == 2 << 16);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SDES && p.text_length == 3);
    sluice_slice_release(&slice);
    /* A goodbye is that of the source. */
    sluice_rtcp_packet bye = {.type = SLUICE_RTCP_BYE, .ssrc = 8};
    for (uint32_t ssrc = 8; ssrc < 10; ssrc++) {
        bool said = ssrc == 8;
        bye.ssrc = ssrc;
        slice = slice_of(pool, bytes, (size_t)sluice_rtcp_write(bytes, sizeof bytes, &bye), 0);
        assert_int_equal(sluice_rtp_flv_push_rtcp(flv, 0, &slice, 0, &said), 0);
        assert_int_equal(said, ssrc == 9);
        assert_int_equal(sluice_rtp_flv_push_rtcp(flv, 1, &slice, 0, NULL), -EINVAL);
        assert_int_equal(sluice_rtp_flv_push(flv, 1, &slice, 0), -EINVAL);
        sluice_slice_release(&slice);
    }
    /* One BYE may be of several sources, or of none. */
    for (uint8_t count = 0; count < 4; count++) {
        const uint8_t byes[] = {0x80 | count, 203, 0, count, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9};
        bool said = count < 3;
        slice = slice_of(pool, byes, 4 + 4 * (size_t)count, 0);
        assert_int_equal(sluice_rtp_flv_push_rtcp(flv, 0, &slice, 0, &said), 0);
        assert_int_equal(said, count == 3);
        sluice_slice_release(&slice);
    }
    assert_int_equal(push_bytes(pool, flv, 0, bytes, 3, 0), -EPROTO);
    assert_int_equal(push_bytes(pool, flv, 1, bytes, 3, 0), -EPROTO);
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    assert_int_equal(sluice_rtp_flv_get_stats(flv, 0, &stats), 0);
    assert_int_equal(stats.malformed, 2);
    assert_int_equal(sluice_rtp_flv_get_stats(flv, 1, &stats), -EINVAL);
    sluice_rtp_flv_free(flv);
    flv_media_free(out);
}

/* As many packets as a compound may have, the last of which is a goodbye, and one more. */
static void compounds_are_bounded(void **state) {
    static const uint8_t report[] = {0x80, 201, 0, 1, 0, 0, 0, 7}, bye[] = {0x81, 203, 0, 1, 0, 0, 0, 7};
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    sluice_codec_init(&track.config, SLUICE_CODEC_PCMU, 8000, 1);
    sluice_rtp_flv *flv = session_new(*state, &track, 1);
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    for (size_t more = 0; more < 2; more++) {
        uint8_t bytes[(SLUICE_RTP_FLV_MAX_RTCP + 1) * sizeof report];
        size_t count = SLUICE_RTP_FLV_MAX_RTCP + more;
        for (size_t i = 0; i < count; i++)
            memcpy(bytes + i * sizeof report, i + 1 < count ? report : bye, sizeof report);
        sluice_slice slice = slice_of(*state, bytes, count * sizeof report, 0);
        bool said = more;
        assert_int_equal(sluice_rtp_flv_push_rtcp(flv, 0, &slice, 0, &said), more ? -EMSGSIZE : 0);
        assert_int_equal(said, !more);
        sluice_slice_release(&slice);
        assert_int_equal(sluice_rtp_flv_get_stats(flv, 0, &stats), 0);
        assert_int_equal(stats.malformed, more);
    }
    sluice_rtp_flv_free(flv);
}

/* Comfort noise and tones come with the numbers of the same source: they are not played, and are
 * not missing. */
static void other_payload_types_are_ignored(void **state) {
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    sluice_rtp_flv *flv = session_new(*state, NULL, 0);
    flv_media *out = calloc(1, sizeof *out);
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    uint8_t bytes[64];
    sluice_codec_init(&track.config, SLUICE_CODEC_PCMU, 8000, 1);
    assert_int_equal(sluice_rtp_flv_add(flv, &track.config, NULL, 128), -EINVAL);
    assert_int_equal(sluice_rtp_flv_add(flv, &track.config, NULL, -2), -EINVAL);
    assert_int_equal(sluice_rtp_flv_add(flv, &track.config, NULL, 0), 0);
    static const struct {
        uint8_t type;
        uint32_t ssrc;
    } packets[] = {{101, 7}, {0, 1}, {101, 1}, {13, 1}, {0, 1}, {101, 7}, {101, 7}, {0, 1}};
    uint16_t sequence = 1;
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++) {
        size_t size = make_packet(bytes, packets[i].ssrc, sequence, 160 * sequence, false, BYTES(packets[i].type, 2));
        bytes[1] = packets[i].type;
        assert_int_equal(push_bytes(*state, flv, 0, bytes, size, 0), 0);
        drain(flv, out);
        if (packets[i].ssrc == 1)
            sequence++;
    }
    assert_int_equal(sluice_rtp_flv_get_stats(flv, 0, &stats), 0);
    assert_int_equal(stats.packets, 5);
    assert_int_equal(stats.ignored, 5);
    assert_int_equal(stats.frames, 3);
    assert_int_equal(stats.lost + stats.damaged + stats.malformed, 0);
    flv_media_free(out);
    sluice_rtp_flv_free(flv);
}

static void tracks_that_flv_has_not(void **state) {
    sluice_rtp_flv *flv = session_new(*state, NULL, 0);
    static const struct {
        uint32_t codec, rate;
        uint8_t channels;
        int result;
    } tracks[] = {
        {SLUICE_CODEC_PCMU, 16000, 1, -EOPNOTSUPP},
        {SLUICE_CODEC_PCMA, 8000, 3, -EOPNOTSUPP},
        {SLUICE_CODEC_AAC, 44100, 2, -EOPNOTSUPP}, /* without its config */
        {SLUICE_CODEC_PCMA, 8000, 2, 0},
        {SLUICE_CODEC_OPUS, 48000, 2, -EEXIST},
        {SLUICE_CODEC_HEVC, 0, 0, 1},
        {SLUICE_CODEC_H264, 0, 0, -EEXIST},
    };
    for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++) {
        sluice_codec_config config;
        assert_int_equal(sluice_codec_init(&config, tracks[i].codec, tracks[i].rate, tracks[i].channels), 0);
        assert_int_equal(sluice_rtp_flv_add(flv, &config, NULL, SLUICE_RTP_FLV_ANY), tracks[i].result);
    }
    const sluice_codec_config vp8 = {.codec = SLUICE_CODEC_VP8, .clock_rate = 90000};
    assert_int_equal(sluice_rtp_flv_add(flv, &vp8, NULL, SLUICE_RTP_FLV_ANY), -EOPNOTSUPP);
    assert_int_equal(sluice_rtp_flv_flags(flv), SLUICE_FLV_HAS_VIDEO | SLUICE_FLV_HAS_AUDIO);
    sluice_rtp_flv_free(flv);
    sluice_rtp_flv_free(NULL);
}

/* An rtpmap may say any clock rate. */
static void clocks_that_are_too_fast(void **state) {
    static const struct {
        uint32_t rate;
        int result;
    } clocks[] = {{UINT32_MAX, -EOPNOTSUPP}, {10000001, -EOPNOTSUPP}, {10000000, 0}, {1000000, 0}, {192000, 0}, {1, 0}};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        sluice_rtp_flv *flv = session_new(*state, NULL, 0);
        sluice_codec_config config;
        const sluice_http_text fmtp = {"config=1210", 11};
        assert_int_equal(sluice_codec_init(&config, SLUICE_CODEC_AAC, clocks[i].rate, 2), 0);
        assert_int_equal(sluice_codec_read_fmtp(&config, fmtp, NULL), 0);
        assert_int_equal(config.clock_rate, clocks[i].rate);
        assert_int_equal(sluice_rtp_flv_add(flv, &config, NULL, SLUICE_RTP_FLV_ANY), clocks[i].result);
        sluice_rtp_flv_free(flv);
    }
}

/* A pool that is full costs frames, and nothing else; a tag that has been kept outlives the
 * session. */
static void no_memory(void **state) {
    (void)state;
    sluice_pool *pool = http_feed_pool(512, 8);
    flv_media_track track = {.unpacker.size = sizeof track.unpacker};
    sluice_block *blocks[16];
    uint8_t bytes[64];
    sluice_flv_tag *tag;
    sluice_rtp_flv_stats stats = {.size = sizeof stats};
    sluice_codec_init(&track.config, SLUICE_CODEC_PCMU, 8000, 1);
    sluice_rtp_flv *flv = session_new(pool, &track, 1);
    size_t size = make_packet(bytes, 1, 1, 0, false, BYTES(1, 2, 3)), taken = 0;
    sluice_slice slice = slice_of(pool, bytes, size, 0), kept;
    while (sluice_block_get(pool, &blocks[taken]) == 0)
        taken++;
    assert_true(taken > 0);
    assert_int_equal(sluice_rtp_flv_push(flv, 0, &slice, 0), 0);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), -ENOBUFS);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), 0);
    for (size_t i = 0; i < taken; i++)
        sluice_block_release(blocks[i]);
    sluice_slice_release(&slice);
    size = make_packet(bytes, 1, 2, 8, false, BYTES(4, 5, 6));
    assert_int_equal(push_bytes(pool, flv, 0, bytes, size, 0), 0);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), 1);
    sluice_rtp_flv_get_stats(flv, 0, &stats);
    assert_true(stats.dropped == 1 && stats.frames == 1);
    assert_int_equal(sluice_slice_take(&tag->payload, &kept), 0);
    sluice_rtp_flv_free(flv);
    assert_int_equal(slice_bytes(&kept, bytes, sizeof bytes), 4);
    static const uint8_t expected[] = {0x82, 4, 5, 6};
    assert_memory_equal(bytes, expected, 4);
    sluice_slice_release(&kept);

    /* A sequence header that there was no room for is made up for. */
    static const char config[] = "config=1210";
    sluice_codec_init(&track.config, SLUICE_CODEC_AAC, 44100, 2);
    assert_int_equal(sluice_codec_read_fmtp(&track.config, (sluice_http_text){config, strlen(config)}, &track.unpacker),
                     0);
    flv = session_new(pool, &track, 1);
    for (taken = 0; sluice_block_get(pool, &blocks[taken]) == 0;)
        taken++;
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), -ENOBUFS);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), 0);
    for (size_t i = 0; i < taken; i++)
        sluice_block_release(blocks[i]);
    size = make_packet(bytes, 1, 2, 8, true, BYTES(0, 16, 0, 8, 7));
    assert_int_equal(push_bytes(pool, flv, 0, bytes, size, 0), 0);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), 1);
    assert_int_equal(tag->view.packet, SLUICE_FLV_SEQUENCE_HEADER);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), 1);
    assert_int_equal(tag->view.packet, SLUICE_FLV_FRAME);
    assert_int_equal(sluice_rtp_flv_next(flv, &tag), 0);
    sluice_rtp_flv_free(flv);
    http_feed_pool_done(pool);
}

/* Sessions of ffmpeg with packets lost, doubled, late and broken: tags are well-formed and in order
 * all the same. */
static void damage(void **state) {
    sluice_pool *pool = *state;
    uint64_t seed = 0x8EBC6AF09C88C6E3;
    size_t tags = 0;
    for (int round = 0; round < 200; round++) {
        const struct file *file = &files[round % FILES];
        struct frames *frames = frames_read(file->session);
        flv_media_track tracks[2];
        size_t count = flv_media_tracks(file->session, tracks);
        if (round % 3 == 0)
            forget_sets(&tracks[0]);
        if (round % 3 == 0 && round % FILES > 2) /* G.711 has none */
            sluice_codec_init(&tracks[0].config, SLUICE_CODEC_PCMA, 8000, 1);
        sluice_rtp_flv *flv = session_new(pool, tracks, count);
        flv_media *out = calloc(1, sizeof *out);
        uint64_t now = 0;
        for (size_t i = 0; i < frames->count; i++) {
            uint64_t dice = http_feed_random(&seed) % 30;
            size_t from = dice == 1 && i > 3 ? i - 1 - http_feed_random(&seed) % 3 : i;
            uint8_t bytes[2048];
            size_t size = frames->all[from].size;
            assert_true(size <= sizeof bytes);
            memcpy(bytes, frames->all[from].bytes, size);
            now += http_feed_random(&seed) % 50000000;
            if (dice == 0)
                continue;
            for (uint64_t n = dice < 6 ? 1 + http_feed_random(&seed) % 3 : 0; n > 0; n--)
                bytes[http_feed_random(&seed) % size] = (uint8_t)http_feed_random(&seed);
            push_bytes(pool, flv, frames->all[from].channel, bytes, size, now);
            drain(flv, out);
        }
        sluice_rtp_flv_flush(flv);
        drain(flv, out);
        uint32_t before[2] = {0};
        for (size_t i = 0; i < out->count; i++) {
            const flv_media_frame *frame = &out->frames[i];
            uint32_t *last = &before[frame->type == SLUICE_FLV_AUDIO];
            assert_well_formed(frame);
            assert_true(frame->timestamp >= *last && frame->timestamp - *last <= 12000);
            *last = frame->timestamp;
        }
        tags += out->count;
        sluice_rtp_flv_free(flv);
        flv_media_free(out);
        frames_free(frames);
    }
    assert_true(tags > 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(published_by_ffmpeg, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sets_among_the_pictures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_camera_without_sprop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sets_in_fragments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_malformed_payload_is_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_packet_that_came_too_early_is_no_duplicate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(compounds_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_payload_types_are_ignored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tracks_that_flv_has_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clocks_that_are_too_fast, set_up, tear_down),
        cmocka_unit_test(no_memory),
        cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("rtp_flv", tests, NULL, NULL);
}
