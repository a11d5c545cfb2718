/*
 * RTSP authentication, server side: challenges and credentials, Basic (RFC 7617) and Digest (RFC
 * 7616, with MD5 and SHA-256, without qop: the form that all cameras and players support). No
 * sockets.
 *
 * A nonce is valid on one connection, so an overheard response cannot be used on another one. A
 * connection is authenticated once and then belongs to its user, for as long as there is that user
 * with that password.
 */
#ifndef SLUICED_RTSP_AUTH_H
#define SLUICED_RTSP_AUTH_H

#include <stdint.h>

#include <sluice/rtsp.h>

#include "daemon/access/authorize.h"
#include "daemon/base/stream_name.h"

enum { RTSP_NONCE = 32, RTSP_USER = 255, RTSP_AUTH_FAILURES = 8, RTSP_PROOF = 32 };

struct rtsp_auth {
    char nonce[RTSP_NONCE + 1]; /* empty before the first challenge */
    bool is_known;              /* the client is authenticated */
    unsigned rights;            /* of its user, as of the last request that needed them */
    char *user;                 /* its user's name, or NULL */
    uint8_t proof[RTSP_PROOF];  /* hash of the password that it has shown */
    uint32_t failures;          /* wrong credentials so far */

    /* With rules: what it may do already. */
    char *stream; /* NULL: nothing */
    unsigned actions;
    bool wants_user, wants_token; /* what the challenge asks for */
    bool has_shown;               /* what was asked for, at least once */
};

/*
 * Whether the request may be handled: 0; or 401 (no credentials, or wrong ones: a challenge goes
 * with the answer), 403 (no right to do it, whatever is shown), 400 (malformed credentials, or ones
 * for another URL), 503 (no memory). Without rules, only users and their rights count; with them, a
 * stream that was granted stays so for the connection.
 */
unsigned rtsp_authorize(struct rtsp_auth *auth, const struct authorize *access, const sluice_rtsp_message *request);

/* Frees what it keeps of the client. */
void rtsp_auth_clear(struct rtsp_auth *auth);

/* Adds the challenges to the answer. 0, -EIO (no random bytes) */
int rtsp_write_challenges(struct rtsp_auth *auth, sluice_rtsp_writer *reply);

#endif
