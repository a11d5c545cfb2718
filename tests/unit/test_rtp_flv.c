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

static int set_up(void **state) {
    *state = http_feed_pool(4096, 16384);
    return 0;
}

static int tear_down(void **state) {
    http_feed_pool_done(*state);
    return 0;
}

static sluice_rtp_flv *session_new(sluice_pool *pool, const flv_media_track *tracks, size_t count) {
    sluice_rtp_flv *flv;
    sluice_pool *small;
    assert_int_equal(sluice_pool_class(pool, 0, &small), 0);
    assert_int_equal(sluice_rtp_flv_new(small, &flv), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sluice_rtp_flv_add(flv, &tracks[i].config, &tracks[i].unpacker), i);
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
        sluice_rtp_flv_stats stats;
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

/* A packet as it is on the wire: a player would send the two parts; here they are received again. */
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
    flv_media_track track = {{0}, {0}};
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
    trip->numbers[kind] = sluice_rtp_flv_add(trip->flv, &track.config, &track.unpacker);
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
        const sluice_flv_rtp_options options = {.type = i ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO,
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

/* The sequence headers that ffmpeg has written; H.265's holds an SEI too, which is no parameter set. */
static void compare_headers(const flv_media *media, const flv_media *out) {
    for (int type = SLUICE_FLV_AUDIO; type <= SLUICE_FLV_VIDEO; type++) {
        const flv_media_frame *a = flv_media_find(media, (sluice_flv_type)type, SLUICE_FLV_SEQUENCE_HEADER, 0);
        const flv_media_frame *b = flv_media_find(out, (sluice_flv_type)type, SLUICE_FLV_SEQUENCE_HEADER, 0);
        assert_int_equal(!a, !b);
        assert_null(flv_media_find(out, (sluice_flv_type)type, SLUICE_FLV_SEQUENCE_HEADER, 1));
        if (!a || a->view.codec == SLUICE_CODEC_HEVC)
            continue;
        assert_int_equal(a->view.codec, b->view.codec);
        if (a->view.codec == SLUICE_CODEC_OPUS) { /* but for the pre-skip, which RTP does not tell */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(published_by_ffmpeg, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_and_back, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("rtp_flv", tests, NULL, NULL);
}
