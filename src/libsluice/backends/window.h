/*
 * The batching window. It is counted from the moment at which the last turn was done waiting, so
 * the work of a turn is within it: what comes meanwhile is delayed by no more than the window,
 * however long that work takes.
 *
 * One that nothing comes in has cost a wake-up and saved none. Where that was the first one behind
 * an event, there is no other until two events come closer together than that. What was sent is no
 * event here: it was done when it was submitted, and is no sign that more comes.
 */
#ifndef SLUICE_BACKENDS_WINDOW_H
#define SLUICE_BACKENDS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/clock.h"

typedef struct batch_window {
    uint32_t length; /* microseconds; 0: none */
    uint64_t opened; /* microseconds, monotonic: when the last wait was over */
    uint64_t heard;  /* when the last one was that brought events */
    bool busy;       /* the last wait did */
    bool first;      /* and was none for a window */
    bool futile;     /* events are too far apart for a window to gather any */
} batch_window;

static inline uint64_t window_clock(void) {
    return clock_ns() / 1000;
}

/* A wait is over. */
static inline void window_open(batch_window *window) {
    if (window->length > 0)
        window->opened = window_clock();
}

/* How many events the last wait has brought, and whether it lasted for a window. */
static inline void window_judge(batch_window *window, bool waited, uint32_t events) {
    window->busy = events > 0;
    if (window->length == 0)
        return;
    if (events == 0) {
        window->futile |= waited && window->first;
        return;
    }
    if (!waited && window->opened - window->heard < window->length)
        window->futile = false;
    window->first = !waited;
    window->heard = window->opened;
}

/* Whether the next wait should last for one. */
static inline bool window_pays(const batch_window *window) {
    return window->length > 0 && window->busy && !window->futile;
}

/* Microseconds until it closes, at most @timeout_us where that is not negative. */
static inline int64_t window_left(const batch_window *window, int64_t timeout_us) {
    uint64_t open = window_clock() - window->opened;
    int64_t left = open < window->length ? (int64_t)(window->length - open) : 0;
    return timeout_us < 0 || timeout_us > left ? left : timeout_us;
}

#endif
