#include "framers/rtp/rtp_unpack.h"

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"

enum {
    DEFAULT_UNIT = 8 << 20,
    DEFAULT_PIECES = 16384,
    DEFAULT_NALS = 1024,
    MOST = 65536,
    DEFAULT_SIZE_LENGTH = 13,
    DEFAULT_INDEX_LENGTH = 3,
    DEFAULT_DURATION = 1024,
};

static uint32_t or_default(uint32_t value, uint32_t fallback) {
    return value ? value : fallback;
}

int sluice_rtp_unpacker_new(sluice_rtp_format format, const sluice_rtp_unpacker_options *options,
                            sluice_rtp_unpacker **ret_unpacker) {
    sluice_rtp_unpacker_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    o.max_unit = or_default(o.max_unit, DEFAULT_UNIT);
    o.max_pieces = or_default(o.max_pieces, DEFAULT_PIECES);
    o.max_nals = or_default(o.max_nals, DEFAULT_NALS);
    o.frame_duration = or_default(o.frame_duration, DEFAULT_DURATION);
    if (o.size_length == 0) {
        o.size_length = DEFAULT_SIZE_LENGTH;
        o.index_length = o.index_delta_length = DEFAULT_INDEX_LENGTH;
    }
    if (format > SLUICE_RTP_AUDIO || o.max_pieces > MOST || o.max_nals > MOST ||
        !sluice_rtp_aac_lengths_are_used(o.size_length, o.index_length, o.index_delta_length))
        return -EINVAL;
    sluice_rtp_unpacker *unpacker = calloc(1, sizeof *unpacker);
    if (!unpacker)
        return -ENOMEM;
    unpacker->format = format;
    unpacker->options = o;
    *ret_unpacker = unpacker;
    return 0;
}

static void release_pieces(sluice_rtp_unpacker *unpacker, size_t from) {
    for (size_t i = from; i < unpacker->unit.piece_count; i++)
        sluice_slice_release(&unpacker->unit.pieces[i]);
    unpacker->unit.piece_count = from;
    if (from > 0)
        return;
    unpacker->blocks = 0;
    /* Others may use the room until the next unit. */
    if (unpacker->pool) {
        slice_room_put(unpacker->pool, unpacker->unit.pieces, unpacker->piece_room);
        unpacker->unit.pieces = NULL;
        unpacker->piece_room = 0;
    }
}

static void drop_packet(sluice_rtp_unpacker *unpacker) {
    sluice_slice_release(&unpacker->payload);
    unpacker->has_packet = false;
}

void sluice_rtp_unpacker_free(sluice_rtp_unpacker *unpacker) {
    if (!unpacker)
        return;
    release_pieces(unpacker, 0);
    drop_packet(unpacker);
    free(unpacker->nals);
    slice_room_put(unpacker->pool, unpacker->unit.pieces, unpacker->piece_room);
    free(unpacker);
}

int sluice_rtp_unpacker_push(sluice_rtp_unpacker *unpacker, const sluice_slice *slice, const sluice_rtp_packet *packet,
                             uint64_t sequence) {
    if (unpacker->has_packet)
        return -EBUSY;
    if (unpacker->begun && sequence <= unpacker->sequence)
        return -ESTALE;
    int error = sluice_slice_sub(slice, packet->payload_offset, packet->payload_length, &unpacker->payload);
    if (error)
        return error;
    unpacker->gap |= unpacker->begun && sequence != unpacker->sequence + 1;
    unpacker->begun = true;
    unpacker->sequence = sequence;
    /* Padding alone keeps a connection alive, and belongs to nothing. */
    if (packet->payload_length == 0)
        return 0;
    unpacker->has_packet = true;
    unpacker->timestamp = packet->timestamp;
    unpacker->marker = packet->marker;
    unpacker->frame = 0;
    unpacker->data = 0;
    return 0;
}

void sluice_rtp_unpacker_flush(sluice_rtp_unpacker *unpacker) {
    unpacker->flush = true;
}

