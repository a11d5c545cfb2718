/* The merge window, with a clock of the test's own: when those who are gathered for are sent to,
 * and how often. */
#include "daemon/relay/coalesce.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    WINDOW = 350,
    PACKET = 1000, /* bytes */
    PLAYERS = 3,
    LIMIT = 16 << 20,
    MOST = 128 << 10,
};

int __wrap_sluice_timer_new(sluice_loop *loop, sluice_timer_fn *call, void *user, sluice_timer **ret_timer);
void __wrap_sluice_timer_start(sluice_timer *timer, uint64_t ms);
void __wrap_sluice_timer_stop(sluice_timer *timer);
void __wrap_sluice_timer_free(sluice_timer *timer);
uint64_t __wrap_sluice_loop_now(const sluice_loop *loop);
void __wrap_sluice_conn_want_send(sluice_conn *conn);

struct sluice_timer {
    sluice_timer_fn *call;
    void *user;
    uint64_t ms; /* that it was started for last */
    unsigned starts;
    bool runs;
};

enum { TIMERS = 8 };
static sluice_timer *timers[TIMERS];
static unsigned timer_count;
static bool no_memory;
static uint64_t now; /* loop time */

int __wrap_sluice_timer_new(sluice_loop *loop, sluice_timer_fn *call, void *user, sluice_timer **ret_timer) {
    (void)loop;
    if (no_memory)
        return -ENOMEM;
    sluice_timer *timer = calloc(1, sizeof *timer);
    assert_non_null(timer);
    *timer = (sluice_timer){.call = call, .user = user};
    timers[timer_count++ % TIMERS] = timer;
    *ret_timer = timer;
    return 0;
}

void __wrap_sluice_timer_start(sluice_timer *timer, uint64_t ms) {
    timer->ms = ms;
    timer->starts++;
    timer->runs = true;
}

void __wrap_sluice_timer_stop(sluice_timer *timer) {
    timer->runs = false;
}

void __wrap_sluice_timer_free(sluice_timer *timer) {
    free(timer);
}

uint64_t __wrap_sluice_loop_now(const sluice_loop *loop) {
    (void)loop;
    return now;
}

/* A player's connection is here the count of what was asked for. */
void __wrap_sluice_conn_want_send(sluice_conn *conn) {
    (*(unsigned *)(void *)conn)++;
}

/* Whose socket may gather; -1: none has been told. */
static int delayed[PLAYERS];

int __wrap_sluice_conn_fd(const sluice_conn *conn);
static const unsigned *first_asked;

int __wrap_sluice_conn_fd(const sluice_conn *conn) {
    return (int)((const unsigned *)(const void *)conn - first_asked);
}

void __wrap_tcp_delay_set(int fd, bool on);

void __wrap_tcp_delay_set(int fd, bool on) {
    assert_in_range(fd, 0, PLAYERS - 1);
    delayed[fd] = on;
}

static void assert_delayed(int first, int second, int third) {
    assert_int_equal(delayed[0], first);
    assert_int_equal(delayed[1], second);
    assert_int_equal(delayed[2], third);
}

typedef struct merge_rig {
    struct player players[PLAYERS];
    unsigned asked[PLAYERS]; /* to send */
    struct coalesce_group *groups;
    struct coalesce_site site;
} merge_rig;

static void rig_open(merge_rig *rig, const uint32_t windows[PLAYERS], uint64_t limit) {
    *rig = (merge_rig){0};
    timer_count = 0;
    no_memory = false;
    first_asked = rig->asked;
    for (size_t i = 0; i < PLAYERS; i++) {
        delayed[i] = -1;
        rig->players[i] = (struct player){
            .limit = limit, .merge_window_ms = windows[i], .conn = (sluice_conn *)(void *)&rig->asked[i]};
        coalesce_join(&rig->groups, &rig->site, NULL, &rig->players[i]);
    }
}

static void rig_close(merge_rig *rig) {
    for (size_t i = 0; i < PLAYERS; i++)
        coalesce_leave(&rig->groups, &rig->players[i]);
    assert_null(rig->groups);
}

/* Of no track. */
static struct packet packet = {.role = PACKET_OTHER};

/* A packet for everybody, as a stream gives it. */
static void publish(merge_rig *rig) {
    for (struct coalesce_group *merge = rig->groups; merge; merge = merge->next)
        coalesce_begin(merge, now);
    for (size_t i = 0; i < PLAYERS; i++)
        rig->players[i].count++;
    for (struct coalesce_group *merge = rig->groups; merge; merge = merge->next)
        coalesce_add(merge, &packet, PACKET, now);
}

