/*
 * Time in which the daemon does not read is nobody's silence. Sessions of a worker, on sockets,
 * which are not read for longer than each of their deadlines: blocks are short, their connection is
 * paused, or a hook is asked. They go on when they are read again, and end when they are silent or
 * slow then. The clock is the test's own, and nobody is evicted.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/flv.h>

#include "daemon/protocols/flv/flv_session.h"
#include "daemon/protocols/http/http_session.h"
#include "daemon/protocols/rtsp/rtsp_session.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "support/clock.h"
#include "support/server_rig.h"
#include "support/sockets.h"

enum {
    GUARD = 60,
    TICK_MS = 500,
    LIMIT_MS = 2000,    /* what a test is about */
    NOT_READ_MS = 3000, /* less than after which a connection is ended for want of blocks */
    MESSAGE_MS = 10000, /* for a request or a message */
    LARGE = 2 << 20,    /* a frame: more than receiving has in stock */
    PACKET = 1024,      /* of RTP */
    WORDS = 24,
    PATIENCE = 5000, /* turns of a millisecond */
    BLOCKS = 1024,   /* more than there are */
};

struct rig {
    const struct options *options;
    struct server *server;
    struct worker *worker;
    sluice_loop *loop;
    struct session *session;
    int peer;
    uint64_t sent; /* by the peer */
    struct hook_query *asked;
    size_t left;       /* of a frame */
    uint16_t sequence; /* of RTP */
    sluice_block *hoard[BLOCKS];
    unsigned hoarded;
};

static const char *const idle[] = {"--idle", "2", "--first-data", "600", NULL};
static const char *const first_data[] = {"--idle", "600", "--first-data", "2", NULL};

static void ask(void *user, struct hook_query *job) {
    ((struct rig *)user)->asked = job;
}

static const struct options *make_options(const char *const more[]) {
    const char *backend = getenv("SLUICE_TEST_BACKEND");
    /* Time stands still for longer than an interval. */
    const char *words[WORDS] = {"sluiced", "--http",   "127.0.0.1:0", "--workers",      "1",  "--memory",
                                "4M",      "--wait",   "600",         "--hook-timeout", "60", "--unwatched-interval",
                                "0",       "--backend"};
    int count = 14;
    words[count++] = backend ? backend : "auto";
    for (; *more; more++)
        words[count++] = *more;
    return server_rig_options(count, (char **)words);
}

static void connect_peer(struct rig *rig, const struct protocol *protocol) {
    rig->peer = server_rig_connect(rig->server, protocol);
    assert_non_null(rig->worker->sessions);
    rig->session = rig->worker->sessions;
}

/* @more: options, to NULL */
static void rig_open(struct rig *rig, const struct protocol *protocol, const char *const more[]) {
    hang_guard(GUARD);
    clock_stop();
    *rig = (struct rig){.options = make_options(more)};
    assert_int_equal(server_new(rig->options, &rig->server), 0);
    server_set_hook_asker(rig->server, ask, rig);
    rig->worker = server_worker(rig->server, 0);
    rig->loop = rig->worker->loop;
    sluice_loop_on_shortage(rig->loop, 0, NULL, NULL);
    connect_peer(rig, protocol);
}

static void rig_close(struct rig *rig) {
    server_set_hook_asker(rig->server, NULL, NULL);
    server_free(rig->server);
    close(rig->peer);
    options_unref(rig->options);
    clock_go_on();
    hang_guard(0);
}

static bool is_there(const struct rig *rig) {
    return rig->worker->session_count > 0 && !rig->session->closing;
}

/* Of those in which something comes about. */
static void turn_on(const struct rig *rig) {
    assert_true(is_there(rig));
    turn_through(rig->loop, 1);
}

static void send_whole(struct rig *rig, const void *bytes, size_t n) {
    assert_int_equal(send(rig->peer, bytes, n, MSG_NOSIGNAL), n);
    rig->sent += n;
}

static void say(struct rig *rig, const char *text) {
    send_whole(rig, text, strlen(text));
}

