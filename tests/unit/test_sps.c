/*
 * Sequence parameter sets: written bit by bit as ITU-T H.264 and H.265 say, with every syntax
 * element, at random; what is read must be what was written. All that is only stepped over lies
 * before something that is not.
 */
#include "framers/codec/sps.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUNS = 1500, MOST_BYTES = 8192 };

/* ---- Bits ---- */

typedef struct bits {
    uint8_t raw[MOST_BYTES], nal[MOST_BYTES * 3 / 2];
    size_t count; /* bits */
} bits;

static void u(bits *b, unsigned n, uint64_t value) {
    for (unsigned i = n; i-- > 0; b->count++) {
        assert_true(b->count < 8 * sizeof b->raw);
        b->raw[b->count / 8] |= (uint8_t)((value >> i & 1) << (7 - b->count % 8));
    }
}

static void ue(bits *b, uint32_t value) {
    unsigned length = 1;
    while ((value + UINT64_C(1)) >> length)
        length++;
    u(b, 2 * length - 1, value + UINT64_C(1));
}

static void se(bits *b, int32_t value) {
    ue(b, value > 0 ? 2 * (uint32_t)value - 1 : 2 * (uint32_t)-value);
}

/* Ends the payload and puts emulation prevention between; the NAL unit's length. */
static size_t finish(bits *b, const uint8_t *header, size_t header_size) {
    size_t length = header_size, zeros = 0;
    u(b, 1, 1);
    memcpy(b->nal, header, header_size);
    for (size_t i = 0; i < (b->count + 7) / 8; i++) {
        if (zeros >= 2 && b->raw[i] <= 3) {
            b->nal[length++] = 3;
            zeros = 0;
        }
        b->nal[length++] = b->raw[i];
        zeros = b->raw[i] ? 0 : zeros + 1;
    }
    return length;
}

static uint64_t seed;

static uint32_t below(uint32_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * n >> 32);
}

static bool flag(bits *b) {
    bool set = below(2);
    u(b, 1, set);
    return set;
}

/* ---- What both have ---- */

/* Up to the timing; expects nothing. */
static void put_vui_head(bits *b) {
    if (flag(b)) {
        bool extended = below(2);
        u(b, 8, extended ? 255 : 1 + below(200));
        if (extended)
            u(b, 32, below(UINT32_MAX));
    }
    if (flag(b))
        flag(b);
    if (flag(b)) {
        u(b, 4, below(16));
        if (flag(b))
            u(b, 24, below(1 << 24));
    }
    if (flag(b)) {
        ue(b, below(6));
        ue(b, below(6));
    }
}

static void put_timing(bits *b, struct sps *expected) {
    if (!flag(b))
        return;
    expected->tick = 1 + below(1 << 30);
    expected->scale = below(2) ? UINT32_MAX - below(1000) : 1 + below(100000);
    u(b, 32, expected->tick);
    u(b, 32, expected->scale);
}

static void assert_read(int (*read)(const uint8_t *, size_t, struct sps *), const uint8_t *nal, size_t length,
                        const struct sps *expected) {
    struct sps sps;
    memset(&sps, 0x5A, sizeof sps);
    assert_int_equal(read(nal, length, &sps), 0);
    assert_int_equal(sps.id, expected->id);
    assert_int_equal(sps.width, expected->width);
    assert_int_equal(sps.height, expected->height);
    assert_int_equal(sps.chroma, expected->chroma);
    assert_int_equal(sps.luma_depth, expected->luma_depth);
    assert_int_equal(sps.chroma_depth, expected->chroma_depth);
    assert_int_equal(sps.reorder_known, expected->reorder_known);
    assert_int_equal(sps.reorder, expected->reorder);
    assert_int_equal(sps.tick, expected->tick);
    assert_int_equal(sps.scale, expected->scale);
    assert_int_equal(sps.sub_layers, expected->sub_layers);
    assert_int_equal(sps.nested, expected->nested);
    assert_memory_equal(sps.profile, expected->profile, sizeof sps.profile);
}

