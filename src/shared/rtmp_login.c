#include "shared/rtmp_login.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <sluice/sdp.h>

#include "shared/text.h"

enum { HASHED = 2048, MD5_SIZE = 16 };

/* base64(MD5(the texts one behind the other)) */
static int hash(const sluice_http_text *texts, size_t count, char ret_text[RTMP_LOGIN_RESPONSE]) {
    char all[HASHED];
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    size_t length = 0;
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        if (texts[i].length > sizeof all - length) {
            error = -EMSGSIZE;
        } else if (texts[i].length > 0) {
            memcpy(all + length, texts[i].text, texts[i].length);
            length += texts[i].length;
        }
    }
    if (!error && (EVP_Digest(all, length, digest, &size, EVP_md5(), NULL) != 1 || size != MD5_SIZE ||
                   sluice_sdp_encode_base64(digest, size, ret_text, RTMP_LOGIN_RESPONSE) < 0))
        error = -EIO;
    explicit_bzero(all, sizeof all);
    return error;
}

int rtmp_login_response(sluice_http_text user, sluice_http_text salt, sluice_http_text password,
                        sluice_http_text challenge, sluice_http_text theirs, char ret_response[RTMP_LOGIN_RESPONSE]) {
    char inner[RTMP_LOGIN_RESPONSE];
    int error = hash((const sluice_http_text[]){user, salt, password}, 3, inner);
    if (!error)
        error = hash((const sluice_http_text[]){text_of(inner), challenge, theirs}, 3, ret_response);
    explicit_bzero(inner, sizeof inner);
    return error;
}

/* A parameter's value, with what would end it as its number. Returns bytes, or -EMSGSIZE. */
static int add_name(char *to, size_t size, const char *text) {
    size_t length = 0;
    for (; *text; text++) {
        bool plain = isalnum((unsigned char)*text) || strchr("-._~@", *text);
        if (length + 4 > size)
            return -EMSGSIZE;
        length += (size_t)snprintf(to + length, size - length, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
    return (int)length;
}

/* "?authmod=adobe&user=NAME"; bytes, or -EMSGSIZE. */
static int begin_query(const char *user, char *query) {
    int length = snprintf(query, RTMP_LOGIN_QUERY, "?authmod=adobe&user=");
    int added = add_name(query + length, (size_t)(RTMP_LOGIN_QUERY - length), user);
    return added < 0 ? added : length + added;
}

static int answer(struct rtmp_login *login, sluice_http_text challenge) {
    sluice_http_text salt = {0}, opaque = {0}, theirs = {0};
    char query[RTMP_LOGIN_QUERY + 1], ours[9], response[RTMP_LOGIN_RESPONSE];
    uint32_t random;
    bool is_opaque = text_parameter(challenge, "opaque", &opaque);
    bool has_challenge = text_parameter(challenge, "challenge", &theirs);
    if (!text_parameter(challenge, "salt", &salt) || (!is_opaque && !has_challenge))
        return -EPROTO;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    snprintf(ours, sizeof ours, "%08x", random);
    int error = rtmp_login_response(text_of(login->user), salt, text_of(login->password), is_opaque ? opaque : theirs,
                                    text_of(ours), response);
    int length = error ? error : begin_query(login->user, query);
    if (length < 0)
        return length;
    int added = snprintf(query + length, sizeof query - (size_t)length, "&challenge=%s&response=%s%s%.*s", ours,
                         response, is_opaque ? "&opaque=" : "", (int)opaque.length, opaque.length ? opaque.text : "");
    if (added < 0 || (size_t)(length + added) >= sizeof query)
        return -EMSGSIZE;
    memcpy(login->query, query, (size_t)(length + added) + 1);
    login->state = RTMP_LOGIN_ANSWERED;
    return 0;
}

int rtmp_login_take(struct rtmp_login *login, sluice_http_text description) {
    static const char challenge[] = "?reason=needauth";
    char text[RTMP_LOGIN_DESCRIPTION + 1];
    if (description.length > RTMP_LOGIN_DESCRIPTION)
        return -EMSGSIZE;
    if (description.length > 0)
        memcpy(text, description.text, description.length);
    text[description.length] = '\0';
    if (!strstr(text, "authmod="))
        return -ENOMSG;
    if (!strstr(text, "authmod=adobe"))
        return -EOPNOTSUPP;
    if (!login->user || !*login->user || !login->password || !*login->password)
        return -ENOKEY;
    if (strstr(text, "?reason=authfailed") || strstr(text, "?reason=nosuchuser") || login->state == RTMP_LOGIN_ANSWERED)
        return -EACCES;
    const char *begin = strstr(text, challenge);
    if (begin)
        return answer(login, text_of(begin + 1));
    if (!strstr(text, "code=403 need auth"))
        return -EPROTO;
    if (login->state != RTMP_LOGIN_NONE)
        return -EACCES;
    int length = begin_query(login->user, login->query);
    if (length < 0) {
        login->query[0] = '\0';
        return length;
    }
    login->state = RTMP_LOGIN_NAMED;
    return 0;
}
