/*
 * Authentication of RTSP and HTTP, client side: answers a server's challenges with a name and a
 * password, by Digest (RFC 7616, with SHA-256 or MD5, with qop=auth or without) or else by Basic
 * (RFC 7617). No sockets.
 *
 * A nonce is used once: if a server rejects the response to it, the password is wrong, unless the
 * server reports the nonce as stale.
 */
#ifndef SHARED_RTSP_LOGIN_H
#define SHARED_RTSP_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/rtsp.h>

#include "shared/rtsp_url.h"

enum {
    RTSP_LOGIN_USER = 128,
    RTSP_LOGIN_REALM = 256,
    RTSP_LOGIN_NONCE = 512,
    RTSP_LOGIN_CNONCE = 32,
    /* the longest credentials, with the byte at their end */
    RTSP_LOGIN_VALUE = RTSP_URL + 4 * RTSP_LOGIN_USER + RTSP_LOGIN_REALM + 2 * RTSP_LOGIN_NONCE + 512,
};

enum rtsp_login_scheme { RTSP_LOGIN_NONE, RTSP_LOGIN_BASIC, RTSP_LOGIN_DIGEST };

/* All zero at the beginning, but for the name and the password. */
struct rtsp_login {
    /* at most RTSP_LOGIN_USER bytes each, the name without quotes and backslashes; NULL: there are
     * none to be had */
    const char *user, *password;
    enum rtsp_login_scheme scheme; /* of the last challenge that was taken */
    bool has_digest;               /* Digest was offered once: Basic is not answered from then on */
    /* challenges that were taken for the request that is under way */
    unsigned answered;

    /* Of Digest: */
    bool sha256, has_algorithm, has_opaque, qop;
    char realm[RTSP_LOGIN_REALM + 1], nonce[RTSP_LOGIN_NONCE + 1], opaque[RTSP_LOGIN_NONCE + 1];
    char cnonce[RTSP_LOGIN_CNONCE + 1];
    uint32_t count; /* requests with this nonce */
};

/* Another request begins: it may be challenged anew. */
void rtsp_login_begin(struct rtsp_login *login);

/*
 * A 401 has come, with these headers. 0: the request is to be repeated. -ENOKEY: there is no
 * password to answer with. -EACCES: the password is wrong. -EOPNOTSUPP: no challenge of a kind that
 * is known. -EPROTO: Basic alone, after Digest had been offered, or with a Digest that is not
 * known: the password is not shown. -EIO: no random bytes
 */
int rtsp_login_take(struct rtsp_login *login, const sluice_http_header *headers, size_t count);

/*
 * Writes the value of Authorization; an empty one before there was a challenge. @uri: as the
 * request has it. The caller forgets the value when it has been used. 0, -EMSGSIZE, -EIO (the
 * crypto library refuses)
 */
int rtsp_login_write(struct rtsp_login *login, const char *method, sluice_http_text uri,
                     char ret_value[RTSP_LOGIN_VALUE]);

#endif
