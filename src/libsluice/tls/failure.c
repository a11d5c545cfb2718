/* How a stage fails: OpenSSL's reasons as errors of this library, and the alert for the peer. */
#include <errno.h>

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include "tls/stage.h"

int tls_fail(sluice_tls *tls, int error, sluice_tls_detail detail, const char *reason) {
    if (tls->error)
        return tls->error;
    /* The next connection begins anew, in case that it was the session. */
    if (tls->state == SLUICE_TLS_HANDSHAKE && tls->context->sessions)
        tls_sessions_drop(tls->context->sessions, &tls->session_key);
    tls->error = error;
    tls->detail = detail;
    tls->reason = reason;
    tls->state = SLUICE_TLS_FAILED;
    ERR_clear_error();
    /* The alert, which OpenSSL has encrypted. The connection may be closed next. */
    if (tls->writer && tls_stage_queue(tls) == 0)
        tls_stage_flush(tls);
    return error;
}

static int fail_verification(sluice_tls *tls) {
    long result = SSL_get_verify_result(tls->ssl);
    sluice_tls_detail detail = SLUICE_TLS_DETAIL_CERTIFICATE;
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        detail = SLUICE_TLS_DETAIL_EXPIRED;
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        detail = SLUICE_TLS_DETAIL_NAME;
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
        detail = SLUICE_TLS_DETAIL_UNTRUSTED;
        break;
    case X509_V_ERR_CERT_REJECTED:
        if (tls->context->pin_count > 0)
            return tls_fail(tls, -EKEYREJECTED, SLUICE_TLS_DETAIL_PIN, "the certificate is not a pinned one");
        break;
    case X509_V_ERR_OUT_OF_MEM:
        return tls_fail(tls, -ENOMEM, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    default:
        break;
    }
    return tls_fail(tls, -EKEYREJECTED, detail, X509_verify_cert_error_string(result));
}

/* The peer's alerts are among the reasons, above an offset. */
static bool is_alert(int reason) {
    return reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
}

static int fail_reason(sluice_tls *tls, int reason, const char *text) {
    switch (reason) {
    case ERR_R_MALLOC_FAILURE:
        return tls_fail(tls, -ENOMEM, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return fail_verification(tls);
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return tls_fail(tls, -EKEYREJECTED, SLUICE_TLS_DETAIL_NO_PEER, text);
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_VERSION_TOO_LOW:
        return tls_fail(tls, -EPROTONOSUPPORT, SLUICE_TLS_DETAIL_VERSION, text);
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return tls_fail(tls, -EPROTO, SLUICE_TLS_DETAIL_NO_SHARED, text);
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return tls_fail(tls, -EPROTO, SLUICE_TLS_DETAIL_ALPN, text);
    default:
        break;
    }
    if (!is_alert(reason))
        return tls_fail(tls, -EPROTO, SLUICE_TLS_DETAIL_PROTOCOL, text);
    tls->alert = reason - SSL_AD_REASON_OFFSET;
    bool version = tls->alert == SSL_AD_PROTOCOL_VERSION;
    return tls_fail(tls, version ? -EPROTONOSUPPORT : -EPROTO,
                    version ? SLUICE_TLS_DETAIL_VERSION : SLUICE_TLS_DETAIL_ALERT, text);
}

/* There are none, as a rule, and to clear them all costs as much as to read a record's header. */
void tls_drop_errors(void) {
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

int tls_fail_ssl(sluice_tls *tls, int ssl_error) {
    unsigned long error = ERR_peek_error();
    if (tls->flooded && tls->state == SLUICE_TLS_HANDSHAKE)
        return tls_fail(tls, -EMSGSIZE, SLUICE_TLS_DETAIL_HANDSHAKE, "the handshake is too large");
    if (tls->flooded)
        return tls_fail(tls, -EPROTO, SLUICE_TLS_DETAIL_FLOOD, "the peer sends requests and does not read");
    if (error == 0)
        return tls_fail(tls, -EPROTO, SLUICE_TLS_DETAIL_PROTOCOL,
                        ssl_error == SSL_ERROR_WANT_WRITE ? "no block for a record" : "unexpected state");
    /* A verification that failed is not the first error of all. */
    for (unsigned long next = error; next != 0; next = ERR_get_error())
        if (ERR_GET_LIB(next) == ERR_LIB_SSL && ERR_GET_REASON(next) == SSL_R_CERTIFICATE_VERIFY_FAILED)
            return fail_verification(tls);
        else if (ERR_GET_REASON(next) == ERR_R_MALLOC_FAILURE)
            return tls_fail(tls, -ENOMEM, SLUICE_TLS_DETAIL_MEMORY, "no memory");
    const char *text = ERR_reason_error_string(error);
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    return fail_reason(tls, reason, text ? text : "unknown error");
}
