/*
 * How often a loop sleeps, with a batching window and without, on the same arrivals: ticks,
 * independent streams, streams by chance; and whether it answers what comes. Nothing goes wrong
 * here, and no time is measured: the clock is the world's.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <sluice/conn.h>

#include "sim/kernel.h"
#include "sim/scenario.h"
#include "sim/world.h"

enum {
    PORT = 7000,
    MOST_STREAMS = 500,
    PACKET = 100,
    WINDOW = 2000,
    TICK = 5000,
    INTERVAL = 13700, /* of a stream with 30 frames of video and 43 of audio a second */
    PACKETS = 64,     /* of a stream, at most, under way */
    WARM_UP = 200000, /* microseconds: all are connected, and the rule knows what comes */
    LENGTH = 1200000,
    OF_TURNS = 250, /* what turns add to a window: blocks may be armed behind it */
};

enum pattern { TICKS, SPREAD_TICKS, INDEPENDENT, BY_CHANCE, PATTERNS };

static const char *const names[] = {"ticks", "spread ticks", "independent", "by chance"};

struct stream {
    struct file *peer;
    sluice_conn *conn;
    uint64_t sent_at[PACKETS]; /* of the packets that have not come, a ring */
    uint32_t sent, came;
    uint64_t due;
    uint32_t to_answer;
};

static struct waiting {
    sluice_loop *loop;
    struct stream streams[MOST_STREAMS];
    uint32_t count, connected, ticks;
    enum pattern pattern;
    bool answers;
    uint64_t sent, came, answered;
    uint64_t most_delay, sleeps_before;
} waiting;

static void send_one(struct stream *stream) {
    static const uint8_t packet[PACKET];
    uint8_t answers[1024];
    while (peer_receive(stream->peer, answers, sizeof answers) > 0)
        continue;
    WORLD_CHECK(stream->sent - stream->came < PACKETS, "a stream waits for %d packets", PACKETS);
    stream->sent_at[stream->sent++ % PACKETS] = world_now();
    WORLD_CHECK(peer_send(stream->peer, packet, PACKET) == PACKET, "a packet finds no room");
    waiting.sent++;
}

/* A third of the streams has a packet. */
static void tick(void *at) {
    (void)at;
    for (uint32_t i = waiting.ticks++ % 3; i < waiting.count; i += 3)
        send_one(&waiting.streams[i]);
    world_after(TICK, tick, NULL);
}

static void send_packet(void *at) {
    struct stream *stream = at;
    uint64_t index = (uint64_t)(stream - waiting.streams), apart = INTERVAL;
    send_one(stream);
    if (waiting.pattern == SPREAD_TICKS)
        apart = (uint64_t)TICK * (1 + index % 3);
    if (waiting.pattern == BY_CHANCE)
        apart = world_between(1, 2 * INTERVAL);
    stream->due += apart;
    world_after(stream->due > world_now() ? stream->due - world_now() : 1, send_packet, stream);
}

static void on_data(sluice_conn *conn, void *at) {
    struct stream *stream = at;
    sluice_chain *chain = sluice_conn_chain(conn);
    size_t packets = sluice_chain_length(chain) / PACKET;
    if (packets == 0)
        return;
    uint64_t delay = world_now() - stream->sent_at[stream->came % PACKETS];
    if (delay > waiting.most_delay && world_now() > WARM_UP)
        waiting.most_delay = delay;
    stream->came += (uint32_t)packets;
    waiting.came += packets;
    (void)sluice_chain_skip(chain, packets * PACKET);
    if (!waiting.answers)
        return;
    stream->to_answer++;
    sluice_conn_want_send(conn);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *at) {
    static uint8_t answer[1];
    const struct stream *stream = at;
    (void)conn, (void)max;
    *iov = (struct iovec){answer, 1};
    return stream->to_answer > 0;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *at) {
    struct stream *stream = at;
    stream->to_answer -= (uint32_t)bytes;
    waiting.answered += bytes;
    if (stream->to_answer > 0)
        sluice_conn_want_send(conn);
}

static void on_end(sluice_conn *conn, int error, void *at) {
    (void)at, (void)error;
    sluice_conn_close(conn);
}

static const sluice_conn_events events = {
    .size = sizeof events, .on_data = on_data, .on_end = on_end, .on_gather = on_gather, .on_sent = on_sent};

static void accepted(sluice_listener *listener, int fd, void *user) {
    struct stream *stream = &waiting.streams[waiting.connected++];
    (void)listener, (void)user;
    WORLD_CHECK(sluice_conn_new(waiting.loop, fd, &events, stream, &stream->conn) == 0, "no connection");
}

static void begin_streams(void *at) {
    (void)at;
    if (waiting.pattern == TICKS) {
        tick(NULL);
        return;
    }
    for (uint32_t i = 0; i < waiting.count; i++) {
        struct stream *stream = &waiting.streams[i];
        uint64_t first = waiting.pattern == SPREAD_TICKS ? TICK + 2 * i : INTERVAL + world_random(INTERVAL);
        stream->due = world_now() + first;
        world_after(first, send_packet, stream);
    }
}

