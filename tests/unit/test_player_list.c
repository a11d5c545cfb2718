/*
 * Players with a merge window and without: whatever becomes of stream and players, both are sent
 * the same. Packets of the former are kept by their group until the window is over, so all that
 * changes what a player is sent has to see them in time.
 */
#include "daemon/relay/player_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/relay/coalesce.h"
#include "daemon/relay/reclaim.h"
#include "daemon/relay/registry.h"
#include "support/publishing.h"
#include "support/slices.h"
#include "support/sockets.h"

enum {
    GUARD = 120,
    BLOCK = 4096,
    BLOCKS = 4096,
    RESERVE = 64,
    WINDOW = 350, /* milliseconds */
    PAIRS = 3,
    TAKEN = 1 << 20, /* bytes of a player, between two looks */
    PIECES = 64,
    FRAME = 600,       /* bytes of a payload, at most */
    SMALL = 30,        /* of many, which together are less than a player may be behind */
    STEP = 40,         /* milliseconds from one frame to the next */
    RUNS = 300,        /* streams of operations */
    STEPS = 400,       /* in each */
    KEPT = 256,        /* packets that a group keeps at most: coalesce.c */
    BUFFER = 32 << 10, /* bytes that a player may be behind: some do not keep up */
    CATCH_UP = 700,    /* milliseconds */
    SLOW = 2000,       /* milliseconds, after which a queue is dropped where memory is short */
};

static uint64_t time_now;
static bool no_memory; /* for what is kept */

void __wrap_sluice_conn_want_send(sluice_conn *conn);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (void)conn;
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return time_now;
}

void *__wrap_realloc(void *memory, size_t size) {
    return no_memory ? NULL : __real_realloc(memory, size);
}

typedef struct taker {
    struct player player;
    uint8_t *bytes;
    size_t count;
} taker;

/* The same player twice: as packets come, and with a window. */
typedef struct twins {
    taker at_once, gathered;
    bool is_here;
} twins;

typedef struct list_rig {
    loop_rig loop;
    struct registry *registry;
    struct stream *stream;
    sluice_chain *chain;
    sluice_flv *flv;
    twins pairs[PAIRS];
    uint32_t random;
    unsigned number; /* of the next packet */
} list_rig;

static unsigned pick(list_rig *rig, unsigned count) {
    rig->random = rig->random * 1664525 + 1013904223;
    return (rig->random >> 16) % count;
}

static void rig_open(list_rig *rig, uint32_t seed) {
    static const struct stream_policies policies = {
        .all = {.gop_size = 1 << 20, .player_buffer = BUFFER, .catch_up_ms = CATCH_UP}};
    const struct stream_limits limits = {.packet_bytes = 16 << 20, .policies = &policies};
    *rig = (list_rig){.random = seed};
    time_now = 1000000;
    log_set_level(LOG_ERROR);
    loop_rig_open_small(&rig->loop, BLOCK, BLOCKS, RESERVE, GUARD);
    assert_int_equal(registry_new(rig->loop.loop, &limits, &rig->registry), 0);
    assert_int_equal(registry_get(rig->registry, "live/a", strlen("live/a"), time_now, &rig->stream), 0);
    publishing_begin(rig->stream, rig->loop.pool, &rig->chain, &rig->flv);
}

static void end_publisher(list_rig *rig) {
    sluice_chain_free(rig->chain);
    sluice_flv_free(rig->flv);
    stream_detach(rig->stream, time_now);
}

static size_t begin_body(struct player *player, uint8_t flags, uint8_t *buffer) {
    (void)player;
    buffer[0] = flags;
    return 1;
}

static void join_one(list_rig *rig, taker *one, uint32_t window_ms) {
    static uint8_t preamble[PLAYER_PREAMBLE];
    one->bytes = malloc(TAKEN);
    assert_non_null(one->bytes);
    one->player.form.format = &wire_flv;
    one->player.merge_window_ms = window_ms;
    one->player.begin = begin_body;
    one->player.preamble = preamble;
    stream_add_player(rig->stream, &one->player);
}

static void join(list_rig *rig, twins *pair) {
    join_one(rig, &pair->at_once, 0);
    join_one(rig, &pair->gathered, WINDOW);
    assert_non_null(pair->gathered.player.merge);
    pair->is_here = true;
}

