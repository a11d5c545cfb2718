/*
 * A buffer per connection, as buffered readers have it: all that there is goes into it, then each
 * packet is copied out into memory that serves the next one again, unless the frame is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "receive/keep.h"
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"
#include "receive/tag.h"

enum { DEFAULT_BUFFER = 64 << 10 };

typedef struct stream {
    ready_stream base;
    bool started;    /* the file header is through */
    bool in_packet;  /* the header of a tag is through */
    uint32_t have;   /* bytes copied of the header or packet */
    uint32_t size;   /* of the payload */
    uint32_t room;   /* bytes of packet */
    uint8_t *packet; /* payload and trailer */
    uint8_t *buffer;
    uint64_t packets;
    uint8_t header[TAG_FILE_HEADER];
} stream;

static void header_is_whole(stream *s) {
    s->have = 0;
    if (!s->started) {
        tag_check_file_header(s->header);
        s->started = true;
        return;
    }
    s->size = tag_payload_size(s->header);
    s->in_packet = true;
    if (s->room >= s->size + TAG_TRAILER)
        return;
    free(s->packet);
    s->room = s->size + TAG_TRAILER;
    s->packet = malloc(s->room);
    if (!s->packet)
        fail(EXIT_FAILURE, "no memory for a packet");
}

static void packet_is_whole(stream *s) {
    if (keep_asked == KEEP_NOTHING) {
        meter_packet(s->packet, s->size, s->packets++);
        return;
    }
    keep_memory(s->packet, s->packet, s->size, s->packets++);
    s->packet = NULL;
    s->room = 0;
}

static void copy_out(stream *s, const uint8_t *from, size_t n) {
    while (n > 0) {
        uint32_t whole = s->in_packet ? s->size + TAG_TRAILER : s->started ? TAG_HEADER : TAG_FILE_HEADER;
        size_t part = whole - s->have < n ? whole - s->have : n;
        memcpy((s->in_packet ? s->packet : s->header) + s->have, from, part);
        s->have += (uint32_t)part;
        from += part;
        n -= part;
        if (s->have < whole)
            return;
        if (!s->in_packet) {
            header_is_whole(s);
            continue;
        }
        packet_is_whole(s);
        s->in_packet = false;
        s->have = 0;
    }
}

static void readable(ready_stream *base, const receive_options *options) {
    stream *s = (stream *)base;
    size_t size = options->buffer ? options->buffer : DEFAULT_BUFFER;
    size_t n = size;
    if (!s->buffer && !(s->buffer = malloc(size)))
        fail(EXIT_FAILURE, "no memory for a buffer");
    for (size_t budget = READY_BYTES; n == size && budget > 0; budget -= n < budget ? n : budget) {
        n = ready_read(base, s->buffer, size);
        copy_out(s, s->buffer, n);
        meter_received(n);
        if (the_meter.done)
            return;
    }
}

static void run(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(stream), readable});
}

const receive_variant read_buffer_variant = {"read-buffer", "batch buffer", true, run};