/* Turns until all that the peer has sent is read, where blocks may be too few to do so at once. */
static void read_all(const struct rig *rig) {
    const sluice_chain *chain = sluice_conn_chain(rig->session->conn);
    for (unsigned turns = 0; sluice_chain_consumed(chain) + sluice_chain_length(chain) < rig->sent; turns++) {
        turn_on(rig);
        assert_true(turns < PATIENCE);
    }
}

/* Turns until the peer is sent this. */
static void hear(const struct rig *rig, const char *text) {
    char answer[65536];
    size_t length = 0;
    unsigned turns = 0;
    do {
        turn_through(rig->loop, 1);
        ssize_t n = recv(rig->peer, answer + length, sizeof answer - 1 - length, MSG_DONTWAIT);
        length += n > 0 ? (size_t)n : 0;
        answer[length] = '\0';
        assert_true(n != 0 && turns++ < PATIENCE);
    } while (!strstr(answer, text));
}

static bool is_published(const struct rig *rig) {
    const struct stream *stream = registry_find(rig->worker->registry, "live/a");
    return stream && stream->live;
}

static uint64_t frames(const struct rig *rig) {
    const struct stream *stream = registry_find(rig->worker->registry, "live/a");
    return stream ? stream->audio_frames + stream->video_frames : 0;
}

/* Time goes on, tick by tick. */
static void pass(const struct rig *rig, unsigned milliseconds) {
    for (unsigned passed = 0; passed < milliseconds; passed += TICK_MS) {
        clock_forward(TICK_MS);
        turn_through(rig->loop, 5);
    }
}

/* Now the peer is silent itself: as long as it may be, and not longer. */
static void check_silence_ends_it(struct rig *rig, unsigned limit) {
    turn_through(rig->loop, 5);
    pass(rig, 2 * TICK_MS);
    pass(rig, limit - 4 * TICK_MS);
    assert_true(is_there(rig));
    assert_true(is_published(rig));
    pass(rig, 5 * TICK_MS);
    assert_false(is_published(rig));
}

/* One that says nothing at first has its time, too. */
static void nothing_at_first_is_silence_in_time(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, &flv_protocol, idle);
    pass(&rig, LIMIT_MS - TICK_MS);
    assert_true(is_there(&rig));
    pass(&rig, 4 * TICK_MS);
    assert_false(is_there(&rig));
    rig_close(&rig);
}

/* ---- Publishers, and blocks that are short ---- */

