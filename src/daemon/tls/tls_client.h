/*
 * The TLS contexts of the daemon's outgoing connections: pulls, forwards and hooks. They verify the
 * server by trusted issuers or by pinned hashes of its certificate. A context is made when a
 * connection first needs it: reading the system's store takes tens of milliseconds, which would
 * block the data plane. The control plane's thread only.
 */
#ifndef SLUICED_TLS_CLIENT_H
#define SLUICED_TLS_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/tls.h>

#include "daemon/base/config_errors.h"
#include "daemon/config/options.h"

struct tls_client;

/* One that trusts the system's store. 0, -ENOMEM */
int tls_client_new(struct tls_client **ret_client);

/* NULL is allowed. Contexts live on with their references. */
void tls_client_free(struct tls_client *client);

/*
 * Reads the files of the options, which may block, and puts them in force for new connections.
 * False if something is wrong, after adding an error for each file that cannot be used; nothing has
 * changed then.
 */
bool tls_client_load(struct tls_client *client, const struct options *options, struct config_errors *errors);

/* Puts what was in force before the last load in force again. */
void tls_client_revert(struct tls_client *client);

/*
 * The context of a connection to a server. @host: as configured, without brackets. @alpn: what to
 * offer (RFC 7301), or NULL. @ret_context: a new reference. 0, -ENOMEM
 */
int tls_client_find(struct tls_client *client, const char *host, uint16_t port, const char *alpn,
                    sluice_tls_context **ret_context);

#endif
