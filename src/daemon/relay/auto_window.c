#include "daemon/relay/auto_window.h"

enum {
    PERIOD_MS = 100, /* between measurements, and twice the window: its sends come in bursts */
    /* Fewer frames a second, for each player, are not what the core is busy with: about a hundredth
     * of it. That is a dozen players. */
    FRAMES_OPEN = 1000,
    FRAMES_CLOSE = 800,
};

/* Of a measurement in the smoothed load: of one that has taken PERIOD_MS, and of longer ones, which
 * have seen more, the most. */
static const double WEIGHT = 0.25, MOST_WEIGHT = 0.6;

/* A window opens at the one and closes at the other. It saves at most two thirds of the load, so it
 * does not close itself. */
static const double OPEN_LOAD = 0.12, CLOSE_LOAD = 0.035;

/* Whatever the load, the thread's own part of it must be worth saving: where others have the core,
 * it is late anyway, and a window of its own would not help. Parts of what it may use of a core. */
static const double OPEN_OWN = 0.04, CLOSE_OWN = 0.012, GROW_OWN = 0.25;

/* Of a core, what a frame a second costs each player, at most: 7 us were measured. The rest is
 * other work of the thread, such as handshakes, which a longer window does not save. */
static const double FRAME_COST = 20e-6;

/* What surrounds a handshake, from accepting the connection to closing it, costs as much again. */
enum { OTHER_FACTOR = 2 };

/*
 * Above the one it grows, below the other it shrinks, in either case towards the load between. It
 * takes some measurements for a change to show in the load; so it takes several steps.
 */
static const double GROW_LOAD = 0.85, SHRINK_LOAD = 0.70, AIM_LOAD = 0.78;
static const double STEP = 0.3;

/* More than this is no load: clocks of different ticks, at most. */
static const double MOST_LOAD = 1.5;

/* Of a core that is full, whatever it would need: its queues grow meanwhile. */
static const double FULL_LOAD = 0.97, FULL_FACTOR = 2, LEAST_FACTOR = 0.6;

static double next_window(const struct auto_window *window, double load, double frames) {
    double factor = 1 + STEP * (window->busy - AIM_LOAD) / AIM_LOAD;
    const double share = window->share > 0 && window->share < 1 ? window->share : 1, own = window->own / share;
    if (window->wanted_ms == 0)
        return window->busy >= OPEN_LOAD && own >= OPEN_OWN && frames >= FRAMES_OPEN ? AUTO_WINDOW_FIRST : 0;
    if (window->busy < CLOSE_LOAD || own < CLOSE_OWN || frames < FRAMES_CLOSE)
        return 0;
    if (window->busy > GROW_LOAD && (own < GROW_OWN || frames * FRAME_COST < GROW_OWN * share))
        factor = 1;
    else if (load >= FULL_LOAD && window->busy >= GROW_LOAD)
        factor = FULL_FACTOR;
    else if (window->busy <= GROW_LOAD && window->busy >= SHRINK_LOAD)
        factor = 1;
    else if (factor < LEAST_FACTOR)
        factor = LEAST_FACTOR;
    double wanted = window->wanted_ms * factor;
    /* A limit below the first window is no load's matter. */
    double most = window->most_ms > AUTO_WINDOW_FIRST ? window->most_ms : AUTO_WINDOW_FIRST;
    return wanted < AUTO_WINDOW_FIRST ? AUTO_WINDOW_FIRST : wanted < most ? wanted : most;
}

void auto_window_limit(struct auto_window *window, uint32_t most_ms) {
    window->most_ms = most_ms;
    window->window_ms = window->wanted_ms < most_ms ? (uint32_t)window->wanted_ms : most_ms;
}

bool auto_window_is_due(const struct auto_window *window, uint64_t now) {
    return !window->has_begun || now >= window->noted_at + PERIOD_MS + 2 * (uint64_t)window->window_ms;
}

static double part(uint64_t us, double ms) {
    return (double)us / 1000 / ms;
}

/* Of the time in which the thread ran, the part that was not other work. */
static double own_part(const struct auto_window *window, double ran, double ms) {
    double other = OTHER_FACTOR * part(window->other_us - window->other_then, ms);
    return other < ran ? 1 - other / ran : other > 0 ? 0 : 1;
}

static double weight_of(double ms) {
    double weight = WEIGHT * ms / PERIOD_MS;
    return weight < MOST_WEIGHT ? weight : MOST_WEIGHT;
}

static void smooth(double *value, double measured, double weight) {
    *value += (measured - *value) * weight;
}

static void measure(struct auto_window *window, double ms, struct thread_time time) {
    double ran = part(time.ran_us - window->time.ran_us, ms);
    double waited = part(time.waited_us - window->time.waited_us, ms);
    /* A reading without the time in the run queue, or the first one with it again. */
    if (time.waited_us < window->time.waited_us || ran + waited > MOST_LOAD)
        waited = window->load - window->ran;
    double load = ran + waited < 1 ? ran + waited : 1, own = own_part(window, ran, ms);
    double weight = weight_of(ms);
    smooth(&window->load, load, weight);
    smooth(&window->ran, ran, weight);
    smooth(&window->busy, load * own, weight);
    smooth(&window->own, ran * own, weight);
    window->wanted_ms = next_window(window, load * own, (double)(window->frames - window->frames_then) * 1000 / ms);
    auto_window_limit(window, window->most_ms);
}

void auto_window_note(struct auto_window *window, uint64_t now, struct thread_time time) {
    if (window->has_begun && now > window->noted_at)
        measure(window, (double)(now - window->noted_at), time);
    window->has_begun = true;
    window->noted_at = now;
    window->time = time;
    window->frames_then = window->frames;
    window->other_then = window->other_us;
}

void auto_window_measure(struct auto_window *window, uint64_t now) {
    if (auto_window_is_due(window, now))
        auto_window_note(window, now, thread_time_now());
}
