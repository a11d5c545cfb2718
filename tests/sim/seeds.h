/*
 * Seeds that are played one after another, in a process of their own: one that fails ends it, and
 * another process goes on with the next one.
 */
#ifndef SLUICE_TESTS_SIM_SEEDS_H
#define SLUICE_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seeds {
    uint64_t first, count;
    bool trace, digests; /* --verbose, --digest */
};

/* What the process that plays and its parent share. A simulation's own counts are behind it. */
struct seeds_state {
    uint64_t seed; /* being played */
    uint64_t digest;
};

/* --seeds N, --seed S, --verbose and --digest; what is not given stays. False: anything else */
bool seeds_parse(struct seeds *seeds, int argc, char **argv);

/* All zero, of so many bytes; a struct seeds_state is first in it. NULL: there is none. */
void *seeds_share(size_t size);

/*
 * Plays them all; @play gives a seed's digest. How many failed, at most 20; a process that cannot
 * be made is one.
 */
uint64_t seeds_play(const struct seeds *seeds, struct seeds_state *state,
                    uint64_t (*play)(struct seeds_state *state, uint64_t seed, bool trace));

/* The last line. The exit status of the program */
int seeds_report(const struct seeds *seeds, const struct seeds_state *state, uint64_t failures);

#endif
