/* Access units out of RTP packets: H.264, H.265, AAC, G.711 and Opus, whole, damaged, and as ffmpeg
 * sends them. */
#include <sluice/rtp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/rtsp.h>

#include "support/slices.h"
#include "support/vectors.h"

enum { LOG_SIZE = 1 << 20, PACKET_MAX = 70000 };

static int set_up(void **state) {
    *state = http_feed_pool(4096, 16384);
    return 0;
}

static int tear_down(void **state) {
    http_feed_pool_done(*state);
    return 0;
}

/* What an unpacker has delivered: each unit's time, flags and lengths as text, and the bytes. */
struct log {
    uint8_t *bytes; /* NAL units or frames, each behind a length of four bytes */
    size_t size;
    char text[65536]; /* "time[kd] length,length " */
    size_t text_size;
    unsigned units, damaged, keys, errors;
};

static void log_init(struct log *log) {
    *log = (struct log){.bytes = malloc(LOG_SIZE)};
    assert_non_null(log->bytes);
}

static void log_text(struct log *log, const char *format, unsigned long value) {
    if (log->text_size + 32 < sizeof log->text)
        log->text_size += (size_t)snprintf(log->text + log->text_size, 32, format, value);
}

static void log_bytes(struct log *log, const void *bytes, size_t size) {
    assert_true(log->size + size <= LOG_SIZE);
    memcpy(log->bytes + log->size, bytes, size);
    log->size += size;
}

static void log_length(struct log *log, size_t length) {
    const uint8_t bytes[4] = {(uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                              (uint8_t)length};
    log_bytes(log, bytes, 4);
}

static void log_unit(struct log *log, const sluice_rtp_unit *unit) {
    size_t length = 0, pieces = 0;
    log->units++;
    log->damaged += unit->damaged;
    log->keys += unit->key;
    log_text(log, "%lu", unit->timestamp);
    log_text(log, unit->key ? "k" : "", 0);
    log_text(log, unit->damaged ? "d" : "", 0);
    assert_true(unit->nal_count > 0);
    for (size_t i = 0; i < unit->nal_count; i++) {
        const sluice_rtp_nal *nal = &unit->nals[i];
        size_t before = log->size;
        log_text(log, i ? ",%lu" : " %lu", nal->length);
        log_length(log, nal->length);
        log_bytes(log, nal->header, nal->header_size);
        assert_int_equal(nal->first, pieces);
        for (size_t p = nal->first; p < nal->first + nal->count; p++)
            log->size += slice_bytes(&unit->pieces[p], log->bytes + log->size, LOG_SIZE - log->size);
        assert_int_equal(log->size - before - 4, nal->length);
        pieces += nal->count;
        length += nal->length;
    }
    assert_int_equal(unit->piece_count, pieces);
    assert_int_equal(unit->length, length);
    log_text(log, "\n", 0);
}

/* Takes what there is; errors are written down as "(errno)". */
static void drain(sluice_rtp_unpacker *unpacker, struct log *log) {
    sluice_rtp_unit *unit;
    for (int result; (result = sluice_rtp_unpacker_next(unpacker, &unit)) != 0;) {
        if (result == 1) {
            log_unit(log, unit);
        } else {
            log->errors++;
            log_text(log, "(%lu)\n", (unsigned long)-result);
        }
    }
}

/* A packet of a test: its payload, and what matters of its header. */
struct packet {
    uint64_t sequence;
    uint32_t timestamp;
    bool marker;
    const uint8_t *payload;
    size_t size;
};

static int push_slice(sluice_rtp_unpacker *unpacker, const sluice_slice *slice, uint64_t sequence) {
    sluice_rtp_packet view;
    assert_int_equal(sluice_rtp_read(slice, &view), 0);
    return sluice_rtp_unpacker_push(unpacker, slice, &view, sequence);
}

static size_t packet_bytes(const struct packet *packet, uint8_t *to) {
    sluice_rtp_packet header = {.marker = packet->marker,
                                .payload_type = 96,
                                .sequence = (uint16_t)packet->sequence,
                                .timestamp = packet->timestamp,
                                .ssrc = 1};
    sluice_rtp_write(to, &header);
    if (packet->size > 0)
        memcpy(to + SLUICE_RTP_HEADER_SIZE, packet->payload, packet->size);
    return SLUICE_RTP_HEADER_SIZE + packet->size;
}

/* Pushes it in blocks of at most @piece bytes and takes what comes of it. */
static int give(sluice_pool *pool, sluice_rtp_unpacker *unpacker, const struct packet *packet, size_t piece,
                struct log *log) {
    static uint8_t bytes[PACKET_MAX];
    sluice_slice slice = slice_of(pool, bytes, packet_bytes(packet, bytes), piece);
    int result = push_slice(unpacker, &slice, packet->sequence);
    sluice_slice_release(&slice);
    drain(unpacker, log);
    return result;
}

static sluice_rtp_unpacker *unpacker_new(sluice_rtp_format format, const sluice_rtp_unpacker_options *options) {
    sluice_rtp_unpacker *unpacker;
    assert_int_equal(sluice_rtp_unpacker_new(format, options, &unpacker), 0);
    return unpacker;
}

#define BYTES(...)                                                                                                     \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]) {                                                          \
        __VA_ARGS__                                                                                                    \
    }

