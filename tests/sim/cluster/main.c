/* Plays seeds of the cluster, one world after another. See tests/sim/README.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/cluster/cluster.h"

enum { MOST_FAILURES = 20 };

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

static bool read_number(const char *text, uint64_t *ret_number) {
    char *end;
    errno = 0;
    *ret_number = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end && !errno;
}

/* What the process that plays and its parent share. */
struct shared {
    uint64_t seed; /* being played */
    uint64_t digest, frames, granted, superseded, refused, served, gone;
};

/* Seeds from @first on. A seed that fails ends the process that plays it. */
static void play_all(struct shared *shared, uint64_t first, uint64_t end, bool trace, bool digests) {
    for (uint64_t seed = first; seed < end; seed++) {
        shared->seed = seed;
        world_begin(seed, trace);
        scenario();
        shared->digest = shared->digest * 31 + world_digest();
        if (digests)
            printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)world_digest());
        world_end();
        shared->frames += sim.frames;
        shared->granted += sim.granted;
        shared->superseded += sim.superseded;
        shared->refused += sim.refused;
        shared->served += sim.served;
        shared->gone += sim.gone;
    }
    fflush(stdout);
}

static uint64_t play_apart(struct shared *shared, uint64_t first, uint64_t end, bool trace, bool digests) {
    uint64_t failures = 0;
    for (uint64_t next = first; next < end; next = shared->seed + 1) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            play_all(shared, next, end, trace, digests);
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return failures + 1;
        if (status == 0)
            break;
        printf("seed %llu failed\n", (unsigned long long)shared->seed);
        if (++failures == MOST_FAILURES)
            break;
    }
    return failures;
}

int main(int argc, char **argv) {
    uint64_t seeds = 300, first = 1;
    bool trace = false, digests = false, one = false, many = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            trace = true;
        else if (strcmp(argv[i], "--digest") == 0)
            digests = true;
        else if (strcmp(argv[i], "--seeds") == 0 && read_number(argv[i + 1], &seeds) && ++i)
            many = true;
        else if (strcmp(argv[i], "--seed") == 0 && read_number(argv[i + 1], &first) && ++i)
            one = true;
        else
            return usage();
    }
    if (one && !many)
        seeds = 1;
    world_set_command("tools/simulate --cluster");
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    uint64_t failures = play_apart(shared, first, first + seeds, trace, digests);
    printf("%12llu claims granted\n%12llu claims refused\n%12llu publishers superseded\n%12llu pulls\n"
           "%12llu pulls that were answered with 410\n%12llu frames\n",
           (unsigned long long)shared->granted, (unsigned long long)shared->refused,
           (unsigned long long)shared->superseded, (unsigned long long)shared->served, (unsigned long long)shared->gone,
           (unsigned long long)shared->frames);
    printf("%llu seeds from %llu on, %llu failed, digest %016llx\n", (unsigned long long)seeds,
           (unsigned long long)first, (unsigned long long)failures, (unsigned long long)shared->digest);
    return failures > 0;
}
