#include "daemon/relay/auto_window.h"

#include <time.h>

enum { PERIOD_MS = 100 }; /* between measurements, and the window: its sends come in bursts */

/* Of a measurement in the smoothed load. With more, the window swings: the load shows a change of
 * it late. */
static const double WEIGHT = 0.125;

/* Of a core: it is full, and queues grow. */
static const double SATURATED = 0.97;

/*
 * 16 ms save nearly half of the processor time of sending, and keep 99 % of the frames below a
 * delay of 25 ms. From there on the window doubles by equal steps of load: the part of the load
 * that sends are is as the reciprocal of the window, so that the control is equally stable
 * everywhere.
 */
static const struct {
    double load, window_ms;
} curve[] = {{0.04, 0}, {0.12, 16}, {0.60, 16}, {0.6875, 35}, {0.775, 75}, {0.8625, 162}, {0.95, 350}};

uint32_t auto_window_at(double load, uint32_t most_ms) {
    enum { POINTS = sizeof curve / sizeof *curve };
    double window = curve[POINTS - 1].window_ms;
    for (unsigned i = 0; i < POINTS; i++) {
        if (load >= curve[i].load)
            continue;
        window = i == 0 ? 0
                        : curve[i - 1].window_ms + (curve[i].window_ms - curve[i - 1].window_ms) *
                                                       (load - curve[i - 1].load) / (curve[i].load - curve[i - 1].load);
        break;
    }
    return window < most_ms ? (uint32_t)window : most_ms;
}

void auto_window_limit(struct auto_window *window, uint32_t most_ms) {
    window->most_ms = most_ms;
    window->window_ms = auto_window_at(window->load, most_ms);
}

bool auto_window_is_due(const struct auto_window *window, uint64_t now) {
    return !window->has_begun || now >= window->noted_at + PERIOD_MS + window->window_ms;
}

void auto_window_note(struct auto_window *window, uint64_t now, uint64_t cpu_us) {
    if (window->has_begun && now > window->noted_at) {
        double load = (double)(cpu_us - window->cpu_us) / 1000 / (double)(now - window->noted_at);
        if (load > 1)
            load = 1;
        /* A full core must not wait for an average to show it: its queues grow meanwhile. */
        if (load >= SATURATED && load > window->load)
            window->load = load;
        else
            window->load += (load - window->load) * WEIGHT;
        window->window_ms = auto_window_at(window->load, window->most_ms);
    }
    window->has_begun = true;
    window->noted_at = now;
    window->cpu_us = cpu_us;
}

void auto_window_measure(struct auto_window *window, uint64_t now) {
    struct timespec time;
    if (auto_window_is_due(window, now) && clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0)
        auto_window_note(window, now, (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000);
}
