/*
 * The data plane: the state shared by the workers. Each worker is a thread with streams of its own
 * (worker.h); a stream's name selects its worker, and its connections are moved there. The control
 * plane uses the calls below, which any thread may make, and calls posted to the workers' loops.
 */
#ifndef SLUICED_SERVER_H
#define SLUICED_SERVER_H

#include <sluice/tls.h>

#include "daemon/config/options.h"
#include "daemon/recording/recovery.h"
#include "daemon/server/cluster_query.h"
#include "daemon/server/handover.h"
#include "daemon/server/hook_event.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/reject.h"
#include "daemon/server/worker.h"

struct server;

/*
 * Makes everything and listens, but runs nothing. Says on the log what is wrong. 0 or -errno.
 * Takes references on the options of its own.
 */
int server_new(const struct options *options, struct server **ret_server);

/*
 * After the run. NULL is allowed. False, with a line on the log: a file operation does not return,
 * as on a network file system without its server. Threads that cannot be waited for use what the
 * server has, which is left to the end of the process: by _exit(2).
 */
bool server_free(struct server *server);

/* After the run: whether that is so of a worker. Then the thread that has run the server may not
 * end before the process does. */
bool server_is_stuck(const struct server *server);

/*
 * Adds a component to each worker; before the run. On failure some workers have it: the server can
 * only be freed. 0, -ENOMEM, -ENOSPC
 */
int server_add_component(struct server *server, const struct component_type *type, void *user);

/* Sets the function that sends hook queries, before the run; NULL after it: none. */
void server_set_hook_asker(struct server *server, hook_query_fn *ask, void *worker_query);

/*
 * Sets the function that takes questions to the cluster, and what this node is there, before the
 * run; NULL after it: none. @self: as long as the server
 */
void server_set_cluster(struct server *server, cluster_ask_fn *ask, void *cluster, const struct cluster_self *self);

/* Sets the function that sends hook events; NULL: none. */
void server_set_notifier(struct server *server, hook_event_fn *notify, void *hook_delivery);

/*
 * Sets a function that is called on a worker's thread when each worker has made a turn; before the
 * run.
 */
void server_set_ready(struct server *server, void (*ready)(void *user), void *user);

/*
 * Sets the TLS context of new connections; NULL: there is none. Takes a reference of its own. Any
 * thread.
 */
void server_set_tls_context(struct server *server, sluice_tls_context *context);

/*
 * A reference on the TLS context of new connections, for the caller to drop; NULL: there is none,
 * also for a connection of a TLS listener that a reload has closed meanwhile. Any thread.
 */
sluice_tls_context *server_tls_context(struct server *server);

/*
 * Starts the threads of all workers but the first, which wait for the beginning: so what can fail
 * has been done by then, and another process may still have the sockets. Says on the log what is
 * wrong. 0 or -errno.
 */
int server_start(struct server *server);

/*
 * The first worker, on the calling thread: waits for the beginning, and runs until server_stop(),
 * when the others have ended, too. 0 or -errno.
 */
int server_run(struct server *server);

/* The run begins, and with it the repair of recordings; or never will, where it has not begun. Any
 * thread. */
void server_begin(struct server *server);
void server_cancel(struct server *server);

/*
 * A proxy's connection, of which the client is known now, goes on like one that has been accepted;
 * or is rejected. The first worker's thread. The connection is taken.
 */
void server_begin_proxied(struct worker *first, struct handover *handover);
void server_reject_proxy(struct worker *first, struct handover *handover);

/* The TLS handshakes under way. */
struct handshake_limit *server_handshakes(struct server *server);

/* Stops listening, lets sessions finish for a moment, and ends the run. */
void server_stop(struct server *server);

/* Another process has ended, which may have left recordings unfinished: repairs them. After
 * server_begin(), any thread. */
void server_repair_recordings(struct server *server);

/* What does not change while the server lives. */
uint32_t server_worker_count(const struct server *server);
struct worker *server_worker(struct server *server, uint32_t index);
uint64_t server_started_at(const struct server *server); /* loop time */

/* Another process has taken over, so that one that has left may end with its last connection. Any
 * thread. */
void server_replaced(struct server *server);
bool server_is_replaced(const struct server *server);

/* Connections now; and whether server_stop() has been called. Any thread. */
uint32_t server_connection_count(const struct server *server);
bool server_is_stopping(const struct server *server);

/* What was refused for this reason, ever. Counts one more. Any thread. */
uint64_t server_refused(const struct server *server, enum reject_cause refusal);
void server_count_reject(struct server *server, enum reject_cause refusal);

/* What has become of recordings that were left behind, since the start. Any thread. */
uint64_t server_repaired(const struct server *server, enum recovery_result result);

/* Streams of all workers, for their registries to count. */
atomic_uint *server_stream_count(struct server *server);

/* Whether the workers do not run any more: see server_is_over(). */
const atomic_bool *server_over(const struct server *server);

/* The worker that owns the stream of that name. */
struct worker *server_owner(struct server *server, const char *name, size_t length);

/* Passes a query to the function for hook queries. False: there is none. */
bool server_ask_hook(const struct server *server, struct hook_query *job);

/*
 * Passes a question to the cluster. False: there is none, and the job is the caller's still. On a
 * worker's thread.
 */
bool server_ask_cluster(const struct server *server, struct cluster_job *job);

/* What this node is in the cluster. NULL: there is none. */
const struct cluster_self *server_cluster_self(const struct server *server);

/* The time by which pulls between nodes are signed, milliseconds: the engine's, or this host's
 * while that is not known. Not without a cluster. Any thread. */
uint64_t server_cluster_time(const struct server *server);

/* Passes an event to the function for hook events, or frees it if there is none. Any thread. */
void server_notify(struct server *server, struct hook_event *notice);

/*
 * The run lasts as long as something holds it: a worker that has not finished, a connection, a
 * reload that is under way. False when it is over: then nothing may be begun any more.
 */
bool server_hold(struct server *server);

/* Lets go; on a worker's thread. */
void server_release(struct server *server);

/*
 * A connection holds the run, and counts among those that --max-connections allows. For a worker
 * that does not drain, which holds the run itself; and when it has ended, after which there may be
 * room for another one. @peer: of one that has been accepted; NULL for another
 */
void server_add_connection(struct server *server);
void server_release_connection(struct server *server, const struct cidr_address *peer);

/* The session's connection is another node's, and does not count for its address any more. */
void server_uncount_address(struct session *session);

/* Options of a connection's socket: small sends leave at once, and little waits in the kernel. */
void server_tune_socket(int fd);

/* The workers do not run any more, and are being freed: nothing is to be sent to one. */
bool server_is_over(const struct server *server);

#endif
