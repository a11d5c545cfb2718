/* Times of tracks that come by RTP: one line for all of them, and decoding times from times of
 * presentation. */
#include "framers/convert/rtp_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/http_feed.h"

enum { SECOND = 1000000 };

static const uint64_t second_ns = 1000000000;

/* An NTP time so many microseconds after some moment. */
static uint64_t ntp(int64_t us) {
    int64_t seconds = us / SECOND, rest = us % SECOND;
    return (uint64_t)(3900000000 + seconds) * ((uint64_t)1 << 32) + (uint64_t)(rest * ((int64_t)1 << 32) / SECOND);
}

static int64_t at(struct rtp_line *line, struct rtp_track_time *time, uint32_t timestamp, uint64_t now) {
    bool jumped;
    int64_t result = rtp_time_of(line, time, timestamp, now, &jumped);
    assert_false(jumped);
    return result;
}

/* Decode orders as encoders make them: the times are the sorted ones, put off by the depth. */
static void decoding_times(void **state) {
    (void)state;
    uint64_t seed = 0xA0761D6478BD642F;
    for (int round = 0; round < 2000; round++) {
        uint8_t depth = (uint8_t)(http_feed_random(&seed) % 5);
        const sluice_codec_config config = {.codec = SLUICE_CODEC_H264,
                                            .clock_rate = 90000,
                                            .reorder_known = true,
                                            .reorder = depth,
                                            .frame_duration = 3600};
        struct rtp_decode_order order = {0};
        int64_t sorted[200], shown[200];
        for (int i = 0; i < 200; i++)
            sorted[i] = shown[i] = (i ? sorted[i - 1] : 5 * SECOND) + 40000;
        if (http_feed_random(&seed) % 2) /* a rate that varies */
            for (int i = 10; i < 200; i++)
                sorted[i] = shown[i] = sorted[i - 1] + 1000 + (int64_t)(http_feed_random(&seed) % 100000);
        /* A picture is decoded at most so many before one that is shown earlier. */
        for (int i = 1; i < 200 && depth;) {
            int count = 1 + (int)(http_feed_random(&seed) % (depth + 1U));
            if (i + count > 200)
                break;
            /* The last of them first, and the others in order, or in reverse. */
            bool reverse = http_feed_random(&seed) % 2;
            for (int j = 0; j < count; j++)
                shown[i + j] = reverse ? sorted[i + count - 1 - j] : sorted[j ? i + j - 1 : i + count - 1];
            i += count;
        }
        rtp_decode_configure(&order, &config);
        int64_t before = INT64_MIN;
        for (int i = 0; i < 200; i++) {
            int64_t decoded = rtp_decode_time(&order, shown[i]);
            int64_t expected = i < depth ? sorted[0] - (depth - i) * 40000 : sorted[i - depth];
            if (decoded != expected)
                fail_msg("round %d, depth %u, picture %d: %lld, not %lld", round, depth, i, (long long)decoded,
                         (long long)expected);
            assert_true(decoded > before && decoded <= shown[i]);
            before = decoded;
        }
        assert_int_equal(order.depth, depth);
    }
}

/* Where the SPS does not say it, the depth shows itself, and is right from then on. */
static void a_depth_that_is_learned(void **state) {
    (void)state;
    const sluice_codec_config config = {.codec = SLUICE_CODEC_H264, .clock_rate = 90000};
    static const int order_of_four[] = {3, 1, 0, 2}; /* a pyramid: depth 2 */
    struct rtp_decode_order order = {0};
    rtp_decode_configure(&order, &config);
    assert_int_equal(rtp_decode_time(&order, 0), 0);
    for (int i = 0; i < 40; i++) {
        int64_t shown = (1 + i / 4 * 4 + order_of_four[i % 4]) * 40000;
        int64_t decoded = rtp_decode_time(&order, shown);
        assert_true(decoded <= shown);
        if (i >= 4)
            assert_int_equal(decoded, (i - 1) * 40000);
    }
    assert_int_equal(order.depth, 2);
    /* No more than there can be, whatever comes. */
    for (int i = 0; i < 100; i++)
        rtp_decode_time(&order, 100 * SECOND - i * 1000);
    assert_int_equal(order.depth, SLUICE_CODEC_MAX_REORDER);
}

/* Reports that come before the packets place both tracks exactly, whatever their clocks and
 * arrival. */
static void tracks_with_reports(void **state) {
    (void)state;
    struct rtp_line line = {0};
    struct rtp_track_time video = {.rate = 90000}, audio = {.rate = 44100};
    rtp_time_report(&video, ntp(0), 4294960000u);
    rtp_time_report(&audio, ntp(-3 * SECOND), 77);
    assert_int_equal(at(&line, &video, 4294960000u + 9000, 0), SECOND); /* 0.1 s after 0 */
    /* 0.35 s after 0, though it comes a second later. */
    int64_t place = at(&line, &audio, 77 + 44100 * 335 / 100, second_ns);
    assert_in_range(place - (SECOND + 250000) + 30, 0, 60);
    /* The wrap of a clock is no jump, and what later reports say is the same. */
    assert_int_equal(at(&line, &video, 9000 * 3 - 7296, 2 * second_ns), SECOND + 200000);
    rtp_time_report(&video, ntp(5 * SECOND), 4294960000u + 5 * 90000);
    rtp_time_report(&audio, ntp(5 * SECOND), 77 + 8 * 44100);
    rtp_time_correct(&line, &video);
    rtp_time_correct(&line, &audio);
    assert_int_equal(video.skew, 0);
    assert_int_equal(audio.skew, 0);
}

/* Without reports tracks lie where they came; reports that come later slew the second one, and time
 * never goes back. */
