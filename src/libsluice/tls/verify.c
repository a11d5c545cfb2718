#include "tls/verify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include "tls/certificate.h"

enum { DEPTH = 8, NAME_MAX_LENGTH = 253 };

/* In place of all other checks. */
static int verify_pin(X509_STORE_CTX *store, void *user) {
    const sluice_tls_context *context = user;
    uint8_t hash[SLUICE_TLS_HASH];
    unsigned size = sizeof hash;
    X509 *leaf = X509_STORE_CTX_get0_cert(store);
    if (leaf && X509_digest(leaf, EVP_sha256(), hash, &size) == 1)
        for (size_t i = 0; i < context->pin_count; i++)
            if (memcmp(context->pins + i * sizeof hash, hash, sizeof hash) == 0) {
                X509_STORE_CTX_set_error(store, X509_V_OK);
                return 1;
            }
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

/* Each is trusted, and named to clients as an issuer that is accepted. */
static int trust(sluice_tls_context *context, BIO *bio, EVP_MD_CTX *digest) {
    X509_STORE *store = SSL_CTX_get_cert_store(context->ssl);
    for (size_t count = 0;; count++) {
        X509 *certificate = NULL;
        uint8_t hash[SLUICE_TLS_HASH];
        unsigned size = sizeof hash;
        int error = tls_pem_certificate(bio, &certificate);
        if (error == -ENODATA)
            return count > 0 ? 0 : -EPROTO;
        if (error)
            return error;
        /* What verification reads of an issuer is worked out now: threads share contexts. */
        (void)X509_check_purpose(certificate, -1, 0);
        bool added = X509_STORE_add_cert(store, certificate) == 1 &&
                     (context->role == SLUICE_TLS_CLIENT || SSL_CTX_add_client_CA(context->ssl, certificate) == 1) &&
                     X509_digest(certificate, EVP_sha256(), hash, &size) == 1 &&
                     EVP_DigestUpdate(digest, hash, size) == 1;
        X509_free(certificate);
        if (!added)
            return -ENOMEM;
    }
}

static int set_trust(sluice_tls_context *context, const sluice_tls_context_options *options, EVP_MD_CTX *digest) {
    bool has_ca = options->ca_path || options->ca;
    if (context->role == SLUICE_TLS_SERVER && (!has_ca || options->ca_system))
        return -EINVAL;
    if ((!has_ca || options->ca_system) && SSL_CTX_set_default_verify_paths(context->ssl) != 1)
        return -ENOMEM;
    if (!has_ca)
        return 0;
    BIO *bio;
    int error = tls_pem_open(options->ca_path, options->ca, options->ca_length, &bio);
    if (error)
        return error;
    error = trust(context, bio, digest);
    BIO_free(bio);
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context->ssl), X509_V_FLAG_PARTIAL_CHAIN);
    return error;
}

static int set_pins(sluice_tls_context *context, const sluice_tls_context_options *options, EVP_MD_CTX *digest) {
    size_t size = options->pin_count * SLUICE_TLS_HASH;
    context->pins = malloc(size);
    if (!context->pins)
        return -ENOMEM;
    memcpy(context->pins, options->pins, size);
    context->pin_count = options->pin_count;
    SSL_CTX_set_cert_verify_callback(context->ssl, verify_pin, context);
    return EVP_DigestUpdate(digest, context->pins, size) == 1 ? 0 : -ENOMEM;
}

static int set_rules(sluice_tls_context *context, const sluice_tls_context_options *options, EVP_MD_CTX *digest) {
    int mode = SSL_VERIFY_PEER | (context->verify == SLUICE_TLS_VERIFY_REQUIRED ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
    unsigned size = sizeof context->rules;
    int error = 0;
    if (context->verify == SLUICE_TLS_VERIFY_NONE)
        mode = SSL_VERIFY_NONE;
    else
        error = options->pin_count > 0 ? set_pins(context, options, digest) : set_trust(context, options, digest);
    if (error)
        return error;
    SSL_CTX_set_verify(context->ssl, mode, NULL);
    SSL_CTX_set_verify_depth(context->ssl, DEPTH);
    SSL_CTX_set_max_cert_list(context->ssl, (long)context->handshake_limit);
    /* A ticket stands for a verified certificate: it is accepted under the rules of its time. */
    if (EVP_DigestUpdate(digest, &mode, sizeof mode) != 1 || EVP_DigestFinal_ex(digest, context->rules, &size) != 1 ||
        SSL_CTX_set_session_id_context(context->ssl, context->rules, size) != 1)
        return -ENOMEM;
    return 0;
}

int tls_verify_set(sluice_tls_context *context, const sluice_tls_context_options *options) {
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    int error = -ENOMEM;
    if (digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1)
        error = set_rules(context, options, digest);
    EVP_MD_CTX_free(digest);
    return error;
}

static bool is_address(const char *name) {
    unsigned char bytes[16];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

int tls_verify_name(const sluice_tls_context *context, SSL *ssl, const char *name) {
    bool needed = context->verify != SLUICE_TLS_VERIFY_NONE && context->pin_count == 0;
    if (!name)
        return needed ? -EINVAL : 0;
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_LENGTH)
        return -EINVAL;
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (is_address(name))
        return !needed || X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1 ? 0 : -ENOMEM;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set_tlsext_host_name(ssl, name) != 1 || (needed && X509_VERIFY_PARAM_set1_host(param, name, length) != 1))
        return -ENOMEM;
    return 0;
}

/* Seconds since 1970 at which a certificate expires; -1: unknown. */
static int64_t end_of(const X509 *certificate) {
    struct tm tm = {0};
    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1 ? (int64_t)timegm(&tm) : -1;
}

bool tls_verify_note(const sluice_tls_context *context, SSL *ssl, SSL_SESSION *session) {
    /* Pins have no chain, and one that was not verified does not count. */
    bool is_verified = context->verify != SLUICE_TLS_VERIFY_NONE && context->pin_count == 0;
    STACK_OF(X509) *chain = is_verified && !SSL_session_reused(ssl) ? SSL_get0_verified_chain(ssl) : NULL;
    int64_t first = INT64_MAX;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t end = end_of(sk_X509_value(chain, i));
        if (end < first)
            first = end;
    }
    return first == INT64_MAX || SSL_SESSION_set1_ticket_appdata(session, &first, sizeof first) == 1;
}

bool tls_verify_has_expired(SSL_SESSION *session) {
    void *note = NULL;
    size_t size = 0;
    int64_t first;
    if (SSL_SESSION_get0_ticket_appdata(session, &note, &size) != 1 || size != sizeof first)
        return false;
    memcpy(&first, note, sizeof first);
    return (int64_t)time(NULL) >= first;
}
