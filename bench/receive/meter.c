#include "receive/meter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/allocations.h"
#include "common/process.h"

enum { FILE_HEADER = 13 }; /* bytes that each stream sends before it begins */

/* KiB. */
typedef struct memory_use {
    uint64_t resident;
    uint64_t own; /* resident, and shared with no other process */
} memory_use;

typedef struct moment {
    uint64_t ns;
    struct rusage usage;
    uint64_t allocations;
    memory_use memory;
} moment;

meter the_meter;

static struct {
    uint32_t connections;
    uint64_t expected;
    int perf_control[2];
    memory_use listening;
    moment begin, end;
} measured;

static memory_use read_memory(void) {
    memory_use use = {0};
    char line[128];
    uint64_t kib;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (!file)
        fail(EXIT_FAILURE, "/proc/self/smaps_rollup: %s", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "Rss: %" SCNu64, &kib) == 1)
            use.resident = kib;
        else if (sscanf(line, "Private_Clean: %" SCNu64, &kib) == 1 ||
                 sscanf(line, "Private_Dirty: %" SCNu64, &kib) == 1)
            use.own += kib;
    }
    fclose(file);
    return use;
}

static void command_perf(const char *command) {
    char answer[16];
    if (measured.perf_control[0] < 0)
        return;
    size_t length = strlen(command);
    if (write(measured.perf_control[0], command, length) != (ssize_t)length ||
        read(measured.perf_control[1], answer, sizeof answer) <= 0)
        fail(EXIT_FAILURE, "perf stat does not answer");
}

static void note(moment *at) {
    at->ns = now_ns();
    getrusage(RUSAGE_SELF, &at->usage);
    at->allocations = allocations();
}

void meter_expect(uint32_t connections, uint64_t bytes, const int perf_control[2]) {
    measured.connections = connections;
    measured.expected = bytes;
    memcpy(measured.perf_control, perf_control, sizeof measured.perf_control);
    the_meter.next_mark = (uint64_t)connections * FILE_HEADER;
}

void meter_listening(void) {
    measured.listening = read_memory();
}

static void begin(void) {
    measured.begin.memory = read_memory();
    the_meter.next_mark = measured.expected;
    command_perf("enable\n");
    puts("ready");
    fflush(stdout);
    note(&measured.begin);
}

static void end(void) {
    note(&measured.end);
    command_perf("disable\n");
    measured.end.memory = read_memory();
    the_meter.done = true;
    the_meter.next_mark = UINT64_MAX;
}

void meter_reach(void) {
    if (the_meter.bytes < measured.expected)
        begin();
    else
        end();
}

static double seconds_between(struct timeval from, struct timeval to) {
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_usec - from.tv_usec) / 1e6;
}

static void print_memory(const char *when, memory_use use) {
    printf("\"%s\": {\"resident_kib\": %" PRIu64 ", \"private_kib\": %" PRIu64 "}", when, use.resident, use.own);
}

void meter_print(void) {
    const struct rusage *from = &measured.begin.usage, *to = &measured.end.usage;
    printf("\"connections\": %" PRIu32 ", \"bytes\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"checksum\": \"%016" PRIx64
           "\", ",
           measured.connections, the_meter.bytes, the_meter.packets, the_meter.checksum);
    printf("\"wall_s\": %.6f, \"user_s\": %.6f, \"system_s\": %.6f, ",
           (double)(measured.end.ns - measured.begin.ns) / 1e9, seconds_between(from->ru_utime, to->ru_utime),
           seconds_between(from->ru_stime, to->ru_stime));
    printf("\"context_switches\": %ld, \"page_faults\": %ld, \"allocations\": %" PRIu64 ", ",
           to->ru_nvcsw - from->ru_nvcsw + to->ru_nivcsw - from->ru_nivcsw,
           to->ru_minflt - from->ru_minflt + to->ru_majflt - from->ru_majflt,
           measured.end.allocations - measured.begin.allocations);
    printf("\"peak_resident_kib\": %" PRIu64 ", \"memory\": {", peak_resident_kib());
    print_memory("listening", measured.listening);
    printf(", ");
    print_memory("connected", measured.begin.memory);
    printf(", ");
    print_memory("finished", measured.end.memory);
    printf("}");
}
