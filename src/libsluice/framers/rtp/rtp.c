#include <sluice/rtp.h>

#include <errno.h>

#include "framers/rtp/rtp_write.h"
#include "reader/cursor.h"

enum {
    RTP_VERSION = 2,
};

static int read_extension(sluice_cursor *cursor, size_t length, sluice_rtp_packet *packet) {
    uint16_t words;
    if (!cursor_be16(cursor, &packet->extension_profile) || !cursor_be16(cursor, &words))
        return -EPROTO;
    packet->has_extension = true;
    packet->extension_offset = length - cursor_left(cursor);
    packet->extension_length = (size_t)words * 4;
    return cursor_skip(cursor, packet->extension_length) ? 0 : -EPROTO;
}

/* The last byte says how many bytes of padding there are, itself counted. */
static int read_padding(sluice_cursor cursor, sluice_rtp_packet *packet) {
    if (packet->payload_length == 0)
        return -EPROTO;
    cursor_skip(&cursor, packet->payload_length - 1);
    packet->padding = cursor_byte(&cursor);
    if (packet->padding == 0 || packet->padding > packet->payload_length)
        return -EPROTO;
    packet->payload_length -= packet->padding;
    return 0;
}

int sluice_rtp_read(const sluice_slice *slice, sluice_rtp_packet *ret_packet) {
    sluice_cursor cursor = cursor_of_slice(slice);
    sluice_rtp_packet packet = {0};
    uint8_t first = 0, second = 0;
    if (!cursor_u8(&cursor, &first) || !cursor_u8(&cursor, &second) || !cursor_be16(&cursor, &packet.sequence) ||
        !cursor_be32(&cursor, &packet.timestamp) || !cursor_be32(&cursor, &packet.ssrc) || first >> 6 != RTP_VERSION)
        return -EPROTO;
    packet.marker = second & 0x80;
    packet.payload_type = second & 0x7F;
    packet.csrc_count = first & 0x0F;
    for (int i = 0; i < packet.csrc_count; i++)
        if (!cursor_be32(&cursor, &packet.csrc[i]))
            return -EPROTO;
    int error = first & 0x10 ? read_extension(&cursor, slice->length, &packet) : 0;
    if (error)
        return error;
    packet.payload_length = cursor_left(&cursor);
    packet.payload_offset = slice->length - packet.payload_length;
    if (first & 0x20)
        error = read_padding(cursor, &packet);
    if (!error)
        *ret_packet = packet;
    return error;
}

void sluice_rtp_write(uint8_t buffer[SLUICE_RTP_HEADER_SIZE], const sluice_rtp_packet *packet) {
    buffer[0] = RTP_VERSION << 6;
    buffer[1] = (uint8_t)(packet->marker << 7 | (packet->payload_type & 0x7F));
    put_be16(buffer + 2, packet->sequence);
    put_be32(buffer + 4, packet->timestamp);
    put_be32(buffer + 8, packet->ssrc);
}
