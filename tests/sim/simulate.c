/* Plays seeds, one world after another. See tools/simulate. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/kernel.h"
#include "sim/scenario.h"
#include "sim/world.h"

enum { MOST_KEPT = 1 << 28 /* bytes */ };

/* What the worker processes and their parent share. */
struct shared {
    uint64_t seed; /* being played */
    uint64_t digest;
    uint64_t faults[FAULTS];
};

static uint64_t play(uint64_t seed, bool trace) {
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

/* Seeds from @first on. A seed that fails ends the process that plays it. */
static void play_all(struct shared *shared, uint64_t first, uint64_t end, bool trace, bool digests) {
    /* What a world gives back is the next one's: fresh pages cost more than they are used. */
    mallopt(M_MMAP_THRESHOLD, MOST_KEPT);
    mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
    for (uint64_t seed = first; seed < end; seed++) {
        shared->seed = seed;
        uint64_t digest = play(seed, trace);
        shared->digest = shared->digest * 31 + digest;
        for (size_t i = 0; i < FAULTS; i++)
            shared->faults[i] += world_count(i);
        if (digests)
            printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)digest);
    }
    fflush(stdout);
}

static bool read_number(const char *text, uint64_t *ret_number) {
    char *end;
    errno = 0;
    *ret_number = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end && !errno;
}

int main(int argc, char **argv) {
    uint64_t seeds = 2000, first = 1, failures = 0;
    bool trace = false, digests = false, one = false, many = false;
    if (argc == 2 && strcmp(argv[1], "--waiting") == 0) {
        scenario_waiting();
        return 0;
    }
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
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (uint64_t next = first, end = first + seeds; next < end; next = shared->seed + 1) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            play_all(shared, next, end, trace, digests);
            exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return 1;
        if (status == 0)
            break;
        failures++;
        printf("seed %llu failed\n", (unsigned long long)shared->seed);
        if (failures == 20)
            break;
    }
    for (size_t i = 0; i < FAULTS; i++)
        printf("%12llu %s\n", (unsigned long long)shared->faults[i], world_fault_name(i));
    printf("%llu seeds from %llu on, %llu failed, digest %016llx\n", (unsigned long long)seeds,
           (unsigned long long)first, (unsigned long long)failures, (unsigned long long)shared->digest);
    return failures > 0;
}
