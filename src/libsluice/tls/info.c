/* What was negotiated, and the peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/x509v3.h>

#include "abi/sized.h"
#include "tls/stage.h"

enum { NAME_MAX_LENGTH = 255 };

/* A text of a certificate; "" for one that a log or a rule must not see. NULL: no memory */
static char *text_of(const ASN1_STRING *string) {
    unsigned char *bytes = NULL;
    int n = string ? ASN1_STRING_to_UTF8(&bytes, string) : 0;
    bool fine = n > 0 && n <= NAME_MAX_LENGTH;
    for (int i = 0; fine && i < n; i++)
        fine = bytes[i] >= ' ' && bytes[i] != 0x7F;
    char *text = fine ? strndup((const char *)bytes, (size_t)n) : strdup("");
    OPENSSL_free(bytes);
    return text;
}

/* The common name, else the first DNS name. */
static char *name_of(X509 *certificate) {
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0)
        return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const ASN1_STRING *found = NULL;
    for (int i = 0; !found && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            found = name->d.dNSName;
    }
    char *text = text_of(found);
    GENERAL_NAMES_free(names);
    return text;
}

static char *subject_of(X509 *certificate) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes, *text = NULL;
    if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
        long length = BIO_get_mem_data(bio, &bytes);
        text = strndup(length > 0 ? bytes : "", length > 0 ? (size_t)length : 0);
    }
    BIO_free(bio);
    return text;
}

static int keep_peer(sluice_tls *tls) {
    X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    unsigned size = sizeof tls->peer_hash;
    if (!certificate)
        return 0;
    tls->peer_name = name_of(certificate);
    tls->peer_subject = subject_of(certificate);
    if (!tls->peer_name || !tls->peer_subject || X509_digest(certificate, EVP_sha256(), tls->peer_hash, &size) != 1)
        return -ENOMEM;
    return 0;
}

int tls_info_keep(sluice_tls *tls) {
    const unsigned char *alpn;
    unsigned length;
    SSL_get0_alpn_selected(tls->ssl, &alpn, &length);
    tls->alpn = length > 0 ? tls_context_alpn(tls->context, alpn, length) : NULL;
    if (length > 0 && !tls->alpn)
        return -EPROTO;
    return keep_peer(tls);
}

int sluice_tls_get_info(const sluice_tls *tls, sluice_tls_info *ret_info) {
    if (!SSL_is_init_finished(tls->ssl) || tls->state == SLUICE_TLS_HANDSHAKE)
        return -EAGAIN;
    sluice_tls_info info = {
        .version = (sluice_tls_version)SSL_version(tls->ssl),
        .resumed = SSL_session_reused(tls->ssl) == 1,
        .cipher = SSL_CIPHER_standard_name(SSL_get_current_cipher(tls->ssl)),
        .alpn = tls->alpn,
        .server_name = SSL_get_servername(tls->ssl, TLSEXT_NAMETYPE_host_name),
        .peer_name = tls->peer_name && tls->peer_name[0] ? tls->peer_name : NULL,
        .peer_subject = tls->peer_subject,
        .peer_verified = tls->peer_subject && tls->context->verify != SLUICE_TLS_VERIFY_NONE &&
                         SSL_get_verify_result(tls->ssl) == X509_V_OK,
    };
    info.kernel_sends = tls->kernel.state == TLS_KERNEL_SENDS;
    memcpy(info.peer_hash, tls->peer_hash, sizeof info.peer_hash);
    return sized_write(ret_info, &info, sizeof info, sizeof info);
}
