/*
 * Preloaded into a program: what a clock shows is so many microseconds ahead, in whole seconds, as
 * the file says that the test maps too (preload.h). The wall clock, unless SKEW_MONOTONIC is
 * defined: then the one by which programs wait, of which the kernel's own waits know nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include "preload.h"

static int64_t ahead_us(void) {
    return counter ? (int64_t)atomic_load_explicit(counter, memory_order_relaxed) : 0;
}

static int is_skewed(clockid_t clock) {
#ifdef SKEW_MONOTONIC
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
#else
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
#endif
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time) {
    static int (*next)(clockid_t clock, struct timespec * ret_time);
    if (!next)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, ret_time);
    if (result == 0 && is_skewed(clock))
        ret_time->tv_sec += ahead_us() / 1000000;
    return result;
}