/* What the packets give, in one piece and in small ones. */
static void expect(sluice_pool *pool, sluice_rtp_format format, const sluice_rtp_unpacker_options *options,
                   const struct packet *packets, size_t count, const char *text) {
    for (size_t piece = 0; piece < 5; piece++) {
        sluice_rtp_unpacker *unpacker = unpacker_new(format, options);
        struct log log;
        log_init(&log);
        for (size_t i = 0; i < count; i++)
            give(pool, unpacker, &packets[i], piece, &log);
        sluice_rtp_unpacker_flush(unpacker);
        drain(unpacker, &log);
        assert_string_equal(log.text, text);
        free(log.bytes);
        sluice_rtp_unpacker_free(unpacker);
    }
}
#define EXPECT(pool, format, options, packets, text)                                                                   \
    expect(pool, format, options, packets, sizeof packets / sizeof *packets, text)

/* One packet at every pair of cuts, over guard pages; the unit's bytes are as expected. */
static void at_every_cut(sluice_pool *pool, sluice_rtp_format format, const uint8_t *payload, size_t size,
                         const uint8_t *media, size_t media_size) {
    uint8_t bytes[256];
    struct log log;
    log_init(&log);
    size = packet_bytes(&(struct packet){1, 1, true, payload, size}, bytes);
    feed_guarded *guarded = feed_guarded_new(bytes, size);
    for (size_t a = 0; a <= size; a++)
        for (size_t b = a; b <= size; b++) {
            sluice_rtp_unpacker *unpacker = unpacker_new(format, NULL);
            sluice_slice slice = slice_guarded(pool, guarded, a, b, size);
            log.size = log.text_size = 0;
            assert_int_equal(push_slice(unpacker, &slice, 1), 0);
            sluice_slice_release(&slice);
            drain(unpacker, &log);
            assert_int_equal(log.errors, 0);
            assert_int_equal(log.size, media_size);
            assert_memory_equal(log.bytes, media, media_size);
            sluice_rtp_unpacker_free(unpacker);
        }
    feed_guarded_free(guarded);
    free(log.bytes);
}

static void payloads_at_every_cut(void **state) {
    at_every_cut(*state, SLUICE_RTP_H264, BYTES(0x65, 1, 2, 3), BYTES(0, 0, 0, 4, 0x65, 1, 2, 3));
    at_every_cut(*state, SLUICE_RTP_H264, BYTES(0x78, 0, 3, 0x67, 1, 2, 0, 1, 0x68, 0, 2, 0x65, 9),
                 BYTES(0, 0, 0, 3, 0x67, 1, 2, 0, 0, 0, 1, 0x68, 0, 0, 0, 2, 0x65, 9));
    at_every_cut(*state, SLUICE_RTP_H265, BYTES(0x26, 1, 7, 8), BYTES(0, 0, 0, 4, 0x26, 1, 7, 8));
    at_every_cut(*state, SLUICE_RTP_H265, BYTES(0x60, 1, 0, 3, 0x40, 1, 5, 0, 2, 0x26, 1),
                 BYTES(0, 0, 0, 3, 0x40, 1, 5, 0, 0, 0, 2, 0x26, 1));
    at_every_cut(*state, SLUICE_RTP_AAC, BYTES(0, 32, 0, 0x18, 0, 0x10, 'a', 'b', 'c', 'd', 'e'),
                 BYTES(0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 2, 'd', 'e'));
    at_every_cut(*state, SLUICE_RTP_AUDIO, BYTES(1, 2, 3), BYTES(0, 0, 0, 3, 1, 2, 3));
}

/* FU-A and FU: the header is put together from both bytes, in the memory of the unit. */
static void fragments(void **state) {
    sluice_pool *pool = *state;
    static const uint8_t h264[] = {0, 0, 0, 6, 0x65, 1, 2, 3, 4, 5}, h265[] = {0, 0, 0, 6, 0x26, 1, 2, 3, 4, 5};
    for (int is_h265 = 0; is_h265 < 2; is_h265++)
        for (size_t piece = 0; piece < 6; piece++) {
            const struct packet avc[] = {{1, 5, false, BYTES(0x7C, 0x85, 1, 2)},
                                         {2, 5, false, BYTES(0x7C, 0x05, 3)},
                                         {3, 5, true, BYTES(0x7C, 0x45, 4, 5)}};
            const struct packet hevc[] = {{1, 5, false, BYTES(0x62, 1, 0x93, 2)},
                                          {2, 5, false, BYTES(0x62, 1, 0x13)},
                                          {3, 5, true, BYTES(0x62, 1, 0x53, 3, 4, 5)}};
            sluice_rtp_unpacker *unpacker = unpacker_new(is_h265 ? SLUICE_RTP_H265 : SLUICE_RTP_H264, NULL);
            struct log log;
            log_init(&log);
            for (int i = 0; i < 3; i++) {
                assert_int_equal(log.units, 0);
                assert_int_equal(give(pool, unpacker, is_h265 ? &hevc[i] : &avc[i], piece, &log), 0);
            }
            assert_string_equal(log.text, "5k 6\n");
            assert_int_equal(log.size, 10);
            assert_memory_equal(log.bytes, is_h265 ? h265 : h264, 10);
            sluice_rtp_unpacker_free(unpacker);
            free(log.bytes);
        }
}

