/* The time that players are told, whatever publishers' timestamps do. */
#include "daemon/relay/timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { THRESHOLD = 3000, VIDEO = TIMELINE_VIDEO, AUDIO = TIMELINE_AUDIO };

/* A publisher of both tracks: a video frame each 40 ms with its audio frame, in loop time as in its
 * own. */
typedef struct rig {
    struct timeline timeline;
    uint64_t now;
    uint32_t clock[TIMELINE_TRACKS]; /* the next frame's timestamp */
    int32_t composition;
    uint32_t told[TIMELINE_TRACKS];
    int32_t jump;
    uint32_t threshold;
} rig;

static rig rig_at(uint32_t start) {
    return (rig){.now = 1000000, .clock = {start, start}, .threshold = THRESHOLD};
}

static bool push(rig *r, unsigned track) {
    const struct timeline_frame frame = {
        .track = track,
        .timestamp = r->clock[track],
        .composition = track == VIDEO ? r->composition : 0,
        .now = r->now,
    };
    return timeline_frame(&r->timeline, &frame, r->threshold, &r->told[track], &r->jump);
}

/* So many pairs; each track's time goes up by no more than @most, and is the publisher's own and
 * @offset at the end. */
static void run(rig *r, unsigned pairs, uint32_t most) {
    for (unsigned i = 0; i < pairs; i++) {
        for (unsigned track = 0; track < TIMELINE_TRACKS; track++) {
            uint32_t before = r->told[track];
            bool begun = r->timeline.tracks[track].has_begun;
            push(r, track);
            if (begun)
                assert_in_range(r->told[track] - before, 1, most);
            r->clock[track] += 40;
        }
        r->now += 40;
    }
}

static void assert_together(const rig *r) {
    assert_int_equal(r->told[VIDEO] - r->told[AUDIO], r->clock[VIDEO] - r->clock[AUDIO]);
}

static void a_steady_publisher_is_left_alone(void **state) {
    (void)state;
    rig r = rig_at(123456);
    run(&r, 100, 40);
    assert_int_equal(r.told[VIDEO], 123456 + 99 * 40);
    assert_int_equal(r.told[AUDIO], 123456 + 99 * 40);
    assert_int_equal(r.timeline.jumps, 0);
}

static void a_wrap_is_no_jump(void **state) {
    (void)state;
    rig r = rig_at(UINT32_MAX - 1000);
    run(&r, 100, 40);
    assert_int_equal(r.told[VIDEO], (uint32_t)(UINT32_MAX - 1000 + 99 * 40));
    assert_int_equal(r.timeline.jumps, 0);
}

static void jump_both(int32_t by, unsigned first) {
    rig r = rig_at(50000000);
    run(&r, 50, 40);
    uint32_t before = r.told[first];
    r.clock[VIDEO] += (uint32_t)by;
    r.clock[AUDIO] += (uint32_t)by;
    assert_true(push(&r, first));
    assert_int_equal(r.told[first] - before, TIMELINE_STEP);
    assert_int_equal(r.jump, by + 40);
    r.clock[first] += 40;
    assert_false(push(&r, !first));
    r.clock[!first] += 40;
    assert_together(&r);
    run(&r, 50, 40);
    assert_together(&r);
    assert_int_equal(r.timeline.jumps, 1);
}

static void tracks_that_jump_stay_together(void **state) {
    (void)state;
    static const int32_t jumps[] = {3601000, -3601000, 4000, -4000, 24 * 3600000, -40000000, INT32_MAX - 100};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        jump_both(jumps[i], VIDEO);
        jump_both(jumps[i], AUDIO);
    }
}

/* Up to the threshold it is the publisher's business. */
static void less_is_no_jump(void **state) {
    (void)state;
    rig r = rig_at(100000);
    run(&r, 10, 40);
    r.clock[VIDEO] += THRESHOLD - 40;
    assert_false(push(&r, VIDEO));
    assert_int_equal(r.told[VIDEO], r.clock[VIDEO]);
    r.clock[AUDIO] += THRESHOLD - 40;
    assert_false(push(&r, AUDIO));
    r.clock[VIDEO] -= THRESHOLD;
    assert_false(push(&r, VIDEO));
    assert_int_equal(r.told[VIDEO], r.clock[VIDEO]);
}

/* One track jumps while frames of the other still come with old times: each goes on, and neither
 * swings back. */
static void the_other_track_may_follow_late(void **state) {
    (void)state;
    rig r = rig_at(0);
    run(&r, 100, 40);
    r.clock[VIDEO] += 7200000;
    for (int i = 0; i < 10; i++) {
        run(&r, 1, 80);
        assert_int_equal(r.timeline.jumps, 1);
    }
    r.clock[AUDIO] += 7200000;
    run(&r, 20, 80);
    assert_int_equal(r.timeline.jumps, 1);
    assert_together(&r);
}

