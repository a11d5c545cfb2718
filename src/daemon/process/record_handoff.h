/*
 * What an operator has decided of recordings against the rules, on its way to the process that
 * takes over: lines of "record on|off STREAM".
 */
#ifndef SLUICED_RECORD_HANDOFF_H
#define SLUICED_RECORD_HANDOFF_H

#include "daemon/server/server.h"

struct state_lines;

#define RECORD_HANDOFF_WORD "record "

/* On the worker's thread. */
void record_handoff_write(const struct worker *worker, struct state_lines *lines);

/* Sets the override at the worker that owns its stream. @text: behind the word. Before the run. */
void record_handoff_read(const char *text, struct server *server);

#endif
