/* Layouts of NAL units and frames in RTP packets: exact bytes, every size at every limit, and
 * ffmpeg's. */
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
    *state = http_feed_pool(4096, 1024);
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

/* The payload of a part, as it is on the wire. */
static size_t part_bytes(const sluice_rtp_part *part, const uint8_t *nal, uint8_t *to) {
    memcpy(to, part->prefix, part->prefix_size);
    memcpy(to + part->prefix_size, nal + part->offset, part->length);
    return part->prefix_size + part->length;
}

static void expect_part(sluice_rtp_packing *packing, const uint8_t *nal, const uint8_t *bytes, size_t size, bool last) {
    sluice_rtp_part part;
    uint8_t payload[256];
    assert_int_equal(sluice_rtp_pack_next(packing, &part), 1);
    assert_int_equal(part_bytes(&part, nal, payload), size);
    assert_memory_equal(payload, bytes, size);
    assert_int_equal(part.last, last);
}

static void fragments_as_the_standards_show_them(void **state) {
    (void)state;
    static const uint8_t idr[] = {0x65, 1, 2, 3, 4, 5, 6}, irap[] = {0x26, 0x0A, 1, 2, 3, 4, 5},
                         aac[] = {1, 2, 3, 4, 5};
    sluice_rtp_packing packing;
    sluice_rtp_part part;
    assert_int_equal(sluice_rtp_pack(&packing, SLUICE_RTP_H264, idr, sizeof idr, 7), 0);
    expect_part(&packing, idr, idr, sizeof idr, true);
    assert_int_equal(sluice_rtp_pack_next(&packing, &part), 0);
    assert_int_equal(sluice_rtp_pack(&packing, SLUICE_RTP_H264, idr, sizeof idr, 4), 0);
    expect_part(&packing, idr, BYTES(0x7C, 0x85, 1, 2), false);
    expect_part(&packing, idr, BYTES(0x7C, 0x05, 3, 4), false);
    expect_part(&packing, idr, BYTES(0x7C, 0x45, 5, 6), true);
    assert_int_equal(sluice_rtp_pack_next(&packing, &part), 0);
    /* The type goes to the FU header, layer and temporal id stay. */
    assert_int_equal(sluice_rtp_pack(&packing, SLUICE_RTP_H265, irap, sizeof irap, 6), 0);
    expect_part(&packing, irap, BYTES(0x62, 0x0A, 0x93, 1, 2, 3), false);
    expect_part(&packing, irap, BYTES(0x62, 0x0A, 0x53, 4, 5), true);
    assert_int_equal(sluice_rtp_pack_next(&packing, &part), 0);
    /* Each fragment's AU header says how long the whole frame is. */
    assert_int_equal(sluice_rtp_pack(&packing, SLUICE_RTP_AAC, NULL, sizeof aac, 7), 0);
    expect_part(&packing, aac, BYTES(0, 16, 0, 0x28, 1, 2, 3), false);
    expect_part(&packing, aac, BYTES(0, 16, 0, 0x28, 4, 5), true);
    assert_int_equal(sluice_rtp_pack_next(&packing, &part), 0);
    assert_int_equal(sluice_rtp_pack(&packing, SLUICE_RTP_AUDIO, NULL, sizeof aac, 5), 0);
    expect_part(&packing, aac, aac, sizeof aac, true);
    assert_int_equal(sluice_rtp_pack_next(&packing, &part), 0);
}

static void what_cannot_be_laid_out(void **state) {
    (void)state;
    sluice_rtp_packing p = {.length = 77};
    static const uint8_t nal[2] = {0x65, 1};
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_H264, nal, 0, 100), -EINVAL);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_H265, nal, 1, 100), -EINVAL);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_AAC, NULL, 0, 100), -EINVAL);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_H264, nal, 2, 2), -EINVAL);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_H265, nal, 2, 3), -EINVAL);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_AAC, NULL, 2, 4), -EINVAL);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_AAC, NULL, 8192, 65000), -EMSGSIZE);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_AUDIO, NULL, 101, 100), -EMSGSIZE);
    assert_int_equal(p.length, 77);
    assert_int_equal(sluice_rtp_pack(&p, SLUICE_RTP_AAC, NULL, 8191, 65000), 0);
}

