/*
 * Wake-ups are what a window saves: those of a loop that sleeps, is woken by an event, handles it,
 * and sleeps again. A window that brings nothing costs one.
 *
 * With the kernel's minimum wait there are no such: a wait lasts until the window is over and
 * something has come. So a window may follow every wake-up, and each sleep ends with something. It
 * remains that no sleep begins while something is there which the loop would have handled without
 * sleeping: all is handled before a window. Whenever the loop falls asleep then, nothing is left;
 * so it would be asleep without windows as well (what is handled later is never done sooner), and
 * be woken by what comes next.
 *
 * Without it (epoll, older kernels) a window is a sleep. Whether windows save more of those than
 * they add follows from when the loop is woken without windows. That is watched for a few wake-ups,
 * and again from time to time; that the loop has slept is known from the thread's voluntary
 * switches, since a time says nothing on a busy machine. Windows end when too many of them are
 * empty. So a change of the pattern costs a few wake-ups before it is noticed.
 *
 * A loop that does not fall asleep for many turns has no wake-ups to save, and one that sleeps more
 * often than a window is long saves some with each. Windows then follow each other: they make turns
 * fewer and larger, and give the first one its sleep again. Where much comes in each window, how
 * often it sleeps without is tried for a few wake-ups.
 */
#include "backends/window.h"

#include <sys/resource.h>

#include "memory/clock.h"

enum {
    LOOKS = 512,    /* turns in a row without a sleep: the core is full */
    EMPTY = 2,      /* windows in a row in which nothing has come: there are no others */
    MANY = 8,       /* events at once do not come behind an empty window: the thread was late */
    FILLED = 16,    /* windows in a row with so many, before a try without */
    TRIED = 512,    /* the same, before another */
    WATCHED = 32,   /* wake-ups, for a decision */
    RESTS = 512,    /* turns, before another */
    GATHERS = 2048, /* windows, before another */
    FULL = 16384,   /* windows of a full core, before a look whether it still is */

    /* Of the windows a third may be empty: with arrivals by chance they then save nothing. */
    FILLED_SCORE = 1,
    EMPTY_SCORE = -2,
    MOST_SCORE = 8,
    LEAST_SCORE = -8,
};

static uint64_t window_clock(void) {
    return clock_ns() / 1000;
}

/* How often the thread has slept. */
static uint64_t voluntary_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}

static void watch(batch_window *window) {
    window->state = WINDOW_WATCHING;
    window->turns = window->wakes = window->cost = 0;
    window->closes = 0;
    window->filled = false;
    window->switches = voluntary_switches();
}

static void drain(batch_window *window) {
    window->state = WINDOW_DRAINING;
    window->turns = window->wakes = 0;
    window->score = 0;
}

static void try_without(batch_window *window) {
    window->state = WINDOW_TRYING;
    window->turns = window->wakes = 0;
    window->closes = window->opened;
}

static void open_all(batch_window *window) {
    window->state = WINDOW_OPEN;
    window->turns = window->wakes = 0;
}

void window_init(batch_window *window, uint32_t length, bool minimum) {
    *window = (batch_window){.length = length, .state = minimum ? WINDOW_DRAINING : WINDOW_WATCHING};
}

void window_set_length(batch_window *window, uint32_t length) {
    window->length = length;
}

enum window_wait window_plan(const batch_window *window, bool ready) {
    if (window->length == 0 || !window->busy)
        return WINDOW_NONE;
    switch (window->state) {
    case WINDOW_DRAINING:
        return ready ? WINDOW_NONE : WINDOW_LEAST;
    case WINDOW_OPEN:
        /* What a window has left does not wait for the next one's end. */
        return ready && !window->drained ? WINDOW_NONE : WINDOW_LEAST;
    case WINDOW_GATHERING:
        return WINDOW_SLEEP;
    case WINDOW_SPARSE:
    case WINDOW_TRYING:
    case WINDOW_WATCHING:
    case WINDOW_RESTING:
        break;
    }
    return WINDOW_NONE;
}

void window_end(batch_window *window) {
    if (window->length > 0)
        window->ended = window_clock();
}

/*
 * A wait that went on for longer than @spare when the window closed has found it empty, and was
 * woken by what came first then. Where the thread shares its core, it may be late for another
 * reason: then many events are there.
 */
static void count_empty(batch_window *window, enum window_wait kind, uint32_t spare, uint32_t events) {
    bool late = kind != WINDOW_NONE && window->opened > window->due + spare && events < MANY;
    window->wakes = late ? window->wakes + 1 : 0;
}

