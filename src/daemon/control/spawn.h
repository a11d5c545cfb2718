/* Starts the daemon's program again, with listening sockets by the protocol of sd_listen_fds(3). */
#ifndef SLUICED_SPAWN_H
#define SLUICED_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/config/listen_fds.h"

/* All zero at the beginning. */
struct spawn_sockets {
    int fds[LISTEN_FDS_MOST];
    size_t count;
    char names[LISTEN_FDS_MOST * 16]; /* as LISTEN_FDNAMES has them */
};

/* @fd: theirs from now on, also on failure. @tls: it is for TLS. 0, -E2BIG (there are
 * LISTEN_FDS_MOST), or -errno of fcntl() */
int spawn_sockets_add(struct spawn_sockets *sockets, int fd, const char *name, bool tls, bool is_managed);

void spawn_sockets_close(struct spawn_sockets *sockets);

/*
 * Starts what lies where this program was started from, which may be another program by now, with
 * the same arguments. It has the standard streams, the sockets, the channel, and nothing else that
 * is open here. 0, or -errno
 */
int spawn_successor(char **words, const struct spawn_sockets *sockets, int channel, pid_t *ret_pid);

#endif
