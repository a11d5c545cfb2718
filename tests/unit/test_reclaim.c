/*
 * Streams that run out of memory: who has to give way, in which order, and that nobody else
 * notices. At times of the test's own; players have no connections: what would be sent is taken
 * from them.
 */
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/reclaim.h"
#include "daemon/relay/rtp_packetizer.h"
#include "support/feed.h"
#include "support/publishing.h"
#include "support/sockets.h"
#include "support/taking.h"

enum {
    GUARD = 100,
    BLOCK = 4096,
    BLOCKS = 512,
    RESERVE = 32,
    FRAME = 4000, /* fills a block, with what is around it */
    STEP = 100,   /* milliseconds from one frame to the next */
    GROUP = 10,   /* frames from one key frame to the next */
    STREAMS = 3,
    PLAYERS = 40,
};

static uint64_t now_ms;

void __wrap_sluice_conn_want_send(sluice_conn *conn);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return now_ms;
}

typedef struct source {
    struct stream *stream;
    sluice_chain *chain;
    sluice_flv *flv;
    unsigned group; /* frames from one key frame to the next */
    unsigned next;
} source;

typedef struct shed_rig {
    loop_rig loop;
    struct registry *registry;
    source sources[STREAMS];
    struct player players[PLAYERS];
    unsigned player_count;
} shed_rig;

static void open_source(shed_rig *rig, source *s, const char *name, unsigned group) {
    *s = (source){.group = group};
    assert_int_equal(registry_get(rig->registry, name, strlen(name), now_ms, &s->stream), 0);
    publishing_begin(s->stream, rig->loop.pool, &s->chain, &s->flv);
}

static void rig_open(shed_rig *rig, uint64_t packet_bytes, unsigned groups) {
    static const struct stream_policies policies = {
        .all = {.gop_size = (uint64_t)BLOCKS * BLOCK, .player_buffer = 64 << 20}};
    const struct stream_limits limits = {.packet_bytes = packet_bytes, .policies = &policies};
    *rig = (shed_rig){0};
    now_ms = 1000000;
    log_set_level(LOG_ERROR);
    loop_rig_open_small(&rig->loop, BLOCK, BLOCKS, RESERVE, GUARD);
    assert_int_equal(registry_new(rig->loop.loop, &limits, &rig->registry), 0);
    for (unsigned i = 0; i < STREAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "live/%u", i);
        open_source(rig, &rig->sources[i], name, groups);
    }
}

static void rig_close(shed_rig *rig) {
    for (unsigned i = 0; i < rig->player_count; i++) {
        stream_remove_player(rig->players[i].stream, &rig->players[i]);
        player_clear(&rig->players[i]);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        sluice_chain_free(rig->sources[i].chain);
        sluice_flv_free(rig->sources[i].flv);
        stream_detach(rig->sources[i].stream, now_ms);
        stream_unref(rig->sources[i].stream);
    }
    registry_free(rig->registry);
    loop_rig_close(&rig->loop);
}

static struct player *join(shed_rig *rig, unsigned stream) {
    assert_true(rig->player_count < PLAYERS);
    struct player *player = &rig->players[rig->player_count++];
    player->form.format = &wire_flv;
    stream_add_player(rig->sources[stream].stream, player);
    return player;
}

/* Frames of video in form, so many at once; the size is of their payloads. All find memory. */
static void publish(shed_rig *rig, source *s, uint32_t size, unsigned count) {
    uint8_t bytes[BLOCK] = {0};
    size_t at = 0;
    sluice_flv_tag *tag;
    for (unsigned i = 0; i < count; i++, s->next++) {
        uint8_t *payload = bytes + at + SLUICE_FLV_TAG_HEADER_SIZE;
        assert_true(at + SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE <= sizeof bytes);
        sluice_flv_write_tag_header(bytes + at, SLUICE_FLV_VIDEO, size, s->next * STEP);
        payload[0] = s->next % s->group == 0 ? 0x17 : 0x27;
        payload[1] = 1;
        sluice_flv_write_trailer(payload + size, size);
        at += SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE;
    }
    feed(s->chain, rig->loop.pool, bytes, at, 0);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sluice_flv_next(s->flv, s->chain, &tag), 1);
        assert_int_equal(stream_publish(s->stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
    }
}

/* The next frame of each stream. */
static void publish_all(shed_rig *rig) {
    for (unsigned i = 0; i < STREAMS; i++)
        publish(rig, &rig->sources[i], FRAME, 1);
    now_ms += STEP;
}

