/*
 * The automatic merge window: how long frames wait for others at the load that the worker's thread
 * has now. An idle core has no window; on a full one it is the longest.
 *
 * The load falls when the window grows, and the window grows with the load alone: so there is one
 * window at which both hold, and the smoothed load approaches it from one side.
 */
#ifndef SLUICED_AUTO_WINDOW_H
#define SLUICED_AUTO_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first: no load, and no window. */
struct auto_window {
    uint32_t most_ms;   /* 0: there is never a window */
    uint32_t window_ms; /* now */
    double load;        /* of one core, 0 to 1: smoothed */
    bool has_begun;     /* there is something to compare with: */
    uint64_t noted_at;  /* loop time */
    uint64_t cpu_us;    /* of the thread, ever */
};

/* The window at that load; it never falls when the load rises. */
uint32_t auto_window_at(double load, uint32_t most_ms);

/* Sets the longest window. */
void auto_window_limit(struct auto_window *window, uint32_t most_ms);

/* Whether enough time has passed for another measurement. @now: loop time, in each call */
bool auto_window_is_due(const struct auto_window *window, uint64_t now);

/* A measurement that is due. @cpu_us: processor time of the worker's thread, ever */
void auto_window_note(struct auto_window *window, uint64_t now, uint64_t cpu_us);

/* Measures the calling thread, which is the worker's, if a measurement is due. */
void auto_window_measure(struct auto_window *window, uint64_t now);

#endif
