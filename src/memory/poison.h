/* Under AddressSanitizer, memory that the pool or the kernel owns traps when it is touched; otherwise nothing. */
#ifndef SLUICE_MEMORY_POISON_H
#define SLUICE_MEMORY_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_POISONS 1
#endif
#endif

#ifdef SLUICE_POISONS
#include <sanitizer/asan_interface.h>
static inline void poison_memory(const void *memory, size_t size) {
    __asan_poison_memory_region(memory, size);
}
static inline void unpoison_memory(const void *memory, size_t size) {
    __asan_unpoison_memory_region(memory, size);
}
#else
static inline void poison_memory(const void *memory, size_t size) {
    (void)memory;
    (void)size;
}
static inline void unpoison_memory(const void *memory, size_t size) {
    (void)memory;
    (void)size;
}
#endif

#endif
