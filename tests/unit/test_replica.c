/*
 * A stream with players at two workers: what goes across, in which order, and that all of it comes
 * back. Two loops in one thread, each of which turns when the test says so; players have no
 * connections: what would be sent is taken from them.
 */
#include "daemon/relay/replica.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/coalesce.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/registry.h"
#include "daemon/relay/stand_in.h"
#include "support/feed.h"
#include "support/publishing.h"
#include "support/sockets.h"

enum {
    GUARD = 100,
    BLOCK = 4096,
    BLOCKS = 512,
    RESERVE = 32,
    FRAME = 4000, /* fills a block, with what is around it */
    STEP = 40,
    GROUP = 10,
    PIECES = 64,
    TAKEN = 8 << 20,
    PLAYERS = 8,
    TURNS = 8,
};

static bool malloc_fails;
static int role_without_memory = -1;
static unsigned with_memory; /* packets of that role before */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __wrap_sluice_conn_want_send(sluice_conn *conn);
struct packet *__real_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload);
struct packet *__wrap_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload);

struct packet *__wrap_packet_new(struct packet_pool *pool, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t timestamp, sluice_slice *payload) {
    bool fails = (int)role == role_without_memory && with_memory == 0;
    with_memory -= (int)role == role_without_memory && with_memory > 0;
    return fails ? NULL : __real_packet_new(pool, tag, role, timestamp, payload);
}

void *__wrap_malloc(size_t size) {
    return malloc_fails ? NULL : __real_malloc(size);
}

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

struct taker {
    struct player player;
    uint8_t preamble[PLAYER_PREAMBLE];
    uint8_t *bytes; /* what it was sent */
    size_t count;
};

typedef struct feed_rig {
    loop_rig loops[2];
    struct replica_site sites[2];
    atomic_bool over;
    struct stream *stream;
    sluice_chain *chain;
    sluice_flv *flv;
    unsigned next; /* frame */
    struct taker takers[PLAYERS];
    unsigned taker_count;
    struct replica *seats[PLAYERS];
    unsigned seat_count;
    bool alone; /* players that join know no tracks */
} feed_rig;

static void rig_open(feed_rig *rig) {
    static const struct stream_policies policies = {
        .all = {.gop_size = (uint64_t)BLOCKS * BLOCK / 4, .player_buffer = 64 << 20, .frame_limit = 1 << 20}};
    const struct stream_limits limits = {.packet_bytes = 4 << 20, .policies = &policies};
    *rig = (feed_rig){0};
    log_set_level(LOG_ERROR);
    for (unsigned i = 0; i < 2; i++) {
        loop_rig_open_small(&rig->loops[i], BLOCK, BLOCKS, RESERVE, GUARD);
        rig->sites[i].loop = rig->loops[i].loop;
        rig->sites[i].index = i;
        rig->sites[i].most_lent = (uint64_t)BLOCKS * BLOCK / 4;
        rig->sites[i].over = &rig->over;
        assert_int_equal(registry_new(rig->loops[i].loop, &limits, &rig->sites[i].registry), 0);
    }
    assert_int_equal(registry_get(rig->sites[0].registry, "live/a", 6, 1, &rig->stream), 0);
}

static void begin(feed_rig *rig) {
    publishing_begin(rig->stream, rig->loops[0].pool, &rig->chain, &rig->flv);
}

static void end_at(feed_rig *rig, uint64_t now) {
    sluice_chain_free(rig->chain);
    sluice_flv_free(rig->flv);
    rig->chain = NULL;
    rig->flv = NULL;
    stream_detach(rig->stream, now);
}

static void end(feed_rig *rig) {
    end_at(rig, sluice_loop_now(rig->loops[0].loop));
}

/* As many turns as what was posted takes, by this very thread: nothing has to be waited for. */
static void turn_through_posted(sluice_loop *loop) {
    for (unsigned i = 0; i < TURNS; i++)
        assert_int_equal(sluice_loop_turn(loop, 0), 0);
}

/* What was posted comes about: the first loop's, then the other's. */
static void turn_both(feed_rig *rig) {
    for (unsigned i = 0; i < 2; i++)
        turn_through_posted(rig->loops[i].loop);
}

