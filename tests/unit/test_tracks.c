/*
 * Tracks, their headers and versions, what a group begins with, and what players are sent of it:
 * each bound, and one step beyond.
 */
#include "daemon/relay/tracks.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/relay/gop.h"
#include "daemon/relay/player.h"
#include "daemon/relay/stream.h"
#include "daemon/relay/track_payload.h"
#include "support/slices.h"
#include "support/taking.h"

enum { BLOCK = 4096, BLOCKS = 1024, LIMIT = 16 << 20, NOW = 1000000 };

void __wrap_sluice_conn_want_send(sluice_conn *conn);

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

static bool refuses; /* memory */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return refuses ? NULL : __real_calloc(count, size);
}

typedef struct tracks_rig {
    sluice_pool *pool;
    struct packet_pool *packets;
    struct stream stream;
    struct player player;
    uint32_t time;
} tracks_rig;

static void rig_open(tracks_rig *rig) {
    static const sluice_pool_options options = {
        .size = sizeof options, .block_size = BLOCK, .slab_blocks = 64, .max_blocks = BLOCKS, .no_huge_pages = true};
    *rig = (tracks_rig){.player = {.form.format = &wire_flv, .limit = LIMIT}};
    rig->player.stream = &rig->stream;
    assert_int_equal(sluice_pool_new(&options, &rig->pool), 0);
    assert_int_equal(packet_pool_new(UINT64_MAX, &rig->packets), 0);
}

static void rig_close(tracks_rig *rig) {
    player_clear(&rig->player);
    gop_clear(&rig->stream.gop);
    stream_headers_clear(&rig->stream.headers);
    packet_pool_free(rig->packets);
    feed_assert_returned(rig->pool);
    sluice_pool_free(rig->pool);
}

/* A packet of a track whose payload is this byte; a header of this version. */
static struct packet *make(tracks_rig *rig, enum packet_role role, unsigned track, uint8_t byte) {
    bool is_audio = role == PACKET_AUDIO || role == PACKET_AUDIO_HEADER;
    const sluice_flv_tag tag = {.type = is_audio ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO};
    sluice_slice payload = slice_of(rig->pool, &byte, 1, 0);
    struct packet *packet = packet_new(rig->packets, &tag, role, rig->time++, &payload);
    assert_non_null(packet);
    packet->track = (uint8_t)track;
    packet_set_version(packet, byte);
    packet->received_at = NOW;
    return packet;
}

/* To the group, the headers and the player. */
static void publish(tracks_rig *rig, enum packet_role role, unsigned track, uint8_t byte) {
    struct packet *packet = make(rig, role, track, byte);
    assert_int_equal(stream_headers_set(&rig->stream.headers, packet), 0);
    gop_add(&rig->stream.gop, packet, &rig->stream.headers, BLOCKS);
    if (rig->player.begun)
        player_push(&rig->player, packet, &rig->stream.headers, true);
    packet_unref(packet);
}

static void publish_key_of(tracks_rig *rig, unsigned track, uint8_t byte) {
    struct packet *packet = make(rig, PACKET_VIDEO, track, byte);
    packet->key_frame = true;
    gop_add(&rig->stream.gop, packet, &rig->stream.headers, BLOCKS);
    player_push(&rig->player, packet, &rig->stream.headers, true);
    packet_unref(packet);
}

static void start(tracks_rig *rig) {
    player_start(&rig->player, NOW, SLUICE_FLV_HAS_VIDEO, &rig->stream.gop, &rig->stream.headers, true);
}

/* What is queued, by its bytes. */
static void assert_queued(const tracks_rig *rig, const char *expected) {
    const struct player *player = &rig->player;
    char got[64] = "";
    assert_true(player->count < sizeof got);
    for (size_t i = 0; i < player->count; i++) {
        const struct packet *packet = player->queue[(player->first + i) & (player->capacity - 1)];
        assert_int_equal(slice_bytes(&packet->payload, (uint8_t *)got + i, 1), 1);
    }
    assert_string_equal(got, expected);
}

