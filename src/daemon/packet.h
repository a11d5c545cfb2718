/*
 * One FLV tag on its way to players: the payload by reference in the blocks it was received into, and the few bytes
 * around it. All players of a stream share the packet, whether they are sent it as a part of an HTTP chunked body or
 * as it is. The data plane's thread only.
 */
#ifndef SLUICED_PACKET_H
#define SLUICED_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <sluice/flv.h>

enum {
    CHUNK_LINE = 9, /* longest "size CRLF": seven digits */
    PACKET_PREFIX = CHUNK_LINE + SLUICE_FLV_TAG_HEADER_SIZE,
    PACKET_SUFFIX = SLUICE_FLV_TRAILER_SIZE + 2,
};

/* What a packet means to those who cache and drop. */
enum packet_role {
    PACKET_METADATA,     /* onMetaData */
    PACKET_VIDEO_HEADER, /* a decoder's configuration */
    PACKET_AUDIO_HEADER,
    PACKET_KEY_FRAME, /* video that decoding can start with */
    PACKET_VIDEO,
    PACKET_AUDIO,
    PACKET_OTHER, /* scripts, ends of sequences, commands */
};

/* Unused packets, for reuse without the allocator. */
struct packet_pool;

struct packet {
    struct packet_pool *pool;
    struct packet *next_free;
    uint32_t references;
    uint32_t size; /* payload, bytes */
    uint32_t timestamp;
    sluice_flv_type type;
    enum packet_role role;
    uint8_t chunk_line;            /* bytes of it, right before the tag header */
    uint8_t prefix[PACKET_PREFIX]; /* chunk line (to the right), tag header */
    uint8_t suffix[PACKET_SUFFIX]; /* trailer, CRLF that ends the chunk */
    sluice_slice payload;
    uint32_t blocks;          /* that this packet adds to what its stream holds */
    uint64_t *blocks_account; /* where they are counted; lives longer than the struct packet */
};

int packet_pool_new(struct packet_pool **ret_pool);

/* Every packet must be back. */
void packet_pool_free(struct packet_pool *pool);

/* Takes the payload's references over. NULL when memory is short (the payload is the caller's still). */
struct packet *packet_new(struct packet_pool *pool, sluice_flv_type type, enum packet_role role, uint32_t timestamp,
                          sluice_slice *payload);

/* The same payload at another time. NULL when memory is short. */
struct packet *packet_at(const struct packet *source, uint32_t timestamp);

/* Counts the packet's blocks until it goes. */
void packet_account(struct packet *packet, uint32_t blocks, uint64_t *account);

struct packet *packet_ref(struct packet *packet);
void packet_unref(struct packet *packet); /* NULL is allowed */

/* Bytes on the wire, and the pieces from @offset on: as many as fit in @max. */
size_t packet_wire_size(const struct packet *packet, bool chunked);
size_t packet_pieces(const struct packet *packet, bool chunked, size_t offset, struct iovec *iov, size_t max);

#endif
