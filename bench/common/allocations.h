/* How often the process has called the allocator: its own code, the library's, and libevent's. */
#ifndef BENCH_COMMON_ALLOCATIONS_H
#define BENCH_COMMON_ALLOCATIONS_H

#include <stdint.h>

/* Calls of malloc(3) and its relatives so far; always 0 in a sanitized build, where the sanitizer
 * has their place. */
uint64_t allocations(void);

#endif
