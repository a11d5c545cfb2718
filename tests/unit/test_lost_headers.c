/*
 * Decoders' headers that find no memory: whether the publisher has to send them again, and that
 * players that know no tracks get theirs later. No connections: what would be sent is taken.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"
#include "daemon/relay/stream.h"
#include "support/feed.h"
#include "support/publishing.h"
#include "support/sockets.h"
#include "support/taking.h"

enum {
    GUARD = 100,
    BLOCK = 4096,
    BLOCKS = 512,
    RESERVE = 32,
    LARGE = 70000, /* bytes of a header that has no digest */
    AROUND = SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE,
    NO_TRACK = 256,
};

static int role_without_memory = -1;
static unsigned with_memory;                     /* packets of that role before */
static unsigned track_without_memory = NO_TRACK; /* for its part of a tag */

void __wrap_sluice_conn_want_send(sluice_conn *conn);
struct packet *__real_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload);
struct packet *__wrap_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload);
int __real_track_payload_make(struct track_payloads *payloads, sluice_flv_type type, const sluice_flv_track *track,
                              bool alone, sluice_slice *ret_payload, sluice_flv_view *ret_view);
int __wrap_track_payload_make(struct track_payloads *payloads, sluice_flv_type type, const sluice_flv_track *track,
                              bool alone, sluice_slice *ret_payload, sluice_flv_view *ret_view);

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

struct packet *__wrap_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload) {
    bool fails = (int)role == role_without_memory && with_memory == 0;
    with_memory -= (int)role == role_without_memory && with_memory > 0;
    return fails ? NULL : __real_packet_new(pool, tag, role, timestamp, payload);
}

int __wrap_track_payload_make(struct track_payloads *payloads, sluice_flv_type type, const sluice_flv_track *track,
                              bool alone, sluice_slice *ret_payload, sluice_flv_view *ret_view) {
    return track->id == track_without_memory
               ? -ENOBUFS
               : __real_track_payload_make(payloads, type, track, alone, ret_payload, ret_view);
}

typedef struct lost_rig {
    loop_rig loop;
    struct registry *registry;
    struct stream *stream;
    sluice_chain *chain;
    sluice_flv *flv;
    unsigned next; /* tag */
} lost_rig;

static int rig_open(void **state) {
    static lost_rig rig;
    static const struct stream_policies policies = {
        .all = {.gop_size = 1 << 20, .player_buffer = 1 << 20, .frame_limit = 1 << 20}};
    const struct stream_limits limits = {.packet_bytes = 4 << 20, .policies = &policies};
    rig = (lost_rig){0};
    log_set_level(LOG_ERROR);
    loop_rig_open_small(&rig.loop, BLOCK, BLOCKS, RESERVE, GUARD);
    assert_int_equal(registry_new(rig.loop.loop, &limits, &rig.registry), 0);
    assert_int_equal(registry_get(rig.registry, "live/a", 6, 1, &rig.stream), 0);
    publishing_begin(rig.stream, rig.loop.pool, &rig.chain, &rig.flv);
    *state = &rig;
    return 0;
}

static int rig_close(void **state) {
    lost_rig *rig = *state;
    role_without_memory = -1;
    with_memory = 0;
    track_without_memory = NO_TRACK;
    sluice_chain_free(rig->chain);
    sluice_flv_free(rig->flv);
    stream_detach(rig->stream, 1);
    stream_unref(rig->stream);
    registry_free(rig->registry);
    loop_rig_close(&rig->loop);
    return 0;
}

/* One tag of video; what came of it. */
static int publish(lost_rig *rig, const uint8_t *payload, uint32_t size) {
    uint8_t before[SLUICE_FLV_TAG_HEADER_SIZE], behind[SLUICE_FLV_TRAILER_SIZE];
    sluice_flv_tag *tag;
    sluice_flv_write_tag_header(before, SLUICE_FLV_VIDEO, size, rig->next++ * 40);
    sluice_flv_write_trailer(behind, size);
    feed(rig->chain, rig->loop.pool, before, sizeof before, 0);
    feed(rig->chain, rig->loop.pool, payload, size, 0);
    feed(rig->chain, rig->loop.pool, behind, sizeof behind, 0);
    assert_int_equal(sluice_flv_next(rig->flv, rig->chain, &tag), 1);
    return stream_publish(rig->stream, tag, SLUICE_FLV_HAS_VIDEO);
}

/* A tag of two tracks, with FourCCs of their own: 0 and another, each of so many bytes of data, all
 * the same. */
struct two_tracks {
    bool is_frame;
    const char *codecs[2];
    uint8_t other;
    uint8_t bytes[2];
};

static int publish_two(lost_rig *rig, const struct two_tracks *tracks) {
    enum { TRACK = 4 + 1 + 3, DATA = 10, SEVERAL_CODECS = 0x20, KEY_OF_TRACKS = 0x96 };
    uint8_t payload[2 + 2 * (TRACK + DATA)] = {KEY_OF_TRACKS, SEVERAL_CODECS | (tracks->is_frame ? 3 : 0)};
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *at = payload + 2 + i * (TRACK + DATA);
        memcpy(at, tracks->codecs[i], 4);
        at[4] = i == 0 ? 0 : tracks->other;
        at[7] = DATA;
        memset(at + TRACK, tracks->bytes[i], DATA);
    }
    return publish(rig, payload, sizeof payload);
}

/* A header's form for players that know no tracks finds no memory: it is made before the next key
 * frame. */