/* Where an access unit ends: at the marker, or where the time changes. */
static void ends_of_units(void **state) {
    sluice_pool *pool = *state;
    const struct packet packets[] = {
        {1, 10, false, BYTES(0x67, 1)}, {2, 10, false, BYTES(0x65, 1)}, {3, 10, true, BYTES(0x65, 1, 2)},
        {4, 20, false, BYTES(0x41, 1)}, {5, 30, false, BYTES(0x41, 1)}, {6, 30, true, BYTES(0x41, 2)},
        {7, 40, true, BYTES(0x41, 1)},  {8, 40, true, BYTES(0x41, 1)},  {9, 50, false, BYTES(0x41)},
    };
    EXPECT(pool, SLUICE_RTP_H264, NULL, packets, "10k 2,2,3\n20 2\n30 2,2\n40 2\n40 2\n50 1\n");
}

/* Encoders with open groups of pictures send an SEI in place of an IDR picture; cut short, it says
 * nothing. */
static void recovery_points(void **state) {
    const struct packet packets[] = {
        {1, 10, true, BYTES(0x78, 0, 4, 6, 6, 1, 0xC4, 0, 2, 0x41, 1)},
        {2, 20, true, BYTES(0x78, 0, 8, 6, 5, 2, 9, 9, 6, 1, 0xC4, 0, 2, 0x41, 1)},
        {3, 30, true, BYTES(0x78, 0, 4, 6, 6, 1, 0x44, 0, 2, 0x41, 1)}, /* after some pictures */
        {4, 40, true, BYTES(0x78, 0, 3, 6, 6, 1, 0, 2, 0x41, 1)},
        {5, 50, true, BYTES(0x78, 0, 4, 6, 6, 0, 0xC4, 0, 2, 0x41, 1)},
        {6, 60, true, BYTES(0x78, 0, 4, 6, 255, 255, 255, 0, 2, 0x41, 1)},
        {7, 70, true, BYTES(0x78, 0, 4, 6, 5, 9, 6, 0, 2, 0x41, 1)},
        {8, 80, true, BYTES(0x78, 0, 1, 6, 0, 2, 0x41, 1)},
    };
    EXPECT(*state, SLUICE_RTP_H264, NULL, packets,
           "10k 4,2\n20k 8,2\n30 4,2\n40 3,2\n50 4,2\n60 4,2\n70 4,2\n80 1,2\n");
}

/* What is missing is said of the units that it may have been of, and what is not complete is not
 * delivered. */
