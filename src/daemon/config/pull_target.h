/* The URLs of pulls and forwards: the address to connect to, and the URL to request there. */
#ifndef SLUICED_PULL_TARGET_H
#define SLUICED_PULL_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/rtsp_login.h"
#include "shared/rtsp_url.h"

enum { PULL_URL = RTSP_URL, PULL_HOST = 255, PULL_PLACE = PULL_HOST + 16 };

/* The schemes of a protocol, and the ports of URLs without one. */
struct pull_scheme {
    const char *name; /* at most 8 bytes, as the next one */
    uint16_t port;
    const char *secure_name; /* over TLS; NULL: there is none */
    uint16_t secure_port;
    const char *alpn; /* its name there (RFC 7301); NULL: none */
};

/* Whether a URL begins with one of the two, in any case, and a colon. */
bool pull_scheme_fits(const struct pull_scheme *scheme, const char *url, size_t length);

/* Where to connect to, and what to ask for there. */
struct pull_target {
    char host[PULL_HOST + 1]; /* without brackets */
    uint16_t port;
    bool is_secure;         /* over TLS */
    char url[PULL_URL + 1]; /* without name and password */
    /* SCHEME://HOST:PORT: what may be shown, since servers take passwords in paths, too */
    char place[PULL_PLACE + 1];
};

/*
 * Takes a URL of one of the two schemes apart. @ret_user: USER or USER:PASSWORD as it is written,
 * empty without; may be NULL. 0, or -EPROTO (another scheme, or malformed), -EMSGSIZE (too long)
 */
int pull_target_read(const struct pull_scheme *scheme, const char *url, size_t length, struct pull_target *ret_target,
                     sluice_http_text *ret_user);

/* Percent-decodes USER or USER:PASSWORD. NULL, or what is wrong in a few words. */
const char *pull_target_read_user(sluice_http_text text, char user[RTSP_LOGIN_USER + 1],
                                  char password[RTSP_LOGIN_USER + 1]);

#endif
