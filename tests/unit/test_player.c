/*
 * A player that does not keep up, at times of the test's own: what it skips, what it is told to
 * have lost, and that it does not stay late. It has no connection: what would be sent is taken from
 * it.
 */
#include "daemon/relay/player.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/slow_player.h"
#include "daemon/relay/stream.h"
#include "support/slices.h"

enum {
    STEP = 40,  /* milliseconds from one frame to the next */
    GROUP = 25, /* frames from one key frame to the next */
    GROUP_MS = GROUP * STEP,
    FRAME = 600,     /* bytes */
    BEGIN = 1000000, /* loop time */
    CATCH_UP = 3000,
    PIECES = 64,
};

void __wrap_sluice_conn_want_send(sluice_conn *conn);
bool __wrap_sluice_conn_is_sending(const sluice_conn *conn);

static bool sending;

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

bool __wrap_sluice_conn_is_sending(const sluice_conn *conn) {
    (void)conn;
    return sending;
}

typedef struct player_rig {
    sluice_pool *pool;
    struct packet_pool *packets;
    struct stream stream;
    struct stream_headers headers;
    struct gop gop;
    struct player player;
    bool has_video;
    unsigned next; /* number of the next frame */

    /* What the player has been sent: */
    unsigned frames, video_headers, gaps;
    unsigned last;      /* number of the last frame, from 1 on */
    uint64_t most_late; /* milliseconds from when it came */
} player_rig;

static uint64_t now_of(const player_rig *rig) {
    return BEGIN + (uint64_t)rig->next * STEP;
}

/* A packet of which the last four bytes are a number. */
static struct packet *make(player_rig *rig, enum packet_role role, uint32_t timestamp, unsigned number) {
    uint8_t bytes[FRAME] = {0};
    struct packet *packet;
    const sluice_flv_tag tag = {.type = role == PACKET_AUDIO ? SLUICE_FLV_AUDIO : SLUICE_FLV_VIDEO};
    memcpy(bytes + sizeof bytes - sizeof number, &number, sizeof number);
    sluice_slice payload = slice_of(rig->pool, bytes, sizeof bytes, 0);
    packet = packet_new(rig->packets, &tag, role, timestamp, &payload);
    assert_non_null(packet);
    packet->received_at = now_of(rig);
    return packet;
}

static void rig_open(player_rig *rig, bool has_video, uint32_t catch_up_ms) {
    static const sluice_pool_options options = {
        .size = sizeof options, .block_size = 4096, .max_blocks = 16384, .no_huge_pages = true};
    *rig = (player_rig){.has_video = has_video};
    sending = false;
    log_set_level(LOG_ERROR);
    assert_int_equal(sluice_pool_new(&options, &rig->pool), 0);
    assert_int_equal(packet_pool_new(UINT64_MAX, &rig->packets), 0);
    rig->stream.name = "live/a";
    rig->player = (struct player){
        .form.format = &wire_flv, .stream = &rig->stream, .limit = 16 << 20, .catch_up_ms = catch_up_ms};
    if (!has_video)
        return;
    struct packet *header = make(rig, PACKET_VIDEO_HEADER, 0, 0);
    stream_headers_set(&rig->headers, header);
    packet_unref(header);
}

static void rig_close(player_rig *rig) {
    player_clear(&rig->player);
    gop_clear(&rig->gop);
    stream_headers_clear(&rig->headers);
    packet_pool_free(rig->packets);
    feed_assert_returned(rig->pool);
    sluice_pool_free(rig->pool);
}

static void start(player_rig *rig) {
    player_start(&rig->player, now_of(rig), 0, &rig->gop, &rig->headers, rig->has_video);
}

