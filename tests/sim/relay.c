/*
 * The daemon's data plane, whole: listeners, sessions, streams, players' queues, recordings, on one
 * worker. Publishers and players come and go while everything goes wrong; then nothing goes wrong
 * any more, and what is left must serve a publisher and a player as if nothing had happened, and
 * end when it is told to.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config/options.h"
#include "daemon/protocols/flv/flv_session.h"
#include "daemon/protocols/http/http_session.h"
#include "daemon/protocols/rtsp/rtsp_session.h"
#include "daemon/server/server.h"
#include "sim/invariants.h"
#include "sim/peers.h"
#include "sim/scenario.h"
#include "sim/visitor.h"
#include "sim/world.h"

enum {
    PUBLISHERS = 12,
    PLAYERS = 24,
    VISITORS = 24,
    SECOND = 1000000,      /* microseconds */
    WATCH = PEERS_STREAMS, /* the stream by which the end is judged */
    WATCH_FRAMES = 60,
    /* bytes of a player's queue: more blocks than the watched stream's beginning uses up */
    ENOUGH = 512 << 10,
    PLENTY = 4 << 20,     /* bytes in all */
    LITTLE = 512 << 10,   /* in less, blocks may run out though nothing goes wrong */
    HEADERS = 2 * 60,     /* bytes that publishers have as decoder's headers, at most */
    SETTLE = 25 * SECOND, /* in which what has gone wrong is got over */
};

static struct relay {
    struct server *server;
    struct show shows[PEERS_STREAMS + 1];
    struct sim_publisher *publishers[PUBLISHERS + 1];
    struct sim_player *players[PLAYERS + 1];
    struct sim_visitor *visitors[VISITORS + 1];
    size_t publisher_count, player_count, visitor_count;
    struct sim_visitor *watching_visitor;
    struct sim_publisher *watched;
    struct sim_player *watcher;
    enum player_form watcher_form;
    bool is_over;
    uint32_t recorded; /* frames of the stream that is watched */
} relay;

/* What the daemon is told */

static void add_listener(struct options *options, const struct protocol *protocol, uint16_t port, const char *stream) {
    struct listener_option *listener = &options->listeners[options->listener_count++];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *listener = (struct listener_option){.protocol = protocol, .merge_window_ms = OPTIONS_MERGE_UNSET};
    memcpy(&listener->address, &address, sizeof address);
    strcpy(listener->stream, stream);
}

static struct options *choose_options(void) {
    static const char *const names[PEERS_STREAMS] = {"live/0", "live/1", "live/2", "live/3"};
    struct options *options = options_new();
    add_listener(options, &http_protocol, PEERS_HTTP_PORT, "");
    add_listener(options, &rtsp_protocol, PEERS_RTSP_PORT, "");
    for (uint16_t i = 0; i < PEERS_STREAMS; i++)
        add_listener(options, &flv_protocol, PEERS_FLV_PORT + i, names[i]);
    options->workers = 1;
    options->memory = world_one_in(4) ? (4 << 20) + world_between(1, 512) * 4096 : world_between(32, 512) * 4096;
    options->streams.all.player_buffer = options->memory / world_between(2, 8);
    options->streams.all.gop_size = options->streams.all.player_buffer / world_between(1, 4);
    options->streams.all.frame_limit = options->streams.all.player_buffer < options->memory / 4
                                           ? options->streams.all.player_buffer
                                           : options->memory / 4;
    options->max_connections = world_one_in(8) ? world_between(2, 10) : 1000;
    options->batch_us = world_one_in(2) ? 0 : world_between(100, 5000);
    options->streams.all.merge_window_ms = world_one_in(3)   ? (uint16_t)world_between(1, 350)
                                           : world_one_in(2) ? COALESCE_WINDOW_AUTO
                                                             : 0;
    options->streams.all.wait_ms = world_between(1000, 4000);
    options->streams.all.idle_ms = world_between(1000, 3000);
    options->streams.all.stall_ms = world_between(1000, 3000);
    options->backend = SLUICE_BACKEND_URING;
    if (world_one_in(2)) {
        (void)record_options_add(&options->record, "live/*=/records");
        options->record.segment_ms = world_one_in(2) ? 0 : world_between(100, 2000);
        options->record.segment_bytes = world_one_in(2) ? 0 : world_between(1000, 200000);
    }
    return options;
}

