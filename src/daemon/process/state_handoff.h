/*
 * What this process has in memory alone and the process that takes over needs: pulls of the API,
 * bans, recording overrides, and processes that came before. A file in memory takes it there, of
 * one line for each. A program passes over lines of kinds that it does not know, so that an older
 * or a newer one may follow.
 */
#ifndef SLUICED_STATE_HANDOFF_H
#define SLUICED_STATE_HANDOFF_H

#include "daemon/process/predecessors.h"
#include "daemon/process/state_lines.h"
#include "daemon/server/server.h"

struct state_handoff {
    struct state_lines own; /* of the workers, each from when it has left */
};

void state_handoff_init(struct state_handoff *state);
void state_handoff_clear(struct state_handoff *state);

/* Nothing has been taken. While no worker leaves. */
void state_handoff_begin(struct state_handoff *state);

/* Takes what the worker alone has, on its thread; for handoff_leave(). */
void state_handoff_take(struct worker *worker, void *state);

/*
 * Once all workers have left: with what they had, and what any thread may read. Logs how many lines
 * there was no room for. @ret_fd: a file in memory, which the caller closes; -1: there is nothing
 * to hand over. 0, -errno
 */
int state_handoff_write(struct state_handoff *state, struct server *server, const struct predecessors *predecessors,
                        int *ret_fd);

/* Adds all of it; logs what is left out. Before the run. Closes the file. */
void state_handoff_read(int fd, struct server *server, struct predecessors *predecessors);

#endif