static void send_bytes(struct rig *rig, size_t n) {
    static const uint8_t bytes[16384];
    while (n > 0) {
        ssize_t sent = send(rig->peer, bytes, n < sizeof bytes ? n : sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return;
        n -= (size_t)sent;
        rig->left -= (size_t)sent;
        rig->sent += (size_t)sent;
    }
}

/* FLV's beginning, and a frame with nothing of it behind its head. */
static void begin_frame(struct rig *rig) {
    static const uint8_t beginning[] = {'F', 'L',  'V',  1, SLUICE_FLV_HAS_AUDIO,
                                        0,   0,    0,    9, 0,
                                        0,   0,    0,    8, 0,
                                        0,   4,    0,    0, 0,
                                        0,   0,    0,    0, 0xaf,
                                        0,   0x12, 0x08, 0, 0,
                                        0,   15};
    uint8_t head[SLUICE_FLV_TAG_HEADER_SIZE + 2];
    sluice_flv_write_tag_header(head, SLUICE_FLV_AUDIO, LARGE, 0);
    head[sizeof head - 2] = 0xaf;
    head[sizeof head - 1] = 1;
    send_whole(rig, beginning, sizeof beginning);
    send_whole(rig, head, sizeof head);
    rig->left = LARGE - 2;
}

static void go_on_with_frame(struct rig *rig) {
    send_bytes(rig, rig->left < 65536 ? rig->left : 65536);
}

static void end_frame(struct rig *rig) {
    uint8_t trailer[SLUICE_FLV_TRAILER_SIZE];
    while (rig->left > 0) {
        go_on_with_frame(rig);
        turn_on(rig);
    }
    sluice_flv_write_trailer(trailer, LARGE + SLUICE_FLV_TAG_HEADER_SIZE);
    send_whole(rig, trailer, sizeof trailer);
}

static void begin_flv(struct rig *rig) {
    begin_frame(rig);
}

static void begin_http(struct rig *rig) {
    say(rig, "POST /live/a.flv HTTP/1.1\r\nHost: h\r\n\r\n");
    begin_frame(rig);
}

/* A packet with a part of a NAL unit: so many bytes. */
static void send_part(struct rig *rig, uint8_t flags, uint16_t size) {
    uint16_t rest = (uint16_t)(size - 4);
    uint8_t packet[PACKET] = {0x24, 0, (uint8_t)(rest >> 8), (uint8_t)rest, 0x80, 96};
    /* The unit's end is the frame's. */
    packet[5] |= flags & 0x40 ? 0x80 : 0;
    packet[6] = (uint8_t)(rig->sequence >> 8);
    packet[7] = (uint8_t)rig->sequence++;
    packet[16] = 0x7c;
    packet[17] = flags | 5;
    send_whole(rig, packet, size);
}

static void announce(struct rig *rig) {
    static const char sdp[] =
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;"
        "sprop-parameter-sets=Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Pyw==\r\na=control:streamid=0\r\n";
    char request[1024];
    snprintf(request, sizeof request,
             "ANNOUNCE rtsp://h/live/a RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\nContent-Length: "
             "%zu\r\n\r\n%s",
             sizeof sdp - 1, sdp);
    say(rig, request);
    hear(rig, "CSeq: 1\r\n");
}

static void begin_rtsp(struct rig *rig) {
    char request[1024], answer[4096];
    announce(rig);
    say(rig, "SETUP rtsp://h/live/a/streamid=0 RTSP/1.0\r\nCSeq: 2\r\n"
             "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n\r\n");
    size_t length = 0;
    const char *id;
    do {
        turn_through(rig->loop, 1);
        ssize_t n = recv(rig->peer, answer + length, sizeof answer - 1 - length, MSG_DONTWAIT);
        length += n > 0 ? (size_t)n : 0;
        answer[length] = '\0';
    } while (!strstr(answer, "\r\n\r\n") || !(id = strstr(answer, "Session: ")));
    snprintf(request, sizeof request, "RECORD rtsp://h/live/a RTSP/1.0\r\nCSeq: 3\r\n%.*s\r\n\r\n",
             (int)strcspn(id, ";\r\n"), id);
    say(rig, request);
    hear(rig, "CSeq: 3\r\n");
    send_part(rig, 0x80, PACKET);
}

static void go_on_with_unit(struct rig *rig) {
    for (int i = 0; i < 16; i++)
        send_part(rig, 0, PACKET);
}

static void trickle_unit(struct rig *rig, size_t n) {
    send_part(rig, 0, (uint16_t)n);
}

struct kind {
    const struct protocol *protocol;
    void (*begin)(struct rig *rig);
    void (*go_on)(struct rig *rig);
    void (*trickle)(struct rig *rig, size_t n);
};
static const struct kind by_flv = {&flv_protocol, begin_flv, go_on_with_frame, send_bytes};
static const struct kind by_http = {&http_protocol, begin_http, go_on_with_frame, send_bytes};
static const struct kind by_rtsp = {&rtsp_protocol, begin_rtsp, go_on_with_unit, trickle_unit};

/* It goes on with its frame until there is no block for it, and none comes back. */
static void take_all_blocks(struct rig *rig, const struct kind *kind) {
    sluice_loop_stats stats = {.size = sizeof stats};
    do {
        kind->go_on(rig);
        turn_on(rig);
        turn_on(rig);
        while (sluice_block_get(rig->worker->pool, &rig->hoard[rig->hoarded]) == 0)
            rig->hoarded++;
        turn_through(rig->loop, 2);
        sluice_loop_get_stats(rig->loop, &stats);
    } while (stats.waiting == 0 || sluice_pool_available(rig->worker->pool) > 0);
}

static void give_blocks_back(struct rig *rig) {
    while (rig->hoarded > 0)
        sluice_block_release(rig->hoard[--rig->hoarded]);
}

/* Its frame is not whole, and it goes on with it; nobody reads. */
static void check_shortage(const struct kind *kind, const char *const limits[]) {
    struct rig rig;
    rig_open(&rig, kind->protocol, limits);
    kind->begin(&rig);
    while (!is_published(&rig))
        turn_on(&rig);
    take_all_blocks(&rig, kind);
    uint64_t consumed = sluice_chain_consumed(sluice_conn_chain(rig.session->conn));
    pass(&rig, NOT_READ_MS);
    assert_true(is_there(&rig));
    assert_true(is_published(&rig));
    assert_int_equal(sluice_chain_consumed(sluice_conn_chain(rig.session->conn)), consumed);
    assert_int_equal(frames(&rig), 0);
    give_blocks_back(&rig);
    read_all(&rig);
    check_silence_ends_it(&rig, LIMIT_MS);
    rig_close(&rig);
}

static void a_publisher_without_blocks_is_not_silent(void **state) {
    check_shortage(*state, idle);
}

static void a_publisher_without_blocks_is_not_late(void **state) {
    check_shortage(*state, first_data);
}

/* And all that it has sent is published. By RTSP, frames are lost that find no memory for their
 * parts. */
static void nothing_is_lost_for_want_of_blocks(void **state) {
    const struct kind *kind = *state;
    struct rig rig;
    rig_open(&rig, kind->protocol, idle);
    kind->begin(&rig);
    while (!is_published(&rig))
        turn_on(&rig);
    take_all_blocks(&rig, kind);
    pass(&rig, NOT_READ_MS);
    give_blocks_back(&rig);
    end_frame(&rig);
    while (frames(&rig) == 0)
        turn_on(&rig);
    assert_int_equal(frames(&rig), 1);
    check_silence_ends_it(&rig, LIMIT_MS);
    rig_close(&rig);
}

/* ---- Frames that come slowly ---- */

/* At twice and at half the least rate. */
static void a_frame_is_whole_in_time(void **state) {
    const struct kind *kind = *state;
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        struct rig rig;
        rig_open(&rig, kind->protocol, idle);
        kind->begin(&rig);
        while (!is_published(&rig))
            turn_on(&rig);
        for (unsigned passed = 0; passed < (is_slow ? 4 : 10) * LIMIT_MS; passed += TICK_MS) {
            if (is_published(&rig))
                kind->trickle(&rig, is_slow ? 256 : 1024);
            pass(&rig, TICK_MS);
        }
        assert_int_equal(is_published(&rig), !is_slow);
        rig_close(&rig);
    }
}