static void slowest_player_gives_way_first(void **state) {
    (void)state;
    shed_rig rig;
    rig_open(&rig, 1 << 20, GROUP);
    publish_all(&rig);
    struct player *quick = join(&rig, 0), *slow = join(&rig, 1), *slower = join(&rig, 2);
    uint64_t begin = now_ms;
    while (player_dropped(slower) == 0) {
        publish_all(&rig);
        take_queued(quick);
        if (now_ms - begin < 20000)
            take_queued(slow);
    }
    assert_true(slower->dropped[DROP_NO_MEMORY] > 20000 / STEP);
    assert_true(slow->queued_bytes > 5000 / STEP * FRAME);
    assert_int_equal(player_dropped(slow), 0);
    /* What others would start with is still there. */
    for (unsigned i = 0; i < STREAMS; i++)
        assert_true(rig.sources[i].stream->gop.count > 0);
    /* The other one is next, in its turn. */
    while (player_dropped(slow) == 0) {
        publish_all(&rig);
        take_queued(quick);
        take_queued(slower);
    }
    assert_int_equal(player_dropped(quick), 0);
    assert_int_equal(quick->packets_sent, rig.sources[0].next);
    rig_close(&rig);
}

/* They hold the same blocks: only when all have let go of them, they are free. */
static void many_that_stalled_at_once_give_way_at_once(void **state) {
    (void)state;
    shed_rig rig;
    rig_open(&rig, 1 << 20, GROUP);
    publish_all(&rig);
    struct player *quick = join(&rig, 0);
    for (unsigned i = 1; i < PLAYERS; i++)
        (void)join(&rig, 1);
    for (unsigned i = 0; i < 4 * BLOCKS; i++) {
        publish_all(&rig);
        take_queued(quick);
    }
    for (unsigned i = 0; i < PLAYERS; i++)
        assert_true((player_dropped(&rig.players[i]) > 0) == (&rig.players[i] != quick));
    for (unsigned i = 0; i < STREAMS; i++)
        assert_int_equal(rig.sources[i].stream->frames_dropped, 0);
    assert_int_equal(quick->packets_sent, rig.sources[0].next);
    rig_close(&rig);
}

/* Without anybody who is slow it is the cached groups, of which all together are too much. */
static void caches_give_way_before_players_that_keep_up(void **state) {
    (void)state;
    shed_rig rig;
    rig_open(&rig, 1 << 20, 4 * BLOCKS);
    publish_all(&rig);
    for (unsigned i = 0; i < STREAMS; i++)
        (void)join(&rig, i);
    for (unsigned i = 0; i < BLOCKS; i++) {
        publish_all(&rig);
        for (unsigned k = 0; k < rig.player_count; k++)
            take_queued(&rig.players[k]);
    }
    bool gone = false;
    for (unsigned i = 0; i < STREAMS; i++) {
        gone |= rig.sources[i].stream->gop.count == 0;
        assert_int_equal(player_dropped(&rig.players[i]), 0);
        assert_int_equal(rig.players[i].packets_sent, rig.sources[i].next);
    }
    assert_true(gone);
    rig_close(&rig);
}

/* One at a time, the largest first, whichever stream it is of. */
static void largest_cache_gives_way_first(void **state) {
    static const unsigned counts[][STREAMS] = {{3, 9, 6}, {9, 6, 3}, {6, 3, 9}, {3, 6, 9}};
    (void)state;
    for (size_t round = 0; round < sizeof counts / sizeof *counts; round++) {
        shed_rig rig;
        rig_open(&rig, 1 << 20, 4 * BLOCKS);
        for (unsigned i = 0; i < STREAMS; i++)
            for (unsigned k = 0; k < counts[round][i]; k++)
                publish(&rig, &rig.sources[i], FRAME, 1);
        for (unsigned limit = 9; limit > 0; limit -= 3) {
            assert_true(reclaim(rig.registry, RECLAIM_FOR_BLOCKS));
            for (unsigned i = 0; i < STREAMS; i++)
                assert_int_equal(rig.sources[i].stream->gop.count, counts[round][i] < limit ? counts[round][i] : 0);
        }
        assert_false(reclaim(rig.registry, RECLAIM_FOR_BLOCKS));
        rig_close(&rig);
    }
}

