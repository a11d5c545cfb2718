/* The administration, on libevent's HTTP server: the API, metrics and the console. The control plane's thread. */
#ifndef SLUICED_CONTROL_ADMIN_H
#define SLUICED_CONTROL_ADMIN_H

#include <stddef.h>

#include "daemon/control_ask.h"
#include "daemon/options.h"

struct admin;
struct event_base;

/*
 * What has come of a reload. @error: 0, or -errno when the settings are as they were.
 * @text: lines: what is wrong, or what has changed
 */
typedef void admin_reload_done(int error, const char *text, void *user);

/*
 * Reads the configuration again, and calls @done once, before it returns or later, on the control plane's thread.
 * 0, -EBUSY (one is under way), -ENOMEM: then nothing is called.
 */
typedef int admin_reload_fn(void *user, admin_reload_done *done, void *done_user);

/* Listens. Says on the log what is wrong. @options, @asker: must outlive it. 0, -errno */
int admin_new(struct event_base *base, const struct options *options, struct asker *asker, struct admin **ret_admin);

/* After the asker, whose last answers it takes. NULL is allowed. */
void admin_free(struct admin *admin);

/* What POST /api/v1/reload does; without it, nothing can be read again, and it says so. */
void admin_set_reload(struct admin *admin, admin_reload_fn *reload, void *user);

#endif