/* Lays the unit out, and back: the parts fill their packets, the unpacker gives the unit again. */
static unsigned there_and_back(sluice_pool *pool, sluice_rtp_unpacker *unpacker, sluice_rtp_format format,
                               const uint8_t *nal, size_t length, size_t most, uint64_t *sequence) {
    sluice_rtp_packing packing;
    sluice_rtp_part part;
    sluice_rtp_unit *unit = NULL;
    unsigned count = 0, units = 0;
    size_t before = 0;
    bool last = false;
    assert_int_equal(sluice_rtp_pack(&packing, format, nal, length, most), 0);
    while (sluice_rtp_pack_next(&packing, &part) == 1) {
        uint8_t bytes[4096];
        assert_false(last);
        last = part.last;
        assert_true(part.offset >= before);
        before = part.offset + part.length;
        sluice_rtp_packet view = {.marker = part.last, .payload_type = 96, .timestamp = (uint32_t)length};
        sluice_rtp_write(bytes, &view);
        size_t size = part_bytes(&part, nal, bytes + SLUICE_RTP_HEADER_SIZE);
        assert_true(size <= most && (part.last || size == most));
        sluice_slice slice = slice_of(pool, bytes, SLUICE_RTP_HEADER_SIZE + size, 0);
        assert_int_equal(sluice_rtp_read(&slice, &view), 0);
        assert_int_equal(sluice_rtp_unpacker_push(unpacker, &slice, &view, ++*sequence), 0);
        sluice_slice_release(&slice);
        while (sluice_rtp_unpacker_next(unpacker, &unit) == 1) {
            uint8_t whole[4096];
            size_t n = 0;
            units++;
            assert_int_equal(unit->nal_count, 1);
            for (; n < unit->nals[0].header_size; n++)
                whole[n] = unit->nals[0].header[n];
            for (size_t i = 0; i < unit->piece_count; i++)
                n += slice_bytes(&unit->pieces[i], whole + n, sizeof whole - n);
            assert_int_equal(n, length);
            assert_memory_equal(whole, nal, length);
            assert_false(unit->damaged);
        }
        count++;
    }
    assert_true(last);
    assert_int_equal(before, length);
    assert_int_equal(units, 1);
    return count;
}

static void every_size_at_every_limit(void **state) {
    sluice_pool *pool = *state;
    uint8_t nal[400];
    for (size_t i = 0; i < sizeof nal; i++)
        nal[i] = (uint8_t)(i * 7 + 1);
    for (int format = SLUICE_RTP_H264; format <= SLUICE_RTP_AUDIO; format++) {
        sluice_rtp_unpacker *unpacker;
        uint64_t sequence = 0;
        nal[0] = format == SLUICE_RTP_H265 ? 0x26 : 0x65;
        assert_int_equal(sluice_rtp_unpacker_new((sluice_rtp_format)format, NULL, &unpacker), 0);
        for (size_t length = 2; length <= 100; length++)
            for (size_t most = format == SLUICE_RTP_AUDIO ? length : 5; most <= 110; most++)
                there_and_back(pool, unpacker, (sluice_rtp_format)format, nal, length, most, &sequence);
        if (format != SLUICE_RTP_AUDIO)
            assert_true(there_and_back(pool, unpacker, (sluice_rtp_format)format, nal, 400, 14, &sequence) > 30);
        sluice_rtp_unpacker_free(unpacker);
    }
}

static size_t aggregate_bytes(const sluice_rtp_member *members, const uint8_t *const *nals, size_t count, uint8_t *to) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(to + size, members[i].prefix, members[i].prefix_size);
        size += members[i].prefix_size;
        memcpy(to + size, nals[i], members[i].length);
        size += members[i].length;
    }
    return size;
}