/* ---- Replies that are not read ---- */

static void ask_options(struct rig *rig) {
    for (int i = 0; i < 20; i++)
        say(rig, "OPTIONS * RTSP/1.0\r\nCSeq: 9\r\n\r\n");
    turn_on(rig);
}

/* Requests of a client that reads no replies wait; the frames of a publisher do not. */
static void a_publisher_that_reads_no_replies_is_read(void **state) {
    enum { OWED = 32 << 10 };
    struct rig rig;
    (void)state;
    rig_open(&rig, &rtsp_protocol, idle);
    sockets_hold_little(sluice_conn_fd(rig.session->conn), rig.peer);
    begin_rtsp(&rig);
    while (rig.session->type->owes(rig.session) < OWED)
        ask_options(&rig);
    send_part(&rig, 0x40, PACKET);
    while (frames(&rig) == 0)
        turn_on(&rig);
    assert_int_equal(sluice_chain_length(sluice_conn_chain(rig.session->conn)), 0);
    rig_close(&rig);
}

/* It is not read by its own fault: that its first frame does not come counts. */
static void who_reads_no_replies_is_late(void **state) {
    enum { PIPELINE = 65536 };
    struct rig rig;
    (void)state;
    rig_open(&rig, &rtsp_protocol, first_data);
    sockets_hold_little(sluice_conn_fd(rig.session->conn), rig.peer);
    announce(&rig);
    while (sluice_chain_length(sluice_conn_chain(rig.session->conn)) <= PIPELINE)
        ask_options(&rig);
    assert_in_range(rig.session->type->owes(rig.session), PIPELINE / 4, PIPELINE / 2);
    pass(&rig, LIMIT_MS - 2 * TICK_MS);
    assert_true(is_there(&rig));
    pass(&rig, LIMIT_MS + 4 * TICK_MS);
    assert_false(is_there(&rig));
    rig_close(&rig);
}