static void losses(void **state) {
    sluice_pool *pool = *state;
    const struct packet first[] = {{2, 1, true, BYTES(0x41)}, {4, 2, true, BYTES(0x41)}, {5, 3, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, NULL, first, "1 1\n2d 1\n3 1\n");
    /* In the middle of a fragmented one, which goes; the other slice stays. */
    const struct packet middle[] = {{1, 1, false, BYTES(0x41, 1)},
                                    {2, 1, false, BYTES(0x7C, 0x85, 1)},
                                    {4, 1, true, BYTES(0x7C, 0x45, 1)},
                                    {5, 2, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, NULL, middle, "(71)\n1d 2\n2 1\n");
    /* The end of it, so that the next picture ends it. */
    const struct packet end[] = {{1, 1, false, BYTES(0x41, 1)},
                                 {2, 1, false, BYTES(0x7C, 0x85, 1)},
                                 {4, 2, true, BYTES(0x41)},
                                 {5, 3, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, NULL, end, "1d 2\n2d 1\n3 1\n");
    /* All that there was of a unit. */
    const struct packet all[] = {{1, 1, false, BYTES(0x7C, 0x85, 1)}, {3, 2, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, NULL, all, "2d 1\n");
    /* Late and double ones. */
    const struct packet late[] = {{1, 1, true, BYTES(0x41)},
                                  {3, 3, true, BYTES(0x41)},
                                  {2, 2, true, BYTES(0x41)},
                                  {3, 3, true, BYTES(0x41)},
                                  {4, 4, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, NULL, late, "1 1\n3d 1\n4 1\n");
    const struct packet aac[] = {{1, 0, false, BYTES(0, 16, 0, 0x28, 1, 2)},
                                 {3, 1024, true, BYTES(0, 16, 0, 0x08, 1)},
                                 {4, 2048, true, BYTES(0, 16, 0, 0x08, 1)}};
    EXPECT(pool, SLUICE_RTP_AAC, NULL, aac, "1024kd 1\n2048k 1\n");
}

/* It keeps a connection alive, is not missing, and what was missing before it is told with what
 * comes next. */
static void padding_alone_is_nothing(void **state) {
    sluice_pool *pool = *state;
    const struct packet video[] = {{1, 1, true, BYTES(0x41, 1)}, {2, 1, false, NULL, 0}, {3, 2, true, BYTES(0x41, 1)}};
    EXPECT(pool, SLUICE_RTP_H264, NULL, video, "1 2\n2 2\n");
    const struct packet audio[] = {{1, 0, true, BYTES(1)}, {3, 0, false, NULL, 0}, {4, 160, true, BYTES(2)}};
    EXPECT(pool, SLUICE_RTP_AUDIO, NULL, audio, "0k 1\n160kd 1\n");
}

static void malformed_payloads(void **state) {
    sluice_pool *pool = *state;
    const struct packet good = {1000, 9, true, BYTES(0x41, 1)}, good_h265 = {1000, 9, true, BYTES(2, 1, 1)};
    static const struct {
        sluice_rtp_format format;
        int error;
        size_t size;
        uint8_t payload[12];
    } cases[] = {
        {SLUICE_RTP_H264, EPROTO, 2, {0, 1}},                      /* no type */
        {SLUICE_RTP_H264, EPROTO, 1, {0x78}},                      /* STAP-A of nothing */
        {SLUICE_RTP_H264, EPROTO, 2, {0x78, 0}},                   /* half a size */
        {SLUICE_RTP_H264, EPROTO, 4, {0x78, 0, 0, 1}},             /* a NAL unit of 0 bytes */
        {SLUICE_RTP_H264, EPROTO, 4, {0x78, 0, 2, 1}},             /* beyond the end */
        {SLUICE_RTP_H264, EPROTO, 7, {0x78, 0, 1, 0x41, 0, 9, 1}}, /* the second one */
        {SLUICE_RTP_H264, EPROTO, 1, {0x7C}},                      /* FU-A without its header */
        {SLUICE_RTP_H264, EPROTO, 3, {0x7C, 0xC5, 1}},             /* begins and ends */
        {SLUICE_RTP_H264, EPROTO, 3, {0x7C, 0x05, 1}},             /* goes on from nothing */
        {SLUICE_RTP_H264, EPROTO, 3, {0x7C, 0x45, 1}},             /* ends nothing */
        {SLUICE_RTP_H264, EOPNOTSUPP, 5, {0x79, 0, 0, 0, 1}},      /* STAP-B */
        {SLUICE_RTP_H264, EOPNOTSUPP, 5, {0x7A, 0, 0, 0, 1}},      /* MTAP */
        {SLUICE_RTP_H264, EOPNOTSUPP, 5, {0x7D, 0x85, 0, 0, 1}},   /* FU-B */
        {SLUICE_RTP_H264, EOPNOTSUPP, 1, {0x7F}},                  /* reserved */
        {SLUICE_RTP_H265, EPROTO, 1, {0x26}},                      /* half a header */
        {SLUICE_RTP_H265, EPROTO, 2, {0x60, 1}},                   /* AP of nothing */
        {SLUICE_RTP_H265, EPROTO, 5, {0x60, 1, 0, 1, 2}},          /* half a header in it */
        {SLUICE_RTP_H265, EPROTO, 2, {0x62, 1}},                   /* FU without its header */
        {SLUICE_RTP_H265, EPROTO, 4, {0x62, 1, 0x13, 1}},          /* goes on from nothing */
        {SLUICE_RTP_H265, EOPNOTSUPP, 4, {0x64, 1, 1, 1}},         /* PACI */
        {SLUICE_RTP_AAC, EPROTO, 1, {0}},                          /* half the headers' length */
        {SLUICE_RTP_AAC, EPROTO, 3, {0, 0, 1}},                    /* no headers */
        {SLUICE_RTP_AAC, EPROTO, 3, {0, 16, 1}},                   /* headers beyond the end */
        {SLUICE_RTP_AAC, EPROTO, 5, {0, 16, 0, 0, 1}},             /* a frame of 0 bytes */
        /* the second one beyond the end: the first comes */
        {SLUICE_RTP_AAC, EPROTO, 7, {0, 32, 0, 0x08, 0, 0x10, 1}},
        {SLUICE_RTP_AAC, EPROTO, 4, {0, 16, 0, 8}},           /* a fragment of nothing */
        {SLUICE_RTP_AAC, EOPNOTSUPP, 5, {0, 16, 0, 0x09, 1}}, /* interleaved */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sluice_rtp_unpacker *unpacker = unpacker_new(cases[i].format, NULL);
        struct log log;
        char expected[32];
        log_init(&log);
        give(pool, unpacker, &(struct packet){999, 8, true, cases[i].payload, cases[i].size}, i % 3, &log);
        snprintf(expected, sizeof expected, "%s(%d)\n", i == 24 ? "8k 1\n" : "", cases[i].error);
        if (strcmp(log.text, expected) != 0)
            fail_msg("case %zu: %s", i, log.text);
        if (cases[i].format <= SLUICE_RTP_H265) {
            /* The unit after it says that something is missing; then all is well. */
            struct packet next = cases[i].format == SLUICE_RTP_H264 ? good : good_h265;
            give(pool, unpacker, &next, 0, &log);
            next.sequence++;
            next.timestamp++;
            give(pool, unpacker, &next, 0, &log);
            assert_int_equal(log.units, 2);
            assert_int_equal(log.damaged, 1);
        }
        free(log.bytes);
        sluice_rtp_unpacker_free(unpacker);
    }
}

/* Aggregates are taken whole or not at all. */
static void a_bad_aggregate_gives_nothing(void **state) {
    const struct packet packets[] = {
        {1, 1, false, BYTES(0x41, 1)}, {2, 1, true, BYTES(0x78, 0, 1, 0x41, 0, 9, 1)}, {3, 2, true, BYTES(0x41, 1)}};
    EXPECT(*state, SLUICE_RTP_H264, NULL, packets, "(71)\n1d 2\n2 2\n");
}

static void limits(void **state) {
    sluice_pool *pool = *state;
    const sluice_rtp_unpacker_options small = {.size = sizeof small, .max_unit = 4, .max_pieces = 3, .max_nals = 2};
    const struct packet fits[] = {{1, 1, false, BYTES(0x41, 1)}, {2, 1, true, BYTES(0x41, 1)}};
    EXPECT(pool, SLUICE_RTP_H264, &small, fits, "1 2,2\n");
    /* A byte, a NAL unit, a piece too many: what is left of the unit goes too, the next is
     * damaged. */
    const struct packet bytes[] = {{1, 1, false, BYTES(0x41, 1)},    {2, 1, false, BYTES(0x41, 1, 2)},
                                   {3, 1, false, BYTES(0x41, 1, 2)}, {4, 1, true, BYTES(0x41, 1, 2)},
                                   {5, 2, true, BYTES(0x41)},        {6, 3, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, &small, bytes, "(90)\n2d 1\n3 1\n");
    const struct packet nals[] = {{1, 1, true, BYTES(0x78, 0, 1, 0x41, 0, 1, 0x41, 0, 1, 0x41)},
                                  {2, 2, true, BYTES(0x41)}};
    EXPECT(pool, SLUICE_RTP_H264, &small, nals, "(90)\n2d 1\n");
    const struct packet pieces[] = {{1, 1, false, BYTES(0x7C, 0x85, 1)},
                                    {2, 1, false, BYTES(0x7C, 0x05, 1)},
                                    {3, 1, false, BYTES(0x7C, 0x05, 1)},
                                    {4, 1, true, BYTES(0x7C, 0x45, 1)},
                                    {5, 2, true, BYTES(0x41)}};
    const sluice_rtp_unpacker_options few = {.size = sizeof few, .max_pieces = 3};
    EXPECT(pool, SLUICE_RTP_H264, &few, pieces, "(90)\n2d 1\n");
    const sluice_rtp_unpacker_options enough = {.size = sizeof enough, .max_pieces = 4};
    EXPECT(pool, SLUICE_RTP_H264, &enough, pieces, "1k 5\n2 1\n");

    sluice_rtp_unpacker *unpacker = NULL;
    static const sluice_rtp_unpacker_options wrong[] = {
        {.size = sizeof(sluice_rtp_unpacker_options), .max_pieces = 65537},
        {.size = sizeof(sluice_rtp_unpacker_options), .max_nals = 65537},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 1},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 5},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 7},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 12},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 17},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 13, .index_length = 1},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 13, .index_length = 4},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 13, .index_delta_length = 1},
        {.size = sizeof(sluice_rtp_unpacker_options), .size_length = 13, .index_delta_length = 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_rtp_unpacker_new(SLUICE_RTP_AAC, &wrong[i], &unpacker), -EINVAL);
    assert_int_equal(sluice_rtp_unpacker_new(SLUICE_RTP_AUDIO + 1, NULL, &unpacker), -EINVAL);
    assert_null(unpacker);
    sluice_rtp_unpacker_free(NULL);
}