static void write_tag(uint8_t *bytes, size_t *at, uint32_t time, const uint8_t *payload, uint32_t size) {
    sluice_flv_write_tag_header(bytes + *at, SLUICE_FLV_VIDEO, size, time);
    memcpy(bytes + *at + SLUICE_FLV_TAG_HEADER_SIZE, payload, size);
    *at += SLUICE_FLV_TAG_HEADER_SIZE + size;
    sluice_flv_write_trailer(bytes + *at, size);
    *at += SLUICE_FLV_TRAILER_SIZE;
}

/* Frames of video in form, in turns of their own; each names its number. A header comes before the
 * first of a group. */
static void publish(feed_rig *rig, unsigned count) {
    uint8_t bytes[2 * BLOCK], payload[FRAME] = {0};
    sluice_flv_tag *tag;
    for (unsigned i = 0; i < count; i++, rig->next++) {
        size_t at = 0;
        bool key = rig->next % GROUP == 0;
        static const uint8_t header[] = {0x17, 0, 0, 0, 0, 1, 2, 3};
        if (key)
            write_tag(bytes, &at, rig->next * STEP, header, sizeof header);
        payload[0] = key ? 0x17 : 0x27;
        payload[1] = 1;
        memcpy(payload + 5, &rig->next, sizeof rig->next);
        write_tag(bytes, &at, rig->next * STEP, payload, sizeof payload);
        feed(rig->chain, rig->loops[0].pool, bytes, at, 0);
        while (sluice_flv_next(rig->flv, rig->chain, &tag) > 0)
            assert_int_equal(stream_publish(rig->stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
    }
}

/* One tag of video, by itself; what came of it. */
static int publish_video(feed_rig *rig, const uint8_t *payload, uint32_t size) {
    uint8_t bytes[2 * BLOCK];
    size_t at = 0;
    sluice_flv_tag *tag;
    write_tag(bytes, &at, rig->next++ * STEP, payload, size);
    feed(rig->chain, rig->loops[0].pool, bytes, at, 0);
    assert_int_equal(sluice_flv_next(rig->flv, rig->chain, &tag), 1);
    return stream_publish(rig->stream, tag, SLUICE_FLV_HAS_VIDEO);
}

static size_t begin_body(struct player *player, uint8_t flags, uint8_t *buffer) {
    (void)player;
    buffer[0] = flags;
    return 1;
}

static struct taker *join_with(feed_rig *rig, struct stream *stream, uint32_t window_ms) {
    assert_true(rig->taker_count < PLAYERS);
    struct taker *taker = &rig->takers[rig->taker_count++];
    taker->bytes = malloc(TAKEN);
    assert_non_null(taker->bytes);
    taker->player.form.format = &wire_flv;
    taker->player.begin = begin_body;
    taker->player.preamble = taker->preamble;
    taker->player.merge_window_ms = window_ms;
    taker->player.alone = rig->alone;
    stream_add_player(stream, &taker->player);
    return taker;
}

static struct taker *join(feed_rig *rig, struct stream *stream) {
    return join_with(rig, stream, 0);
}

static void leave(feed_rig *rig, struct taker *taker) {
    (void)rig;
    struct stream *stream = taker->player.stream;
    stream_remove_player(stream, &taker->player);
    player_clear(&taker->player);
    if (stream->fed_by)
        stream_unref(stream);
    free(taker->bytes);
    *taker = (struct taker){0};
}

/* A player at the other worker, as its session would come there. */
static struct taker *join_there_with(feed_rig *rig, uint32_t window_ms) {
    struct replica *feed = replica_find(rig->stream, &rig->sites[1]);
    if (!feed)
        feed = replica_open(rig->stream, &rig->sites[0], &rig->sites[1]);
    assert_non_null(feed);
    struct replica *reservation = replica_reserve(feed);
    assert_ptr_equal(reservation, feed);
    rig->seats[rig->seat_count++] = reservation;
    turn_through_posted(rig->loops[1].loop);
    struct stream *replica = replica_stream(reservation);
    assert_non_null(replica);
    assert_ptr_not_equal(replica, rig->stream);
    return join_with(rig, replica, window_ms);
}

static struct taker *join_there(feed_rig *rig) {
    return join_there_with(rig, 0);
}

static void take(struct taker *taker) {
    struct iovec pieces[PIECES];
    size_t count;
    while ((count = player_gather(&taker->player, pieces, PIECES)) > 0) {
        size_t before = taker->count;
        for (size_t i = 0; i < count; i++) {
            assert_true(taker->count + pieces[i].iov_len <= TAKEN);
            memcpy(taker->bytes + taker->count, pieces[i].iov_base, pieces[i].iov_len);
            taker->count += pieces[i].iov_len;
        }
        player_sent(&taker->player, taker->count - before);
    }
}

static void take_all(feed_rig *rig) {
    turn_both(rig);
    for (unsigned i = 0; i < rig->taker_count; i++)
        if (rig->takers[i].bytes)
            take(&rig->takers[i]);
}

static void assert_same(const struct taker *one, const struct taker *other) {
    assert_true(one->count > 0);
    assert_int_equal(one->count, other->count);
    assert_memory_equal(one->bytes, other->bytes, one->count);
}

static void rig_close(feed_rig *rig) {
    for (unsigned i = 0; i < rig->taker_count; i++)
        if (rig->takers[i].bytes)
            leave(rig, &rig->takers[i]);
    for (unsigned i = 0; i < rig->seat_count; i++)
        replica_unreserve(rig->seats[i]);
    if (rig->stream->live)
        end(rig);
    replicas_tick(rig->stream, sluice_loop_now(rig->loops[0].loop));
    assert_false(replicas_any(rig->stream));
    turn_both(rig);
    stream_unref(rig->stream);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rig->sites[i].registry->count, 0);
        assert_null(registry_find(rig->sites[i].registry, "live/a"));
        registry_free(rig->sites[i].registry);
        assert_int_equal(rig->sites[i].lent, 0);
        loop_rig_close(&rig->loops[i]);
    }
}

