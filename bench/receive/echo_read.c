/*
 * WebSocket echo on read(2) and write(2): without a buffer, a read of each header and each payload;
 * with one, as many messages as a read brings; and with a second one, in which the answers of a
 * read are gathered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process.h"
#include "receive/echo.h"
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"

enum { BUFFER = 4 << 10 };

typedef struct stream {
    ready_stream base;
    size_t have; /* bytes of the frame, or of the buffer */
    uint8_t bytes[BUFFER];
} stream;

static void answer(const stream *s, const uint8_t *bytes, size_t size) {
    if (write(s->base.fd, bytes, size) != (ssize_t)size)
        fail(EXIT_FAILURE, "write: %s", strerror(errno));
    meter_received(size);
}

/* True when so many bytes of the frame are there. */
static bool read_up_to(stream *s, size_t whole) {
    if (s->have < whole)
        s->have += ready_read(&s->base, s->bytes + s->have, whole - s->have);
    return s->have == whole;
}

static void without_buffer(ready_stream *base, const receive_options *options) {
    stream *s = (stream *)base;
    uint8_t frame[ECHO_FRAME];
    (void)options;
    for (size_t budget = READY_BYTES; budget > ECHO_FRAME && !the_meter.done; budget -= ECHO_FRAME) {
        if (s->have < ECHO_HEADER && !read_up_to(s, ECHO_HEADER))
            return;
        if (!read_up_to(s, ECHO_HEADER + echo_size(s->bytes)))
            return;
        s->have = 0;
        the_meter.packets++;
        answer(s, frame, echo_answer(frame, s->bytes, s->bytes + ECHO_HEADER));
    }
}

/* The frames of the buffer. What they leave moves to its beginning. */
static void take_frames(stream *s, uint8_t *answers, bool gather) {
    size_t at = 0, size = 0;
    while (s->have - at >= ECHO_HEADER) {
        const uint8_t *frame = s->bytes + at;
        size_t whole = ECHO_HEADER + echo_size(frame);
        if (s->have - at < whole)
            break;
        at += whole;
        the_meter.packets++;
        size += echo_answer(answers + size, frame, frame + ECHO_HEADER);
        if (gather)
            continue;
        answer(s, answers, size);
        size = 0;
    }
    s->have -= at;
    memmove(s->bytes, s->bytes + at, s->have);
    if (size > 0)
        answer(s, answers, size);
}

static void with_buffer(ready_stream *base, bool gather) {
    stream *s = (stream *)base;
    uint8_t answers[BUFFER + ECHO_FRAME]; /* an answer is shorter than what it answers */
    size_t n = 1, room = 1;
    for (size_t budget = READY_BYTES; n == room && budget >= BUFFER && !the_meter.done; budget -= BUFFER) {
        room = BUFFER - s->have;
        n = ready_read(base, s->bytes + s->have, room);
        s->have += n;
        take_frames(s, answers, gather);
    }
}

static void with_read_buffer(ready_stream *base, const receive_options *options) {
    (void)options;
    with_buffer(base, false);
}

static void with_both_buffers(ready_stream *base, const receive_options *options) {
    (void)options;
    with_buffer(base, true);
}

static void run_without(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(stream), without_buffer});
}

static void run_read(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(stream), with_read_buffer});
}

static void run_both(const receive_options *options) {
    ready_run(options, &(ready_handler){sizeof(stream), with_both_buffers});
}

const receive_variant echo_read_write_variant = {"read-write", "batch", true, run_without};
const receive_variant echo_read_buffer_variant = {"read-buffer", "batch", true, run_read};
const receive_variant echo_both_buffer_variant = {"both-buffer", "batch", true, run_both};
