/* The first bytes of FLV tags' payloads, as the FLV specification (annex E) and Enhanced RTMP write
 * them. */
#include "framers/convert/rtp_flv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_bytes(const uint8_t *bytes, size_t size, const char *expected, size_t expected_size) {
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected, expected_size);
}

static void frames(void **state) {
    static const struct {
        uint32_t codec;
        bool key;
        uint8_t channels;
        int32_t composition;
        const char *bytes;
        size_t size;
    } rows[] = {
        {SLUICE_CODEC_H264, true, 0, 0, "\x17\x01\0\0\0", 5},
        {SLUICE_CODEC_H264, false, 0, 0x123456, "\x27\x01\x12\x34\x56", 5},
        {SLUICE_CODEC_H264, false, 0, -2, "\x27\x01\xff\xff\xfe", 5},
        {SLUICE_CODEC_HEVC, true, 0, 0x7FFFFF, "\x91hvc1\x7f\xff\xff", 8},
        {SLUICE_CODEC_HEVC, false, 0, -0x800000, "\xa1hvc1\x80\0\0", 8},
        {SLUICE_CODEC_AAC, true, 2, 0, "\xaf\x01", 2},
        {SLUICE_CODEC_OPUS, true, 2, 0, "\x91Opus", 5},
        {SLUICE_CODEC_PCMA, true, 1, 0, "\x72", 1},
        {SLUICE_CODEC_PCMA, true, 2, 0, "\x73", 1},
        {SLUICE_CODEC_PCMU, true, 1, 0, "\x82", 1},
        {SLUICE_CODEC_PCMU, true, 2, 0, "\x83", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct rtp_flv_config config = {.codec = rows[i].codec, .channels = rows[i].channels};
        uint8_t bytes[16];
        size_t size = rtp_flv_frame_header(&config, rows[i].key, rows[i].composition, bytes);
        assert_bytes(bytes, size, rows[i].bytes, rows[i].size);
    }
}

static void sequence_headers(void **state) {
    static const struct {
        uint32_t codec;
        const char *bytes;
        size_t size;
    } rows[] = {
        {SLUICE_CODEC_H264, "\x17\0\0\0\0", 5},
        {SLUICE_CODEC_HEVC, "\x90hvc1", 5},
        {SLUICE_CODEC_AAC, "\xaf\0", 2},
        {SLUICE_CODEC_OPUS, "\x90Opus", 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct rtp_flv_config config = {.codec = rows[i].codec};
        uint8_t bytes[16];
        memset(bytes, 0x5A, sizeof bytes);
        size_t size = rtp_flv_sequence_header(&config, bytes);
        assert_bytes(bytes, size, rows[i].bytes, rows[i].size);
    }
}

/* All that there is in one comes back, from nothing to the most; another one takes its place. */
static void configurations(void **state) {
    static const struct {
        uint8_t sets;
        uint16_t size;
    } rows[] = {{0, 0}, {0, 2}, {2, 40}, {SLUICE_CODEC_MAX_SETS, SLUICE_CODEC_MAX_BYTES}, {3, 80}};
    struct rtp_flv_config *kept = NULL;
    sluice_codec_config config, read;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(&config, 0, sizeof config);
        memset(&read, 0x5A, sizeof read);
        config.codec = SLUICE_CODEC_HEVC;
        config.clock_rate = 90000;
        config.channels = 2;
        config.length_size = 4;
        config.reorder_known = true;
        config.reorder = 3;
        config.frame_duration = 3600;
        config.width = 1920;
        config.height = 1080;
        config.set_count = rows[i].sets;
        config.size = rows[i].size;
        for (uint16_t j = 0; j < rows[i].sets; j++)
            config.sets[j] = (sluice_codec_set){.type = 32, .id = j, .offset = j, .length = 1};
        memset(config.bytes, (int)i + 1, rows[i].size);
        assert_int_equal(rtp_flv_keep_config(&kept, &config), 0);
        rtp_flv_read_config(kept, &read);
        assert_memory_equal(read.bytes, config.bytes, sizeof config.bytes);
        assert_int_equal(read.size, config.size);
        assert_int_equal(read.set_count, config.set_count);
        for (size_t j = 0; j < SLUICE_CODEC_MAX_SETS; j++) {
            assert_int_equal(read.sets[j].type, config.sets[j].type);
            assert_int_equal(read.sets[j].id, config.sets[j].id);
            assert_int_equal(read.sets[j].offset, config.sets[j].offset);
            assert_int_equal(read.sets[j].length, config.sets[j].length);
        }
        assert_int_equal(read.codec, config.codec);
        assert_int_equal(read.clock_rate, config.clock_rate);
        assert_int_equal(read.channels, config.channels);
        assert_int_equal(read.length_size, config.length_size);
        assert_int_equal(read.reorder_known, config.reorder_known);
        assert_int_equal(read.reorder, config.reorder);
        assert_int_equal(read.frame_duration, config.frame_duration);
        assert_int_equal(read.width, config.width);
        assert_int_equal(read.height, config.height);
    }
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames),
        cmocka_unit_test(sequence_headers),
        cmocka_unit_test(configurations),
    };
    return cmocka_run_group_tests_name("rtp_flv_tag", tests, NULL, NULL);
}
