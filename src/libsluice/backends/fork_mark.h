/*
 * Tells the process that has made something from a child of it: fork(2) copies a loop's memory, but
 * the kernel's side of it stays the parent's. The mark is memory that the kernel clears in a child,
 * so a look at it costs no system call.
 */
#ifndef SLUICE_BACKENDS_FORK_MARK_H
#define SLUICE_BACKENDS_FORK_MARK_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct fork_mark {
    /* not 0 in the process that has made it; NULL where the kernel does not clear */
    volatile unsigned char *page;
    pid_t process; /* that has made it */
} fork_mark;

/* 0, -ENOMEM */
int fork_mark_make(fork_mark *mark);
void fork_mark_discard(fork_mark *mark);

/* Whether this is a child. Never of a mark that is all zero. */
bool fork_mark_is_child(const fork_mark *mark);

#endif