static void both_get_the_same(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    struct taker *early = join(&rig, rig.stream), *early_there = join_there(&rig);
    begin(&rig);
    publish(&rig, GROUP + GROUP / 2);
    take_all(&rig);
    struct taker *late = join(&rig, rig.stream), *late_there = join_there(&rig);
    take_all(&rig);
    assert_same(late, late_there);
    publish(&rig, 3 * GROUP);
    take_all(&rig);
    assert_same(early, early_there);
    assert_same(late, late_there);
    assert_true(early->count > (size_t)4 * GROUP * FRAME && late->count > (size_t)3 * GROUP * FRAME);
    assert_int_equal(stream_player_count(rig.stream), 4);
    rig_close(&rig);
}

/* A feed that begins with a stream in all of its states begins with what the stream has cached. */
static void replica_begins_like_its_stream(void **state) {
    (void)state;
    for (unsigned frames = 0; frames <= 2 * GROUP; frames++) {
        feed_rig rig;
        rig_open(&rig);
        begin(&rig);
        publish(&rig, frames);
        turn_through_posted(rig.loops[0].loop);
        struct taker *here = join(&rig, rig.stream), *there = join_there(&rig);
        take_all(&rig);
        assert_int_equal(here->count, there->count);
        publish(&rig, GROUP + 1);
        take_all(&rig);
        assert_same(here, there);
        rig_close(&rig);
    }
}

/* An asking player, which opens a feed when it is told that the stream is known. */
static feed_rig *told_rig;

static void opens_a_feed(struct player *player) {
    player->state = PLAYER_PAUSED;
    assert_non_null(replica_open(told_rig->stream, &told_rig->sites[0], &told_rig->sites[1]));
}

/* A feed that begins while a tag is being given out, as one who is told of its stream may want, has
 * that tag once. */
static void feed_begins_with_the_first_tag(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    told_rig = &rig;
    struct taker *here = join(&rig, rig.stream);
    struct player asking = {.form.format = &wire_flv, .known = opens_a_feed};
    stream_add_asking(rig.stream, &asking);
    begin(&rig);
    publish(&rig, 1);
    struct taker *there = join_there(&rig);
    stream_remove_player(rig.stream, &asking);
    publish(&rig, GROUP + 1);
    take_all(&rig);
    assert_same(here, there);
    rig_close(&rig);
}

