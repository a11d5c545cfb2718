/*
 * The automatic merge window: when it opens, grows and closes, and that it settles. The load is the
 * test's: nothing is timed.
 */
#include "daemon/relay/auto_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 350, MANY = 40000 /* frames a second, for each player: of 500 players */ };

/* A measurement, as soon as it is due. */
static void run_shared(struct auto_window *window, uint64_t *now, double own, double waiting, double frames) {
    uint64_t before = *now;
    while (!auto_window_is_due(window, *now))
        ++*now;
    double ms = (double)(*now - before);
    window->frames += (uint64_t)(ms * frames / 1000);
    struct thread_time time = window->time;
    time.ran_us += (uint64_t)(ms * 1000 * own);
    time.waited_us += (uint64_t)(ms * 1000 * waiting);
    auto_window_note(window, *now, time);
}

static void run_shared_for(struct auto_window *window, uint64_t *now, double own, double waiting, unsigned times) {
    for (unsigned i = 0; i < times; i++)
        run_shared(window, now, own, waiting, MANY);
}

static void run(struct auto_window *window, uint64_t *now, double load, double frames) {
    run_shared(window, now, load, 0, frames);
}

static void run_for(struct auto_window *window, uint64_t *now, double load, double frames, unsigned times) {
    for (unsigned i = 0; i < times; i++)
        run(window, now, load, frames);
}

static void begin(struct auto_window *window, uint64_t *now, uint32_t most) {
    *window = (struct auto_window){0};
    *now = 5000;
    auto_window_limit(window, most);
    assert_true(auto_window_is_due(window, *now));
    /* What the thread has used before counts for nothing. */
    window->frames = 1 << 20;
    auto_window_note(window, *now, (struct thread_time){77000000, 3000000});
    assert_int_equal(window->window_ms, 0);
}

static void measures_once_a_period(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    assert_false(auto_window_is_due(&window, now + 99));
    assert_true(auto_window_is_due(&window, now + 100));
    window.window_ms = 50;
    assert_false(auto_window_is_due(&window, now + 199));
    assert_true(auto_window_is_due(&window, now + 200));
    /* The same time again divides by nothing. */
    auto_window_note(&window, now, (struct thread_time){99000000, 3000000});
    assert_true(window.load == 0);
}

static void idle_core_has_none(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    for (unsigned i = 0; i < 1000; i++) {
        run(&window, &now, 0.119, MANY);
        assert_int_equal(window.window_ms, 0);
    }
    run_for(&window, &now, 0.121, MANY, 100);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    /* It is kept down to a third of that, and gone below. */
    run_for(&window, &now, 0.036, MANY, 100);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    run_for(&window, &now, 0.034, MANY, 100);
    assert_int_equal(window.window_ms, 0);
}

/* A reading that lacks the time in the run queue, as without a free descriptor, is no load of zero,
 * and the first one that has it again is no full core. */
static void failed_readings_change_nothing(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run_shared_for(&window, &now, 0.3, 0.2, 100);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    const struct thread_time good = window.time;
    uint64_t begun = now;
    for (unsigned failed = 0; failed < 20; failed++) {
        while (!auto_window_is_due(&window, now))
            now++;
        uint64_t ran_us = good.ran_us + (now - begun) * 300, waited_us = good.waited_us + (now - begun) * 200;
        window.frames += MANY;
        auto_window_note(&window, now, (struct thread_time){ran_us, failed % 2 ? waited_us : 0});
        assert_true(window.load > 0.45 && window.load < 0.55);
        assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    }
}

/* A busy core, which is busy with something else: windows would only delay. */
static void few_players_have_none(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run_for(&window, &now, 1, 990, 200);
    assert_int_equal(window.window_ms, 0);
    run_for(&window, &now, 1, 1010, 1);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    run_for(&window, &now, 1, 810, 100);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    run_for(&window, &now, 1, 790, 1);
    assert_int_equal(window.window_ms, 0);
}

/* A quarter of a core is all that a control group allows, and the frames fill it: the rest of the
 * time the thread waits. The same of a whole core would be light. */
