/*
 * When a batching window is worth its wake-up: the rule alone, against a model of a thread, its
 * clock and what comes for it. The counts are of a model, so they are the same on each machine; the
 * simulation (tests/sim/waiting.c) has the backend around the rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "backends/window.h"

enum { WINDOW = 2000, SECOND = 1000000, SECONDS = 4, MOST_ARRIVALS = 1000000 };

/* Of the model: microseconds, and how often the thread has slept. */
static uint64_t now, slept;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now) {
    (void)clock;
    *ret_now = (struct timespec){.tv_sec = (time_t)(now / SECOND), .tv_nsec = (long)(now % SECOND) * 1000};
    return 0;
}

int __wrap_getrusage(int of, struct rusage *ret_usage);
int __wrap_getrusage(int of, struct rusage *ret_usage) {
    (void)of;
    *ret_usage = (struct rusage){.ru_nvcsw = (long)slept};
    return 0;
}

/* What comes, in order. */
static struct {
    uint64_t *times;
    size_t count;
    uint32_t random;
} arrivals;

static uint32_t chance(uint32_t below) {
    arrivals.random = arrivals.random * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(arrivals.random >> 8) * below >> 24);
}

static void arrive(uint64_t at) {
    assert_true(arrivals.count < MOST_ARRIVALS);
    arrivals.times[arrivals.count++] = at;
}

static int compare_times(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void sort(void) {
    qsort(arrivals.times, arrivals.count, sizeof *arrivals.times, compare_times);
}

static void nothing_comes(void) {
    if (!arrivals.times)
        arrivals.times = malloc(MOST_ARRIVALS * sizeof *arrivals.times);
    assert_non_null(arrivals.times);
    arrivals.count = 0;
    arrivals.random = 7;
}

/* A third of the streams send a packet with each tick, at the same time but for what sending takes:
 * what encoders and relays with a timer do. */
static void ticks(uint32_t streams, uint32_t tick, uint32_t apart, uint32_t jitter) {
    nothing_comes();
    for (uint64_t at = 1000; at < SECONDS * SECOND; at += tick)
        for (uint32_t i = 0; i < streams / 3 + 1; i++)
            arrive(at + (uint64_t)i * apart + (jitter ? chance(jitter) : 0));
    sort();
}

static void independent(uint32_t streams, uint32_t interval) {
    nothing_comes();
    for (uint32_t i = 0; i < streams; i++)
        for (uint64_t at = chance(interval); at < SECONDS * SECOND; at += interval)
            arrive(at);
    sort();
}

/* As many, at any time. */
static void by_chance(uint32_t streams, uint32_t interval) {
    nothing_comes();
    for (uint64_t i = 0; i < (uint64_t)streams * SECONDS * SECOND / interval; i++)
        arrive((uint64_t)chance(SECONDS * 1000) * 1000 + chance(1000));
    sort();
}

/* Changes every so often, as if it knew the rule. */
static void changing(uint32_t every_ms) {
    nothing_comes();
    for (uint64_t at = 0; at < SECONDS * SECOND;) {
        bool dense = at / 1000 / every_ms % 2;
        at += dense ? 100 + chance(300) : 5000;
        arrive(at);
    }
}

/* What a turn costs the thread, and each event in it; microseconds. */
typedef struct cost {
    uint32_t turn, event;
} cost;

static void sleep_until(uint64_t time) {
    if (time <= now)
        return;
    now = time;
    slept++;
}

/* The window's length after the first turn; 0: it stays as it is. */
static uint32_t change_to;

/* A loop, for all that comes. How often it has slept. */
static uint64_t sleeps_of(uint32_t length, bool minimum, cost each) {
    batch_window window;
    size_t next = 0;
    now = slept = 0;
    window_init(&window, length, minimum);
    while (next < arrivals.count) {
        bool ready = arrivals.times[next] <= now;
        enum window_wait kind = window_plan(&window, ready);
        int64_t left = kind == WINDOW_NONE ? 0 : window_left(&window, -1);
        if (kind == WINDOW_LEAST && left == 0)
            kind = WINDOW_NONE;
        uint64_t closes = now + (uint64_t)left;
        if (kind == WINDOW_SLEEP || (kind == WINDOW_LEAST && closes > arrivals.times[next]))
            sleep_until(closes);
        else
            sleep_until(arrivals.times[next]);
        window_end(&window);
        uint32_t events = 0;
        for (; next < arrivals.count && arrivals.times[next] <= now; events++)
            next++;
        now += each.turn + (uint64_t)events * each.event;
        window_judge(&window, kind, !ready || kind != WINDOW_NONE, events);
        if (change_to > 0)
            window_set_length(&window, change_to);
    }
    return slept;
}

/* A turn of nothing, and two of what was measured: small packets one at a time cost 10 to 15. */
static const cost costs[] = {{0, 0}, {4, 2}, {8, 6}};

enum { FULL = 2 }; /* sleeps, at most, of a loop that has always something to do */

/* What windows make of the sleeps without: with the minimum wait no more for any of them; without
 * it a few for each change of what comes. */
static void judge(const char *what, uint32_t streams, uint32_t few) {
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        uint64_t plain = sleeps_of(0, false, costs[i]);
        uint64_t least = sleeps_of(WINDOW, true, costs[i]);
        uint64_t learned = sleeps_of(WINDOW, false, costs[i]);
        print_message("%-12s %3u streams, turn %u us: %6llu sleeps, %6llu with the minimum wait, %6llu without\n", what,
                      streams, costs[i].turn, (unsigned long long)plain, (unsigned long long)least,
                      (unsigned long long)learned);
        /* One that is always full sleeps with windows alone. */
        assert_true(least <= plain || plain <= FULL);
        assert_true(learned <= plain + few);
    }
}

