/* Certificates of a context: loaded, and chosen by the name that a client has sent. */
#ifndef SLUICE_TLS_CERTIFICATE_H
#define SLUICE_TLS_CERTIFICATE_H

#include "tls/context.h"

/* A PEM that is in a file or in memory; exactly one. 0, -EINVAL, -ENOMEM, or open(2)'s error */
int tls_pem_open(const char *path, const void *memory, size_t length, BIO **ret_bio);

/* The next certificate. 0, -ENODATA (no more), -EPROTO, -ENOMEM */
int tls_pem_certificate(BIO *bio, X509 **ret_certificate);

/* OpenSSL's callbacks; the user pointer is the context. The first acknowledges a server name that
 * there is a certificate for; the second sets the certificates of a connection that needs one. All
 * else is the same whatever the name. */
int tls_certificate_name(SSL *ssl, int *alert, void *user);
int tls_certificate_choose(SSL *ssl, void *user);

void tls_certificates_free(sluice_tls_context *context);

#endif
