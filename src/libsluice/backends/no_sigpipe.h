/*
 * Blocks SIGPIPE on a thread that makes the kernel write to a pipe: there is no MSG_NOSIGNAL for
 * pipes, and a library's descriptors must not end the program. The program's own signal settings
 * are not changed.
 */
#ifndef SLUICE_BACKENDS_NO_SIGPIPE_H
#define SLUICE_BACKENDS_NO_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

typedef struct no_sigpipe {
    sigset_t before;
    bool was_pending;
} no_sigpipe;

/* On one thread, around what may raise it. */
void no_sigpipe_begin(no_sigpipe *held);

/* One that was raised meanwhile is gone, and the thread's mask is as it was. */
void no_sigpipe_end(const no_sigpipe *held);

#endif
