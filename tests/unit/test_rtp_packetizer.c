/*
 * The wall clock that sender reports relate to the media, at times of the test's own: by the first
 * timestamp, and after gaps, delays, bursts and steps of either clock.
 */
#include "daemon/relay/rtp_packetizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/relay/stream.h"
#include "support/feed.h"
#include "support/slices.h"

enum {
    STEP = 20,     /* milliseconds from one frame to the next */
    UNITS = 8,     /* of G.711's clock in a millisecond */
    WINDOW = 3000, /* milliseconds in which no frame is in time, before the clock follows */
    TOLERANCE = 500,
    JUMP = 1000, /* by which the clock may be wrong before it moves at once */
    SLEW = 1,    /* by which it moves for each window until then */
};

static int64_t wall; /* milliseconds since 1970 */

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time) {
    if (clock != CLOCK_REALTIME)
        return __real_clock_gettime(clock, ret_time);
    *ret_time = (struct timespec){.tv_sec = wall / 1000, .tv_nsec = wall % 1000 * 1000000};
    return 0;
}

typedef struct output_rig {
    sluice_pool *pool;
    struct packet_pool *packets;
    struct stream stream;
    struct rtp_packetizer *output;
    uint32_t time; /* of the next frame, milliseconds */
    uint32_t last; /* RTP timestamp of the last one */
} output_rig;

static struct packet *make(output_rig *rig) {
    uint8_t bytes[1 + STEP * UNITS] = {0x72};
    const sluice_flv_tag tag = {.type = SLUICE_FLV_AUDIO};
    sluice_slice payload = slice_of(rig->pool, bytes, sizeof bytes, 0);
    struct packet *packet = packet_new(rig->packets, &tag, PACKET_AUDIO, rig->time, &payload);
    assert_non_null(packet);
    rig->time += STEP;
    return packet;
}

static void rig_open(output_rig *rig, uint32_t time) {
    static const sluice_pool_options options = {
        .size = sizeof options, .block_size = 4096, .max_blocks = 16384, .no_huge_pages = true};
    *rig = (output_rig){.time = time};
    wall = 1800000000000;
    assert_int_equal(sluice_pool_new(&options, &rig->pool), 0);
    assert_int_equal(packet_pool_new(UINT64_MAX, &rig->packets), 0);
    rig->stream.seen = SLUICE_FLV_HAS_AUDIO;
    tracks_begin(&rig->stream.audio);
    assert_int_equal(tracks_take(&rig->stream.audio, 0), 0);
    rig->stream.audio.first.codec = SLUICE_CODEC_PCMA;
    rig->stream.audio.first.channels = 1;
    rig->stream.settled = true;
    rig->stream.rtp_players = 1;
    rig->output = rtp_packetizer_new(&rig->stream);
    assert_non_null(rig->output);
    rtp_packetizer_begin(rig->output, &rig->stream);
}

static void rig_close(output_rig *rig) {
    rig->stream.sinks->type->freed(rig->stream.sinks);
    packet_pool_free(rig->packets);
    feed_assert_returned(rig->pool);
    sluice_pool_free(rig->pool);
}

static void frame(output_rig *rig) {
    struct packet *packet = make(rig);
    rig->stream.sinks->type->packet(rig->stream.sinks, &rig->stream, packet, 0);
    assert_true(packet_rtp(packet)->wire_size > 0);
    rig->last = packet_rtp(packet)->timestamp;
    packet_unref(packet);
}

/* So many milliseconds of media, with a wall clock that goes @wall_step for each frame. */
static void frames(output_rig *rig, uint32_t milliseconds, int64_t wall_step) {
    for (uint32_t done = 0; done < milliseconds; done += STEP) {
        wall += wall_step;
        frame(rig);
    }
}