/* AAC: several frames have times of their own; frames in fragments; other lengths of the header's
 * fields. */
static void aac(void **state) {
    sluice_pool *pool = *state;
    const struct packet packets[] = {
        {1, 4294967000, true, BYTES(0, 48, 0, 0x08, 0, 0x10, 0, 0x08, 1, 2, 2, 3)},
        {2, 3072, false, BYTES(0, 16, 0, 0x28, 1, 2)},
        {3, 3072, true, BYTES(0, 16, 0, 0x28, 3, 4, 5)},
        {4, 4096, true, BYTES(0, 16, 0, 0x08, 1)},
    };
    EXPECT(pool, SLUICE_RTP_AAC, NULL, packets, "4294967000k 1\n728k 2\n1752k 1\n3072k 5\n4096k 1\n");
    /* AAC-lbr: 6 and 2 bits; no index at all: 16 and 0. */
    const sluice_rtp_unpacker_options lbr = {
        .size = sizeof lbr, .size_length = 6, .index_length = 2, .index_delta_length = 2, .frame_duration = 960};
    const struct packet short_ones[] = {{1, 0, true, BYTES(0, 16, 0x08, 0x04, 1, 2, 3)}};
    EXPECT(pool, SLUICE_RTP_AAC, &lbr, short_ones, "0k 2\n960k 1\n");
    const sluice_rtp_unpacker_options plain = {.size = sizeof plain, .size_length = 16};
    const struct packet plain_ones[] = {{1, 0, true, BYTES(0, 32, 0, 2, 0, 1, 1, 2, 3)}};
    EXPECT(pool, SLUICE_RTP_AAC, &plain, plain_ones, "0k 2\n1024k 1\n");
    /* More of a frame than its size. */
    const struct packet too_much[] = {{1, 0, false, BYTES(0, 16, 0, 0x28, 1, 2)},
                                      {2, 0, true, BYTES(0, 16, 0, 0x28, 3, 4, 5, 6)}};
    EXPECT(pool, SLUICE_RTP_AAC, NULL, too_much, "(71)\n");
}

/* LATM: each frame behind its length; several in a packet; in fragments, of which the last is
 * marked. */
