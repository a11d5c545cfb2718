/* Timers in a binary heap, each with its place in it: starting and stopping cost O(log n), a turn
 * looks at one. */
#include <errno.h>
#include <stdlib.h>

#include "loop/loop.h"

#define NOT_RUNNING SIZE_MAX

struct sluice_timer {
    sluice_loop *loop;
    sluice_timer_fn *call;
    void *user;
    uint64_t due;
    size_t place; /* in the heap, or NOT_RUNNING */
};

static void put(timer_heap *heap, size_t place, sluice_timer *timer) {
    heap->timers[place] = timer;
    timer->place = place;
}

static void sift_up(timer_heap *heap, size_t place, sluice_timer *timer) {
    while (place > 0) {
        size_t parent = (place - 1) / 2;
        if (heap->timers[parent]->due <= timer->due)
            break;
        put(heap, place, heap->timers[parent]);
        place = parent;
    }
    put(heap, place, timer);
}

static void sift_down(timer_heap *heap, size_t place, sluice_timer *timer) {
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->timers[child + 1]->due < heap->timers[child]->due)
            child++;
        if (timer->due <= heap->timers[child]->due)
            break;
        put(heap, place, heap->timers[child]);
        place = child;
    }
    put(heap, place, timer);
}

int sluice_timer_new(sluice_loop *loop, sluice_timer_fn *call, void *user, sluice_timer **ret_timer) {
    timer_heap *heap = &loop->timers;
    /* Room for every timer that exists, so that starting one cannot fail. */
    if (heap->existing == heap->capacity) {
        size_t capacity = heap->capacity ? 2 * heap->capacity : 16;
        sluice_timer **timers = realloc(heap->timers, capacity * sizeof(sluice_timer *));
        if (!timers)
            return -ENOMEM;
        heap->timers = timers;
        heap->capacity = capacity;
    }
    sluice_timer *timer = malloc(sizeof *timer);
    if (!timer)
        return -ENOMEM;
    *timer = (sluice_timer){.loop = loop, .call = call, .user = user, .place = NOT_RUNNING};
    heap->existing++;
    *ret_timer = timer;
    return 0;
}

void sluice_timer_stop(sluice_timer *timer) {
    timer_heap *heap = &timer->loop->timers;
    size_t place = timer->place;
    if (place == NOT_RUNNING)
        return;
    timer->place = NOT_RUNNING;
    sluice_timer *last = heap->timers[--heap->count];
    if (last == timer)
        return;
    if (place > 0 && last->due < heap->timers[(place - 1) / 2]->due)
        sift_up(heap, place, last);
    else
        sift_down(heap, place, last);
}

void sluice_timer_start(sluice_timer *timer, uint64_t ms) {
    timer_heap *heap = &timer->loop->timers;
    uint64_t now = loop_clock();
    sluice_timer_stop(timer);
    /* The clock may be up to a millisecond ahead of what it shows: one more, so that it is never
     * early. */
    timer->due = ms < UINT64_MAX - now - 1 ? now + ms + 1 : UINT64_MAX;
    sift_up(heap, heap->count++, timer);
    if (heap->timers[0] == timer)
        loop_touched(timer->loop);
}

void *sluice_timer_user(const sluice_timer *timer) {
    return timer->user;
}

void sluice_timer_free(sluice_timer *timer) {
    if (!timer)
        return;
    sluice_timer_stop(timer);
    timer->loop->timers.existing--;
    free(timer);
}

bool timer_is_running(const sluice_timer *timer) {
    return timer->place != NOT_RUNNING;
}

int64_t timers_wait_ms(const sluice_loop *loop, uint64_t now) {
    if (loop->timers.count == 0)
        return -1;
    uint64_t due = loop->timers.timers[0]->due;
    if (due <= now)
        return 0;
    uint64_t wait = due - now;
    return wait < INT32_MAX ? (int64_t)wait : INT32_MAX;
}

void timers_run(sluice_loop *loop) {
    /* Those that are due now, but not the ones that a call starts anew: `now` stands still
     * meanwhile. */
    while (loop->timers.count > 0 && loop->timers.timers[0]->due <= loop->now) {
        sluice_timer *timer = loop->timers.timers[0];
        sluice_timer_stop(timer);
        loop->again = true;
        timer->call(timer, timer->user);
    }
}

void timers_discard(sluice_loop *loop) {
    free(loop->timers.timers);
}