static void a_form_without_tracks_is_made_later(void **state) {
    static const uint8_t header[] = {0x90, 'a', 'v', 'c', '1', 1, 2, 3}, other[] = {0x90, 'a', 'v', 'c', '1', 3, 2, 1},
                         key[] = {0x93, 'a', 'v', 'c', '1', 1, 1, 1}, inter[] = {0xa3, 'a', 'v', 'c', '1', 1, 1, 1};
    enum { TAG = AROUND + sizeof key }; /* as large without a FourCC */
    lost_rig *rig = *state;
    struct player player = {.form.format = &wire_flv, .alone = true};
    stream_add_player(rig->stream, &player);
    assert_int_equal(publish(rig, header, sizeof header), 0);
    assert_int_equal(publish(rig, key, sizeof key), 0);
    take_queued(&player);
    assert_int_equal(player.bytes_sent, 2 * TAG);
    role_without_memory = PACKET_VIDEO_HEADER;
    with_memory = 1;
    assert_int_equal(publish(rig, other, sizeof other), 0);
    assert_int_equal(player.state, PLAYER_BEHIND);
    /* Nor with the next key frame. */
    assert_int_equal(publish(rig, key, sizeof key), 0);
    assert_int_equal(publish(rig, inter, sizeof inter), 0);
    take_queued(&player);
    assert_int_equal(player.bytes_sent, 2 * TAG);
    role_without_memory = -1;
    assert_int_equal(publish(rig, inter, sizeof inter), 0);
    assert_int_equal(publish(rig, key, sizeof key), 0);
    assert_int_equal(publish(rig, inter, sizeof inter), 0);
    take_queued(&player);
    assert_int_equal(player.bytes_sent, (2 + 3) * TAG);
    stream_remove_player(rig->stream, &player);
    player_clear(&player);
}

/* A header too large to have a digest is compared all the same. */
static void a_large_header_is_compared(void **state) {
    lost_rig *rig = *state;
    uint8_t *header = calloc(1, LARGE);
    assert_non_null(header);
    header[0] = 0x17;
    header[LARGE - 1] = 1;
    assert_int_equal(publish(rig, header, LARGE), 0);
    role_without_memory = PACKET_VIDEO_HEADER;
    assert_int_equal(publish(rig, header, LARGE), -ENOMEM);
    assert_int_equal(publish(rig, header, LARGE - 1), -ENOTRECOVERABLE);
    header[LARGE - 1] = 2;
    assert_int_equal(publish(rig, header, LARGE), -ENOTRECOVERABLE);
    free(header);
}

/* What is in more pieces than are looked at is not known to be the same. */
static void a_header_in_many_pieces_is_another(void **state) {
    enum { SIZE = 64 * BLOCK + 1 };
    lost_rig *rig = *state;
    uint8_t *header = calloc(1, SIZE);
    assert_non_null(header);
    header[0] = 0x17;
    assert_int_equal(publish(rig, header, SIZE), 0);
    role_without_memory = PACKET_VIDEO_HEADER;
    assert_int_equal(publish(rig, header, SIZE), -ENOTRECOVERABLE);
    free(header);
}

/* A tag of several tracks whose parts find no memory: each header is compared with the one in
 * force, by its codec and its bytes. */
static void a_header_among_others_is_compared(void **state) {
    lost_rig *rig = *state;
    struct two_tracks headers = {.codecs = {"avc1", "avc1"}, .other = 1, .bytes = {1, 2}};
    assert_int_equal(publish_two(rig, &headers), 0);
    track_without_memory = 1;
    assert_int_equal(publish_two(rig, &headers), -ENOMEM);
    headers.bytes[0] = 3; /* the other track's, which has memory */
    assert_int_equal(publish_two(rig, &headers), -ENOMEM);
    headers.bytes[1] = 3;
    assert_int_equal(publish_two(rig, &headers), -ENOTRECOVERABLE);
    headers.bytes[1] = 2;
    headers.codecs[1] = "hvc1";
    assert_int_equal(publish_two(rig, &headers), -ENOTRECOVERABLE);
    const struct two_tracks frames = {.is_frame = true, .codecs = {"avc1", "avc1"}, .other = 1};
    assert_int_equal(publish_two(rig, &frames), -ENOMEM);
    assert_int_equal(rig->stream->frames_dropped, 5);
}

/* Nothing is lost with what is of a track that is not taken. */
static void a_track_beyond_the_others_is_not_lost(void **state) {
    lost_rig *rig = *state;
    struct two_tracks headers = {.codecs = {"avc1", "avc1"}}, frames = headers;
    frames.is_frame = true;
    for (headers.other = 1; headers.other < TRACKS_MOST; headers.other++)
        assert_int_equal(publish_two(rig, &headers), 0);
    track_without_memory = frames.other = headers.other;
    assert_int_equal(publish_two(rig, &headers), 0);
    assert_int_equal(rig->stream->beyond_tracks, 0);
    assert_int_equal(publish_two(rig, &frames), 0);
    assert_int_equal(rig->stream->beyond_tracks, 1);
    assert_int_equal(rig->stream->frames_dropped, 0);
    /* As with memory. */
    track_without_memory = NO_TRACK;
    assert_int_equal(publish_two(rig, &headers), 0);
    assert_int_equal(publish_two(rig, &frames), 0);
    assert_int_equal(rig->stream->beyond_tracks, 2);
    assert_int_equal(rig->stream->frames_dropped, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_form_without_tracks_is_made_later, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(a_large_header_is_compared, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(a_header_in_many_pieces_is_another, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(a_header_among_others_is_compared, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(a_track_beyond_the_others_is_not_lost, rig_open, rig_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
