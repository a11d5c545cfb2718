/*
 * The automatic merge window: how long frames wait for others at the load that the worker's thread
 * has now. An idle core has no window; a busy one has one that nobody notices and that saves half
 * of the sends; it grows when the core is full, as far as that takes to keep up.
 *
 * TLS handshakes are a load that no window makes smaller, and that waits for frames anyway: their
 * part is left out.
 *
 * The load falls when the window grows. So the window is not a function of the load: it opens at
 * one load and closes at another, lower one, and it is left alone between two others.
 */
#ifndef SLUICED_AUTO_WINDOW_H
#define SLUICED_AUTO_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/thread_time.h"

/*
 * The first window that opens, milliseconds. It gathers two frames of audio, which are 21.3 ms
 * (AAC at 48 kHz) or 23.2 (44.1 kHz) apart; with any shorter one, each has a send of its own.
 */
enum { AUTO_WINDOW_FIRST = 24 };

/* All zero at first: no load, and no window. */
struct auto_window {
    uint32_t most_ms;   /* 0: there is never a window */
    uint32_t window_ms; /* now */
    double wanted_ms;   /* 0, or from AUTO_WINDOW_FIRST on: the window without that limit */
    /* parts of the time, smoothed: in which the thread ran or waited for a core; in which it ran */
    double load, ran;
    /* of a core that the thread may use; 0, or more than 1: all of one. Set by its user */
    double share;
    double busy, own; /* the same, less the part of other work than frames */
    /* counted by its user, ever: frames that could be gathered, for each player; and processor time
     * of other work, microseconds */
    uint64_t frames, other_us;
    bool has_begun;    /* there is something to compare with: */
    uint64_t noted_at; /* loop time */
    struct thread_time time;
    uint64_t frames_then, other_then;
};

/* Sets the longest window. */
void auto_window_limit(struct auto_window *window, uint32_t most_ms);

/* Whether enough time has passed for another measurement. @now: loop time, in each call */
bool auto_window_is_due(const struct auto_window *window, uint64_t now);

/* A measurement that is due. @time: of the worker's thread */
void auto_window_note(struct auto_window *window, uint64_t now, struct thread_time time);

/* Measures the calling thread, which is the worker's, if a measurement is due. */
void auto_window_measure(struct auto_window *window, uint64_t now);

#endif