/* Cut short, it is refused, or what is told is true, or not told. Behind the memory a sanitizer
 * traps. */
static void assert_cuts(int (*read)(const uint8_t *, size_t, struct sps *), const uint8_t *nal, size_t length,
                        const struct sps *expected) {
    for (size_t n = 0; n < length; n++) {
        struct sps sps = {.width = 12345};
        uint8_t *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy + 1, nal, n);
        int result = read(copy + 1, n, &sps);
        free(copy);
        if (result) {
            assert_int_equal(result, -EPROTO);
            assert_int_equal(sps.width, 12345);
            continue;
        }
        assert_int_equal(sps.width, expected->width);
        assert_int_equal(sps.height, expected->height);
        assert_true((sps.tick == 0 && sps.scale == 0) || (sps.tick == expected->tick && sps.scale == expected->scale));
    }
}

/* ---- H.264 ---- */

static const uint8_t chroma_profiles[] = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135};

/* What is put out of its range, to be refused. */
enum fault264 { WELL, ID, CHROMA, LUMA_DEPTH, CHROMA_DEPTH, ACROSS, DOWN, CROP_X, CROP_Y, FAULTS_264 };

static void put_scaling_list_264(bits *b, int size) {
    int32_t last = 8, next = 8;
    for (int j = 0; j < size; j++) {
        if (next != 0) {
            int32_t delta = (int32_t)below(256) - 128;
            if (below(8) == 0)
                delta = -last; /* the rest is as the last one */
            delta = delta < -128 ? delta + 256 : delta;
            se(b, delta);
            next = (last + delta + 256) % 256;
        }
        last = next ? next : last;
    }
}

static void put_chroma_264(bits *b, struct sps *expected, enum fault264 fault) {
    expected->chroma = (uint8_t)(fault == CHROMA ? 4 : below(4));
    expected->luma_depth = (uint8_t)(fault == LUMA_DEPTH ? 15 : 8 + below(7));
    expected->chroma_depth = (uint8_t)(fault == CHROMA_DEPTH ? 15 : 8 + below(7));
    ue(b, expected->chroma);
    if (expected->chroma == 3)
        flag(b);
    ue(b, expected->luma_depth - 8U);
    ue(b, expected->chroma_depth - 8U);
    flag(b);
    if (!flag(b))
        return;
    for (int i = 0; i < (expected->chroma == 3 ? 12 : 8); i++)
        if (flag(b))
            put_scaling_list_264(b, i < 6 ? 16 : 64);
}

static uint32_t put_order_264(bits *b) {
    uint32_t type = below(3);
    ue(b, type);
    if (type == 0) {
        ue(b, below(13));
    } else if (type == 1) {
        uint32_t cycle = below(8) ? below(5) : 255;
        flag(b);
        se(b, (int32_t)below(2000) - 1000);
        se(b, (int32_t)below(2000) - 1000);
        ue(b, cycle);
        for (uint32_t i = 0; i < cycle; i++)
            se(b, (int32_t)below(2000) - 1000);
    }
    return type;
}

static void put_size_264(bits *b, struct sps *expected, enum fault264 fault) {
    uint32_t across = fault == ACROSS ? 4097 : below(8) ? 1 + below(300) : 4096;
    uint32_t down = fault == DOWN ? 4097 : below(8) ? 1 + below(300) : 4096;
    ue(b, across - 1);
    ue(b, down - 1);
    bool frames_only = flag(b);
    if (!frames_only)
        flag(b);
    flag(b);
    expected->width = 16 * across;
    expected->height = 16 * down * (frames_only ? 1 : 2);
    bool crops = fault == CROP_X || fault == CROP_Y || below(2);
    u(b, 1, crops);
    if (!crops)
        return;
    uint32_t unit_x = expected->chroma == 1 || expected->chroma == 2 ? 2 : 1;
    uint32_t unit_y = (expected->chroma == 1 ? 2 : 1) * (frames_only ? 1 : 2);
    uint32_t most_x = expected->width / unit_x, most_y = expected->height / unit_y;
    uint32_t x = fault == CROP_X ? most_x : below(most_x), y = fault == CROP_Y ? most_y : below(most_y);
    uint32_t left = below(x + 1), top = below(y + 1);
    ue(b, left);
    ue(b, x - left);
    ue(b, top);
    ue(b, y - top);
    expected->width -= x * unit_x;
    expected->height -= y * unit_y;
}

