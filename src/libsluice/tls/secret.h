/*
 * The secret of what one side sends in TLS 1.3, of which the keys of its records are made (RFC
 * 8446, 7.1 to 7.3). OpenSSL hands it out in its key log; the kernel needs the keys.
 */
#ifndef SLUICE_TLS_SECRET_H
#define SLUICE_TLS_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/evp.h>

enum { TLS_SECRET_MAX = 48 }; /* of SHA-384 */

struct tls_secret {
    uint8_t bytes[TLS_SECRET_MAX];
    size_t length; /* 0: there is none */
};

/* A line of OpenSSL's key log. True: it has this side's secret for data, which is kept. */
bool tls_secret_read(struct tls_secret *secret, const char *line, bool is_server);

/* HKDF-Expand-Label with an empty context, such as "key" and "iv". 0, -ENOMEM; on failure @bytes
 * have no meaning */
int tls_secret_expand(const struct tls_secret *secret, const EVP_MD *digest, const char *label, uint8_t *bytes,
                      size_t n);

/* The secret after a key update. 0, -ENOMEM (it is as before) */
int tls_secret_next(struct tls_secret *secret, const EVP_MD *digest);

void tls_secret_cleanse(struct tls_secret *secret);

#endif
