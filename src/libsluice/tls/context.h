/* What connections have in common: OpenSSL's contexts, certificates by name, rules for peers. */
#ifndef SLUICE_TLS_CONTEXT_H
#define SLUICE_TLS_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include <sluice/tls.h>

#include "tls/sessions.h"
#include "tls/tickets.h"

enum { TLS_ALPN_MAX = 16 }; /* protocols of a context */

/* A certificate that was added. */
struct tls_certificate {
    char *name; /* NULL: the names that it contains */
    char *subject;
    X509 *leaf;
    EVP_PKEY *key;
    STACK_OF(X509) * chain; /* the intermediates */
    int64_t expires;
    uint8_t hash[SLUICE_TLS_HASH];
};

struct sluice_tls_context {
    atomic_uint refs;
    atomic_bool in_use; /* set by the first sluice_tls_new(): certificates are fixed */
    sluice_tls_role role;
    sluice_tls_verify verify;
    uint8_t rules[SLUICE_TLS_HASH]; /* for peers; a session is resumed under the same ones */
    size_t queue_limit, handshake_limit;
    uint32_t rekey_records;
    sluice_tls_kernel_info kernel;
    bool has_probed; /* kernel is filled in */
    SSL_CTX *ssl;    /* every SSL is made of this one */
    BIO_METHOD *method;
    tls_tickets *tickets;   /* servers with tickets */
    tls_sessions *sessions; /* clients that resume */
    struct tls_certificate *certificates;
    size_t count;
    uint8_t *pins;
    size_t pin_count;
    char *alpn; /* the names, each with its end */
    const char *alpn_names[TLS_ALPN_MAX];
    size_t alpn_count;
    uint8_t *alpn_wire; /* as RFC 7301 has them */
    size_t alpn_size;
};

/* Of alpn_names, or NULL. */
const char *tls_context_alpn(const sluice_tls_context *context, const uint8_t *name, size_t length);

#endif