static void put_hrd_264(bits *b) {
    uint32_t count = below(8) ? below(3) : 31;
    ue(b, count);
    u(b, 8, below(256));
    for (uint32_t i = 0; i <= count; i++) {
        ue(b, below(100000));
        ue(b, below(100000));
        flag(b);
    }
    u(b, 20, below(1 << 20));
}

static void put_vui_264(bits *b, struct sps *expected) {
    put_vui_head(b);
    put_timing(b, expected);
    if (expected->tick)
        flag(b);
    bool nal = flag(b);
    if (nal)
        put_hrd_264(b);
    bool vcl = flag(b);
    if (vcl)
        put_hrd_264(b);
    if (nal || vcl)
        flag(b);
    flag(b);
    if (!flag(b))
        return;
    flag(b);
    for (int i = 0; i < 4; i++)
        ue(b, below(17));
    uint32_t reorder = below(18);
    ue(b, reorder);
    ue(b, 16);
    if (reorder <= 16) {
        expected->reorder_known = true;
        expected->reorder = (uint8_t)reorder;
    }
}

static size_t make_264(bits *b, struct sps *expected, enum fault264 fault) {
    static const uint8_t header = 0x67, plain[] = {66, 77, 88};
    bool is_high = below(3) > 0 || (fault >= CHROMA && fault <= CHROMA_DEPTH);
    uint8_t profile = is_high ? chroma_profiles[below(sizeof chroma_profiles)] : plain[below(3)];
    uint8_t constraints = (uint8_t)(below(2) ? 0x10 : below(2) ? 0xEF & below(256) : 0);
    *b = (bits){0};
    *expected = (struct sps){.chroma = 1, .luma_depth = 8, .chroma_depth = 8};
    expected->id = fault == ID ? 32 : below(32);
    u(b, 8, profile);
    u(b, 8, constraints);
    u(b, 8, 30);
    ue(b, expected->id);
    if (is_high)
        put_chroma_264(b, expected, fault);
    ue(b, below(13));
    uint32_t order = put_order_264(b);
    ue(b, below(17));
    flag(b);
    put_size_264(b, expected, fault);
    if (flag(b))
        put_vui_264(b, expected);
    bool is_intra = constraints & 0x10 && (profile == 100 || profile == 110 || profile == 122 || profile == 244);
    expected->reorder_known |= profile == 66 || profile == 44 || is_intra || order == 2;
    return finish(b, &header, 1);
}

static void h264_as_written(void **state) {
    static bits b;
    struct sps expected;
    (void)state;
    seed = 264;
    for (int run = 0; run < RUNS; run++) {
        size_t length = make_264(&b, &expected, WELL);
        assert_read(sps_read_h264, b.nal, length, &expected);
        if (run % 16 == 0)
            assert_cuts(sps_read_h264, b.nal, length, &expected);
    }
}

static void h264_out_of_range(void **state) {
    static bits b;
    struct sps expected, sps;
    (void)state;
    seed = 2640;
    for (int run = 0; run < RUNS / 4; run++) {
        for (int fault = ID; fault < FAULTS_264; fault++) {
            size_t length = make_264(&b, &expected, (enum fault264)fault);
            assert_int_equal(sps_read_h264(b.nal, length, &sps), -EPROTO);
        }
    }
}

/* ---- H.265 ---- */