static void latm(void **state) {
    sluice_pool *pool = *state;
    const sluice_rtp_unpacker_options options = {.size = sizeof options, .latm = true};
    static uint8_t large[2 + 300] = {255, 45}, full[2 + 255] = {255, 0};
    const struct packet packets[] = {
        {1, 4294967000, true, BYTES(2, 1, 2)}, {2, 728, true, BYTES(1, 1, 3, 1, 2, 3, 2, 1, 2)},
        {3, 10000, true, large, sizeof large}, {4, 20000, true, full, sizeof full},
        {5, 30000, false, BYTES(5, 1, 2)},     {6, 30000, false, BYTES(3)},
        {7, 30000, true, BYTES(4, 5)},         {8, 40000, true, BYTES(1, 1)},
    };
    EXPECT(pool, SLUICE_RTP_AAC, &options, packets,
           "4294967000k 2\n728k 1\n1752k 3\n2776k 2\n10000k 300\n20000k 255\n30000k 5\n40000k 1\n");
    /* A fragment may end in the length's place, before any byte of the frame. */
    const struct packet late[] = {{1, 0, false, BYTES(2)}, {2, 0, true, BYTES(1, 2)}};
    EXPECT(pool, SLUICE_RTP_AAC, &options, late, "0k 2\n");
    /* A length that does not end, an empty frame, less than there should be, more than there should
     * be. */
    const struct packet broken[] = {{2, 1024, true, BYTES(255)},     {3, 2048, true, BYTES(0)},
                                    {4, 3072, true, BYTES(3, 1, 2)}, {5, 4096, false, BYTES(2, 1)},
                                    {6, 4096, true, BYTES(2, 3)},    {7, 5120, true, BYTES(1, 9)}};
    EXPECT(pool, SLUICE_RTP_AAC, &options, broken, "(71)\n(71)\n(71)\n(71)\n5120kd 1\n");
    /* A fragment is lost: its frame is, and the next one is whole. */
    const struct packet lost[] = {{1, 0, false, BYTES(4, 1, 2)}, {3, 0, true, BYTES(4)}, {4, 1024, true, BYTES(1, 9)}};
    EXPECT(pool, SLUICE_RTP_AAC, &options, lost, "(71)\n1024kd 1\n");
    const struct packet another[] = {{1, 0, false, BYTES(4, 1, 2)}, {3, 1024, true, BYTES(1, 9)}};
    EXPECT(pool, SLUICE_RTP_AAC, &options, another, "1024kd 1\n");
    const sluice_rtp_unpacker_options small = {.size = sizeof small, .latm = true, .max_unit = 299};
    const struct packet over[] = {{3, 10000, true, large, sizeof large}, {4, 11024, true, BYTES(1, 9)}};
    EXPECT(pool, SLUICE_RTP_AAC, &small, over, "(90)\n11024kd 1\n");
}

/* What no encoder sends is refused before any frame of it is delivered. */
static void frames_of_a_packet(void **state) {
    sluice_pool *pool = *state;
    const sluice_rtp_unpacker_options latm = {.size = sizeof latm, .latm = true};
    uint8_t aac[2 + 3 * (SLUICE_RTP_MAX_FRAMES + 1)], elements[2 * (SLUICE_RTP_MAX_FRAMES + 1)];
    char most[32 * SLUICE_RTP_MAX_FRAMES] = "", more[sizeof most + 8];
    for (size_t i = 0, at = 0; i < SLUICE_RTP_MAX_FRAMES; i++)
        at += (size_t)snprintf(most + at, sizeof most - at, "%zuk 1\n", 1024 * i);
    snprintf(more, sizeof more, "%s(71)\n", most);
    for (size_t frames = SLUICE_RTP_MAX_FRAMES; frames <= SLUICE_RTP_MAX_FRAMES + 1; frames++) {
        aac[0] = (uint8_t)(frames * 16 >> 8);
        aac[1] = (uint8_t)(frames * 16);
        memset(aac + 2, 7, sizeof aac - 2);
        for (size_t i = 0; i < frames; i++) {
            aac[2 + 2 * i] = 0;
            aac[3 + 2 * i] = 1 << 3;
            elements[2 * i] = 1;
            elements[2 * i + 1] = 7;
        }
        const struct packet packet[] = {{1, 0, true, aac, 2 + 3 * frames}};
        EXPECT(pool, SLUICE_RTP_AAC, NULL, packet, frames > SLUICE_RTP_MAX_FRAMES ? "(71)\n" : most);
        const struct packet element[] = {{1, 0, true, elements, 2 * frames}};
        EXPECT(pool, SLUICE_RTP_AAC, &latm, element, frames > SLUICE_RTP_MAX_FRAMES ? more : most);
    }
}

static void calls_in_the_wrong_order(void **state) {
    sluice_pool *pool = *state;
    sluice_rtp_unpacker *unpacker = unpacker_new(SLUICE_RTP_H264, NULL);
    sluice_rtp_unit *unit = NULL;
    uint8_t bytes[32];
    size_t size = packet_bytes(&(struct packet){1, 1, true, BYTES(0x41, 1)}, bytes);
    sluice_slice slice = slice_of(pool, bytes, size, 0), kept;
    sluice_rtp_packet view;
    assert_int_equal(sluice_rtp_read(&slice, &view), 0);
    assert_int_equal(sluice_rtp_unpacker_next(unpacker, &unit), 0);
    assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, 10), 0);
    assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, 11), -EBUSY);
    assert_int_equal(sluice_rtp_unpacker_next(unpacker, &unit), 1);
    /* What has been kept outlives the unpacker. */
    assert_int_equal(sluice_slice_take(&unit->pieces[0], &kept), 0);
    assert_int_equal(sluice_rtp_unpacker_next(unpacker, &unit), 0);
    assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, 10), -ESTALE);
    assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, 9), -ESTALE);
    view.payload_length = 100;
    assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, 11), -EINVAL);
    view.payload_length = 2;
    /* and freed with it */
    assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, 11), 0);
    sluice_slice_release(&slice);
    sluice_rtp_unpacker_free(unpacker);
    assert_int_equal(slice_bytes(&kept, bytes, sizeof bytes), 2);
    sluice_slice_release(&kept);
}

/*
 * Packets at random, lost, repeated and damaged: in pieces they give what they give in one, nothing
 * is over a limit, and nothing stays behind.
 */
