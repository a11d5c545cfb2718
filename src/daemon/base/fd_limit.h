/* The limit of open files, which also limits connections. */
#ifndef SLUICED_FD_LIMIT_H
#define SLUICED_FD_LIMIT_H

#include <stdint.h>

/*
 * Raises the limit as far as this process may: shells and containers set 1024, for programs that
 * use select(2). Logs a warning if that is too little for so many connections. Returns the first
 * descriptor that a connection must not have: the rest is for recordings, hooks and the
 * administration.
 */
int fd_limit_raise(uint64_t connections);

/* Says on the log if what this process may have is too little for so many connections. */
void fd_limit_check(uint64_t connections);

#endif
