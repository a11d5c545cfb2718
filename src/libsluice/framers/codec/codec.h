/* The inside of a decoder's configuration. */
#ifndef SLUICE_FRAMERS_CODEC_H
#define SLUICE_FRAMERS_CODEC_H

#include <sluice/codec.h>

enum {
    H264_SPS = 7,
    H264_PPS = 8,
    H264_AUD = 9,
    H265_VPS = 32,
    H265_SPS = 33,
    H265_PPS = 34,
    H265_AUD = 35,
};

static inline bool codec_is_video(uint32_t codec) {
    return codec == SLUICE_CODEC_H264 || codec == SLUICE_CODEC_HEVC;
}

/* Whether a NAL unit type is a parameter set's. */
static inline bool codec_is_set(uint32_t codec, uint8_t type) {
    return codec == SLUICE_CODEC_HEVC ? type >= H265_VPS && type <= H265_PPS : type == H264_SPS || type == H264_PPS;
}

static inline bool codec_is_delimiter(uint32_t codec, uint8_t type) {
    return type == (codec == SLUICE_CODEC_HEVC ? H265_AUD : H264_AUD);
}

/* Takes an AudioSpecificConfig that lies in @bytes: 0, -EPROTO, -EMSGSIZE. */
int codec_take_aac(sluice_codec_config *config, const uint8_t *bytes, size_t size);

/* Takes the one that lies in a StreamMuxConfig: also -EOPNOTSUPP (another layout than one frame of
 * one layer). */
int codec_take_latm(sluice_codec_config *config, const uint8_t *bytes, size_t size);

#endif