static void damage(void **state) {
    sluice_pool *pool = *state;
    static const uint8_t starts[4][8] = {{0x41, 0x78, 0x7C, 0x7C, 0x7C, 0x65, 0x7C, 0},
                                         {0x26, 0x60, 0x62, 0x62, 0x62, 0x02, 0x62, 0},
                                         {0, 0, 0, 0, 0, 0, 0, 1},
                                         {1, 2, 3, 4, 5, 6, 7, 8}};
    uint64_t seed = 0xD1B54A32D192ED03;
    unsigned units = 0, errors = 0;
    for (int round = 0; round < 2000; round++) {
        sluice_rtp_format format = (sluice_rtp_format)(round % 4);
        const sluice_rtp_unpacker_options options = {
            .size = sizeof options, .max_unit = 300, .max_pieces = 20, .max_nals = 10};
        sluice_rtp_unpacker *whole = unpacker_new(format, &options), *pieces = unpacker_new(format, &options);
        struct log a, b;
        log_init(&a);
        log_init(&b);
        uint64_t sequence = 1;
        uint32_t timestamp = 0;
        for (int i = 0; i < 60; i++) {
            uint8_t payload[80];
            struct packet packet = {.payload = payload, .size = http_feed_random(&seed) % sizeof payload};
            for (size_t j = 0; j < packet.size; j++)
                payload[j] = (uint8_t)(http_feed_random(&seed) % 4 ? j % 3 : http_feed_random(&seed));
            payload[0] = starts[format][http_feed_random(&seed) % 8];
            if (http_feed_random(&seed) % 8 == 0)
                payload[0] = (uint8_t)http_feed_random(&seed);
            if (http_feed_random(&seed) % 2) /* FU headers of one type; AU headers */
                payload[format == SLUICE_RTP_H264 ? 1 : 2] = (uint8_t)((http_feed_random(&seed) & 0xC0) | 1);
            if (format == SLUICE_RTP_AAC && http_feed_random(&seed) % 8)
                payload[1] = (uint8_t)(16 * (1 + http_feed_random(&seed) % 3));
            if (format == SLUICE_RTP_AAC && http_feed_random(&seed) % 2) {
                payload[2] = 0;
                payload[3] = (uint8_t)(http_feed_random(&seed) & 0xF8);
            }
            uint64_t dice = http_feed_random(&seed) % 20;
            sequence += dice == 0 ? 2 : dice == 1 ? 0 : dice == 2 ? -1ULL : 1;
            timestamp += http_feed_random(&seed) % 3 == 0;
            packet.sequence = sequence;
            packet.timestamp = timestamp;
            packet.marker = http_feed_random(&seed) % 4 == 0;
            int result = give(pool, whole, &packet, 0, &a);
            assert_true(result == 0 || result == -ESTALE);
            assert_int_equal(give(pool, pieces, &packet, 1 + http_feed_random(&seed) % 9, &b), result);
        }
        assert_string_equal(a.text, b.text);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.bytes, b.bytes, a.size);
        units += a.units;
        errors += a.errors;
        free(a.bytes);
        free(b.bytes);
        sluice_rtp_unpacker_free(whole);
        sluice_rtp_unpacker_free(pieces);
    }
    assert_true(units > 10000 && errors > 10000);
}

/* What ffmpeg has published on a channel, unpacked. */
static void unpack_vector(sluice_pool *pool, const char *name, uint8_t channel, sluice_rtp_format format, size_t piece,
                          struct log *log) {
    size_t size;
    uint8_t *bytes = vector_read(name, &size);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    sluice_rtp_source source = {0};
    sluice_rtp_unpacker *unpacker = unpacker_new(format, NULL);
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    log_init(log);
    for (size_t done = 0; done < size;) {
        /* A few at a time, so that the pool need not hold all of it in small blocks. */
        size_t more = size - done < piece * 64 ? size - done : piece * 64;
        feed(chain, pool, bytes + done, more, piece);
        done += more;
        while (sluice_rtsp_next(rtsp, chain, &message) == 1) {
            sluice_rtp_packet packet;
            uint64_t sequence;
            if (message->kind != SLUICE_RTSP_INTERLEAVED || message->channel != channel)
                continue;
            assert_int_equal(sluice_rtp_read(&message->payload, &packet), 0);
            assert_int_equal(sluice_rtp_note(&source, packet.sequence, &sequence), SLUICE_RTP_IN_ORDER);
            assert_int_equal(sluice_rtp_unpacker_push(unpacker, &message->payload, &packet, sequence), 0);
            drain(unpacker, log);
        }
    }
    assert_int_equal(log->errors, 0);
    assert_int_equal(log->damaged, 0);
    assert_int_equal(source.lost, 0);
    sluice_rtp_unpacker_free(unpacker);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    free(bytes);
}

/* Whether the element at @last, a log's last one, is one of those from @from on. */
static bool is_repeated(const struct log *log, size_t from, size_t last) {
    for (size_t at = from; at < last;) {
        size_t length = 4 + ((size_t)log->bytes[at + 2] << 8 | log->bytes[at + 3]);
        if (length == log->size - last && memcmp(log->bytes + at, log->bytes + last, length) == 0)
            return true;
        at += length;
    }
    return false;
}

/*
 * The vector's media, as a log has them: Annex B ('v'), ADTS ('a'), packets behind their lengths
 * ('o'), samples ('p'). In H.265 ('h') ffmpeg's Annex B has the headers twice before each key
 * picture.
 */
