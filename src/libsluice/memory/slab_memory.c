#include "memory/slab_memory.h"

#include <sys/mman.h>

static void *map(size_t size, int flags) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

uint8_t *slab_memory_map(size_t size, bool huge, bool *ret_huge) {
    void *memory = huge && size % SLAB_HUGE_PAGE == 0 ? map(size, MAP_HUGETLB) : MAP_FAILED;
    *ret_huge = memory != MAP_FAILED;
    if (memory == MAP_FAILED)
        memory = map(size, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void slab_memory_unmap(uint8_t *memory, size_t size) {
    munmap(memory, size);
}

void slab_memory_advise(uint8_t *memory, size_t size, bool huge) {
    (void)madvise(memory, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}