static void tracks_with_late_reports(void **state) {
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct rtp_line line = {0};
        struct rtp_track_time video = {.rate = 90000}, audio = {.rate = 48000};
        int64_t before = 0;
        assert_int_equal(at(&line, &video, 0, 0), SECOND);
        assert_int_equal(at(&line, &audio, 0, second_ns / 10), SECOND + 100000);
        /* The audio should lie half a second earlier, or later. */
        rtp_time_report(&video, ntp(0), 0);
        rtp_time_report(&audio, ntp(100000 + sign * 500000), 0);
        rtp_time_correct(&line, &video);
        rtp_time_correct(&line, &audio);
        assert_in_range(audio.skew - sign * 500000 + 10, 0, 20);
        unsigned steps = 0;
        for (uint32_t i = 1; i < 200; i++) {
            int64_t here = at(&line, &audio, i * 960, second_ns / 10 + i * second_ns / 50);
            int64_t step = i == 1 ? here - SECOND - 100000 : here - before;
            assert_in_range(step, 15000, 25000);
            steps += step != 20000;
            before = here;
        }
        assert_in_range(steps, 100, 101); /* a quarter of 20 ms each */
        assert_in_range(before - (SECOND + 100000 + 199 * 20000 + sign * 500000) + 10, 0, 20);
        assert_int_equal(audio.skew, 0);
        /* A report that is off by a minute is of another clock. */
        rtp_time_report(&audio, ntp(60 * SECOND), 0);
        rtp_time_correct(&line, &audio);
        assert_int_equal(audio.skew, 0);
    }
}

static void jumps(void **state) {
    (void)state;
    struct rtp_line line = {0};
    struct rtp_track_time time = {.rate = 90000};
    bool jumped;
    assert_int_equal(at(&line, &time, 1000000, 0), SECOND);
    rtp_time_report(&time, ntp(0), 1000000);
    /* Pictures that are shown before others go back a little; gaps up to ten seconds are gaps. */
    assert_int_equal(at(&line, &time, 1000000 - 90000, 0), 0);
    assert_int_equal(at(&line, &time, 1000000 + 90000 * 9, 9 * second_ns), 10 * SECOND);
    assert_true(time.mapping.valid);
    /* More is a jump: as long as the wait was. */
    assert_int_equal(rtp_time_of(&line, &time, 5, 9 * second_ns + second_ns / 25, &jumped), 10 * SECOND + 40000);
    assert_true(jumped && !time.mapping.valid);
    assert_int_equal(at(&line, &time, 5 + 3600, 10 * second_ns), 10 * SECOND + 80000);
    assert_int_equal(rtp_time_of(&line, &time, 2000000000, 500 * second_ns, &jumped), 20 * SECOND + 80000);
    assert_true(jumped);
    assert_int_equal(rtp_time_of(&line, &time, 1000000000, 500 * second_ns, &jumped), 20 * SECOND + 81000);
    assert_true(jumped);
    assert_int_equal(time.jumps, 3);
}

/* Reports half an era of NTP apart, of the fastest clock that there is, correct nothing. */
static void reports_from_the_ends_of_time(void **state) {
    (void)state;
    static const uint64_t moments[] = {0, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX, (uint64_t)3600 << 32};
    for (size_t i = 0; i < 25; i++) {
        struct rtp_line line = {0};
        struct rtp_track_time first = {.rate = UINT32_MAX}, second = {.rate = 48000};
        uint64_t one = moments[i / 5], other = moments[i % 5];
        (void)at(&line, &first, UINT32_MAX, 0);
        (void)at(&line, &second, 0, 0);
        rtp_time_report(&first, one, UINT32_MAX);
        rtp_time_report(&second, other, 0);
        rtp_time_correct(&line, &second);
        assert_int_equal(second.skew, 0);
    }
}

/* Any timestamps, reports and arrivals: what has been shown stays shown. */
static void anything(void **state) {
    (void)state;
    uint64_t seed = 0xE7037ED1A0B428DB;
    struct rtp_line line = {0};
    struct rtp_track_time times[2] = {{.rate = 90000}, {.rate = 8000}};
    uint64_t now = 0;
    uint32_t timestamps[2] = {0};
    for (int i = 0; i < 200000; i++) {
        int track = (int)(http_feed_random(&seed) % 2);
        struct rtp_track_time *time = &times[track];
        uint64_t dice = http_feed_random(&seed) % 100;
        bool jumped;
        now += http_feed_random(&seed) % (dice == 50 ? 100 * second_ns : second_ns / 10);
        timestamps[track] += dice == 0 ? (uint32_t)http_feed_random(&seed) : time->rate / 25;
        int64_t furthest = time->furthest;
        if (dice < 5)
            rtp_time_report(time, http_feed_random(&seed), timestamps[track]);
        else if (dice < 10)
            rtp_time_report(time, ntp((int64_t)(now / 1000)), timestamps[track]);
        rtp_time_correct(&line, &times[0]);
        rtp_time_correct(&line, &times[1]);
        int64_t here = rtp_time_of(&line, time, timestamps[track], now, &jumped);
        if (furthest)
            assert_in_range(here - furthest + 2 * SECOND, 0, 15 * SECOND);
        assert_in_range(time->skew + 10 * SECOND, 0, 20 * SECOND);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_times),
        cmocka_unit_test(a_depth_that_is_learned),
        cmocka_unit_test(tracks_with_reports),
        cmocka_unit_test(tracks_with_late_reports),
        cmocka_unit_test(jumps),
        cmocka_unit_test(reports_from_the_ends_of_time),
        cmocka_unit_test(anything),
    };
    return cmocka_run_group_tests_name("rtp_time", tests, NULL, NULL);
}
