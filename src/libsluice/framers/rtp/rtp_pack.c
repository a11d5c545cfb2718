/* How NAL units and audio frames are laid out in packets. */
#include <sluice/rtp.h>

#include <errno.h>

#include "framers/rtp/rtp_nals.h"
#include "framers/rtp/rtp_write.h"

enum {
    AAC_MOST = 8191, /* what 13 bits can say */
    AAC_HEADERS = 4, /* their length in bits, and one of them */
    AAC_FRAMES = 64, /* in a packet */
    INDEX_BITS = 3,
};

static bool is_video(sluice_rtp_format format) {
    return format <= SLUICE_RTP_H265;
}

int sluice_rtp_pack(sluice_rtp_packing *packing, sluice_rtp_format format, const uint8_t *start, size_t length,
                    size_t max_payload) {
    sluice_rtp_packing p = {.format = format, .length = length, .most = max_payload};
    if (is_video(format))
        p.header_size = format == SLUICE_RTP_H265 ? 2 : 1;
    if (length == 0 || length < p.header_size)
        return -EINVAL;
    if (format == SLUICE_RTP_AAC && length > AAC_MOST)
        return -EMSGSIZE;
    if (format == SLUICE_RTP_AUDIO && length > max_payload)
        return -EMSGSIZE;
    size_t prefix = format == SLUICE_RTP_AAC ? AAC_HEADERS : is_video(format) ? p.header_size + 1U : 0;
    if (max_payload <= prefix)
        return -EINVAL;
    for (int i = 0; i < p.header_size; i++)
        p.header[i] = start[i];
    *packing = p;
    return 0;
}

/* Fragments are of one size, but for the last. */
static void lay_fragment(const sluice_rtp_packing *p, sluice_rtp_part *part) {
    uint8_t type = rtp_nal_type(p->format, p->header[0]);
    part->prefix_size = p->header_size + 1;
    if (p->format == SLUICE_RTP_H265) {
        part->prefix[0] = (uint8_t)((p->header[0] & ~(H265_TYPE << 1)) | H265_FU << 1);
        part->prefix[1] = p->header[1];
    } else {
        part->prefix[0] = (uint8_t)((p->header[0] & ~H264_TYPE) | H264_FU_A);
    }
    part->offset = p->done ? p->done : p->header_size;
    size_t room = p->most - part->prefix_size, left = p->length - part->offset;
    part->last = left <= room;
    part->length = part->last ? left : room;
    part->prefix[p->header_size] = (uint8_t)((p->done ? 0 : FU_BEGINS) | (part->last ? FU_ENDS : 0) | type);
}

static void lay_aac(const sluice_rtp_packing *p, sluice_rtp_part *part) {
    part->prefix_size = AAC_HEADERS;
    put_be16(part->prefix, 16);
    put_be16(part->prefix + 2, (uint16_t)(p->length << INDEX_BITS));
    size_t room = p->most - AAC_HEADERS, left = p->length - p->done;
    part->offset = p->done;
    part->last = left <= room;
    part->length = part->last ? left : room;
}

int sluice_rtp_pack_next(sluice_rtp_packing *p, sluice_rtp_part *ret_part) {
    if (p->done == p->length)
        return 0;
    sluice_rtp_part part = {.length = p->length, .last = true};
    if (p->format == SLUICE_RTP_AAC)
        lay_aac(p, &part);
    else if (p->length > p->most)
        lay_fragment(p, &part);
    p->done = part.offset + part.length;
    *ret_part = part;
    return 1;
}

/* The aggregate's own header: the first two bytes in the order of RFC 6184, 5.7, or RFC 7798,
 * 4.4.2. */
static void aggregate_header(sluice_rtp_format format, const sluice_rtp_member *members, size_t count, uint8_t *to) {
    uint8_t forbidden = 0, importance = 0, layer = 0x3F, temporal = 7;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *start = members[i].start;
        uint8_t here = (uint8_t)((start[0] & 1) << 5 | start[1] >> 3);
        forbidden |= start[0] & 0x80;
        importance = (start[0] & 0x60) > importance ? start[0] & 0x60 : importance;
        layer = here < layer ? here : layer;
        temporal = (start[1] & 7) < temporal ? start[1] & 7 : temporal;
    }
    if (format == SLUICE_RTP_H265) {
        to[0] = (uint8_t)(forbidden | H265_AP << 1 | layer >> 5);
        to[1] = (uint8_t)(layer << 3 | temporal);
    } else {
        to[0] = forbidden | importance | H264_STAP_A;
    }
}

size_t sluice_rtp_aggregate(sluice_rtp_format format, sluice_rtp_member *members, size_t count, size_t max_payload) {
    if (!is_video(format))
        return 0;
    uint8_t header = format == SLUICE_RTP_H265 ? 2 : 1;
    size_t used = header, fit = 0;
    while (fit < count && members[fit].length >= header && used + 2 + members[fit].length <= max_payload)
        used += 2U + members[fit++].length;
    for (size_t i = 0; i < fit; i++) {
        uint8_t before = i == 0 ? header : 0;
        members[i].prefix_size = before + 2;
        put_be16(members[i].prefix + before, members[i].length);
    }
    if (fit > 0)
        aggregate_header(format, members, fit, members[0].prefix);
    return fit;
}

int sluice_rtp_write_aac(uint8_t *buffer, size_t size, const uint32_t *lengths, size_t count) {
    if (count == 0 || count > AAC_FRAMES)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        if (lengths[i] == 0 || lengths[i] > AAC_MOST)
            return -EINVAL;
    if (size < 2 + 2 * count)
        return -EMSGSIZE;
    put_be16(buffer, (uint16_t)(count * 16));
    for (size_t i = 0; i < count; i++)
        put_be16(buffer + 2 + 2 * i, (uint16_t)(lengths[i] << INDEX_BITS));
    return (int)(2 + 2 * count);
}

/* RFC 6716, section 3.1: the configuration gives a frame's length, the code how many frames there
 * are. */
uint32_t sluice_rtp_opus_duration(const uint8_t *bytes, size_t length) {
    enum { MOST = 5760 }; /* 120 ms */
    if (length == 0)
        return 0;
    unsigned configuration = bytes[0] >> 3, code = bytes[0] & 3;
    uint32_t frame = 120U << (configuration & 3); /* CELT: 2.5, 5, 10, 20 ms */
    if (configuration < 12)
        /* SILK: 10, 20, 40, 60 ms */
        frame = (configuration & 3) == 3 ? 2880 : 480U << (configuration & 3);
    else if (configuration < 16)
        frame = 480U << (configuration & 1); /* hybrid: 10, 20 ms */
    uint32_t frames = code == 0 ? 1 : code < 3 ? 2 : length > 1 ? bytes[1] & 0x3F : 0;
    return frame * frames <= MOST ? frame * frames : 0;
}
