/* libevent: a bufferevent per connection; a packet is pulled up into one piece when it is whole, then drained. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/process.h"
#include "receive/listener.h"
#include "receive/meter.h"
#include "receive/ready.h"
#include "receive/receive.h"
#include "receive/tag.h"

typedef struct stream {
    bool started;    /* the file header is through */
    size_t need;     /* bytes below which libevent need not call */
    size_t buffered; /* bytes left in the buffer after the last call */
    uint64_t packets;
} stream;

static struct event_base *base;

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
        event_base_loopbreak(base);
}

static void ended(struct bufferevent *event, short what, void *context) {
    (void)event, (void)what, (void)context;
    fail(EXIT_FAILURE, "a stream has ended early");
}

static void accept_all(evutil_socket_t listener, short what, void *context) {
    int fd;
    (void)what, (void)context;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        stream *s = calloc(1, sizeof *s);
        struct bufferevent *event = bufferevent_socket_new(base, fd, 0);
        if (!s || !event || bufferevent_set_max_single_read(event, READY_BYTES) < 0)
            fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
        bufferevent_setcb(event, readable, NULL, ended, s);
        bufferevent_enable(event, EV_READ);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        fail(EXIT_FAILURE, "accept: %s", strerror(errno));
}

static void run(const receive_options *options) {
    (void)options;
    base = event_base_new();
    if (!base)
        fail(EXIT_FAILURE, "libevent: no base");
    int fd = listener_open();
    struct event *listener = event_new(base, fd, EV_READ | EV_PERSIST, accept_all, NULL);
    if (!listener || event_add(listener, NULL) < 0)
        fail(EXIT_FAILURE, "libevent: no listener");
    event_base_dispatch(base);
}

const receive_variant evbuffer_variant = {"evbuffer", "", true, run};
