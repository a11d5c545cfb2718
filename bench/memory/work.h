/* Work that is measured without sockets, and so by instructions, too, where a machine cannot count
 * them. */
#ifndef BENCH_MEMORY_WORK_H
#define BENCH_MEMORY_WORK_H

#include <stddef.h>
#include <stdint.h>

/* One way to do one kind of work. */
typedef struct bench_work {
    const char *scenario;
    const char *variant;
    /* Does so many operations, or a few more, between work_begin() and work_end(). */
    void (*run)(const struct bench_work *work, uint64_t operations);
    uint32_t least, most; /* of the scenario: bytes of an arrival, or of an operation */
    uint32_t keep;        /* of the scenario: packets that each stream holds */
} bench_work;

/* Tables of work, each ended by one without a name. */
extern const bench_work packet_work[];
extern const bench_work file_work[];
extern const bench_work text_work[];

/*
 * What is measured begins, and ends.
 * @param operations what was done, at least what was asked for
 * @param checksum by which variants of a scenario are seen to do the same
 */
void work_begin(void);
void work_end(uint64_t operations, uint64_t bytes, uint64_t checksum);

/* Ends the process for a negative errno. @return the result */
int work_check(const char *what, int result);

/* An allocation that cannot fail. */
void *work_allocate(size_t size);

#endif
