/* The control plane: signals, the status line and the administration, on libevent, in the main
 * thread. */
#ifndef SLUICED_CONTROL_H
#define SLUICED_CONTROL_H

#include "daemon/config/command_line.h"
#include "daemon/server/server.h"

/*
 * Blocks the signals that the control plane handles, so that threads made later leave them to it;
 * and makes SIGPIPE harmless. Before any thread.
 */
void control_prepare(void);

struct cluster_setup;
struct control;
struct tls_client;

/*
 * Opens the administration; says on the log what is wrong. @line: what a reload begins with;
 * @options: in force. @tls: of its connections. @cluster: NULL: there is none; it must outlive the
 * server. The server, the line and @tls must outlive the control plane. 0 or -errno
 */
int control_new(struct server *server, const struct command_line *line, const struct options *options,
                struct tls_client *tls, struct cluster_setup *cluster, struct control **ret_control);

/* Before the server goes. NULL is allowed. */
void control_free(struct control *control);

/*
 * Starts the server's threads, which wait for the run: what can fail has been done then. Says on
 * the log what is wrong. 0 or -errno
 */
int control_start(struct control *control);

/*
 * Takes over from the process at the other end of the channel: upgrade_take_over(). Between the
 * start and the run.
 */
void control_take_over(struct control *control, int channel);

/* Runs the server, and says that it is ready once each worker has made a turn. Until a signal ends
 * it. 0 or -errno */
int control_run(struct control *control);

#endif
