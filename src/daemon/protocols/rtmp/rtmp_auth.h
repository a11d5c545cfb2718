/*
 * Credentials of an RTMP client: "?token=" and "?user=&pass=" in a query, and "adobe", by which
 * encoders send a name and a password. Adobe's is asked for in the refusal of connect, before the
 * stream is known, so only where no client can do without (authorize_wants_user()). Its challenge
 * needs no memory: it is signed, holds for one address, and expires.
 */
#ifndef SLUICED_RTMP_AUTH_H
#define SLUICED_RTMP_AUTH_H

#include "daemon/access/authorize.h"

enum {
    RTMP_AUTH_NAME = 128,        /* bytes of a user's name or password */
    RTMP_AUTH_DESCRIPTION = 512, /* of a refusal, with the zero */
    RTMP_AUTH_MS = 60000,        /* in which a challenge is to be answered */
};

/* All zero at first. */
struct rtmp_auth {
    unsigned rights; /* of the user that has shown a password in connect; 0: none has */
    char user[RTMP_AUTH_NAME + 1];
};

/*
 * Of connect. @access: its stream is the path that the app's streams begin with. 0: goes on; 401:
 * to be refused with @description. @ret_failed: something wrong was shown
 */
unsigned rtmp_auth_connect(struct rtmp_auth *auth, const struct authorize *access, sluice_http_text query,
                           char description[RTMP_AUTH_DESCRIPTION], bool *ret_failed);

/* Of publish and play. 0, 401 or 403. @ret_shown: the client has shown what a rule asks for */
unsigned rtmp_auth_check(const struct rtmp_auth *auth, const struct authorize *access, sluice_http_text query,
                         bool *ret_shown);

#endif
