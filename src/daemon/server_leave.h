/* Leaving the place to another process: its sockets are lent, then it stops accepting, and goes on with what it has. */
#ifndef SLUICED_SERVER_LEAVE_H
#define SLUICED_SERVER_LEAVE_H

#include "daemon/listeners.h"
#include "daemon/server.h"

/* Calls come on a worker's thread, once; not where the run is over before. */

/* Duplicates of the sockets that listen, which are the callee's; -errno: there are none. */
typedef void server_lent_fn(int error, const struct listeners_socket *list, size_t count, void *user);

/* Any thread. 0; -ENOMEM, -ESHUTDOWN (the run is over): then @done is not called */
int server_lend(struct server *server, server_lent_fn *done, void *user);

/* Nothing is accepted any more; and pulls have ended, so that another process may begin them. */
typedef void server_left_fn(void *user);

/*
 * Stops accepting, without losing a connection, and pulling. Connections go on until they end, or for as long as the
 * options say (drain); players that have no publisher are ended. Then, behind server_replaced(), the run ends as
 * by server_stop(), which ends it at once. Any thread, once. 0; -ENOMEM, -ESHUTDOWN (the run is over): then @done is
 * not called
 */
int server_leave(struct server *server, server_left_fn *done, void *user);

#endif