static void assert_asked(const merge_rig *rig, unsigned first, unsigned second, unsigned third) {
    assert_int_equal(rig->asked[0], first);
    assert_int_equal(rig->asked[1], second);
    assert_int_equal(rig->asked[2], third);
}

static void end_window(sluice_timer *timer) {
    assert_true(timer->runs);
    timer->runs = false;
    timer->call(timer, timer->user);
}

static void one_send_a_window(void **state) {
    (void)state;
    merge_rig rig;
    rig_open(&rig, (const uint32_t[]){WINDOW, WINDOW, WINDOW}, LIMIT);
    assert_int_equal(timer_count, 1);
    for (unsigned window = 1; window <= 3; window++) {
        assert_false(timers[0]->runs);
        for (unsigned i = 0; i < 100; i++)
            publish(&rig);
        /* It begins with the first packet and goes on with none, and is over within what was
         * promised. */
        assert_int_equal(timers[0]->starts, window);
        assert_int_equal(timers[0]->ms, WINDOW - 1);
        assert_asked(&rig, window - 1, window - 1, window - 1);
        end_window(timers[0]);
        assert_asked(&rig, window, window, window);
        for (size_t i = 0; i < PLAYERS; i++)
            assert_int_equal(rig.players[i].due, 100 * window);
    }
    rig_close(&rig);
}

/* Of two windows each has its own, and who has none is none of their business. */
static void windows_differ(void **state) {
    (void)state;
    merge_rig rig;
    rig_open(&rig, (const uint32_t[]){WINDOW, 20, 0}, LIMIT);
    assert_int_equal(timer_count, 2);
    assert_null(rig.players[2].merge);
    publish(&rig);
    assert_int_equal(timers[1]->ms, 19);
    end_window(timers[1]);
    assert_asked(&rig, 0, 1, 0);
    publish(&rig);
    end_window(timers[1]);
    end_window(timers[0]);
    assert_asked(&rig, 1, 2, 0);
    rig_close(&rig);
}

/* As many bytes as a send is good for, or a quarter of a player's buffer. */
static void much_does_not_wait(void **state) {
    (void)state;
    static const struct { uint64_t limit, most; } rows[] = {{LIMIT, MOST}, {64 << 10, 16 << 10}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        merge_rig rig;
        rig_open(&rig, (const uint32_t[]){WINDOW, WINDOW, WINDOW}, rows[row].limit);
        unsigned packets = (unsigned)((rows[row].most + PACKET - 1) / PACKET);
        for (unsigned flushes = 1; flushes <= 3; flushes++) {
            for (unsigned i = 0; i < packets - 1; i++)
                publish(&rig);
            assert_asked(&rig, flushes - 1, flushes - 1, flushes - 1);
            publish(&rig);
            assert_asked(&rig, flushes, flushes, flushes);
            assert_false(timers[0]->runs);
        }
        rig_close(&rig);
    }
}

/* The load decides with each packet; what is gathered then waits for its window's end. */
static void automatic_window_follows_the_load(void **state) {
    (void)state;
    merge_rig rig;
    now = 1000;
    rig_open(&rig, (const uint32_t[]){COALESCE_WINDOW_AUTO, COALESCE_WINDOW_AUTO, 0}, LIMIT);
    struct auto_window *automatic = &rig.site.automatic;
    assert_int_equal(timer_count, 1);
    /* No measurement is due during the test. */
    automatic->has_begun = true;
    automatic->noted_at = automatic->most_ms = 1u << 30;
    publish(&rig);
    assert_true(rig.groups->is_open);
    assert_int_equal(timers[0]->starts, 0);

    automatic->window_ms = 40;
    assert_int_equal(coalesce_window_now(&rig.site, COALESCE_WINDOW_AUTO), 40);
    assert_int_equal(coalesce_window_now(&rig.site, 7), 7);
    publish(&rig);
    assert_false(rig.groups->is_open);
    assert_int_equal(timers[0]->ms, 39);
    /* A shorter window holds for what comes behind. */
    automatic->window_ms = 0;
    now += 30;
    publish(&rig);
    assert_false(rig.groups->is_open);
    assert_int_equal(timers[0]->starts, 1);
    now += 10;
    end_window(timers[0]);
    assert_asked(&rig, 1, 1, 0);
    /* Two packets for two players: one has waited for 40 ms, the other for 10. */
    assert_int_equal(rig.site.waited, 4);
    assert_int_equal(rig.site.waited_ms, 100);
    publish(&rig);
    assert_true(rig.groups->is_open);
    assert_int_equal(rig.site.waited, 4);
    rig_close(&rig);
}

