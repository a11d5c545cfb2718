/*
 * RTSP authentication, client side: answers an RTSP server's challenges with a name and a password,
 * by Digest (RFC 7616, with SHA-256 or MD5, with qop=auth or without) or else by Basic (RFC 7617).
 * No sockets.
 *
 * A nonce is used once: if a server rejects the response to it, the password is wrong, unless the
 * server reports the nonce as stale.
 */
#ifndef SHARED_RTSP_LOGIN_H
#define SHARED_RTSP_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/rtsp.h>

enum { RTSP_LOGIN_USER = 128, RTSP_LOGIN_REALM = 256, RTSP_LOGIN_NONCE = 512, RTSP_LOGIN_CNONCE = 32 };

enum rtsp_login_scheme { RTSP_LOGIN_NONE, RTSP_LOGIN_BASIC, RTSP_LOGIN_DIGEST };

/* All zero at the beginning, but for the name and the password. */
struct rtsp_login {
    /* at most RTSP_LOGIN_USER bytes each; NULL: there are none to be had */
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
 * A 401 has come. 0: the request is to be repeated. -ENOKEY: there is no password to answer with.
 * -EACCES: the password is wrong. -EOPNOTSUPP: no challenge of a kind that is known. -EPROTO: Basic
 * alone, after Digest had been offered, or with a Digest that is not known: the password is not
 * shown. -EIO: no random bytes
 */
int rtsp_login_take(struct rtsp_login *login, const sluice_rtsp_message *reply);

/* Writes the Authorization header, once there was a challenge. 0, -EMSGSIZE, -EIO (the crypto
 * library refuses) */
int rtsp_login_write(struct rtsp_login *login, sluice_rtsp_writer *request, const char *method, const char *url);

#endif
