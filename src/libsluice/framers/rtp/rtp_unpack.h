/* The unit that an unpacker builds, and the payload formats that add to it. */
#ifndef SLUICE_FRAMERS_RTP_UNPACK_H
#define SLUICE_FRAMERS_RTP_UNPACK_H

#include <sluice/rtp.h>

#include "memory/slice_rooms.h"
#include "reader/cursor.h"

struct sluice_rtp_unpacker {
    sluice_rtp_unpacker_options options;
    sluice_pool *pool; /* whose room for pieces is used; NULL: room of its own, which it keeps */
    sluice_rtp_format format;

    /* The packet that next() works on. */
    uint32_t timestamp;
    sluice_slice payload;
    uint64_t sequence;
    size_t frame; /* AAC: the next frame in it */
    size_t data;  /* AAC: where that frame begins; 0 before the first */
    size_t size;  /* LATM: of the frame under way */
    bool has_packet;
    bool gap; /* others are missing before it */
    bool marker;

    bool begun;     /* there was a packet: sequence is the last one's */
    bool flush;     /* the open unit is to be delivered as it is */
    bool damaged;   /* what the next unit begins with */
    bool is_open;   /* the unit below is under way */
    bool fragment;  /* its last NAL unit is not complete */
    bool dropping;  /* it is over a limit: what belongs to it is dropped */
    bool delivered; /* the unit below is the caller's until the next call */
    uint32_t nal_room, piece_room;
    sluice_rtp_unit unit;
    sluice_rtp_nal *nals; /* what unit.nals shows */
    size_t blocks;        /* of the pool, that the unit's pieces hold */
};

/* Adds a NAL unit or frame without pieces: 0, -EMSGSIZE, -ENOMEM. */
int rtp_add_nal(sluice_rtp_unpacker *unpacker, const sluice_rtp_nal *nal);

/* Adds a part of the payload to the last one, by reference: 0, -EMSGSIZE, -ENOMEM. */
int rtp_add_piece(sluice_rtp_unpacker *unpacker, size_t offset, size_t length);

/* Takes away the last one, which is not complete, and says that the unit is damaged. Without one it
 * does nothing. */
void rtp_drop_fragment(sluice_rtp_unpacker *unpacker);

/* Payloads of H.264 and H.265: 0, or the error of the packet. */
int rtp_unpack_nals(sluice_rtp_unpacker *unpacker);

/* Whether decoding can begin with the unit, by its NAL units. */
bool rtp_nals_are_key(const sluice_rtp_unpacker *unpacker);

/* Payloads of AAC: 1 (a frame is complete), 0 (the packet is done), or the error of the packet. */
int rtp_unpack_aac(sluice_rtp_unpacker *unpacker);

/* The same of AAC in LATM. */
int rtp_unpack_latm(sluice_rtp_unpacker *unpacker);

/* Payloads that are a frame: 1, or the error of the packet. */
int rtp_unpack_audio(sluice_rtp_unpacker *unpacker);

#endif
