/* Which certificates of peers are accepted. */
#ifndef SLUICE_TLS_VERIFY_H
#define SLUICE_TLS_VERIFY_H

#include "tls/context.h"

/* Sets the trusted certificates or the hashes. 0, or an error of sluice_tls_context_new() */
int tls_verify_set(sluice_tls_context *context, const sluice_tls_context_options *options);

/* A client's peer must be this one. 0, -EINVAL (no name where one is needed), -ENOMEM */
int tls_verify_name(const sluice_tls_context *context, SSL *ssl, const char *name);

/*
 * Notes in a new session when the first certificate of the peer's verified chain expires, since a
 * handshake that resumes it verifies none. Sessions that follow from it have the same note. False:
 * there is no memory.
 */
bool tls_verify_note(const sluice_tls_context *context, SSL *ssl, SSL_SESSION *session);

/* Whether that time has come. False for a session without a note. */
bool tls_verify_has_expired(SSL_SESSION *session);

#endif
