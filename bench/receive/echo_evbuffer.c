/* WebSocket echo on libevent's bufferevents. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include <stdlib.h>

#include "common/process.h"
#include "receive/echo.h"
#include "receive/meter.h"
#include "receive/receive.h"
#include "receive/with_libevent.h"

static void readable(struct bufferevent *event, void *context) {
    struct evbuffer *input = bufferevent_get_input(event), *output = bufferevent_get_output(event);
    uint8_t answer[ECHO_FRAME];
    (void)context;
    for (;;) {
        size_t have = evbuffer_get_length(input);
        if (have < ECHO_HEADER)
            return;
        size_t whole = ECHO_HEADER + echo_size(evbuffer_pullup(input, ECHO_HEADER));
        if (have < whole)
            return;
        const uint8_t *frame = evbuffer_pullup(input, (ev_ssize_t)whole);
        the_meter.packets++;
        if (!frame || evbuffer_add(output, answer, echo_answer(answer, frame, frame + ECHO_HEADER)) < 0)
            fail(EXIT_FAILURE, "no memory for a message");
        evbuffer_drain(input, whole);
    }
}

static void sent(struct evbuffer *output, const struct evbuffer_cb_info *info, void *context) {
    (void)output, (void)context;
    if (info->n_deleted == 0)
        return;
    meter_received(info->n_deleted);
    if (the_meter.done)
        with_libevent_stop();
}

static void prepare(struct bufferevent *event) {
    bufferevent_setcb(event, readable, NULL, with_libevent_ended, NULL);
    if (!evbuffer_add_cb(bufferevent_get_output(event), sent, NULL))
        fail(EXIT_FAILURE, "libevent: no memory");
}

static void run(const receive_options *options) {
    (void)options;
    with_libevent_run(prepare);
}

const receive_variant echo_evbuffer_variant = {"evbuffer", "", true, run};
