/*
 * Distinguishes the process that made an object from its children: fork(2) copies a loop's memory,
 * but the kernel's side still belongs to the parent. The mark is memory that the kernel clears in a
 * child, so checking it needs no system call.
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
