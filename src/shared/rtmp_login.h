/*
 * "adobe", the authentication of RTMP by name and password: a client's answers, and the response
 * that both ends compute. No sockets.
 *
 * It takes three connections: the server refuses connect and asks for authentication, then for a
 * response with a salt and a challenge, and takes the third one. Each time the client repeats
 * connect with more in the query of its app. MD5 keeps the password from being read, not from being
 * guessed.
 */
#ifndef SHARED_RTMP_LOGIN_H
#define SHARED_RTMP_LOGIN_H

#include <sluice/http.h>

enum {
    RTMP_LOGIN_USER = 128,         /* bytes of a name or a password */
    RTMP_LOGIN_QUERY = 1024,       /* what the app gets */
    RTMP_LOGIN_DESCRIPTION = 1024, /* of a refusal; what is longer is no challenge */
    RTMP_LOGIN_RESPONSE = 32,      /* with the zero */
};

enum rtmp_login_state {
    RTMP_LOGIN_NONE, /* nothing has been asked for; all zero */
    /* the query has the name; set by a refusal that asks for one (rtmp_login_take) */
    RTMP_LOGIN_NAMED,
    RTMP_LOGIN_ANSWERED, /* and the response; set by a challenge (rtmp_login_take) */
};

/* All zero at first, but for the name and the password. It outlives the connections. */
struct rtmp_login {
    const char *user, *password; /* the caller's, decoded; NULL or empty: there are none */
    enum rtmp_login_state state;
    char query[RTMP_LOGIN_QUERY + 1]; /* of the app and tcUrl in the next connect */
};

/*
 * Connect was refused with this description, as the server sent it. 0: to be repeated on a new
 * connection, with the query. -ENOKEY: a name and a password are wanted, and there are none.
 * -EACCES: they are wrong, or were not accepted. -EOPNOTSUPP: another kind of authentication.
 * -EPROTO: a challenge that cannot be answered. -ENOMSG: the refusal has another reason.
 * -EMSGSIZE: the query becomes too long. -EIO: no random bytes, or OpenSSL refuses
 */
int rtmp_login_take(struct rtmp_login *login, sluice_http_text description);

/*
 * The response to a challenge: base64(MD5(base64(MD5(user salt password)) challenge theirs)).
 * @challenge: the server's "opaque", or where there is none its "challenge". @theirs: the client's
 * "challenge". 0, -EIO (OpenSSL refuses), -EMSGSIZE (together over 2 KiB)
 */
int rtmp_login_response(sluice_http_text user, sluice_http_text salt, sluice_http_text password,
                        sluice_http_text challenge, sluice_http_text theirs, char ret_response[RTMP_LOGIN_RESPONSE]);

#endif
