/* How long something has taken, counted in ranges, as a histogram of Prometheus. One thread. */
#ifndef SLUICED_LATENCY_H
#define SLUICED_LATENCY_H

#include <stddef.h>
#include <stdint.h>

enum { LATENCY_BOUNDS = 12 };

/* All zero at the beginning. */
struct latency {
    uint64_t counts[LATENCY_BOUNDS + 1]; /* in each range alone; the last one has no upper bound */
    uint64_t count, sum_ns;
};

void latency_add(struct latency *latency, uint64_t ns);

/* The upper bound of a range, which belongs to it; seconds. @range: below LATENCY_BOUNDS */
double latency_bound(size_t range);

#endif
