/* WebSocket echo with ours, on either backend: the framer's messages, and a writer that sends once
 * a turn. */
#include <sluice/conn.h>
#include <sluice/websocket.h>
#include <sluice/writer.h>

#include <errno.h>
#include <stdlib.h>

#include "common/process.h"
#include "receive/meter.h"
#include "receive/on_loop.h"
#include "receive/receive.h"

enum { MOST_QUEUED = 1 << 20, SHORT = SLUICE_WEBSOCKET_MAX_CONTROL };

typedef struct stream {
    sluice_websocket *websocket;
    sluice_writer *writer;
} stream;

/* Short messages are written behind their header: a piece of its own would cost a send more than
 * its bytes do. */
static void answer(stream *s, const sluice_websocket_message *message) {
    uint8_t frame[SLUICE_WEBSOCKET_MAX_HEADER + SHORT];
    size_t size = sluice_slice_length(&message->payload);
    int header = sluice_websocket_write_header(frame, message->opcode, true, size, NULL);
    on_loop_check("header", header);
    the_meter.packets++;
    if (size <= SHORT) {
        sluice_slice_copy(&message->payload, 0, frame + header, size);
        on_loop_check("writer", sluice_writer_copy(s->writer, frame, (size_t)header + size));
        return;
    }
    on_loop_check("writer", sluice_writer_copy(s->writer, frame, (size_t)header));
    on_loop_check("writer", sluice_writer_slice(s->writer, &message->payload));
}

static void on_data(sluice_conn *conn, void *user) {
    stream *s = user;
    sluice_websocket_message *message;
    int result;
    while ((result = sluice_websocket_next(s->websocket, sluice_conn_chain(conn), &message)) > 0)
        answer(s, message);
    on_loop_check("WebSocket", result);
    sluice_conn_set_need(conn, sluice_websocket_need(s->websocket));
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const stream *s = user;
    (void)conn;
    return sluice_writer_gather(s->writer, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    const stream *s = user;
    (void)conn;
    sluice_writer_sent(s->writer, bytes);
    meter_received(bytes);
    if (the_meter.done)
        on_loop_stop();
}

static void on_closed(sluice_conn *conn, void *user) {
    stream *s = user;
    (void)conn;
    sluice_writer_free(s->writer);
    sluice_websocket_free(s->websocket);
    free(s);
}

static const sluice_conn_events events = {.size = sizeof events,
                                          .on_data = on_data,
                                          .on_end = on_loop_ended,
                                          .on_gather = on_gather,
                                          .on_sent = on_sent,
                                          .on_closed = on_closed};

static void accepted(sluice_loop *loop, int fd) {
    stream *s = calloc(1, sizeof *s);
    sluice_conn *conn;
    on_loop_check("memory", s ? 0 : -ENOMEM);
    on_loop_check("framer", sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, NULL, &s->websocket));
    on_loop_check("connection", sluice_conn_new(loop, fd, &events, s, &conn));
    on_loop_check("writer", sluice_writer_new(conn, MOST_QUEUED, &s->writer));
}

static void run_uring(const receive_options *options) {
    on_loop_run(SLUICE_BACKEND_URING, options, accepted);
}

static void run_epoll(const receive_options *options) {
    on_loop_run(SLUICE_BACKEND_EPOLL, options, accepted);
}

const receive_variant echo_uring_variant = {"uring", "batch block blocks stock", true, run_uring};
const receive_variant echo_epoll_pool_variant = {"epoll-pool", "batch block blocks", true, run_epoll};
