/*
 * Whether a request to the administration is let in. It listens on loopback, where every program of
 * the host reaches it, and so does every page that a browser of the host shows. So:
 *
 * - A page of another site may not reach it under a name of its own (DNS rebinding): Host must name
 *   this host.
 * - A page of another site may not have it do anything (request forgery): what changes something is
 *   refused when the browser says that another site asks, by Origin or Sec-Fetch-Site, which pages
 *   cannot forge. No answer carries a header that lets other sites read it.
 * - Where there is a token, it must be given, and then Host may be anything: no page of another
 *   site knows it.
 *
 * On a Unix socket the file's permissions decide, and browsers do not come; nothing is asked there,
 * unless a service manager has made it so that others may come: then the token is.
 */
#ifndef SLUICED_ADMIN_GUARD_H
#define SLUICED_ADMIN_GUARD_H

#include <stdbool.h>

#include "daemon/config/admin_option.h"

struct admin_guard {
    const struct admin_listener_option *listener;
    const char *token; /* NULL: none is asked for */
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
