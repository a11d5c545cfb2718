/* The administration: the API, metrics and the console. The control plane's thread. */
#ifndef SLUICED_CONTROL_ADMIN_H
#define SLUICED_CONTROL_ADMIN_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/control_ask.h"
#include "daemon/control_reload.h"
#include "daemon/options.h"

struct admin;
struct event_base;
struct notifier;

/*
 * Listens. Says on the log what is wrong. @options: where; what is shown are those that the reload has in force. The
 * asker, the reload and the notifier outlive it. 0, -errno
 */
int admin_new(struct event_base *base, const struct options *options, struct asker *asker, struct reload *reload,
              struct notifier *notifier, struct admin **ret_admin);

/* Who is asked to upgrade; outlives it. Before the first request. */
struct upgrade;
void admin_set_upgrade(struct admin *admin, struct upgrade *upgrade);

/* The run begins: sockets that another process has lent are this one's, with their files. */
void admin_begin(struct admin *admin);

/* Adds duplicates of its sockets. 0 or -errno */
struct spawn_sockets;
int admin_lend(const struct admin *admin, struct spawn_sockets *sockets);

/* Another process is the server: stops accepting, and ends connections with their next answer. */
void admin_leave(struct admin *admin);

/* What has ended the event base's run by itself, for want of memory; or 0. */
int admin_error(const struct admin *admin);

/* After the asker and the reload, whose last answers it takes. NULL is allowed. */
void admin_free(struct admin *admin);

#endif
