/*
 * A connection to a server, in plaintext or by TLS, as the target's URL wants it. Its user has the
 * events of a plain connection, and calls these functions in place of the connection's. Pauses
 * and timeouts are the connection's own. What is sent goes through a writer of the connection; by
 * TLS, on_sent means that bytes are encrypted.
 */
#ifndef TOOLS_TRANSPORT_H
#define TOOLS_TRANSPORT_H

#include <stdint.h>

#include <sluice/conn.h>

#include "tools/target.h"

struct tls_link;

enum { TRANSPORT_REASON = 160 };

struct transport {
    sluice_conn *conn;
    struct tls_link *link; /* NULL: plaintext; it goes with the connection */
};

/*
 * The user's events are the connection's from now on; by TLS, a handshake begins. @target: with a
 * context, where it is secure (see trust.h). 0, -ENOMEM (nothing has changed)
 */
int transport_begin(struct transport *transport, sluice_conn *conn, const struct target *target,
                    const sluice_conn_events *events, void *user);

/* In place of the calls of sluice_conn_ with the same names. */
sluice_chain *transport_chain(const struct transport *transport);
void transport_set_need(const struct transport *transport, size_t bytes);
int transport_finish(const struct transport *transport);
void transport_close(const struct transport *transport);

/* Bytes that have come for the user. */
uint64_t transport_received(const struct transport *transport);

/* The error of on_end in words; by TLS, those of OpenSSL. The text, or a static one. */
const char *transport_reason(const struct transport *transport, int error, char text[TRANSPORT_REASON]);

#endif
