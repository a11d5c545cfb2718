#include "tls/certificate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "abi/sized.h"

enum { CHAIN_MAX = 10, NAME_MAX_LENGTH = 253 };

int tls_pem_open(const char *path, const void *memory, size_t length, BIO **ret_bio) {
    if ((path == NULL) == (memory == NULL) || length > INT32_MAX)
        return -EINVAL;
    errno = 0;
    BIO *bio = path ? BIO_new_file(path, "r") : BIO_new_mem_buf(memory, (int)length);
    if (!bio)
        return path && errno > 0 ? -errno : -ENOMEM;
    *ret_bio = bio;
    return 0;
}

/* What the last PEM call has failed with. */
static int pem_error(void) {
    unsigned long error = ERR_peek_last_error();
    if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE)
        return -ENOMEM;
    if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE)
        return -ENODATA;
    return -EPROTO;
}

int tls_pem_certificate(BIO *bio, X509 **ret_certificate) {
    ERR_clear_error();
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    if (!certificate)
        return pem_error();
    *ret_certificate = certificate;
    return 0;
}

/* The key is not asked for a password: nobody is there to answer. */
static int no_password(char *buffer, int size, int writing, void *user) {
    (void)buffer, (void)size, (void)writing;
    *(bool *)user = true;
    return -1;
}

static int read_key(BIO *bio, EVP_PKEY **ret_key) {
    bool asked = false;
    ERR_clear_error();
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, &asked);
    if (!key) {
        int error = asked ? -EACCES : pem_error();
        return error == -ENODATA ? -EPROTO : error;
    }
    *ret_key = key;
    return 0;
}

static int read_chain(BIO *bio, struct tls_certificate *certificate) {
    int error = tls_pem_certificate(bio, &certificate->leaf);
    if (error)
        return error == -ENODATA ? -EPROTO : error;
    certificate->chain = sk_X509_new_null();
    if (!certificate->chain)
        return -ENOMEM;
    for (;;) {
        X509 *next = NULL;
        error = tls_pem_certificate(bio, &next);
        if (error)
            return error == -ENODATA ? 0 : error;
        if (sk_X509_num(certificate->chain) == CHAIN_MAX || sk_X509_push(certificate->chain, next) == 0) {
            error = sk_X509_num(certificate->chain) == CHAIN_MAX ? -EPROTO : -ENOMEM;
            X509_free(next);
            return error;
        }
    }
}

static int describe(struct tls_certificate *certificate) {
    ASN1_TIME *from = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    bool known = from && ASN1_TIME_diff(&days, &seconds, from, X509_get0_notAfter(certificate->leaf)) == 1;
    ASN1_TIME_free(from);
    certificate->expires = (int64_t)days * 86400 + seconds;
    unsigned size = sizeof certificate->hash;
    BIO *text = BIO_new(BIO_s_mem());
    char *bytes;
    long length = -1;
    if (text && X509_NAME_print_ex(text, X509_get_subject_name(certificate->leaf), 0, XN_FLAG_RFC2253) >= 0)
        length = BIO_get_mem_data(text, &bytes);
    if (length >= 0)
        certificate->subject = strndup(bytes, (size_t)length);
    BIO_free(text);
    if (X509_digest(certificate->leaf, EVP_sha256(), certificate->hash, &size) != 1 || !certificate->subject)
        return -ENOMEM;
    return known ? 0 : -EPROTO;
}

static void discard(struct tls_certificate *certificate) {
    free(certificate->name);
    free(certificate->subject);
    X509_free(certificate->leaf);
    EVP_PKEY_free(certificate->key);
    sk_X509_pop_free(certificate->chain, X509_free);
}

static int load(const sluice_tls_certificate *user, struct tls_certificate *certificate) {
    BIO *bio;
    int error = tls_pem_open(user->chain_path, user->chain, user->chain_length, &bio);
    if (error)
        return error;
    error = read_chain(bio, certificate);
    BIO_free(bio);
    if (!error)
        error = tls_pem_open(user->key_path, user->key, user->key_length, &bio);
    if (error)
        return error;
    error = read_key(bio, &certificate->key);
    BIO_free(bio);
    if (!error && X509_check_private_key(certificate->leaf, certificate->key) != 1)
        error = -EKEYREJECTED;
    if (!error && user->name) {
        certificate->name = strdup(user->name);
        error = certificate->name ? 0 : -ENOMEM;
    }
    return error ? error : describe(certificate);
}

/* A certificate without a name has names of its own, and shares nothing. */
static bool is_same_name(const struct tls_certificate *a, const struct tls_certificate *b) {
    return a == b || (a->name && b->name && strcasecmp(a->name, b->name) == 0);
}