/* Blocks of a message that is not whole, which gives way when it is the largest. */
struct message {
    shed_rig *rig;
    sluice_chain *chain;
    size_t bytes;
    uint64_t asked; /* more than which it was last asked for */
};

static bool give_way(uint64_t bytes, void *user) {
    struct message *message = user;
    message->asked = bytes;
    if (message->bytes <= bytes)
        return false;
    sluice_chain_skip(message->chain, SIZE_MAX);
    message->bytes = 0;
    return true;
}

static void message_open(struct message *message, shed_rig *rig, unsigned blocks) {
    uint8_t bytes[BLOCK] = {0};
    *message = (struct message){.rig = rig, .bytes = (size_t)blocks * BLOCK};
    assert_int_equal(sluice_chain_new(rig->loop.pool, &message->chain), 0);
    for (unsigned i = 0; i < blocks; i++)
        feed(message->chain, rig->loop.pool, bytes, sizeof bytes, 0);
    registry_on_shortage(rig->registry, give_way, message);
}

/* Of what is a little behind, and a message that is larger, the message gives way, and no frame is
 * lost. */
static void larger_message_gives_way_before_a_queue(void **state) {
    (void)state;
    shed_rig rig;
    struct message message;
    rig_open(&rig, 1 << 20, GROUP);
    publish_all(&rig);
    struct player *player = join(&rig, 0);
    message_open(&message, &rig, BLOCKS / 2);
    /* In less than a second, within which nobody is slow. */
    for (unsigned i = 0; i < BLOCKS && message.bytes > 0; i++) {
        publish(&rig, &rig.sources[0], FRAME, 1);
        assert_int_equal(player_dropped(player), 0);
    }
    assert_int_equal(message.bytes, 0);
    assert_true(message.asked > 0);
    assert_int_equal(player_dropped(player), 0);
    assert_int_equal(player->count, rig.sources[0].next);
    sluice_chain_free(message.chain);
    rig_close(&rig);
}

/* One that is smaller stays. */
static void longer_queue_gives_way_before_a_message(void **state) {
    (void)state;
    shed_rig rig;
    struct message message;
    rig_open(&rig, 1 << 20, GROUP);
    publish_all(&rig);
    struct player *player = join(&rig, 0);
    message_open(&message, &rig, BLOCKS / 8);
    for (unsigned i = 0; i < 2 * BLOCKS && player_dropped(player) == 0; i++)
        publish(&rig, &rig.sources[0], FRAME, 1);
    assert_true(player_dropped(player) > 0);
    assert_true(message.asked > message.bytes);
    assert_int_equal(message.bytes, BLOCKS / 8 * BLOCK);
    sluice_chain_free(message.chain);
    rig_close(&rig);
}

/* Tags of a few bytes: what describes them takes more than they do, and is bounded as well. */
static void tiny_tags_do_not_take_more_memory_than_there_is(void **state) {
    (void)state;
    enum { ROUNDS = 600, TAGS = 100, TINY = 6, BUDGET = 1 << 20 };
    shed_rig rig;
    rig_open(&rig, BUDGET, ROUNDS * TAGS);
    publish_all(&rig);
    struct player *quick = join(&rig, 0), *stalled = join(&rig, 0), *other = join(&rig, 1);
    uint64_t most = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        publish(&rig, &rig.sources[0], TINY, TAGS);
        publish(&rig, &rig.sources[1], TINY, TAGS / 10);
        now_ms += STEP;
        take_queued(quick);
        take_queued(other);
        uint64_t bytes = registry_packet_bytes(rig.registry);
        most = bytes > most ? bytes : most;
    }
    assert_true(most > BUDGET / 2 && most <= BUDGET);
    assert_true(player_dropped(stalled) > 0);
    assert_int_equal(player_dropped(quick), 0);
    assert_int_equal(player_dropped(other), 0);
    assert_int_equal(quick->packets_sent, rig.sources[0].next);
    rig_close(&rig);
}

