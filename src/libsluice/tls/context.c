#include "tls/context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "abi/sized.h"
#include "tls/bio.h"
#include "tls/certificate.h"
#include "tls/kernel_probe.h"
#include "tls/stage.h"
#include "tls/verify.h"

enum {
    QUEUE_LIMIT = 1 << 20,
    HANDSHAKE_LIMIT = 65536,
    REKEY_RECORDS = 1 << 24,
    TICKET_SECONDS = 43200,
    TICKET_SECONDS_MAX = 604800,
    ALPN_NAME_MAX = 255,
    SECURITY_LEVEL = 2, /* OpenSSL's: 112 bits; RSA from 2048 on */
};

/* AEAD with forward secrecy. TLS 1.3 has no others. */
static const char ciphers_1_2[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
static const char groups[] = "X25519:P-256";

static bool set_versions(SSL_CTX *ssl, const sluice_tls_context_options *options) {
    int min = options->min_version ? (int)options->min_version : TLS1_2_VERSION;
    int max = options->max_version ? (int)options->max_version : TLS1_3_VERSION;
    return SSL_CTX_set_min_proto_version(ssl, min) == 1 && SSL_CTX_set_max_proto_version(ssl, max) == 1;
}

/* The names' list, for display, comparison and the wire. */
static int set_alpn(sluice_tls_context *context, const char *list) {
    size_t size = strlen(list);
    context->alpn = strdup(list);
    context->alpn_wire = malloc(size + 1);
    if (!context->alpn || !context->alpn_wire)
        return -ENOMEM;
    char *at = context->alpn;
    for (char *name; (name = strsep(&at, ",")) != NULL;) {
        size_t length = strlen(name);
        if (length == 0 || length > ALPN_NAME_MAX || context->alpn_count == TLS_ALPN_MAX)
            return -EINVAL;
        context->alpn_names[context->alpn_count++] = name;
        context->alpn_wire[context->alpn_size++] = (uint8_t)length;
        memcpy(context->alpn_wire + context->alpn_size, name, length);
        context->alpn_size += length;
    }
    if (context->role == SLUICE_TLS_CLIENT)
        return SSL_CTX_set_alpn_protos(context->ssl, context->alpn_wire, (unsigned)context->alpn_size) ? -ENOMEM : 0;
    return 0;
}

const char *tls_context_alpn(const sluice_tls_context *context, const uint8_t *name, size_t length) {
    for (size_t i = 0; i < context->alpn_count; i++)
        if (strlen(context->alpn_names[i]) == length && memcmp(context->alpn_names[i], name, length) == 0)
            return context->alpn_names[i];
    return NULL;
}

static int select_alpn(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_length,
                       const unsigned char *offered, unsigned offered_size, void *user) {
    const sluice_tls_context *context = user;
    unsigned char *name;
    (void)ssl;
    if (SSL_select_next_proto(&name, ret_length, context->alpn_wire, (unsigned)context->alpn_size, offered,
                              offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = name;
    return SSL_TLSEXT_ERR_OK;
}

static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                      int encrypt) {
    const sluice_tls *tls = SSL_get_app_data(ssl);
    int found = tls_tickets_key(tls_stage_context(tls)->tickets, name, iv, cipher, mac, encrypt);
    /* In TLS 1.3 clients use a ticket once, so each connection brings another one. */
    return found == 1 && !encrypt && SSL_version(ssl) == TLS1_3_VERSION ? 2 : found;
}

/* A ticket is good for no longer than the client's certificates for which it stands. */
static int make_ticket(SSL *ssl, void *user) {
    return tls_verify_note(user, ssl, SSL_get_session(ssl));
}

static SSL_TICKET_RETURN check_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t length,
                                      SSL_TICKET_STATUS status, void *user) {
    (void)ssl, (void)name, (void)length, (void)user;
    if ((status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) || tls_verify_has_expired(session))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

/* A server has sent a ticket. The references of OpenSSL's stay its own. */
static int new_session(SSL *ssl, SSL_SESSION *session) {
    const sluice_tls *tls = SSL_get_app_data(ssl);
    if (tls_verify_note(tls->context, ssl, session))
        tls_sessions_put(tls->context->sessions, &tls->session_key, session);
    return 0;
}

static int set_sessions(sluice_tls_context *context, size_t most) {
    SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context->ssl, new_session);
    return tls_sessions_new(most, &context->sessions);
}

static int set_tickets(sluice_tls_context *context, const sluice_tls_context_options *options) {
    uint32_t seconds = options->ticket_seconds ? options->ticket_seconds : TICKET_SECONDS;
    if (context->role == SLUICE_TLS_CLIENT && options->sessions > 0)
        return set_sessions(context, options->sessions);
    if (context->role == SLUICE_TLS_CLIENT || options->no_tickets) {
        SSL_CTX_set_options(context->ssl, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(context->ssl, 0);
        return 0;
    }
    if (options->ticket_source && options->ticket_source->tickets)
        context->tickets = tls_tickets_ref(options->ticket_source->tickets);
    else {
        int error = tls_tickets_new(seconds, &context->tickets);
        if (error)
            return error;
    }
    SSL_CTX_set_num_tickets(context->ssl, 0); /* behind the handshake: see send_ticket() */
    SSL_CTX_set_timeout(context->ssl, seconds);
    if (SSL_CTX_set_tlsext_ticket_key_evp_cb(context->ssl, ticket_key) != 1 ||
        SSL_CTX_set_session_ticket_cb(context->ssl, make_ticket, check_ticket, context) != 1)
        return -ENOMEM;
    return 0;
}

/* Settings that are the same for all contexts. */
static int set_defaults(SSL_CTX *ssl) {
    SSL_CTX_set_read_ahead(ssl, 1); /* no further than the BIO lets it */
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    /* No early data, which could be replayed: a server's tickets allow none, and none is read. */
    if (SSL_CTX_set_max_early_data(ssl, 0) != 1 || SSL_CTX_set_recv_max_early_data(ssl, 0) != 1)
        return -EINVAL;
    SSL_CTX_set_security_level(ssl, SECURITY_LEVEL);
    if (SSL_CTX_set_cipher_list(ssl, ciphers_1_2) != 1 || SSL_CTX_set1_groups_list(ssl, groups) != 1)
        return -ENOMEM;
    return 0;
}

static int check_options(const sluice_tls_context_options *options) {
    bool versions = (options->min_version == 0 || options->min_version == SLUICE_TLS_1_2 ||
                     options->min_version == SLUICE_TLS_1_3) &&
                    (options->max_version == 0 || options->max_version == SLUICE_TLS_1_2 ||
                     options->max_version == SLUICE_TLS_1_3) &&
                    (options->max_version == 0 || options->min_version <= options->max_version);
    if (!versions || options->role > SLUICE_TLS_CLIENT || options->verify > SLUICE_TLS_VERIFY_REQUIRED)
        return -EINVAL;
    if (options->sessions > SLUICE_TLS_SESSIONS_MAX || (options->sessions > 0 && options->role == SLUICE_TLS_SERVER))
        return -EINVAL;
    if (options->ticket_seconds > TICKET_SECONDS_MAX || options->rekey_records > REKEY_RECORDS ||
        (options->queue_limit > 0 && options->queue_limit < SLUICE_TLS_QUEUE_MIN))
        return -EINVAL;
    if (options->pin_count > SLUICE_TLS_PINS_MAX || (options->pin_count > 0 && !options->pins) ||
        (options->ca_path && options->ca) || options->kernel > SLUICE_TLS_KERNEL_ANY)
        return -EINVAL;
    return 0;
}

/* Whether connections are to have their records encrypted by the kernel. */
static void set_kernel(sluice_tls_context *context, sluice_tls_kernel wanted) {
    if (wanted == SLUICE_TLS_KERNEL_OFF)
        return;
    tls_kernel_probe(&context->kernel);
    context->has_probed = true;
    context->kernel.is_used = context->kernel.sends &&
                              (context->kernel.changes_keys || wanted == SLUICE_TLS_KERNEL_ANY);
    if (context->kernel.is_used)
        SSL_CTX_set_keylog_callback(context->ssl, tls_kernel_note);
}

static int fill(sluice_tls_context *context, const sluice_tls_context_options *options) {
    context->role = options->role;
    context->verify = options->verify;
    context->queue_limit = options->queue_limit ? options->queue_limit : QUEUE_LIMIT;
    context->handshake_limit = options->handshake_limit ? options->handshake_limit : HANDSHAKE_LIMIT;
    context->rekey_records = options->rekey_records ? options->rekey_records : REKEY_RECORDS;
    if (context->verify == SLUICE_TLS_VERIFY_DEFAULT)
        context->verify = context->role == SLUICE_TLS_CLIENT ? SLUICE_TLS_VERIFY_REQUIRED : SLUICE_TLS_VERIFY_NONE;
    context->ssl = SSL_CTX_new(context->role == SLUICE_TLS_CLIENT ? TLS_client_method() : TLS_server_method());
    context->method = tls_bio_method();
    if (!context->ssl || !context->method || !set_versions(context->ssl, options))
        return -ENOMEM;
    int error = set_defaults(context->ssl);
    if (!error && options->alpn)
        error = set_alpn(context, options->alpn);
    if (!error)
        error = tls_verify_set(context, options);
    if (!error)
        error = set_tickets(context, options);
    if (error)
        return error;
    set_kernel(context, options->kernel);
    if (context->role == SLUICE_TLS_SERVER) {
        SSL_CTX_set_tlsext_servername_callback(context->ssl, tls_certificate_name);
        SSL_CTX_set_tlsext_servername_arg(context->ssl, context);
        SSL_CTX_set_cert_cb(context->ssl, tls_certificate_choose, context);
        if (context->alpn_count > 0)
            SSL_CTX_set_alpn_select_cb(context->ssl, select_alpn, context);
    }
    return 0;
}

int sluice_tls_context_new(const sluice_tls_context_options *user, sluice_tls_context **ret_context) {
    sluice_tls_context_options options;
    int error = SIZED_READ(&options, user);
    if (!error)
        error = check_options(&options);
    if (error)
        return error;
    sluice_tls_context *context = calloc(1, sizeof *context);
    if (!context)
        return -ENOMEM;
    atomic_init(&context->refs, 1);
    ERR_clear_error();
    error = fill(context, &options);
    ERR_clear_error();
    if (error) {
        sluice_tls_context_unref(context);
        return error;
    }
    *ret_context = context;
    return 0;
}

int sluice_tls_context_get_kernel(const sluice_tls_context *context, sluice_tls_kernel_info *ret_info) {
    return context->has_probed ? SIZED_WRITE(ret_info, &context->kernel) : -ENOENT;
}

int sluice_tls_context_rotate_tickets(sluice_tls_context *context) {
    return context->tickets ? tls_tickets_rotate(context->tickets) : 0;
}

sluice_tls_context *sluice_tls_context_ref(sluice_tls_context *context) {
    atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
    return context;
}

void sluice_tls_context_unref(sluice_tls_context *context) {
    if (!context || atomic_fetch_sub_explicit(&context->refs, 1, memory_order_acq_rel) != 1)
        return;
    tls_certificates_free(context);
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->method);
    tls_tickets_unref(context->tickets);
    tls_sessions_free(context->sessions);
    free(context->pins);
    free(context->alpn);
    free(context->alpn_wire);
    free(context);
}
