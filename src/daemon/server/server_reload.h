/*
 * The data plane's part of a reload: replaces the options and applies the changes. Each worker
 * applies them between two turns of its own, after everything that can fail has been done.
 */
#ifndef SLUICED_SERVER_RELOAD_H
#define SLUICED_SERVER_RELOAD_H

#include "daemon/server/server.h"

/* What has come of it, on any worker's thread. 0; or -errno with a line that says why: then nothing
 * is changed. */
typedef void server_reloaded_fn(int error, const char *reason, void *user);

/*
 * Puts these options in force: opens the listeners that are new, closes those that are not there
 * any more, begins and ends pulls. Connections stay, also those of a listener that is closed; only
 * new ones are given the TLS context, which is NULL without certificates. Takes references of its
 * own. Not while another one is under way; any thread. 0; or -ENOMEM, -ESHUTDOWN
 * (the run is over): then @done is not called, else once
 */
int server_reload(struct server *server, const struct options *options, sluice_tls_context *tls,
                  server_reloaded_fn *done, void *user);

#endif
