/*
 * Pages that may read what is played by HTTP, and publish: by their origins, as browsers tell them (RFC 6454, and the
 * Fetch standard's CORS). Pages of the host that is asked may, whatever the port: the console's, for one; but
 * only where that is an address or localhost, since any site can have a name that leads here.
 */
#ifndef SLUICED_ORIGIN_H
#define SLUICED_ORIGIN_H

#include <stddef.h>

#include <sluice/http.h>

enum { ORIGIN = 127, ORIGINS_MOST = 64 };

struct origins {
    char *list[ORIGINS_MOST];
    size_t count;
};

enum origin_grant {
    ORIGIN_UNKNOWN,  /* nothing is said of a page: no browser asks, or none for a page of another site */
    ORIGIN_OTHER,    /* a page that has no business here */
    ORIGIN_OWN_HOST, /* a page of the same host, which is called by its address, or localhost */
    ORIGIN_NAMED,    /* one that is in the list */
    ORIGIN_ANY,      /* the list has "*" */
};

/* "*", or SCHEME://HOST[:PORT], where HOST may begin with "*." for all names below. NULL, or what was expected. */
const char *origins_add(struct origins *origins, const char *text);

void origins_clear(struct origins *origins);

/* @origin, @host: of the request; empty where it has none. */
enum origin_grant origins_judge(const struct origins *origins, sluice_http_text origin, sluice_http_text host);

#endif
