/* RTP and RTCP packets, however they are cut; sequence numbers, clocks and reports. */
#include <sluice/rtp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/rtsp.h>

#include "support/slices.h"
#include "support/vectors.h"

static int set_up(void **state) {
    *state = http_feed_pool(4096, 4096);
    return 0;
}

static int tear_down(void **state) {
    http_feed_pool_done(*state);
    return 0;
}

/* Marker, two contributing sources, an extension of one word, four bytes of payload, three of
 * padding. */
static const uint8_t full[] = {
    0xB2, 0xE0, 0x12, 0x34, 0xDE, 0xAD, 0xBE, 0xEF, 1, 2, 3,   4,   5,   6,   7,    8,    9, 10,
    11,   12,   0xBE, 0xDE, 0,    1,    0x10, 0xAA, 0, 0, 'd', 'a', 't', 'a', 0xFF, 0xFF, 3,
};

static void a_packet_at_every_cut(void **state) {
    sluice_pool *pool = *state;
    feed_guarded *guarded = feed_guarded_new(full, sizeof full);
    for (size_t a = 0; a <= sizeof full; a++)
        for (size_t b = a; b <= sizeof full; b++) {
            sluice_slice slice = slice_guarded(pool, guarded, a, b, sizeof full);
            sluice_rtp_packet p;
            assert_int_equal(sluice_rtp_read(&slice, &p), 0);
            assert_true(p.marker && p.has_extension);
            assert_int_equal(p.payload_type, 96);
            assert_int_equal(p.sequence, 0x1234);
            assert_int_equal(p.timestamp, 0xDEADBEEF);
            assert_int_equal(p.ssrc, 0x01020304);
            assert_int_equal(p.csrc_count, 2);
            assert_int_equal(p.csrc[1], 0x090A0B0C);
            assert_int_equal(p.extension_profile, 0xBEDE);
            assert_int_equal(p.extension_offset, 24);
            assert_int_equal(p.extension_length, 4);
            assert_int_equal(p.payload_offset, 28);
            assert_int_equal(p.payload_length, 4);
            assert_int_equal(p.padding, 3);
            sluice_slice_release(&slice);
        }
    feed_guarded_free(guarded);
}

static int result_of(sluice_pool *pool, const uint8_t *bytes, size_t size, sluice_rtp_packet *packet) {
    sluice_slice slice = slice_of(pool, bytes, size, 0);
    int result = sluice_rtp_read(&slice, packet);
    sluice_slice_release(&slice);
    return result;
}

static void malformed_packets(void **state) {
    sluice_pool *pool = *state;
    sluice_rtp_packet p = {.ssrc = 77};
    uint8_t bytes[sizeof full];
    /* Cut short the padding is read from the payload: its last byte says too much. */
    for (size_t size = 0; size < sizeof full; size++)
        assert_int_equal(result_of(pool, full, size, &p), -EPROTO);
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 0x72}, {0, 0xF2}, {0, 0xBF}, {23, 4}, {22, 1}, {34, 0}, {34, 8}, {34, 255}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bytes, full, sizeof full);
        bytes[wrong[i].at] = wrong[i].value;
        assert_int_equal(result_of(pool, bytes, sizeof bytes, &p), -EPROTO);
    }
    assert_int_equal(p.ssrc, 77);
    memcpy(bytes, full, sizeof full);
    bytes[34] = 7; /* all of it padding */
    assert_int_equal(result_of(pool, bytes, sizeof bytes, &p), 0);
    assert_int_equal(p.payload_length, 0);
    bytes[0] = 0x82;
    assert_int_equal(result_of(pool, bytes, 20, &p), 0);
    assert_int_equal(p.payload_length, 0);
    assert_int_equal(p.padding, 0);
}