static void leave_one(taker *one) {
    stream_remove_player(one->player.stream, &one->player);
    player_clear(&one->player);
    free(one->bytes);
    *one = (taker){0};
}

static void leave(twins *pair) {
    leave_one(&pair->at_once);
    leave_one(&pair->gathered);
    pair->is_here = false;
}

static void take(taker *one) {
    struct iovec pieces[PIECES];
    size_t count;
    while ((count = player_gather(&one->player, pieces, PIECES)) > 0) {
        size_t before = one->count;
        for (size_t i = 0; i < count; i++) {
            assert_true(one->count + pieces[i].iov_len <= TAKEN);
            memcpy(one->bytes + one->count, pieces[i].iov_base, pieces[i].iov_len);
            one->count += pieces[i].iov_len;
        }
        player_sent(&one->player, one->count - before);
    }
}

/* The windows are over: what both have been sent since the last time is the same. Returns how many
 * bytes. */
static size_t end_windows(list_rig *rig) {
    size_t bytes = 0;
    for (struct coalesce_group *merge = rig->stream->merges; merge; merge = merge->next)
        coalesce_flush(merge, time_now);
    for (size_t i = 0; i < PAIRS; i++) {
        twins *pair = &rig->pairs[i];
        if (!pair->is_here)
            continue;
        take(&pair->at_once);
        take(&pair->gathered);
        assert_int_equal(pair->at_once.count, pair->gathered.count);
        assert_memory_equal(pair->at_once.bytes, pair->gathered.bytes, pair->at_once.count);
        assert_int_equal(pair->at_once.player.state, pair->gathered.player.state);
        assert_int_equal(pair->at_once.player.packets_sent, pair->gathered.player.packets_sent);
        assert_memory_equal(pair->at_once.player.dropped, pair->gathered.player.dropped,
                            sizeof pair->at_once.player.dropped);
        bytes += pair->gathered.count;
        pair->at_once.count = pair->gathered.count = 0;
    }
    return bytes;
}

static void rig_close(list_rig *rig) {
    for (size_t i = 0; i < PAIRS; i++)
        if (rig->pairs[i].is_here)
            leave(&rig->pairs[i]);
    end_publisher(rig);
    stream_unref(rig->stream);
    registry_free(rig->registry);
    loop_rig_close(&rig->loop);
    hang_guard(0);
}

/* A tag that begins with these two bytes, and says its number. */
static void publish_of(list_rig *rig, sluice_flv_type type, uint8_t first, uint8_t second, size_t size) {
    uint8_t bytes[SLUICE_FLV_TAG_HEADER_SIZE + FRAME + SLUICE_FLV_TRAILER_SIZE] = {0};
    uint8_t *payload = bytes + SLUICE_FLV_TAG_HEADER_SIZE;
    sluice_flv_tag *tag;
    sluice_flv_write_tag_header(bytes, type, (uint32_t)size, rig->number * STEP);
    payload[0] = first;
    payload[1] = second;
    memcpy(payload + 5, &rig->number, sizeof rig->number);
    sluice_flv_write_trailer(payload + size, (uint32_t)size);
    feed(rig->chain, rig->loop.pool, bytes, SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE, 0);
    while (sluice_flv_next(rig->flv, rig->chain, &tag) > 0)
        (void)stream_publish(rig->stream, tag, SLUICE_FLV_HAS_VIDEO);
    rig->number++;
}

static void publish(list_rig *rig, uint8_t first, uint8_t second, size_t size) {
    publish_of(rig, SLUICE_FLV_VIDEO, first, second, size);
}

static void publish_header(list_rig *rig) {
    publish(rig, 0x17, 0, 20);
}

static void publish_audio(list_rig *rig) {
    publish_of(rig, SLUICE_FLV_AUDIO, 0xaf, pick(rig, 8) > 0, 50);
}

static void publish_key(list_rig *rig) {
    publish(rig, 0x17, 1, FRAME);
}

static void publish_frame(list_rig *rig) {
    publish(rig, 0x27, 1, 100);
}

static void begin_again(list_rig *rig) {
    end_publisher(rig);
    publishing_begin(rig->stream, rig->loop.pool, &rig->chain, &rig->flv);
}