static void part_of_a_core_is_all_there_is(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run_shared_for(&window, &now, 0.24, 0.75, 100);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    window.share = 0.25;
    run_shared_for(&window, &now, 0.24, 0.75, 100);
    assert_int_equal(window.window_ms, MOST);
    /* More than a core is no more than one. */
    begin(&window, &now, MOST);
    window.share = 4;
    run_shared_for(&window, &now, 0.24, 0.75, 100);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
}

/* A full core, of which the players' frames are no quarter: handshakes, for example. A longer
 * window would delay the frames, and leave the rest as it is. */
static void other_work_makes_none_longer(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run_for(&window, &now, 1, 12400, 200);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    run_for(&window, &now, 1, 12600, 100);
    assert_int_equal(window.window_ms, MOST);
}

/* A core that is full of handshakes, or shared with their clients: what they take, and as much
 * again, is none of the frames' load, and neither is the waiting that is due to it. */
static void handshakes_open_none(void **state) {
    (void)state;
    static const double waits[] = {0, 0.5};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        struct auto_window window;
        uint64_t now;
        double ran = 1 - waits[i];
        begin(&window, &now, MOST);
        for (unsigned k = 0; k < 200; k++) {
            /* 0.11 of the load is left for the frames, and then 0.13. */
            uint64_t due = window.noted_at + 100;
            window.other_us += (uint64_t)((double)(due - window.noted_at) * 1000 * ran * 0.445);
            run_shared(&window, &now, ran, waits[i], MANY);
            assert_int_equal(now, due);
            assert_int_equal(window.window_ms, 0);
        }
        /* What is shown is all of it. */
        assert_true(window.load > 0.99);
        for (unsigned k = 0; k < 200; k++) {
            window.other_us += (uint64_t)((100 + 2.0 * window.window_ms) * 1000 * ran * 0.435);
            run_shared(&window, &now, ran, waits[i], MANY);
        }
        assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
        /* More than all is all. */
        for (unsigned k = 0; k < 200; k++) {
            window.other_us += 1000000;
            run_shared(&window, &now, ran, waits[i], MANY);
        }
        assert_int_equal(window.window_ms, 0);
        assert_true(window.busy >= 0 && window.busy < 0.001 && window.own < 0.001);
    }
}

/* Others have the core: what the thread waits counts, as far as its own part is worth saving. */
static void waiting_for_the_core_counts(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    for (unsigned i = 0; i < 200; i++) {
        run_shared(&window, &now, 0.039, 0.9, MANY);
        assert_int_equal(window.window_ms, 0);
    }
    run_shared_for(&window, &now, 0.041, 0.09, 200);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    /* It does not grow for a thread that needs little. */
    run_shared_for(&window, &now, 0.24, 0.76, 200);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    run_shared_for(&window, &now, 0.26, 0.74, 200);
    assert_int_equal(window.window_ms, MOST);
    run_shared_for(&window, &now, 0.011, 0.2, 200);
    assert_int_equal(window.window_ms, 0);
}

/* One measurement is no load: a player that starts gets its cached group at once. */
static void peak_opens_none(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    for (unsigned i = 0; i < 20; i++) {
        run(&window, &now, 0.4, MANY);
        assert_int_equal(window.window_ms, 0);
        run_for(&window, &now, 0.02, MANY, 12);
    }
}

static void full_core_is_answered_soon(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    uint64_t before = now;
    unsigned most = 0;
    while (window.window_ms < MOST) {
        run(&window, &now, 1, MANY);
        /* Step by step: a gap of 350 ms would be seen. */
        assert_true(window.window_ms <= 2 * most || window.window_ms == AUTO_WINDOW_FIRST);
        most = window.window_ms;
    }
    assert_in_range(now - before, 500, 4000);
    /* More than one core is one: clocks differ. */
    run(&window, &now, 1.5, MANY);
    assert_int_equal(window.window_ms, MOST);
    assert_true(window.load <= 1);
    /* It falls step by step, to none. */
    before = now;
    while (window.window_ms > 0) {
        uint32_t last = window.window_ms;
        run(&window, &now, 0, MANY);
        assert_true(window.window_ms <= last);
        assert_true(now - before < 15000);
    }
}

