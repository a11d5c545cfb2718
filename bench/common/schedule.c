#include "common/schedule.h"

#include <stdlib.h>

#include "common/process.h"

void schedule_make(schedule *made, uint64_t events) {
    *made = (schedule){0};
    if (events > SCHEDULE_MOST)
        fail(2, "more than %d packets of all streams together", SCHEDULE_MOST);
    made->events = malloc((events + 1) * sizeof *made->events);
    if (!made->events)
        fail(EXIT_FAILURE, "no memory for the times of so many packets");
}

void schedule_add(schedule *to, uint32_t stream, const uint64_t *due_ns, size_t count) {
    for (size_t i = 0; i < count; i++)
        to->events[to->count++] = (schedule_event){due_ns[i], stream};
}

static int compare(const void *left, const void *right) {
    const schedule_event *a = left, *b = right;
    if (a->due_ns != b->due_ns)
        return a->due_ns < b->due_ns ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

void schedule_sort(schedule *of) {
    qsort(of->events, of->count, sizeof *of->events, compare);
}