/* Frames of a track, at loop time. */
static void frame(merge_rig *rig, enum packet_role role, uint32_t timestamp) {
    packet = (struct packet){.role = role, .timestamp = timestamp};
    publish(rig);
    packet = (struct packet){.role = PACKET_OTHER};
}

/* Audio alone, or a slow camera: its frames are further apart than the window, which would delay
 * each and gather none. */
static void frames_far_apart_do_not_wait(void **state) {
    (void)state;
    merge_rig rig;
    now = 1000;
    rig_open(&rig, (const uint32_t[]){20, 23, COALESCE_WINDOW_AUTO}, LIMIT);
    struct auto_window *automatic = &rig.site.automatic;
    automatic->has_begun = true;
    automatic->noted_at = automatic->most_ms = 1u << 30;
    automatic->window_ms = 22;
    /* How far apart they are is known with the second. */
    frame(&rig, PACKET_AUDIO, 5000);
    for (unsigned i = 0; i < 3; i++)
        end_window(timers[i]);
    assert_asked(&rig, 1, 1, 1);
    for (unsigned i = 1; i <= 100; i++) {
        now += 23;
        frame(&rig, PACKET_AUDIO, 5000 + 23 * i);
        assert_false(timers[0]->runs);
        assert_false(timers[2]->runs);
        assert_int_equal(rig.asked[0], 1 + i);
        assert_int_equal(rig.asked[2], 1 + i);
        /* A window as long as they are apart waits for the next one, which ends it. */
        assert_int_equal(timers[1]->runs, i % 2);
        assert_int_equal(rig.asked[1], 1 + i / 2);
    }
    rig_close(&rig);
}

/* A window ends with the last frame of two tracks that it can gather. */
static void window_ends_with_the_last_frame_in_it(void **state) {
    (void)state;
    merge_rig rig;
    now = 1000;
    rig_open(&rig, (const uint32_t[]){30, 30, 0}, LIMIT);
    /* Pictures at 1000, 1040 ...; audio at 1010, 1031 ... */
    frame(&rig, PACKET_KEY_FRAME, 0);
    now = 1010;
    frame(&rig, PACKET_AUDIO, 10);
    now = 1030;
    end_window(timers[0]);
    now = 1031;
    frame(&rig, PACKET_AUDIO, 31);
    assert_true(timers[0]->runs);
    now = 1040;
    frame(&rig, PACKET_VIDEO, 40);
    /* 1052 is before the end at 1061, 1073 and 1080 are not. */
    assert_true(timers[0]->runs);
    assert_asked(&rig, 1, 1, 0);
    now = 1052;
    frame(&rig, PACKET_AUDIO, 52);
    assert_false(timers[0]->runs);
    assert_asked(&rig, 2, 2, 0);
    rig_close(&rig);
}

/* What is not a frame says nothing of when the next one comes. */
static void headers_are_no_frames(void **state) {
    (void)state;
    static const enum packet_role roles[] = {PACKET_METADATA, PACKET_VIDEO_HEADER, PACKET_AUDIO_HEADER, PACKET_OTHER};
    merge_rig rig;
    now = 1000;
    rig_open(&rig, (const uint32_t[]){20, 20, 20}, LIMIT);
    for (unsigned i = 0; i < 12; i++) {
        now += 100;
        frame(&rig, roles[i % 4], 100 * i);
        assert_true(timers[0]->runs);
        end_window(timers[0]);
    }
    rig_close(&rig);
}

/* A publisher whose frames come when their timestamps deny it has each second window in full. */
static void wrong_timestamps_cost_twice_the_sends(void **state) {
    (void)state;
    enum { FRAMES = 1000, APART = 2, WIDTH = 40 };
    merge_rig rig;
    now = 1000;
    rig_open(&rig, (const uint32_t[]){WIDTH, WIDTH, WIDTH}, LIMIT);
    uint64_t end = 0;
    for (unsigned i = 0; i < FRAMES; i++) {
        bool ran = timers[0]->runs;
        frame(&rig, PACKET_VIDEO, 5000 * i);
        if (timers[0]->runs && !ran)
            end = now + timers[0]->ms;
        now += APART;
        if (timers[0]->runs && now >= end)
            end_window(timers[0]);
    }
    assert_in_range(rig.asked[0], FRAMES * APART / WIDTH, 2 * FRAMES * APART / WIDTH + 2);
    rig_close(&rig);
}