static void publishers_come_and_go(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    struct taker *here = join(&rig, rig.stream), *there = join_there(&rig);
    for (unsigned round = 0; round < 3; round++) {
        begin(&rig);
        publish(&rig, GROUP / 2);
        end(&rig);
        rig.next = 0;
        /* The other worker may hear of several at once. */
        if (round != 1)
            take_all(&rig);
        take(here);
    }
    assert_same(here, there);
    assert_int_equal(there->player.state, PLAYER_WAITING);
    assert_false(there->player.stream->live);
    rig_close(&rig);
}

/* The turn of the stream's worker may be later than that of the other one. */
static void players_wait_though_the_publisher_has_left_later(void **state) {
    (void)state;
    enum { AHEAD = 5, WAIT = 1000 };
    feed_rig rig;
    rig_open(&rig);
    struct taker *there = join_there(&rig);
    begin(&rig);
    publish(&rig, 1);
    take_all(&rig);
    uint64_t now = sluice_loop_now(rig.loops[1].loop) + 1000;
    end_at(&rig, now + AHEAD);
    turn_both(&rig);
    assert_false(there->player.stream->live);
    assert_false(stream_is_given_up(there->player.stream, 0, WAIT, now));
    assert_false(stream_is_given_up(there->player.stream, 0, WAIT, now + AHEAD + WAIT - 1));
    assert_true(stream_is_given_up(there->player.stream, 0, WAIT, now + AHEAD + WAIT));
    rig_close(&rig);
}

/* Memory for messages runs out for a while: what was lost is a gap, and what has become of the
 * stream is told later. */
static void messages_find_no_memory(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    struct taker *here = join(&rig, rig.stream), *there = join_there(&rig);
    begin(&rig);
    publish(&rig, GROUP + 2);
    take_all(&rig);
    malloc_fails = true;
    publish(&rig, 3);
    take(here);
    turn_both(&rig);
    malloc_fails = false;
    publish(&rig, GROUP - 5 + 2);
    take_all(&rig);
    /* Up to the key frame. */
    assert_int_equal(there->player.dropped[DROP_NO_MEMORY], GROUP - 2);
    assert_int_equal(here->player.packets_sent - there->player.packets_sent, GROUP - 2);
    assert_memory_equal(here->bytes + here->count - FRAME, there->bytes + there->count - FRAME, FRAME);
    assert_int_equal(player_dropped(&here->player), 0);
    malloc_fails = true;
    end(&rig);
    turn_both(&rig);
    assert_true(there->player.stream->live);
    malloc_fails = false;
    rig.next = 0;
    begin(&rig);
    publish(&rig, 1);
    take_all(&rig);
    assert_true(there->player.stream->live);
    assert_memory_equal(here->bytes + here->count - FRAME, there->bytes + there->count - FRAME, FRAME);
    end(&rig);
    turn_both(&rig);
    assert_false(there->player.stream->live);
    rig_close(&rig);
}

static const uint8_t first_header[] = {0x17, 0, 0, 0, 0, 1, 2, 3}, /* as of publish() */
    new_header[] = {0x17, 0, 0, 0, 0, 3, 2, 1}, key_frame[FRAME] = {0x17, 1}, inter_frame[FRAME] = {0x27, 1};

/* The same with a FourCC: players that know no tracks are sent those above. */
static const uint8_t new_header_by_fourcc[] = {0x90, 'a', 'v', 'c', '1', 3, 2, 1},
                     key_frame_by_fourcc[FRAME] = {0x93, 'a', 'v', 'c', '1'},
                     inter_frame_by_fourcc[FRAME] = {0xa3, 'a', 'v', 'c', '1'},
                     inter_frame_of_track_1[FRAME] = {0xa6, 3, 'a', 'v', 'c', '1', 1};

/* A frame is lost for itself, a decoder's header for all that follow, unless it is the one in
 * force. */
