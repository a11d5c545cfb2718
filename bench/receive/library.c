/* Ours: blocks, chain, framer, slices, on either backend. */
#include <sluice/conn.h>
#include <sluice/flv.h>
#include <sluice/loop.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "receive/listener.h"
#include "receive/meter.h"
#include "receive/receive.h"

typedef struct stream {
    sluice_flv *flv;
    uint64_t packets;
    uint64_t consumed; /* of the chain, when it was last looked at */
} stream;

static sluice_pool *pool;
static sluice_loop *loop;

static void check(const char *what, int error) {
    if (error < 0)
        fail(error == -EPERM || error == -ENOSYS ? EXIT_REFUSED : EXIT_FAILURE, "%s: %s", what, strerror(-error));
}

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
    check("FLV", result);
    sluice_conn_set_need(conn, sluice_flv_need(s->flv));
    uint64_t consumed = sluice_chain_consumed(chain);
    meter_received(consumed - s->consumed);
    s->consumed = consumed;
    if (the_meter.done)
        sluice_loop_stop(loop);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    (void)conn, (void)user;
    if (!the_meter.done)
        fail(EXIT_FAILURE, "a stream has ended early: %s", strerror(-error));
}

static void on_closed(sluice_conn *conn, void *user) {
    stream *s = user;
    (void)conn;
    sluice_flv_free(s->flv);
    free(s);
}

static const sluice_conn_events events = {.on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void accepted(sluice_listener *listener, int fd, void *user) {
    (void)listener, (void)user;
    stream *s = calloc(1, sizeof *s);
    sluice_conn *conn;
    check("memory", s ? 0 : -ENOMEM);
    check("framer", sluice_flv_new(0, &s->flv));
    check("connection", sluice_conn_new(loop, fd, &events, s, &conn));
}

static void listen_anywhere(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    check("listening",
          sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, accepted, NULL, &listener));
    check("listening", sluice_listener_address(listener, &bound));
    listener_announce(ntohs(((struct sockaddr_in *)&bound)->sin_port));
}

static void print_detail(void) {
    sluice_loop_stats did;
    sluice_pool_stats has;
    sluice_loop_get_stats(loop, &did);
    sluice_pool_get_stats(pool, &has);
    printf("detail {\"backend\": \"%s\", \"features\": \"%s\", \"turns\": %" PRIu64 ", \"enters\": %" PRIu64
           ", \"completions\": %" PRIu64 ", \"starved\": %" PRIu64 ", \"aimed\": %" PRIu64 ", \"overflows\": %" PRIu64
           ", ",
           did.backend, did.features, did.turns, did.enters, did.completions, did.starved, did.aimed, did.overflows);
    printf("\"block_size\": %" PRIu32 ", \"peak_held\": %" PRIu32 ", \"blocks\": %" PRIu32
           ", \"bytes_copied\": %" PRIu64 "}\n",
           has.block_size, has.peak_held, has.total, has.bytes_copied);
}

static void run_on(sluice_backend_choice backend, const receive_options *options) {
    sluice_pool_options pool_options = {.block_size = options->block_size, .max_blocks = options->max_blocks};
    sluice_loop_options loop_options = {
        .batch_us = options->batch_us,
        .stock_bytes = options->stock_bytes,
        .no_low_water = options->plain,
        .backend = backend,
    };
    check("pool", sluice_pool_new(&pool_options, &pool));
    check("loop", sluice_loop_new(pool, &loop_options, &loop));
    listen_anywhere();
    check("loop", sluice_loop_run(loop));
    print_detail();
}

static void run_uring(const receive_options *options) {
    run_on(SLUICE_BACKEND_URING, options);
}

static void run_epoll(const receive_options *options) {
    run_on(SLUICE_BACKEND_EPOLL, options);
}

const receive_variant uring_variant = {"uring", "batch block blocks stock plain", true, run_uring};
const receive_variant epoll_pool_variant = {"epoll-pool", "batch block blocks plain", true, run_epoll};