/* While connections are accepted, more of them may arrive than a listener holds. */
static void connect_some(void *at) {
    enum { AT_ONCE = 50 };
    uint32_t most = waiting.count + AT_ONCE < MOST_STREAMS ? waiting.count + AT_ONCE : MOST_STREAMS;
    uint32_t wanted = *(const uint32_t *)at;
    for (; waiting.count < most && waiting.count < wanted; waiting.count++)
        waiting.streams[waiting.count].peer = peer_connect(PORT);
    world_after(1000, waiting.count < wanted ? connect_some : begin_streams, at);
}

static void warm(void *at) {
    (void)at;
    waiting.sleeps_before = kernel_sleeps();
}

static void over(void *at) {
    sluice_loop_stop(waiting.loop);
    *(uint64_t *)at = kernel_sleeps() - waiting.sleeps_before;
}

static void play_loop(uint32_t batch_us, uint32_t *streams, uint64_t *ret_sleeps) {
    const sluice_pool_options pool_options = {.size = sizeof pool_options, .no_huge_pages = true};
    const sluice_loop_options options = {
        .size = sizeof options, .batch_us = batch_us, .no_fixed = true, .backend = SLUICE_BACKEND_URING};
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sluice_pool *pool;
    sluice_listener *listener;
    WORLD_CHECK(sluice_pool_new(&pool_options, &pool) == 0, "no pool");
    WORLD_CHECK(sluice_loop_new(pool, &options, &waiting.loop) == 0, "no loop");
    WORLD_CHECK(sluice_listener_new(waiting.loop, (const struct sockaddr *)&address, sizeof address, accepted, NULL,
                                    &listener) == 0,
                "cannot listen");
    world_after(1, connect_some, streams);
    world_after(WARM_UP, warm, NULL);
    world_after(LENGTH, over, ret_sleeps);
    int error = sluice_loop_run(waiting.loop);
    WORLD_CHECK(!error, "the loop's run ends with %s", strerror(-error));
    WORLD_CHECK(waiting.connected == *streams, "%u connections of %u", waiting.connected, *streams);
    for (uint32_t i = 0; i < waiting.count; i++)
        kernel_file_unref(waiting.streams[i].peer);
    sluice_loop_free(waiting.loop);
    sluice_pool_free(pool);
}

/* In a world of its own, with the same arrivals each time. */
static uint64_t play(enum kernel_age age, enum pattern pattern, uint32_t streams, bool answers, uint32_t batch_us) {
    uint64_t sleeps = 0;
    world_begin(1, false);
    kernel_begin();
    rings_begin();
    rings_set_age(age);
    waiting = (struct waiting){.pattern = pattern, .answers = answers};
    play_loop(batch_us, &streams, &sleeps);
    rings_end();
    kernel_end();
    world_end();
    return sleeps;
}

/*
 * With the kernel's minimum wait, never a sleep more than without a window. Without it, at most
 * what the rule needs to find out.
 */
static void compare(enum kernel_age age, enum pattern pattern, uint32_t streams, bool answers) {
    enum { FEW = 20 };
    uint64_t plain = play(age, pattern, streams, answers, 0);
    uint64_t windowed = play(age, pattern, streams, answers, WINDOW);
    uint64_t spared = waiting.sent - waiting.came;
    printf("kernel %d, %-12s %3u streams%s: %6llu sleeps, %6llu with a window, delay at most %llu us\n", age,
           names[pattern], streams, answers ? ", answered" : "", (unsigned long long)plain,
           (unsigned long long)windowed, (unsigned long long)waiting.most_delay);
    WORLD_CHECK(windowed <= plain + (age == KERNEL_LEAST_WAIT ? 0 : FEW), "more sleeps than without a window");
    /* Without a minimum wait a receive that has ended is armed with the wait of the next window;
     * what it finds at once is reported when that one closes. */
    WORLD_CHECK(waiting.most_delay <= (age == KERNEL_LEAST_WAIT ? WINDOW : 2 * WINDOW) + OF_TURNS,
                "a packet waits for %llu us", (unsigned long long)waiting.most_delay);
    WORLD_CHECK(spared <= streams, "%llu packets have not come", (unsigned long long)spared);
    if (pattern >= INDEPENDENT && streams >= 100)
        WORLD_CHECK(4 * windowed <= plain, "windows gather nothing");
}

void scenario_waiting(void) {
    static const enum kernel_age ages[] = {KERNEL_LEAST_WAIT, KERNEL_BUNDLES, KERNEL_MULTISHOT, KERNEL_SINGLE};
    static const uint32_t streams[] = {1, 10, 100, 500};
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++)
        for (enum pattern pattern = 0; pattern < PATTERNS; pattern++)
            for (size_t k = 0; k < sizeof streams / sizeof *streams; k++)
                for (unsigned answers = 0; answers < 2; answers++)
                    compare(ages[i], pattern, streams[k], answers);
}
