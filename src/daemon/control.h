/* The control plane: signals and the status line, on libevent, in the main thread. */
#ifndef SLUICED_CONTROL_H
#define SLUICED_CONTROL_H

#include "daemon/command_line.h"
#include "daemon/server.h"

/*
 * Blocks the signals that the control plane handles, so that threads made later leave them to it; and makes SIGPIPE
 * harmless. Before any thread.
 */
void control_prepare(void);

/*
 * Runs the server in a thread of its own until a signal ends it. @line: what a reload begins with; @options: in force
 * 0, or -errno when it could not go on.
 */
int control_run(struct server *server, const struct command_line *line, const struct options *options);

#endif