static bool has_type(const sluice_tls_context *context, const struct tls_certificate *added) {
    for (size_t i = 0; i < context->count; i++) {
        const struct tls_certificate *other = &context->certificates[i];
        bool same = context->role == SLUICE_TLS_CLIENT || is_same_name(other, added);
        if (same && EVP_PKEY_get_base_id(other->key) == EVP_PKEY_get_base_id(added->key))
            return true;
    }
    return false;
}

/* Clients have it in their context. Servers choose for each connection; here they learn whether
 * OpenSSL takes it. */
static int try_out(sluice_tls_context *context, struct tls_certificate *added) {
    SSL_CTX *ssl = context->role == SLUICE_TLS_CLIENT ? context->ssl : SSL_CTX_new(TLS_server_method());
    if (!ssl)
        return -ENOMEM;
    SSL_CTX_set_security_level(ssl, SSL_CTX_get_security_level(context->ssl));
    ERR_clear_error();
    int error = 0;
    if (SSL_CTX_use_cert_and_key(ssl, added->leaf, added->key, added->chain, 1) != 1)
        error = ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE ? -ENOMEM : -EKEYREJECTED;
    if (ssl != context->ssl)
        SSL_CTX_free(ssl);
    return error;
}

/* What is sent to clients that name nothing, or something unknown. */
static const struct tls_certificate *default_of(const sluice_tls_context *context) {
    for (size_t i = 0; i < context->count; i++)
        if (!context->certificates[i].name)
            return &context->certificates[i];
    return &context->certificates[0];
}

int sluice_tls_context_add_certificate(sluice_tls_context *context, const sluice_tls_certificate *user) {
    if (!context || !user || SIZED_CHECK(user) < 0 || (user->name && strlen(user->name) > NAME_MAX_LENGTH))
        return -EINVAL;
    if (atomic_load_explicit(&context->in_use, memory_order_relaxed))
        return -EBUSY;
    if (context->count == SLUICE_TLS_CERTIFICATES_MAX)
        return -EMSGSIZE;
    struct tls_certificate *grown = reallocarray(context->certificates, context->count + 1,
                                                 sizeof *context->certificates);
    if (!grown)
        return -ENOMEM;
    context->certificates = grown;
    struct tls_certificate added = {0};
    int error = load(user, &added);
    if (!error)
        error = has_type(context, &added) ? -EEXIST : try_out(context, &added);
    ERR_clear_error();
    if (error) {
        discard(&added);
        return error;
    }
    context->certificates[context->count++] = added;
    return 0;
}

int sluice_tls_context_get_certificate(const sluice_tls_context *context, size_t index,
                                       sluice_tls_certificate_info *ret_info) {
    if (index >= context->count)
        return -ENOENT;
    const struct tls_certificate *certificate = &context->certificates[index];
    sluice_tls_certificate_info info = {
        .name = certificate->name, .subject = certificate->subject, .expires = certificate->expires};
    memcpy(info.hash, certificate->hash, sizeof info.hash);
    return sized_write(ret_info, &info, sizeof info, sizeof info);
}

/* "*.example.org" is for one more label. */
static bool fits(const char *pattern, const char *name) {
    if (pattern[0] == '*' && pattern[1] == '.') {
        const char *rest = strchr(name, '.');
        return rest && rest != name && strcasecmp(pattern + 1, rest) == 0;
    }
    return strcasecmp(pattern, name) == 0;
}

static const struct tls_certificate *find(const sluice_tls_context *context, const char *name) {
    const struct tls_certificate *starred = NULL;
    for (size_t i = 0; i < context->count; i++) {
        const struct tls_certificate *certificate = &context->certificates[i];
        if (!certificate->name || !fits(certificate->name, name))
            continue;
        if (certificate->name[0] != '*')
            return certificate;
        starred = starred ? starred : certificate;
    }
    for (size_t i = 0; !starred && i < context->count; i++)
        if (!context->certificates[i].name &&
            X509_check_host(context->certificates[i].leaf, name, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1)
            return &context->certificates[i];
    return starred;
}

int tls_certificate_name(SSL *ssl, int *alert, void *user) {
    const sluice_tls_context *context = user;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    (void)alert;
    return name && find(context, name) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

int tls_certificate_choose(SSL *ssl, void *user) {
    const sluice_tls_context *context = user;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct tls_certificate *found = name ? find(context, name) : NULL;
    found = found ? found : default_of(context);
    for (size_t i = 0; i < context->count; i++) {
        const struct tls_certificate *other = &context->certificates[i];
        if (is_same_name(found, other) && SSL_use_cert_and_key(ssl, other->leaf, other->key, other->chain, 1) != 1)
            return 0;
    }
    return 1;
}

void tls_certificates_free(sluice_tls_context *context) {
    for (size_t i = 0; i < context->count; i++)
        discard(&context->certificates[i]);
    free(context->certificates);
}