static void a_written_header_is_read(void **state) {
    sluice_pool *pool = *state;
    const sluice_rtp_packet written = {
        .marker = true, .payload_type = 127, .sequence = 65535, .timestamp = UINT32_MAX, .ssrc = 0x80000001};
    uint8_t bytes[SLUICE_RTP_HEADER_SIZE];
    sluice_rtp_packet p;
    sluice_rtp_write(bytes, &written);
    assert_int_equal(result_of(pool, bytes, sizeof bytes, &p), 0);
    assert_true(p.marker && p.payload_type == 127 && p.sequence == 65535 && p.timestamp == UINT32_MAX);
    assert_true(p.ssrc == 0x80000001 && p.payload_offset == 12 && p.csrc_count == 0 && !p.has_extension);
}

static void sequence_numbers(void **state) {
    (void)state;
    static const struct {
        uint16_t sequence;
        sluice_rtp_arrival arrival;
        int64_t unwrapped; /* less 65,536; -1: not said */
        uint64_t lost, reordered, duplicates;
    } steps[] = {
        {65533, SLUICE_RTP_IN_ORDER, 65533, 0, 0, 0},
        {65535, SLUICE_RTP_IN_ORDER, 65535, 1, 0, 0},
        {1, SLUICE_RTP_IN_ORDER, 65537, 2, 0, 0},
        {65534, SLUICE_RTP_REORDERED, 65534, 1, 1, 0},
        {65534, SLUICE_RTP_DUPLICATE, 65534, 1, 1, 1},
        {1, SLUICE_RTP_DUPLICATE, 65537, 1, 1, 2},
        {0, SLUICE_RTP_REORDERED, 65536, 0, 2, 2},
        {65530, SLUICE_RTP_REORDERED, 65530, 0, 3, 2}, /* before the first: never missed */
        {3000, SLUICE_RTP_IN_ORDER, 68536, 2998, 3, 2},
        {6000, SLUICE_RTP_SUSPECT, -1, 2998, 3, 2},
        {3001, SLUICE_RTP_IN_ORDER, 68537, 2998, 3, 2},
        {6001, SLUICE_RTP_SUSPECT, -1, 2998, 3, 2}, /* the jump has been forgotten */
        {2901, SLUICE_RTP_REORDERED, 68437, 2997, 4, 2},
        {2800, SLUICE_RTP_SUSPECT, -1, 2997, 4, 2},
        {2902, SLUICE_RTP_REORDERED, 68438, 2996, 5, 2},
        {2801, SLUICE_RTP_RESTARTED, 199409, 2996, 5, 2}, /* goes on from the jump */
        {2802, SLUICE_RTP_IN_ORDER, 199410, 2996, 5, 2},
    };
    sluice_rtp_source source = {0};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t sequence = UINT64_MAX;
        sluice_rtp_arrival arrival = sluice_rtp_note(&source, steps[i].sequence, &sequence);
        if (arrival != steps[i].arrival || source.lost != steps[i].lost || source.reordered != steps[i].reordered ||
            source.duplicates != steps[i].duplicates ||
            sequence != (steps[i].unwrapped < 0 ? UINT64_MAX : (uint64_t)steps[i].unwrapped + 65536))
            fail_msg("step %zu: %d, %llu, lost %llu", i, arrival, (unsigned long long)sequence - 65536,
                     (unsigned long long)source.lost);
    }
    assert_int_equal(source.restarts, 1);
}

/* What has come is remembered for the last hundred numbers, however the stream has gone on
 * since. */
static void doubles_are_known_however_late(void **state) {
    (void)state;
    for (uint16_t ahead = 1; ahead <= 100; ahead++) {
        for (uint16_t step = 1; step <= ahead; step++) {
            sluice_rtp_source source = {0};
            uint64_t sequence;
            assert_int_equal(sluice_rtp_note(&source, 500, &sequence), SLUICE_RTP_IN_ORDER);
            for (uint16_t n = step; n < ahead; n += step)
                assert_int_equal(sluice_rtp_note(&source, 500 + n, &sequence), SLUICE_RTP_IN_ORDER);
            assert_int_equal(sluice_rtp_note(&source, 500 + ahead, &sequence), SLUICE_RTP_IN_ORDER);
            for (uint16_t n = 0; n <= ahead; n++) {
                bool came = n % step == 0 || n == ahead;
                assert_int_equal(sluice_rtp_note(&source, 500 + n, &sequence),
                                 came ? SLUICE_RTP_DUPLICATE : SLUICE_RTP_REORDERED);
                assert_int_equal(sequence, 65536 + 500 + n);
            }
            assert_int_equal(source.lost, 0);
        }
    }
}