static uint32_t be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* By how many milliseconds a report is ahead of the last frame, whose time it should be now. */
static int ahead(const output_rig *rig) {
    uint8_t report[RTP_MAX_REPORT];
    assert_true(rtp_packetizer_write_report(rig->output, RTP_AUDIO_TRACK, report) > 0);
    assert_int_equal(report[1], SLUICE_RTCP_SR);
    uint64_t ntp = (uint64_t)be32(report + 8) << 32 | be32(report + 12);
    assert_true(sluice_rtp_ntp_to_unix(ntp) / 1000000 == (uint64_t)wall);
    int32_t units = (int32_t)(be32(report + 16) - rig->last);
    return units < 0 ? -((-units + UNITS / 2) / UNITS) : (units + UNITS / 2) / UNITS;
}

static void nothing_is_said_before_a_frame(void **state) {
    output_rig rig;
    uint8_t report[RTP_MAX_REPORT];
    (void)state;
    rig_open(&rig, 0);
    assert_int_equal(rtp_packetizer_write_report(rig.output, RTP_AUDIO_TRACK, report), 0);
    assert_int_equal(rtp_packetizer_write_report(rig.output, RTP_VIDEO_TRACK, report), 0);
    frame(&rig);
    assert_true(rtp_packetizer_write_report(rig.output, RTP_AUDIO_TRACK, report) > 0);
    assert_int_equal(rtp_packetizer_write_report(rig.output, RTP_VIDEO_TRACK, report), 0);
    rig_close(&rig);
}

/* A stream may begin with any time, and a report goes on between frames. */
static void the_first_timestamp_is_where_the_clock_begins(void **state) {
    static const uint32_t begins[] = {0, 1, 999, 3600000, UINT32_C(0x80000000), UINT32_MAX - 2 * STEP};
    (void)state;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        output_rig rig;
        rig_open(&rig, begins[i]);
        frame(&rig);
        assert_int_equal(ahead(&rig), 0);
        wall += 5000;
        assert_int_equal(ahead(&rig), 5000);
        wall -= 5000;
        frames(&rig, 10000, STEP); /* Over the end of 32 bits for the last one. */
        assert_int_equal(ahead(&rig), 0);
        rig_close(&rig);
    }
}

/* Eight seconds in which the publisher's time stands still. */
static void the_clock_follows_after_a_gap(void **state) {
    output_rig rig;
    (void)state;
    rig_open(&rig, 5000);
    frames(&rig, 5000, STEP);
    assert_int_equal(ahead(&rig), 0);
    wall += 8000;
    assert_int_equal(ahead(&rig), 8000);
    frame(&rig); /* That may have been held up, as far as can be known yet. */
    frames(&rig, WINDOW - STEP, STEP);
    assert_int_equal(ahead(&rig), 8000 - STEP);
    frames(&rig, STEP, STEP);
    assert_int_equal(ahead(&rig), 0);
    frames(&rig, 60000, STEP);
    assert_int_equal(ahead(&rig), 0);
    rig_close(&rig);
}

/* What was late on its way catches up, and the clock has not moved. */
static void a_delay_moves_nothing(void **state) {
    output_rig rig;
    (void)state;
    rig_open(&rig, 5000);
    frames(&rig, 5000, STEP);
    wall += 2000;
    frames(&rig, 2000, 0);
    assert_int_equal(ahead(&rig), 0);
    frames(&rig, 2 * WINDOW, STEP);
    assert_int_equal(ahead(&rig), 0);
    /* Unsteady frames, of which some are in time. */
    for (int i = 0; i < 1000; i++) {
        frames(&rig, STEP, 3 * STEP);
        frames(&rig, 2 * STEP, 0);
        assert_int_equal(ahead(&rig), 0);
    }
    /* As late as is tolerated, but for what rounding makes of it. */
    wall += TOLERANCE - 1;
    frames(&rig, 4 * WINDOW, STEP);
    assert_int_equal(ahead(&rig), TOLERANCE - 1);
    rig_close(&rig);
}

