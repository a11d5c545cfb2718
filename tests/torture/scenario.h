/* What the library is tortured with: pieces of work that bear every failure and give back all that
 * they took. */
#ifndef SLUICE_TESTS_TORTURE_SCENARIO_H
#define SLUICE_TESTS_TORTURE_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

/* One run of a scenario. */
typedef struct torture {
    sluice_backend_choice backend;
    const char *folder; /* for files of its own */
    uint64_t digest;    /* of what came out */
    bool patient;       /* what fails does so once: what is waited for has to come */
} torture;

/* 0, or the error that ended it. What it shows is the same in every run that ends with 0. */
typedef int scenario_fn(torture *t);

typedef struct scenario {
    const char *name;
    scenario_fn *run;
    bool uses_loop; /* on both backends; without one there are no system calls */
} scenario;

/* each ends with one without a name */
extern const scenario scenarios_of_memory[], scenarios_of_loop[];

/* Ends the process with a message: a promise that was not kept. */
#define TORTURE_CHECK(condition)                                                                                       \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            torture_broken(#condition, __FILE__, __LINE__);                                                            \
    } while (0)
_Noreturn void torture_broken(const char *text, const char *file, int line);

void torture_show(torture *t, const void *bytes, size_t n);
void torture_show_slice(torture *t, const sluice_slice *slice);

/* A pool of few and small blocks. */
int torture_pool(sluice_pool **ret_pool);

/* Frees the pool: everything must be back. */
void torture_pool_done(sluice_pool *pool);

/* Copies bytes into blocks of the pool, at most @piece in each, and appends them. */
int torture_feed(sluice_pool *pool, sluice_chain *chain, const void *bytes, size_t n, size_t piece);

/* A file's bytes, from malloc(). */
uint8_t *torture_read_file(const char *path, size_t *ret_size);

#endif