/* A long stream with losses, late and double packets: the counts are those of what was done to
 * it. */
static void counts_of_a_long_stream(void **state) {
    (void)state;
    enum { PACKETS = 300000, LATE = 60 };
    sluice_rtp_source source = {0};
    uint64_t seed = 88172645463325252u, lost = 0, doubled = 0, late = 0, held = 0, sequence;
    for (uint64_t i = 65536 + 500; i < 65536 + 500 + PACKETS; i++) {
        uint64_t dice = http_feed_random(&seed) % 100;
        bool is_edge = i < 65536 + 502 || i > 65536 + 500 + PACKETS - 3;
        if (held && i - held == LATE) { /* what was held back comes now */
            assert_int_equal(sluice_rtp_note(&source, (uint16_t)held, &sequence), SLUICE_RTP_REORDERED);
            assert_int_equal(sequence, held);
            held = 0;
            late++;
        }
        if (dice < 2 && !is_edge) {
            lost++;
            continue;
        }
        if (dice == 2 && !held && !is_edge && i + LATE < 65536 + 500 + PACKETS) {
            held = i;
            continue;
        }
        assert_int_equal(sluice_rtp_note(&source, (uint16_t)i, &sequence), SLUICE_RTP_IN_ORDER);
        assert_int_equal(sequence, i);
        if (dice == 3) {
            assert_int_equal(sluice_rtp_note(&source, (uint16_t)i, &sequence), SLUICE_RTP_DUPLICATE);
            doubled++;
        }
    }
    assert_int_equal(source.lost, lost);
    assert_int_equal(source.duplicates, doubled);
    assert_int_equal(source.reordered, late);
    assert_int_equal(source.received, PACKETS - lost);
    assert_true(lost > 1000 && doubled > 1000 && late > 1000);

    sluice_rtcp_report report;
    sluice_rtp_report(&source, 9, 0, 0, 0, &report);
    assert_int_equal(report.ssrc, 9);
    assert_int_equal(report.lost, lost);
    assert_int_equal(report.fraction_lost, lost * 256 / PACKETS);
    assert_int_equal(report.highest, 500 + PACKETS - 1);
    assert_int_equal(report.delay, 0);
    /* The next interval: half of ten packets are lost. */
    for (int i = 0; i < 10; i += 2)
        sluice_rtp_note(&source, (uint16_t)(500 + PACKETS + 1 + i), &sequence);
    sluice_rtp_report(&source, 9, 0x123456789ABCDEF0, 0x1000000000000, 0x1000180000000, &report);
    assert_int_equal(report.fraction_lost, 128);
    assert_int_equal(report.last_sr, 0x56789ABC);
    assert_int_equal(report.delay, 0x18000);
}

static void jitter(void **state) {
    (void)state;
    sluice_rtp_source source = {0};
    for (uint32_t i = 0; i < 100; i++)
        sluice_rtp_note_time(&source, i * 3000, UINT32_MAX - 1000 + i * 3000);
    assert_int_equal(source.jitter, 0);
    /* Each packet is 160 units early or late: it converges to that. */
    for (uint32_t i = 100; i < 400; i++)
        sluice_rtp_note_time(&source, i * 3000, UINT32_MAX - 1000 + i * 3000 + (i % 2) * 160);
    assert_in_range(source.jitter >> 4, 155, 160);
}

