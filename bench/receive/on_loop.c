#include "receive/on_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "receive/listener.h"
#include "receive/meter.h"

static sluice_pool *pool;
static sluice_loop *loop;
static void (*take_accepted)(sluice_loop *loop, int fd);

void on_loop_check(const char *what, int error) {
    if (error < 0)
        fail(error == -EPERM || error == -ENOSYS ? EXIT_REFUSED : EXIT_FAILURE, "%s: %s", what, strerror(-error));
}

void on_loop_ended(sluice_conn *conn, int error, void *user) {
    (void)conn, (void)user;
    if (!the_meter.done)
        fail(EXIT_FAILURE, "a stream has ended early: %s", strerror(-error));
}

void on_loop_stop(void) {
    sluice_loop_stop(loop);
}

static void on_accept(sluice_listener *listener, int fd, void *user) {
    (void)listener, (void)user;
    take_accepted(loop, fd);
}

static void listen_anywhere(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage bound;
    sluice_listener *listener;
    on_loop_check("listening",
                  sluice_listener_new(loop, (struct sockaddr *)&address, sizeof address, on_accept, NULL, &listener));
    on_loop_check("listening", sluice_listener_address(listener, &bound));
    listener_announce(ntohs(((struct sockaddr_in *)&bound)->sin_port));
}

static void print_detail(void) {
    sluice_loop_stats did = {.size = sizeof did};
    sluice_pool_stats has = {.size = sizeof has};
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

void on_loop_run(sluice_backend_choice backend, const receive_options *options,
                 void (*accepted)(sluice_loop *loop, int fd)) {
    take_accepted = accepted;
    sluice_pool_options pool_options = {
        .size = sizeof pool_options,
        .block_size = options->block_size,
        .max_blocks = options->max_blocks,
        .no_huge_pages = options->small_pages,
    };
    sluice_loop_options loop_options = {
        .size = sizeof loop_options,
        .batch_us = options->batch_us,
        .stock_bytes = options->stock_bytes,
        .no_low_water = options->plain,
        .backend = backend,
    };
    on_loop_check("pool", sluice_pool_new(&pool_options, &pool));
    on_loop_check("loop", sluice_loop_new(pool, &loop_options, &loop));
    listen_anywhere();
    on_loop_check("loop", sluice_loop_run(loop));
    print_detail();
}