static void publish(player_rig *rig, unsigned count) {
    while (count-- > 0) {
        enum packet_role role = !rig->has_video          ? PACKET_AUDIO
                                : rig->next % GROUP == 0 ? PACKET_KEY_FRAME
                                                         : PACKET_VIDEO;
        struct packet *packet = make(rig, role, rig->next * STEP, rig->next + 1);
        gop_add(&rig->gop, packet, &rig->headers, UINT32_MAX);
        if (rig->player.begun)
            player_push(&rig->player, packet, &rig->headers, rig->has_video);
        packet_unref(packet);
        rig->next++;
    }
}

/* Looks at the packet that is to be sent next. */
static void look(player_rig *rig) {
    const struct player *player = &rig->player;
    const struct packet *packet = player->queue[player->first];
    unsigned number;
    uint8_t bytes[FRAME];
    assert_int_equal(slice_bytes(&packet->payload, bytes, sizeof bytes), FRAME);
    memcpy(&number, bytes + sizeof bytes - sizeof number, sizeof number);
    rig->video_headers += packet->role == PACKET_VIDEO_HEADER;
    if (packet->role < PACKET_KEY_FRAME)
        return;
    assert_true(number > rig->last);
    if (rig->last > 0 && number != rig->last + 1) {
        rig->gaps++;
        assert_true(!rig->has_video || packet->role == PACKET_KEY_FRAME);
    }
    uint64_t late = now_of(rig) - packet->received_at;
    rig->most_late = late > rig->most_late ? late : rig->most_late;
    rig->last = number;
    rig->frames++;
}

/* The player is sent so many packets, as far as there are any. */
static void take(player_rig *rig, size_t count) {
    struct player *player = &rig->player;
    struct iovec pieces[PIECES];
    for (; count > 0 && player->count > 0; count--) {
        look(rig);
        (void)player_gather(player, pieces, PIECES);
        player_sent(player, player->form.format->size(player->queue[player->first]) - player->sent_of_first);
    }
}

static size_t waiting;

static size_t count_encrypted(const struct player *player) {
    (void)player;
    return waiting;
}

/* Beside a queue that is empty, and to the byte: a packet fits, and with one byte more it is
 * lost. */
static void what_is_encrypted_counts_to_the_bound(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, false, 0);
    rig.player.encrypted = count_encrypted;
    start(&rig);
    waiting = 0;
    publish(&rig, 1);
    const uint64_t one = rig.player.queued_bytes;
    take(&rig, 1);
    waiting = rig.player.limit - 2 * one;
    publish(&rig, 2);
    assert_int_equal(rig.player.queued_bytes, 2 * one);
    assert_int_equal(player_dropped(&rig.player), 0);
    take(&rig, 2);
    waiting++;
    publish(&rig, 1);
    assert_int_equal(rig.player.dropped[DROP_QUEUE_FULL], 0);
    publish(&rig, 1);
    assert_true(rig.player.dropped[DROP_QUEUE_FULL] > 0);
    assert_int_equal(rig.player.state, PLAYER_BEHIND);
    /* It goes on when no more than half of the bound is held. */
    take(&rig, 2);
    const unsigned frames = rig.frames;
    waiting = rig.player.limit / 2 + 1;
    publish(&rig, 1);
    assert_int_equal(rig.player.count, 0);
    waiting--;
    publish(&rig, 1);
    take(&rig, 1);
    assert_int_equal(rig.frames, frames + 1);
    rig_close(&rig);
}

static void late_player_skips_to_the_newest_key_frame(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, CATCH_UP);
    start(&rig);
    /* As much as may wait; the newest key frame is the last one but one group. */
    publish(&rig, CATCH_UP / STEP);
    assert_int_equal(player_dropped(&rig.player), 0);
    publish(&rig, 1);
    /* Key frames are the 1st, 26th, 51st, 76th; the last is there since this moment. */
    assert_int_equal(rig.player.dropped[DROP_CATCH_UP], CATCH_UP / STEP);
    assert_int_equal(player_dropped(&rig.player), CATCH_UP / STEP);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.frames, 1);
    assert_int_equal(rig.last, CATCH_UP / STEP + 1);
    /* The decoder's header was among what is skipped, and the player has not had it yet. */
    assert_int_equal(rig.video_headers, 1);
    publish(&rig, GROUP);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.gaps, 0);
    assert_int_equal(rig.player.queued_bytes, 0);
    rig_close(&rig);
}

