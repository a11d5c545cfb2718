#include "backends/no_sigpipe.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

static sigset_t only_sigpipe(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

static bool is_pending(void) {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

void no_sigpipe_begin(no_sigpipe *held) {
    sigset_t set = only_sigpipe();
    pthread_sigmask(SIG_BLOCK, &set, &held->before);
    held->was_pending = is_pending();
}

void no_sigpipe_end(const no_sigpipe *held) {
    static const struct timespec no_time;
    sigset_t set = only_sigpipe();
    /* One that waited before is the program's. */
    while (!held->was_pending && is_pending() && sigtimedwait(&set, NULL, &no_time) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
