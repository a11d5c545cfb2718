/*
 * The batching window: whether the next wait lasts for one, so that what comes meanwhile is handled
 * by one wake-up. A window never costs more wake-ups than it saves, as long as the loop is idle at
 * times: window.c says how.
 *
 * It is counted from the moment at which the last wait was over, so the work of a turn is within
 * it: what comes meanwhile is delayed by no more than the window, however long that work takes.
 */
#ifndef SLUICE_BACKENDS_WINDOW_H
#define SLUICE_BACKENDS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* How the next wait is to be done. */
enum window_wait {
    WINDOW_NONE,  /* until something has come */
    WINDOW_LEAST, /* until the window closes and something has come: needs Linux 6.12 */
    WINDOW_SLEEP, /* until the window closes, whatever has come */
};

enum window_state {
    /* With the kernel's minimum wait; window_judge() makes all transitions. */
    /* what comes is handled at once until nothing is left; then a window follows */
    WINDOW_DRAINING,
    WINDOW_OPEN,   /* something is left always: windows follow each other */
    WINDOW_TRYING, /* no windows: counts how often the loop sleeps without, for a few wake-ups */
    WINDOW_SPARSE, /* events are too far apart for a window to gather any */

    /* Without: window_judge() makes all transitions. */
    WINDOW_WATCHING,  /* no windows: counts what some would save */
    WINDOW_RESTING,   /* no windows: they would save nothing */
    WINDOW_GATHERING, /* windows: they save wake-ups, as far as is known */
};

typedef struct batch_window {
    uint32_t length; /* microseconds; 0: none */
    enum window_state state;
    bool busy;       /* something came in the last wait that slept, or since */
    bool drained;    /* the last wait was none of a window */
    uint64_t ended;  /* microseconds, monotonic: when the last wait was over */
    uint64_t opened; /* and the last one that slept or brought something */
    uint64_t due;    /* when the last window closed, or closes */
    uint64_t heard;  /* when the last wake-up was that brought something */
    uint32_t turns;  /* DRAINING: in a row without a sleep; else: in this state */
    /* WATCHING, TRYING: wake-ups that brought something; DRAINING, OPEN: windows in a row that
     * brought nothing */
    uint32_t wakes;
    uint32_t cost; /* WATCHING: what they would have been with windows */
    /* WATCHING: the window that would be open, or was last; TRYING: since when */
    uint64_t closes;
    bool filled; /* WATCHING: something came in it */
    /* GATHERING: falls when windows are empty; DRAINING: windows in a row with many
     * events, below 0 for a while after a try */
    int32_t score;
    uint64_t switches; /* WATCHING: of the thread, at the last wait's end */
} batch_window;

/* @minimum: the backend has WINDOW_LEAST. */
void window_init(batch_window *window, uint32_t length, bool minimum);

/* Another length, from the next wait on: not 0 for 0, or 0 for another. What is known about the
 * arrivals stays. */
void window_set_length(batch_window *window, uint32_t length);

/*
 * How to wait next. @ready: something is there already, so that a wait would not sleep. Without
 * WINDOW_LEAST, that is not asked for.
 */
enum window_wait window_plan(const batch_window *window, bool ready);

/* A wait is over. */
void window_end(batch_window *window);

/*
 * That wait is judged by what it was. @slept: nothing was there when it began, and it was to take
 * time. What was sent is no event here: it was done when it was submitted, and is no sign that more
 * comes.
 */
void window_judge(batch_window *window, enum window_wait kind, bool slept, uint32_t events);

/* Microseconds until the window closes, at most @timeout_us where that is not negative. */
int64_t window_left(batch_window *window, int64_t timeout_us);

#endif
