/*
 * The current group of pictures of a stream, sent first to a new player so that it can show a
 * picture at once. It begins at a key frame of the main video track, with the headers and metadata
 * valid there, and its memory is bounded. A header that changes within the group is stored at its
 * position among the frames.
 */
#ifndef SLUICED_GOP_H
#define SLUICED_GOP_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/relay/packet.h"
#include "daemon/relay/tracks.h"

/* What a decoder needs before its first frame: metadata, then video headers and audio headers by
 * their tracks' places. Each may be NULL. */
struct stream_headers {
    struct packet *list[TRACKS_HEADERS];
    uint64_t blocks; /* that they hold */
};

/* A packet's place in the list, by its role and track; -1: it is no header. */
static inline int header_place(enum packet_role role, unsigned track) {
    switch (role) {
    case PACKET_METADATA:
        return 0;
    case PACKET_VIDEO_HEADER:
        return (int)(1 + track);
    case PACKET_AUDIO_HEADER:
        return (int)(1 + TRACKS_MOST + track);
    default:
        return -1;
    }
}

static inline struct packet *stream_headers_get(const struct stream_headers *headers, enum packet_role role,
                                                unsigned track) {
    return headers->list[header_place(role, track)];
}

/* In place of the one before. What is no header is none. */
void stream_headers_put(struct stream_headers *headers, size_t place, struct packet *packet);

static inline void stream_headers_set(struct stream_headers *headers, struct packet *packet) {
    int place = header_place(packet->role, packet->track);
    if (place >= 0)
        stream_headers_put(headers, (size_t)place, packet);
}

void stream_headers_clear(struct stream_headers *headers);

struct gop {
    struct stream_headers headers; /* at its beginning */
    struct packet **packets;
    struct packet_pool *pool; /* to which the list is charged; the packets' */
    size_t count, capacity;
    uint64_t bytes;  /* payload */
    uint64_t blocks; /* that its packets hold */
    bool broken;     /* too large, or without a beginning: empty until the next key frame */
};

/* Adds a packet of a stream's beginning: the first one begins the group, whatever it is. */
void gop_open(struct gop *gop, struct packet *packet, const struct stream_headers *headers, uint64_t max_blocks);

/* A key frame begins anew; other packets are added unless the group is empty. */
void gop_add(struct gop *gop, struct packet *packet, const struct stream_headers *headers, uint64_t max_blocks);

/* Gives everything back; it stays empty until the next key frame. */
void gop_drop(struct gop *gop);

/* Gives everything back. */
void gop_clear(struct gop *gop);

#endif