enum fault265 {
    WELL_265 = 0,
    LAYERS = FAULTS_264,
    ID_265,
    CHROMA_265,
    LUMA_265,
    CHROMA_DEPTH_265,
    WIDTH_0,
    HEIGHT_0,
    WIDTH,
    HEIGHT,
    CROP_X_265,
    CROP_Y_265,
    ORDER_BITS,
    FAULTS_265
};

static void put_profile_265(bits *b, struct sps *expected) {
    bool profiles[8], levels[8];
    unsigned layers = expected->sub_layers - 1U;
    for (int i = 0; i < 12; i++) {
        expected->profile[i] = (uint8_t)(below(2) ? below(256) : 0);
        u(b, 8, expected->profile[i]);
    }
    for (unsigned i = 0; i < layers; i++) {
        profiles[i] = flag(b);
        levels[i] = flag(b);
    }
    for (unsigned i = layers; layers > 0 && i < 8; i++)
        u(b, 2, 0);
    for (unsigned i = 0; i < layers; i++) {
        for (int j = 0; profiles[i] && j < 11; j++)
            u(b, 8, below(256));
        if (levels[i])
            u(b, 8, below(256));
    }
}

static uint32_t size_265(enum fault265 fault, enum fault265 none, enum fault265 over) {
    return fault == none ? 0 : fault == over ? 65537 : below(8) ? 1 + below(4000) : 65536;
}

static void put_size_265(bits *b, struct sps *expected, enum fault265 fault) {
    expected->chroma = (uint8_t)(fault == CHROMA_265 ? 4 : below(4));
    ue(b, expected->chroma);
    if (expected->chroma == 3)
        flag(b);
    expected->width = size_265(fault, WIDTH_0, WIDTH);
    expected->height = size_265(fault, HEIGHT_0, HEIGHT);
    ue(b, expected->width);
    ue(b, expected->height);
    bool crops = fault == CROP_X_265 || fault == CROP_Y_265 || (fault == WELL_265 && below(2));
    u(b, 1, crops);
    if (!crops)
        return;
    uint32_t unit_x = expected->chroma == 1 || expected->chroma == 2 ? 2 : 1, unit_y = expected->chroma == 1 ? 2 : 1;
    uint32_t most_x = (expected->width + unit_x - 1) / unit_x, most_y = (expected->height + unit_y - 1) / unit_y;
    uint32_t x = fault == CROP_X_265 ? most_x : below(most_x), y = fault == CROP_Y_265 ? most_y : below(most_y);
    uint32_t left = below(x + 1), top = below(y + 1);
    ue(b, left);
    ue(b, x - left);
    ue(b, top);
    ue(b, y - top);
    expected->width -= x * unit_x;
    expected->height -= y * unit_y;
}

static void put_ordering_265(bits *b, struct sps *expected) {
    unsigned times = flag(b) ? expected->sub_layers : 1;
    for (unsigned i = 0; i < times; i++) {
        uint32_t reorder = below(18);
        ue(b, 15 + below(3));
        ue(b, reorder);
        ue(b, below(9));
        expected->reorder_known = reorder <= 16;
        expected->reorder = (uint8_t)(reorder <= 16 ? reorder : 0);
    }
}

static void put_scaling_lists_265(bits *b) {
    for (int size = 0; size < 4; size++) {
        for (int matrix = 0; matrix < 6; matrix += size == 3 ? 3 : 1) {
            if (!flag(b)) {
                ue(b, below(6));
                continue;
            }
            if (size > 1)
                se(b, (int32_t)below(255) - 7);
            for (int i = 0; i < (size == 0 ? 16 : 64); i++)
                se(b, (int32_t)below(256) - 128);
        }
    }
}

