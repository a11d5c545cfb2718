/* Ours: blocks, chain, framer, slices, on either backend. */
#include <sluice/conn.h>
#include <sluice/flv.h>

#include <errno.h>
#include <stdlib.h>

#include "common/process.h"
#include "receive/meter.h"
#include "receive/on_loop.h"
#include "receive/receive.h"

typedef struct stream {
    sluice_flv *flv;
    uint64_t packets;
    uint64_t consumed; /* of the chain, when it was last looked at */
} stream;

static void take(stream *s, const sluice_flv_tag *tag) {
    struct iovec piece;
    uint8_t straddling[CHECKSUM_BYTES];
    if (tag->size < CHECKSUM_BYTES)
        fail(EXIT_FAILURE, "a tag of %u bytes", tag->size);
    sluice_slice_iov(&tag->payload, 0, &piece, 1);
    const uint8_t *first = piece.iov_base;
    if (piece.iov_len < CHECKSUM_BYTES) {
        sluice_slice_copy(&tag->payload, 0, straddling, sizeof straddling);
        first = straddling;
    }
    meter_packet(first, tag->size, s->packets++);
}

static void on_data(sluice_conn *conn, void *user) {
    stream *s = user;
    sluice_chain *chain = sluice_conn_chain(conn);
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(s->flv, chain, &tag)) > 0)
        take(s, tag);
    on_loop_check("FLV", result);
    sluice_conn_set_need(conn, sluice_flv_need(s->flv));
    uint64_t consumed = sluice_chain_consumed(chain);
    meter_received(consumed - s->consumed);
    s->consumed = consumed;
    if (the_meter.done)
        on_loop_stop();
}

static void on_closed(sluice_conn *conn, void *user) {
    stream *s = user;
    (void)conn;
    sluice_flv_free(s->flv);
    free(s);
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_loop_ended, .on_closed = on_closed};

static void accepted(sluice_loop *loop, int fd) {
    stream *s = calloc(1, sizeof *s);
    sluice_conn *conn;
    on_loop_check("memory", s ? 0 : -ENOMEM);
    on_loop_check("framer", sluice_flv_new(0, &s->flv));
    on_loop_check("connection", sluice_conn_new(loop, fd, &events, s, &conn));
}

static void run_uring(const receive_options *options) {
    on_loop_run(SLUICE_BACKEND_URING, options, accepted);
}

static void run_epoll(const receive_options *options) {
    on_loop_run(SLUICE_BACKEND_EPOLL, options, accepted);
}

const receive_variant uring_variant = {"uring", "batch block blocks stock plain small-pages", true, run_uring};
const receive_variant epoll_pool_variant = {"epoll-pool", "batch block blocks plain small-pages", true, run_epoll};