static void a_group_begins_with_the_header_of_its_key_frame(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'A');
    publish(&rig, PACKET_AUDIO_HEADER, 0, 'a');
    publish(&rig, PACKET_KEY_FRAME, 0, '1');
    publish(&rig, PACKET_VIDEO, 0, '2');
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'B');
    publish(&rig, PACKET_VIDEO, 0, '3');
    start(&rig);
    /* The one that was in force there, and the other one at its place. */
    assert_queued(&rig, "Aa12B3");
    take_queued(&rig.player);
    player_clear(&rig.player);
    rig.player = (struct player){.form.format = &wire_flv, .limit = LIMIT, .stream = &rig.stream};
    publish(&rig, PACKET_KEY_FRAME, 0, '4');
    start(&rig);
    assert_queued(&rig, "Ba4");
    rig_close(&rig);
}

static void no_picture_comes_before_a_key_frame(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'A');
    start(&rig);
    assert_int_equal(rig.player.state, PLAYER_BEHIND);
    publish(&rig, PACKET_VIDEO, 0, '1');
    publish(&rig, PACKET_AUDIO, 0, 's');
    assert_queued(&rig, "");
    publish(&rig, PACKET_KEY_FRAME, 0, '2');
    publish(&rig, PACKET_VIDEO, 0, '3');
    assert_queued(&rig, "A23");
    rig_close(&rig);

    /* A stream's beginning that is cached with what comes before its first key frame: sound is
     * played, pictures not. */
    rig_open(&rig);
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'A');
    const enum packet_role roles[] = {PACKET_VIDEO, PACKET_AUDIO, PACKET_KEY_FRAME, PACKET_VIDEO};
    for (size_t i = 0; i < 4; i++) {
        struct packet *packet = make(&rig, roles[i], 0, (uint8_t)('1' + i));
        gop_open(&rig.stream.gop, packet, &rig.stream.headers, BLOCKS);
        packet_unref(packet);
    }
    start(&rig);
    assert_queued(&rig, "A234");
    rig_close(&rig);
}

static void each_track_begins_with_its_key_frame(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'A');
    publish(&rig, PACKET_VIDEO_HEADER, 1, 'B');
    start(&rig);
    publish(&rig, PACKET_KEY_FRAME, 0, '1');
    publish(&rig, PACKET_VIDEO, 1, '2');
    publish(&rig, PACKET_VIDEO, 0, '3');
    publish_key_of(&rig, 1, '4');
    publish(&rig, PACKET_VIDEO, 1, '5');
    assert_queued(&rig, "AB1345");
    /* And behind a loss. */
    player_drop(&rig.player, DROP_QUEUE_FULL);
    publish(&rig, PACKET_KEY_FRAME, 0, '6');
    publish(&rig, PACKET_VIDEO, 1, '7');
    publish_key_of(&rig, 1, '8');
    publish(&rig, PACKET_VIDEO, 1, '9');
    assert_queued(&rig, "AB689");
    rig_close(&rig);
}

static void a_header_is_sent_once_and_again_where_it_was_dropped(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    publish(&rig, PACKET_METADATA, 0, 'M');
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'A');
    start(&rig);
    publish(&rig, PACKET_KEY_FRAME, 0, '1');
    /* Nothing has been sent: all of it is dropped. */
    player_drop(&rig.player, DROP_QUEUE_FULL);
    publish(&rig, PACKET_KEY_FRAME, 0, '2');
    assert_queued(&rig, "MA2");
    take_queued(&rig.player);
    player_drop(&rig.player, DROP_QUEUE_FULL);
    publish(&rig, PACKET_KEY_FRAME, 0, '3');
    player_drop(&rig.player, DROP_QUEUE_FULL);
    rig.player.state = PLAYER_BEHIND;
    publish(&rig, PACKET_KEY_FRAME, 0, '4');
    assert_queued(&rig, "4");
    take_queued(&rig.player);
    /* The next publisher's: what is the same is not queued, in whatever place it comes. */
    gop_clear(&rig.stream.gop);
    stream_headers_clear(&rig.stream.headers);
    rig.player.state = PLAYER_WAITING;
    publish(&rig, PACKET_METADATA, 0, 'M');
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'B');
    start(&rig);
    publish(&rig, PACKET_KEY_FRAME, 0, '5');
    publish(&rig, PACKET_METADATA, 0, 'M');
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'B');
    publish(&rig, PACKET_VIDEO, 0, '6');
    assert_queued(&rig, "B56");
    /* One that has come meanwhile, and was dropped, counts as neither: the one that is in force
     * comes. */
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'C');
    player_drop(&rig.player, DROP_NO_MEMORY);
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'B');
    publish(&rig, PACKET_KEY_FRAME, 0, '7');
    assert_queued(&rig, "B7");
    rig_close(&rig);
}

