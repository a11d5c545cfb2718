/*
 * The current group of pictures of a stream: what a new player is sent so that it can show something at once. Begins
 * at a key frame, with the headers and metadata that were in force there, and is bounded by the memory that it holds.
 */
#ifndef SLUICED_GOP_H
#define SLUICED_GOP_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/packet.h"

/* What a decoder needs before its first frame. Each may be NULL. */
struct stream_headers {
    struct packet *metadata;
    struct packet *video;
    struct packet *audio;
};

void stream_headers_set(struct packet **slot, struct packet *packet);
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

/* Empties it until the next key frame. */
void gop_drop(struct gop *gop);

/* Gives everything back. */
void gop_clear(struct gop *gop);

#endif
