#include "daemon/base/latency.h"

/* Microseconds. A lookup in a healthy cluster takes well below a millisecond. */
static const uint32_t bounds_us[LATENCY_BOUNDS] = {100,   250,   500,    1000,   2000,    5000,
                                                   10000, 25000, 100000, 250000, 1000000, 5000000};

void latency_add(struct latency *latency, uint64_t ns) {
    size_t range = 0;
    while (range < LATENCY_BOUNDS && ns > (uint64_t)bounds_us[range] * 1000)
        range++;
    latency->counts[range]++;
    latency->count++;
    latency->sum_ns += ns;
}

double latency_bound(size_t range) {
    return (double)bounds_us[range] / 1e6;
}
