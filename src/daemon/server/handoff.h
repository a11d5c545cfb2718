/*
 * Handing over to another process: lends the listening sockets, then stops accepting and continues
 * with the existing connections. Accepts again if the other process does not take over.
 */
#ifndef SLUICED_HANDOFF_H
#define SLUICED_HANDOFF_H

#include "daemon/server/listeners.h"
#include "daemon/server/server.h"

/* Calls come on a worker's thread, once; not where the run is over before. */

/* Duplicates of the sockets that listen, which are the callee's; -errno: there are none. */
typedef void handoff_lent_fn(int error, const struct listeners_socket *list, size_t count, void *user);

/* Any thread. 0; -ENOMEM, -ESHUTDOWN (the run is over): then @done is not called */
int handoff_lend(struct server *server, handoff_lent_fn *done, void *user);

/*
 * On each worker's thread, when it has left: its time to give away what it alone knows. Not where
 * the run is over before.
 */
typedef void handoff_take_fn(struct worker *worker, void *user);

/*
 * Nothing is accepted any more; and pulls have ended, so that another process may begin them.
 * Behind the calls above.
 */
typedef void handoff_left_fn(void *user);

/* What becomes of leaving. */
struct handoff_calls {
    handoff_take_fn *take;
    void *taker;
    handoff_left_fn *left;
    void *user;
};

/*
 * Stops accepting, without losing a connection, and pulling. Connections go on until they end, or
 * for as long as the options say (drain); players that have no publisher are ended. Then, behind
 * server_replaced(), the run ends as by server_stop(), which ends it at once. Any thread; not again
 * before handoff_return(). @calls: copied. 0; -ENOMEM, -ESHUTDOWN (the run is over): then there are
 * no calls
 */
int handoff_leave(struct server *server, const struct handoff_calls *calls);

/* @error: 0, or why not everything is listened at again: -ESHUTDOWN (the server stops), or what the
 * log says */
typedef void handoff_returned_fn(int error, void *user);

/*
 * Having left, accepts again at the sockets that were lent, and pulls. Any thread.
 * @list: copied; the descriptors in it are the server's from now on, but where it fails
 * 0; -ENOMEM, -ESHUTDOWN (the run is over): then @done is not called
 */
int handoff_return(struct server *server, const struct listeners_socket *list, size_t count, handoff_returned_fn *done,
                   void *user);

#endif