static void a_lost_header_is_no_lost_frame(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    begin(&rig);
    publish(&rig, 2);
    role_without_memory = PACKET_VIDEO;
    assert_int_equal(publish_video(&rig, inter_frame, FRAME), -ENOMEM);
    role_without_memory = PACKET_VIDEO_HEADER;
    assert_int_equal(publish_video(&rig, first_header, sizeof first_header), -ENOMEM);
    assert_int_equal(publish_video(&rig, new_header, sizeof new_header), -ENOTRECOVERABLE);
    role_without_memory = -1;
    assert_int_equal(publish_video(&rig, new_header, sizeof new_header), 0);
    assert_int_equal(publish_video(&rig, key_frame, FRAME), 0);
    assert_int_equal(rig.stream->frames_dropped, 3);
    /* The next publisher's is not there before it has come, even if it is the same. */
    end(&rig);
    begin(&rig);
    role_without_memory = PACKET_VIDEO_HEADER;
    assert_int_equal(publish_video(&rig, new_header, sizeof new_header), -ENOTRECOVERABLE);
    role_without_memory = -1;
    rig_close(&rig);
}

/* A video header, which finds no memory at the other worker. */
static void publish_header_lost_there(feed_rig *rig, const uint8_t *header, uint32_t size) {
    assert_int_equal(publish_video(rig, header, size), 0);
    role_without_memory = PACKET_VIDEO_HEADER;
    turn_both(rig);
    role_without_memory = -1;
}

static void lose_header_there(bool alone) {
    enum { TAG = SLUICE_FLV_TAG_HEADER_SIZE, AROUND = TAG + SLUICE_FLV_TRAILER_SIZE };
    const uint8_t *header = alone ? new_header_by_fourcc : new_header, *key = alone ? key_frame_by_fourcc : key_frame,
                  *inter = alone ? inter_frame_by_fourcc : inter_frame;
    feed_rig rig;
    rig_open(&rig);
    rig.alone = alone;
    struct taker *here = join(&rig, rig.stream), *there = join_there(&rig);
    begin(&rig);
    publish(&rig, 2);
    take_all(&rig);
    assert_same(here, there);
    size_t before = there->count;
    publish_header_lost_there(&rig, header, sizeof new_header);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(publish_video(&rig, inter, FRAME), 0);
    take_all(&rig);
    assert_int_equal(there->count, before);
    assert_int_equal(publish_video(&rig, key, FRAME), 0);
    assert_int_equal(publish_video(&rig, inter, FRAME), 0);
    take_all(&rig);
    assert_int_equal(there->count, before + AROUND + sizeof new_header + 2 * (AROUND + FRAME));
    assert_memory_equal(there->bytes + before + TAG, new_header, sizeof new_header);
    assert_memory_equal(there->bytes + there->count - 2 * (AROUND + FRAME) + TAG, key_frame, FRAME);
    size_t last = 2 * (AROUND + FRAME);
    assert_memory_equal(here->bytes + here->count - last, there->bytes + there->count - last, last);
    rig_close(&rig);
}

/* The other worker has no memory for a header: players there get no frame up to a key frame, before
 * which it comes again. */
static void a_header_lost_there_comes_again(void **state) {
    (void)state;
    lose_header_there(false);
    lose_header_there(true);
}

/* Behind a gap all headers come again; players that know no tracks go on with what they have. */
static void players_without_tracks_go_on_behind_a_gap(void **state) {
    (void)state;
    enum { AROUND = SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE };
    feed_rig rig;
    rig_open(&rig);
    rig.alone = true;
    struct taker *there = join_there(&rig);
    begin(&rig);
    assert_int_equal(publish_video(&rig, new_header_by_fourcc, sizeof new_header_by_fourcc), 0);
    assert_int_equal(publish_video(&rig, key_frame_by_fourcc, FRAME), 0);
    take_all(&rig);
    size_t before = there->count;
    assert_true(before > FRAME);
    malloc_fails = true;
    assert_int_equal(publish_video(&rig, inter_frame_by_fourcc, FRAME), 0);
    turn_both(&rig);
    malloc_fails = false;
    assert_int_equal(publish_video(&rig, key_frame_by_fourcc, FRAME), 0);
    assert_int_equal(publish_video(&rig, inter_frame_by_fourcc, FRAME), 0);
    take_all(&rig);
    assert_int_equal(there->player.dropped[DROP_NO_MEMORY], 1);
    assert_int_equal(there->count, before + 2 * (AROUND + FRAME));
    rig_close(&rig);
}