/* Who comes */

static void start_publisher(void *user) {
    struct show *show = user;
    struct publisher_plan plan = {
        .show = show,
        .form = world_random(PUBLISHER_FORMS),
        .end = world_one_in(2) ? PUBLISHER_ENDS : world_random(5),
        .frames = world_between(1, 120),
        .frame_us = world_one_in(4) ? 0 : world_between(1, 20000),
        .key_every = world_between(1, 30),
        .size_most = world_one_in(3) ? 30000 : 3000,
        .piece_most = world_one_in(3) ? world_between(1, 100) : world_between(500, 60000),
    };
    struct sim_publisher *publisher = sim_publisher_new(&plan);
    if (publisher)
        relay.publishers[relay.publisher_count++] = publisher;
}

static bool is_memory_short(void) {
    return server_worker(relay.server, 0)->options->memory < PLENTY || world_rate(FAULT_MEMORY) > 0;
}

static void start_player(void *user) {
    const struct player_plan plan = {
        .show = user,
        .manner = world_one_in(3) ? PLAYER_READS : world_random(5),
        .form = world_random(PLAYER_FORMS),
        .may_lose = is_memory_short(),
    };
    struct sim_player *player = sim_player_new(&plan);
    if (player)
        relay.players[relay.player_count++] = player;
}

/* Where little memory is allowed, tags may use up all that describes them: nothing is left for
 * RTP's packets. */
static bool has_room_for_rtp(void) {
    return server_worker(relay.server, 0)->options->memory >= PLENTY;
}

static void start_visitor(void *user) {
    const struct show *show = user;
    const struct visitor_plan plan = {
        .stream = show->stream,
        .manner = world_random(VISITOR_MANNERS),
        .requests = world_between(1, 12),
    };
    struct sim_visitor *visitor = sim_visitor_new(&plan);
    if (visitor)
        relay.visitors[relay.visitor_count++] = visitor;
}

/* What was recorded while everything went wrong can be read, behind that. */
static void watch_visitor(void *user) {
    const struct show *show = user;
    const struct visitor_plan plan = {
        .stream = show->stream, .manner = VISITOR_READS, .requests = 8, .is_served = has_room_for_rtp()};
    relay.watching_visitor = sim_visitor_new(&plan);
    WORLD_CHECK(relay.watching_visitor, "nobody listens any more");
    relay.visitors[relay.visitor_count++] = relay.watching_visitor;
}

/* The server keeps silent RTSP connections for a minute, which would count as connections. */
static void end_rtsp(void *user) {
    (void)user;
    for (size_t i = 0; i < relay.player_count; i++)
        if (sim_player_form(relay.players[i]) == PLAY_RTSP)
            sim_player_leave(relay.players[i]);
}

static void watch_publisher(void *user) {
    struct publisher_plan plan = {
        .show = user,
        .form = has_room_for_rtp() && world_one_in(2) ? PUBLISH_RTSP : PUBLISH_CHUNKED,
        .frames = WATCH_FRAMES,
        .frame_us = 10000,
        .key_every = 10,
        .size_most = 3000,
        .piece_most = 2000,
    };
    relay.watched = sim_publisher_new(&plan);
    WORLD_CHECK(relay.watched, "nobody listens any more");
    relay.publishers[relay.publisher_count++] = relay.watched;
}