/* What has no version is always sent. */
static void a_header_that_cannot_be_known_again_is_sent(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    start(&rig);
    publish(&rig, PACKET_KEY_FRAME, 0, '1');
    for (int i = 0; i < 2; i++) {
        struct packet *packet = make(&rig, PACKET_VIDEO_HEADER, 0, 'A');
        packet_set_version(packet, 0);
        player_push(&rig.player, packet, &rig.stream.headers, true);
        packet_unref(packet);
    }
    assert_queued(&rig, "1AA");
    rig_close(&rig);
}

static void a_player_that_waited_for_too_long_has_the_last_headers(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    rig.player.catch_up_ms = 1;
    start(&rig);
    publish(&rig, PACKET_KEY_FRAME, 0, '1');
    publish(&rig, PACKET_VIDEO_HEADER, 1, 'A');
    publish(&rig, PACKET_VIDEO_HEADER, 0, 'B');
    publish(&rig, PACKET_VIDEO_HEADER, 1, 'C');
    publish(&rig, PACKET_AUDIO_HEADER, 15, 'D');
    struct packet *key = make(&rig, PACKET_KEY_FRAME, 0, '2');
    key->received_at = NOW + 1000;
    player_push(&rig.player, key, &rig.stream.headers, true);
    packet_unref(key);
    assert_queued(&rig, "BCD2");
    rig_close(&rig);
}

static void a_player_that_waited_for_too_long_begins_each_track_with_its_key_frame(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    rig.player.catch_up_ms = 1000;
    start(&rig);
    publish(&rig, PACKET_KEY_FRAME, 0, '1');
    publish_key_of(&rig, 1, '2');
    publish_key_of(&rig, 2, '3');
    publish(&rig, PACKET_KEY_FRAME, 0, '4');
    publish_key_of(&rig, 2, '5');
    publish(&rig, PACKET_VIDEO, 1, '6');
    publish(&rig, PACKET_VIDEO, 2, '7');
    publish(&rig, PACKET_AUDIO, 0, 's');
    struct packet *late = make(&rig, PACKET_VIDEO, 0, '8');
    late->received_at = NOW + 1000;
    player_push(&rig.player, late, &rig.stream.headers, true);
    packet_unref(late);
    assert_queued(&rig, "457s8");
    assert_int_equal(rig.player.queued_bytes, 5);
    assert_int_equal(rig.player.since_sync, 5);
    assert_int_equal(rig.player.dropped[DROP_CATCH_UP], 4);
    publish(&rig, PACKET_VIDEO, 1, '9');
    publish_key_of(&rig, 1, 'k');
    assert_queued(&rig, "457s8k");
    rig_close(&rig);
}

static unsigned count_seen(const struct tracks *tracks) {
    unsigned count = 0;
    for (unsigned i = 0; i < tracks_room(tracks); i++)
        count += tracks_get(tracks, i)->seen;
    return count;
}

