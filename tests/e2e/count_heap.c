/*
 * Preloaded into the daemon: counts the bytes of heap memory that it has, in blocks as malloc(3)
 * makes them. It stands before malloc and its relatives, and calls glibc's own.
 */
#include <errno.h>
#include <malloc.h>

#include "preload.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static void *taken(void *memory) {
    if (memory)
        count(malloc_usable_size(memory));
    return memory;
}

static void given_back(void *memory) {
    if (memory)
        count(-(uint64_t)malloc_usable_size(memory));
}

void *malloc(size_t size) {
    return taken(__libc_malloc(size));
}

void *calloc(size_t members, size_t size) {
    return taken(__libc_calloc(members, size));
}

void *realloc(void *memory, size_t size) {
    size_t before = memory ? malloc_usable_size(memory) : 0;
    void *moved = __libc_realloc(memory, size);
    if (moved || size == 0)
        count(-(uint64_t)before);
    return taken(moved);
}

void *memalign(size_t alignment, size_t size) {
    return taken(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
    return taken(__libc_memalign(alignment, size));
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    void *memory = taken(__libc_memalign(alignment, size));
    if (!memory)
        return ENOMEM;
    *ret_memory = memory;
    return 0;
}

void free(void *memory) {
    given_back(memory);
    __libc_free(memory);
}