static void watch(void *user) {
    relay.watcher_form = world_random(has_room_for_rtp() ? PLAYER_FORMS : PLAY_RTSP);
    const struct player_plan plan = {
        .show = user, .manner = PLAYER_READS, .form = relay.watcher_form, .has_room = true};
    relay.watcher = sim_player_new(&plan);
    WORLD_CHECK(relay.watcher, "nobody listens any more");
    relay.players[relay.player_count++] = relay.watcher;
    world_after(SECOND / 10, watch_publisher, user);
}

static void judge(void *user) {
    const struct viewer *viewer = sim_player_viewer(relay.watcher);
    (void)user;
    WORLD_CHECK(sim_publisher_frames(relay.watched) == WATCH_FRAMES, "only %u frames could be published in the end",
                sim_publisher_frames(relay.watched));
    /* Where little memory is allowed, the stream's beginning may be more than its players are
     * given. */
    bool has_room = server_worker(relay.server, 0)->options->streams.all.player_buffer >= ENOUGH;
    /* By RTSP some may have gone by until a player has asked for everything. */
    uint32_t least = relay.watcher_form == PLAY_RTSP ? WATCH_FRAMES / 2 : WATCH_FRAMES;
    bool has_blocks = server_worker(relay.server, 0)->options->memory >= LITTLE;
    WORLD_CHECK(viewer->number == WATCH_FRAMES && (viewer->gaps == 0 || !has_blocks) &&
                    (viewer->frames >= least || !has_room),
                "of %u frames %u came to the player in the end, the last was %u, with %u gaps", WATCH_FRAMES,
                viewer->frames, viewer->number, viewer->gaps);
    WORLD_CHECK(sim_player_is_answered(relay.watcher), "a ping was not answered in the end");
    WORLD_CHECK(!relay.watching_visitor || !has_room_for_rtp() || sim_visitor_is_done(relay.watching_visitor),
                "what was recorded cannot be read in the end");
    server_stop(relay.server);
}

static void check_is_over(void *user) {
    (void)user;
    WORLD_CHECK(relay.is_over, "the server does not end");
}

static void calm(void *user) {
    (void)user;
    world_calm(true);
    for (size_t i = 0; i < relay.publisher_count; i++)
        sim_publisher_stop(relay.publishers[i]);
}

static bool is_recorded(void) {
    return server_worker(relay.server, 0)->options->record.rule_count > 0;
}

/* Some come all at once, more than may wait for a list. */
static void plan_visitors(uint32_t shows) {
    if (!is_recorded())
        return;
    uint32_t visitors = world_one_in(4) ? VISITORS : world_random(5), at = world_random(6 * SECOND);
    bool at_once = world_one_in(2);
    for (uint32_t i = 0; i < visitors; i++)
        world_after(at_once ? at : world_random(6 * SECOND), start_visitor, &relay.shows[world_random(shows)]);
}

static void plan(void) {
    for (size_t i = 0; i <= PEERS_STREAMS; i++)
        relay.shows[i] = (struct show){.stream = (uint8_t)i, .has_video = !world_one_in(5), .has_audio = true};
    uint32_t shows = world_between(1, PEERS_STREAMS), publishers = world_between(1, PUBLISHERS - 1);
    uint32_t players = world_between(0, PLAYERS - 2);
    for (uint32_t i = 0; i < publishers; i++)
        world_after(world_random(4 * SECOND), start_publisher, &relay.shows[world_random(shows)]);
    for (uint32_t i = 0; i < players; i++)
        world_after(world_random(4 * SECOND), start_player, &relay.shows[world_random(shows)]);
    plan_visitors(shows);
    uint64_t calm_at = 6 * SECOND;
    world_after(calm_at, calm, NULL);
    world_after(calm_at + SETTLE - 3 * SECOND, end_rtsp, NULL);
    if (is_recorded())
        world_after(calm_at + SETTLE - 2 * SECOND, watch_visitor, &relay.shows[world_random(shows)]);
    world_after(calm_at + SETTLE, watch, &relay.shows[WATCH]);
    world_after(calm_at + SETTLE + 4 * SECOND, judge, NULL);
    world_after(calm_at + SETTLE + 24 * SECOND, check_is_over, NULL);
}

