/* Certificates that are made for a test, in PEM. */
#ifndef SLUICE_TESTS_SUPPORT_TLS_CERTIFICATES_H
#define SLUICE_TESTS_SUPPORT_TLS_CERTIFICATES_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <sluice/tls.h>

/* A certificate with its key. The texts are from malloc(). */
typedef struct made_certificate {
    X509 *x509;
    EVP_PKEY *key;
    char *chain_pem, *key_pem;
} made_certificate;

/* What it says. */
typedef struct certificate_form {
    const char *name;               /* common name */
    const char *alternatives;       /* as OpenSSL's configuration has them; NULL: none */
    const made_certificate *issuer; /* NULL: itself */
    bool is_ca;
    bool rsa;      /* else ECDSA on P-256 */
    long from, to; /* seconds from now; both 0: valid for a day */
} certificate_form;

/* Fails the test if it cannot. */
made_certificate certificate_make(const certificate_form *form);
void certificate_free(made_certificate *certificate);

/* For sluice_tls_context_add_certificate(). */
sluice_tls_certificate certificate_option(const made_certificate *certificate, const char *name);

/* SHA-256 of the DER. */
void certificate_hash(const made_certificate *certificate, uint8_t ret_hash[SLUICE_TLS_HASH]);

#endif
