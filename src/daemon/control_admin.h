/* The administration, on libevent's HTTP server: the API, metrics and the console. The control plane's thread. */
#ifndef SLUICED_CONTROL_ADMIN_H
#define SLUICED_CONTROL_ADMIN_H

#include <stddef.h>

#include "daemon/control_ask.h"
#include "daemon/options.h"

struct admin;
struct event_base;

enum { ADMIN_ERROR = 256 };

/* Reads the configuration again. 0, or -errno with a text that says what is wrong. */
typedef int reload_fn(void *user, char error[ADMIN_ERROR]);

/* Listens. Says on the log what is wrong. @options, @asker: must outlive it. 0, -errno */
int admin_new(struct event_base *base, const struct options *options, struct asker *asker, struct admin **ret_admin);

/* After the asker, whose last answers it takes. NULL is allowed. */
void admin_free(struct admin *admin);

/* What POST /api/v1/reload does; without it, nothing can be read again, and it says so. */
void admin_set_reload(struct admin *admin, reload_fn *reload, void *user);

#endif
