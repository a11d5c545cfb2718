/*
 * Leaving the place to another process: its sockets are lent, then it stops accepting, and goes on with what it has. It
 * returns where that process does not take the place.
 */
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
 * by server_stop(), which ends it at once. Any thread; not again before server_return(). 0; -ENOMEM, -ESHUTDOWN (the
 * run is over): then @done is not called
 */
int server_leave(struct server *server, server_left_fn *done, void *user);

/* @error: 0, or why not everything is listened at again: -ESHUTDOWN (the server stops), or what the log says */
typedef void server_returned_fn(int error, void *user);

/*
 * Having left, accepts again at the sockets that were lent, and pulls. Any thread.
 * @list: copied; the descriptors in it are the server's from now on, but where it fails
 * 0; -ENOMEM, -ESHUTDOWN (the run is over): then @done is not called
 */
int server_return(struct server *server, const struct listeners_socket *list, size_t count, server_returned_fn *done,
                  void *user);

#endif
