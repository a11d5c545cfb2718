#include <errno.h>
#include <string.h>

#include <sluice/rtp.h>

#include "framers/rtp/rtp_write.h"
#include "reader/cursor.h"

enum {
    RTCP_VERSION = 2,
    RTCP_HEADER = 4,
    SDES_END = 0,
    SDES_CNAME = 1,
    MAX_CNAME = 255,
};

static bool read_report(sluice_cursor *cursor, sluice_rtcp_report *report) {
    uint32_t lost;
    if (!cursor_be32(cursor, &report->ssrc) || !cursor_u8(cursor, &report->fraction_lost) ||
        !cursor_be24(cursor, &lost) || !cursor_be32(cursor, &report->highest) ||
        !cursor_be32(cursor, &report->jitter) || !cursor_be32(cursor, &report->last_sr))
        return false;
    report->lost = (int32_t)(lost << 8) >> 8;
    return cursor_be32(cursor, &report->delay);
}

/* SR and RR; what is behind the report blocks belongs to a profile. */
static bool read_reports(sluice_cursor *cursor, sluice_rtcp_packet *packet) {
    if (!cursor_be32(cursor, &packet->ssrc))
        return false;
    if (packet->type == SLUICE_RTCP_SR &&
        (!cursor_be(cursor, 8, &packet->ntp) || !cursor_be32(cursor, &packet->timestamp) ||
         !cursor_be32(cursor, &packet->packets) || !cursor_be32(cursor, &packet->octets)))
        return false;
    for (int i = 0; i < packet->count; i++)
        if (!read_report(cursor, &packet->reports[i]))
            return false;
    return true;
}

/* The items of a source, up to the end and its padding to 32 bits. */
static bool read_items(sluice_cursor *cursor, size_t end, sluice_rtcp_packet *packet) {
    for (;;) {
        uint8_t type, length;
        if (!cursor_u8(cursor, &type))
            return false;
        if (type == SDES_END)
            return cursor_skip(cursor, cursor_left(cursor) % 4);
        if (!cursor_u8(cursor, &length))
            return false;
        if (type == SDES_CNAME && packet->text_length == 0) {
            packet->text_offset = end - cursor_left(cursor);
            packet->text_length = length;
        }
        if (!cursor_skip(cursor, length))
            return false;
    }
}

static bool read_sdes(sluice_cursor *cursor, size_t end, sluice_rtcp_packet *packet) {
    for (int i = 0; i < packet->count; i++)
        if (!cursor_be32(cursor, &packet->sources[i]) || !read_items(cursor, end, packet))
            return false;
    packet->ssrc = packet->sources[0];
    return true;
}

static bool read_bye(sluice_cursor *cursor, size_t end, sluice_rtcp_packet *packet) {
    for (int i = 0; i < packet->count; i++)
        if (!cursor_be32(cursor, &packet->sources[i]))
            return false;
    packet->ssrc = packet->sources[0];
    uint8_t length;
    if (!cursor_u8(cursor, &length))
        return true;
    packet->text_offset = end - cursor_left(cursor);
    packet->text_length = length;
    return cursor_skip(cursor, length);
}

/* The packet's own bytes behind its header and without its padding. */
static bool read_body(sluice_cursor cursor, size_t end, sluice_rtcp_packet *packet) {
    switch (packet->type) {
    case SLUICE_RTCP_SR:
    case SLUICE_RTCP_RR:
        return read_reports(&cursor, packet);
    case SLUICE_RTCP_SDES:
        return read_sdes(&cursor, end, packet);
    case SLUICE_RTCP_BYE:
        return read_bye(&cursor, end, packet);
    default:
        return true;
    }
}

