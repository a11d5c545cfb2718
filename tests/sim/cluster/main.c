/* Plays seeds of the cluster, one world after another. See tests/sim/README.md. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/cluster/cluster.h"
#include "sim/seeds.h"

/* Nothing is wrapped here: the world's own memory is the program's. */
void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);

void *__real_malloc(size_t size) {
    return malloc(size);
}

void *__real_realloc(void *memory, size_t size) {
    return realloc(memory, size);
}

void __real_free(void *memory) {
    free(memory);
}

static int usage(void) {
    fputs("Usage: simulate-cluster [--seeds N] [--seed S] [--verbose] [--digest]\n"
          "  --seeds N  plays N seeds, from S on (default 300)\n"
          "  --seed S   plays seed S, or begins with it (default 1)\n"
          "  --verbose  shows each event\n"
          "  --digest   shows a number for each seed that says what has happened, all of it and in order\n",
          stderr);
    return 2;
}

struct shared {
    struct seeds_state state;
    uint64_t frames, granted, superseded, refused, served, gone;
};

static uint64_t play(struct seeds_state *state, uint64_t seed, bool trace) {
    struct shared *shared = (struct shared *)state;
    world_begin(seed, trace);
    scenario();
    uint64_t digest = world_digest();
    world_end();
    shared->frames += sim.frames;
    shared->granted += sim.granted;
    shared->superseded += sim.superseded;
    shared->refused += sim.refused;
    shared->served += sim.served;
    shared->gone += sim.gone;
    return digest;
}

int main(int argc, char **argv) {
    struct seeds seeds = {.first = 1, .count = 300};
    if (!seeds_parse(&seeds, argc, argv))
        return usage();
    world_set_command("tools/simulate --cluster");
    struct shared *shared = seeds_share(sizeof *shared);
    if (!shared)
        return 1;
    uint64_t failures = seeds_play(&seeds, &shared->state, play);
    printf("%12llu claims granted\n%12llu claims refused\n%12llu publishers superseded\n%12llu pulls\n"
           "%12llu pulls that were answered with 410\n%12llu frames\n",
           (unsigned long long)shared->granted, (unsigned long long)shared->refused,
           (unsigned long long)shared->superseded, (unsigned long long)shared->served, (unsigned long long)shared->gone,
           (unsigned long long)shared->frames);
    return seeds_report(&seeds, &shared->state, failures);
}
