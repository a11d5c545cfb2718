/*
 * Upgrades: the program that lies where this one was started from is started beside it, is given
 * the listening sockets, and takes over once it is ready. No connection is refused meanwhile: who
 * comes waits in the backlog for either of the two. This process then goes on with the connections
 * that it has, and ends. A program that does not become ready costs nothing but a line in the log.
 * If it ends once it was ready, when nothing is accepted here any more, this process accepts again.
 * An upgrade is done when the other process says that it has begun. With its turn it is given the
 * pulls that the API has made. The control plane's thread only.
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
struct worker_query;

/* 0: the process that has taken over; else why nothing has changed. Not called when the upgrade is
 * freed before. */
typedef void upgrade_done_fn(int error, const char *reason, pid_t pid, void *user);

/* What it is given outlives it. 0, -ENOMEM */
int upgrade_new(struct event_base *base, struct server *server, const struct command_line *line, struct admin *admin,
                struct reload *reload, struct worker_query *worker_query, struct upgrade **ret_upgrade);

/* When nothing runs the server any more, and before it goes. NULL is allowed. */
void upgrade_free(struct upgrade *upgrade);

/*
 * @done may be NULL: the log has it anyway. 0, -EBUSY (one is under way, or done; or a reload),
 * -ENOMEM, -ESHUTDOWN
 */
int upgrade_start(struct upgrade *upgrade, upgrade_done_fn *done, void *user);

/* Who stops this process means the one that is to take over, too: it ends, where it has not taken
 * over yet. */
void upgrade_cancel(struct upgrade *upgrade);

/* Another process is the server now. */
bool upgrade_is_over(const struct upgrade *upgrade);

/* Nobody is: this one has left, no other has taken over, and it could not return. */
bool upgrade_is_lost(const struct upgrade *upgrade);

/*
 * The other side: says that this process is ready, and waits until the one before does not accept
 * any more, or is gone. Adds the pulls that it is given. Before the run. @fd: of struct listen_fds;
 * closed
 */
void upgrade_take_over(int fd, struct server *server);

#endif
