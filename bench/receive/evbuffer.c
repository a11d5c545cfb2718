/* libevent's buffer: up to 64 KiB are read into it at a time (a bufferevent of libevent 2.1 reads
 * 4 KiB). The beginning of a packet is pulled up into one piece, and the whole packet drained. A
 * frame that is kept is moved to a buffer of its own: libevent copies of it what shares memory with
 * other frames. */
#include <event2/buffer.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "receive/keep.h"
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"
#include "receive/tag.h"

enum { PIECES = 2 };

typedef struct stream {
    ready_stream base;
    bool started; /* the file header is through */
    struct evbuffer *input;
    uint64_t packets;
} stream;

static const uint8_t *look(kept_frame *frame, uint8_t room[CHECKSUM_BYTES]) {
    (void)room;
    return evbuffer_pullup(frame->of.buffer, TAG_HEADER + CHECKSUM_BYTES) + TAG_HEADER;
}

static void release(kept_frame *frame) {
    evbuffer_free(frame->of.buffer);
}

static void keep_whole(stream *s, size_t whole, uint32_t size) {
    kept_frame frame = {.of.buffer = evbuffer_new(), .size = size, .index = s->packets++};
    if (!frame.of.buffer || evbuffer_remove_buffer(s->input, frame.of.buffer, whole) != (int)whole)
        fail(EXIT_FAILURE, "no memory for a frame");
    keep_frame(&frame);
}

/* @return false: the input does not contain the next packet */
static bool take_packet(stream *s) {
    size_t have = evbuffer_get_length(s->input);
    if (!s->started) {
        if (have < TAG_FILE_HEADER)
            return false;
        tag_check_file_header(evbuffer_pullup(s->input, TAG_FILE_HEADER));
        evbuffer_drain(s->input, TAG_FILE_HEADER);
        s->started = true;
        return true;
    }
    if (have < TAG_HEADER + CHECKSUM_BYTES)
        return false;
    const uint8_t *tag = evbuffer_pullup(s->input, TAG_HEADER + CHECKSUM_BYTES);
    if (!tag)
        fail(EXIT_FAILURE, "no memory for a packet");
    uint32_t size = tag_payload_size(tag);
    size_t whole = TAG_HEADER + size + TAG_TRAILER;
    if (have < whole)
        return false;
    if (keep_asked == KEEP_NOTHING) {
        meter_packet(tag + TAG_HEADER, size, s->packets++);
        evbuffer_drain(s->input, whole);
    } else {
        keep_whole(s, whole, size);
    }
    return true;
}

static size_t read_some(stream *s) {
    struct evbuffer_iovec room[PIECES];
    int count = evbuffer_reserve_space(s->input, READY_BYTES, room, PIECES);
    if (count < 0)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    struct iovec pieces[PIECES];
    size_t budget = READY_BYTES;
    for (int i = 0; i < count; i++) {
        size_t part = room[i].iov_len < budget ? room[i].iov_len : budget;
        pieces[i] = (struct iovec){room[i].iov_base, part};
        budget -= part;
    }
    size_t n = ready_read_pieces(&s->base, pieces, count), left = n;
    for (int i = 0; i < count; i++) {
        room[i].iov_len = left < pieces[i].iov_len ? left : pieces[i].iov_len;
        left -= room[i].iov_len;
    }
    if (evbuffer_commit_space(s->input, room, count) < 0)
        fail(EXIT_FAILURE, "libevent: bytes are not taken over");
    return n;
}

static void readable(ready_stream *base, const receive_options *options) {
    stream *s = (stream *)base;
    (void)options;
    if (!s->input && !(s->input = evbuffer_new()))
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    size_t n = read_some(s);
    while (take_packet(s))
        continue;
    if (n > 0)
        meter_received(n);
}

static void run(const receive_options *options) {
    if (keep_asked != KEEP_NOTHING)
        keep_begin(&(keep_kind){look, release});
    ready_run(options, &(ready_handler){sizeof(stream), readable});
}

const receive_variant evbuffer_variant = {"evbuffer", "batch", true, run};
