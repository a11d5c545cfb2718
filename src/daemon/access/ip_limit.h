/*
 * Counts the connections of each address. Any thread: a connection may be accepted on one worker
 * and end on another. An IPv6 /64 network, which a subscriber typically gets, counts as one
 * address.
 */
#ifndef SLUICED_IP_LIMIT_H
#define SLUICED_IP_LIMIT_H

#include <stdint.h>

#include "daemon/base/cidr.h"

struct ip_limit;

/* 0, -ENOMEM */
int ip_limit_new(struct ip_limit **ret_counts);

/* NULL is allowed. */
void ip_limit_free(struct ip_limit *counts);

/* One more, where the address has less than @most. 0; -EUSERS, -ENOMEM: nothing is counted */
int ip_limit_add(struct ip_limit *counts, const struct cidr_address *address, uint64_t most);

/* One less. An address that has none is passed over. */
void ip_limit_remove(struct ip_limit *counts, const struct cidr_address *address);

#endif
