/*
 * Preloaded into the daemon: counts its heap allocations.
 *
 * Without sanitizers it stands before malloc(3) and its relatives, and calls glibc's own. A
 * sanitizer's runtime has taken that place already; it calls a hook with each allocation.
 */
#include <errno.h>

#include "preload.h"

#ifdef COUNT_BY_HOOK

void __sanitizer_malloc_hook(const volatile void *memory, size_t size);

void __sanitizer_malloc_hook(const volatile void *memory, size_t size) {
    (void)memory;
    (void)size;
    count(1);
}

#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    count(1);
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size) {
    count(1);
    return __libc_calloc(members, size);
}

void *realloc(void *memory, size_t size) {
    count(1);
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
    count(1);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count(1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    count(1);
    void *memory = __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *ret_memory = memory;
    return 0;
}

#endif
