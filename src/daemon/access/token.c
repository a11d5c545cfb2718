#include "daemon/access/token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char version[] = "v1";

int token_sign(const char *key, const char *action, const char *stream, uint64_t expiry, char ret_token[TOKEN_TEXT]) {
    char text[512];
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    int length = snprintf(text, sizeof text, "%s\n%s\n%s\n%llu", version, action, stream, (unsigned long long)expiry);
    if (length < 0 || (size_t)length >= sizeof text)
        return -EMSGSIZE;
    if (!HMAC(EVP_sha256(), key, (int)strlen(key), (const uint8_t *)text, (size_t)length, mac, &size))
        return -EIO;
    int at = snprintf(ret_token, TOKEN_TEXT, "%s.%llu.", version, (unsigned long long)expiry);
    for (unsigned i = 0; i < size; i++)
        at += snprintf(ret_token + at, (size_t)(TOKEN_TEXT - at), "%02x", mac[i]);
    return 0;
}

bool token_is_valid(const char *token, const char *key, const char *action, const char *stream, uint64_t now) {
    char expected[TOKEN_TEXT];
    const char *digits = token + sizeof version;
    if (strncmp(token, version, sizeof version - 1) != 0 || token[sizeof version - 1] != '.')
        return false;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 18 || digits[count] != '.')
        return false;
    uint64_t expiry = strtoull(digits, NULL, 10);
    /* The same text again: a MAC in capitals, or an expiry with zeros in front, is none of ours. */
    if (token_sign(key, action, stream, expiry, expected) < 0)
        return false;
    bool is_same = strlen(token) == strlen(expected) && CRYPTO_memcmp(token, expected, strlen(expected)) == 0;
    return is_same && now < expiry;
}