/* Invariants */

static void check_stream(struct stream *stream, void *user) {
    const struct options *options = user;
    for (const struct player *player = stream->players; player; player = player->next) {
        /* The decoder's headers go along with the frame that there is room for. */
        WORLD_CHECK(player->queued_bytes <= player->limit + HEADERS, "a player's queue has %llu bytes, of %llu",
                    (unsigned long long)player->queued_bytes, (unsigned long long)player->limit);
        WORLD_CHECK(player->gathered <= player->count && player->due <= player->count, "a player's queue is broken");
    }
    WORLD_CHECK(stream->gop.blocks * 4096 <= options->streams.all.gop_size || !stream->settled,
                "the cached group holds %llu blocks", (unsigned long long)stream->gop.blocks);
}

static void check_step(void) {
    struct worker *worker = server_worker(relay.server, 0);
    check_blocks(worker->loop);
    if (!check_is_thorough())
        return;
    check_receive_queues(worker->loop);
    for (const struct session *session = worker->sessions; session; session = session->next) {
        if (!session->conn)
            continue;
        check_chain(sluice_conn_chain(session->conn));
        check_receive(worker->loop, session->conn);
    }
    registry_each(worker->registry, check_stream, (void *)worker->options);
}

/* What has been recorded. Complete or not, it has whole tags, as they were published, and gaps that
 * are marked. */
static void check_recording(const struct disk_file *file, bool has_room) {
    struct viewer viewer = {.who = file->path, .takes_any_start = true};
    bool is_complete = !strstr(file->path, ".part");
    WORLD_CHECK(sscanf(file->path, "live/%hhu/", &viewer.stream) == 1, "a file called %s", file->path);
    viewer.has_video = relay.shows[viewer.stream].has_video;
    viewer_feed(&viewer, file->bytes, file->size);
    WORLD_CHECK(!is_complete || (viewer_left(&viewer) == 0 && (viewer.frames > 0 || !has_room)),
                "%s is not whole: %u frames, %zu bytes more of %zu", file->path, viewer.frames, viewer_left(&viewer),
                file->size);
    if (is_complete && viewer.stream == WATCH)
        relay.recorded += viewer.frames;
    viewer_clear(&viewer);
}

static void check_recordings(const struct options *options) {
    bool has_room = options->memory >= PLENTY;
    for (const struct disk_file *file = disk_first(); file; file = file->next)
        check_recording(file, has_room);
    /* Where memory is short, recordings are the first to do without. */
    if (options->record.rule_count > 0 && options->memory >= PLENTY)
        WORLD_CHECK(relay.recorded == WATCH_FRAMES, "of %u frames %u were recorded in the end", WATCH_FRAMES,
                    relay.recorded);
}

void scenario_relay(void) {
    relay = (struct relay){0};
    struct options *options = choose_options();
    int error = server_new(options, &relay.server);
    WORLD_CHECK(!error, "the server cannot be made: %s", strerror(-error));
    plan();
    rings_on_step(check_step);
    world_calm(false);
    server_begin(relay.server);
    error = server_run(relay.server);
    WORLD_CHECK(!error, "the server's run ends with %s", strerror(-error));
    relay.is_over = true;
    rings_on_step(NULL);
    WORLD_CHECK(server_free(relay.server), "an operation of the disk has not returned");
    check_recordings(options);
    options_unref(options);
    for (size_t i = 0; i < relay.player_count; i++) {
        sim_player_check_end(relay.players[i]);
        sim_player_free(relay.players[i]);
    }
    for (size_t i = 0; i < relay.publisher_count; i++)
        sim_publisher_free(relay.publishers[i]);
    for (size_t i = 0; i < relay.visitor_count; i++)
        sim_visitor_free(relay.visitors[i]);
}