/* While a header is missing, a player is not told that it has lost what it is never sent. */
static void what_a_player_is_not_sent_is_not_lost(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    struct taker *with_tracks = join_there(&rig);
    rig.alone = true;
    struct taker *alone = join_there(&rig);
    begin(&rig);
    publish(&rig, 2);
    take_all(&rig);
    publish_header_lost_there(&rig, new_header_by_fourcc, sizeof new_header_by_fourcc);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(publish_video(&rig, inter_frame_of_track_1, FRAME), 0);
    assert_int_equal(publish_video(&rig, inter_frame_by_fourcc, FRAME), 0);
    take_all(&rig);
    assert_int_equal(with_tracks->player.dropped[DROP_UNTIL_KEY], 3);
    assert_int_equal(alone->player.dropped[DROP_UNTIL_KEY], 1);
    rig_close(&rig);
}

/* A header that the other worker has is not missing there if it finds no memory once more. */
static void a_repeated_header_is_not_missed(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    struct taker *here = join(&rig, rig.stream), *there = join_there(&rig);
    begin(&rig);
    publish(&rig, 2);
    take_all(&rig);
    assert_int_equal(publish_video(&rig, first_header, sizeof first_header), 0);
    assert_int_equal(publish_video(&rig, key_frame, FRAME), 0);
    role_without_memory = PACKET_VIDEO_HEADER;
    turn_both(&rig);
    role_without_memory = -1;
    assert_int_equal(publish_video(&rig, inter_frame, FRAME), 0);
    take_all(&rig);
    size_t last = 2 * (SLUICE_FLV_TAG_HEADER_SIZE + FRAME + SLUICE_FLV_TRAILER_SIZE);
    assert_int_equal(there->player.packets_sent, here->player.packets_sent);
    assert_memory_equal(here->bytes + here->count - last, there->bytes + there->count - last, last);
    rig_close(&rig);
}

static void stand_in_ended(struct stand_in *stand_in, bool by_source) {
    (void)stand_in;
    (void)by_source;
}

/* A stream stands in, and there is no memory for a header of it in the other stream: it passes that
 * on again before the next key frame, and nothing before. */
static void a_header_lost_by_a_stand_in_comes_again(void **state) {
    (void)state;
    enum { TAG = SLUICE_FLV_TAG_HEADER_SIZE, AROUND = TAG + SLUICE_FLV_TRAILER_SIZE };
    feed_rig rig;
    struct stream *target;
    struct stand_in stand_in = {.ended = stand_in_ended};
    rig_open(&rig);
    begin(&rig);
    publish(&rig, 2);
    assert_int_equal(registry_get(rig.sites[0].registry, "live/b", 6, 1, &target), 0);
    struct taker *taker = join(&rig, target);
    /* At its beginning, and on its way. */
    for (unsigned round = 0; round < 2; round++) {
        role_without_memory = PACKET_VIDEO_HEADER;
        with_memory = round;
        if (round == 0)
            assert_int_equal(stand_in_begin(&stand_in, rig.stream, target, "backup"), 0);
        else
            assert_int_equal(publish_video(&rig, new_header, sizeof new_header), 0);
        role_without_memory = -1;
        with_memory = 0;
        take(taker);
        size_t before = taker->count;
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(publish_video(&rig, inter_frame, FRAME), 0);
        take(taker);
        assert_int_equal(taker->count, before);
        /* By the first one the tracks are known, as far as all that has come is lost. */
        for (unsigned keys = round == 0 ? 2 : 1; keys > 0; keys--)
            assert_int_equal(publish_video(&rig, key_frame, FRAME), 0);
        take(taker);
        const uint8_t *header = round == 0 ? first_header : new_header;
        size_t key = AROUND + FRAME, tag = AROUND + sizeof first_header;
        assert_true(taker->count >= before + tag + key);
        assert_memory_equal(taker->bytes + taker->count - key - tag + TAG, header, sizeof first_header);
        assert_memory_equal(taker->bytes + taker->count - key + TAG, key_frame, FRAME);
    }
    stand_in_end(&stand_in);
    leave(&rig, taker);
    stream_unref(target);
    rig_close(&rig);
}

