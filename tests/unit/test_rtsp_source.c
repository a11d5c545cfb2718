/* What comes by RTP and finds no memory on its way to the stream: a player has to know of it, as of
 * any other loss. */
#include "daemon/protocols/rtsp/rtsp_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/config/options.h"
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

struct server;
const void *__wrap_server_cluster_self(const struct server *server);

/* The worker is no server's. */
const void *__wrap_server_cluster_self(const struct server *server) {
    (void)server;
    return NULL;
}

typedef struct source_rig {
    loop_rig loop;
    struct options *options;
    struct worker worker;
    struct session session;
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
    rig->player.form.format = &wire_flv;
    stream_add_player(rig->stream, &rig->player);
}

static void rig_close(source_rig *rig) {
    stream_remove_player(rig->stream, &rig->player);
    player_clear(&rig->player);
    rtsp_source_end(&rig->source, 0, sluice_loop_now(rig->loop.loop));
    rtsp_source_clear(&rig->source);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
