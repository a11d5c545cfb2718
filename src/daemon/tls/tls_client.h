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

/* Where a connection goes, and what for. */
struct tls_client_target {
    const char *host; /* as configured, without brackets */
    uint16_t port;
    const char *alpn; /* what to offer (RFC 7301); static; NULL: nothing */
    bool sends_media; /* the kernel may encrypt what is sent (--ktls) */
};

/* The context of a connection. @ret_context: a new reference. 0, -ENOMEM */
int tls_client_find(struct tls_client *client, const struct tls_client_target *target,
                    sluice_tls_context **ret_context);

/* One in force with which the kernel may encrypt: it shows what the kernel can do; NULL: none has
 * been needed. Valid until the next call. */
const sluice_tls_context *tls_client_kernel(const struct tls_client *client);

#endif
