/*
 * Access control of the administration. It listens on loopback, which every program of the host can
 * reach, and every page that a browser on the host shows. Therefore:
 *
 * - DNS rebinding: a page of another site must not reach it under a name of that site, so Host must
 *   name this host.
 * - Request forgery: a page of another site must not change anything. Requests that change
 *   something are rejected if Origin or Sec-Fetch-Site, which pages cannot forge, shows another
 *   site. No answer has a header that allows other sites to read it.
 * - With a token, each request must have it, and Host may be anything: no page of another site
 *   knows the token.
 *
 * On a Unix socket the file's permissions decide, and browsers cannot connect, so nothing is
 * checked; except that a token is required on a socket of a service manager that other users may
 * open.
 */
#ifndef SLUICED_ADMIN_GUARD_H
#define SLUICED_ADMIN_GUARD_H

#include <stdbool.h>

#include "daemon/config/admin_option.h"

struct admin_guard {
    const struct admin_listener_option *listener;
    const char *token; /* NULL: not required */
};

/* The headers that count; NULL where there is none. */
struct admin_request {
    const char *host, *origin, *fetch_site, *authorization;
    bool changes;   /* its method changes something */
    bool is_static; /* a page or a script without anything of the server's: needs no token */
};

/* 0, or the status to refuse with and why. */
unsigned admin_guard_check(const struct admin_guard *guard, const struct admin_request *request,
                           const char **ret_reason);

#endif
