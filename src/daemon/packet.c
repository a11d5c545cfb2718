#include "daemon/packet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_PACKETS = 128 }; /* made at once; then as many again as there are */

struct batch {
    struct batch *next;
    struct packet packets[];
};

struct packet_pool {
    struct packet *free;
    struct batch *batches;
    size_t made;
};

int packet_pool_new(struct packet_pool **ret_pool) {
    struct packet_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return -ENOMEM;
    *ret_pool = pool;
    return 0;
}

void packet_pool_free(struct packet_pool *pool) {
    if (!pool)
        return;
    while (pool->batches) {
        struct batch *batch = pool->batches;
        pool->batches = batch->next;
        free(batch);
    }
    free(pool);
}

static struct packet *take(struct packet_pool *pool) {
    if (!pool->free) {
        size_t count = pool->made ? pool->made : FIRST_PACKETS;
        struct batch *batch = calloc(1, sizeof *batch + count * sizeof *batch->packets);
        if (!batch)
            return NULL;
        pool->made += count;
        batch->next = pool->batches;
        pool->batches = batch;
        for (size_t i = 0; i < count; i++) {
            batch->packets[i].pool = pool;
            batch->packets[i].next_free = pool->free;
            pool->free = &batch->packets[i];
        }
    }
    struct packet *taken = pool->free;
    pool->free = taken->next_free;
    return taken;
}

/* The chunk that carries the whole tag: its size in hexadecimal, written backwards from the tag header. */
static void write_chunk_line(struct packet *packet) {
    static const char digits[] = "0123456789abcdef";
    uint32_t size = SLUICE_FLV_TAG_HEADER_SIZE + packet->size + SLUICE_FLV_TRAILER_SIZE;
    uint8_t *at = packet->prefix + CHUNK_LINE;
    *--at = '\n';
    *--at = '\r';
    for (; size > 0; size >>= 4)
        *--at = (uint8_t)digits[size & 15];
    packet->chunk_line = (uint8_t)(packet->prefix + CHUNK_LINE - at);
}

struct packet *packet_new(struct packet_pool *pool, sluice_flv_type type, enum packet_role role, uint32_t timestamp,
                          sluice_slice *payload) {
    struct packet *packet = take(pool);
    if (!packet)
        return NULL;
    packet->references = 1;
    packet->size = (uint32_t)sluice_slice_length(payload);
    packet->timestamp = timestamp;
    packet->type = type;
    packet->role = role;
    packet->blocks = 0;
    packet->blocks_account = NULL;
    packet->payload = *payload;
    *payload = (sluice_slice){0};
    write_chunk_line(packet);
    sluice_flv_write_tag_header(packet->prefix + CHUNK_LINE, type, packet->size, timestamp);
    sluice_flv_write_trailer(packet->suffix, packet->size);
    packet->suffix[SLUICE_FLV_TRAILER_SIZE] = '\r';
    packet->suffix[SLUICE_FLV_TRAILER_SIZE + 1] = '\n';
    return packet;
}

struct packet *packet_at(const struct packet *source, uint32_t timestamp) {
    sluice_slice payload;
    sluice_slice_ref(&source->payload, &payload);
    struct packet *copy = packet_new(source->pool, source->type, source->role, timestamp, &payload);
    if (!copy)
        sluice_slice_release(&payload);
    return copy;
}

void packet_account(struct packet *packet, uint32_t blocks, uint64_t *account) {
    packet->blocks = blocks;
    packet->blocks_account = account;
    *account += blocks;
}

struct packet *packet_ref(struct packet *packet) {
    packet->references++;
    return packet;
}

void packet_unref(struct packet *packet) {
    if (!packet || --packet->references > 0)
        return;
    if (packet->blocks_account)
        *packet->blocks_account -= packet->blocks;
    sluice_slice_release(&packet->payload);
    packet->next_free = packet->pool->free;
    packet->pool->free = packet;
}

static size_t prefix_size(const struct packet *packet, bool chunked) {
    return SLUICE_FLV_TAG_HEADER_SIZE + (chunked ? packet->chunk_line : 0u);
}

static size_t suffix_size(bool chunked) {
    return chunked ? PACKET_SUFFIX : SLUICE_FLV_TRAILER_SIZE;
}

size_t packet_wire_size(const struct packet *packet, bool chunked) {
    return prefix_size(packet, chunked) + packet->size + suffix_size(chunked);
}

size_t packet_pieces(const struct packet *packet, bool chunked, size_t offset, struct iovec *iov, size_t max) {
    size_t count = 0;
    size_t prefix = prefix_size(packet, chunked), suffix = suffix_size(chunked);
    const uint8_t *before = packet->prefix + PACKET_PREFIX - prefix;

    if (offset < prefix && max > 0) {
        iov[count++] = (struct iovec){(void *)(before + offset), prefix - offset};
        offset = prefix;
    }
    if (offset < prefix + packet->size) {
        size_t pieces = sluice_slice_iov(&packet->payload, offset - prefix, iov + count, max - count);
        if (pieces > max - count)
            return max;
        count += pieces;
        offset = prefix + packet->size;
    }
    offset -= prefix + packet->size;
    if (count < max && offset < suffix)
        iov[count++] = (struct iovec){(void *)(packet->suffix + offset), suffix - offset};
    return count;
}
