/*
 * OpenSSL's view of a connection: a BIO that reads from the connection's chain and writes to the
 * end of the chain of encrypted bytes. It never waits and never reports an end: OpenSSL is told to
 * come back.
 */
#ifndef SLUICE_TLS_BIO_H
#define SLUICE_TLS_BIO_H

#include <openssl/bio.h>

/* NULL: no memory. A BIO's data is the stage. */
BIO_METHOD *tls_bio_method(void);

#endif