static void there_are_so_many_tracks(void **state) {
    struct tracks tracks = {0};
    (void)state;
    for (int id = 16; id > 1; id--)
        assert_true(tracks_take(&tracks, (uint8_t)id) > 0);
    assert_int_equal(tracks_take(&tracks, 17), -EUSERS);
    assert_int_equal(tracks_take(&tracks, 255), -EUSERS);
    assert_int_equal(count_seen(&tracks), 15);
    assert_int_equal(tracks_main(&tracks)->id, 2);
    /* Track 0 has a place in any case. */
    assert_int_equal(tracks_take(&tracks, 0), 0);
    assert_int_equal(tracks_main(&tracks)->id, 0);
    assert_int_equal(tracks_take(&tracks, 17), -EUSERS);
    assert_int_equal(count_seen(&tracks), TRACKS_MOST);
    int place = tracks_take(&tracks, 9);
    tracks_at(&tracks, (unsigned)place)->header.version = 77;
    /* The next publisher's have the same places, and others those that are left. */
    tracks_begin(&tracks);
    assert_int_equal(count_seen(&tracks), 0);
    assert_int_equal(tracks_take(&tracks, 9), place);
    assert_int_equal(tracks_at(&tracks, (unsigned)place)->header.version, 77);
    assert_int_equal(tracks_main(&tracks)->id, 9);
    for (int id = 100; id < 114; id++)
        assert_true(tracks_take(&tracks, (uint8_t)id) > 0);
    assert_int_equal(tracks_take(&tracks, 114), -EUSERS);
    for (int i = 0; i < TRACKS_MOST; i++)
        assert_true(tracks_at(&tracks, (unsigned)i)->header.version == (i == place ? 77 : 0));
    tracks_clear(&tracks);
}

static void the_main_track_is_chosen_until_players_are_started(void **state) {
    struct tracks tracks = {0};
    (void)state;
    tracks_take(&tracks, 5);
    assert_int_equal(tracks_main(&tracks)->id, 5);
    tracks_take(&tracks, 3);
    tracks_take(&tracks, 4);
    assert_int_equal(tracks_main(&tracks)->id, 3);
    tracks_settle(&tracks);
    tracks_take(&tracks, 0);
    assert_int_equal(tracks_main(&tracks)->id, 3);
    /* Where none had come, the first is. */
    tracks_begin(&tracks);
    tracks_settle(&tracks);
    tracks_take(&tracks, 3);
    tracks_take(&tracks, 0);
    assert_int_equal(tracks_main(&tracks)->id, 3);
    tracks_clear(&tracks);
}

/* Track 0 takes no memory; without any, the others are not taken, until there is. */
static void places_take_memory_when_they_are_used(void **state) {
    struct tracks tracks = {0};
    (void)state;
    refuses = true;
    assert_int_equal(tracks_take(&tracks, 0), 0);
    assert_int_equal(tracks_room(&tracks), 1);
    assert_int_equal(tracks_take(&tracks, 1), -ENOMEM);
    assert_int_equal(tracks_need(&tracks, 1), -ENOMEM);
    assert_int_equal(tracks_room(&tracks), 1);
    assert_int_equal(tracks_main(&tracks)->id, 0);
    refuses = false;
    assert_int_equal(tracks_take(&tracks, 1), 1);
    assert_int_equal(tracks_room(&tracks), TRACKS_MOST);
    refuses = true;
    for (int id = 2; id < TRACKS_MOST; id++)
        assert_int_equal(tracks_take(&tracks, (uint8_t)id), id);
    assert_int_equal(tracks_take(&tracks, TRACKS_MOST), -EUSERS);
    refuses = false;
    tracks_clear(&tracks);
}

static void copies_have_all_tracks(void **state) {
    (void)state;
    for (int count = 1; count <= TRACKS_MOST; count += TRACKS_MOST - 1) {
        struct tracks tracks = {0}, restored = {0};
        struct tracks_copy copy, again;
        for (int id = 0; id < count; id++) {
            assert_int_equal(tracks_take(&tracks, (uint8_t)id), id);
            tracks_at(&tracks, (unsigned)id)->frames = (uint64_t)id + 1;
        }
        tracks_settle(&tracks);
        tracks_copy(&tracks, &copy);
        refuses = true;
        assert_int_equal(tracks_restore(&restored, &copy), count == 1 ? 0 : -ENOMEM);
        refuses = false;
        assert_int_equal(tracks_restore(&restored, &copy), 0);
        assert_int_equal(tracks_room(&restored), count);
        tracks_copy(&restored, &again);
        assert_true(again.main == copy.main && again.any && again.fixed);
        for (int i = 0; i < TRACKS_MOST; i++)
            assert_true(again.list[i].id == copy.list[i].id && again.list[i].frames == copy.list[i].frames &&
                        again.list[i].seen == (i < count));
        tracks_clear(&tracks);
        tracks_clear(&restored);
    }
}

/* Headers of the first tracks take no memory; one of another is kept where there is some, and a
 * group is not without one that its stream has. */
