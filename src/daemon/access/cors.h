/*
 * Origins of web pages that may read responses by HTTP, and publish, as browsers report them (RFC
 * 6454, and CORS in the Fetch standard). Pages of the requested host are allowed on any port, for
 * example the console's, but only if the host is an address or localhost: any site can have a name
 * that resolves to this host.
 */
#ifndef SLUICED_CORS_H
#define SLUICED_CORS_H

#include <stddef.h>

#include <sluice/http.h>

enum { CORS_ORIGIN = 127, CORS_MOST = 64 };

struct cors_origins {
    char *list[CORS_MOST];
    size_t count;
};

enum cors_grant {
    /* nothing is said of a page: no browser asks, or none for a page of another site */
    CORS_UNKNOWN,
    CORS_OTHER,    /* a page that has no business here */
    CORS_OWN_HOST, /* a page of the same host, which is called by its address, or localhost */
    CORS_NAMED,    /* one that is in the list */
    CORS_ANY,      /* the list has "*" */
};

/* "*", or SCHEME://HOST[:PORT], where HOST may begin with "*." for all names below. NULL, or what
 * was expected. */
const char *cors_add(struct cors_origins *origins, const char *text);

void cors_clear(struct cors_origins *origins);

/* @origin, @host: of the request; empty where it has none. */
enum cors_grant cors_judge(const struct cors_origins *origins, sluice_http_text origin, sluice_http_text host);

#endif
