/* The names of both backends, and the figures of a loop. */
#ifndef SLUICE_TESTS_SUPPORT_BACKENDS_RIG_H
#define SLUICE_TESTS_SUPPORT_BACKENDS_RIG_H

#include <sluice/loop.h>

enum {
    GUARD = 100,
    BLOCK = 4096,
    SKIPPED = 77,
};

static const sluice_backend_choice both[] = {SLUICE_BACKEND_URING, SLUICE_BACKEND_EPOLL};
static const char *const names[] = {[SLUICE_BACKEND_URING] = "io_uring", [SLUICE_BACKEND_EPOLL] = "epoll"};

static inline sluice_loop_stats stats_of(const sluice_loop *loop) {
    sluice_loop_stats stats = {.size = sizeof stats};
    sluice_loop_get_stats(loop, &stats);
    return stats;
}

#endif
