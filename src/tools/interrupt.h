/* SIGINT and SIGTERM end a tool well: it finishes what it does and says its results. A second one
 * ends it at once. */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <stdbool.h>

/* Starts to watch. SIGPIPE is ignored from now on: write(2) reports closed pipes. */
void interrupt_watch(void);

bool interrupt_seen(void);

#endif
