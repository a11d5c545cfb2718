/*
 * Counts the TLS handshakes under way, in all and of each address. Any thread: workers share them.
 */
#ifndef SLUICED_HANDSHAKE_LIMIT_H
#define SLUICED_HANDSHAKE_LIMIT_H

#include <stdint.h>

#include "daemon/base/cidr.h"

struct handshake_limit;

/* 0, -ENOMEM */
int handshake_limit_new(struct handshake_limit **ret_limit);

/* NULL is allowed. */
void handshake_limit_free(struct handshake_limit *limit);

/*
 * One more, where there are fewer than @most, and fewer than @per_address of that address (0: no
 * bound). 0; -EUSERS, -ENOMEM: nothing is counted
 */
int handshake_limit_add(struct handshake_limit *limit, const struct cidr_address *address, uint64_t most,
                        uint64_t per_address);

/* One less. */
void handshake_limit_remove(struct handshake_limit *limit, const struct cidr_address *address);

#endif
