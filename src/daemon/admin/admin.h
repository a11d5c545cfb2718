/* The administration: the API, metrics and the console. The control plane's thread. */
#ifndef SLUICED_ADMIN_H
#define SLUICED_ADMIN_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/options.h"
#include "daemon/control/reload.h"
#include "daemon/control/worker_query.h"

struct admin;
struct cluster_client;
struct event_base;
struct history;
struct hook_delivery;

/*
 * Listens. Says on the log what is wrong. @server: the data plane. @options: where; what is shown
 * are those that the reload has in force. The server, the asker, the reload, the notifier and the
 * history outlive it. 0, -errno
 */
int admin_new(struct event_base *base, struct server *server, const struct options *options,
              struct worker_query *worker_query, struct reload *reload, struct hook_delivery *hook_delivery,
              const struct history *history, struct admin **ret_admin);

/*
 * How an upgrade is started, before the first request. 0: @done is called when it is over, with 0
 * and the process that has taken over, or with why nothing has changed; -EBUSY (one is under way,
 * or done; or a reload), -ENOMEM, -ESHUTDOWN
 */
typedef void admin_upgraded_fn(int error, const char *reason, pid_t pid, void *user);
typedef int admin_upgrade_fn(admin_upgraded_fn *done, void *user, void *upgrader);
void admin_set_upgrade(struct admin *admin, admin_upgrade_fn *start, void *upgrader);

/* Before the first request. It outlives the admin; it may have been closed. NULL: there is none */
void admin_set_cluster(struct admin *admin, struct cluster_client *cluster);

/* The run begins: sockets that another process has lent are this one's, with their files. */
void admin_begin(struct admin *admin);

/* Adds duplicates of its sockets. 0 or -errno */
struct spawn_sockets;
int admin_lend(const struct admin *admin, struct spawn_sockets *sockets);

/* Another process is the server: stops accepting, and ends connections with their next answer. */
void admin_leave(struct admin *admin);

/* The node is emptied before it ends: health is an error, so that balancers send nobody. */
void admin_drain(struct admin *admin);

/* What has ended the event base's run by itself, for want of memory; or 0. */
int admin_error(const struct admin *admin);

/* Free it after the queries and the reload, whose last answers it receives. NULL is allowed. */
void admin_free(struct admin *admin);

#endif