/* It has requests left, which wait for replies to be taken. */
static void who_has_ended_and_takes_nothing_ends(void **state) {
    enum { PIPELINE = 65536, TAKING_MS = 10000 };
    struct rig rig;
    (void)state;
    rig_open(&rig, &rtsp_protocol, idle);
    sockets_hold_little(sluice_conn_fd(rig.session->conn), rig.peer);
    while (rig.session->type->owes(rig.session) <= PIPELINE / 4)
        ask_options(&rig);
    ask_options(&rig);
    assert_int_equal(shutdown(rig.peer, SHUT_WR), 0);
    pass(&rig, TAKING_MS - 2 * TICK_MS);
    assert_true(is_there(&rig));
    pass(&rig, 4 * TICK_MS);
    assert_false(is_there(&rig));
    rig_close(&rig);
}

/* ---- A hook that is asked about a publisher ---- */

static void come_back(void *user) {
    struct hook_query *job = user;
    job->granted = true;
    job->done(job);
}

/* Not paused, since little has come: its time begins with the answer. */
static void check_hook(const char *const limits[]) {
    struct rig rig;
    rig_open(&rig, &flv_protocol, limits);
    turn_through(rig.loop, 5);
    assert_non_null(rig.asked);
    pass(&rig, NOT_READ_MS);
    sluice_loop_post_call(rig.asked->loop, &rig.asked->call, come_back, rig.asked);
    turn_through(rig.loop, 2);
    pass(&rig, LIMIT_MS - TICK_MS);
    assert_true(is_there(&rig));
    begin_frame(&rig);
    end_frame(&rig);
    while (frames(&rig) == 0)
        turn_on(&rig);
    rig_close(&rig);
}

static void a_wait_for_a_hook_is_no_silence(void **state) {
    static const char *const limits[] = {
        "--hook-publish", "http://127.0.0.1:9/", "--idle", "2", "--first-data", "600", NULL};
    (void)state;
    check_hook(limits);
}

static void a_wait_for_a_hook_is_no_delay(void **state) {
    static const char *const limits[] = {
        "--hook-publish", "http://127.0.0.1:9/", "--idle", "600", "--first-data", "2", NULL};
    (void)state;
    check_hook(limits);
}

/* ---- Requests and messages, and connections that are paused ---- */

static const char *const no_limits[] = {NULL};

/* The head of a request is not read for longer than it may take, and then whole, or not. */
static void check_request(const struct protocol *protocol, const char *begin, const char *answer, const char *late) {
    for (int is_late = 0; is_late < 2; is_late++) {
        struct rig rig;
        rig_open(&rig, protocol, no_limits);
        say(&rig, begin);
        while (sluice_chain_length(sluice_conn_chain(rig.session->conn)) == 0)
            turn_on(&rig);
        assert_int_equal(rig.worker->holdings.charged, sluice_chain_footprint(sluice_conn_chain(rig.session->conn)));
        pass(&rig, MESSAGE_MS - 2 * TICK_MS);
        sluice_conn_pause(rig.session->conn);
        pass(&rig, MESSAGE_MS + 2 * TICK_MS);
        assert_true(is_there(&rig));
        sluice_conn_resume(rig.session->conn);
        turn_through(rig.loop, 5);
        pass(&rig, MESSAGE_MS - 2 * TICK_MS);
        assert_true(is_there(&rig));
        if (is_late)
            pass(&rig, 4 * TICK_MS);
        else
            say(&rig, "\r\n");
        hear(&rig, is_late ? late : answer);
        rig_close(&rig);
    }
}

static void an_http_head_that_is_not_read_is_not_late(void **state) {
    (void)state;
    check_request(&http_protocol, "OPTIONS /live/a.flv HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 204 ", "HTTP/1.1 408 ");
}