/* Room for one more, growing by doubling up to the limit: 0, -EMSGSIZE, -ENOMEM. */
static int grow_nals(sluice_rtp_unpacker *unpacker) {
    size_t count = unpacker->unit.nal_count;
    if (count == unpacker->options.max_nals)
        return -EMSGSIZE;
    if (count < unpacker->nal_room)
        return 0;
    uint32_t more = unpacker->nal_room ? unpacker->nal_room * 2 : 1;
    sluice_rtp_nal *larger = reallocarray(unpacker->nals, more, sizeof *larger);
    if (!larger)
        return -ENOMEM;
    unpacker->unit.nals = unpacker->nals = larger;
    unpacker->nal_room = more;
    return 0;
}

/* The same. */
static int grow_pieces(sluice_rtp_unpacker *unpacker) {
    sluice_rtp_unit *unit = &unpacker->unit;
    if (unit->piece_count == unpacker->options.max_pieces)
        return -EMSGSIZE;
    if (unit->piece_count < unpacker->piece_room)
        return 0;
    sluice_slice *larger;
    size_t room;
    int error = slice_room_get(unpacker->pool, unit->piece_count + 1, &larger, &room);
    if (error)
        return error;
    for (size_t i = 0; i < unit->piece_count; i++)
        larger[i] = unit->pieces[i];
    slice_room_put(unpacker->pool, unit->pieces, unpacker->piece_room);
    unit->pieces = larger;
    unpacker->piece_room = (uint32_t)room;
    return 0;
}

int rtp_add_nal(sluice_rtp_unpacker *unpacker, const sluice_rtp_nal *nal) {
    sluice_rtp_unit *unit = &unpacker->unit;
    int error = grow_nals(unpacker);
    if (error)
        return error;
    unpacker->nals[unit->nal_count] = *nal;
    unpacker->nals[unit->nal_count].first = (uint32_t)unit->piece_count;
    unpacker->nals[unit->nal_count++].length = nal->header_size;
    unit->length += nal->header_size;
    return unit->length > unpacker->options.max_unit ? -EMSGSIZE : 0;
}

int rtp_add_piece(sluice_rtp_unpacker *unpacker, size_t offset, size_t length) {
    sluice_rtp_unit *unit = &unpacker->unit;
    sluice_rtp_nal *nal = &unpacker->nals[unit->nal_count - 1];
    if (length == 0)
        return 0;
    if (length > unpacker->options.max_unit || unit->length > unpacker->options.max_unit - length)
        return -EMSGSIZE;
    int error = grow_pieces(unpacker);
    if (error)
        return error;
    error = sluice_slice_sub(&unpacker->payload, offset, length, &unit->pieces[unit->piece_count]);
    if (error)
        return error;
    unpacker->blocks += sluice_slice_footprint(&unit->pieces[unit->piece_count],
                                               unit->piece_count > 0 ? &unit->pieces[unit->piece_count - 1] : NULL);
    unit->piece_count++;
    unit->length += length;
    nal->count++;
    nal->length += length;
    return 0;
}

void rtp_drop_fragment(sluice_rtp_unpacker *unpacker) {
    if (!unpacker->fragment)
        return;
    unpacker->fragment = false;
    sluice_rtp_nal *nal = &unpacker->nals[--unpacker->unit.nal_count];
    release_pieces(unpacker, nal->first);
    unpacker->unit.length -= nal->length;
    unpacker->unit.damaged = true;
}

int rtp_unpack_audio(sluice_rtp_unpacker *unpacker) {
    int error = rtp_add_nal(unpacker, &(sluice_rtp_nal){0});
    if (!error)
        error = rtp_add_piece(unpacker, 0, unpacker->payload.length);
    return error ? error : 1;
}

static void open_unit(sluice_rtp_unpacker *unpacker) {
    sluice_rtp_unit *unit = &unpacker->unit;
    release_pieces(unpacker, 0);
    unit->timestamp = unpacker->timestamp;
    unit->damaged = unpacker->damaged;
    unit->length = 0;
    unit->nal_count = 0;
    unpacker->damaged = false;
    unpacker->is_open = true;
    unpacker->fragment = false;
    unpacker->dropping = false;
}

