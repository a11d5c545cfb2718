/*
 * The log lines of clients without the right to do what they ask for: so many of each address at a time, so that one
 * fills no disk and hides no other.
 */
#ifndef SLUICED_DENIALS_H
#define SLUICED_DENIALS_H

#include <stdint.h>

#include "daemon/cidr.h"

enum {
    DENIALS_LOGGED = 20, /* lines of one address, */
    DENIALS_MS = 10000,  /* within that */
    DENIALS_HOSTS = 15,  /* addresses that are counted each; all further ones are counted as one */
};

/* All zero at the beginning. */
struct denials {
    uint64_t since;      /* loop time at which the first one of this while came */
    uint64_t not_logged; /* since then */
    uint32_t host_count;
    struct cidr_address hosts[DENIALS_HOSTS];
    uint32_t counts[DENIALS_HOSTS + 1]; /* of each, and of all others */
};

/* @peer: an address and its port, as text; @address: the same. @status: 401, 403 */
void denials_log(struct denials *denials, uint64_t now, const char *protocol, const char *peer,
                 const struct cidr_address *address, unsigned status);

/* The same for another reason, in a few words. */
void denials_log_reason(struct denials *denials, uint64_t now, const char *protocol, const char *peer,
                        const struct cidr_address *address, unsigned status, const char *reason);

/* From time to time: says how many were not logged. */
void denials_tick(struct denials *denials, uint64_t now);

#endif