/* While the window is open, what a player has not acknowledged gathers more; it is the players of
 * that window alone, and those that come and go. */
static void sockets_gather_while_the_window_is_open(void **state) {
    (void)state;
    merge_rig rig;
    now = 1000;
    rig_open(&rig, (const uint32_t[]){COALESCE_WINDOW_AUTO, COALESCE_WINDOW_AUTO, WINDOW}, LIMIT);
    struct auto_window *automatic = &rig.site.automatic;
    automatic->has_begun = true;
    automatic->noted_at = automatic->most_ms = 1u << 30;
    publish(&rig);
    assert_delayed(-1, -1, -1);
    automatic->window_ms = 18;
    publish(&rig);
    assert_delayed(1, 1, -1);
    delayed[0] = delayed[1] = -1;
    publish(&rig);
    assert_delayed(-1, -1, -1);
    /* One goes to another window and back; a connection that leaves is left alone. */
    coalesce_leave(&rig.groups, &rig.players[1]);
    assert_delayed(-1, -1, -1);
    rig.players[1].merge_window_ms = WINDOW;
    coalesce_join(&rig.groups, &rig.site, NULL, &rig.players[1]);
    assert_delayed(-1, 0, -1);
    coalesce_leave(&rig.groups, &rig.players[1]);
    rig.players[1].merge_window_ms = COALESCE_WINDOW_AUTO;
    coalesce_join(&rig.groups, &rig.site, NULL, &rig.players[1]);
    assert_delayed(-1, 1, -1);
    automatic->window_ms = 0;
    publish(&rig);
    assert_delayed(0, 0, -1);
    rig_close(&rig);
}

/* A player that joins is sent to at once until the load is measured with the next packet. */
static void automatic_group_begins_open(void **state) {
    (void)state;
    merge_rig rig;
    rig_open(&rig, (const uint32_t[]){COALESCE_WINDOW_AUTO, WINDOW, 0}, LIMIT);
    assert_true(rig.players[0].merge->is_open);
    assert_false(rig.players[1].merge->is_open);
    rig_close(&rig);
}

/* So many players of one window, each with a count of what was asked for. */
enum { CROWD = 3 * COALESCE_MEMBERS + 1 };
static struct player crowd[CROWD];
static unsigned crowd_asked[CROWD];

static void crowd_join(struct coalesce_group **groups, struct coalesce_site *site, uint32_t count, uint32_t window_ms) {
    timer_count = 0;
    memset(crowd_asked, 0, sizeof crowd_asked);
    for (uint32_t i = 0; i < count; i++) {
        crowd[i] = (struct player){
            .limit = LIMIT, .merge_window_ms = window_ms, .conn = (sluice_conn *)(void *)&crowd_asked[i]};
        coalesce_join(groups, site, NULL, &crowd[i]);
    }
}

static void crowd_leave(struct coalesce_group **groups, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        coalesce_leave(groups, &crowd[i]);
    assert_null(*groups);
}

static void give(struct coalesce_group *groups) {
    for (struct coalesce_group *merge = groups; merge; merge = merge->next) {
        coalesce_begin(merge, now);
        for (struct player *player = merge->members; player; player = player->next_member)
            player->count++;
        coalesce_add(merge, &packet, PACKET, now);
    }
}

/* All windows that are over by then end, as timers do. */
static void pass(uint64_t ms, uint64_t started[TIMERS], unsigned ended[TIMERS]) {
    now += ms;
    for (unsigned i = 0; i < timer_count; i++) {
        if (!timers[i]->runs || started[i] + timers[i]->ms > now)
            continue;
        end_window(timers[i]);
        ended[i]++;
    }
}

/* As many as a group has are one, whose window begins with the first packet; with one more they are
 * two. */
