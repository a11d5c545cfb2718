/* What the benchmark programs ask of their own process. */
#ifndef BENCH_COMMON_PROCESS_H
#define BENCH_COMMON_PROCESS_H

#include <stdint.h>

enum {
    EXIT_REFUSED = 77, /* exit status: this machine does not allow what the run needs */
};

/* Says why, as printf does, and ends the process. */
_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The value of an option; ends the process when it is no number from least to most. */
uint64_t parse_number(const char *option, const char *text, uint64_t least, uint64_t most);

/* Stays on one processor from now on; a negative number leaves it to the kernel. */
void pin_to_cpu(int cpu);

/* Sees to it that so many descriptors can be open; ends the process where that is not allowed. */
void allow_descriptors(uint64_t count);

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t now_ns(void);

/* The most memory that was resident at once. getrusage(2) would count what was before exec(2),
 * too. */
uint64_t peak_resident_kib(void);

#endif
