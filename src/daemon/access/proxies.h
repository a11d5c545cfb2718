/* Addresses of proxies, whose connections begin with a header of the PROXY protocol. */
#ifndef SLUICED_PROXIES_H
#define SLUICED_PROXIES_H

#include <netinet/in.h>

#include "daemon/base/cidr.h"

enum { PROXIES_MOST = 64, PROXIES_TEXT = INET6_ADDRSTRLEN + 4 };

struct proxies {
    struct cidr ranges[PROXIES_MOST];
    char texts[PROXIES_MOST][PROXIES_TEXT]; /* as they were written */
    size_t count;
};

/* Addresses and ranges between commas. NULL, or what was expected: then nothing is added */
const char *proxies_add(struct proxies *proxies, const char *text);

bool proxies_has(const struct proxies *proxies, const struct cidr_address *address);

#endif
