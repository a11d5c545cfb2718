/*
 * No buffer: the header of a tag is read, then memory for its payload allocated and that read. What
 * a program does that gives each packet memory of its own and thinks no further.
 */
#include <stdlib.h>

#include "common/process.h"
#include "receive/keep.h"
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"
#include "receive/tag.h"

typedef struct stream {
    ready_stream base;
    bool started;    /* the file header is through */
    uint32_t have;   /* bytes of the part that is being read */
    uint32_t size;   /* of the payload that is being read */
    uint8_t *packet; /* its memory, with room for the trailer; NULL while a header is read */
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
    s->packet = malloc(s->size + TAG_TRAILER);
    if (!s->packet)
        fail(EXIT_FAILURE, "no memory for a packet");
}

static void packet_is_whole(stream *s) {
    if (keep_asked != KEEP_NOTHING) {
        keep_memory(s->packet, s->packet, s->size, s->packets++);
    } else {
        meter_packet(s->packet, s->size, s->packets++);
        free(s->packet);
    }
    s->packet = NULL;
    s->have = 0;
}

static void readable(ready_stream *base, const receive_options *options) {
    stream *s = (stream *)base;
    (void)options;
    for (size_t budget = READY_BYTES; budget > 0 && !the_meter.done;) {
        uint32_t whole = s->packet ? s->size + TAG_TRAILER : s->started ? TAG_HEADER : TAG_FILE_HEADER;
        size_t n = ready_read(base, (s->packet ? s->packet : s->header) + s->have, whole - s->have);
        s->have += (uint32_t)n;
        bool complete = s->have == whole;
        if (complete && s->packet)
            packet_is_whole(s);
        else if (complete)
            header_is_whole(s);
        if (n > 0)
            meter_received(n);
        if (!complete)
            return;
        budget -= n < budget ? n : budget;
    }
}

static void run(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(stream), readable});
}

const receive_variant read_malloc_variant = {"read-malloc", "batch", true, run};
