/* Plays seeds, one world after another. See tools/simulate. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "sim/kernel.h"
#include "sim/scenario.h"
#include "sim/seeds.h"
#include "sim/world.h"

enum { MOST_KEPT = 1 << 28 /* bytes */ };

struct shared {
    struct seeds_state state;
    uint64_t faults[FAULTS];
};

static uint64_t play(struct seeds_state *state, uint64_t seed, bool trace) {
    struct shared *shared = (struct shared *)state;
    int64_t before = world_allocations();
    world_begin(seed, trace);
    kernel_begin();
    disk_begin();
    rings_begin();
    if (world_one_in(3))
        scenario_library();
    else
        scenario_relay();
    rings_end();
    kernel_end();
    disk_end();
    WORLD_CHECK(world_allocations() == before, "%lld allocations have not been freed",
                (long long)(world_allocations() - before));
    uint64_t digest = world_digest();
    world_end();
    for (size_t i = 0; i < FAULTS; i++)
        shared->faults[i] += world_count(i);
    return digest;
}

static int usage(void) {
    fputs("Usage: simulate [--seeds N] [--seed S] [--verbose] [--digest] | --waiting\n"
          "  --seeds N  plays N seeds, from S on (default 2000)\n"
          "  --seed S   plays seed S, or begins with it (default 1)\n"
          "  --verbose  shows each event\n"
          "  --digest   shows a number for each seed that says what has happened, all of it and in order\n"
          "  --waiting  counts how often a loop sleeps, with windows and without\n",
          stderr);
    return 2;
}

int main(int argc, char **argv) {
    struct seeds seeds = {.first = 1, .count = 2000};
    if (argc == 2 && strcmp(argv[1], "--waiting") == 0) {
        scenario_waiting();
        return 0;
    }
    if (!seeds_parse(&seeds, argc, argv))
        return usage();
    struct shared *shared = seeds_share(sizeof *shared);
    if (!shared)
        return 1;
    /* What a world gives back is the next one's: fresh pages cost more than they are used. */
    mallopt(M_MMAP_THRESHOLD, MOST_KEPT);
    mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
    uint64_t failures = seeds_play(&seeds, &shared->state, play);
    for (size_t i = 0; i < FAULTS; i++)
        printf("%12llu %s\n", (unsigned long long)shared->faults[i], world_fault_name(i));
    return seeds_report(&seeds, &shared->state, failures);
}
