/* ITU-T H.264, section 7.3.2.1 and annex E. */
#include "framers/codec/sps.h"

#include <errno.h>

#include "framers/codec/rbsp.h"

enum {
    MOST_CPB = 32,
    MOST_CYCLE = 255,
    MOST_MACROBLOCKS = 1 << 12, /* across or down: 65,536 pixels */
    MOST_REORDER = 16,
};

/* Profiles with a chroma format in the SPS. */
static bool has_chroma(uint32_t profile) {
    static const uint8_t profiles[] = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135};
    for (size_t i = 0; i < sizeof profiles; i++)
        if (profiles[i] == profile)
            return true;
    return false;
}

static void skip_scaling_lists(struct rbsp *r, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (!rbsp_bit(r))
            continue;
        int32_t last = 8, next = 8;
        for (int j = 0; j < (i < 6 ? 16 : 64) && !r->over; j++) {
            if (next != 0) {
                uint32_t code = rbsp_ue(r);
                int32_t delta = (int32_t)(code & 0x1FF);
                delta = code & 1 ? (delta + 1) / 2 : -(delta / 2);
                next = (last + delta + 256) & 0xFF;
            }
            last = next ? next : last;
        }
    }
}

static void read_chroma(struct rbsp *r, struct sps *sps) {
    sps->chroma = (uint8_t)rbsp_ue(r);
    if (sps->chroma == 3)
        rbsp_bit(r);
    sps->luma_depth = (uint8_t)(8 + rbsp_ue(r));
    sps->chroma_depth = (uint8_t)(8 + rbsp_ue(r));
    rbsp_bit(r);
    if (rbsp_bit(r))
        skip_scaling_lists(r, sps->chroma == 3 ? 12 : 8);
}

/* Returns the type. */
static uint32_t read_order_count(struct rbsp *r) {
    uint32_t type = rbsp_ue(r);
    if (type == 0) {
        rbsp_ue(r);
    } else if (type == 1) {
        rbsp_bit(r);
        rbsp_skip_se(r);
        rbsp_skip_se(r);
        uint32_t cycle = rbsp_ue(r);
        for (uint32_t i = 0; i < cycle && i < MOST_CYCLE; i++)
            rbsp_skip_se(r);
    }
    return type;
}

/* Pixels, less what is cropped. */
static int read_size(struct rbsp *r, struct sps *sps) {
    uint32_t across = rbsp_ue(r) + 1, down = rbsp_ue(r) + 1;
    bool frames_only = rbsp_bit(r);
    if (across > MOST_MACROBLOCKS || down > MOST_MACROBLOCKS)
        return -EPROTO;
    if (!frames_only)
        rbsp_bit(r);
    rbsp_bit(r);
    sps->width = across * 16;
    sps->height = down * 16 * (frames_only ? 1 : 2);
    if (!rbsp_bit(r))
        return 0;
    uint64_t left = rbsp_ue(r), right = rbsp_ue(r), top = rbsp_ue(r), bottom = rbsp_ue(r);
    uint64_t x = (left + right) * (sps->chroma == 1 || sps->chroma == 2 ? 2 : 1);
    uint64_t y = (top + bottom) * (sps->chroma == 1 ? 2 : 1) * (frames_only ? 1 : 2);
    if (x >= sps->width || y >= sps->height)
        return -EPROTO;
    sps->width -= (uint32_t)x;
    sps->height -= (uint32_t)y;
    return 0;
}

static void skip_hrd(struct rbsp *r) {
    uint32_t count = rbsp_ue(r);
    rbsp_u(r, 8);
    for (uint32_t i = 0; i <= count && i < MOST_CPB; i++) {
        rbsp_ue(r);
        rbsp_ue(r);
        rbsp_bit(r);
    }
    rbsp_u(r, 20);
}

static void read_vui(struct rbsp *r, struct sps *sps) {
    sps_skip_video(r);
    if (rbsp_bit(r)) {
        sps->tick = rbsp_u(r, 32);
        sps->scale = rbsp_u(r, 32);
        rbsp_bit(r);
    }
    bool nal = rbsp_bit(r);
    if (nal)
        skip_hrd(r);
    bool vcl = rbsp_bit(r);
    if (vcl)
        skip_hrd(r);
    if (nal || vcl)
        rbsp_bit(r);
    rbsp_bit(r);
    if (!rbsp_bit(r))
        return;
    rbsp_bit(r);
    for (int i = 0; i < 4; i++)
        rbsp_ue(r);
    uint32_t reorder = rbsp_ue(r);
    if (!r->over && reorder <= MOST_REORDER) {
        sps->reorder_known = true;
        sps->reorder = (uint8_t)reorder;
    }
}

int sps_read_h264(const uint8_t *nal, size_t length, struct sps *ret_sps) {
    if (length < 5)
        return -EPROTO;
    struct rbsp r = {.at = nal + 1, .end = nal + length};
    struct sps sps = {.chroma = 1, .luma_depth = 8, .chroma_depth = 8};
    uint32_t profile = rbsp_u(&r, 8), constraints = rbsp_u(&r, 8);
    rbsp_u(&r, 8);
    sps.id = rbsp_ue(&r);
    if (has_chroma(profile))
        read_chroma(&r, &sps);
    rbsp_ue(&r);
    uint32_t order_count = read_order_count(&r);
    rbsp_ue(&r);
    rbsp_bit(&r);
    int error = read_size(&r, &sps);
    if (error || r.over || sps.id > 31 || sps.chroma > 3 || sps.luma_depth > 14 || sps.chroma_depth > 14)
        return -EPROTO;
    /* A VUI that is cut short says nothing, but the rest holds. */
    struct sps plain = sps;
    if (rbsp_bit(&r)) {
        read_vui(&r, &sps);
        if (r.over)
            sps = plain;
    }
    /* Neither the baseline nor the intra profiles reorder, nor does an order that is the
     * decoding's. */
    bool is_intra = (constraints & 0x10) && (profile == 100 || profile == 110 || profile == 122 || profile == 244);
    if (!sps.reorder_known && (profile == 66 || profile == 44 || is_intra || order_count == 2))
        sps.reorder_known = true;
    *ret_sps = sps;
    return 0;
}
