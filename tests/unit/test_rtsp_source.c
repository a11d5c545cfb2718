/*
 * What comes by RTP and finds no memory on its way to the stream: a player has to know of it, as of
 * any other loss. Sessions that are evicted for it are others than those that are being called.
 */
#include "daemon/protocols/rtsp/rtsp_source.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/config/options.h"
#include "daemon/server/server.h"
#include "support/feed.h"
#include "support/http_feed.h"
#include "support/sockets.h"
#include "support/taking.h"

enum { GUARD = 60, BLOCK = 4096, BLOCKS = 256, RESERVE = 16, CLOCK = 90, STEP = 40, FRAGMENTS = 20 };

enum { KEY = 0x65, OTHER = 0x41, FU_A = 0x7c, BEGINS = 0x80, ENDS = 0x40, MARKER = 0x80 };

static const char description[] = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
                                  "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;"
                                  "sprop-parameter-sets=Z0LACtoPCmk=,aM48gA==\r\na=control:trackID=0\r\n";

static bool refuses;

void *__real_reallocarray(void *memory, size_t count, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
void __wrap_sluice_conn_want_send(sluice_conn *conn);

void *__wrap_reallocarray(void *memory, size_t count, size_t size) {
    return refuses ? NULL : __real_reallocarray(memory, count, size);
}

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

const void *__wrap_server_cluster_self(const struct server *server);

/* The worker is no server's. */
const void *__wrap_server_cluster_self(const struct server *server) {
    (void)server;
    return NULL;
}

void __wrap_server_count_reject(struct server *server, enum reject_cause cause);
sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn);
int __wrap_sluice_conn_set_receive_interval(sluice_conn *conn, uint32_t milliseconds);

void __wrap_server_count_reject(struct server *server, enum reject_cause cause) {
    (void)server;
    assert_int_equal(cause, REJECT_MEMORY);
}

/* Of a publisher that gets a player. */
int __wrap_sluice_conn_set_receive_interval(sluice_conn *conn, uint32_t milliseconds) {
    (void)conn;
    (void)milliseconds;
    return 0;
}

/* A session's connection is its chain, from which all has been read. */
sluice_chain *__wrap_sluice_conn_chain(sluice_conn *conn) {
    return (sluice_chain *)(void *)conn;
}

/* Another session, which holds blocks. */
typedef struct holder {
    struct session session;
    sluice_block *blocks[BLOCKS];
    uint32_t count;
    unsigned evicted;
} holder;

typedef struct source_rig {
    loop_rig loop;
    struct options *options;
    struct worker worker;
    struct session session;
    unsigned evicted;
    holder other;
    sluice_chain *nothing; /* of both connections */
    struct rtsp_source source;
    struct stream *stream;
    struct player player;
    uint16_t sequence;
    uint32_t time;
} source_rig;

static void claimed(struct session *session, int error) {
    (void)session, (void)error;
}

static void rig_open(source_rig *rig) {
    static const struct stream_policies policies = {
        .all = {.gop_size = 64 * BLOCK, .player_buffer = 1 << 20, .frame_limit = 1 << 20}};
    const struct stream_limits limits = {.packet_bytes = 1 << 20, .policies = &policies};
    *rig = (source_rig){0};
    log_set_level(LOG_ERROR);
    loop_rig_open_small(&rig->loop, BLOCK, BLOCKS, RESERVE, GUARD);
    rig->options = options_new();
    rig->worker = (struct worker){.pool = rig->loop.pool, .loop = rig->loop.loop, .options = rig->options};
    assert_int_equal(registry_new(rig->loop.loop, &limits, &rig->worker.registry), 0);
    rig->session.worker = &rig->worker;
    sluice_chain *chain = http_feed_chain(rig->loop.pool);
    sluice_slice body;
    feed(chain, rig->loop.pool, (const uint8_t *)description, sizeof description - 1, 0);
    assert_int_equal(sluice_chain_take(chain, sizeof description - 1, &body), 0);
    assert_int_equal(
        rtsp_source_describe(&rig->source, &body, &rig->worker, (sluice_http_text){"live/a", strlen("live/a")}), 0);
    sluice_slice_release(&body);
    sluice_chain_free(chain);
    assert_int_equal(
        rtsp_source_publish(&rig->source, &rig->session, (sluice_http_text){"live/a", strlen("live/a")}, claimed), 0);
    rig->stream = registry_find(rig->worker.registry, "live/a");
    rig->stream->references++;
    rig->player.form.format = &wire_flv;
    stream_add_player(rig->stream, &rig->player);
}

