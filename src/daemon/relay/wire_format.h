/*
 * How a packet is sent: a constant table of calls for each format. A player has a pointer to one.
 * Nothing is copied or allocated: the pieces are the packet's, and the payload is where it was
 * received.
 */
#ifndef SLUICED_WIRE_FORMAT_H
#define SLUICED_WIRE_FORMAT_H

#include <sys/uio.h>

#include "daemon/relay/packet.h"

struct wire_format;

/* What a player is sent. */
struct packet_form {
    const struct wire_format *format;
    bool tracks[PACKET_TRACKS];      /* RTP: which are sent */
    uint8_t channels[PACKET_TRACKS]; /* RTP: their channels */
    /* RTMP: the message stream, least significant byte first; all zero: 1. Its bytes are sent from
     * here */
    uint8_t message_stream[PACKET_RTMP_STREAM_SIZE];
    uint32_t chunk_size; /* RTMP: what was announced; tags that are larger are not sent */
};

struct wire_format {
    /* what is sent is what the stream's packetizer makes; headers come with the key frames */
    bool is_packetized;

    /* Whether a player of that form is sent anything of the packet. NULL: always */
    bool (*has)(const struct packet *packet, const struct packet_form *form);

    /* Bytes on the wire, and the pieces from @offset on: as many as fit in @max. */
    size_t (*size)(const struct packet *packet);
    size_t (*pieces)(struct packet *packet, const struct packet_form *form, size_t offset, struct iovec *iov,
                     size_t max);
};

extern const struct wire_format wire_flv;           /* the tag */
extern const struct wire_format wire_flv_chunked;   /* the tag as a chunk */
extern const struct wire_format wire_flv_websocket; /* the tag as a message */
extern const struct wire_format wire_rtp;           /* the interleaved frames */
extern const struct wire_format wire_rtmp;          /* the tag as a message in one chunk */
extern const struct wire_format wire_rtmp_media;    /* likewise, without script tags */

#endif
