#include "common/arrivals.h"

#include <math.h>
#include <string.h>

#include "common/content.h"
#include "common/process.h"

enum { TICK_NS = 5000000, MEAN_LATE_NS = 15000000 /* as long as a stream of 68 frames a second has none */ };

/* A number from 0 to below 1. */
static double random_share(uint64_t *state) {
    return (double)(content_random(state) >> 11) * 0x1p-53;
}

static uint64_t seed_of(enum arrivals how, uint32_t stream) {
    return (uint64_t)how << 32 | stream;
}

enum arrivals read_arrivals(const char *option, const char *name) {
    static const char *const names[] = {
        [ARRIVALS_EVEN] = "even",       [ARRIVALS_TOGETHER] = "together", [ARRIVALS_INDEPENDENT] = "independent",
        [ARRIVALS_POISSON] = "poisson", [ARRIVALS_TICKS] = "ticks",
    };
    for (enum arrivals how = ARRIVALS_EVEN; how <= ARRIVALS_TICKS; how++)
        if (strcmp(name, names[how]) == 0)
            return how;
    fail(2, "%s: '%s' is none of " ARRIVALS_NAMES, option, name);
}

uint64_t arrivals_phase_ns(enum arrivals how, uint32_t stream, uint32_t streams, uint64_t period_ns) {
    uint64_t state = seed_of(ARRIVALS_INDEPENDENT, stream);
    if (how == ARRIVALS_TOGETHER)
        return 0;
    return how == ARRIVALS_EVEN ? period_ns * stream / streams : (uint64_t)((double)period_ns * random_share(&state));
}

/* Frames keep their order: one that is late delays those behind it. */
static void be_late(uint32_t stream, uint64_t *due_ns, size_t count) {
    uint64_t state = seed_of(ARRIVALS_POISSON, stream), before = 0;
    for (size_t i = 0; i < count; i++) {
        due_ns[i] += (uint64_t)(-log(1 - random_share(&state)) * MEAN_LATE_NS);
        if (due_ns[i] < before)
            due_ns[i] = before;
        before = due_ns[i];
    }
}

void arrivals_send(enum arrivals how, uint32_t stream, uint64_t *due_ns, size_t count) {
    if (how == ARRIVALS_POISSON)
        be_late(stream, due_ns, count);
    for (size_t i = 0; how == ARRIVALS_TICKS && i < count; i++)
        due_ns[i] = (due_ns[i] + TICK_NS - 1) / TICK_NS * TICK_NS;
}
