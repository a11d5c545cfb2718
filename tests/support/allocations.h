/*
 * Counts what the thread allocates: the allocator's own names, in the test program's place. For one
 * file of a program. Not under sanitizers, whose allocator it is then.
 */
#ifndef SLUICE_TESTS_SUPPORT_ALLOCATIONS_H
#define SLUICE_TESTS_SUPPORT_ALLOCATIONS_H

#include <errno.h>
#include <stdlib.h>

#include "support/sanitized.h"

/* Volatile: compilers take it for granted that malloc() changes no variable of the program. */
static _Thread_local volatile unsigned long allocations;

#if !defined(SANITIZED) && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 1

/* The library's own names, in this program's place; the work is still glibc's. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    allocations++;
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    allocations++;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    allocations++;
    *ret_memory = __libc_memalign(alignment, size);
    return *ret_memory ? 0 : ENOMEM;
}
#endif

#endif
