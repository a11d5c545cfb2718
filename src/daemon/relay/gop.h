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

enum {
    HEADERS_METADATA = 0,
    HEADERS_VIDEO = 1, /* the first of them */
    HEADERS_AUDIO = HEADERS_VIDEO + TRACKS_MOST,
    HEADERS_FIRST = 3,
};

/*
 * What a decoder needs before its first frame: metadata, then video headers and audio headers by
 * their tracks' places. Each may be NULL. Few streams have more than the first of each: the others
 * take memory when one comes.
 */
struct stream_headers {
    struct packet *first[HEADERS_FIRST];
    struct packet **others; /* TRACKS_HEADERS, of which those in @first are not used; or NULL */
    uint64_t blocks;        /* that they hold */
};

static inline int headers_first(size_t place) {
    return place == HEADERS_METADATA ? 0 : place == HEADERS_VIDEO ? 1 : place == HEADERS_AUDIO ? 2 : -1;
}

/* The header at a place, below TRACKS_HEADERS; or NULL. */
static inline struct packet *stream_headers_at(const struct stream_headers *headers, size_t place) {
    int first = headers_first(place);
    return first >= 0 ? headers->first[first] : headers->others ? headers->others[place] : NULL;
}

/* A packet's place in the list, by its role and track; -1: it is no header. */
static inline int header_place(enum packet_role role, unsigned track) {
    switch (role) {
    case PACKET_METADATA:
        return HEADERS_METADATA;
    case PACKET_VIDEO_HEADER:
        return (int)(HEADERS_VIDEO + track);
    case PACKET_AUDIO_HEADER:
        return (int)(HEADERS_AUDIO + track);
    default:
        return -1;
    }
}

static inline struct packet *stream_headers_get(const struct stream_headers *headers, enum packet_role role,
                                                unsigned track) {
    return stream_headers_at(headers, (size_t)header_place(role, track));
}

/* Makes room for one at that place: then it can be put there. 0, -ENOMEM */
int stream_headers_need(struct stream_headers *headers, size_t place);

/* In place of the one before. 0, -ENOMEM */
int stream_headers_put(struct stream_headers *headers, size_t place, struct packet *packet);

/* The same, where it is a header. */
static inline int stream_headers_set(struct stream_headers *headers, struct packet *packet) {
    int place = header_place(packet->role, packet->track);
    return place >= 0 ? stream_headers_put(headers, (size_t)place, packet) : 0;
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
