/* ITU-T H.265, section 7.3.2.2, 7.3.3, 7.3.4, 7.3.7 and annex E. */
#include "framers/codec/sps.h"

#include <errno.h>

#include "framers/codec/rbsp.h"

enum {
    MOST_REORDER = 16,
    MOST_PIXELS = 1 << 16,
    MOST_PICTURE_SETS = 64,
    MOST_PICTURES = 16, /* of a set */
    MOST_LONG_TERM = 32,
};

static void read_profile(struct rbsp *r, struct sps *sps) {
    unsigned below = sps->sub_layers - 1U;
    bool profiles[8] = {false}, levels[8] = {false};
    for (int i = 0; i < 12; i++)
        sps->profile[i] = (uint8_t)rbsp_u(r, 8);
    for (unsigned i = 0; i < below; i++) {
        profiles[i] = rbsp_bit(r);
        levels[i] = rbsp_bit(r);
    }
    if (below > 0)
        rbsp_u(r, 2 * (8 - below));
    for (unsigned i = 0; i < below; i++) {
        if (profiles[i])
            for (int j = 0; j < 11; j++)
                rbsp_u(r, 8);
        if (levels[i])
            rbsp_u(r, 8);
    }
}

static int read_size(struct rbsp *r, struct sps *sps) {
    sps->chroma = (uint8_t)rbsp_ue(r);
    if (sps->chroma == 3)
        rbsp_bit(r);
    sps->width = rbsp_ue(r);
    sps->height = rbsp_ue(r);
    if (sps->width == 0 || sps->width > MOST_PIXELS || sps->height == 0 || sps->height > MOST_PIXELS)
        return -EPROTO;
    if (!rbsp_bit(r))
        return 0;
    uint64_t left = rbsp_ue(r), right = rbsp_ue(r), top = rbsp_ue(r), bottom = rbsp_ue(r);
    uint64_t x = (left + right) * (sps->chroma == 1 || sps->chroma == 2 ? 2 : 1);
    uint64_t y = (top + bottom) * (sps->chroma == 1 ? 2 : 1);
    if (x >= sps->width || y >= sps->height)
        return -EPROTO;
    sps->width -= (uint32_t)x;
    sps->height -= (uint32_t)y;
    return 0;
}

/* How far the highest sub-layer reorders. */
static void read_ordering(struct rbsp *r, struct sps *sps) {
    unsigned times = rbsp_bit(r) ? sps->sub_layers : 1;
    for (unsigned i = 0; i < times; i++) {
        rbsp_ue(r);
        uint32_t reorder = rbsp_ue(r);
        rbsp_ue(r);
        sps->reorder_known = reorder <= MOST_REORDER;
        sps->reorder = (uint8_t)(sps->reorder_known ? reorder : 0);
    }
}

static void skip_scaling_lists(struct rbsp *r) {
    for (unsigned size = 0; size < 4; size++)
        for (unsigned matrix = 0; matrix < 6; matrix += size == 3 ? 3 : 1) {
            if (!rbsp_bit(r)) {
                rbsp_ue(r);
                continue;
            }
            if (size > 1)
                rbsp_skip_se(r);
            for (unsigned i = 0; i < (size == 0 ? 16 : 64); i++)
                rbsp_skip_se(r);
        }
}

/* A set of reference pictures; @count is how many the one before had, and becomes how many this one
 * has. */
static void skip_picture_set(struct rbsp *r, bool is_first, unsigned *count) {
    unsigned pictures = 0;
    if (!is_first && rbsp_bit(r)) {
        rbsp_bit(r);
        rbsp_ue(r);
        for (unsigned i = 0; i <= *count; i++)
            pictures += rbsp_bit(r) || rbsp_bit(r);
        *count = pictures;
        r->over |= pictures > MOST_PICTURES;
        return;
    }
    uint32_t before = rbsp_ue(r), after = rbsp_ue(r);
    if (before > MOST_PICTURES || after > MOST_PICTURES) {
        r->over = true;
        return;
    }
    for (uint32_t i = 0; i < before + after; i++) {
        rbsp_ue(r);
        rbsp_bit(r);
    }
    *count = before + after;
}

static void skip_picture_sets(struct rbsp *r) {
    uint32_t sets = rbsp_ue(r);
    unsigned count = 0;
    r->over |= sets > MOST_PICTURE_SETS;
    for (uint32_t i = 0; i < sets && !r->over; i++)
        skip_picture_set(r, i == 0, &count);
}

/* What lies between the ordering and the VUI. */
static void skip_tools(struct rbsp *r, unsigned order_bits) {
    for (int i = 0; i < 6; i++)
        rbsp_ue(r);
    if (rbsp_bit(r) && rbsp_bit(r))
        skip_scaling_lists(r);
    rbsp_u(r, 2);
    if (rbsp_bit(r)) {
        rbsp_u(r, 8);
        rbsp_ue(r);
        rbsp_ue(r);
        rbsp_bit(r);
    }
    skip_picture_sets(r);
    if (rbsp_bit(r)) {
        uint32_t count = rbsp_ue(r);
        r->over |= count > MOST_LONG_TERM;
        for (uint32_t i = 0; i < count && !r->over; i++)
            rbsp_u(r, order_bits + 1);
    }
    rbsp_u(r, 2);
}

static void read_vui(struct rbsp *r, struct sps *sps) {
    sps_skip_video(r);
    rbsp_u(r, 3);
    if (rbsp_bit(r))
        for (int i = 0; i < 4; i++)
            rbsp_ue(r);
    if (rbsp_bit(r)) {
        sps->tick = rbsp_u(r, 32);
        sps->scale = rbsp_u(r, 32);
    }
}

int sps_read_h265(const uint8_t *nal, size_t length, struct sps *ret_sps) {
    if (length < 3)
        return -EPROTO;
    struct rbsp r = {.at = nal + 2, .end = nal + length};
    struct sps sps = {0};
    rbsp_u(&r, 4);
    sps.sub_layers = (uint8_t)(1 + rbsp_u(&r, 3));
    sps.nested = rbsp_bit(&r);
    if (sps.sub_layers > 7)
        return -EPROTO;
    read_profile(&r, &sps);
    sps.id = rbsp_ue(&r);
    int error = read_size(&r, &sps);
    sps.luma_depth = (uint8_t)(8 + rbsp_ue(&r));
    sps.chroma_depth = (uint8_t)(8 + rbsp_ue(&r));
    uint32_t order_bits = 4 + rbsp_ue(&r);
    read_ordering(&r, &sps);
    if (error || r.over || sps.id > 15 || sps.chroma > 3 || sps.luma_depth > 16 || sps.chroma_depth > 16 ||
        order_bits > 16)
        return -EPROTO;
    /* The rest is needed only for the frame rate; if it is truncated, there is none. */
    skip_tools(&r, order_bits);
    if (rbsp_bit(&r))
        read_vui(&r, &sps);
    if (r.over)
        sps.tick = sps.scale = 0;
    *ret_sps = sps;
    return 0;
}
