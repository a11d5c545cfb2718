#include "daemon/base/cadence.h"

/* Milliseconds. Timestamps that are further apart are a jump, or pictures of a slide show. */
enum { INTERVAL_MOST = 10000 };

void cadence_note(struct cadence *cadence, uint32_t timestamp, uint64_t now) {
    uint32_t step = timestamp - cadence->timestamp;
    /* Several tracks of a kind have the same timestamps. */
    if (cadence->has_begun && step > 0)
        cadence->interval = step <= INTERVAL_MOST ? step : 0;
    if (!cadence->has_begun || now != cadence->first_came || step > INTERVAL_MOST) {
        cadence->first = timestamp;
        cadence->first_came = now;
    }
    cadence->has_begun = true;
    cadence->timestamp = timestamp;
}

uint64_t cadence_next(const struct cadence *cadence, uint64_t now) {
    if (cadence->interval == 0)
        return 0;
    uint64_t next = cadence->first_came + (uint32_t)(cadence->timestamp - cadence->first) + cadence->interval;
    return now > next + cadence->interval ? UINT64_MAX : next;
}
