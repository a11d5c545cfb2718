/*
 * Sending by the kernel: a stage hands it the key, and from then on plaintext. OpenSSL still
 * decides about messages besides data. Those that it writes are dropped, and sent by the kernel
 * instead.
 */
#ifndef SLUICE_TLS_KERNEL_SEND_H
#define SLUICE_TLS_KERNEL_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include <sluice/tls.h>

#include "tls/kernel.h"
#include "tls/secret.h"

enum tls_kernel_state {
    /* OpenSSL encrypts, to the end: set by sluice_tls_new(), and by tls_kernel_start() and
     * tls_kernel_updated() after a failure */
    TLS_KERNEL_NEVER,
    TLS_KERNEL_MAY,   /* the secret is there: set by tls_kernel_note() */
    TLS_KERNEL_SENDS, /* the socket has the key: set by tls_kernel_start() */
};

/* A stage's part of it. All zero: NEVER. */
struct tls_kernel_part {
    enum tls_kernel_state state;
    struct tls_secret secret; /* of the current key; cleansed once it is of no more use */
    const struct tls_kernel_cipher *cipher;
    uint64_t sealed;   /* OpenSSL's records of that key */
    uint64_t sequence; /* of the kernel's next record, as last asked */
    uint64_t unseen;   /* bytes since then: there are no more records */
    uint64_t records;  /* that the kernel has encrypted, to the same place */
    uint64_t bytes;    /* of plaintext, all */
    uint64_t given;    /* tls_kernel_given() at the beginning */
    bool passing;      /* the pieces gathered last are the user's */
    bool update_due;   /* KeyUpdate is to be sent, after which the key changes; */
    bool update_asks;  /* it requests the same of the peer */
    bool alert_due;
    bool draining; /* until TCP has close_notify: a shutdown would cut it off */
    bool expired;  /* a new key is wanted that the kernel cannot set */
    bool broken;   /* the peer has a newer key than the kernel: nothing may be sent */
    uint8_t alert[2];
};

/* For SSL_CTX_set_keylog_callback(). */
void tls_kernel_note(const SSL *ssl, const char *line);

/* OpenSSL has set another key for sending, before the kernel had one. */
void tls_kernel_updated(sluice_tls *tls);

/* A message that OpenSSL has written since: an alert or KeyUpdate. */
void tls_kernel_message(sluice_tls *tls, int type, const uint8_t *bytes, size_t n);

/* Hands the kernel the key when that is possible now. True: it encrypts */
bool tls_kernel_start(sluice_tls *tls);

/* Before data: the key must be allowed more records. 0, or the final error */
int tls_kernel_check_key(sluice_tls *tls);

/* Bytes of plaintext have been sent. */
void tls_kernel_sent(sluice_tls *tls, size_t bytes);

/* close_notify, when all data has been sent. */
void tls_kernel_close(sluice_tls *tls);

/* Sends what is due and follows the data, which must have been sent; later, by the timer, when
 * there is no room. */
void tls_kernel_flush(sluice_tls *tls);

/* Bytes that are still to be sent besides data. */
size_t tls_kernel_due(const sluice_tls *tls);

/* Fails with close_notify for the peer. The error */
int tls_kernel_expire(sluice_tls *tls, const char *reason);

/* The kernel's records so far; of a connection that closes, those that were last asked for. */
uint64_t tls_kernel_records(const sluice_tls *tls);

#endif
