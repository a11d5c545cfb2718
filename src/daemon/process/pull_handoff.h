/* Pulls that the API has made, on their way to the process that takes over: as text in memory, with
 * their passwords. */
#ifndef SLUICED_PULL_HANDOFF_H
#define SLUICED_PULL_HANDOFF_H

#include "daemon/server/server.h"

/*
 * Waits for no worker. @ret_fd: a file in memory, which the caller closes; -1: there are no such
 * pulls. 0, -errno
 */
int pull_handoff_write(struct server *server, int *ret_fd);

/* Adds the pulls; those of which the configuration has the stream are left out. Before the run.
 * Closes the file. */
void pull_handoff_read(int fd, struct server *server);

#endif
