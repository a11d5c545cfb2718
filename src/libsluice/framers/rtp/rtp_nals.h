/* Types of NAL units, and those that RTP adds: RFC 6184, section 5.2, and RFC 7798, section 4.4. */
#ifndef SLUICE_FRAMERS_RTP_NALS_H
#define SLUICE_FRAMERS_RTP_NALS_H

#include <sluice/rtp.h>

enum {
    H264_TYPE = 0x1F,
    H264_IDR = 5,
    H264_SEI = 6,
    H264_LAST = 23, /* of what a codec makes */
    H264_STAP_A = 24,
    H264_FU_A = 28,
    H265_TYPE = 0x3F,
    H265_FIRST_IRAP = 16,
    H265_LAST_IRAP = 23,
    H265_AP = 48,
    H265_FU = 49,
    FU_BEGINS = 0x80,
    FU_ENDS = 0x40,
};

static inline uint8_t rtp_nal_type(sluice_rtp_format format, uint8_t first) {
    return format == SLUICE_RTP_H265 ? first >> 1 & H265_TYPE : first & H264_TYPE;
}

static inline bool rtp_nal_is_key(sluice_rtp_format format, uint8_t type) {
    return format == SLUICE_RTP_H265 ? type >= H265_FIRST_IRAP && type <= H265_LAST_IRAP : type == H264_IDR;
}

#endif