static void more_players_are_several_groups(void **state) {
    (void)state;
    struct coalesce_group *groups = NULL;
    struct coalesce_site site = {0};
    now = 12345;
    crowd_join(&groups, &site, COALESCE_MEMBERS, WINDOW);
    assert_int_equal(timer_count, 1);
    give(groups);
    assert_int_equal(timers[0]->ms, WINDOW - 1);
    end_window(timers[0]);
    crowd_leave(&groups, COALESCE_MEMBERS);
    crowd_join(&groups, &site, COALESCE_MEMBERS + 1, WINDOW);
    assert_int_equal(timer_count, 2);
    give(groups);
    assert_int_equal((timers[0]->ms + WINDOW / 2) % WINDOW, timers[1]->ms);
    for (uint32_t i = 0; i < COALESCE_MEMBERS; i++)
        coalesce_leave(&groups, &crowd[i]);
    /* The other one is as it was, and who comes then joins it. */
    assert_int_equal(groups->member_count, 1);
    coalesce_join(&groups, &site, NULL, &crowd[0]);
    assert_int_equal(groups->member_count, 2);
    coalesce_leave(&groups, &crowd[0]);
    coalesce_leave(&groups, &crowd[COALESCE_MEMBERS]);
    assert_null(groups);
}

/* Four groups: no two windows end within an eighth of one, nobody waits for longer than one, and
 * they stay apart when a long turn has ended all at once. */
static void windows_end_one_after_the_other(void **state) {
    (void)state;
    struct coalesce_group *groups = NULL;
    struct coalesce_site site = {0};
    uint64_t started[TIMERS] = {0};
    unsigned ended[TIMERS] = {0}, at_once = 0;
    now = 777;
    crowd_join(&groups, &site, CROWD, WINDOW);
    assert_int_equal(timer_count, 4);
    for (unsigned ms = 0; ms < 10 * WINDOW; ms++) {
        unsigned before = ended[0] + ended[1] + ended[2] + ended[3];
        if (ms % 14 == 0) {
            bool ran[TIMERS];
            for (unsigned i = 0; i < timer_count; i++)
                ran[i] = timers[i]->runs;
            packet = (struct packet){.role = PACKET_VIDEO, .timestamp = ms};
            give(groups);
            packet = (struct packet){.role = PACKET_OTHER};
            for (unsigned i = 0; i < timer_count; i++)
                started[i] = ran[i] ? started[i] : now;
        }
        pass(ms == 5 * WINDOW ? WINDOW : 1, started, ended);
        unsigned count = ended[0] + ended[1] + ended[2] + ended[3] - before;
        at_once += count > 1;
        for (unsigned i = 0; i < timer_count; i++)
            assert_in_range(timers[i]->ms, 1, WINDOW - 1);
    }
    assert_int_equal(at_once, 1);
    for (unsigned i = 0; i < timer_count; i++)
        assert_in_range(ended[i], 9, 11);
    for (uint32_t i = 0; i < CROWD; i++)
        assert_in_range(crowd_asked[i], 9, 11);
    crowd_leave(&groups, CROWD);
}

/* A short window, which ends when the packets say so. */
static void short_windows_begin_with_a_packet(void **state) {
    (void)state;
    struct coalesce_group *groups = NULL;
    struct coalesce_site site = {0};
    now = 777;
    crowd_join(&groups, &site, CROWD, 59);
    give(groups);
    for (unsigned i = 0; i < timer_count; i++)
        assert_int_equal(timers[i]->ms, 58);
    crowd_leave(&groups, CROWD);
}

static void without_memory_nobody_gathers(void **state) {
    (void)state;
    merge_rig rig;
    rig_open(&rig, (const uint32_t[]){0, 0, 0}, LIMIT);
    no_memory = true;
    rig.players[0].merge_window_ms = WINDOW;
    coalesce_join(&rig.groups, &rig.site, NULL, &rig.players[0]);
    assert_null(rig.players[0].merge);
    assert_null(rig.groups);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_send_a_window),
        cmocka_unit_test(windows_differ),
        cmocka_unit_test(much_does_not_wait),
        cmocka_unit_test(automatic_window_follows_the_load),
        cmocka_unit_test(frames_far_apart_do_not_wait),
        cmocka_unit_test(window_ends_with_the_last_frame_in_it),
        cmocka_unit_test(headers_are_no_frames),
        cmocka_unit_test(wrong_timestamps_cost_twice_the_sends),
        cmocka_unit_test(sockets_gather_while_the_window_is_open),
        cmocka_unit_test(automatic_group_begins_open),
        cmocka_unit_test(more_players_are_several_groups),
        cmocka_unit_test(windows_end_one_after_the_other),
        cmocka_unit_test(short_windows_begin_with_a_packet),
        cmocka_unit_test(without_memory_nobody_gathers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
