#include "shared/rtsp_digest.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/text.h"

enum { HASHED = 8192 };

bool rtsp_digest_algorithm(sluice_http_text name, bool *ret_sha256) {
    *ret_sha256 = text_folds_to(name, "SHA-256");
    return *ret_sha256 || name.length == 0 || text_folds_to(name, "MD5");
}

/* The hash of a text, as lower-case hexadecimal digits. */
__attribute__((format(printf, 3, 4))) static bool hash(bool sha256, char out[RTSP_DIGEST_TEXT], const char *format,
                                                       ...) {
    char text[HASHED];
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool done = length >= 0 && (size_t)length < sizeof text &&
                EVP_Digest(text, (size_t)length, digest, &size, sha256 ? EVP_sha256() : EVP_md5(), NULL) == 1;
    for (size_t i = 0; i < size; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    explicit_bzero(text, sizeof text);
    return done;
}

#define TEXT(of) (int)(of).length, (of).text

bool rtsp_digest(const struct rtsp_digest *digest, char response[RTSP_DIGEST_TEXT]) {
    char secret[RTSP_DIGEST_TEXT], request[RTSP_DIGEST_TEXT];
    bool done = hash(digest->sha256, secret, "%.*s:%.*s:%.*s", TEXT(digest->user), TEXT(digest->realm),
                     TEXT(digest->password)) &&
                hash(digest->sha256, request, "%.*s:%.*s", TEXT(digest->method), TEXT(digest->uri));
    if (done && digest->cnonce)
        done = hash(digest->sha256, response, "%s:%.*s:%08x:%s:auth:%s", secret, TEXT(digest->nonce), digest->count,
                    digest->cnonce, request);
    else if (done)
        done = hash(digest->sha256, response, "%s:%.*s:%s", secret, TEXT(digest->nonce), request);
    explicit_bzero(secret, sizeof secret);
    return done;
}