/* Only one track's clock is broken: it is repaired, and the other one is not touched. */
static void a_track_alone_is_repaired(void **state) {
    (void)state;
    rig r = rig_at(1000);
    run(&r, 50, 40);
    r.clock[AUDIO] = 5000000;
    uint32_t before = r.told[AUDIO];
    run(&r, 50, 80);
    assert_int_equal(r.timeline.jumps, 1);
    assert_int_equal(r.told[VIDEO], r.clock[VIDEO] - 40);
    assert_in_range(r.told[AUDIO] - before, 50 * 40, 50 * 40 + 40);
}

/* A clock that jumps for ever costs a step each time, and no more. */
static void every_jump_is_repaired(void **state) {
    (void)state;
    rig r = rig_at(0);
    run(&r, 5, 40);
    for (unsigned i = 0; i < 1000; i++) {
        uint32_t by = i * 2654435761u | 0x10000;
        r.clock[VIDEO] += by;
        r.clock[AUDIO] += by;
        run(&r, 1, 80);
    }
    assert_in_range(r.told[VIDEO], 1000 * 40, 1005 * 80);
}

/* A picture each ten seconds, and a publisher that has been silent: time has gone on meanwhile. */
static void silence_is_no_jump(void **state) {
    (void)state;
    rig r = rig_at(0);
    for (unsigned i = 0; i < 10; i++) {
        assert_false(push(&r, VIDEO));
        assert_int_equal(r.told[VIDEO], i * 10000);
        r.clock[VIDEO] += 10000;
        r.now += 9990;
    }
    /* The same with sound beside: the pictures are where the stream is. */
    r = rig_at(0);
    for (unsigned i = 0; i < 1000; i++) {
        if (i % 250 == 0)
            assert_false(push(&r, VIDEO));
        assert_false(push(&r, AUDIO));
        r.clock[VIDEO] += 40;
        r.clock[AUDIO] += 40;
    }
    assert_int_equal(r.timeline.jumps, 0);
}

static void nothing_is_repaired_without_a_threshold(void **state) {
    (void)state;
    rig r = rig_at(0);
    r.threshold = 0;
    run(&r, 10, 40);
    r.clock[VIDEO] = 9999999;
    assert_false(push(&r, VIDEO));
    assert_int_equal(r.told[VIDEO], 9999999);
    assert_int_equal(timeline_other(&r.timeline, VIDEO, 0, 0), 0);
}

/* Its first picture comes behind the last one, as decoded and as shown; its sound is held until it
 * has caught up. */
static void another_publisher_goes_on(void **state) {
    (void)state;
    static const int32_t compositions[] = {0, 80, 400, -80};
    for (size_t i = 0; i < sizeof compositions / sizeof *compositions; i++)
        for (size_t j = 0; j < sizeof compositions / sizeof *compositions; j++) {
            rig r = rig_at(700);
            r.composition = compositions[i];
            run(&r, 50, 40);
            uint32_t shown = r.told[VIDEO] + (uint32_t)r.composition, before = r.told[VIDEO];
            timeline_begin(&r.timeline, true);
            assert_int_equal(timeline_other(&r.timeline, VIDEO, 0, THRESHOLD), before);
            r.composition = compositions[j];
            r.clock[VIDEO] = 40;
            r.clock[AUDIO] = 0;
            assert_false(push(&r, VIDEO));
            assert_in_range(r.told[VIDEO] - before, TIMELINE_STEP, 600);
            assert_in_range(r.told[VIDEO] + (uint32_t)r.composition - shown, TIMELINE_STEP, 600);
            r.clock[VIDEO] += 40;
            run(&r, 20, 600);
            assert_together(&r);
            assert_int_equal(r.timeline.jumps, 0);
        }
}

static void nobody_is_left_who_was_told_times(void **state) {
    (void)state;
    rig r = rig_at(777000);
    run(&r, 50, 40);
    timeline_begin(&r.timeline, false);
    r.clock[VIDEO] = r.clock[AUDIO] = 5;
    r.told[VIDEO] = r.told[AUDIO] = 0;
    run(&r, 10, 40);
    assert_int_equal(r.told[VIDEO], 5 + 9 * 40);
}

/* Headers are where they are said to be, unless that is nowhere near. */
static void headers_are_near_frames(void **state) {
    (void)state;
    rig r = rig_at(10000);
    assert_int_equal(timeline_other(&r.timeline, VIDEO, 0, THRESHOLD), 0);
    run(&r, 10, 40);
    assert_int_equal(timeline_other(&r.timeline, VIDEO, 10500, THRESHOLD), 10500);
    assert_int_equal(timeline_other(&r.timeline, AUDIO, 0, THRESHOLD), r.timeline.last);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_publisher_is_left_alone),
        cmocka_unit_test(a_wrap_is_no_jump),
        cmocka_unit_test(tracks_that_jump_stay_together),
        cmocka_unit_test(less_is_no_jump),
        cmocka_unit_test(the_other_track_may_follow_late),
        cmocka_unit_test(a_track_alone_is_repaired),
        cmocka_unit_test(every_jump_is_repaired),
        cmocka_unit_test(silence_is_no_jump),
        cmocka_unit_test(nothing_is_repaired_without_a_threshold),
        cmocka_unit_test(another_publisher_goes_on),
        cmocka_unit_test(nobody_is_left_who_was_told_times),
        cmocka_unit_test(headers_are_near_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