enum { FEW = 40 };
static const uint32_t counts[] = {1, 2, 5, 10, 20, 30, 50, 100, 200, 500};
enum { COUNTS = sizeof counts / sizeof *counts };

static void ticks_cost_nothing(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1000, 1900, 2500, 5000, 16667};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (size_t i = 0; i < COUNTS; i++) {
            ticks(counts[i], lengths[k], 0, 0);
            judge("ticks", counts[i], FEW);
            ticks(counts[i], lengths[k], 3, 0);
            judge("spread", counts[i], FEW);
            ticks(counts[i], lengths[k], 3, 700);
            judge("jitter", counts[i], FEW);
        }
}

static void independent_streams_are_gathered(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNTS; i++) {
        independent(counts[i], 13700);
        judge("independent", counts[i], FEW);
        by_chance(counts[i], 13700);
        judge("by chance", counts[i], FEW);
    }
    for (size_t i = 0; i < 2; i++) {
        uint64_t plain = sleeps_of(0, false, costs[i]);
        assert_true(sleeps_of(WINDOW, true, costs[i]) <= SECONDS * SECOND / WINDOW + FEW);
        assert_true(sleeps_of(WINDOW, false, costs[i]) * 4 < plain);
    }
}

static void changes_are_noticed(void **state) {
    (void)state;
    static const uint32_t lengths[] = {10, 20, 50, 100, 1000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        changing(lengths[i]);
        judge("changing", lengths[i], FEW);
    }
}

/* One publisher and its players: nothing ever falls into a window. */
static void events_far_apart_have_no_delay(void **state) {
    (void)state;
    ticks(1, 33000, 0, 0);
    judge("one", 1, 0);
    assert_int_equal(sleeps_of(WINDOW, true, costs[1]), arrivals.count);
    assert_int_equal(sleeps_of(WINDOW, false, costs[1]), arrivals.count);
}

/* More comes than the thread can handle one by one, so that it would never sleep: windows make
 * turns larger. */
static void full_core_gets_windows(void **state) {
    (void)state;
    static const cost slow = {400, 1};
    for (unsigned minimum = 0; minimum < 2; minimum++) {
        independent(500, 13700);
        assert_true(sleeps_of(0, false, slow) < 50);
        uint64_t sleeps = sleeps_of(WINDOW, minimum, slow);
        assert_in_range(sleeps, SECONDS * SECOND / WINDOW / 2, SECONDS * SECOND / WINDOW);
    }
}

/* What another loop with a window sends: each turn's worth at once. A window of the same length is
 * empty nearly always; a longer one that replaces it gathers the turns of more than two. */
static void longer_window_gathers_turns_of_another_loop(void **state) {
    (void)state;
    uint64_t same, longer;
    ticks(15, WINDOW + 100, 15, 0);
    same = sleeps_of(WINDOW, true, costs[1]);
    change_to = WINDOW * 5 / 2;
    longer = sleeps_of(WINDOW, true, costs[1]);
    change_to = 0;
    print_message("turns of another loop: %llu sleeps, %llu with a longer window\n", (unsigned long long)same,
                  (unsigned long long)longer);
    assert_true(longer * 2 < same);
    assert_true(longer <= SECONDS * SECOND / (WINDOW * 5 / 2) + FEW);
}

static void without_a_length_there_is_none(void **state) {
    (void)state;
    independent(20, 10000);
    assert_true(sleeps_of(0, true, costs[0]) == sleeps_of(0, false, costs[0]));
}

static int free_arrivals(void **state) {
    (void)state;
    free(arrivals.times);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_cost_nothing),
        cmocka_unit_test(independent_streams_are_gathered),
        cmocka_unit_test(changes_are_noticed),
        cmocka_unit_test(events_far_apart_have_no_delay),
        cmocka_unit_test(full_core_gets_windows),
        cmocka_unit_test(longer_window_gathers_turns_of_another_loop),
        cmocka_unit_test(without_a_length_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, free_arrivals);
}
