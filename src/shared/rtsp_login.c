#include "shared/rtsp_login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <sluice/sdp.h>

#include "shared/rtsp_digest.h"
#include "shared/text.h"

enum { STALE_MOST = 3 };

/* Of a challenge. */
enum { BASIC = 1, DIGEST_MD5, DIGEST_SHA256 };

static void copy_text(char *to, sluice_http_text text) {
    memcpy(to, text.text, text.length);
    to[text.length] = '\0';
}

/* Whether a list such as "auth,auth-int" has "auth". */
static bool has_auth(sluice_http_text list) {
    while (list.length > 0)
        if (text_folds_to(text_trimmed(text_split(&list, ',')), "auth"))
            return true;
    return false;
}

/* How good a challenge is: 0 for one that cannot be answered. */
static unsigned worth(const sluice_rtsp_auth *challenge) {
    bool sha256;
    if (text_folds_to(challenge->scheme, "Basic"))
        return BASIC;
    if (!text_folds_to(challenge->scheme, "Digest") || !rtsp_digest_algorithm(challenge->algorithm, &sha256) ||
        challenge->nonce.length == 0 || challenge->nonce.length > RTSP_LOGIN_NONCE ||
        challenge->realm.length > RTSP_LOGIN_REALM || challenge->opaque.length > RTSP_LOGIN_NONCE ||
        (challenge->qop.length > 0 && !has_auth(challenge->qop)))
        return 0;
    return sha256 ? DIGEST_SHA256 : DIGEST_MD5;
}

/* The best challenge of all: its worth, 0 where there is none. */
static unsigned choose(struct rtsp_login *login, const sluice_http_header *headers, size_t count,
                       sluice_rtsp_auth *ret_challenge) {
    static const char name[] = "WWW-Authenticate";
    unsigned most = 0;
    for (size_t i = 0; i < count; i++) {
        const sluice_http_header *header = &headers[i];
        if (!text_folds_to(header->name, name))
            continue;
        sluice_http_text rest = header->value;
        sluice_rtsp_auth challenge;
        while (sluice_rtsp_next_auth(&rest, &challenge) > 0) {
            login->has_digest |= text_folds_to(challenge.scheme, "Digest");
            if (worth(&challenge) <= most)
                continue;
            most = worth(&challenge);
            *ret_challenge = challenge;
        }
    }
    return most;
}

void rtsp_login_begin(struct rtsp_login *login) {
    login->answered = 0;
}

static bool is_refused(const struct rtsp_login *login, const sluice_rtsp_auth *challenge) {
    if (login->scheme == RTSP_LOGIN_NONE)
        return false;
    if (text_folds_to(challenge->scheme, "Basic"))
        return login->scheme == RTSP_LOGIN_BASIC || login->answered > 0;
    if (login->scheme == RTSP_LOGIN_DIGEST && challenge->nonce.length == strlen(login->nonce) &&
        memcmp(challenge->nonce.text, login->nonce, challenge->nonce.length) == 0)
        return true;
    return login->answered > 0 && !(challenge->stale && login->answered < STALE_MOST);
}

static int take_digest(struct rtsp_login *login, const sluice_rtsp_auth *challenge) {
    uint8_t random[RTSP_LOGIN_CNONCE / 2];
    login->qop = challenge->qop.length > 0;
    login->has_algorithm = challenge->algorithm.length > 0;
    login->has_opaque = challenge->opaque.length > 0;
    login->count = 0;
    (void)rtsp_digest_algorithm(challenge->algorithm, &login->sha256);
    copy_text(login->realm, challenge->realm);
    copy_text(login->nonce, challenge->nonce);
    copy_text(login->opaque, challenge->opaque);
    if (login->qop && (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
                       sluice_sdp_encode_hex(random, sizeof random, login->cnonce, sizeof login->cnonce) < 0))
        return -EIO;
    return 0;
}

int rtsp_login_take(struct rtsp_login *login, const sluice_http_header *headers, size_t count) {
    sluice_rtsp_auth challenge = {0};
    if (!login->user)
        return -ENOKEY;
    /* Some servers refuse a password without another challenge. */
    unsigned value = choose(login, headers, count, &challenge);
    if (value == 0)
        return login->answered > 0 ? -EACCES : -EOPNOTSUPP;
    /* Whoever has come between could ask for the password itself. */
    if (value == BASIC && login->has_digest)
        return -EPROTO;
    if (is_refused(login, &challenge))
        return -EACCES;
    bool digest = text_folds_to(challenge.scheme, "Digest");
    int error = digest ? take_digest(login, &challenge) : 0;
    if (error)
        return error;
    login->scheme = digest ? RTSP_LOGIN_DIGEST : RTSP_LOGIN_BASIC;
    login->answered++;
    return 0;
}

static int format_basic(const struct rtsp_login *login, char *value, size_t size) {
    char plain[2 * RTSP_LOGIN_USER + 2], text[4 * sizeof plain / 3 + 8];
    int length = snprintf(plain, sizeof plain, "%s:%s", login->user, login->password);
    bool fits = length >= 0 && (size_t)length < sizeof plain &&
                sluice_sdp_encode_base64((const uint8_t *)plain, (size_t)length, text, sizeof text) >= 0 &&
                snprintf(value, size, "Basic %s", text) < (int)size;
    explicit_bzero(plain, sizeof plain);
    explicit_bzero(text, sizeof text);
    return fits ? 0 : -EMSGSIZE;
}

/* Of what the challenge did not say, some cameras do not want to hear. */
static int format_digest(struct rtsp_login *login, const char *method, sluice_http_text uri, char *value, size_t size) {
    char response[RTSP_DIGEST_TEXT], qop[RTSP_LOGIN_CNONCE + 64] = "";
    const struct rtsp_digest digest = {
        .sha256 = login->sha256,
        .user = {login->user, strlen(login->user)},
        .realm = {login->realm, strlen(login->realm)},
        .password = {login->password, strlen(login->password)},
        .nonce = {login->nonce, strlen(login->nonce)},
        .method = {method, strlen(method)},
        .uri = uri,
        .cnonce = login->qop ? login->cnonce : NULL,
        .count = ++login->count,
    };
    if (!rtsp_digest(&digest, response))
        return -EIO;
    if (login->qop)
        snprintf(qop, sizeof qop, ", qop=auth, nc=%08x, cnonce=\"%s\"", login->count, login->cnonce);
    int length = snprintf(value, size,
                          "Digest username=\"%s\", realm=\"%s\", nonce=\"%s\", uri=\"%.*s\", response=\"%s\"%s%s%s%s%s",
                          login->user, login->realm, login->nonce, (int)uri.length, uri.text, response,
                          !login->has_algorithm ? ""
                          : login->sha256       ? ", algorithm=SHA-256"
                                                : ", algorithm=MD5",
                          login->has_opaque ? ", opaque=\"" : "", login->has_opaque ? login->opaque : "",
                          login->has_opaque ? "\"" : "", qop);
    return length < (int)size ? 0 : -EMSGSIZE;
}

int rtsp_login_write(struct rtsp_login *login, const char *method, sluice_http_text uri,
                     char ret_value[RTSP_LOGIN_VALUE]) {
    switch (login->scheme) {
    case RTSP_LOGIN_BASIC:
        return format_basic(login, ret_value, RTSP_LOGIN_VALUE);
    case RTSP_LOGIN_DIGEST:
        return format_digest(login, method, uri, ret_value, RTSP_LOGIN_VALUE);
    case RTSP_LOGIN_NONE:
        break;
    }
    *ret_value = '\0';
    return 0;
}
