/* Address ranges, such as 10.0.0.0/8 or fd00::/8, and tests whether an address is in them. */
#ifndef SLUICED_CIDR_H
#define SLUICED_CIDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* An IPv6 address; of an IPv4 one the mapped one. */
struct cidr_address {
    uint8_t bytes[16];
};

struct cidr {
    struct cidr_address address;
    unsigned bits; /* of the 128, that count */
};

/*
 * An address alone is a range of one. IPv4 addresses are in no range of IPv6 ones, not even in
 * ::/0. 0, -EINVAL (also where bits are set behind those that count)
 */
int cidr_parse(const char *text, struct cidr *ret_cidr);

/* Whether every address of @part is in one of the ranges, or in several together. The list is
 * sorted. */
bool cidr_cover(struct cidr *list, size_t count, const struct cidr *part);

/*
 * Whether the ranges have all public addresses of IPv4 or of IPv6, alone or together: 0.0.0.0/0,
 * its two halves, all of 2000::/3.
 */
bool cidr_are_public(const struct cidr *list, size_t count);

bool cidr_has(const struct cidr *cidr, const struct cidr_address *address);

/* Of an IPv4 address. */
bool cidr_is_v4(const struct cidr_address *address);

/* What limits count as one: an IPv4 address; of IPv6 the network of 64 bits, which is what one
 * subscriber gets. */
struct cidr_address cidr_host(const struct cidr_address *address);

struct cidr_address cidr_address(const struct sockaddr_storage *address);

#endif
