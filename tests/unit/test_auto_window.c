/* The automatic merge window: its curve, its measurements, and that it settles. */
#include "daemon/relay/auto_window.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 350 };

static void curve_at_its_bounds(void **state) {
    (void)state;
    static const struct {
        double load;
        uint32_t most, window;
    } rows[] = {
        {0, MOST, 0},       {0.04, MOST, 0},    {0.08, MOST, 8},    {0.12, MOST, 16},  {0.13, MOST, 16},
        {0.60, MOST, 16},   {0.65, MOST, 27},   {0.6875, MOST, 35}, {0.775, MOST, 75}, {0.8625, MOST, 162},
        {0.906, MOST, 255}, {0.95, MOST, MOST}, {1, MOST, MOST},    {0.95, 17, 17},    {0.60, 17, 16},
        {1, 16, 16},        {0.70, 16, 16},     {0.5, 15, 15},      {1, 15, 15},       {0.08, 15, 8},
        {0.08, 5, 5},       {0.5, 1, 1},        {1, 0, 0},          {0.5, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t window = auto_window_at(rows[i].load, rows[i].most);
        /* Fractions are cut off. */
        assert_in_range(window, rows[i].window > 0 ? rows[i].window - 1 : 0, rows[i].window);
    }
    assert_int_equal(auto_window_at(0.2, MOST), 16);
    assert_int_equal(auto_window_at(0.96, MOST), MOST);
}

static void curve_never_falls(void **state) {
    (void)state;
    static const uint32_t most[] = {0, 1, 15, 16, 17, 100, MOST};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        uint32_t before = 0;
        for (unsigned load = 0; load <= 1000; load++) {
            uint32_t window = auto_window_at(load / 1000.0, most[i]);
            assert_true(window >= before && window <= most[i]);
            before = window;
        }
        assert_int_equal(before, most[i]);
    }
}

/* A measurement of that load, as soon as it is due. */
static void run(struct auto_window *window, uint64_t *now, double load) {
    uint64_t before = *now;
    while (!auto_window_is_due(window, *now))
        ++*now;
    auto_window_note(window, *now, window->cpu_us + (uint64_t)((double)(*now - before) * 1000 * load));
}

static void begin(struct auto_window *window, uint64_t *now, uint32_t most) {
    *window = (struct auto_window){0};
    *now = 5000;
    auto_window_limit(window, most);
    assert_true(auto_window_is_due(window, *now));
    /* What the thread has used before counts for nothing. */
    auto_window_note(window, *now, 77000000);
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
    assert_false(auto_window_is_due(&window, now + 149));
    assert_true(auto_window_is_due(&window, now + 150));
    /* The same time again divides by nothing. */
    auto_window_note(&window, now, 99000000);
    assert_true(window.load == 0);
}

static void full_core_is_answered_at_once(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run(&window, &now, 0.01);
    assert_int_equal(window.window_ms, 0);
    run(&window, &now, 1);
    assert_int_equal(window.window_ms, MOST);
    /* More than one core is one: clocks differ. */
    run(&window, &now, 1.5);
    assert_int_equal(window.window_ms, MOST);
    assert_true(window.load <= 1);
    /* It falls step by step, to none. */
    uint32_t before = MOST;
    for (unsigned i = 0; i < 60; i++) {
        run(&window, &now, 0);
        assert_true(window.window_ms <= before);
        assert_true(i > 0 || window.window_ms > 16);
        before = window.window_ms;
    }
    assert_int_equal(before, 0);
}

static void limit_holds_at_once(void **state) {
    (void)state;
    struct auto_window window;
    uint64_t now;
    begin(&window, &now, MOST);
    run(&window, &now, 1);
    auto_window_limit(&window, 100);
    assert_int_equal(window.window_ms, 100);
    auto_window_limit(&window, 0);
    assert_int_equal(window.window_ms, 0);
    run(&window, &now, 1);
    assert_int_equal(window.window_ms, 0);
    auto_window_limit(&window, MOST);
    assert_int_equal(window.window_ms, MOST);
}

/* Sends at each window cost what was measured: a send for each group of frames, and the bytes. */
static double load_at(double players, uint32_t window_ms) {
    double sends = 1000.0 / (window_ms > 13 ? window_ms : 13);
    double load = players * (sends * 8e-6 + 5e-5);
    return load < 1 ? load : 1;
}

/* From idle, and from a full core: the load comes to rest, and at the same window. */
static void load_comes_to_rest(void **state) {
    (void)state;
    static const double players[] = {0, 10, 50, 100, 300, 500, 1000, 2000, 3000, 4000, 8000, 12000};
    for (size_t i = 0; i < sizeof players / sizeof *players; i++) {
        uint32_t rest[2];
        for (unsigned from_full = 0; from_full < 2; from_full++) {
            struct auto_window window;
            uint64_t now;
            begin(&window, &now, MOST);
            if (from_full)
                run(&window, &now, 1);
            for (unsigned k = 0; k < 200; k++)
                run(&window, &now, load_at(players[i], window.window_ms));
            uint32_t least = window.window_ms, most = least;
            for (unsigned k = 0; k < 50; k++) {
                run(&window, &now, load_at(players[i], window.window_ms));
                least = window.window_ms < least ? window.window_ms : least;
                most = window.window_ms > most ? window.window_ms : most;
            }
            if (most - least > 1 + most / 20)
                print_message("%g players: %u to %u\n", players[i], least, most);
            assert_true(most - least <= 1 + most / 20);
            rest[from_full] = most;
        }
        assert_true(fabs((double)rest[0] - rest[1]) <= 1 + rest[0] / 20.0);
        if (players[i] <= 50)
            assert_int_equal(rest[0], 0);
        if (players[i] >= 300)
            assert_true(rest[0] >= 15);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve_at_its_bounds),    cmocka_unit_test(curve_never_falls),
        cmocka_unit_test(measures_once_a_period), cmocka_unit_test(full_core_is_answered_at_once),
        cmocka_unit_test(limit_holds_at_once),    cmocka_unit_test(load_comes_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
