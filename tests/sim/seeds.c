#include "sim/seeds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FAILURES = 20 };

static bool read_number(const char *text, uint64_t *ret_number) {
    char *end;
    errno = 0;
    *ret_number = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end && !errno;
}

bool seeds_parse(struct seeds *seeds, int argc, char **argv) {
    bool one = false, many = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            seeds->trace = true;
        else if (strcmp(argv[i], "--digest") == 0)
            seeds->digests = true;
        else if (strcmp(argv[i], "--seeds") == 0 && read_number(argv[i + 1], &seeds->count) && ++i)
            many = true;
        else if (strcmp(argv[i], "--seed") == 0 && read_number(argv[i + 1], &seeds->first) && ++i)
            one = true;
        else
            return false;
    }
    if (one && !many)
        seeds->count = 1;
    return true;
}

void *seeds_share(size_t size) {
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

uint64_t seeds_play(const struct seeds *seeds, struct seeds_state *state,
                    uint64_t (*play)(struct seeds_state *state, uint64_t seed, bool trace)) {
    uint64_t failures = 0;
    for (uint64_t next = seeds->first, end = next + seeds->count; next < end; next = state->seed + 1) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (uint64_t seed = next; seed < end; seed++) {
                state->seed = seed;
                uint64_t digest = play(state, seed, seeds->trace);
                state->digest = state->digest * 31 + digest;
                if (seeds->digests)
                    printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)digest);
            }
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return failures + 1;
        if (status == 0)
            break;
        printf("seed %llu failed\n", (unsigned long long)state->seed);
        if (++failures == MOST_FAILURES)
            break;
    }
    return failures;
}

int seeds_report(const struct seeds *seeds, const struct seeds_state *state, uint64_t failures) {
    printf("%llu seeds from %llu on, %llu failed, digest %016llx\n", (unsigned long long)seeds->count,
           (unsigned long long)seeds->first, (unsigned long long)failures, (unsigned long long)state->digest);
    return failures > 0;
}
