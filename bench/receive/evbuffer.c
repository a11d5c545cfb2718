/* libevent: a bufferevent per connection; a packet is pulled up into one piece when it is whole,
 * then drained. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "receive/meter.h"
#include "receive/receive.h"
#include "receive/tag.h"
#include "receive/with_libevent.h"

typedef struct stream {
    bool started;    /* the file header is through */
    size_t need;     /* bytes below which libevent need not call */
    size_t buffered; /* bytes left in the buffer after the last call */
    uint64_t packets;
} stream;

/* The bytes that the input must hold for the next step; 0 when a step was taken. */
static size_t take_packet(stream *s, struct evbuffer *input) {
    size_t have = evbuffer_get_length(input);
    if (!s->started) {
        if (have < TAG_FILE_HEADER)
            return TAG_FILE_HEADER;
        tag_check_file_header(evbuffer_pullup(input, TAG_FILE_HEADER));
        evbuffer_drain(input, TAG_FILE_HEADER);
        s->started = true;
        return 0;
    }
    if (have < TAG_HEADER)
        return TAG_HEADER;
    uint32_t size = tag_payload_size(evbuffer_pullup(input, TAG_HEADER));
    size_t whole = TAG_HEADER + size + TAG_TRAILER;
    if (have < whole)
        return whole;
    const uint8_t *tag = evbuffer_pullup(input, (ev_ssize_t)whole);
    if (!tag)
        fail(EXIT_FAILURE, "no memory for a packet");
    meter_packet(tag + TAG_HEADER, size, s->packets++);
    evbuffer_drain(input, whole);
    return 0;
}

static void readable(struct bufferevent *event, void *context) {
    stream *s = context;
    struct evbuffer *input = bufferevent_get_input(event);
    size_t received = evbuffer_get_length(input) - s->buffered;
    size_t need;
    while ((need = take_packet(s, input)) == 0)
        continue;
    if (need != s->need)
        bufferevent_setwatermark(event, EV_READ, need, 0);
    s->need = need;
    s->buffered = evbuffer_get_length(input);
    meter_received(received);
    if (the_meter.done)
        with_libevent_stop();
}

static void prepare(struct bufferevent *event) {
    stream *s = calloc(1, sizeof *s);
    if (!s)
        fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
    bufferevent_setcb(event, readable, NULL, with_libevent_ended, s);
}

static void run(const receive_options *options) {
    (void)options;
    with_libevent_run(prepare);
}

const receive_variant evbuffer_variant = {"evbuffer", "", true, run};
