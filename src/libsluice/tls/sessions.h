/*
 * Sessions of a client's earlier connections, which spare a server's verification and a key
 * exchange with its certificate. They are kept per server: name and port, as the name alone may
 * have several servers. A session stands for a certificate that was verified under the context's
 * rules, so no other context has it.
 */
#ifndef SLUICE_TLS_SESSIONS_H
#define SLUICE_TLS_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

enum { TLS_SESSION_NAME = 253 };

typedef struct tls_sessions tls_sessions;

/* A server; an empty name: none, and nothing is kept. */
struct tls_session_key {
    char name[TLS_SESSION_NAME + 1];
    uint16_t port;
};

/* For at most so many sessions; the oldest goes. 0, -ENOMEM */
int tls_sessions_new(size_t most, tls_sessions **ret_sessions);
void tls_sessions_free(tls_sessions *sessions);

/* Keeps a copy of a session, if it can be resumed and there is memory. */
void tls_sessions_put(tls_sessions *sessions, const struct tls_session_key *key, SSL_SESSION *session);

/*
 * The newest session of a server, which is the caller's; NULL: there is none that is valid. Those
 * of TLS 1.3 are used once (RFC 8446, C.4); one of TLS 1.2 stays. Any thread, like the others.
 */
SSL_SESSION *tls_sessions_take(tls_sessions *sessions, const struct tls_session_key *key);

/* A server's sessions go: a handshake with one has failed. */
void tls_sessions_drop(tls_sessions *sessions, const struct tls_session_key *key);

#endif