/* Frames that are kept for players with a window when a gap comes are from before it. */
static void a_gap_is_behind_what_is_kept(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    begin(&rig);
    publish(&rig, GROUP - 1);
    struct taker *there = join_there(&rig), *gathered = join_there_with(&rig, COALESCE_WINDOW_MOST);
    struct coalesce_group *merge = gathered->player.merge;
    take_all(&rig);
    publish(&rig, 3); /* the second is a key frame */
    turn_both(&rig);
    assert_true(merge->kept_count > 0);
    malloc_fails = true;
    publish(&rig, 1);
    turn_both(&rig);
    malloc_fails = false;
    publish(&rig, GROUP + 1);
    turn_both(&rig);
    coalesce_flush(merge, sluice_loop_now(rig.loops[1].loop));
    take_all(&rig);
    assert_true(player_dropped(&there->player) > 0);
    assert_int_equal(player_dropped(&there->player), player_dropped(&gathered->player));
    assert_same(there, gathered);
    rig_close(&rig);
}

/* What a player there does not take is memory of this worker's: it is bounded, and those here do
 * not notice. */
static void what_is_lent_is_bounded(void **state) {
    (void)state;
    enum { AT_ONCE = 8 };
    feed_rig rig;
    rig_open(&rig);
    struct taker *here = join(&rig, rig.stream), *there = join_there(&rig);
    begin(&rig);
    uint64_t most = 0;
    for (unsigned i = 0; i < 4 * BLOCKS / AT_ONCE; i++) {
        publish(&rig, AT_ONCE);
        take(here);
        /* Enough for the bytes to compare not to be too many. */
        here->count = 0;
        turn_both(&rig);
        most = rig.sites[0].lent > most ? rig.sites[0].lent : most;
    }
    assert_int_equal(rig.stream->frames_dropped, 0);
    assert_int_equal(player_dropped(&here->player), 0);
    assert_true(player_dropped(&there->player) > 0);
    /* While there is memory, it may be used; one that takes nothing is not to use it up. */
    assert_true(most > rig.sites[0].most_lent);
    assert_true(most < (uint64_t)BLOCKS * BLOCK);
    take(there);
    there->count = 0;
    publish(&rig, 2 * GROUP);
    take_all(&rig);
    publish(&rig, 1);
    here->count = there->count = 0;
    take_all(&rig);
    assert_same(here, there);
    rig_close(&rig);
}

/* Small frames come in one block, and only a player there holds them. */
static void a_block_is_lent_once(void **state) {
    (void)state;
    enum { FRAMES = 20, SMALL = 100 };
    uint8_t bytes[BLOCK], payload[SMALL] = {0x27, 1};
    size_t at = 0;
    sluice_flv_tag *tag;
    feed_rig rig;
    rig_open(&rig);
    begin(&rig);
    rig.stream->policy.gop_size = 0;
    publish(&rig, GROUP);
    struct taker *there = join_there(&rig);
    take_all(&rig);
    publish(&rig, GROUP); /* of which the first is a key frame */
    take_all(&rig);
    assert_int_equal(there->player.state, PLAYER_PLAYING);
    uint64_t before = rig.sites[0].lent;
    for (unsigned i = 0; i < FRAMES; i++)
        write_tag(bytes, &at, (rig.next + i) * STEP, payload, sizeof payload);
    feed(rig.chain, rig.loops[0].pool, bytes, at, 0);
    while (sluice_flv_next(rig.flv, rig.chain, &tag) > 0)
        assert_int_equal(stream_publish(rig.stream, tag, SLUICE_FLV_HAS_VIDEO), 0);
    turn_both(&rig);
    assert_int_equal(there->player.count, FRAMES);
    assert_in_range(rig.sites[0].lent - before, BLOCK, FRAMES * BLOCK / 2);
    rig_close(&rig);
}