/* As the sessions of protocols that can do it. */
static void pause_or_go_on(list_rig *rig, struct player *player) {
    if (player->state == PLAYER_PAUSED) {
        stream_play(rig->stream, player);
    } else if (player->begun && player->state != PLAYER_ENDING) {
        player_pause(player);
    }
}

static void join_or_leave(list_rig *rig, twins *pair) {
    if (pair->is_here)
        leave(pair);
    else
        join(rig, pair);
}

static void change_window(list_rig *rig, twins *pair) {
    uint32_t window_ms = pair->gathered.player.merge_window_ms == WINDOW ? WINDOW / 2 : WINDOW;
    stream_set_merge_window(rig->stream, &pair->gathered.player, window_ms);
}

/* Something that happens to streams and players. */
static void step(list_rig *rig) {
    twins *pair = &rig->pairs[pick(rig, PAIRS)];
    unsigned what = pick(rig, 100);
    time_now += pick(rig, STEP);
    if (what < 40)
        publish_frame(rig);
    else if (what < 60)
        publish_audio(rig);
    else if (what < 68)
        publish_key(rig);
    else if (what < 74)
        publish_header(rig);
    else if (what < 80)
        join_or_leave(rig, pair);
    else if (what < 84)
        stream_lose(rig->stream);
    else if (what < 86)
        begin_again(rig);
    else if (!pair->is_here)
        publish_frame(rig);
    else if (what < 90) {
        pause_or_go_on(rig, &pair->at_once.player);
        pause_or_go_on(rig, &pair->gathered.player);
    } else if (what < 93)
        change_window(rig, pair);
    else if (what < 94) {
        player_end(&pair->at_once.player);
        player_end(&pair->gathered.player);
    } else
        (void)end_windows(rig);
}

static void both_are_sent_the_same(void **state) {
    (void)state;
    size_t bytes = 0;
    for (uint32_t seed = 1; seed <= RUNS; seed++) {
        list_rig rig;
        rig_open(&rig, seed);
        for (size_t i = 0; i < STEPS; i++)
            step(&rig);
        bytes += end_windows(&rig);
        rig_close(&rig);
    }
    assert_true(bytes > RUNS);
}

/* With one pair that has been sent a key frame. */
static void rig_open_playing(list_rig *rig) {
    rig_open(rig, 1);
    publish_header(rig);
    publish_key(rig);
    join(rig, &rig->pairs[0]);
    assert_true(end_windows(rig) > FRAME);
}

/* A player that waits for a key frame is sent it at once, and so is one that is behind. */
static void a_key_frame_that_is_awaited_does_not_wait(void **state) {
    (void)state;
    list_rig rig;
    rig_open_playing(&rig);
    struct player *gathered = &rig.pairs[0].gathered.player;
    publish_frame(&rig);
    stream_lose(rig.stream);
    publish_frame(&rig);
    assert_int_equal(gathered->state, PLAYER_BEHIND);
    publish_key(&rig);
    assert_int_equal(gathered->count, 1);
    assert_int_equal(gathered->due, 1);
    time_now += CATCH_UP;
    publish_frame(&rig);
    publish_key(&rig);
    assert_int_equal(gathered->due, 1);
    assert_true(gathered->dropped[DROP_CATCH_UP] > 0);
    assert_true(end_windows(&rig) > FRAME);
    publish_key(&rig);
    assert_int_equal(gathered->count, 0);
    rig_close(&rig);
}

static void nothing_is_queued_before_the_window_is_over(void **state) {
    (void)state;
    list_rig rig;
    rig_open_playing(&rig);
    publish_frame(&rig);
    publish_frame(&rig);
    assert_int_equal(rig.pairs[0].at_once.player.count, 2);
    assert_int_equal(rig.pairs[0].gathered.player.count, 0);
    player_list_deliver(rig.stream);
    assert_int_equal(rig.pairs[0].gathered.player.count, 2);
    assert_int_equal(rig.pairs[0].gathered.player.due, 0);
    assert_true(end_windows(&rig) > 200);
    rig_close(&rig);
}