static void headers_take_memory_with_the_second_track(void **state) {
    tracks_rig rig;
    (void)state;
    rig_open(&rig);
    struct stream_headers *headers = &rig.stream.headers;
    struct packet *first = make(&rig, PACKET_VIDEO_HEADER, 0, '1'), *second = make(&rig, PACKET_VIDEO_HEADER, 1, '2');
    struct packet *last = make(&rig, PACKET_AUDIO_HEADER, TRACKS_MOST - 1, '3'),
                  *key = make(&rig, PACKET_KEY_FRAME, 0, 'k');
    refuses = true;
    assert_int_equal(stream_headers_set(headers, first), 0);
    assert_int_equal(stream_headers_set(headers, second), -ENOMEM);
    assert_null(stream_headers_get(headers, PACKET_VIDEO_HEADER, 1));
    refuses = false;
    assert_int_equal(stream_headers_set(headers, second), 0);
    refuses = true;
    assert_int_equal(stream_headers_set(headers, last), 0);
    assert_ptr_equal(stream_headers_at(headers, TRACKS_HEADERS - 1), last);
    gop_add(&rig.stream.gop, key, headers, BLOCKS);
    assert_true(rig.stream.gop.broken && rig.stream.gop.count == 0);
    refuses = false;
    gop_add(&rig.stream.gop, key, headers, BLOCKS);
    assert_int_equal(rig.stream.gop.count, 1);
    for (size_t i = 0; i < TRACKS_HEADERS; i++)
        assert_ptr_equal(stream_headers_at(&rig.stream.gop.headers, i), stream_headers_at(headers, i));
    assert_int_equal(rig.stream.gop.headers.blocks, headers->blocks);
    packet_unref(first);
    packet_unref(second);
    packet_unref(last);
    packet_unref(key);
    rig_close(&rig);
}

static uint32_t version_of(tracks_rig *rig, struct track_header *header, size_t size, size_t piece, uint8_t last) {
    static uint32_t versions;
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    bytes[size - 1] = last;
    sluice_slice payload = slice_of(rig->pool, bytes, size, piece);
    uint32_t version = track_header_take(header, &payload, &versions);
    sluice_slice_release(&payload);
    free(bytes);
    assert_int_equal(version > 0, true);
    return version;
}

static void the_same_bytes_have_the_same_version(void **state) {
    tracks_rig rig;
    struct track_header header = {0}, other = {0};
    (void)state;
    rig_open(&rig);
    uint32_t first = version_of(&rig, &header, 100, 0, 1);
    assert_int_equal(version_of(&rig, &header, 100, 7, 1), first);
    uint32_t second = version_of(&rig, &header, 100, 0, 2);
    assert_int_not_equal(second, first);
    assert_int_not_equal(version_of(&rig, &header, 101, 0, 2), second);
    /* Not the one before: it has been followed by another. */
    assert_int_not_equal(version_of(&rig, &header, 100, 0, 1), first);
    assert_int_not_equal(version_of(&rig, &other, 100, 0, 1), first);
    /* What is too large, or in too many pieces, to be looked at is never the same. */
    assert_int_equal(version_of(&rig, &header, 65536, 0, 1), version_of(&rig, &header, 65536, 0, 1));
    assert_int_not_equal(version_of(&rig, &header, 65537, 0, 1), version_of(&rig, &header, 65537, 0, 1));
    assert_int_equal(version_of(&rig, &header, 32, 1, 1), version_of(&rig, &header, 32, 1, 1));
    assert_int_not_equal(version_of(&rig, &header, 65, 1, 1), version_of(&rig, &header, 65, 1, 1));
    rig_close(&rig);
}

