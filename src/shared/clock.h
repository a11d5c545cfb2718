/* Monotonic time (CLOCK_MONOTONIC), for deadlines and intervals. */
#ifndef SHARED_CLOCK_H
#define SHARED_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ms(void) {
    return clock_ns() / 1000000;
}

#endif