static void feed_ends_without_players(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    begin(&rig);
    publish(&rig, GROUP);
    struct taker *there = join_there(&rig);
    take_all(&rig);
    uint64_t now = sluice_loop_now(rig.loops[0].loop), sends = there->player.sends;
    assert_true(sends > 0);
    assert_int_equal(stream_sends(rig.stream), sends);
    replicas_tick(rig.stream, now);
    leave(&rig, there);
    replicas_tick(rig.stream, now + 100000);
    assert_true(replicas_any(rig.stream));
    assert_int_equal(replicas_players(rig.stream), 1);
    replica_unreserve(rig.seats[--rig.seat_count]);
    replicas_tick(rig.stream, now);
    replicas_tick(rig.stream, now + 1000);
    assert_true(replicas_any(rig.stream));
    assert_true(rig.sites[0].lent > 0);
    replicas_tick(rig.stream, now + 100000);
    assert_false(replicas_any(rig.stream));
    turn_both(&rig);
    assert_int_equal(rig.sites[0].lent, 0);
    /* The count of sends has not gone with it. */
    assert_int_equal(stream_sends(rig.stream), sends);
    /* And there may be another one. */
    there = join_there(&rig);
    struct taker *here = join(&rig, rig.stream);
    publish(&rig, 1);
    take_all(&rig);
    assert_same(here, there);
    assert_int_equal(stream_sends(rig.stream), sends + here->player.sends + there->player.sends);
    rig_close(&rig);
}

/* A stream ends in the turn in which it was published: what has not been sent across comes back all
 * the same. */
static void feed_closes_with_a_batch_in_hand(void **state) {
    (void)state;
    feed_rig rig;
    rig_open(&rig);
    begin(&rig);
    struct taker *there = join_there(&rig);
    publish(&rig, GROUP);
    take_all(&rig);
    leave(&rig, there);
    replica_unreserve(rig.seats[--rig.seat_count]);
    publish(&rig, 3);
    replicas_close(rig.stream);
    assert_false(replicas_any(rig.stream));
    rig_close(&rig);
}

/* The workers end with everything as it is: nothing is posted any more, and it all comes back. */
static void workers_end_in_any_order(void **state) {
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        feed_rig rig;
        rig_open(&rig);
        begin(&rig);
        publish(&rig, GROUP);
        struct taker *there = join_there(&rig);
        publish(&rig, 1);
        leave(&rig, there);
        replica_unreserve(rig.seats[--rig.seat_count]);
        atomic_store(&rig.over, true);
        struct registry *registries[] = {rig.sites[0].registry, rig.sites[1].registry};
        for (unsigned i = 0; i < 2; i++) {
            unsigned which = i ^ first;
            if (which == 0) {
                end(&rig);
                stream_unref(rig.stream);
            }
            sluice_loop_free(rig.loops[which].loop);
            rig.sites[which].loop = NULL;
            registry_free(registries[which]);
        }
        assert_int_equal(rig.sites[0].lent, 0);
        pool_close(rig.loops[0].pool);
        pool_close(rig.loops[1].pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_get_the_same),
        cmocka_unit_test(replica_begins_like_its_stream),
        cmocka_unit_test(publishers_come_and_go),
        cmocka_unit_test(players_wait_though_the_publisher_has_left_later),
        cmocka_unit_test(messages_find_no_memory),
        cmocka_unit_test(a_gap_is_behind_what_is_kept),
        cmocka_unit_test(a_block_is_lent_once),
        cmocka_unit_test(what_is_lent_is_bounded),
        cmocka_unit_test(feed_ends_without_players),
        cmocka_unit_test(feed_closes_with_a_batch_in_hand),
        cmocka_unit_test(workers_end_in_any_order),
        cmocka_unit_test(feed_begins_with_the_first_tag),
        cmocka_unit_test(a_lost_header_is_no_lost_frame),
        cmocka_unit_test(a_header_lost_there_comes_again),
        cmocka_unit_test(players_without_tracks_go_on_behind_a_gap),
        cmocka_unit_test(what_a_player_is_not_sent_is_not_lost),
        cmocka_unit_test(a_repeated_header_is_not_missed),
        cmocka_unit_test(a_header_lost_by_a_stand_in_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