static void what_is_being_sent_is_finished(void **state) {
    (void)state;
    player_rig rig;
    struct iovec pieces[PIECES];
    rig_open(&rig, true, CATCH_UP);
    start(&rig);
    publish(&rig, 10);
    /* The kernel has what is here, and takes a part of the second frame. */
    size_t count = player_gather(&rig.player, pieces, 12);
    size_t gathered = rig.player.gathered;
    assert_true(count <= 12 && gathered > 1 && gathered < 10);
    publish(&rig, 2 * CATCH_UP / STEP);
    assert_true(rig.player.dropped[DROP_CATCH_UP] > 0);
    for (size_t i = 0; i < gathered; i++)
        assert_int_equal(rig.player.queue[(rig.player.first + i) & (rig.player.capacity - 1)]->received_at,
                         BEGIN + (i > 0 ? (i - 1) * STEP : 0));
    look(&rig);
    player_sent(&rig.player, rig.player.form.format->size(rig.player.queue[rig.player.first]) + 100);
    assert_int_equal(rig.player.sent_of_first, 100);
    publish(&rig, 2 * CATCH_UP / STEP);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.last, rig.next);
    assert_int_equal(rig.gaps, 1);
    assert_int_equal(rig.frames + player_dropped(&rig.player), rig.next);
    rig_close(&rig);
}

/* A stalled one: whatever comes, its queue does not grow beyond what may wait. */
static void stalled_player_holds_no_more_than_may_wait(void **state) {
    (void)state;
    player_rig rig;
    struct iovec pieces[PIECES];
    rig_open(&rig, true, CATCH_UP);
    start(&rig);
    publish(&rig, 1);
    (void)player_gather(&rig.player, pieces, 3);
    for (unsigned i = 0; i < 100 * GROUP; i++) {
        publish(&rig, 1);
        assert_true(rig.player.count <= (CATCH_UP + GROUP_MS) / STEP + 8);
    }
    assert_int_equal(player_behind_ms(&rig.player, now_of(&rig)), 100 * GROUP_MS + STEP);
    rig_close(&rig);
}

static void nothing_is_skipped_without_a_newer_key_frame(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, GROUP_MS / 2);
    start(&rig);
    publish(&rig, GROUP);
    assert_int_equal(player_dropped(&rig.player), 0);
    take(&rig, 3);
    publish(&rig, 1);
    assert_int_equal(rig.player.dropped[DROP_CATCH_UP], GROUP - 2);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.last, GROUP + 1);
    rig_close(&rig);
}

static void audio_alone_skips_to_the_newest_frame(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, false, CATCH_UP);
    start(&rig);
    publish(&rig, CATCH_UP / STEP + 1);
    assert_int_equal(rig.player.dropped[DROP_CATCH_UP], CATCH_UP / STEP);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.last, rig.next);
    rig_close(&rig);
}

/* What was cached has waited for this player only since it came. */
static void cached_group_is_not_late_when_the_player_comes(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, GROUP_MS / 4);
    publish(&rig, GROUP - 1);
    start(&rig);
    publish(&rig, 2);
    assert_int_equal(player_dropped(&rig.player), 0);
    assert_true(player_behind_ms(&rig.player, now_of(&rig)) <= 2 * STEP);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.frames, GROUP + 1);
    rig_close(&rig);
    /* But when it does not take it, a newer key frame comes before. */
    rig_open(&rig, true, GROUP_MS / 4);
    publish(&rig, GROUP - GROUP / 2);
    start(&rig);
    publish(&rig, GROUP);
    take(&rig, SIZE_MAX);
    assert_int_equal(rig.frames, GROUP - GROUP / 2);
    assert_int_equal(rig.player.dropped[DROP_CATCH_UP], GROUP);
    rig_close(&rig);
}

