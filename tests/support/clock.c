#include "support/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* The linker puts these in the place of the call (--wrap). */
int __real_clock_gettime(clockid_t id, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now);

/* Nanoseconds. The clock is this much behind the real one, or where it stands; threads look at it
 * too. */
static _Atomic int64_t behind, stands_at;
static atomic_bool stands;

static int64_t real_now(void) {
    struct timespec now;
    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now) {
    if (id != CLOCK_MONOTONIC)
        return __real_clock_gettime(id, ret_now);
    int64_t now = atomic_load(&stands) ? atomic_load(&stands_at) : real_now() - atomic_load(&behind);
    *ret_now = (struct timespec){.tv_sec = now / NS_PER_S, .tv_nsec = now % NS_PER_S};
    return 0;
}

void clock_stop(void) {
    if (atomic_load(&stands))
        return;
    atomic_store(&stands_at, real_now() - atomic_load(&behind));
    atomic_store(&stands, true);
}

void clock_go_on(void) {
    if (!atomic_load(&stands))
        return;
    atomic_store(&behind, real_now() - atomic_load(&stands_at));
    atomic_store(&stands, false);
}

void clock_forward(unsigned milliseconds) {
    atomic_fetch_add(&stands_at, (int64_t)milliseconds * NS_PER_MS);
}
