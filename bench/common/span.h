/* What a stretch of a program's run costs. There is one, which begins and ends once. */
#ifndef BENCH_COMMON_SPAN_H
#define BENCH_COMMON_SPAN_H

#include <stdbool.h>

/* Reads the value of --perf-control, two descriptors as "W,R": perf stat counts during the span
 * only. False: it is no such value. */
bool span_command_perf(const char *descriptors);

void span_begin(void);
void span_end(void);

/* Prints what it has cost, as JSON fields without the braces around them. */
void span_print(void);

#endif