static void an_rtsp_request_that_is_not_read_is_not_late(void **state) {
    (void)state;
    check_request(&rtsp_protocol, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n", "RTSP/1.0 200 ", "RTSP/1.0 408 ");
}

/* Of a message that is not whole nothing is held, for nobody reads it. */
static void a_websocket_message_that_is_not_read_is_not_late(void **state) {
    static const uint8_t message[8 + 4000] = {0x82, 0xfe, 0x10, 0x00};
    static const char upgrade[] = "GET /live/a.flv HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    struct rig rig;
    (void)state;
    rig_open(&rig, &http_protocol, no_limits);
    say(&rig, upgrade);
    send_whole(&rig, message, sizeof message);
    const sluice_chain *chain = sluice_conn_chain(rig.session->conn);
    read_all(&rig);
    assert_int_equal(sluice_chain_length(chain), 0);
    assert_int_equal(rig.worker->holdings.charged, 0);
    pass(&rig, MESSAGE_MS - 2 * TICK_MS);
    sluice_conn_pause(rig.session->conn);
    pass(&rig, MESSAGE_MS + 2 * TICK_MS);
    assert_true(is_there(&rig));
    sluice_conn_resume(rig.session->conn);
    turn_through(rig.loop, 5);
    pass(&rig, MESSAGE_MS - 2 * TICK_MS);
    assert_true(is_there(&rig));
    pass(&rig, 4 * TICK_MS);
    assert_false(is_there(&rig));
    rig_close(&rig);
}

/*
 * A player whose request has used up its share of a turn, among others with work left, waits for a
 * publisher: it is read on, and nobody waits for it.
 */
static void check_leaving(const struct protocol *protocol, const char *request) {
    struct rig rig;
    rig_open(&rig, protocol, no_limits);
    rig.worker->turn = (struct budget_turn){.at = worker_now(rig.worker), .waiting = 2};
    say(&rig, request);
    while (rig.worker->registry->count == 0)
        turn_on(&rig);
    assert_int_equal(rig.worker->turn.at, worker_now(rig.worker));
    turn_through(rig.loop, 5);
    assert_true(is_there(&rig));
    assert_int_equal(rig.worker->turn.waiting, 2);
    shutdown(rig.peer, SHUT_WR);
    for (unsigned turns = 0; rig.worker->session_count > 0; turns++) {
        turn_through(rig.loop, 1);
        assert_true(turns < PATIENCE);
    }
    rig_close(&rig);
}

static void an_rtsp_player_that_waits_may_leave(void **state) {
    (void)state;
    check_leaving(&rtsp_protocol, "DESCRIBE rtsp://h/live/a RTSP/1.0\r\nCSeq: 1\r\n\r\n");
}

static void an_http_player_that_waits_may_leave(void **state) {
    (void)state;
    check_leaving(&http_protocol, "GET /live/a.flv HTTP/1.1\r\nHost: h\r\n\r\n");
}

/* clang-format off */
#define OF_KIND(test, kind) {#test ": " #kind, test, NULL, NULL, (void *)&by_##kind}
#define OF_KINDS(test) OF_KIND(test, flv), OF_KIND(test, http), OF_KIND(test, rtsp)
/* clang-format on */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_at_first_is_silence_in_time),
        OF_KINDS(a_publisher_without_blocks_is_not_silent),
        OF_KINDS(a_publisher_without_blocks_is_not_late),
        OF_KIND(nothing_is_lost_for_want_of_blocks, flv),
        OF_KIND(nothing_is_lost_for_want_of_blocks, http),
        OF_KINDS(a_frame_is_whole_in_time),
        cmocka_unit_test(a_publisher_that_reads_no_replies_is_read),
        cmocka_unit_test(who_reads_no_replies_is_late),
        cmocka_unit_test(who_has_ended_and_takes_nothing_ends),
        cmocka_unit_test(a_wait_for_a_hook_is_no_silence),
        cmocka_unit_test(a_wait_for_a_hook_is_no_delay),
        cmocka_unit_test(an_http_head_that_is_not_read_is_not_late),
        cmocka_unit_test(an_rtsp_request_that_is_not_read_is_not_late),
        cmocka_unit_test(an_rtsp_player_that_waits_may_leave),
        cmocka_unit_test(an_http_player_that_waits_may_leave),
        cmocka_unit_test(a_websocket_message_that_is_not_read_is_not_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