/* Ten minutes for one who takes two thirds of what comes. How late what it gets is at most. */
static uint64_t drift(uint32_t catch_up_ms) {
    player_rig rig;
    rig_open(&rig, true, catch_up_ms);
    start(&rig);
    for (unsigned i = 0; i < 10 * 60 * 1000 / STEP / 3; i++) {
        publish(&rig, 3);
        take(&rig, 2);
    }
    uint64_t most = rig.most_late;
    assert_true((rig.gaps > 0) == (player_dropped(&rig.player) > 0));
    /* It was behind all the while. */
    assert_true(player_behind_ms(&rig.player, now_of(&rig)) >= 9 * 60 * 1000);
    rig_close(&rig);
    return most;
}

static void latency_does_not_drift(void **state) {
    (void)state;
    assert_true(drift(0) > 3 * 60 * 1000);
    assert_true(drift(CATCH_UP) <= CATCH_UP + 3 * STEP);
    /* Where key frames are rarer, it is the time between them. */
    assert_true(drift(GROUP_MS / 4) <= GROUP_MS + 3 * STEP);
}

static void player_that_keeps_up_is_never_behind(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, CATCH_UP);
    start(&rig);
    for (unsigned i = 0; i < 1000; i++) {
        publish(&rig, 2);
        assert_true(player_behind_ms(&rig.player, now_of(&rig)) <= 2 * STEP);
        take(&rig, SIZE_MAX);
        assert_int_equal(player_behind_ms(&rig.player, now_of(&rig)), 0);
        /* Something is lost that is not its fault. */
        if (i == 500)
            player_drop(&rig.player, DROP_NO_MEMORY);
    }
    assert_int_equal(rig.gaps, 1);
    assert_int_equal(rig.player.dropped[DROP_CATCH_UP], 0);
    rig_close(&rig);
}

/* One that loses what is queued, again and again, is not up to date by that. */
static void drops_do_not_make_a_player_keep_up(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, 0);
    start(&rig);
    publish(&rig, GROUP);
    for (unsigned i = 0; i < 20; i++) {
        player_drop(&rig.player, DROP_QUEUE_FULL);
        publish(&rig, GROUP);
        take(&rig, 2);
    }
    assert_int_equal(player_behind_ms(&rig.player, now_of(&rig)), 21 * GROUP_MS);
    /* Once it has had everything for a while, it is. */
    take(&rig, SIZE_MAX);
    assert_int_equal(player_behind_ms(&rig.player, now_of(&rig)), 0);
    publish(&rig, 1);
    assert_int_equal(player_behind_ms(&rig.player, now_of(&rig)), 21 * GROUP_MS + STEP);
    for (unsigned i = 0; i < 10000 / STEP; i++) {
        take(&rig, SIZE_MAX);
        publish(&rig, 1);
    }
    assert_int_equal(player_behind_ms(&rig.player, now_of(&rig)), STEP);
    rig_close(&rig);
}

static void slow_players_are_ended_when_they_may_not_be_slow_for_longer(void **state) {
    (void)state;
    const struct stream_policy strict = {.stall_ms = 5000, .behind_ms = 20000}, patient = {.stall_ms = 5000};
    player_rig rig;
    rig_open(&rig, true, 0);
    rig.stream.policy = strict;
    start(&rig);
    publish(&rig, 3000 / STEP);
    assert_null(slow_player_tick(&rig.player, "peer", now_of(&rig)));
    assert_true(slow_player_is(&rig.player, now_of(&rig)));
    assert_true(rig.player.told_slow);
    /* It takes something all the while, but never everything. */
    sending = true;
    while (player_behind_ms(&rig.player, now_of(&rig) + STEP) < strict.behind_ms) {
        publish(&rig, 1);
        take(&rig, 1);
        rig.player.progress_at = now_of(&rig);
        assert_null(slow_player_tick(&rig.player, "peer", now_of(&rig)));
    }
    publish(&rig, 1);
    assert_string_equal(slow_player_tick(&rig.player, "peer", now_of(&rig)), "too far behind");
    rig.stream.policy = patient;
    assert_null(slow_player_tick(&rig.player, "peer", now_of(&rig)));
    publish(&rig, (unsigned)strict.stall_ms / STEP);
    assert_string_equal(slow_player_tick(&rig.player, "peer", now_of(&rig)), "send timeout");
    rig_close(&rig);
}