static void timestamps(void **state) {
    (void)state;
    sluice_rtp_clock clock = {0};
    assert_int_equal(sluice_rtp_unwrap(&clock, 100), 100);
    assert_int_equal(sluice_rtp_unwrap(&clock, 50), 50);
    assert_int_equal(sluice_rtp_unwrap(&clock, UINT32_MAX), -1);
    assert_int_equal(sluice_rtp_unwrap(&clock, 0x70000000), 0x70000000);
    assert_int_equal(sluice_rtp_unwrap(&clock, 0xE0000000), 0xE0000000);
    assert_int_equal(sluice_rtp_unwrap(&clock, 0x10000000), 0x110000000);
    assert_int_equal(sluice_rtp_unwrap(&clock, 0xF0000000), 0xF0000000);
    for (int64_t i = 0x110000000; i < 0x1900000000; i += 0x7FFFFFFF)
        assert_int_equal(sluice_rtp_unwrap(&clock, (uint32_t)i), i);
}

static void wall_clock(void **state) {
    (void)state;
    const uint64_t ntp = (uint64_t)3900000000 << 32 | 0x80000000;
    const sluice_rtp_mapping mapping = {.valid = true, .ntp = ntp, .timestamp = 1000000, .rate = 90000};
    assert_int_equal(sluice_rtp_to_ntp(&mapping, 1000000), ntp);
    assert_int_equal(sluice_rtp_to_ntp(&mapping, 1090000), ntp + ((uint64_t)1 << 32));
    assert_int_equal(sluice_rtp_to_ntp(&mapping, 1000000 - 45000), ntp - ((uint64_t)1 << 31));
    assert_int_equal(sluice_rtp_from_ntp(&mapping, ntp + ((uint64_t)10 << 32)), 1900000);
    static const uint32_t rates[] = {90000, 8000, 44100, 48000, 1};
    for (size_t r = 0; r < 5; r++) {
        sluice_rtp_mapping m = mapping;
        m.rate = rates[r];
        for (int64_t t = -5000000007; t < 5000000000; t += 70000003)
            assert_int_equal(sluice_rtp_from_ntp(&m, sluice_rtp_to_ntp(&m, t % (m.rate * 30000LL))),
                             t % (m.rate * 30000LL));
    }
    /* Whatever a peer says of its clocks: what no timestamp can say is the last one that there
     * is. */
    static const int64_t ends[] = {INT64_MIN, -(int64_t)UINT32_MAX, 0, UINT32_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const sluice_rtp_mapping far = {.valid = true, .ntp = ntp, .timestamp = ends[i], .rate = UINT32_MAX};
        int64_t later = sluice_rtp_from_ntp(&far, ntp + INT64_MAX), before = sluice_rtp_from_ntp(&far, ntp - INT64_MAX);
        assert_true(ends[i] <= 0 ? later > ends[i] : later == INT64_MAX);
        assert_true(ends[i] >= 0 ? before < ends[i] : before == INT64_MIN);
        assert_int_equal(sluice_rtp_from_ntp(&far, ntp), ends[i]);
    }
    static const uint64_t times[] = {
        0, 1, 999999999, 1000000000, 1763740800123456789, 2085978495999999999, 2085978496000000000};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_int_equal(sluice_rtp_ntp_to_unix(sluice_rtp_ntp_from_unix(times[i])), times[i]);
    assert_int_equal(sluice_rtp_ntp_from_unix(0) >> 32, 2208988800);
}

/* SR with a block, SDES with a CNAME behind another item, an unknown type, RR, BYE with reason and
 * padding. */
