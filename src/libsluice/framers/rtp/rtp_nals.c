/* H.264 and H.265: the same packets, but for the sizes of headers and the numbers of types. */
#include "framers/rtp/rtp_unpack.h"

#include <errno.h>

#include "framers/rtp/rtp_nals.h"

/* A NAL unit that is whole in the payload. */
static int add_whole(sluice_rtp_unpacker *unpacker, size_t offset, size_t length) {
    bool is_h265 = unpacker->format == SLUICE_RTP_H265;
    sluice_cursor cursor = cursor_of_slice(&unpacker->payload);
    cursor_skip(&cursor, offset);
    if (length < (is_h265 ? 2 : 1))
        return -EPROTO;
    sluice_rtp_nal nal = {.type = rtp_nal_type(unpacker->format, cursor_byte(&cursor))};
    int error = rtp_add_nal(unpacker, &nal);
    if (!error)
        error = rtp_add_piece(unpacker, offset, length);
    return error;
}

/* STAP-A and AP: a size of two bytes before each. All are checked before the first is taken. */
static int add_aggregate(sluice_rtp_unpacker *unpacker, size_t header) {
    for (int pass = 0; pass < 2; pass++) {
        sluice_cursor cursor = cursor_of_slice(&unpacker->payload);
        cursor_skip(&cursor, header);
        if (cursor_left(&cursor) == 0)
            return -EPROTO;
        while (cursor_left(&cursor) > 0) {
            uint16_t length;
            if (!cursor_be16(&cursor, &length) || length < header || length > cursor_left(&cursor))
                return -EPROTO;
            size_t offset = unpacker->payload.length - cursor_left(&cursor);
            int error = pass == 1 ? add_whole(unpacker, offset, length) : 0;
            if (error)
                return error;
            cursor_skip(&cursor, length);
        }
    }
    return 0;
}

/* FU-A and FU: the NAL unit's header is in the first bytes, in parts. */
static int add_fragment(sluice_rtp_unpacker *unpacker, const uint8_t *start, size_t header) {
    uint8_t fu = start[header];
    bool begins = fu & FU_BEGINS, ends = fu & FU_ENDS;
    sluice_rtp_nal nal = {.header_size = (uint8_t)header};
    if (header == 1) {
        nal.type = fu & H264_TYPE;
        nal.header[0] = (uint8_t)((start[0] & ~H264_TYPE) | nal.type);
    } else {
        nal.type = fu & H265_TYPE;
        nal.header[0] = (uint8_t)((start[0] & ~(H265_TYPE << 1)) | nal.type << 1);
        nal.header[1] = start[1];
    }
    if (begins) {
        rtp_drop_fragment(unpacker);
        if (ends)
            return -EPROTO;
        int error = rtp_add_nal(unpacker, &nal);
        if (error)
            return error;
        unpacker->fragment = true;
    } else if (!unpacker->fragment || unpacker->nals[unpacker->unit.nal_count - 1].type != nal.type) {
        rtp_drop_fragment(unpacker);
        return -EPROTO;
    }
    int error = rtp_add_piece(unpacker, header + 1, unpacker->payload.length - header - 1);
    if (!error && ends)
        unpacker->fragment = false;
    return error;
}

int rtp_unpack_nals(sluice_rtp_unpacker *unpacker) {
    bool is_h265 = unpacker->format == SLUICE_RTP_H265;
    size_t header = is_h265 ? 2 : 1, n = 0;
    uint8_t start[3] = {0};
    sluice_cursor cursor = cursor_of_slice(&unpacker->payload);
    while (n < header + 1 && cursor_u8(&cursor, &start[n]))
        n++;
    if (n < header)
        return -EPROTO;
    uint8_t type = rtp_nal_type(unpacker->format, start[0]);
    bool is_fragment = type == (is_h265 ? H265_FU : H264_FU_A);
    if (!is_fragment)
        rtp_drop_fragment(unpacker);
    if (is_fragment)
        return n > header ? add_fragment(unpacker, start, header) : -EPROTO;
    if (type == (is_h265 ? H265_AP : H264_STAP_A))
        return add_aggregate(unpacker, header);
    if (is_h265 ? type > H265_AP : type > H264_LAST)
        return -EOPNOTSUPP;
    if (!is_h265 && type == 0)
        return -EPROTO;
    return add_whole(unpacker, 0, unpacker->payload.length);
}

/* A number of SEI: bytes that are summed up as long as they are 255. */
static bool read_sei_number(sluice_cursor *cursor, size_t *ret_number) {
    uint8_t byte;
    *ret_number = 0;
    do {
        if (!cursor_u8(cursor, &byte))
            return false;
        *ret_number += byte;
    } while (byte == 255);
    return true;
}

/*
 * Whether an SEI says that decoding can begin here and all is well at once (H.264, D.1.8), as
 * encoders say of pictures that are no IDR: some never send another after the first. Sought in the
 * first piece: it is a few bytes.
 */
static bool is_recovery_point(const sluice_rtp_unpacker *unpacker, const sluice_rtp_nal *nal) {
    enum { RECOVERY_POINT = 6, NO_FRAMES = 0x80 };
    sluice_cursor cursor = cursor_of_slice(&unpacker->unit.pieces[nal->first]);
    size_t type, size;
    if (nal->header_size == 0)
        cursor_skip(&cursor, 1);
    while (read_sei_number(&cursor, &type) && read_sei_number(&cursor, &size)) {
        if (type == RECOVERY_POINT)
            return size > 0 && cursor_left(&cursor) > 0 && (cursor_byte(&cursor) & NO_FRAMES);
        if (!cursor_skip(&cursor, size))
            return false;
    }
    return false;
}

bool rtp_nals_are_key(const sluice_rtp_unpacker *unpacker) {
    for (size_t i = 0; i < unpacker->unit.nal_count; i++) {
        const sluice_rtp_nal *nal = &unpacker->nals[i];
        if (rtp_nal_is_key(unpacker->format, nal->type))
            return true;
        if (unpacker->format == SLUICE_RTP_H264 && nal->type == H264_SEI && nal->count > 0 &&
            is_recovery_point(unpacker, nal))
            return true;
    }
    return false;
}
