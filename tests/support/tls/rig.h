/* Stages on a loop: ends of connections that send and check pattern bytes. */
#ifndef SLUICE_TESTS_SUPPORT_TLS_RIG_H
#define SLUICE_TESTS_SUPPORT_TLS_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/conn.h>
#include <sluice/tls.h>

#include "support/sockets.h"
#include "support/tls/certificates.h"

/* One end of a connection, with its stage. */
typedef struct tls_end {
    sluice_conn *conn;
    sluice_tls *tls;
    uint32_t seed;     /* of both directions */
    uint64_t received; /* and consumed */
    uint64_t total;    /* that are to be sent; 0: none */
    uint64_t sent;     /* to the stage */
    bool finishes;     /* close_notify after these */
    bool holds;        /* plaintext stays in the chain */
    bool stays;        /* open after an error and the end */
    bool moving;       /* leaves its loop: nothing is freed */
    bool differs;
    int error;                  /* the first of the stage */
    bool notified;              /* receive has returned -ENODATA */
    bool ended;                 /* on_end; */
    int end;                    /* what sluice_tls_end() said, or the connection's error */
    unsigned calls;             /* of on_data */
    void (*before)(void *user); /* called before each sluice_tls_receive(), if set */
    void *user;
    bool closed;
    sluice_tls_state state; /* when it was closed */
    sluice_tls_detail detail;
    const char *reason;
    int alert;
    sluice_tls_stats stats;
} tls_end;

extern const sluice_conn_events tls_end_events;

/* A connection with its stage at the descriptor. */
void tls_end_open(tls_end *end, sluice_loop *loop, int fd, sluice_tls_context *context, const char *name);

/* Sends what is to be sent, as far as there is room. */
void tls_end_pump(tls_end *end);

/* Turns until the handshake is complete. */
void tls_end_until_open(tls_end *end, sluice_loop *loop);

/* Turns until so many bytes have been received. */
void tls_end_until_received(tls_end *end, sluice_loop *loop, uint64_t total);

void tls_end_close(tls_end *end, sluice_loop *loop);

/* A context of a server with a certificate for localhost, and one of a client that trusts it. */
typedef struct tls_pki {
    made_certificate ca, leaf;
    sluice_tls_context *server, *client;
} tls_pki;

/* Options may be NULL. */
void tls_pki_open(tls_pki *pki, const sluice_tls_context_options *server, const sluice_tls_context_options *client);
void tls_pki_close(tls_pki *pki);

/* Options of a client that trusts a certificate. */
sluice_tls_context_options tls_client_options(const made_certificate *ca);

#endif
