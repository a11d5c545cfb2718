/* The URL of a hook: http://ADDR[:PORT]/PATH, with a numeric address, so that no name server is waited for. */
#ifndef SLUICED_HOOK_URL_H
#define SLUICED_HOOK_URL_H

#include <stdint.h>

enum { HOOK_HOST = 47, HOOK_PATH = 511 };

struct hook_url {
    char host[HOOK_HOST + 1]; /* without brackets; empty: there is no hook */
    uint16_t port;
    char path[HOOK_PATH + 1]; /* with the query, which may hold a password */
};

/* 0, -EINVAL */
int hook_url_parse(const char *text, struct hook_url *ret_url);

#endif