/* One packet more than a group keeps, and one more than twice as many. */
static void a_full_group_gives_what_it_keeps(void **state) {
    (void)state;
    static const unsigned counts[] = {KEPT - 1, KEPT, KEPT + 1, 2 * KEPT + 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        list_rig rig;
        rig_open(&rig, 1);
        publish_header(&rig);
        publish_key(&rig);
        publish(&rig, 0x27, 1, SMALL);
        join(&rig, &rig.pairs[0]);
        (void)end_windows(&rig);
        struct player *at_once = &rig.pairs[0].at_once.player, *gathered = &rig.pairs[0].gathered.player;
        struct coalesce_group *merge = gathered->merge;
        for (unsigned j = 0; j < counts[i]; j++) {
            coalesce_begin(merge, time_now);
            coalesce_push(merge, rig.stream->gop.packets[1], true);
            player_push(at_once, rig.stream->gop.packets[1], &rig.stream->headers, true);
            assert_in_range(merge->kept_count, 1, KEPT);
        }
        assert_int_equal(gathered->count, (counts[i] - 1) / KEPT * KEPT);
        assert_true(end_windows(&rig) > counts[i] * SMALL);
        rig_close(&rig);
    }
}

/* Where there was no video when audio came, it is what a player goes on with; also in a window in
 * which video comes. */
static void audio_is_what_goes_on_until_video_comes(void **state) {
    (void)state;
    const sluice_flv_tag tag = {.type = SLUICE_FLV_AUDIO};
    list_rig rig;
    rig_open(&rig, 1);
    publish_header(&rig);
    publish_key(&rig);
    publish_frame(&rig);
    join(&rig, &rig.pairs[0]);
    (void)end_windows(&rig);
    struct player *at_once = &rig.pairs[0].at_once.player, *gathered = &rig.pairs[0].gathered.player;
    sluice_slice payload = slice_of(rig.loop.pool, "audio", 5, 0);
    struct packet *audio = packet_new(rig.registry->packets, &tag, PACKET_AUDIO, STEP, &payload);
    struct packet *frame = packet_ref(rig.stream->gop.packets[1]);
    assert_non_null(audio);
    stream_lose(rig.stream);
    assert_int_equal(gathered->state, PLAYER_BEHIND);
    for (int has_video = 0; has_video < 2; has_video++) {
        struct packet *packet = has_video ? frame : audio;
        coalesce_push(gathered->merge, packet, has_video);
        player_push(at_once, packet, &rig.stream->headers, has_video);
    }
    assert_int_equal(gathered->count, 1);
    assert_true(end_windows(&rig) > 0);
    packet_unref(audio);
    packet_unref(frame);
    rig_close(&rig);
}

/* Without memory to keep them, packets are queued as they come. */
static void packets_are_queued_where_none_can_be_kept(void **state) {
    (void)state;
    list_rig rig;
    rig_open_playing(&rig);
    no_memory = true;
    publish_frame(&rig);
    publish_frame(&rig);
    no_memory = false;
    assert_int_equal(rig.pairs[0].gathered.player.count, 2);
    assert_int_equal(rig.pairs[0].gathered.player.due, 0);
    publish_frame(&rig);
    assert_true(end_windows(&rig) > 300);
    rig_close(&rig);
}

/* What a group keeps goes with the queues where memory is short. */
static void shortage_finds_what_is_kept(void **state) {
    (void)state;
    list_rig rig;
    rig_open_playing(&rig);
    publish_frame(&rig);
    time_now += SLOW;
    assert_true(reclaim(rig.registry, RECLAIM_FOR_PACKETS));
    assert_int_equal(rig.pairs[0].gathered.player.count, 0);
    assert_int_equal(rig.pairs[0].gathered.player.dropped[DROP_NO_MEMORY], 1);
    assert_int_equal(rig.pairs[0].gathered.player.merge->kept_count, 0);
    assert_int_equal(end_windows(&rig), 0);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_are_sent_the_same),
        cmocka_unit_test(a_key_frame_that_is_awaited_does_not_wait),
        cmocka_unit_test(nothing_is_queued_before_the_window_is_over),
        cmocka_unit_test(a_full_group_gives_what_it_keeps),
        cmocka_unit_test(audio_is_what_goes_on_until_video_comes),
        cmocka_unit_test(packets_are_queued_where_none_can_be_kept),
        cmocka_unit_test(shortage_finds_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