/* A wake-up without a window. */
static void judge_tried(batch_window *window, bool slept) {
    window->wakes += slept;
    if (window->wakes < WATCHED && window->turns < LOOKS)
        return;
    if (window->turns >= LOOKS || window->opened - window->closes <= (uint64_t)WATCHED * window->length) {
        open_all(window);
    } else {
        drain(window);
        window->score = FILLED - TRIED;
    }
}

/* Of a wait that brought something. */
static void judge_least(batch_window *window, enum window_wait kind, bool slept, uint32_t events) {
    window->turns++;
    switch (window->state) {
    case WINDOW_OPEN:
        /* On a full core the kernel receives what was gathered before the wait ends. */
        count_empty(window, kind, window->length, events);
        if (window->wakes == EMPTY || window->turns >= FULL)
            drain(window);
        break;
    case WINDOW_TRYING:
        judge_tried(window, slept);
        break;
    case WINDOW_SPARSE:
        if (slept && window->opened - window->heard < window->length)
            drain(window);
        break;
    default:
        if (!slept) {
            if (window->turns >= LOOKS)
                open_all(window);
            break;
        }
        window->turns = 0;
        count_empty(window, kind, window->length / 4, events);
        if (kind == WINDOW_NONE || events < MANY)
            window->score = window->score < 0 ? window->score + 1 : 0;
        else
            window->score++;
        if (window->wakes == EMPTY)
            window->state = WINDOW_SPARSE;
        else if (window->score >= FILLED)
            try_without(window);
    }
    if (slept)
        window->heard = window->opened;
}

/*
 * A wake-up without windows, and what it would have been with them: one more for the window that
 * follows it; none if it fell into a window; and a window that something falls into is followed by
 * another one.
 */
static void watch_wake(batch_window *window) {
    window->wakes++;
    if (window->filled && window->opened >= window->closes) {
        window->closes += window->length;
        window->cost++;
        window->filled = false;
    }
    if (window->opened < window->closes) {
        window->filled = true;
        return;
    }
    window->cost += 2;
    window->closes = window->opened + window->length;
}

static void judge_watched(batch_window *window, uint32_t events) {
    uint64_t switches = voluntary_switches();
    bool slept = switches != window->switches;
    window->switches = switches;
    if (events == 0)
        return;
    window->turns++;
    if (slept)
        watch_wake(window);
    if (window->wakes < WATCHED && window->turns < LOOKS)
        return;
    /* Less than an eighth is not worth the delay. */
    bool saves = window->wakes == 0 || 8 * window->cost <= 7 * window->wakes;
    window->state = saves ? WINDOW_GATHERING : WINDOW_RESTING;
    window->turns = 0;
    window->score = 0;
}

static void judge_gathered(batch_window *window, uint32_t events) {
    window->turns++;
    window->score += events > 0 ? FILLED_SCORE : EMPTY_SCORE;
    if (window->score > MOST_SCORE)
        window->score = MOST_SCORE;
    if (window->score < LEAST_SCORE || window->turns == GATHERS)
        watch(window);
}

void window_judge(batch_window *window, enum window_wait kind, bool slept, uint32_t events) {
    /* It has told of sends at most, and the next wait is for what this one was for. */
    if (events == 0 && !slept)
        return;
    window->busy = events > 0;
    window->drained = kind == WINDOW_NONE;
    if (window->length == 0)
        return;
    window->opened = window->ended;
    switch (window->state) {
    case WINDOW_DRAINING:
    case WINDOW_OPEN:
    case WINDOW_TRYING:
    case WINDOW_SPARSE:
        if (events > 0)
            judge_least(window, kind, slept, events);
        break;
    case WINDOW_WATCHING:
        judge_watched(window, events);
        break;
    case WINDOW_RESTING:
        if (++window->turns == RESTS)
            watch(window);
        break;
    case WINDOW_GATHERING:
        if (kind == WINDOW_SLEEP)
            judge_gathered(window, events);
        break;
    }
}

int64_t window_left(batch_window *window, int64_t timeout_us) {
    uint64_t now = window_clock(), open = now - window->opened;
    int64_t left = open < window->length ? (int64_t)(window->length - open) : 0;
    window->due = now + (uint64_t)left;
    return timeout_us < 0 || timeout_us > left ? left : timeout_us;
}
