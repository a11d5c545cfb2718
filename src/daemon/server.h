/*
 * The data plane: what the workers share. Each of them is a thread with streams of its own (worker.h); a stream is the
 * worker's that its name says, and connections go there. The control plane talks to it by the calls below, which any
 * thread may make.
 */
#ifndef SLUICED_SERVER_H
#define SLUICED_SERVER_H

#include "daemon/connect.h"
#include "daemon/options.h"
#include "daemon/users.h"
#include "daemon/worker.h"

struct server;

/*
 * Makes everything and listens, but runs nothing. Says on the log what is wrong. 0 or -errno.
 * @options must outlive the server.
 */
int server_new(const struct options *options, struct server **ret_server);

/* After the run. NULL is allowed. */
void server_free(struct server *server);

/* Who makes the pulls' connections; before the run. */
void server_set_connector(struct server *server, connect_fn *connect, void *connector);

/* Runs the workers, the first on the calling thread, until server_stop(). 0 or -errno. */
int server_run(struct server *server);

/* Stops listening, lets sessions finish for a moment, and ends the run. */
void server_stop(struct server *server);

/* What does not change while the server lives. */
const struct options *server_options(const struct server *server);
const struct users *server_rtsp_users(const struct server *server); /* NULL: everybody */
uint32_t server_worker_count(const struct server *server);
struct worker *server_worker(struct server *server, uint32_t index);
uint64_t server_started_at(const struct server *server); /* loop time */

/* The worker whose the stream of that name is. */
struct worker *server_owner(struct server *server, const char *name, size_t length);

/*
 * The run lasts as long as something holds it: a worker that has not begun to stop, a connection, a question that has
 * not been answered. False when it is over: then nothing may be begun any more.
 */
bool server_hold(struct server *server);

/* Lets go; on a worker's thread. */
void server_release(struct server *server);

/* The same of a connection that has ended: there may be room for another one. */
void server_release_connection(struct server *server);

/* The workers do not run any more, and are being freed: nothing is to be sent to one. */
bool server_is_over(const struct server *server);

#endif
