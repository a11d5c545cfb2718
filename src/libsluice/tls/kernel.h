/*
 * Sockets whose records the kernel encrypts (kTLS, Documentation/networking/tls.rst), in TLS 1.3
 * and for sending. Nothing here knows a stage.
 */
#ifndef SLUICE_TLS_KERNEL_H
#define SLUICE_TLS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/evp.h>

enum {
    TLS_KERNEL_KEY_MAX = 32,
    TLS_KERNEL_IV = 12,
    TLS_KERNEL_OVERHEAD = 22, /* bytes of a record besides its plaintext: header, type, tag */
    TLS_KERNEL_ALERT = 21,    /* types of records */
    TLS_KERNEL_HANDSHAKE = 22,
    TLS_KERNEL_DATA = 23,
};

/* A cipher suite that the kernel may have. */
struct tls_kernel_cipher {
    uint16_t suite; /* RFC 8446, B.4 */
    uint16_t type;  /* the kernel's number */
    uint8_t key;    /* bytes */
    uint8_t salt;   /* bytes of the vector that the kernel wants apart */
};

struct tls_kernel_key {
    const struct tls_kernel_cipher *cipher;
    uint8_t key[TLS_KERNEL_KEY_MAX];
    uint8_t iv[TLS_KERNEL_IV];
    uint64_t sequence; /* of the next record */
};

/* NULL: not one of them. */
const struct tls_kernel_cipher *tls_kernel_cipher_of(uint16_t suite);

/* Makes a connected TCP socket one that can be given a key. Sends stay as they are until then. 0;
 * -ENOENT: the kernel has no module "tls", or it has not been loaded; or setsockopt(2)'s error */
int tls_kernel_prepare(int fd);

/* What is sent from now on is encrypted. Again, where the kernel allows it: with another key. 0, or
 * the error: -EBUSY (the kernel does not change keys), -ENOENT (no such cipher) */
int tls_kernel_set_key(int fd, const struct tls_kernel_key *key);

/* The number of the record that is sent next with the current key. 0, or the error */
int tls_kernel_sequence(int fd, const struct tls_kernel_cipher *cipher, uint64_t *ret_sequence);

/* Sends a whole record that has no data, without waiting. 0, -EAGAIN, or the error */
int tls_kernel_send(int fd, uint8_t type, const void *bytes, size_t n);

/* Bytes that TCP has been given so far, which are fewer than have been sent while the kernel holds
 * an encrypted record for which there was no room. Differences of it count. 0, or the error */
int tls_kernel_given(int fd, uint64_t *ret_bytes);

#endif
