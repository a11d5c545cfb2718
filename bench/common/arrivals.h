/* When the frames of many streams are sent: how streams relate to each other, and how exact a
 * sender is. A seed determines all of it. */
#ifndef BENCH_COMMON_ARRIVALS_H
#define BENCH_COMMON_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

enum arrivals {
    ARRIVALS_EVEN,        /* streams are spread evenly over a period */
    ARRIVALS_TOGETHER,    /* all begin a period at the same time */
    ARRIVALS_INDEPENDENT, /* each stream has a phase of its own, at random */
    /* the same, and each frame is late by a random time, exponentially distributed */
    ARRIVALS_POISSON,
    /* independent streams whose senders wake up every 5 ms, all at the same time */
    ARRIVALS_TICKS,
};

#define ARRIVALS_NAMES "even|together|independent|poisson|ticks"

/* By its name on the command line; ends the process if there is no such. */
enum arrivals read_arrivals(const char *option, const char *name);

/* How much later than at 0 a stream begins its period, nanoseconds. */
uint64_t arrivals_phase_ns(enum arrivals how, uint32_t stream, uint32_t streams, uint64_t period_ns);

/* Makes the times at which a stream's frames exist, in ascending order, the times at which they are
 * sent. */
void arrivals_send(enum arrivals how, uint32_t stream, uint64_t *due_ns, size_t count);

#endif