/* A tag of video; all find memory. */
static void publish_payload(shed_rig *rig, source *s, const uint8_t *payload, uint32_t size) {
    uint8_t header[SLUICE_FLV_TAG_HEADER_SIZE], trailer[SLUICE_FLV_TRAILER_SIZE];
    sluice_flv_tag *tag;
    sluice_flv_write_tag_header(header, SLUICE_FLV_VIDEO, size, s->next * STEP);
    sluice_flv_write_trailer(trailer, size);
    feed(s->chain, rig->loop.pool, header, sizeof header, 0);
    feed(s->chain, rig->loop.pool, payload, size, 0);
    feed(s->chain, rig->loop.pool, trailer, sizeof trailer, 0);
    assert_int_equal(sluice_flv_next(s->flv, s->chain, &tag), 1);
    assert_int_equal(stream_publish(s->stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
}

/* An RTSP player, and what is to be known for it: H.264 whose NAL units have a byte of length
 * before them. */
static struct player *join_by_rtp(shed_rig *rig, unsigned stream) {
    static const uint8_t header[] = {0x17, 0, 0, 0, 0, 1, 0x64, 0, 10, 0xfc, 0xe0, 0};
    assert_true(rig->player_count < PLAYERS);
    struct player *player = &rig->players[rig->player_count++];
    struct stream *of = rig->sources[stream].stream;
    publish_payload(rig, &rig->sources[stream], header, sizeof header);
    player->form = (struct packet_form){.format = &wire_rtp, .tracks = {true}};
    stream_add_asking(of, player);
    assert_non_null(of->rtp);
    assert_true(of->rtp->tracks[RTP_VIDEO_TRACK].present);
    player->description = of->rtp->description;
    stream_play(of, player);
    return player;
}

/* A frame of so many NAL units of a byte. */
static void publish_nals(shed_rig *rig, source *s, bool is_key, uint32_t count) {
    uint32_t size = 5 + 2 * count;
    uint8_t *payload = calloc(1, size);
    assert_non_null(payload);
    payload[0] = is_key ? 0x17 : 0x27;
    payload[1] = 1;
    for (uint32_t i = 5; i < size; i += 2) {
        payload[i] = 1;
        payload[i + 1] = is_key ? 0x65 : 0x41;
    }
    publish_payload(rig, s, payload, size);
    s->next++;
    free(payload);
}

/*
 * An RTP packet was made of each, out of the memory that all streams of a worker have for what
 * describes their tags, and stayed RTP's for ever: a quarter of a megabyte, sent once, and no
 * stream could cache anything any more.
 */
static void one_tag_of_tiny_nal_units_costs_no_other_stream_anything(void **state) {
    (void)state;
    enum { BUDGET = 4 << 20, NALS = 131000, TINY = 6, TAGS = 5000 };
    shed_rig rig;
    rig_open(&rig, BUDGET, TAGS);
    publish_nals(&rig, &rig.sources[0], true, 1);
    (void)join_by_rtp(&rig, 0);
    publish_nals(&rig, &rig.sources[0], false, NALS);
    assert_true(registry_packet_bytes(rig.registry) < BUDGET / 16);
    assert_int_equal(rig.sources[0].stream->frames_dropped, 0);
    for (unsigned i = 0; i < TAGS; i += 100)
        publish(&rig, &rig.sources[1], TINY, 100);
    assert_int_equal(rig.sources[1].stream->frames_dropped, 0);
    assert_int_equal(rig.sources[1].stream->gop.count, TAGS);
    rig_close(&rig);
}

/* As many as a frame may have, in one after another: a stream gets no more than what it leaves to
 * each other. */
static void a_stream_of_tiny_nal_units_leaves_rtp_to_others(void **state) {
    (void)state;
    enum { BUDGET = 1 << 20, NALS = 250, FRAMES = 400 };
    shed_rig rig;
    rig_open(&rig, BUDGET, FRAMES);
    for (unsigned i = 0; i < 2; i++)
        publish_nals(&rig, &rig.sources[i], true, 1);
    struct player *stalled = join_by_rtp(&rig, 0), *other = join_by_rtp(&rig, 1);
    publish_nals(&rig, &rig.sources[0], true, NALS);
    for (unsigned i = 0; i < FRAMES; i++) {
        publish_nals(&rig, &rig.sources[0], false, NALS);
        publish_nals(&rig, &rig.sources[1], i % GROUP == 0, NALS / 2);
        take_queued(other);
        assert_true(registry_packet_bytes(rig.registry) <= BUDGET);
    }
    assert_int_equal(other->packets_sent, FRAMES);
    assert_int_equal(player_dropped(other), 0);
    assert_true(stalled->count > 0 && stalled->count < FRAMES);
    uint64_t held = rig.sources[0].stream->rtp->packets;
    assert_true(held > FRAMES && held * 2 * sizeof(struct rtp_packet) < BUDGET / 2);
    /* What it had is given back, to whoever needs it and whatever for, but for an eighth. */
    take_queued(stalled);
    publish_nals(&rig, &rig.sources[0], true, 1);
    take_queued(stalled);
    assert_int_equal(rig.sources[0].stream->rtp->packets, 1);
    assert_true(registry_packet_bytes(rig.registry) < BUDGET / 4 + BUDGET / 8);
    rig_close(&rig);
}

/* Empty ones make no packet, but are gone over: a tag with too many of them is lost for RTP, and
 * for nobody else. */
static void a_tag_of_empty_nal_units_is_lost_for_rtp_alone(void **state) {
    (void)state;
    enum { BUDGET = 4 << 20, MOST = SLUICE_FLV_RTP_MAX_SKIPPED, SLICE = 2 };
    shed_rig rig;
    rig_open(&rig, BUDGET, 100);
    source *s = &rig.sources[0];
    publish_nals(&rig, s, true, 1);
    (void)join_by_rtp(&rig, 0);
    for (uint32_t empty = MOST; empty <= MOST + 1; empty++) {
        uint8_t payload[5 + MOST + 1 + SLICE] = {0x27, 1};
        size_t packets = s->stream->rtp->packets, cached = s->stream->gop.count;
        payload[5 + empty] = 1;
        payload[5 + empty + 1] = 0x41;
        publish_payload(&rig, s, payload, 5 + empty + SLICE);
        s->next++;
        assert_int_equal(s->stream->rtp->packets, empty == MOST ? packets + 1 : packets);
        publish_nals(&rig, s, false, 1);
        assert_int_equal(s->stream->rtp->packets, empty == MOST ? packets + 2 : packets + 1);
        assert_int_equal(s->stream->gop.count, cached + 2);
    }
    assert_int_equal(s->stream->frames_dropped, 0);
    rig_close(&rig);
}

/* Of the blocks that the pool can have: another class's are not among them. */
static void shares_are_of_what_there_can_be(void **state) {
    (void)state;
    enum { SLAB = 8, SLABS = 4, OTHERS = 2 };
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = BLOCK,
                                         .slab_blocks = SLAB,
                                         .max_blocks = SLABS * SLAB,
                                         .class_sizes = {2 * BLOCK},
                                         .no_huge_pages = true};
    sluice_pool *pool, *class;
    sluice_block *blocks[SLABS * SLAB], *others[OTHERS * SLAB / 2];
    unsigned count = 0;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    for (; count < SLABS * SLAB / 2; count++)
        assert_int_equal(sluice_block_get(pool, &blocks[count]), 0);
    assert_false(reclaim_exceeds(pool, 2, 0));
    assert_true(reclaim_exceeds(pool, 2, 1));
    assert_false(reclaim_exceeds(pool, 3, SLAB));
    assert_true(reclaim_exceeds(pool, 3, SLAB + 1));
    while (count > SLAB)
        sluice_block_release(blocks[--count]);
    assert_int_equal(sluice_pool_class(pool, 2 * BLOCK, &class), 0);
    for (unsigned i = 0; i < OTHERS * SLAB / 2; i++)
        assert_int_equal(sluice_block_get(class, &others[i]), 0);
    assert_false(reclaim_exceeds(pool, 2, 0));
    assert_true(reclaim_exceeds(pool, 2, 1));
    assert_false(reclaim_exceeds(pool, 3, SLAB / 2));
    assert_true(reclaim_exceeds(pool, 3, SLAB / 2 + 1));
    for (unsigned i = 0; i < OTHERS * SLAB / 2; i++)
        sluice_block_release(others[i]);
    while (count > 0)
        sluice_block_release(blocks[--count]);
    pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slowest_player_gives_way_first),
        cmocka_unit_test(many_that_stalled_at_once_give_way_at_once),
        cmocka_unit_test(caches_give_way_before_players_that_keep_up),
        cmocka_unit_test(largest_cache_gives_way_first),
        cmocka_unit_test(larger_message_gives_way_before_a_queue),
        cmocka_unit_test(longer_queue_gives_way_before_a_message),
        cmocka_unit_test(tiny_tags_do_not_take_more_memory_than_there_is),
        cmocka_unit_test(one_tag_of_tiny_nal_units_costs_no_other_stream_anything),
        cmocka_unit_test(a_stream_of_tiny_nal_units_leaves_rtp_to_others),
        cmocka_unit_test(a_tag_of_empty_nal_units_is_lost_for_rtp_alone),
        cmocka_unit_test(shares_are_of_what_there_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