static void aggregates(void **state) {
    (void)state;
    static const uint8_t sps[] = {0x67, 1, 2}, pps[] = {0x48, 3}, idr[] = {0x05, 4, 5, 6};
    const uint8_t *const nals[] = {sps, pps, idr};
    sluice_rtp_member members[3] = {{{0x67, 1}, 3, {0}, 0}, {{0x48, 3}, 2, {0}, 0}, {{0x05, 4}, 4, {0}, 0}};
    static const uint8_t expected[] = {0x78, 0, 3, 0x67, 1, 2, 0, 2, 0x48, 3, 0, 4, 0x05, 4, 5, 6};
    uint8_t bytes[64];
    for (size_t most = 0; most < 20; most++) {
        size_t fit = sluice_rtp_aggregate(SLUICE_RTP_H264, members, 3, most);
        assert_int_equal(fit, most < 6 ? 0 : most < 10 ? 1 : most < 16 ? 2 : 3);
        size_t size = aggregate_bytes(members, nals, fit, bytes);
        assert_true(size <= most);
        assert_memory_equal(bytes, expected, size);
    }
    /* The importance is the highest of those that are in it; an F bit is not lost. */
    assert_int_equal(sluice_rtp_aggregate(SLUICE_RTP_H264, members + 1, 2, 100), 2);
    assert_int_equal(members[1].prefix[0], 0x58);
    members[2].start[0] = 0x85;
    assert_int_equal(sluice_rtp_aggregate(SLUICE_RTP_H264, members + 1, 2, 100), 2);
    assert_int_equal(members[1].prefix[0], 0xD8);

    /* H.265: the lowest layer and temporal id. Layer 33 and 5, temporal ids 2 and 3. */
    static const uint8_t vps[] = {0x41, 0x0A, 1}, slice[] = {0x02, 0x2B};
    const uint8_t *const hevc[] = {vps, slice};
    sluice_rtp_member two[2] = {{{0x41, 0x0A}, 3, {0}, 0}, {{0x02, 0x2B}, 2, {0}, 0}};
    static const uint8_t ap[] = {0x60, 0x2A, 0, 3, 0x41, 0x0A, 1, 0, 2, 0x02, 0x2B};
    assert_int_equal(sluice_rtp_aggregate(SLUICE_RTP_H265, two, 2, sizeof ap - 1), 1);
    assert_int_equal(sluice_rtp_aggregate(SLUICE_RTP_H265, two, 2, sizeof ap), 2);
    assert_int_equal(aggregate_bytes(two, hevc, 2, bytes), sizeof ap);
    assert_memory_equal(bytes, ap, sizeof ap);
    two[1].length = 1; /* no NAL unit */
    assert_int_equal(sluice_rtp_aggregate(SLUICE_RTP_H265, two, 2, 100), 1);
    assert_int_equal(sluice_rtp_aggregate(SLUICE_RTP_AAC, two, 2, 100), 0);
}

static void headers_of_aac(void **state) {
    (void)state;
    static const uint32_t lengths[64] = {1, 8191, 3};
    uint8_t bytes[256];
    static const uint8_t expected[] = {0, 48, 0, 8, 0xFF, 0xF8, 0, 24};
    assert_int_equal(sluice_rtp_write_aac(bytes, 8, lengths, 3), 8);
    assert_memory_equal(bytes, expected, 8);
    assert_int_equal(sluice_rtp_write_aac(bytes, 7, lengths, 3), -EMSGSIZE);
    assert_int_equal(sluice_rtp_write_aac(bytes, sizeof bytes, lengths, 0), -EINVAL);
    assert_int_equal(sluice_rtp_write_aac(bytes, sizeof bytes, lengths, 4), -EINVAL);
    assert_int_equal(sluice_rtp_write_aac(bytes, sizeof bytes, (const uint32_t[]){8192}, 1), -EINVAL);
    uint32_t many[65];
    for (int i = 0; i < 65; i++)
        many[i] = 5;
    assert_int_equal(sluice_rtp_write_aac(bytes, sizeof bytes, many, 64), 130);
    assert_int_equal(sluice_rtp_write_aac(bytes, sizeof bytes, many, 65), -EINVAL);
}

