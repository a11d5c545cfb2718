/* SIGINT and SIGTERM end a tool well: it finishes what it does and says its results. A second one
 * ends it at once. */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

/* Begins to watch. SIGPIPE is ignored from now on: who has gone is seen by what write(2) says. */
void interrupt_watch(void);

bool interrupt_seen(void);

#endif
