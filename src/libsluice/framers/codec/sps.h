/* The fields of H.264 and H.265 parameter sets that are used here. */
#ifndef SLUICE_FRAMERS_SPS_H
#define SLUICE_FRAMERS_SPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbsp;

struct sps {
    uint32_t id;
    uint32_t width, height;
    uint8_t chroma, luma_depth, chroma_depth; /* chroma_format_idc, bits */
    bool reorder_known;
    uint8_t reorder;
    uint32_t tick, scale; /* a tick is tick / scale seconds; 0 where it is not said */
    uint8_t profile[12];  /* H.265: general profile, tier and level as they are */
    uint8_t sub_layers;   /* H.265 */
    bool nested;          /* H.265: temporal ids */
};

/* With the NAL unit header; 0 or -EPROTO. */
int sps_read_h264(const uint8_t *nal, size_t length, struct sps *ret_sps);
int sps_read_h265(const uint8_t *nal, size_t length, struct sps *ret_sps);

/* What the VUI of both begins with: the sample's shape, overscan, video signal and where chroma
 * samples lie. */
void sps_skip_video(struct rbsp *r);

#endif
