/*
 * The simulated world: a clock that stands still unless it is moved, events in the order of their
 * time, chance that follows from a seed, faults, and the trace of what has happened. One world at a
 * time; one thread.
 */
#ifndef SLUICE_TESTS_SIM_WORLD_H
#define SLUICE_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What can go wrong. A seed chooses some of them, and how often each happens. */
enum fault {
    FAULT_SHORT_RECEIVE,   /* fewer bytes than there are */
    FAULT_SHORT_SEND,      /* fewer bytes than there is room for */
    FAULT_LATE,            /* an operation that is ready is worked on later, others before it */
    FAULT_LATE_COMPLETION, /* what is done is told later */
    FAULT_NO_BUFFERS,      /* -ENOBUFS, though there are some */
    FAULT_SPURIOUS_FLAG,   /* an error that says it has a buffer, and names any */
    FAULT_END_WITH_BUFFER, /* the end of a stream takes one */
    FAULT_SHORT_ENTRY,     /* the entry of a buffer is shortened for bytes that do not come */
    FAULT_MULTISHOT_ENDS,  /* bytes, and no more after them */
    FAULT_CANCEL_MISSES,   /* -ENOENT: it had ended, and its completion is on its way */
    FAULT_CANCEL_RUNS,     /* -EALREADY: it is being worked on, and ends by itself */
    FAULT_INTERRUPT,       /* -EINTR */
    FAULT_SUBMIT,          /* -EAGAIN: no memory to submit with */
    FAULT_ACCEPT,          /* -EMFILE, -ECONNABORTED */
    FAULT_POLL,            /* a poll is ready, and there is no room */
    FAULT_MEMORY,          /* malloc() and its kin return NULL */
    FAULT_MAP,             /* mmap() fails */
    FAULT_DISK_SHORT,      /* fewer bytes are written than were given */
    FAULT_DISK_SLOW,       /* seconds */
    FAULT_DISK_ERROR,      /* -EIO */
    FAULT_DISK_FULL,       /* -ENOSPC, for a while */
    FAULTS,
};

/* What repeats a seed, with "--seed" behind it; "tools/simulate" at the beginning. A literal. */
void world_set_command(const char *command);

/* Begins a world. @trace: each event is printed as it happens. */
void world_begin(uint64_t seed, bool trace);
void world_end(void);

uint64_t world_seed(void);
bool world_traces(void);

/* A number that says what has happened, all of it and in order. */
uint64_t world_digest(void);

/* Microseconds since the world began. */
uint64_t world_now(void);

/* Below @below, which is not 0; from least to most; once in @n. */
uint32_t world_random(uint32_t below);
uint32_t world_between(uint32_t least, uint32_t most);
bool world_one_in(uint32_t n);

/* How often it happens, in a thousand; 0 for what this seed has chosen not to have. */
uint32_t world_rate(enum fault fault);
void world_set_rate(enum fault fault, uint32_t rate);

/* Whether it happens now; never while the world is calm, as it is at first. */
bool world_has(enum fault fault);
void world_calm(bool calm);
bool world_is_calm(void);

/* How often it has happened in this world; and what it is called. */
uint64_t world_count(enum fault fault);
const char *world_fault_name(enum fault fault);

/* Calls later. What is due at the same time is called in the order in which it was asked for. */
typedef void world_fn(void *user);
void world_after(uint64_t microseconds, world_fn *call, void *user);

/* Goes to the next event, if it is not after @deadline, and calls it; else to the deadline. False:
 * nothing will be. */
bool world_advance(uint64_t deadline);
void world_pass(uint64_t microseconds);

/* @what is a literal. */
void world_trace(const char *what, int64_t a, int64_t b, int64_t c);

/* Something is as it must not be: says what, the seed, and what happened last; ends the process. */
_Noreturn void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define WORLD_CHECK(condition, ...) ((condition) ? (void)0 : world_fail(__VA_ARGS__))

/* The world's own memory, which is never refused. */
void *world_allocate(size_t size);
void *world_grow(void *memory, size_t size);
void world_append(uint8_t **bytes, size_t *length, size_t *room, const void *more, size_t n);
void world_free(void *memory);

/* Allocations of what is simulated that have not been freed. */
int64_t world_allocations(void);

#endif
