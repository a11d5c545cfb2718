/* AAC in LATM: RFC 6416, section 6; ISO/IEC 14496-3, 1.7.3. Elements of one frame each, their
 * configuration in SDP. */
#include <errno.h>

#include "framers/rtp/rtp_unpack.h"

enum { MORE = 255 }; /* a byte of a length that is followed by another */

/* The length before a frame: bytes of it, 0 where the payload ends in it. */
static size_t read_length(const sluice_rtp_unpacker *unpacker, size_t *ret_size) {
    sluice_cursor cursor = cursor_of_slice(&unpacker->payload);
    size_t bytes = 0, size = 0;
    uint8_t byte;
    cursor_skip(&cursor, unpacker->data);
    do {
        if (!cursor_u8(&cursor, &byte))
            return 0;
        size += byte;
        bytes++;
    } while (byte == MORE);
    *ret_size = size;
    return bytes;
}

/* The frame under way goes on at @data: 1 (it is complete), 0 (more of it is to come), or the error
 * of the packet. */
static int add_part(sluice_rtp_unpacker *unpacker) {
    size_t here = unpacker->payload.length - unpacker->data, lacking = unpacker->size - unpacker->nals[0].length;
    bool is_last = here >= lacking;
    /* A fragment fills its packet, and the last one is marked. */
    if ((is_last && here > lacking && unpacker->fragment) || (!is_last && unpacker->marker))
        return -EPROTO;
    unpacker->fragment = !is_last;
    here = is_last ? lacking : here;
    int error = rtp_add_piece(unpacker, unpacker->data, here);
    unpacker->data += here;
    unpacker->frame++;
    return error ? error : is_last;
}

int rtp_unpack_latm(sluice_rtp_unpacker *unpacker) {
    size_t size;
    if (unpacker->fragment && unpacker->frame == 0) {
        int result = add_part(unpacker);
        if (result < 0)
            rtp_drop_fragment(unpacker);
        return result;
    }
    if (unpacker->data == unpacker->payload.length && unpacker->frame > 0)
        return 0;
    size_t prefix = read_length(unpacker, &size);
    if (prefix == 0 || size == 0 || unpacker->frame == SLUICE_RTP_MAX_FRAMES)
        return -EPROTO;
    if (size > unpacker->options.max_unit)
        return -EMSGSIZE;
    int error = rtp_add_nal(unpacker, &(sluice_rtp_nal){0});
    if (error)
        return error;
    unpacker->unit.timestamp = unpacker->timestamp + (uint32_t)unpacker->frame * unpacker->options.frame_duration;
    unpacker->data += prefix;
    unpacker->size = size;
    int result = add_part(unpacker);
    if (result < 0) {
        unpacker->fragment = true;
        rtp_drop_fragment(unpacker);
    }
    return result;
}