static void read_media(const char *name, char kind, struct log *log) {
    size_t size, at = 0, group = 0;
    bool in_headers = false;
    uint8_t *bytes = vector_read(name, &size);
    log_init(log);
    while (at < size) {
        size_t begin = at, end = size, last = log->size;
        if (kind == 'v' || kind == 'h') {
            for (begin = at; bytes[begin] == 0; begin++)
                ;
            begin++;
            for (size_t i = begin; i + 2 < size && end == size; i++)
                if (bytes[i] == 0 && bytes[i + 1] == 0 && bytes[i + 2] <= 1)
                    end = i;
        } else if (kind == 'a') {
            begin = at + 7;
            end = at + ((size_t)(bytes[at + 3] & 3) << 11 | (size_t)bytes[at + 4] << 3 | bytes[at + 5] >> 5);
        } else if (kind == 'o') {
            begin = at + 2;
            end = begin + ((size_t)bytes[at] << 8 | bytes[at + 1]);
        }
        if (kind != 'p')
            log_length(log, end - begin);
        log_bytes(log, bytes + begin, end - begin);
        at = end;
        bool is_header = kind == 'h' && bytes[begin] >= 64;
        if (is_header && !in_headers)
            group = last;
        if (is_header && is_repeated(log, group, last))
            log->size = last;
        in_headers = is_header;
    }
    free(bytes);
}

/* Without the lengths: for samples, which are packed as it comes. */
static void strip_lengths(struct log *log) {
    size_t to = 0;
    for (size_t at = 0; at < log->size;) {
        size_t length = (size_t)log->bytes[at + 2] << 8 | log->bytes[at + 3];
        memmove(log->bytes + to, log->bytes + at + 4, length);
        to += length;
        at += 4 + length;
    }
    log->size = to;
}

static void sessions_of_ffmpeg(void **state) {
    static const struct {
        const char *session, *media;
        uint8_t channel;
        sluice_rtp_format format;
        char kind;
        unsigned units, keys;
        /* of the media: ffmpeg gathers AAC frames, and forgets those it has at the end */
        size_t unsent;
    } streams[] = {
        {"h264-aac.publish", "h264-aac.video", 0, SLUICE_RTP_H264, 'v', 10, 2, 0},
        {"h264-aac.publish", "h264-aac.audio", 2, SLUICE_RTP_AAC, 'a', 42, 42, 71 + 132 + 5 + 3 * 4},
        {"h265.publish", "h265.video", 0, SLUICE_RTP_H265, 'h', 10, 2, 0},
        {"pcmu.publish", "pcmu.audio", 0, SLUICE_RTP_AUDIO, 'p', 0, 0, 0},
        {"pcma.publish", "pcma.audio", 0, SLUICE_RTP_AUDIO, 'p', 0, 0, 0},
        {"opus.publish", "opus.audio", 0, SLUICE_RTP_AUDIO, 'o', 0, 0, 0},
    };
    static const size_t sizes[] = {4096, 1000, 512, 100, 33, 7, 3, 2, 1};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct log media;
        read_media(streams[i].media, streams[i].kind, &media);
        media.size -= streams[i].unsent;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct log log;
            unpack_vector(*state, streams[i].session, streams[i].channel, streams[i].format, sizes[s], &log);
            if (streams[i].kind == 'p')
                strip_lengths(&log);
            if (log.size != media.size)
                fail_msg("%s: %zu bytes, not %zu\n%s", streams[i].media, log.size, media.size, log.text);
            assert_memory_equal(log.bytes, media.bytes, media.size);
            if (streams[i].units) {
                assert_int_equal(log.units, streams[i].units);
                assert_int_equal(log.keys, streams[i].keys);
            }
            free(log.bytes);
        }
        free(media.bytes);
    }
}

static void durations_of_opus(void **state) {
    (void)state;
    static const struct {
        uint8_t bytes[2];
        uint32_t duration;
    } packets[] = {
        {{0x00}, 480},  {{0x08}, 960},     {{0x10}, 1920},    {{0x18}, 2880},     {{0x60}, 480},
        {{0x68}, 960},  {{0x80}, 120},     {{0x88}, 240},     {{0x90}, 480},      {{0xF8}, 960},
        {{0xF9}, 1920}, {{0xFA}, 1920},    {{0xFB, 3}, 2880}, {{0xFB, 6}, 5760},  {{0xFB, 7}, 0},
        {{0xFB, 0}, 0}, {{0x1B, 2}, 5760}, {{0x1B, 3}, 0},    {{0x83, 48}, 5760}, {{0x83, 0xC1}, 120},
    };
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++)
        assert_int_equal(sluice_rtp_opus_duration(packets[i].bytes, 2), packets[i].duration);
    assert_int_equal(sluice_rtp_opus_duration(packets[0].bytes, 0), 0);
    assert_int_equal(sluice_rtp_opus_duration(packets[12].bytes, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(payloads_at_every_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fragments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_of_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recovery_points, set_up, tear_down),
        cmocka_unit_test_setup_teardown(losses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(padding_alone_is_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_payloads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bad_aggregate_gives_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(aac, set_up, tear_down),
        cmocka_unit_test_setup_teardown(latm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_of_a_packet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_in_the_wrong_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sessions_of_ffmpeg, set_up, tear_down),
        cmocka_unit_test(durations_of_opus),
    };
    return cmocka_run_group_tests_name("rtp_unpack", tests, NULL, NULL);
}
