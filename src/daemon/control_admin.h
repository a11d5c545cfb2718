/* The administration, on libevent's HTTP server: the API, metrics and the console. The control plane's thread. */
#ifndef SLUICED_CONTROL_ADMIN_H
#define SLUICED_CONTROL_ADMIN_H

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

/* After the asker and the reload, whose last answers it takes. NULL is allowed. */
void admin_free(struct admin *admin);

#endif
