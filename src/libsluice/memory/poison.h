/*
 * Annotations for memory checkers. Under AddressSanitizer and Valgrind, memory that the pool or the
 * kernel owns traps when it is touched. Under Valgrind and MemorySanitizer, a newly taken block is
 * uninitialized; bytes written by io_uring, which these tools cannot see, are marked initialized.
 * Without a checker these do nothing.
 */
#ifndef SLUICE_MEMORY_POISON_H
#define SLUICE_MEMORY_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_POISONS 1
#elif __has_feature(memory_sanitizer)
#define SLUICE_KNOWS_WRITTEN 1
#endif
#endif

#if defined(SLUICE_POISONS)
#include <sanitizer/asan_interface.h>
#define TELL_POISONED(memory, size) __asan_poison_memory_region((memory), (size))
#define TELL_UNPOISONED(memory, size) __asan_unpoison_memory_region((memory), (size))
#define TELL_EMPTY(memory, size) __asan_unpoison_memory_region((memory), (size))
#elif defined(SLUICE_KNOWS_WRITTEN)
#include <sanitizer/msan_interface.h>
#define TELL_EMPTY(memory, size) __msan_allocated_memory((memory), (size))
#define TELL_WRITTEN(memory, size) __msan_unpoison((memory), (size))
#elif defined(SLUICE_VALGRIND)
#include <valgrind/memcheck.h>
#define SLUICE_KNOWS_WRITTEN 1
#define TELL_POISONED(memory, size) VALGRIND_MAKE_MEM_NOACCESS((memory), (size))
#define TELL_UNPOISONED(memory, size) VALGRIND_MAKE_MEM_DEFINED((memory), (size))
#define TELL_EMPTY(memory, size) VALGRIND_MAKE_MEM_UNDEFINED((memory), (size))
#define TELL_WRITTEN(memory, size) VALGRIND_MAKE_MEM_DEFINED((memory), (size))
#endif

#define TELL_NOTHING(memory, size) ((void)(memory), (void)(size))
#ifndef TELL_POISONED
#define TELL_POISONED TELL_NOTHING
#define TELL_UNPOISONED TELL_NOTHING
#endif
#ifndef TELL_EMPTY
#define TELL_EMPTY TELL_NOTHING
#endif
#ifndef TELL_WRITTEN
#define TELL_WRITTEN TELL_NOTHING
#endif

/* Marks memory as inaccessible. */
static inline void poison_memory(const void *memory, size_t size) {
    (void)TELL_POISONED(memory, size);
}

/* It holds again what it held. */
static inline void unpoison_memory(const void *memory, size_t size) {
    (void)TELL_UNPOISONED(memory, size);
}

/* Marks memory as accessible but uninitialized. */
static inline void empty_memory(const void *memory, size_t size) {
    (void)TELL_EMPTY(memory, size);
}

/* The kernel has written it, where that is not seen. */
static inline void note_written(const void *memory, size_t size) {
    (void)TELL_WRITTEN(memory, size);
}

#endif