static void rig_close(source_rig *rig) {
    stream_remove_player(rig->stream, &rig->player);
    player_clear(&rig->player);
    rtsp_source_end(&rig->source, 0, sluice_loop_now(rig->loop.loop));
    rtsp_source_clear(&rig->source);
    stream_unref(rig->stream);
    registry_free(rig->worker.registry);
    options_unref(rig->options);
    loop_rig_close(&rig->loop);
}

static void packet(source_rig *rig, bool marker, const uint8_t *payload, size_t n) {
    static const struct rtsp_channel channels[1] = {{.set_up = true, .rtp = 0, .rtcp = 1, .has_rtcp = true}};
    const uint8_t head[] = {0x80,
                            (uint8_t)(96 | (marker ? MARKER : 0)),
                            (uint8_t)(rig->sequence >> 8),
                            (uint8_t)rig->sequence,
                            (uint8_t)(rig->time >> 24),
                            (uint8_t)(rig->time >> 16),
                            (uint8_t)(rig->time >> 8),
                            (uint8_t)rig->time,
                            0,
                            0,
                            0,
                            1};
    sluice_rtsp_message message = {.kind = SLUICE_RTSP_INTERLEAVED};
    sluice_chain *chain = http_feed_chain(rig->loop.pool);
    feed(chain, rig->loop.pool, head, sizeof head, 0);
    feed(chain, rig->loop.pool, payload, n, 0);
    assert_int_equal(sluice_chain_take(chain, sizeof head + n, &message.payload), 0);
    assert_true(rtsp_source_frame(&rig->source, channels, &message));
    sluice_slice_release(&message.payload);
    sluice_chain_free(chain);
    rig->sequence++;
}

static void picture(source_rig *rig, uint8_t type) {
    const uint8_t nal[] = {type, 1, 2, 3, 4, 5, 6, 7};
    packet(rig, true, nal, sizeof nal);
    rig->time += STEP * CLOCK;
}

/* One of more pieces than the frames before. */
static void picture_of_many_pieces(source_rig *rig) {
    for (int i = 0; i < FRAGMENTS; i++) {
        const uint8_t at = (uint8_t)((i == 0 ? BEGINS : 0) | (i == FRAGMENTS - 1 ? ENDS : 0));
        const uint8_t fragment[] = {FU_A, (uint8_t)(at | (OTHER & 31)), 1, 2, 3, 4};
        packet(rig, i == FRAGMENTS - 1, fragment, sizeof fragment);
    }
    rig->time += STEP * CLOCK;
}

/* Sessions that are evicted. */

static bool publishes(const struct session *session) {
    (void)session;
    return true;
}

/* More than any other, so that it is the first to go. */
static size_t rig_held(const struct session *session) {
    (void)session;
    return (size_t)BLOCKS * BLOCK;
}

static void rig_evict(struct session *session) {
    source_rig *rig = (source_rig *)(void *)((char *)session - offsetof(source_rig, session));
    rig->evicted++;
    rtsp_source_end(&rig->source, -ENOBUFS, sluice_loop_now(rig->loop.loop));
}

static size_t other_held(const struct session *session) {
    return (size_t)((const holder *)(const void *)session)->count * BLOCK;
}

static void other_release(holder *other) {
    while (other->count > 0)
        sluice_block_release(other->blocks[--other->count]);
}

static void other_evict(struct session *session) {
    holder *other = (holder *)(void *)session;
    other->evicted++;
    other_release(other);
}

static void rig_open_with_another(source_rig *rig) {
    static const struct session_type type = {
        .protocol = "rtsp", .publishes = publishes, .held = rig_held, .evict = rig_evict};
    static const struct session_type other_type = {
        .protocol = "rtsp", .publishes = publishes, .held = other_held, .evict = other_evict};
    rig_open(rig);
    rig->nothing = http_feed_chain(rig->loop.pool);
    rig->session.type = &type;
    rig->other.session.type = &other_type;
    rig->other.session.worker = &rig->worker;
    rig->session.conn = rig->other.session.conn = (sluice_conn *)(void *)rig->nothing;
    rig->session.next = &rig->other.session;
    rig->worker.sessions = &rig->session;
    holdings_init(&rig->worker.holdings, (uint64_t)BLOCKS * BLOCK);
    holdings_watch(&rig->worker);
}

static void rig_close_with_another(source_rig *rig) {
    other_release(&rig->other);
    sluice_chain_free(rig->nothing);
    rig_close(rig);
}

/* The other session takes all but half of the reserve: what no frame may be kept in. */
static void hold_all(source_rig *rig) {
    holder *other = &rig->other;
    while (sluice_pool_available(rig->loop.pool) > RESERVE / 2)
        assert_int_equal(sluice_block_get(rig->loop.pool, &other->blocks[other->count++]), 0);
}