static const uint8_t compound[] = {
    0x81, 200, 0,   12,  0,   0,   0, 1, 0xE0, 0,    0,    0,    0x80, 0,    0,    1, 0, 1, 2, 3, 0,
    0,    0,   9,   0,   0,   1,   0, 0, 0,    0,    2,    0x40, 0xFF, 0xFF, 0xFE, 0, 1, 0, 5, 0, 0,
    0,    6,   0,   0,   0,   7,   0, 0, 0,    8,    0x81, 202,  0,    4,    0,    0, 0, 1, 2, 1, 'n',
    1,    4,   'c', '@', 'h', '1', 0, 0, 0,    0x80, 210,  0,    0,    0x80, 201,  0, 1, 0, 0, 0, 2,
    0xA1, 203, 0,   4,   0,   0,   0, 1, 3,    'b',  'y',  'e',  0,    0,    0,    0, 0, 0, 0, 8,
};

static void check_compound(const sluice_slice *slice) {
    sluice_rtcp_packet p;
    size_t offset = 0;
    assert_int_equal(sluice_rtcp_next(slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SR && p.ssrc == 1 && p.count == 1 && p.offset == 0 && p.length == 52);
    assert_int_equal(p.ntp, 0xE000000080000001);
    assert_true(p.timestamp == 0x10203 && p.packets == 9 && p.octets == 256);
    assert_true(p.reports[0].ssrc == 2 && p.reports[0].fraction_lost == 64 && p.reports[0].lost == -2);
    assert_true(p.reports[0].highest == 0x10005 && p.reports[0].jitter == 6 && p.reports[0].last_sr == 7);
    assert_int_equal(p.reports[0].delay, 8);
    assert_int_equal(sluice_rtcp_next(slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SDES && p.ssrc == 1 && p.count == 1 && p.text_length == 4);
    uint8_t bytes[sizeof compound];
    slice_bytes(slice, bytes, sizeof bytes);
    assert_memory_equal(bytes + p.text_offset, "c@h1", 4);
    assert_int_equal(sluice_rtcp_next(slice, &offset, &p), 1);
    assert_true(p.type == 210 && p.length == 4);
    assert_int_equal(sluice_rtcp_next(slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_RR && p.ssrc == 2 && p.count == 0);
    assert_int_equal(sluice_rtcp_next(slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_BYE && p.sources[0] == 1 && p.text_length == 3);
    assert_memory_equal(bytes + p.text_offset, "bye", 3);
    assert_int_equal(sluice_rtcp_next(slice, &offset, &p), 0);
    assert_int_equal(offset, sizeof compound);
}

static void a_compound_at_every_cut(void **state) {
    sluice_pool *pool = *state;
    feed_guarded *guarded = feed_guarded_new(compound, sizeof compound);
    for (size_t a = 0; a <= sizeof compound; a++)
        for (size_t b = a; b <= sizeof compound; b++) {
            sluice_slice slice = slice_guarded(pool, guarded, a, b, sizeof compound);
            check_compound(&slice);
            sluice_slice_release(&slice);
        }
    feed_guarded_free(guarded);
}

/* How many packets there are, or the error. */
static int walk(sluice_pool *pool, const uint8_t *bytes, size_t size, size_t piece, uint64_t *sum) {
    sluice_slice slice = slice_of(pool, bytes, size, piece);
    sluice_rtcp_packet p;
    size_t offset = 0;
    int result, count = 0;
    while ((result = sluice_rtcp_next(&slice, &offset, &p)) == 1) {
        count++;
        *sum = *sum * 31 + p.type + p.offset + p.length + p.ssrc + p.ntp + p.count + p.text_offset + p.text_length;
        for (int i = 0; i < p.count; i++)
            *sum = *sum * 31 + p.reports[i].delay + p.sources[i];
    }
    assert_int_equal(offset, size);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 0);
    sluice_slice_release(&slice);
    return result < 0 ? result : count;
}

static void malformed_compounds(void **state) {
    sluice_pool *pool = *state;
    static const size_t borders[] = {52, 72, 76, 84};
    uint64_t sum = 0;
    for (size_t size = 1; size < sizeof compound; size++) {
        int expected = -EPROTO;
        for (int i = 0; i < 4; i++)
            expected = size == borders[i] ? i + 1 : expected;
        assert_int_equal(walk(pool, compound, size, 0, &sum), expected);
    }
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {
        {0, 0x41}, {0, 0xA1}, {0, 0x82},  {3, 10}, {2, 1},   {52, 0x82}, {55, 1},   {61, 10},
        {64, 9},   {79, 0},   {84, 0xA3}, {92, 4}, {103, 3}, {103, 0},   {103, 16}, {103, 20},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t bytes[sizeof compound];
        memcpy(bytes, compound, sizeof compound);
        bytes[wrong[i].at] = wrong[i].value;
        if (walk(pool, bytes, sizeof bytes, 0, &sum) != -EPROTO)
            fail_msg("case %zu is taken", i);
    }
}

/* Damaged compounds give in pieces what they give in one. */
static void damage(void **state) {
    sluice_pool *pool = *state;
    uint64_t seed = 0x9E3779B97F4A7C15;
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[sizeof compound];
        memcpy(bytes, compound, sizeof compound);
        for (uint64_t i = 1 + http_feed_random(&seed) % 3; i > 0; i--)
            bytes[http_feed_random(&seed) % sizeof bytes] = (uint8_t)http_feed_random(&seed);
        size_t size = http_feed_random(&seed) % 4 ? sizeof bytes : 1 + http_feed_random(&seed) % sizeof bytes;
        uint64_t whole = 0, pieces = 0;
        int result = walk(pool, bytes, size, 0, &whole);
        assert_int_equal(walk(pool, bytes, size, 1 + http_feed_random(&seed) % 7, &pieces), result);
        assert_int_equal(pieces, whole);
        refused += result < 0;
    }
    assert_true(refused > 1000);
}

static void written_reports_are_read(void **state) {
    sluice_pool *pool = *state;
    sluice_rtcp_packet sr = {.type = SLUICE_RTCP_SR,
                             .ssrc = 5,
                             .ntp = 0x0102030405060708,
                             .timestamp = 9,
                             .packets = 10,
                             .octets = 11,
                             .count = SLUICE_RTCP_MAX_REPORTS};
    for (uint32_t i = 0; i < SLUICE_RTCP_MAX_REPORTS; i++)
        sr.reports[i] = (sluice_rtcp_report){i, (uint8_t)i, -(int32_t)i, i * 2, i * 3, i * 4, i * 5};
    sluice_rtcp_packet rr = sr, bye = {.type = SLUICE_RTCP_BYE, .ssrc = 6};
    rr.type = SLUICE_RTCP_RR;
    char name[257] = "";
    memset(name, 'n', 255);
    uint8_t bytes[4096];
    int n = sluice_rtcp_write(bytes, sizeof bytes, &sr);
    assert_int_equal(n, 28 + 31 * 24);
    n += sluice_rtcp_write(bytes + n, sizeof bytes - (size_t)n, &rr);
    int sdes = sluice_rtcp_write_sdes(bytes + n, sizeof bytes - (size_t)n, 7, name);
    assert_int_equal(sdes, SLUICE_RTCP_MAX_SDES);
    n += sdes;
    n += sluice_rtcp_write(bytes + n, sizeof bytes - (size_t)n, &bye);

    sluice_slice slice = slice_of(pool, bytes, (size_t)n, 3);
    sluice_rtcp_packet p;
    size_t offset = 0;
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SR && p.ssrc == 5 && p.ntp == sr.ntp && p.timestamp == 9);
    assert_true(p.packets == 10 && p.octets == 11);
    assert_memory_equal(p.reports, sr.reports, sizeof p.reports);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_RR && p.count == 31);
    assert_memory_equal(p.reports, sr.reports, sizeof p.reports);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_SDES && p.ssrc == 7 && p.text_length == 255);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 1);
    assert_true(p.type == SLUICE_RTCP_BYE && p.ssrc == 6);
    assert_int_equal(sluice_rtcp_next(&slice, &offset, &p), 0);
    sluice_slice_release(&slice);

    /* Names of every length are padded to 32 bits, and every buffer that is too small is
     * refused. */
    for (size_t length = 0; length <= 255; length++) {
        name[length] = '\0';
        sdes = sluice_rtcp_write_sdes(bytes, sizeof bytes, 7, name);
        assert_true(sdes > 0 && sdes % 4 == 0);
        assert_int_equal(sluice_rtcp_write_sdes(bytes, (size_t)sdes - 1, 7, name), -EMSGSIZE);
        uint64_t sum = 0;
        assert_int_equal(walk(pool, bytes, (size_t)sdes, 0, &sum), 1);
        name[length] = 'n';
    }
    name[255] = 'n';
    assert_int_equal(sluice_rtcp_write_sdes(bytes, sizeof bytes, 7, name), -EINVAL);
    assert_int_equal(sluice_rtcp_write(bytes, 28 + 31 * 24 - 1, &sr), -EMSGSIZE);
    assert_int_equal(sluice_rtcp_write(bytes, 7, &bye), -EMSGSIZE);
    sr.count = 32;
    assert_int_equal(sluice_rtcp_write(bytes, sizeof bytes, &sr), -EINVAL);
    bye.type = SLUICE_RTCP_APP;
    assert_int_equal(sluice_rtcp_write(bytes, sizeof bytes, &bye), -EINVAL);
}

