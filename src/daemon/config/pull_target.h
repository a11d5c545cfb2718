/* The URLs of a pull: the address to connect to, and the URL to request there. */
#ifndef SLUICED_PULL_TARGET_H
#define SLUICED_PULL_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "shared/rtsp_url.h"

enum { PULL_URL = RTSP_URL, PULL_HOST = 255, PULL_PLACE = PULL_HOST + 16 };

/* Where to connect to, and what to ask for there. */
struct pull_target {
    char host[PULL_HOST + 1]; /* without brackets */
    uint16_t port;
    char url[PULL_URL + 1]; /* without name and password */
    /* rtsp://HOST:PORT: what may be shown, since cameras take passwords in paths, too */
    char place[PULL_PLACE + 1];
};

/* Takes a URL apart, without its name and password. 0, or -EPROTO (not rtsp://), -EMSGSIZE (too
 * long) */
int pull_target_read(const char *url, size_t length, struct pull_target *ret_target);

#endif