/* A group that may hold nothing does not, also where its packets' blocks are held and counted by
 * something else. */
static void nothing_is_kept_where_nothing_may_be(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, 0);
    struct packet *packet = make(&rig, PACKET_KEY_FRAME, 0, 1);
    assert_int_equal(packet->blocks, 0);
    gop_add(&rig.gop, packet, &rig.headers, 0);
    assert_int_equal(rig.gop.count, 0);
    gop_add(&rig.gop, packet, &rig.headers, 1);
    assert_int_equal(rig.gop.count, 1);
    packet_unref(packet);
    rig_close(&rig);
}

/* Queues a packet as a stream does: behind the headers, where it is one, and in the cached
 * group. */
static void publish_one(player_rig *rig, enum packet_role role, uint32_t version) {
    struct packet *packet = make(rig, role, rig->next * STEP, rig->next + 1);
    packet_set_version(packet, version);
    if (role < PACKET_KEY_FRAME)
        stream_headers_set(&rig->headers, packet);
    gop_add(&rig->gop, packet, &rig->headers, UINT32_MAX);
    if (rig->player.begun)
        player_push(&rig->player, packet, &rig->headers, rig->has_video);
    packet_unref(packet);
    rig->next++;
}

/* What is queued, from the front: the role and the number of each packet. */
static void assert_queued(const player_rig *rig, size_t count, const enum packet_role *roles, const unsigned *numbers) {
    const struct player *player = &rig->player;
    assert_int_equal(player->count, count);
    for (size_t i = 0; i < count; i++) {
        const struct packet *packet = player->queue[(player->first + i) & (player->capacity - 1)];
        uint8_t bytes[FRAME];
        unsigned number;
        assert_int_equal(slice_bytes(&packet->payload, bytes, sizeof bytes), FRAME);
        memcpy(&number, bytes + sizeof bytes - sizeof number, sizeof number);
        assert_int_equal(packet->role, roles[i]);
        assert_int_equal(number, numbers[i]);
    }
}

/* Without a cached group, neither sound nor picture is sent before a key frame; it comes with its
 * header. */
static void player_starts_at_a_key_frame(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, 0);
    start(&rig);
    publish_one(&rig, PACKET_VIDEO, 0);
    publish_one(&rig, PACKET_AUDIO, 0);
    assert_int_equal(rig.player.count, 0);
    assert_int_equal(rig.player.dropped[DROP_UNTIL_KEY], 2);
    publish_one(&rig, PACKET_KEY_FRAME, 0);
    publish_one(&rig, PACKET_AUDIO, 0);
    assert_queued(&rig, 3, (enum packet_role[]){PACKET_VIDEO_HEADER, PACKET_KEY_FRAME, PACKET_AUDIO},
                  (unsigned[]){0, 3, 4});
    rig_close(&rig);
    /* Without video there is nothing to wait for. */
    rig_open(&rig, false, 0);
    start(&rig);
    publish_one(&rig, PACKET_AUDIO, 0);
    assert_int_equal(rig.player.count, 1);
    rig_close(&rig);
}

/* A header that came within the cached group is sent in its place; the frames before it have the
 * one before. */
