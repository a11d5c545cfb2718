/* AAC: RFC 3640, section 3.2 and 3.3.6. */
#include "framers/rtp/rtp_unpack.h"

#include <errno.h>

/* The AU header of a frame, and how many there are. */
struct au {
    size_t count;
    size_t data; /* where the first frame begins */
    uint32_t size;
    uint32_t index;
};

/* @n bits, at most 16, at @bit in the AU headers, which have been found to be there. */
static uint32_t read_bits(const sluice_slice *payload, size_t bit, unsigned n) {
    sluice_cursor cursor = cursor_of_slice(payload);
    uint64_t value = 0;
    size_t bytes = (bit % 8 + n + 7) / 8;
    cursor_skip(&cursor, 2 + bit / 8);
    if (bytes > 0)
        cursor_be(&cursor, (unsigned)bytes, &value);
    return (uint32_t)(value >> (bytes * 8 - bit % 8 - n)) & ((1U << n) - 1);
}

bool sluice_rtp_aac_lengths_are_used(uint8_t size_length, uint8_t index_length, uint8_t index_delta_length) {
    bool has_index = index_length == 0 || index_length == 2 || index_length == 3;
    bool has_delta = index_delta_length == 0 || index_delta_length == 2 || index_delta_length == 3;
    return (size_length == 6 || size_length == 13 || size_length == 16) && has_index && has_delta;
}

/* The header of frame number @frame. */
static int read_au(const sluice_rtp_unpacker *unpacker, size_t frame, struct au *ret_au) {
    const sluice_rtp_unpacker_options *o = &unpacker->options;
    size_t first = (size_t)o->size_length + o->index_length, other = (size_t)o->size_length + o->index_delta_length;
    sluice_cursor cursor = cursor_of_slice(&unpacker->payload);
    uint16_t bits;
    if (!cursor_be16(&cursor, &bits) || bits < first || (bits + 7U) / 8 > cursor_left(&cursor))
        return -EPROTO;
    struct au au = {.count = 1 + (bits - first) / other, .data = 2 + (bits + 7U) / 8};
    if (au.count > SLUICE_RTP_MAX_FRAMES)
        return -EPROTO;
    if (frame < au.count) {
        size_t at = frame == 0 ? 0 : first + (frame - 1) * other;
        au.size = read_bits(&unpacker->payload, at, o->size_length);
        au.index = read_bits(&unpacker->payload, at + o->size_length, frame ? o->index_delta_length : o->index_length);
    }
    *ret_au = au;
    return 0;
}

/* A frame longer than its packet: 1 (it is complete), 0 (more of it is to come), -EPROTO,
 * -EMSGSIZE, -ENOMEM. */
static int add_fragment(sluice_rtp_unpacker *unpacker, const struct au *au) {
    size_t here = unpacker->payload.length - au->data;
    if (!unpacker->fragment) {
        if (here == 0)
            return -EPROTO;
        int error = rtp_add_nal(unpacker, &(sluice_rtp_nal){0});
        if (error)
            return error;
        unpacker->fragment = true;
    }
    size_t length = unpacker->nals[0].length + here;
    if (length > au->size) {
        rtp_drop_fragment(unpacker);
        return -EPROTO;
    }
    int error = rtp_add_piece(unpacker, au->data, here);
    if (error || length < au->size)
        return error;
    unpacker->fragment = false;
    return 1;
}

int rtp_unpack_aac(sluice_rtp_unpacker *unpacker) {
    struct au au;
    int error = read_au(unpacker, unpacker->frame, &au);
    if (error)
        return error;
    if (unpacker->frame == 0)
        unpacker->data = au.data;
    if (unpacker->frame == au.count)
        return 0;
    if (au.index != 0)
        return -EOPNOTSUPP;
    size_t left = unpacker->payload.length - unpacker->data;
    if (au.count == 1 && (au.size > left || unpacker->fragment)) {
        int result = add_fragment(unpacker, &au);
        unpacker->frame++;
        return result;
    }
    rtp_drop_fragment(unpacker);
    if (au.size > left || au.size == 0)
        return -EPROTO;
    error = rtp_add_nal(unpacker, &(sluice_rtp_nal){0});
    if (!error)
        error = rtp_add_piece(unpacker, unpacker->data, au.size);
    if (error)
        return error;
    unpacker->unit.timestamp = unpacker->timestamp + (uint32_t)unpacker->frame * unpacker->options.frame_duration;
    unpacker->frame++;
    unpacker->data += au.size;
    return 1;
}
