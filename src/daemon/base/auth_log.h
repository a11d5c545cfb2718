/*
 * Log lines about missing rights and credentials, limited in number for each address and time, so
 * that one address can neither fill a disk nor hide the lines of others. --log-rate does not count
 * them.
 */
#ifndef SLUICED_AUTH_LOG_H
#define SLUICED_AUTH_LOG_H

#include <stdint.h>

#include "daemon/base/cidr.h"

enum {
    AUTH_LOG_LOGGED = 20, /* lines of one address, */
    AUTH_LOG_MS = 10000,  /* within that */
    AUTH_LOG_HOSTS = 15,  /* addresses that are counted each; all further ones are counted as one */
};

/* All zero at the beginning. */
struct auth_log {
    uint64_t since;      /* loop time at which the first one of this while came */
    uint64_t not_logged; /* since then */
    uint32_t host_count;
    struct cidr_address hosts[AUTH_LOG_HOSTS];
    uint32_t counts[AUTH_LOG_HOSTS + 1]; /* of each, and of all others */
};

/*
 * @peer: an address and its port, as text; @address: the same. @reason: in a few words; NULL: what
 * @status, 401 or 403, means
 */
void auth_log_write(struct auth_log *auth_log, uint64_t now, const char *protocol, const char *peer,
                    const struct cidr_address *address, unsigned status, const char *reason);

/* From time to time: says how many were not logged. */
void auth_log_tick(struct auth_log *auth_log, uint64_t now);

#endif