/* ffmpeg sends a report before each track's first packet; the clock that it gives is that of the
 * packets. */
static void reports_of_ffmpeg(void **state) {
    sluice_pool *pool = *state;
    static const uint32_t rates[] = {90000, 44100};
    sluice_rtp_mapping mappings[2] = {{0}};
    uint64_t first[2] = {0};
    size_t size;
    uint8_t *bytes = vector_read("h264-aac.publish", &size);
    sluice_chain *chain = http_feed_chain(pool);
    sluice_rtsp *rtsp;
    sluice_rtsp_message *message;
    assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
    feed(chain, pool, bytes, size, 1000);
    while (sluice_rtsp_next(rtsp, chain, &message) == 1) {
        int track = message->channel / 2;
        if (message->kind != SLUICE_RTSP_INTERLEAVED)
            continue;
        if (message->channel % 2) {
            sluice_rtcp_packet p;
            size_t offset = 0;
            assert_int_equal(sluice_rtcp_next(&message->payload, &offset, &p), 1);
            assert_int_equal(p.type, SLUICE_RTCP_SR);
            mappings[track] = (sluice_rtp_mapping){true, p.ntp, p.timestamp, rates[track]};
            assert_int_equal(sluice_rtcp_next(&message->payload, &offset, &p), 0);
        } else if (!first[track]) {
            sluice_rtp_packet p;
            assert_int_equal(sluice_rtp_read(&message->payload, &p), 0);
            assert_true(mappings[track].valid);
            first[track] = sluice_rtp_to_ntp(&mappings[track], p.timestamp);
        }
    }
    /* Both tracks begin at the same time of the wall clock, but for the encoders' delays. */
    assert_true(first[0] && first[1]);
    int64_t apart = (int64_t)(first[0] - first[1]) * 1000 / ((int64_t)1 << 32);
    assert_in_range(apart + 300, 0, 600);
    sluice_rtsp_free(rtsp);
    sluice_chain_free(chain);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_packet_at_every_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_packets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_written_header_is_read, set_up, tear_down),
        cmocka_unit_test(sequence_numbers),
        cmocka_unit_test(doubles_are_known_however_late),
        cmocka_unit_test(counts_of_a_long_stream),
        cmocka_unit_test(jitter),
        cmocka_unit_test(timestamps),
        cmocka_unit_test(wall_clock),
        cmocka_unit_test_setup_teardown(a_compound_at_every_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_compounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(written_reports_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports_of_ffmpeg, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("rtp", tests, NULL, NULL);
}
