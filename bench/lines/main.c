/* The daemon's receive path without sockets: see --help. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/loop.h>

#include "common/process.h"
#include "daemon/relay/registry.h"
#include "lines/media.h"
#include "lines/settings.h"
#include "memory/chain.h"
#include "memory/pool.h"

enum {
    /* as the daemon's */
    BLOCK = 4096,
    STOCK = 128, /* blocks that the kernel has */
    POOL_BYTES = 448 << 20,
    PACKET_BYTES = 64 << 20,
    SLAB = 4 << 20,
    GROUP_BYTES = 8 << 20,
};

struct publisher {
    sluice_chain chain;
    sluice_flv *flv;
    struct stream *stream;
    struct media media;
};

struct load {
    sluice_pool *pool;
    sluice_loop *loop;
    struct registry *registry;
    struct publisher *publishers;
    uint64_t count;
    sluice_block *stock[STOCK]; /* first in, first out, as a ring of provided buffers is */
    uint32_t next;
    uint64_t frames;
    uint8_t bytes[MEDIA_TAG + sizeof(uint64_t)];
};

enum { START_MS = 1000 };

/* The time of the load, in place of the loop's; milliseconds. */
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);
static uint64_t load_now = START_MS;

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return load_now;
}

static void check(const char *what, int result) {
    if (result < 0)
        fail(EXIT_FAILURE, "%s: %s", what, strerror(-result));
}

/* What the kernel does, by itself: it is left out of the counts. Whole words: blocks have room. */
static __attribute__((noinline)) void kernel_copy(uint8_t *to, const uint8_t *from, size_t n) {
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, from + i, sizeof word);
        *(volatile uint64_t *)(void *)(to + i) = word;
    }
}

static void restock(struct load *load, uint32_t slot) {
    sluice_block *block = pool_take(load->pool);
    check("blocks", block ? 0 : -ENOBUFS);
    pool_to_kernel(load->pool, block);
    load->stock[slot] = block;
}

/* One arrival: a completion for so many blocks of the stock as it needs. */
static void receive(struct load *load, sluice_chain *chain, size_t n) {
    const uint8_t *from = load->bytes;
    while (n > 0) {
        uint32_t slot = load->next++ % STOCK;
        sluice_block *block = load->stock[slot];
        size_t here = n < BLOCK ? n : BLOCK;
        kernel_copy(block->data, from, here);
        pool_from_kernel(load->pool, block);
        block->length = (uint32_t)here;
        sluice_chain_append(chain, block);
        restock(load, slot);
        from += here;
        n -= here;
    }
}

static void publish(struct publisher *publisher) {
    sluice_flv_tag *tag;
    int result;
    while ((result = sluice_flv_next(publisher->flv, &publisher->chain, &tag)) > 0)
        check("publishing", stream_publish(publisher->stream, tag, sluice_flv_flags(publisher->flv)));
    check("framer", result);
}

static void send_frame(struct load *load, struct publisher *publisher, bool is_video) {
    size_t n = media_write(&publisher->media, is_video, load->bytes);
    receive(load, &publisher->chain, n);
    publish(publisher);
    load->frames++;
}

/* A millisecond of the load: what is sent in it, of each publisher. */
static void tick(struct load *load) {
    for (uint64_t i = 0; i < load->count; i++) {
        struct publisher *publisher = &load->publishers[i];
        if (media_is_due(&publisher->media, true, load_now - START_MS))
            send_frame(load, publisher, true);
        if (media_is_due(&publisher->media, false, load_now - START_MS))
            send_frame(load, publisher, false);
    }
    load_now++;
}

static void open_publisher(struct load *load, struct publisher *publisher, uint64_t index) {
    static const struct stream_source source = {.peer = "bench", .protocol = "bench"};
    char name[32];
    int length = snprintf(name, sizeof name, "live/%" PRIu64, index);
    chain_init(&publisher->chain, load->pool);
    check("framer", sluice_flv_new(0, &publisher->flv));
    check("stream", registry_get(load->registry, name, (size_t)length, 1, &publisher->stream));
    check("stream", stream_attach(publisher->stream, &source));
    publisher->media = media_of(index, load->count);
    sluice_flv_write_header(load->bytes, SLUICE_FLV_HAS_VIDEO | SLUICE_FLV_HAS_AUDIO);
    receive(load, &publisher->chain, SLUICE_FLV_HEADER_SIZE);
    publish(publisher);
}

static void open_all(struct load *load, uint64_t group_bytes) {
    const sluice_pool_options blocks = {
        .size = sizeof blocks, .block_size = BLOCK, .slab_blocks = SLAB / BLOCK, .max_blocks = POOL_BYTES / BLOCK};
    const sluice_loop_options options = {.size = sizeof options, .backend = SLUICE_BACKEND_EPOLL};
    static struct stream_policies policies;
    policies.all = (struct stream_policy){.jump_ms = 3000,
                                          .gop_size = group_bytes,
                                          .player_buffer = GROUP_BYTES,
                                          .frame_limit = GROUP_BYTES,
                                          .wait_ms = 1000,
                                          .idle_ms = 1000};
    const struct stream_limits limits = {.packet_bytes = PACKET_BYTES, .policies = &policies};
    check("pool", sluice_pool_new(&blocks, &load->pool));
    check("loop", sluice_loop_new(load->pool, &options, &load->loop));
    check("registry", registry_new(load->loop, &limits, &load->registry));
    load->publishers = calloc(load->count, sizeof *load->publishers);
    check("memory", load->publishers ? 0 : -ENOMEM);
    for (uint32_t slot = 0; slot < STOCK; slot++)
        restock(load, slot);
    for (uint64_t i = 0; i < load->count; i++)
        open_publisher(load, &load->publishers[i], i);
}

static void close_all(struct load *load) {
    for (uint64_t i = 0; i < load->count; i++) {
        struct publisher *publisher = &load->publishers[i];
        stream_detach(publisher->stream, load_now);
        stream_unref(publisher->stream);
        sluice_flv_free(publisher->flv);
        chain_clear(&publisher->chain);
    }
    for (uint32_t slot = 0; slot < STOCK; slot++) {
        pool_from_kernel(load->pool, load->stock[slot]);
        sluice_block_release(load->stock[slot]);
    }
    free(load->publishers);
    registry_free(load->registry);
    sluice_loop_free(load->loop);
    sluice_pool_free(load->pool);
}

static const char usage[] =
    "Usage: bench-lines [--publishers N] [--ms N] [--no-cache]\n"
    "\n"
    "Publishes real streams (1.04 Mbit/s, 25 video and 43 audio frames a second, a key frame every 2 s) to the\n"
    "daemon's relay, without sockets, for so many milliseconds of their time after 4.1 s, in which the caches\n"
    "fill. Prints the frames of all of it. For cachegrind: see tools/perf-compare --lines.\n"
    "  --publishers N  100\n"
    "  --ms N          2000\n"
    "  --no-cache      keep no groups of pictures\n";

int main(int argc, char **argv) {
    const struct settings settings = settings_read(argc, argv, 10000, usage);
    static struct load load;
    load.count = settings.publishers;
    open_all(&load, settings.cache ? GROUP_BYTES : 0);
    for (uint64_t i = 0; i < FILLING_MS + settings.milliseconds; i++)
        tick(&load);
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(load.pool, &stats);
    uint64_t lost = 0;
    for (uint64_t i = 0; i < load.count; i++)
        lost += load.publishers[i].stream->frames_dropped;
    printf("result {\"frames\": %" PRIu64 ", \"lost\": %" PRIu64 "}\n", load.frames, lost);
    close_all(&load);
    return lost > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
