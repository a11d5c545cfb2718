#include "daemon/base/min_rate.h"

uint64_t min_rate_extend(uint64_t deadline, uint64_t now, size_t bytes, uint64_t most_ms) {
    /* Rounded up: many small pieces are no less than one large one. */
    uint64_t earned = (uint64_t)bytes / MIN_RATE * 1000 + ((uint64_t)bytes % MIN_RATE * 1000 + MIN_RATE - 1) / MIN_RATE;
    uint64_t most = now + most_ms;
    return deadline >= most || earned >= most - deadline ? most : deadline + earned;
}