static int read_packet(const sluice_slice *compound, size_t offset, sluice_rtcp_packet *packet) {
    sluice_cursor cursor = cursor_of_slice(compound);
    uint8_t first;
    uint16_t words;
    cursor_skip(&cursor, offset);
    if (!cursor_u8(&cursor, &first) || !cursor_u8(&cursor, &packet->type) || !cursor_be16(&cursor, &words) ||
        first >> 6 != RTCP_VERSION || (size_t)words * 4 > cursor_left(&cursor))
        return -EPROTO;
    packet->offset = offset;
    packet->length = RTCP_HEADER + (size_t)words * 4;
    packet->count = first & 0x1F;
    size_t end = offset + packet->length;
    if (first & 0x20) {
        sluice_cursor last = cursor;
        if (end != compound->length || words == 0)
            return -EPROTO;
        cursor_skip(&last, (size_t)words * 4 - 1);
        uint8_t padding = cursor_byte(&last);
        if (padding == 0 || padding % 4 != 0 || padding > words * 4)
            return -EPROTO;
        end -= padding;
    }
    /* The cursor must not see beyond the packet. */
    cursor.at.left = end - offset - RTCP_HEADER;
    return read_body(cursor, end, packet) ? 0 : -EPROTO;
}

int sluice_rtcp_next(const sluice_slice *compound, size_t *offset, sluice_rtcp_packet *ret_packet) {
    if (*offset >= compound->length)
        return 0;
    sluice_rtcp_packet packet = {0};
    int error = read_packet(compound, *offset, &packet);
    if (error) {
        *offset = compound->length;
        return error;
    }
    *offset += packet.length;
    *ret_packet = packet;
    return 1;
}

static void write_header(uint8_t *to, unsigned count, uint8_t type, size_t length) {
    to[0] = (uint8_t)(RTCP_VERSION << 6 | count);
    to[1] = type;
    put_be16(to + 2, (uint16_t)(length / 4 - 1));
}

static void write_report(uint8_t *to, const sluice_rtcp_report *report) {
    put_be32(to, report->ssrc);
    put_be32(to + 4, (uint32_t)report->fraction_lost << 24 | ((uint32_t)report->lost & 0xFFFFFF));
    put_be32(to + 8, report->highest);
    put_be32(to + 12, report->jitter);
    put_be32(to + 16, report->last_sr);
    put_be32(to + 20, report->delay);
}

int sluice_rtcp_write(uint8_t *buffer, size_t size, const sluice_rtcp_packet *packet) {
    bool is_sr = packet->type == SLUICE_RTCP_SR, is_bye = packet->type == SLUICE_RTCP_BYE;
    if ((!is_sr && !is_bye && packet->type != SLUICE_RTCP_RR) || packet->count > SLUICE_RTCP_MAX_REPORTS)
        return -EINVAL;
    size_t begin = is_sr ? SLUICE_RTCP_SR_SIZE : SLUICE_RTCP_RR_SIZE;
    size_t length = begin + (is_bye ? 0 : packet->count * SLUICE_RTCP_REPORT_SIZE);
    if (size < length)
        return -EMSGSIZE;
    write_header(buffer, is_bye ? 1 : packet->count, packet->type, length);
    put_be32(buffer + 4, packet->ssrc);
    if (is_sr) {
        put_be32(buffer + 8, (uint32_t)(packet->ntp >> 32));
        put_be32(buffer + 12, (uint32_t)packet->ntp);
        put_be32(buffer + 16, packet->timestamp);
        put_be32(buffer + 20, packet->packets);
        put_be32(buffer + 24, packet->octets);
    }
    for (int i = 0; !is_bye && i < packet->count; i++)
        write_report(buffer + begin + i * SLUICE_RTCP_REPORT_SIZE, &packet->reports[i]);
    return (int)length;
}

int sluice_rtcp_write_sdes(uint8_t *buffer, size_t size, uint32_t ssrc, const char *cname) {
    size_t name = strlen(cname);
    if (name > MAX_CNAME)
        return -EINVAL;
    /* Header and source, type and length, the name, and at least one byte that ends the list. */
    size_t length = (8 + 2 + name + 1 + 3) / 4 * 4;
    if (size < length)
        return -EMSGSIZE;
    write_header(buffer, 1, SLUICE_RTCP_SDES, length);
    put_be32(buffer + 4, ssrc);
    buffer[8] = SDES_CNAME;
    buffer[9] = (uint8_t)name;
    for (size_t i = 10; i < length; i++)
        buffer[i] = i < 10 + name ? (uint8_t)cname[i - 10] : SDES_END;
    return (int)length;
}
