/* The frames of many streams in the order in which they are sent. */
#ifndef BENCH_COMMON_SCHEDULE_H
#define BENCH_COMMON_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

/* The next frame of a stream. */
typedef struct schedule_event {
    uint64_t due_ns; /* since the beginning */
    uint32_t stream;
} schedule_event;

typedef struct schedule {
    schedule_event *events;
    size_t count;
} schedule;

enum { SCHEDULE_MOST = 100 * 1000 * 1000 };

/* For so many frames of all streams together, at most SCHEDULE_MOST; ends the process otherwise. */
void schedule_make(schedule *made, uint64_t events);

/* All frames of a stream, in ascending order. */
void schedule_add(schedule *to, uint32_t stream, const uint64_t *due_ns, size_t count);

/* After the last stream. */
void schedule_sort(schedule *of);

#endif