/* Headers of a few bytes share blocks, and none is held when they are gone. */
static void payloads_of_tracks_share_blocks_for_their_headers(void **state) {
    enum { COUNT = 1000 };
    static sluice_slice slices[COUNT];
    static const uint8_t bytes[] = {0x96, 0x11, 'a', 'v', 'c', '1', 5, 0, 0, 4, 0, 0, 7, 'f'};
    tracks_rig rig;
    struct track_payloads payloads;
    sluice_flv_tracks place = {0};
    sluice_flv_track track;
    sluice_pool_stats stats = {.size = sizeof stats};
    (void)state;
    rig_open(&rig);
    assert_int_equal(track_payloads_init(&payloads, rig.pool), 0);
    sluice_slice whole = slice_of(rig.pool, bytes, sizeof bytes, 0);
    assert_int_equal(sluice_flv_next_track(&place, SLUICE_FLV_VIDEO, &whole, &track), 1);
    for (size_t i = 0; i < COUNT; i++) {
        static const uint8_t wrapped[] = {0x96, 0x01, 'a', 'v', 'c', '1', 5, 0, 0, 7, 'f'};
        static const uint8_t alone[] = {0x17, 1, 0, 0, 7, 'f'};
        uint8_t got[16];
        sluice_flv_view view;
        assert_int_equal(track_payload_make(&payloads, SLUICE_FLV_VIDEO, &track, i % 2, &slices[i], &view), 0);
        size_t size = slice_bytes(&slices[i], got, sizeof got);
        assert_int_equal(size, i % 2 ? sizeof alone : sizeof wrapped);
        assert_memory_equal(got, i % 2 ? alone : wrapped, size);
        assert_int_equal(view.header_size, size - 1);
        assert_int_equal(view.multitrack, i % 2 == 0);
        assert_int_equal(view.enhanced, i % 2 == 0);
        assert_int_equal(view.composition_time, 7);
        assert_true(view.key_frame && view.codec == SLUICE_CODEC_H264 && view.track == (i % 2 ? 0 : 5));
    }
    sluice_pool_get_stats(rig.pool, &stats);
    assert_true(stats.held <= 1 + COUNT * 8 / BLOCK + 1);
    assert_int_equal(stats.bytes_copied, 0);
    for (size_t i = 0; i < COUNT; i++)
        sluice_slice_release(&slices[i]);
    sluice_slice_release(&track.slice);
    sluice_slice_release(&whole);
    sluice_pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.held, 1);
    track_payloads_rest(&payloads);
    sluice_pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.held, 0);
    track_payloads_clear(&payloads);
    rig_close(&rig);
}

/* A place that another track takes over has no header of the one before; one that comes back has
 * its own. */
static void a_place_taken_over_has_no_header(void **state) {
    struct tracks tracks = {0};
    (void)state;
    for (int id = 1; id < TRACKS_MOST; id++) {
        int place = tracks_take(&tracks, (uint8_t)id);
        assert_int_equal(place, id); /* the first that is free */
        tracks_at(&tracks, (unsigned)place)->header.version = (uint32_t)id;
    }
    tracks_begin(&tracks);
    assert_int_equal(tracks_take(&tracks, 1), 1);
    assert_int_equal(tracks_at(&tracks, 1)->header.version, 1);
    assert_int_equal(tracks_take(&tracks, 200), 2);
    assert_int_equal(tracks_at(&tracks, 2)->header.version, 0);
    assert_int_equal(tracks_at(&tracks, 3)->header.version, 3);
    tracks_clear(&tracks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_begins_with_the_header_of_its_key_frame),
        cmocka_unit_test(no_picture_comes_before_a_key_frame),
        cmocka_unit_test(each_track_begins_with_its_key_frame),
        cmocka_unit_test(a_header_is_sent_once_and_again_where_it_was_dropped),
        cmocka_unit_test(a_header_that_cannot_be_known_again_is_sent),
        cmocka_unit_test(a_player_that_waited_for_too_long_has_the_last_headers),
        cmocka_unit_test(a_player_that_waited_for_too_long_begins_each_track_with_its_key_frame),
        cmocka_unit_test(there_are_so_many_tracks),
        cmocka_unit_test(a_place_taken_over_has_no_header),
        cmocka_unit_test(the_main_track_is_chosen_until_players_are_started),
        cmocka_unit_test(places_take_memory_when_they_are_used),
        cmocka_unit_test(copies_have_all_tracks),
        cmocka_unit_test(headers_take_memory_with_the_second_track),
        cmocka_unit_test(the_same_bytes_have_the_same_version),
        cmocka_unit_test(payloads_of_tracks_share_blocks_for_their_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
