/*
 * Pulls that the API has made, on their way to the process that takes over, with their passwords. A
 * line is "TTL_MS URL=NAME[,on-demand]", where 0 means no time to live: it begins with a number,
 * since earlier programs know no other lines.
 */
#ifndef SLUICED_PULL_HANDOFF_H
#define SLUICED_PULL_HANDOFF_H

#include "daemon/pull/pull.h"
#include "daemon/server/server.h"

struct state_lines;

/* Bytes that all of them take at most. */
enum { PULL_HANDOFF_MOST = PULLS_REQUESTED_MAX * (PULL_OPTION_TEXT + 32) };

/* Waits for no worker. */
void pull_handoff_write(struct server *server, struct state_lines *lines);

/* Adds the pull, unless the configuration has one of that stream. @line: its first character is a
 * digit. Before the run. */
void pull_handoff_read(const char *line, struct server *server);

#endif
