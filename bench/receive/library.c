/* Ours: blocks, chain, framer, slices, on either backend. */
#include <sluice/conn.h>
#include <sluice/flv.h>

#include <errno.h>
#include <stdlib.h>

#include "common/process.h"
#include "receive/keep.h"
#include "receive/meter.h"
#include "receive/on_loop.h"
#include "receive/receive.h"

enum { DEFAULT_BLOCK = 4096 }; /* of a pool */

typedef struct stream {
    sluice_flv *flv;
    uint64_t packets;
    uint64_t consumed; /* of the chain, when it was last looked at */
} stream;

/* The beginning of a payload, where it is or copied to room. */
static const uint8_t *first_of(const sluice_slice *payload, uint8_t room[CHECKSUM_BYTES]) {
    struct iovec piece;
    sluice_slice_iov(payload, 0, &piece, 1);
    if (piece.iov_len >= CHECKSUM_BYTES)
        return piece.iov_base;
    sluice_slice_copy(payload, 0, room, CHECKSUM_BYTES);
    return room;
}

static const uint8_t *look(kept_frame *frame, uint8_t room[CHECKSUM_BYTES]) {
    return first_of(&frame->of.slice, room);
}

static void release(kept_frame *frame) {
    sluice_slice_release(&frame->of.slice);
}

/* By reference. If the pool has only its reserve left, older frames go first. */
static void keep(stream *s, sluice_flv_tag *tag) {
    kept_frame frame = {.size = tag->size, .index = s->packets++};
    int result;
    while ((result = sluice_slice_take(&tag->payload, &frame.of.slice)) == -ENOBUFS)
        keep_less();
    on_loop_check("a reference", result);
    keep_frame(&frame);
}

static void take(stream *s, sluice_flv_tag *tag) {
    uint8_t room[CHECKSUM_BYTES];
    if (tag->size < CHECKSUM_BYTES)
        fail(EXIT_FAILURE, "a tag of %u bytes", tag->size);
    if (keep_asked != KEEP_NOTHING)
        keep(s, tag);
    else
        meter_packet(first_of(&tag->payload, room), tag->size, s->packets++);
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

static void run_on(sluice_backend_choice backend, const receive_options *options) {
    receive_options own = *options;
    if (keep_asked != KEEP_NOTHING) {
        keep_begin(&(keep_kind){look, release});
        if (!own.max_blocks)
            own.max_blocks = KEEP_POOL_BYTES / (own.block_size ? own.block_size : DEFAULT_BLOCK);
    }
    on_loop_run(backend, &own, accepted);
}

static void run_uring(const receive_options *options) {
    run_on(SLUICE_BACKEND_URING, options);
}

static void run_epoll(const receive_options *options) {
    run_on(SLUICE_BACKEND_EPOLL, options);
}

const receive_variant uring_variant = {"uring", "batch block blocks stock plain small-pages", true, run_uring};
const receive_variant epoll_pool_variant = {"epoll-pool", "batch block blocks plain small-pages", true, run_epoll};
