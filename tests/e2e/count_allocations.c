/*
 * Preloaded into the daemon: counts its heap allocations, in a file that the test maps too.
 *
 * Without sanitizers it stands before malloc(3) and its relatives, and calls glibc's own. A sanitizer's runtime has
 * taken that place already; it calls a hook with each allocation.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *counter;

static void count(void) {
    if (counter)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

__attribute__((constructor)) static void open_counter(void) {
    const char *path = getenv("SLUICE_TEST_ALLOCATIONS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        counter = map;
}

#ifdef COUNT_BY_HOOK

void __sanitizer_malloc_hook(const volatile void *memory, size_t size);

void __sanitizer_malloc_hook(const volatile void *memory, size_t size) {
    (void)memory;
    (void)size;
    count();
}

#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size) {
    count();
    return __libc_calloc(members, size);
}

void *realloc(void *memory, size_t size) {
    count();
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    count();
    void *memory = __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *ret_memory = memory;
    return 0;
}

#endif
