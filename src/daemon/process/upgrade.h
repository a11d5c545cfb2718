/*
 * Upgrades: starts the currently installed program beside this process, lends it the listening
 * sockets, and lets it take over when it is ready. No connection is refused meanwhile: new
 * connections wait in the backlog for either process. This process then continues with its existing
 * connections, and ends. If the new program does not become ready, one line is logged and nothing
 * else changes. If it ends after it was ready, when this process has stopped accepting, this
 * process accepts again. The upgrade is complete when the new process reports that it has started.
 * Before that, it receives what this process has in memory alone (state_handoff.h). The control
 * plane's thread only.
 */
#ifndef SLUICED_UPGRADE_H
#define SLUICED_UPGRADE_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/config/command_line.h"
#include "daemon/server/server.h"

struct admin;
struct event_base;
struct reload;
struct upgrade;

/* 0: the process that has taken over; else why nothing has changed. Not called when the upgrade is
 * freed before. */
typedef void upgrade_done_fn(int error, const char *reason, pid_t pid, void *user);

/* What it is given outlives it. 0, -ENOMEM */
int upgrade_new(struct event_base *base, struct server *server, const struct command_line *line, struct admin *admin,
                struct reload *reload, struct upgrade **ret_upgrade);

/* Sets a function that is called when the other process has taken over, before it goes on. */
void upgrade_set_leaving(struct upgrade *upgrade, void (*leaving)(void *user), void *user);

/* When nothing runs the server any more, and before it goes. NULL is allowed. */
void upgrade_free(struct upgrade *upgrade);

/*
 * @done may be NULL: the log has it anyway. 0, -EBUSY (one is under way, or done; or a reload),
 * -ENOMEM, -ESHUTDOWN
 */
int upgrade_start(struct upgrade *upgrade, upgrade_done_fn *done, void *user);

/* Stopping this process also stops the new one, unless it has taken over. */
void upgrade_cancel(struct upgrade *upgrade);

/* Another process is the server now. */
bool upgrade_is_over(const struct upgrade *upgrade);

/*
 * Whether no process accepts: this one has stopped accepting, no other has taken over, and it could
 * not resume.
 */
bool upgrade_is_lost(const struct upgrade *upgrade);

/*
 * The other side: says that this process is ready, and waits until the one before does not accept
 * any more, or is gone. Takes over the state that it is given, and watches that process. Before the
 * run. @fd: of struct listen_fds; closed
 */
void upgrade_take_over(struct upgrade *upgrade, int fd);

#endif