static void limit_holds_at_once(void **state) {
    (void)state;
    static const uint32_t limits[] = {100, 19, 18, 17, 5, 1, 0};
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run_for(&window, &now, 1, MANY, 50);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        auto_window_limit(&window, limits[i]);
        assert_int_equal(window.window_ms, limits[i]);
        run_for(&window, &now, 1, MANY, 50);
        assert_int_equal(window.window_ms, limits[i]);
    }
    auto_window_limit(&window, MOST);
    assert_int_equal(window.window_ms, AUTO_WINDOW_FIRST);
    run_for(&window, &now, 1, MANY, 50);
    assert_int_equal(window.window_ms, MOST);
}

/*
 * What was measured: a send each 13.7 ms without a window, one for each window and the time to the
 * next frame with one; and the bytes. @fixed: what the core does besides.
 */
static double load_at(double players, double fixed, uint32_t window_ms) {
    double sends = 1000.0 / (13.7 + window_ms), load = fixed + players * (sends * 8e-6 + 5e-5);
    return load < 1 ? load : 1;
}

/* Its times of flush are not those of the measurements. */
static double noise(unsigned k) {
    static const double by[] = {1, 0.9, 1.12, 1.05, 0.86, 0.97, 1.1};
    return by[k % 7];
}

/* From idle, and from a full core: the load comes to rest, and the window with it. */
static void load_comes_to_rest(void **state) {
    (void)state;
    static const double players[] = {0, 10, 50, 100, 200, 300, 500, 1000, 1500, 2000, 3000, 4000, 8000, 12000};
    static const double others[] = {0, 0.1, 0.3, 0.6};
    for (size_t i = 0; i < sizeof players / sizeof *players * 4 * 2 * 2; i++) {
        double count = players[i / 16], fixed = others[i / 4 % 4];
        bool from_full = i % 2, is_noisy = i / 2 % 2;
        struct auto_window window;
        uint64_t now;
        uint32_t least = MOST, most = 0;
        begin(&window, &now, MOST);
        if (from_full)
            run_for(&window, &now, 1, MANY, 50);
        for (unsigned k = 0; k < 400; k++) {
            double load = load_at(count, fixed, window.window_ms) * (is_noisy ? noise(k) : 1);
            run(&window, &now, load, count * 73);
            if (k < 300)
                continue;
            least = window.window_ms < least ? window.window_ms : least;
            most = window.window_ms > most ? window.window_ms : most;
        }
        if (most - least > most / 8)
            print_message("%g players, %g besides: %u to %u ms\n", count, fixed, least, most);
        assert_true(most - least <= (is_noisy ? most / 3 : most / 8));
        if (count <= 10)
            assert_int_equal(most, 0);
        if (count >= 300)
            assert_true(least >= AUTO_WINDOW_FIRST);
        /* No longer than it takes: less would not keep up. */
        if (most > AUTO_WINDOW_FIRST && !is_noisy)
            assert_true(load_at(count, fixed, most) >= 0.69);
        if (most < MOST)
            assert_true(load_at(count, fixed, least) <= 0.9);
    }
}

/* Loads that come and go do not pull the window to and fro. */
static void changes_are_few(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    unsigned changes = 0;
    begin(&window, &now, MOST);
    for (unsigned k = 0; k < 1000; k++) {
        uint32_t before = window.window_ms;
        run(&window, &now, 0.08 + 0.06 * noise(k) * (k / 20 % 2), MANY);
        changes += window.window_ms != before;
    }
    assert_true(changes <= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_once_a_period),
        cmocka_unit_test(idle_core_has_none),
        cmocka_unit_test(failed_readings_change_nothing),
        cmocka_unit_test(few_players_have_none),
        cmocka_unit_test(part_of_a_core_is_all_there_is),
        cmocka_unit_test(other_work_makes_none_longer),
        cmocka_unit_test(handshakes_open_none),
        cmocka_unit_test(waiting_for_the_core_counts),
        cmocka_unit_test(peak_opens_none),
        cmocka_unit_test(full_core_is_answered_soon),
        cmocka_unit_test(limit_holds_at_once),
        cmocka_unit_test(load_comes_to_rest),
        cmocka_unit_test(changes_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
