/*
 * Headers of chunks: which parts there are, and what follows from the ones before.
 *
 * A timestamp or delta of 24 bits that does not fit is followed by one of 32. The specification has
 * it behind each header of type 3, too; some encoders leave it out there, and some write the
 * message's timestamp where the first chunk had a delta. So it is read there if it is one of the
 * two values, else those bytes are payload.
 */
#include "framers/rtmp/rtmp_header.h"

#include <errno.h>

#include "reader/cursor.h"

enum {
    FORMAT_FULL = 0,      /* timestamp, size, type, message stream */
    FORMAT_SAME = 1,      /* delta, size, type */
    FORMAT_DELTA = 2,     /* delta */
    FORMAT_CONTINUES = 3, /* nothing */

    ID_MASK = 0x3F,
    ID_TWO_BYTES = 0,
    ID_THREE_BYTES = 1,
    ID_OFFSET = 64,
};

static const uint8_t message_header_size[] = {11, 7, 3, 0};

size_t rtmp_read_id(const sluice_chain *chain, uint32_t *ret_id) {
    sluice_cursor cursor = cursor_of_chain(chain);
    uint32_t id = cursor_byte(&cursor) & ID_MASK;
    size_t more = id == ID_TWO_BYTES ? 1 : id == ID_THREE_BYTES ? 2 : 0;
    if (cursor_left(&cursor) < more)
        return 1 + more;
    if (more > 0)
        id = ID_OFFSET + cursor_byte(&cursor);
    if (more > 1)
        id += 256U * cursor_byte(&cursor);
    *ret_id = id;
    return 0;
}

static uint32_t id_size(uint8_t first) {
    uint8_t id = first & ID_MASK;
    return id == ID_TWO_BYTES ? 2 : id == ID_THREE_BYTES ? 3 : 1;
}

/* The fields that are written, over those of the header before. */
static void read_fields(sluice_cursor *cursor, unsigned format, struct rtmp_previous *next, uint32_t *ret_field) {
    uint64_t stream = 0;
    uint32_t size = 0;
    cursor_be24(cursor, ret_field);
    if (format == FORMAT_DELTA)
        return;
    cursor_be24(cursor, &size);
    next->size = size;
    next->type = cursor_byte(cursor);
    if (format == FORMAT_FULL) {
        cursor_le(cursor, 4, &stream);
        next->stream = (uint32_t)stream;
    }
}

/* How many of the bytes at the cursor are those of the value: 4 for all, or fewer because they end
 * there; -1: they are others. */
static int matches(sluice_cursor cursor, uint32_t value) {
    for (int i = 0; i < RTMP_EXTENDED_SIZE; i++) {
        uint8_t byte;
        if (!cursor_u8(&cursor, &byte))
            return i;
        if (byte != (uint8_t)(value >> (24 - 8 * i)))
            return -1;
    }
    return RTMP_EXTENDED_SIZE;
}

/*
 * Whether a header of type 3 has the extended timestamp: 1 or 0; or -1, as long as the bytes that
 * are there could be its beginning.
 */
static int has_extended(const sluice_cursor *cursor, uint32_t field, uint32_t timestamp) {
    int a = matches(*cursor, field), b = matches(*cursor, timestamp);
    if (a == RTMP_EXTENDED_SIZE || b == RTMP_EXTENDED_SIZE)
        return 1;
    return a < 0 && b < 0 ? 0 : -1;
}

/* A type 3: of a message under way, or of another like the one before. */
static int read_short(const sluice_chain *chain, sluice_cursor *cursor, uint32_t left, struct rtmp_header *header) {
    struct rtmp_previous *next = &header->next;
    uint32_t timestamp = left > 0 ? next->timestamp : next->timestamp + next->step;
    if (next->is_extended) {
        int has = has_extended(cursor, next->field, timestamp);
        if (has < 0) {
            header->length = (uint32_t)chain_length(chain) + 1;
            return 0;
        }
        header->length += has ? RTMP_EXTENDED_SIZE : 0;
    }
    next->timestamp = timestamp;
    return 1;
}

/* A longer header within a message repeats what it is; its time is not looked at. */
static int check_within(const struct rtmp_previous *previous, struct rtmp_header *header) {
    if (header->next.size != previous->size || header->next.type != previous->type)
        return -EPROTO;
    header->next = *previous;
    return 1;
}

int rtmp_read_header(const sluice_chain *chain, const struct rtmp_previous *previous, uint32_t left,
                     struct rtmp_header *ret_header) {
    sluice_cursor cursor = cursor_of_chain(chain);
    uint8_t first = cursor_byte(&cursor);
    unsigned format = first >> 6;
    uint32_t field = 0;
    /* Clients begin the control stream with a header of type 1, which has no message stream. */
    if (!previous && format > FORMAT_SAME)
        return -EPROTO;
    *ret_header = (struct rtmp_header){.length = id_size(first) + message_header_size[format]};
    if (chain_length(chain) < ret_header->length)
        return 0;
    if (previous)
        ret_header->next = *previous;
    rtmp_read_id(chain, &ret_header->next.id);
    cursor_skip(&cursor, id_size(first) - 1);
    if (format == FORMAT_CONTINUES)
        return read_short(chain, &cursor, left, ret_header);

    struct rtmp_previous *next = &ret_header->next;
    read_fields(&cursor, format, next, &field);
    bool is_extended = field == RTMP_EXTENDED;
    if (is_extended) {
        ret_header->length += RTMP_EXTENDED_SIZE;
        if (!cursor_be32(&cursor, &field))
            return 0;
    }
    if (left > 0)
        return check_within(previous, ret_header);
    /* By the specification a type 3 behind a full header repeats its timestamp as a delta, and
     * ffmpeg writes it so in a stream's first second. A timestamp of hours is none. */
    next->is_extended = is_extended;
    next->field = field;
    next->step = format == FORMAT_FULL && is_extended ? 0 : field;
    next->timestamp = format == FORMAT_FULL ? field : next->timestamp + field;
    return 1;
}