/* A picture that may have more slices. */
static void begin_picture(source_rig *rig) {
    const uint8_t nal[] = {KEY, 1, 2, 3, 4};
    packet(rig, false, nal, sizeof nal);
}

/* The last frame of a publisher that ends, which may be inside any other session's call, is lost
 * where it finds no memory. */
static void the_last_frame_evicts_nobody(void **state) {
    source_rig rig;
    (void)state;
    rig_open_with_another(&rig);
    begin_picture(&rig);
    hold_all(&rig);
    rtsp_source_end(&rig.source, 0, sluice_loop_now(rig.loop.loop));
    assert_null(rig.source.publisher);
    assert_int_equal(rig.stream->frames_dropped, 1);
    assert_int_equal(rig.evicted, 0);
    assert_int_equal(rig.other.evicted, 0);
    rig_close_with_another(&rig);
}

/* One that is evicted publishes nothing more, and gives back at once what it held. */
static void an_evicted_publisher_holds_nothing(void **state) {
    source_rig rig;
    (void)state;
    rig_open_with_another(&rig);
    uint32_t before = sluice_pool_available(rig.loop.pool);
    begin_picture(&rig);
    assert_true(sluice_pool_available(rig.loop.pool) < before);
    session_evict(&rig.session);
    assert_int_equal(rig.evicted, 1);
    assert_null(rig.source.publisher);
    assert_int_equal(sluice_pool_available(rig.loop.pool), before);
    assert_int_equal(rig.stream->video_frames + rig.stream->frames_dropped, 0);
    rig_close_with_another(&rig);
}

static source_rig *settling;

/* A session that waited for the stream is called, and reads. */
static void known(struct player *player) {
    player->state = PLAYER_PAUSED;
    budget_begin(&settling->other.session);
    budget_rest(&settling->other.session);
}

/* Another session has been called inside the publisher's call: the publisher is still in the middle
 * of it, and stays, though it holds the most. */
static void the_publisher_that_is_read_stays(void **state) {
    source_rig rig;
    struct player waiting = {.form.format = &wire_flv, .known = known};
    (void)state;
    rig_open_with_another(&rig);
    settling = &rig;
    stream_add_asking(rig.stream, &waiting);
    budget_begin(&rig.session);
    picture(&rig, KEY);
    assert_int_equal(waiting.state, PLAYER_PAUSED);
    take_queued(&rig.player);
    hold_all(&rig);
    picture(&rig, OTHER);
    assert_int_equal(rig.evicted, 0);
    assert_int_equal(rig.other.evicted, 1);
    /* Its blocks are what the frame is kept by. */
    assert_int_equal(rig.stream->frames_dropped, 0);
    assert_int_equal(rig.stream->video_frames, 2);
    stream_remove_player(rig.stream, &waiting);
    player_clear(&waiting);
    rig_close_with_another(&rig);
}

static void a_frame_without_memory_is_a_gap_up_to_the_next_key_frame(void **state) {
    source_rig rig;
    (void)state;
    rig_open(&rig);
    picture(&rig, KEY);
    picture(&rig, OTHER);
    assert_int_equal(rig.player.state, PLAYER_PLAYING);
    take_queued(&rig.player);
    uint64_t sent = rig.player.packets_sent;
    assert_true(sent >= 2);
    refuses = true;
    picture_of_many_pieces(&rig);
    refuses = false;
    assert_int_equal(rig.stream->frames_dropped, 1);
    /* It refers to what is missing. */
    picture(&rig, OTHER);
    assert_int_equal(rig.player.state, PLAYER_BEHIND);
    assert_int_equal(rig.player.count, 0);
    assert_int_equal(rig.stream->gop.count, 0);
    picture(&rig, KEY);
    picture(&rig, OTHER);
    assert_int_equal(rig.player.state, PLAYER_PLAYING);
    take_queued(&rig.player);
    /* Both; the decoder's header has been sent. */
    assert_int_equal(rig.player.packets_sent, sent + 2);
    rig_close(&rig);
}

static void a_frame_that_finds_memory_is_none(void **state) {
    source_rig rig;
    (void)state;
    rig_open(&rig);
    picture(&rig, KEY);
    picture_of_many_pieces(&rig);
    picture(&rig, OTHER);
    assert_int_equal(rig.stream->frames_dropped, 0);
    assert_int_equal(rig.stream->video_frames, 3);
    assert_int_equal(rig.player.state, PLAYER_PLAYING);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_without_memory_is_a_gap_up_to_the_next_key_frame),
        cmocka_unit_test(a_frame_that_finds_memory_is_none),
        cmocka_unit_test(the_last_frame_evicts_nobody),
        cmocka_unit_test(an_evicted_publisher_holds_nothing),
        cmocka_unit_test(the_publisher_that_is_read_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