static void cached_group_has_the_header_that_it_began_with(void **state) {
    (void)state;
    player_rig rig;
    rig_open(&rig, true, 0);
    publish_one(&rig, PACKET_METADATA, 3);
    publish_one(&rig, PACKET_VIDEO_HEADER, 1);
    publish_one(&rig, PACKET_KEY_FRAME, 0);
    publish_one(&rig, PACKET_VIDEO, 0);
    publish_one(&rig, PACKET_VIDEO_HEADER, 2);
    publish_one(&rig, PACKET_VIDEO, 0);
    start(&rig);
    assert_queued(&rig, 6,
                  (enum packet_role[]){PACKET_METADATA, PACKET_VIDEO_HEADER, PACKET_KEY_FRAME, PACKET_VIDEO,
                                       PACKET_VIDEO_HEADER, PACKET_VIDEO},
                  (unsigned[]){1, 2, 3, 4, 5, 6});
    rig_close(&rig);
}

/* A merge window of so many frames, all of which are then sent. */
static void send_window(player_rig *rig, unsigned frames) {
    publish(rig, frames);
    player_flush(&rig->player);
    take(rig, SIZE_MAX);
    assert_int_equal(rig->player.count, 0);
}

/* The slots that a window fills again and again are kept, those of a single delay given back. */
static void queue_has_what_windows_need(void **state) {
    (void)state;
    enum { WINDOW = 100, DELAYED = 1000, WINDOWS = 8 };
    player_rig rig;
    rig_open(&rig, false, 0);
    start(&rig);
    send_window(&rig, WINDOW);
    size_t kept = rig.player.capacity;
    for (unsigned i = 0; i < 2 * WINDOWS; i++) {
        const void *queue = rig.player.queue;
        send_window(&rig, WINDOW);
        assert_ptr_equal(rig.player.queue, queue);
    }
    send_window(&rig, DELAYED);
    assert_true(rig.player.capacity >= DELAYED);
    for (unsigned i = 0; i < WINDOWS; i++)
        send_window(&rig, WINDOW);
    send_window(&rig, WINDOW);
    assert_int_equal(rig.player.capacity, kept);
    rig_close(&rig);
}

/* Frames that are not pushed count where they would be sent: RTP is made of the main tracks
 * alone. */
static void a_missed_frame_counts_where_it_would_be_sent(void **state) {
    (void)state;
    struct player player = {.state = PLAYER_BEHIND, .form = {.format = &wire_rtp, .tracks = {true, false}}};
    player_miss(&player, SLUICE_FLV_AUDIO, true);
    player_miss(&player, SLUICE_FLV_VIDEO, false);
    assert_int_equal(player_dropped(&player), 0);
    player_miss(&player, SLUICE_FLV_VIDEO, true);
    assert_int_equal(player.dropped[DROP_UNTIL_KEY], 1);
    player.form.format = &wire_flv;
    player_miss(&player, SLUICE_FLV_AUDIO, false);
    assert_int_equal(player.dropped[DROP_UNTIL_KEY], 2);
    player.state = PLAYER_PLAYING;
    player_miss(&player, SLUICE_FLV_VIDEO, true);
    assert_int_equal(player_dropped(&player), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_has_what_windows_need),
        cmocka_unit_test(what_is_encrypted_counts_to_the_bound),
        cmocka_unit_test(late_player_skips_to_the_newest_key_frame),
        cmocka_unit_test(what_is_being_sent_is_finished),
        cmocka_unit_test(stalled_player_holds_no_more_than_may_wait),
        cmocka_unit_test(nothing_is_skipped_without_a_newer_key_frame),
        cmocka_unit_test(audio_alone_skips_to_the_newest_frame),
        cmocka_unit_test(cached_group_is_not_late_when_the_player_comes),
        cmocka_unit_test(latency_does_not_drift),
        cmocka_unit_test(player_that_keeps_up_is_never_behind),
        cmocka_unit_test(drops_do_not_make_a_player_keep_up),
        cmocka_unit_test(slow_players_are_ended_when_they_may_not_be_slow_for_longer),
        cmocka_unit_test(nothing_is_kept_where_nothing_may_be),
        cmocka_unit_test(player_starts_at_a_key_frame),
        cmocka_unit_test(cached_group_has_the_header_that_it_began_with),
        cmocka_unit_test(a_missed_frame_counts_where_it_would_be_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
