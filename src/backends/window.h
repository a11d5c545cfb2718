/*
 * The batching window. It is counted from the moment at which the last turn was done waiting, so the work of a turn is
 * within it: what comes meanwhile is delayed by no more than the window, however long that work takes.
 */
#ifndef SLUICE_BACKENDS_WINDOW_H
#define SLUICE_BACKENDS_WINDOW_H

#include <stdint.h>

#include "backends/clock.h"

typedef struct batch_window {
    uint32_t length; /* microseconds; 0: none */
    uint64_t opened; /* microseconds, monotonic */
} batch_window;

static inline uint64_t window_clock(void) {
    return clock_ns() / 1000;
}

/* A wait is over. */
static inline void window_open(batch_window *window) {
    if (window->length > 0)
        window->opened = window_clock();
}

/* Microseconds until it closes, at most @timeout_us where that is not negative. */
static inline int64_t window_left(const batch_window *window, int64_t timeout_us) {
    uint64_t open = window_clock() - window->opened;
    int64_t left = open < window->length ? (int64_t)(window->length - open) : 0;
    return timeout_us < 0 || timeout_us > left ? left : timeout_us;
}

#endif
