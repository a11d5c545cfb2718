/* The samples of the last hour: rates between snapshots, workers that do not answer, and one sample
 * more than there may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/control/history.h"

static void add(struct history *history, struct snapshot *first, struct snapshot *second) {
    struct snapshot *list[] = {first, second};
    history_add(history, &(struct snapshots){list, 2});
}

static struct snapshot at(uint64_t seconds, uint64_t received, uint64_t sent, uint64_t dropped, uint64_t cpu_ms) {
    struct snapshot snapshot = {.uptime_ms = seconds * 1000, .cpu_ns = cpu_ms * 1000000};
    snapshot.totals.bytes_received = received;
    snapshot.totals.bytes_sent = sent;
    snapshot.totals.dropped[DROP_PAUSED] = dropped;
    snapshot.totals.dropped[DROP_CATCH_UP] = dropped;
    snapshot.totals.frames_lost = dropped;
    return snapshot;
}

static void rates(void **state) {
    (void)state;
    struct history *history;
    assert_int_equal(history_new(2, &history), 0);
    struct snapshot first = at(100, 1000, 5000, 7, 50), second = at(100, 0, 0, 0, 0);
    add(history, &first, &second);
    assert_int_equal(history_count(history), 0);
    first = at(110, 2000, 9000, 10, 2550);
    second = at(110, 500, 0, 1, 10000);
    add(history, &first, &second);
    assert_int_equal(history_count(history), 1);
    const struct history_sample *sample = history_at(history, 0);
    assert_true(sample->is_whole);
    assert_true(sample->received_bits_per_second == 1200);
    assert_true(sample->sent_bits_per_second == 3200);
    assert_int_equal(sample->dropped, 8);
    assert_int_equal(sample->lost, 4);
    assert_true(history_cpu(history, 0, 0) == 0.25);
    assert_true(history_cpu(history, 0, 1) == 1);
    history_free(history);
}

/* Its counts are part of the next sample, its rates those of the whole time. */
static void a_worker_that_does_not_answer(void **state) {
    (void)state;
    struct history *history;
    assert_int_equal(history_new(2, &history), 0);
    struct snapshot first = at(0, 0, 0, 0, 0), second = at(0, 0, 0, 0, 0);
    add(history, &first, &second);
    first = at(10, 1000, 0, 0, 1000);
    add(history, &first, NULL);
    assert_false(history_at(history, 0)->is_whole);
    assert_true(history_cpu(history, 0, 0) == 0.1);
    assert_true(history_cpu(history, 0, 1) < 0);
    first = at(20, 1000, 0, 0, 1000);
    second = at(20, 2000, 0, 3, 4000);
    add(history, &first, &second);
    assert_true(history_at(history, 1)->is_whole);
    assert_true(history_at(history, 1)->received_bits_per_second == 800);
    assert_int_equal(history_at(history, 1)->dropped, 6);
    assert_true(history_cpu(history, 1, 1) == 0.2);
    /* No time between two, and counts that go down: nothing is below zero. */
    add(history, &first, &second);
    assert_false(history_at(history, 2)->is_whole);
    first = at(30, 0, 0, 0, 0);
    second = at(30, 0, 0, 0, 0);
    add(history, &first, &second);
    assert_true(history_at(history, 3)->received_bits_per_second == 0);
    assert_true(history_cpu(history, 3, 1) == 0);
    history_free(history);
}

/* One that answers for the first time has no rate yet. */
static void a_worker_that_comes_late(void **state) {
    (void)state;
    struct history *history;
    assert_int_equal(history_new(2, &history), 0);
    struct snapshot first = at(0, 0, 0, 0, 0), second = at(10, 1 << 30, 0, 0, 0);
    add(history, &first, NULL);
    first = at(10, 0, 0, 0, 0);
    add(history, &first, &second);
    assert_false(history_at(history, 0)->is_whole);
    assert_true(history_cpu(history, 0, 1) < 0);
    history_free(history);
}

static void one_more_than_an_hour(void **state) {
    (void)state;
    struct history *history;
    assert_int_equal(history_new(2, &history), 0);
    for (uint64_t i = 0; i <= HISTORY_SAMPLES; i++) {
        struct snapshot both = at(i * 10, 0, 0, i * i, i * i);
        add(history, &both, &both);
    }
    assert_int_equal(history_count(history), HISTORY_SAMPLES);
    assert_int_equal(history_at(history, 0)->dropped, 4);
    struct snapshot both = at((HISTORY_SAMPLES + 1) * 10, 0, 0, 1 << 20, 0);
    add(history, &both, &both);
    assert_int_equal(history_count(history), HISTORY_SAMPLES);
    assert_int_equal(history_at(history, 0)->dropped, 4 * 3);
    assert_int_equal(history_at(history, HISTORY_SAMPLES - 2)->dropped, 4 * (2 * HISTORY_SAMPLES - 1));
    assert_true(history_cpu(history, HISTORY_SAMPLES - 1, 0) == 0);
    history_free(history);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates),
        cmocka_unit_test(a_worker_that_does_not_answer),
        cmocka_unit_test(a_worker_that_comes_late),
        cmocka_unit_test(one_more_than_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