/* The unit is over: 1 (it is delivered), 0 (nothing of it is left; what follows hears of it). */
static int close_unit(sluice_rtp_unpacker *unpacker, sluice_rtp_unit **ret_unit) {
    rtp_drop_fragment(unpacker);
    unpacker->is_open = false;
    unpacker->dropping = false;
    if (unpacker->unit.nal_count == 0) {
        unpacker->damaged |= unpacker->unit.damaged;
        return 0;
    }
    unpacker->delivered = true;
    /* Only complete units count: the key picture's only slice may have been lost. */
    unpacker->unit.key = unpacker->format >= SLUICE_RTP_AAC || rtp_nals_are_key(unpacker);
    *ret_unit = &unpacker->unit;
    return 1;
}

/* What is over a limit is dropped whole, with what is still to come of it. */
static void drop_unit(sluice_rtp_unpacker *unpacker) {
    release_pieces(unpacker, 0);
    unpacker->unit.nal_count = 0;
    unpacker->unit.length = 0;
    unpacker->unit.damaged = true;
    unpacker->fragment = false;
    unpacker->dropping = true;
}

/* The packet's payload: 1 (a frame is complete), 0, or the error of the packet. */
static int unpack(sluice_rtp_unpacker *unpacker) {
    switch (unpacker->format) {
    case SLUICE_RTP_AAC:
        return unpacker->options.latm ? rtp_unpack_latm(unpacker) : rtp_unpack_aac(unpacker);
    case SLUICE_RTP_AUDIO:
        return rtp_unpack_audio(unpacker);
    default:
        return rtp_unpack_nals(unpacker);
    }
}

/* What was missing before the packet was of its unit, or of the one before, or of both. */
static void note_gap(sluice_rtp_unpacker *unpacker) {
    if (!unpacker->gap)
        return;
    unpacker->gap = false;
    if (unpacker->is_open) {
        rtp_drop_fragment(unpacker);
        unpacker->unit.damaged = true;
    }
    if (!unpacker->is_open || unpacker->unit.timestamp != unpacker->timestamp)
        unpacker->damaged = true;
}

/* Works on the packet: 1 (a unit is delivered), 0 (the packet is done), or its error. */
static int work(sluice_rtp_unpacker *unpacker, sluice_rtp_unit **ret_unit) {
    note_gap(unpacker);
    if (unpacker->is_open && unpacker->unit.timestamp != unpacker->timestamp) {
        /* A first frame of AAC; the others of its packet have later times. */
        if (unpacker->frame == 0 && close_unit(unpacker, ret_unit))
            return 1;
    }
    if (!unpacker->is_open)
        open_unit(unpacker);
    unpacker->unit.sequence = unpacker->sequence;
    int result = unpacker->dropping ? 0 : unpack(unpacker);
    if (result == 1 && unpacker->format == SLUICE_RTP_AAC)
        return close_unit(unpacker, ret_unit);
    bool ends = unpacker->marker || unpacker->format >= SLUICE_RTP_AUDIO;
    drop_packet(unpacker);
    if (result < 0) {
        unpacker->unit.damaged = true;
        if (result == -EMSGSIZE || result == -ENOMEM)
            drop_unit(unpacker);
        unpacker->flush |= ends;
        return result;
    }
    return ends ? close_unit(unpacker, ret_unit) : 0;
}

int sluice_rtp_unpacker_next(sluice_rtp_unpacker *unpacker, sluice_rtp_unit **ret_unit) {
    if (unpacker->delivered) {
        release_pieces(unpacker, 0);
        unpacker->unit.nal_count = 0;
        unpacker->delivered = false;
    }
    for (;;) {
        if (unpacker->flush && unpacker->is_open && close_unit(unpacker, ret_unit))
            return 1;
        unpacker->flush = false;
        if (!unpacker->has_packet)
            return 0;
        int result = work(unpacker, ret_unit);
        if (result != 0)
            return result;
    }
}
