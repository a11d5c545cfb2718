/* The sockets of the administration. */
#ifndef SLUICED_ADMIN_LISTEN_H
#define SLUICED_ADMIN_LISTEN_H

#include "daemon/config/admin_option.h"

/*
 * A listening socket, non-blocking: the one that the option has, or a new one. A new Unix socket is
 * its owner's alone to connect to; one that a server left behind is replaced, one that a server
 * still listens on is not. Logs where it listens, or what is wrong. The descriptor, -errno
 */
int admin_listen(const struct admin_listener_option *option);

/* Removes the file of a Unix socket, unless it is the service manager's. */
void admin_unlisten(const struct admin_listener_option *option);

#endif
