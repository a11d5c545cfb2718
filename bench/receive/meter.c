#include "receive/meter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process.h"
#include "common/span.h"

/* KiB. */
typedef struct memory_use {
    uint64_t resident;
    uint64_t own; /* resident, and shared with no other process */
} memory_use;

meter the_meter;

static struct {
    uint32_t connections;
    uint64_t unmeasured, expected;
    bool ready, begun;
    memory_use listening, connected, finished;
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

void meter_expect(uint32_t connections, uint32_t opening, uint64_t unmeasured, uint64_t bytes) {
    measured.connections = connections;
    measured.unmeasured = unmeasured;
    measured.expected = bytes;
    the_meter.next_mark = (uint64_t)connections * opening;
}

void meter_listening(void) {
    measured.listening = read_memory();
}

static void begin(void) {
    measured.begun = true;
    the_meter.next_mark = measured.expected;
    span_begin();
}

static void connected(void) {
    measured.ready = true;
    measured.connected = read_memory();
    the_meter.next_mark += measured.unmeasured;
}

static void end(void) {
    span_end();
    measured.finished = read_memory();
    if (the_meter.finish)
        the_meter.finish();
    the_meter.done = true;
    the_meter.next_mark = UINT64_MAX;
}

void meter_reach(void) {
    bool connects = !measured.ready;
    if (connects)
        connected();
    if (!measured.begun && the_meter.bytes >= the_meter.next_mark)
        begin();
    if (connects) {
        puts("ready");
        fflush(stdout);
    }
    if (measured.begun && the_meter.bytes >= measured.expected)
        end();
}

static void print_memory(const char *when, memory_use use) {
    printf("\"%s\": {\"resident_kib\": %" PRIu64 ", \"private_kib\": %" PRIu64 "}", when, use.resident, use.own);
}

void meter_print(void) {
    printf("\"connections\": %" PRIu32 ", \"bytes\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"checksum\": \"%016" PRIx64
           "\", ",
           measured.connections, the_meter.bytes, the_meter.packets, the_meter.checksum);
    span_print();
    printf(", \"memory\": {");
    print_memory("listening", measured.listening);
    printf(", ");
    print_memory("connected", measured.connected);
    printf(", ");
    print_memory("finished", measured.finished);
    printf("}");
}
