/* For what is preloaded into a program to count something: the count lies in a file that the test
 * maps too. */
#ifndef SLUICE_TESTS_E2E_PRELOAD_H
#define SLUICE_TESTS_E2E_PRELOAD_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *counter;

/* Nothing is counted before the constructor. */
__attribute__((unused)) static void count(uint64_t n) {
    if (counter)
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

__attribute__((constructor)) static void open_counter(void) {
    const char *path = getenv("SLUICE_TEST_COUNTER");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        counter = map;
}

#endif
