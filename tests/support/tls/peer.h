/*
 * The other side of a TLS connection that is not ours: OpenSSL with memory BIOs at a plain socket,
 * whose bytes can be sent in pieces, changed or left out.
 */
#ifndef SLUICE_TESTS_SUPPORT_TLS_PEER_H
#define SLUICE_TESTS_SUPPORT_TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include <sluice/loop.h>

typedef struct tls_peer {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    int fd;
    sluice_loop *loop; /* of the stage, for turns */
    size_t piece;      /* bytes of a write; 0: all at once */
} tls_peer;

/* A client's (or a server's) side at the socket, which stays the test's. Verifies nothing. */
void tls_peer_open(tls_peer *peer, sluice_loop *loop, int fd, bool is_server);
void tls_peer_close(tls_peer *peer);

/* What OpenSSL wants to send goes to the socket, with turns of the loop between the pieces. */
void tls_peer_flush(tls_peer *peer);
/* What is there to be received goes to OpenSSL. False: the stage has finished sending. */
bool tls_peer_fill(tls_peer *peer);

/* Flushes, turns and fills until the handshake is complete or has failed: 1, or SSL_get_error()'s
 * number, negative. */
int tls_peer_handshake(tls_peer *peer);

/* Data, in one record if it fits; and all that comes until @n bytes are there. */
void tls_peer_write(tls_peer *peer, const void *bytes, size_t n);
void tls_peer_read(tls_peer *peer, void *bytes, size_t n);

/* Until the stage ends the stream; false: without close_notify. */
bool tls_peer_read_end(tls_peer *peer);

#endif