/* How many pictures each set has decides how long the next one is. */
static void put_picture_sets_265(bits *b) {
    uint32_t sets = below(8) ? below(5) : 64;
    unsigned pictures = 0;
    ue(b, sets);
    for (uint32_t i = 0; i < sets; i++) {
        if (i > 0 && pictures < 16 && flag(b)) {
            unsigned now = 0;
            flag(b);
            ue(b, below(100));
            for (unsigned j = 0; j <= pictures; j++)
                now += flag(b) || flag(b);
            pictures = now;
            continue;
        }
        if (i > 0 && pictures == 16)
            u(b, 1, 0);
        uint32_t before = below(9), after = below(8);
        ue(b, before);
        ue(b, after);
        for (uint32_t j = 0; j < before + after; j++) {
            ue(b, below(100));
            flag(b);
        }
        pictures = before + after;
    }
}

static void put_tools_265(bits *b, unsigned order_bits) {
    for (int i = 0; i < 6; i++)
        ue(b, below(5));
    if (flag(b) && flag(b))
        put_scaling_lists_265(b);
    u(b, 2, below(4));
    if (flag(b)) {
        u(b, 8, below(256));
        ue(b, below(3));
        ue(b, below(3));
        flag(b);
    }
    put_picture_sets_265(b);
    if (flag(b)) {
        uint32_t count = below(8) ? below(4) : 32;
        ue(b, count);
        for (uint32_t i = 0; i < count; i++) {
            u(b, order_bits, below(1U << order_bits));
            flag(b);
        }
    }
    u(b, 2, below(4));
}

static size_t make_265(bits *b, struct sps *expected, enum fault265 fault) {
    static const uint8_t header[] = {0x42, 0x01};
    *b = (bits){0};
    *expected = (struct sps){.sub_layers = (uint8_t)(fault == LAYERS ? 8 : 1 + below(7)), .nested = below(2)};
    unsigned order_bits = fault == ORDER_BITS ? 17 : 4 + below(13);
    expected->id = fault == ID_265 ? 16 : below(16);
    expected->luma_depth = (uint8_t)(fault == LUMA_265 ? 17 : 8 + below(9));
    expected->chroma_depth = (uint8_t)(fault == CHROMA_DEPTH_265 ? 17 : 8 + below(9));
    u(b, 4, below(16));
    u(b, 3, expected->sub_layers - 1U);
    u(b, 1, expected->nested);
    put_profile_265(b, expected);
    ue(b, expected->id);
    put_size_265(b, expected, fault);
    ue(b, expected->luma_depth - 8U);
    ue(b, expected->chroma_depth - 8U);
    ue(b, order_bits - 4);
    put_ordering_265(b, expected);
    put_tools_265(b, order_bits);
    if (flag(b)) {
        put_vui_head(b);
        u(b, 3, below(8));
        if (flag(b))
            for (int i = 0; i < 4; i++)
                ue(b, below(100));
        put_timing(b, expected);
        u(b, 32, below(UINT32_MAX)); /* what else the VUI says is not read */
    }
    return finish(b, header, sizeof header);
}

static void h265_as_written(void **state) {
    static bits b;
    struct sps expected;
    (void)state;
    seed = 265;
    for (int run = 0; run < RUNS; run++) {
        size_t length = make_265(&b, &expected, WELL_265);
        assert_read(sps_read_h265, b.nal, length, &expected);
        if (run % 16 == 0)
            assert_cuts(sps_read_h265, b.nal, length, &expected);
    }
}

static void h265_out_of_range(void **state) {
    static bits b;
    struct sps expected, sps;
    (void)state;
    seed = 2650;
    for (int run = 0; run < RUNS / 4; run++) {
        for (int fault = LAYERS; fault < FAULTS_265; fault++) {
            size_t length = make_265(&b, &expected, (enum fault265)fault);
            assert_int_equal(sps_read_h265(b.nal, length, &sps), -EPROTO);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h264_as_written),
        cmocka_unit_test(h264_out_of_range),
        cmocka_unit_test(h265_as_written),
        cmocka_unit_test(h265_out_of_range),
    };
    return cmocka_run_group_tests_name("sps", tests, NULL, NULL);
}
