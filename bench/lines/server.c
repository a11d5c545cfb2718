/* The daemon's data plane on the simulated kernel of the tests: see --help. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/options.h"
#include "daemon/protocols/http/http_session.h"
#include "daemon/relay/registry.h"
#include "daemon/server/server.h"
#include "lines/media.h"
#include "lines/settings.h"
#include "sim/kernel.h"
#include "sim/ring.h"
#include "sim/world.h"

enum {
    PORT = 8080,
    SEED = 1, /* the first one from here on with a kernel that has bundles */
    MILLISECOND = 1000,
    END_MS = 100,
    WINDOW = 1 << 20, /* bytes that wait to be received: a key frame, whole */
    AROUND = 16,      /* bytes of a chunk around its contents */
    /* as the daemon's defaults */
    MEMORY = 512 << 20,
    GROUP = 8 << 20,
    BATCH_US = 2000,
    IDLE_MS = 30000,
};

struct publisher {
    struct file *socket;
    struct media media;
};

static struct load {
    struct server *server;
    struct publisher *publishers;
    uint64_t count, now_ms, end_ms, frames, taken, lost;
    uint8_t tag[MEDIA_TAG], chunk[MEDIA_TAG + AROUND];
} load;

static void send_bytes(struct publisher *publisher, const void *bytes, size_t n) {
    WORLD_CHECK(peer_send(publisher->socket, bytes, n) == n, "a publisher cannot send");
}

/* As a chunk of the body. */
static void send_chunk(struct publisher *publisher, const void *bytes, size_t n) {
    size_t head = (size_t)snprintf((char *)load.chunk, sizeof load.chunk, "%zx\r\n", n);
    memcpy(load.chunk + head, bytes, n);
    memcpy(load.chunk + head + n, "\r\n", 2);
    send_bytes(publisher, load.chunk, head + n + 2);
}

static void open_publisher(struct publisher *publisher, uint64_t index) {
    char text[128];
    uint8_t header[SLUICE_FLV_HEADER_SIZE];
    publisher->socket = peer_connect(PORT);
    WORLD_CHECK(publisher->socket, "nobody listens");
    publisher->socket->window = WINDOW;
    publisher->media = media_of(index, load.count);
    int n = snprintf(text, sizeof text,
                     "POST /live/%" PRIu64 ".flv HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n", index);
    send_bytes(publisher, text, (size_t)n);
    sluice_flv_write_header(header, SLUICE_FLV_HAS_VIDEO | SLUICE_FLV_HAS_AUDIO);
    send_chunk(publisher, header, sizeof header);
}

static void send_frame(struct publisher *publisher, bool is_video) {
    size_t n = media_write(&publisher->media, is_video, load.tag);
    send_chunk(publisher, load.tag, n);
    load.frames++;
}

static void count_stream(struct stream *stream, void *user) {
    (void)user;
    load.taken += stream->video_frames + stream->audio_frames;
    load.lost += stream->frames_dropped;
}

static void end(void *user) {
    (void)user;
    registry_each(server_worker(load.server, 0)->registry, count_stream, NULL);
    server_stop(load.server);
}

static void tick(void *user) {
    (void)user;
    for (uint64_t i = 0; i < load.count; i++) {
        struct publisher *publisher = &load.publishers[i];
        if (!publisher->socket)
            open_publisher(publisher, i);
        if (media_is_due(&publisher->media, true, load.now_ms))
            send_frame(publisher, true);
        if (media_is_due(&publisher->media, false, load.now_ms))
            send_frame(publisher, false);
    }
    if (++load.now_ms < load.end_ms)
        world_after(MILLISECOND, tick, NULL);
    else
        world_after(END_MS * MILLISECOND, end, NULL);
}

static void begin_world(void) {
    for (uint64_t seed = SEED;; seed++) {
        world_begin(seed, false);
        kernel_begin();
        disk_begin();
        rings_begin();
        if (ring_kernel_age() == KERNEL_BUNDLES)
            return;
        rings_end();
        disk_end();
        kernel_end();
        world_end();
    }
}

static struct options *choose_options(bool cache) {
    struct options *options = options_new();
    struct listener_option *listener = &options->listeners[options->listener_count++];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *listener = (struct listener_option){.protocol = &http_protocol, .merge_window_ms = OPTIONS_MERGE_UNSET};
    memcpy(&listener->address, &address, sizeof address);
    options->workers = 1;
    options->backend = SLUICE_BACKEND_URING;
    options->memory = MEMORY;
    options->max_connections = KERNEL_BACKLOG;
    options->batch_us = BATCH_US;
    options->streams.all = (struct stream_policy){.jump_ms = 3000,
                                                  .gop_size = cache ? GROUP : 0,
                                                  .player_buffer = GROUP,
                                                  .frame_limit = GROUP,
                                                  .wait_ms = IDLE_MS,
                                                  .idle_ms = IDLE_MS,
                                                  .stall_ms = IDLE_MS};
    return options;
}

static void run(bool cache) {
    struct options *options = choose_options(cache);
    load.publishers = world_allocate(load.count * sizeof *load.publishers);
    memset(load.publishers, 0, load.count * sizeof *load.publishers);
    int error = server_new(options, &load.server);
    WORLD_CHECK(!error, "the server cannot be made: %s", strerror(-error));
    world_after(MILLISECOND, tick, NULL);
    server_begin(load.server);
    error = server_run(load.server);
    WORLD_CHECK(!error, "the server's run ends with %s", strerror(-error));
    for (uint64_t i = 0; i < load.count; i++)
        kernel_file_unref(load.publishers[i].socket);
    server_free(load.server);
    options_unref(options);
    world_free(load.publishers);
}

static const char usage[] =
    "Usage: bench-lines-server [--publishers N] [--ms N] [--no-cache]\n"
    "\n"
    "The load of bench-lines, by HTTP-FLV, to the daemon's whole data plane on a simulated kernel: from the\n"
    "completion of a receive to the release of a frame. For cachegrind: see tools/perf-compare --lines.\n"
    "  --publishers N  100\n"
    "  --ms N          2000, after 4.1 s in which the caches fill\n"
    "  --no-cache      keep no groups of pictures\n";

int main(int argc, char **argv) {
    const struct settings settings = settings_read(argc, argv, KERNEL_BACKLOG, usage);
    load.count = settings.publishers;
    load.end_ms = FILLING_MS + settings.milliseconds;
    begin_world();
    run(settings.cache);
    uint64_t lost = load.lost + (load.frames - load.taken);
    printf("result {\"frames\": %" PRIu64 ", \"lost\": %" PRIu64 "}\n", load.frames, lost);
    return lost > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
