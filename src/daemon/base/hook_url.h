/* URLs of hooks, the operator's HTTP servers for queries and events: http[s]://HOST[:PORT]/PATH. */
#ifndef SLUICED_HOOK_URL_H
#define SLUICED_HOOK_URL_H

#include <stdbool.h>
#include <stdint.h>

enum hook_kind {
    HOOK_PUBLISH, /* query: may a client publish, or */
    HOOK_PLAY,
    HOOK_UNPUBLISH, /* event: a publisher has ended, */
    HOOK_STOP,      /* a player, */
    HOOK_RECORD,    /* that a recording is whole */
    HOOK_KINDS,
};

/* "publish" and so on, as settings and bodies have it */
const char *hook_kind_name(enum hook_kind event);

enum { HOOK_HOST = 253, HOOK_PATH = 511 };

struct hook_url {
    char host[HOOK_HOST + 1]; /* a name or an address without brackets; empty: there is no hook */
    uint16_t port;
    bool is_secure;           /* https:// */
    char path[HOOK_PATH + 1]; /* with the query, which may hold a password */
};

/* 0, -EINVAL */
int hook_url_parse(const char *text, struct hook_url *ret_url);

bool hook_url_equal(const struct hook_url *a, const struct hook_url *b);

#endif
