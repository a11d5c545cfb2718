#include "common/process.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

void fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

uint64_t parse_number(const char *option, const char *text, uint64_t least, uint64_t most) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < least || value > most)
        fail(2, "%s: '%s' is not a number from %llu to %llu", option, text, (unsigned long long)least,
             (unsigned long long)most);
    return value;
}

void pin_to_cpu(int cpu) {
    if (cpu < 0)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        fail(EXIT_REFUSED, "processor %d: %s", cpu, strerror(errno));
}

void allow_descriptors(uint64_t count) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail(EXIT_FAILURE, "getrlimit: %s", strerror(errno));
    if (limit.rlim_cur >= count)
        return;
    rlim_t most = limit.rlim_max;
    limit.rlim_cur = count;
    if (limit.rlim_max < count)
        limit.rlim_max = count;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail(EXIT_REFUSED, "needs %llu descriptors, and may have no more than %llu (ulimit -Hn)",
             (unsigned long long)count, (unsigned long long)most);
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t peak_resident_kib(void) {
    uint64_t kib = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %" SCNu64, &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}
