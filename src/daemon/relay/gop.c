#include "daemon/relay/gop.h"

#include <errno.h>
#include <stdlib.h>

enum {
    MAX_PACKETS = 32768,
    AHEAD = 8, /* packets */
};

int stream_headers_need(struct stream_headers *headers, size_t place) {
    if (headers->others || headers_first(place) >= 0)
        return 0;
    headers->others = calloc(TRACKS_HEADERS, sizeof(struct packet *));
    return headers->others ? 0 : -ENOMEM;
}

/* There is room. */
static void replace(struct stream_headers *headers, size_t place, struct packet *packet) {
    int first = headers_first(place);
    struct packet **slot = first >= 0 ? &headers->first[first] : &headers->others[place], *before = *slot;
    *slot = packet ? packet_ref(packet) : NULL;
    headers->blocks += packet ? packet->blocks : 0;
    headers->blocks -= before ? before->blocks : 0;
    packet_unref(before);
}

int stream_headers_put(struct stream_headers *headers, size_t place, struct packet *packet) {
    int error = stream_headers_need(headers, place);
    if (!error)
        replace(headers, place, packet);
    return error;
}

void stream_headers_clear(struct stream_headers *headers) {
    for (size_t i = 0; i < TRACKS_HEADERS; i++)
        packet_unref(stream_headers_at(headers, i));
    free(headers->others);
    *headers = (struct stream_headers){0};
}

/* 0, -ENOMEM */
static int copy_headers(struct stream_headers *to, const struct stream_headers *from) {
    for (size_t i = 0; i < TRACKS_HEADERS; i++) {
        struct packet *header = stream_headers_at(from, i);
        if (header && stream_headers_need(to, i) < 0)
            return -ENOMEM;
        if (header || stream_headers_at(to, i))
            replace(to, i, header);
    }
    return 0;
}

/*
 * Nothing has used these packets since they came. So what the release of a packet needs is fetched
 * while others before it are released: its first line, and when that has come, its block's.
 */
static void empty(struct gop *gop) {
    size_t count = gop->count;
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(gop->packets[i + AHEAD], 1);
        if (i + AHEAD / 2 < count)
            sluice_slice_prefetch(&gop->packets[i + AHEAD / 2]->payload);
        packet_unref(gop->packets[i]);
    }
    gop->count = 0;
    gop->bytes = gop->blocks = 0;
}

void gop_clear(struct gop *gop) {
    empty(gop);
    stream_headers_clear(&gop->headers);
    if (gop->pool)
        (void)packet_pool_charge(gop->pool, gop->capacity, 0);
    free(gop->packets);
    *gop = (struct gop){0};
}

void gop_drop(struct gop *gop) {
    gop_clear(gop);
    gop->broken = true;
}

static bool make_room(struct gop *gop, const struct packet *packet) {
    if (gop->count < gop->capacity)
        return true;
    struct packet_pool *pool = packet_pool_of(packet);
    size_t capacity = gop->capacity ? 2 * gop->capacity : 256;
    if (capacity > MAX_PACKETS || !packet_pool_charge(pool, gop->capacity, capacity))
        return false;
    struct packet **packets = realloc(gop->packets, capacity * sizeof *packets);
    if (!packets) {
        (void)packet_pool_charge(pool, capacity, gop->capacity);
        return false;
    }
    gop->pool = pool;
    gop->packets = packets;
    gop->capacity = capacity;
    return true;
}

static void begin(struct gop *gop, const struct stream_headers *headers) {
    empty(gop);
    gop->broken = copy_headers(&gop->headers, headers) < 0;
}

static void append(struct gop *gop, struct packet *packet, uint64_t max_blocks) {
    /* Where nothing may be kept, also nothing that lies in a block which something else holds
     * already. */
    if (gop->broken || max_blocks == 0 || gop->blocks + packet->blocks > max_blocks || !make_room(gop, packet)) {
        gop_drop(gop);
        return;
    }
    gop->packets[gop->count++] = packet_ref(packet);
    gop->bytes += packet_size(packet);
    gop->blocks += packet->blocks;
}

void gop_open(struct gop *gop, struct packet *packet, const struct stream_headers *headers, uint64_t max_blocks) {
    if (gop->broken)
        return;
    if (gop->count == 0)
        begin(gop, headers);
    append(gop, packet, max_blocks);
}

void gop_add(struct gop *gop, struct packet *packet, const struct stream_headers *headers, uint64_t max_blocks) {
    if (packet->role == PACKET_KEY_FRAME)
        begin(gop, headers);
    else if (gop->broken || gop->count == 0)
        return;
    append(gop, packet, max_blocks);
}
