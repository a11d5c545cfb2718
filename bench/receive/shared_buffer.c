/*
 * One buffer for all connections: packets are parsed in place in it. Only a packet that is split
 * over two reads is put together in memory of its connection, and what is missing of a large one
 * is read directly into that. A frame that is kept is copied out; if it was split, it stays where
 * it was put together.
 */
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "receive/keep.h"
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"
#include "receive/tag.h"

enum {
    /* Missing bytes from which a second piece of a read costs less than a copy of them. */
    WORTH_A_PIECE = 4 << 10,
};

typedef struct stream {
    ready_stream base;
    bool started;   /* the file header is through */
    uint32_t have;  /* bytes in split; 0: the next read begins with a header */
    uint32_t whole; /* bytes of the unit in split; 0 while its header is incomplete */
    uint32_t room;  /* bytes of split */
    uint8_t *split; /* the unit of which a read contained a part only; its memory is used again */
    uint64_t packets;
} stream;

static uint32_t header_size(const stream *s) {
    return s->started ? TAG_HEADER : TAG_FILE_HEADER;
}

/* The size of what begins with a header: the file header, or a tag with its trailer. */
static uint32_t unit_size(const stream *s, const uint8_t *header) {
    return s->started ? TAG_HEADER + tag_payload_size(header) + TAG_TRAILER : TAG_FILE_HEADER;
}

static void unit_is_whole(stream *s, const uint8_t *unit, uint32_t whole) {
    const uint8_t *payload = unit + TAG_HEADER;
    uint32_t size = whole - TAG_HEADER - TAG_TRAILER;
    if (s->started && keep_asked == KEEP_NOTHING) {
        meter_packet(payload, size, s->packets++);
        return;
    }
    if (s->started && unit == s->split) {
        keep_memory(s->split, payload, size, s->packets++);
        s->split = NULL;
        s->room = 0;
        return;
    }
    if (s->started) {
        keep_copy(payload, size, s->packets++);
        return;
    }
    tag_check_file_header(unit);
    s->started = true;
}

static void make_room(stream *s, uint32_t size) {
    if (s->room >= size)
        return;
    s->room = size;
    s->split = realloc(s->split, size);
    if (!s->split)
        fail(EXIT_FAILURE, "no memory for a packet");
}

/* The whole units at the beginning of what was read. @return their bytes */
static size_t take_in_place(stream *s, const uint8_t *bytes, size_t size) {
    size_t taken = 0;
    while (size - taken >= header_size(s)) {
        uint32_t whole = unit_size(s, bytes + taken);
        if (whole > size - taken) {
            s->whole = whole;
            break;
        }
        unit_is_whole(s, bytes + taken, whole);
        taken += whole;
    }
    return taken;
}

static void split_is_whole(stream *s) {
    unit_is_whole(s, s->split, s->whole);
    s->have = 0;
    s->whole = 0;
}

/* Adds to the split unit. @return bytes taken of those; the unit is through if any are left */
static size_t complete_split(stream *s, const uint8_t *bytes, size_t size) {
    size_t taken = 0;
    while (s->have > 0 && taken < size) {
        uint32_t needed = (s->whole ? s->whole : header_size(s)) - s->have;
        size_t part = needed < size - taken ? needed : size - taken;
        memcpy(s->split + s->have, bytes + taken, part);
        s->have += (uint32_t)part;
        taken += part;
        if (part < needed)
            break;
        if (!s->whole)
            make_room(s, s->whole = unit_size(s, s->split));
        if (s->have == s->whole)
            split_is_whole(s);
    }
    return taken;
}

static void take(stream *s, const uint8_t *bytes, size_t size) {
    size_t taken = complete_split(s, bytes, size);
    taken += take_in_place(s, bytes + taken, size - taken);
    if (taken == size)
        return;
    s->have = (uint32_t)(size - taken);
    make_room(s, s->whole ? s->whole : TAG_FILE_HEADER);
    memcpy(s->split, bytes + taken, s->have);
}

static void readable(ready_stream *base, const receive_options *options) {
    static uint8_t buffer[READY_BYTES];
    stream *s = (stream *)base;
    size_t missing = s->whole ? s->whole - s->have : 0, n;
    (void)options;
    if (missing < WORTH_A_PIECE) {
        n = ready_read(base, buffer, sizeof buffer);
        take(s, buffer, n);
    } else {
        if (missing > sizeof buffer)
            missing = sizeof buffer;
        const struct iovec pieces[] = {{s->split + s->have, missing}, {buffer, sizeof buffer - missing}};
        n = ready_read_pieces(base, pieces, 2);
        size_t direct = n < missing ? n : missing;
        s->have += (uint32_t)direct;
        if (s->have == s->whole)
            split_is_whole(s);
        take(s, buffer, n - direct);
    }
    if (n > 0)
        meter_received(n);
}

static void run(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(stream), readable});
}

const receive_variant shared_buffer_variant = {"shared-buffer", "batch", true, run};
