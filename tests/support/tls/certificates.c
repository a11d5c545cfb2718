#include "support/tls/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

static char *text_of(BIO *bio) {
    char *bytes;
    long length = BIO_get_mem_data(bio, &bytes);
    char *text = strndup(bytes, (size_t)length);
    assert_non_null(text);
    BIO_free(bio);
    return text;
}

static void add_extension(X509 *x509, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(x509, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

made_certificate certificate_make(const certificate_form *form) {
    static long serial = 1;
    made_certificate made = {.x509 = X509_new(), .key = form->rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256")};
    assert_non_null(made.x509);
    assert_non_null(made.key);
    X509 *issuer = form->issuer ? form->issuer->x509 : made.x509;
    X509_NAME *name = X509_get_subject_name(made.x509);
    X509_set_version(made.x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.x509), serial++);
    assert_int_equal(
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)form->name, -1, -1, 0), 1);
    assert_int_equal(X509_set_issuer_name(made.x509, X509_get_subject_name(issuer)), 1);
    bool always = form->from == 0 && form->to == 0;
    X509_gmtime_adj(X509_getm_notBefore(made.x509), always ? -3600 : form->from);
    X509_gmtime_adj(X509_getm_notAfter(made.x509), always ? 86400 : form->to);
    assert_int_equal(X509_set_pubkey(made.x509, made.key), 1);
    add_extension(made.x509, issuer, NID_basic_constraints, form->is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (form->alternatives)
        add_extension(made.x509, issuer, NID_subject_alt_name, form->alternatives);
    assert_true(X509_sign(made.x509, form->issuer ? form->issuer->key : made.key, EVP_sha256()) > 0);
    BIO *chain = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_X509(chain, made.x509), 1);
    assert_int_equal(PEM_write_bio_PrivateKey(key, made.key, NULL, NULL, 0, NULL, NULL), 1);
    made.chain_pem = text_of(chain);
    made.key_pem = text_of(key);
    return made;
}

void certificate_free(made_certificate *certificate) {
    X509_free(certificate->x509);
    EVP_PKEY_free(certificate->key);
    free(certificate->chain_pem);
    free(certificate->key_pem);
    *certificate = (made_certificate){0};
}

sluice_tls_certificate certificate_option(const made_certificate *certificate, const char *name) {
    return (sluice_tls_certificate){.size = sizeof(sluice_tls_certificate),
                                    .name = name,
                                    .chain = certificate->chain_pem,
                                    .chain_length = strlen(certificate->chain_pem),
                                    .key = certificate->key_pem,
                                    .key_length = strlen(certificate->key_pem)};
}

void certificate_hash(const made_certificate *certificate, uint8_t ret_hash[SLUICE_TLS_HASH]) {
    unsigned size = SLUICE_TLS_HASH;
    assert_int_equal(X509_digest(certificate->x509, EVP_sha256(), ret_hash, &size), 1);
}
