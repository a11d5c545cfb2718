#include "tls/secret.h"

#include <errno.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

enum {
    RANDOM_DIGITS = 64, /* of the client's random bytes, which tell connections apart in a file */
    LABEL_MAX = 32,
};

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tls_secret_read(struct tls_secret *secret, const char *line, bool is_server) {
    const char *name = is_server ? "SERVER_TRAFFIC_SECRET_0 " : "CLIENT_TRAFFIC_SECRET_0 ";
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || strlen(line) <= length + RANDOM_DIGITS)
        return false;
    const char *digits = line + length + RANDOM_DIGITS + 1;
    size_t count = strlen(digits);
    if (count % 2 != 0 || count > sizeof secret->bytes * 2)
        return false;
    for (size_t i = 0; i < count / 2; i++) {
        int high = digit_of(digits[2 * i]), low = digit_of(digits[2 * i + 1]);
        if (high < 0 || low < 0) {
            tls_secret_cleanse(secret);
            return false;
        }
        secret->bytes[i] = (uint8_t)(high << 4 | low);
    }
    secret->length = count / 2;
    return true;
}

/* RFC 8446, 7.1: the length, the label behind "tls13 ", no context. */
static size_t make_info(uint8_t *info, const char *label, size_t n) {
    static const char prefix[] = "tls13 ";
    size_t size = strlen(prefix) + strlen(label);
    info[0] = (uint8_t)(n >> 8);
    info[1] = (uint8_t)n;
    info[2] = (uint8_t)size;
    memcpy(info + 3, prefix, strlen(prefix));
    memcpy(info + 3 + strlen(prefix), label, strlen(label));
    info[3 + size] = 0;
    return 4 + size;
}

int tls_secret_expand(const struct tls_secret *secret, const EVP_MD *digest, const char *label, uint8_t *bytes,
                      size_t n) {
    uint8_t info[LABEL_MAX];
    size_t size = make_info(info, label, n);
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)EVP_MD_get0_name(digest), 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret->bytes, secret->length),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, size),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    int result = context ? EVP_KDF_derive(context, bytes, n, params) : 0;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return result == 1 ? 0 : -ENOMEM;
}

int tls_secret_next(struct tls_secret *secret, const EVP_MD *digest) {
    struct tls_secret next = {.length = secret->length};
    int error = tls_secret_expand(secret, digest, "traffic upd", next.bytes, next.length);
    if (!error)
        *secret = next;
    tls_secret_cleanse(&next);
    return error;
}

void tls_secret_cleanse(struct tls_secret *secret) {
    OPENSSL_cleanse(secret, sizeof *secret);
}
