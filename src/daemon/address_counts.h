/*
 * How many connections each address has. Any thread: connections come on one worker and end on others. An IPv6 network
 * of 64 bits, which is what one subscriber gets, counts as one address.
 */
#ifndef SLUICED_ADDRESS_COUNTS_H
#define SLUICED_ADDRESS_COUNTS_H

#include <stdint.h>

#include "daemon/cidr.h"

struct address_counts;

/* 0, -ENOMEM */
int address_counts_new(struct address_counts **ret_counts);

/* NULL is allowed. */
void address_counts_free(struct address_counts *counts);

/* One more, where the address has less than @most. 0; -EUSERS, -ENOMEM: nothing is counted */
int address_counts_add(struct address_counts *counts, const struct cidr_address *address, uint64_t most);

/* One less. An address that has none is passed over. */
void address_counts_remove(struct address_counts *counts, const struct cidr_address *address);

#endif