/* Players that take times from reports do not jump for less than a second: the clock creeps. */
static void the_clock_creeps_up_to_a_second(void **state) {
    static const int signs[] = {1, -1};
    (void)state;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        output_rig rig;
        rig_open(&rig, 5000);
        frames(&rig, 5000, STEP);
        assert_int_equal(ahead(&rig), 0);
        wall += signs[i] * (JUMP - 1);
        int before = signs[i] * (JUMP - 1);
        for (int window = 0; window < 20; window++) {
            frames(&rig, WINDOW, STEP);
            assert_in_range(signs[i] * (before - ahead(&rig)), 0, SLEW);
            before = ahead(&rig);
        }
        assert_in_range(signs[i] * before, JUMP - 1 - 20 * SLEW, JUMP - 1 - 15 * SLEW);
        /* A step beyond a second, it moves at once. */
        wall += signs[i] * (JUMP + 1 - signs[i] * before);
        frames(&rig, 2 * WINDOW, STEP);
        assert_int_equal(ahead(&rig), 0);
        rig_close(&rig);
    }
}

/* Frames that come before their time cannot have been held up. */
static void the_clock_follows_a_burst_at_once(void **state) {
    output_rig rig;
    (void)state;
    rig_open(&rig, 5000);
    frames(&rig, 1000, STEP);
    /* No report has shown the clock yet: any frame ahead of it moves it. */
    frames(&rig, 2 * STEP, 0);
    assert_int_equal(ahead(&rig), 0);
    frames(&rig, JUMP, 0);
    assert_int_equal(ahead(&rig), -JUMP);
    frames(&rig, STEP, 0);
    assert_int_equal(ahead(&rig), 0);
    frames(&rig, 60000, 0);
    assert_in_range(-ahead(&rig), 0, JUMP);
    rig_close(&rig);
}

/* Somebody sets this host's clock, and a publisher's runs slow: a second in an hour, and a second
 * in a minute. */
static void steps_and_drift_are_followed(void **state) {
    output_rig rig;
    (void)state;
    rig_open(&rig, 5000);
    frames(&rig, 5000, STEP);
    wall -= 3600000;
    frames(&rig, STEP, STEP);
    assert_int_equal(ahead(&rig), 0);
    wall += 7200000;
    frames(&rig, 2 * WINDOW, STEP);
    assert_int_equal(ahead(&rig), 0);
    for (int slow = 60; slow <= 3600; slow += 3540) {
        for (int second = 0; second < 4000; second++) {
            frames(&rig, 1000, STEP);
            wall += second % slow == 0 ? 1000 / (3600 / slow) : 0;
            frame(&rig);
            wall += STEP;
            assert_in_range(ahead(&rig) + TOLERANCE, 0, 1000 + 3 * TOLERANCE);
        }
        frames(&rig, JUMP * WINDOW, STEP);
        assert_in_range(ahead(&rig) + TOLERANCE, 0, 2 * TOLERANCE);
    }
    rig_close(&rig);
}

/* The first player comes while a group is cached: its last frame is the one that has just come. */
static void a_cached_group_ends_now(void **state) {
    output_rig rig;
    (void)state;
    rig_open(&rig, 5000);
    struct packet *cached[237];
    for (size_t i = 0; i < 237; i++)
        cached[i] = make(&rig);
    rig.stream.gop.packets = cached;
    rig.stream.gop.count = 237;
    rtp_packetizer_begin(rig.output, &rig.stream);
    rig.last = cached[236]->rtp.timestamp;
    assert_int_equal(ahead(&rig), 0);
    frames(&rig, STEP, STEP);
    assert_int_equal(ahead(&rig), 0);
    for (size_t i = 0; i < 237; i++)
        packet_unref(cached[i]);
    rig.stream.gop.count = 0;
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_before_a_frame),
        cmocka_unit_test(the_first_timestamp_is_where_the_clock_begins),
        cmocka_unit_test(the_clock_follows_after_a_gap),
        cmocka_unit_test(a_delay_moves_nothing),
        cmocka_unit_test(the_clock_creeps_up_to_a_second),
        cmocka_unit_test(the_clock_follows_a_burst_at_once),
        cmocka_unit_test(steps_and_drift_are_followed),
        cmocka_unit_test(a_cached_group_ends_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