/* A unit of what ffmpeg has sent: its long NAL units are fragmented as ffmpeg has done it. */
static size_t fragment(const sluice_rtp_unit *unit, sluice_rtp_format format, uint8_t *to) {
    enum { FFMPEG_PAYLOAD = 500 - SLUICE_RTP_HEADER_SIZE };
    size_t size = 0;
    for (size_t i = 0; i < unit->nal_count; i++) {
        static uint8_t whole[65536];
        const sluice_rtp_nal *nal = &unit->nals[i];
        sluice_rtp_packing packing;
        sluice_rtp_part part;
        size_t n = 0;
        if (nal->length <= FFMPEG_PAYLOAD)
            continue;
        for (; n < nal->header_size; n++)
            whole[n] = nal->header[n];
        for (size_t p = nal->first; p < nal->first + nal->count; p++)
            n += slice_bytes(&unit->pieces[p], whole + n, sizeof whole - n);
        assert_int_equal(sluice_rtp_pack(&packing, format, whole, n, FFMPEG_PAYLOAD), 0);
        while (sluice_rtp_pack_next(&packing, &part) == 1)
            size += part_bytes(&part, whole, to + size);
    }
    return size;
}

static void fragments_as_ffmpeg_sends_them(void **state) {
    sluice_pool *pool = *state;
    static const char *const names[] = {"h264-aac.publish", "h265.publish"};
    static uint8_t theirs[1 << 16], ours[1 << 16];
    for (int format = SLUICE_RTP_H264; format <= SLUICE_RTP_H265; format++) {
        size_t size, sent = 0, laid_out = 0;
        uint8_t *bytes = vector_read(names[format], &size);
        sluice_chain *chain = http_feed_chain(pool);
        sluice_rtsp *rtsp;
        sluice_rtsp_message *message;
        sluice_rtp_unpacker *unpacker;
        sluice_rtp_unit *unit;
        assert_int_equal(sluice_rtsp_new(NULL, &rtsp), 0);
        assert_int_equal(sluice_rtp_unpacker_new((sluice_rtp_format)format, NULL, &unpacker), 0);
        feed(chain, pool, bytes, size, 0);
        while (sluice_rtsp_next(rtsp, chain, &message) == 1) {
            sluice_rtp_packet p;
            if (message->kind != SLUICE_RTSP_INTERLEAVED || message->channel != 0)
                continue;
            assert_int_equal(sluice_rtp_read(&message->payload, &p), 0);
            sluice_slice payload;
            assert_int_equal(sluice_slice_sub(&message->payload, p.payload_offset, p.payload_length, &payload), 0);
            size_t n = slice_bytes(&payload, theirs + sent, sizeof theirs - sent);
            uint8_t first = theirs[sent];
            if (format == SLUICE_RTP_H265 ? (first >> 1 & 63) == 49 : (first & 31) == 28)
                sent += n;
            sluice_slice_release(&payload);
            assert_int_equal(sluice_rtp_unpacker_push(unpacker, &message->payload, &p, 65536 + p.sequence), 0);
            while (sluice_rtp_unpacker_next(unpacker, &unit) == 1)
                laid_out += fragment(unit, (sluice_rtp_format)format, ours + laid_out);
        }
        assert_true(sent > 5000);
        assert_int_equal(laid_out, sent);
        assert_memory_equal(ours, theirs, sent);
        sluice_rtp_unpacker_free(unpacker);
        sluice_rtsp_free(rtsp);
        sluice_chain_free(chain);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_as_the_standards_show_them),
        cmocka_unit_test(what_cannot_be_laid_out),
        cmocka_unit_test_setup_teardown(every_size_at_every_limit, set_up, tear_down),
        cmocka_unit_test(aggregates),
        cmocka_unit_test(headers_of_aac),
        cmocka_unit_test_setup_teardown(fragments_as_ffmpeg_sends_them, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("rtp_pack", tests, NULL, NULL);
}
