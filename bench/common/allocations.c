/*
 * Stands before malloc(3) and its relatives and counts. The receivers have one thread, so a plain
 * counter does: it costs a nanosecond at most, and only those who allocate, which takes many times
 * as long.
 */
#include "common/allocations.h"

#include <errno.h>
#include <stddef.h>

static uint64_t count;

uint64_t allocations(void) {
    return count;
}

#ifndef BENCH_SANITIZED

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t members, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Seen by the shared libraries too. */
#pragma GCC visibility push(default)

void *malloc(size_t size);
void *calloc(size_t members, size_t size);
void *realloc(void *memory, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **ret_memory, size_t alignment, size_t size);

void *malloc(size_t size) {
    count++;
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size) {
    count++;
    return __libc_calloc(members, size);
}

void *realloc(void *memory, size_t size) {
    count++;
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count++;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    count++;
    void *memory = __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *ret_memory = memory;
    return 0;
}

#pragma GCC visibility pop

#endif
