/* How many files may be open: a connection is one, too. */
#ifndef SLUICED_FD_LIMIT_H
#define SLUICED_FD_LIMIT_H

#include <stdint.h>

/*
 * Raises the limit as far as this process may: shells and containers give 1024, for the sake of
 * programs that use select(2). Says on the log if that is too little for so many connections. The
 * first descriptor that a connection may not have: the rest is for recordings, hooks, and whoever
 * wants to know what is going on.
 */
int fd_limit_raise(uint64_t connections);

/* Says on the log if what this process may have is too little for so many connections. */
void fd_limit_check(uint64_t connections);

#endif
