#include "common/span.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/allocations.h"
#include "common/process.h"

typedef struct moment {
    uint64_t ns;
    struct rusage usage;
    uint64_t allocations;
} moment;

static moment begun, ended;
static int to_perf = -1, from_perf = -1;

bool span_command_perf(const char *descriptors) {
    return sscanf(descriptors, "%d,%d", &to_perf, &from_perf) == 2;
}

static void command_perf(const char *command) {
    char answer[16];
    if (to_perf < 0)
        return;
    size_t length = strlen(command);
    if (write(to_perf, command, length) != (ssize_t)length || read(from_perf, answer, sizeof answer) <= 0)
        fail(EXIT_FAILURE, "perf stat does not answer");
}

static void note(moment *at) {
    at->ns = now_ns();
    getrusage(RUSAGE_SELF, &at->usage);
    at->allocations = allocations();
}

void span_begin(void) {
    command_perf("enable\n");
    note(&begun);
}

void span_end(void) {
    note(&ended);
    command_perf("disable\n");
}

static double seconds_between(struct timeval from, struct timeval to) {
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_usec - from.tv_usec) / 1e6;
}

void span_print(void) {
    const struct rusage *from = &begun.usage, *to = &ended.usage;
    printf("\"wall_s\": %.9f, \"user_s\": %.6f, \"system_s\": %.6f, ", (double)(ended.ns - begun.ns) / 1e9,
           seconds_between(from->ru_utime, to->ru_utime), seconds_between(from->ru_stime, to->ru_stime));
    printf("\"context_switches\": %ld, \"page_faults\": %ld, \"allocations\": %" PRIu64
           ", \"peak_resident_kib\": %" PRIu64,
           to->ru_nvcsw - from->ru_nvcsw + to->ru_nivcsw - from->ru_nivcsw,
           to->ru_minflt - from->ru_minflt + to->ru_majflt - from->ru_majflt, ended.allocations - begun.allocations,
           peak_resident_kib());
}
