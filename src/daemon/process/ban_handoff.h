/*
 * Bans, on their way to the process that takes over: lines of "ban LEFT_MS AGE_MS STREAM HOST".
 * Those of a cluster are left out, since its engine has them.
 */
#ifndef SLUICED_BAN_HANDOFF_H
#define SLUICED_BAN_HANDOFF_H

#include "daemon/server/server.h"

struct state_lines;

#define BAN_HANDOFF_WORD "ban "

/* On the worker's thread. */
void ban_handoff_write(struct worker *worker, struct state_lines *lines);

/* Adds the ban to the worker that owns its stream. @text: behind the word. Before the run. */
void ban_handoff_read(const char *text, struct server *server);

#endif
