#include "daemon/base/thread_time.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* The file has the time on a processor, too, but it is up to a tick old there. */
static uint64_t waited_us(void) {
    char text[96];
    uint64_t ran_ns, waited_ns;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) == 2 ? waited_ns / 1000 : 0;
}

uint64_t thread_time_ran_us(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

struct thread_time thread_time_now(void) {
    return (struct thread_time){.ran_us = thread_time_ran_us(), .waited_us = waited_us()};
}
