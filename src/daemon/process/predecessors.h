/*
 * Processes that this one has taken over from, directly or through others, and that still run with
 * their connections. When one ends, the recordings that it has left unfinished are repaired: it had
 * them locked before. The control plane's thread only.
 */
#ifndef SLUICED_PREDECESSORS_H
#define SLUICED_PREDECESSORS_H

#include <sys/types.h>

#include "daemon/server/server.h"

enum { PREDECESSORS_MOST = 16 };

struct event_base;
struct predecessors;
struct state_lines;

#define PREDECESSORS_WORD "process "

/* @base and @server outlive it. 0, -ENOMEM */
int predecessors_new(struct event_base *base, struct server *server, struct predecessors **ret_predecessors);

/* NULL is allowed. */
void predecessors_free(struct predecessors *predecessors);

/* From now on until its end; nothing where it has ended. Says on the log where it cannot be
 * watched. */
void predecessors_watch(struct predecessors *predecessors, pid_t pid);

/* For the process that takes over from this one: a line of "process PID" for each. */
void predecessors_write(const struct predecessors *predecessors, struct state_lines *lines);

/* Watches a process. @text: behind the word. */
void predecessors_read(struct predecessors *predecessors, const char *text);

#endif
