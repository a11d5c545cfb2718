#include "daemon/cidr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static int parse_bits(const char *text, unsigned most, unsigned *ret_bits) {
    char *end;
    if (*text < '0' || *text > '9')
        return -EINVAL;
    unsigned long bits = strtoul(text, &end, 10);
    if (*end || bits > most)
        return -EINVAL;
    *ret_bits = (unsigned)bits;
    return 0;
}

static bool bit(const struct cidr_address *address, unsigned at) {
    return address->bytes[at / 8] >> (7 - at % 8) & 1;
}

int cidr_parse(const char *text, struct cidr *ret_cidr) {
    struct cidr cidr = {.bits = 128};
    char copy[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof copy)
        return -EINVAL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    bool is_v4 = inet_pton(AF_INET, copy, cidr.address.bytes + sizeof mapped) == 1;
    if (is_v4)
        memcpy(cidr.address.bytes, mapped, sizeof mapped);
    else if (inet_pton(AF_INET6, copy, cidr.address.bytes) != 1)
        return -EINVAL;
    if (slash && parse_bits(slash + 1, is_v4 ? 32 : 128, &cidr.bits) < 0)
        return -EINVAL;
    if (slash && is_v4)
        cidr.bits += 96;
    /* 10.1.2.3/8 is more likely an error than a range. */
    for (unsigned i = cidr.bits; i < 128; i++)
        if (bit(&cidr.address, i))
            return -EINVAL;
    *ret_cidr = cidr;
    return 0;
}

bool cidr_is_v4(const struct cidr_address *address) {
    return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

bool cidr_has(const struct cidr *cidr, const struct cidr_address *address) {
    unsigned whole = cidr->bits / 8, rest = cidr->bits % 8;
    if (cidr_is_v4(address) && (cidr->bits < 8 * sizeof mapped || !cidr_is_v4(&cidr->address)))
        return false;
    return memcmp(cidr->address.bytes, address->bytes, whole) == 0 &&
           (rest == 0 || (cidr->address.bytes[whole] ^ address->bytes[whole]) >> (8 - rest) == 0);
}

struct cidr_address cidr_host(const struct cidr_address *address) {
    enum { NETWORK = 8 };
    struct cidr_address result = *address;
    if (!cidr_is_v4(address))
        memset(result.bytes + NETWORK, 0, sizeof result.bytes - NETWORK);
    return result;
}

struct cidr_address cidr_address(const struct sockaddr_storage *address) {
    struct cidr_address result = {{0}};
    if (address->ss_family == AF_INET6) {
        memcpy(result.bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof result.bytes);
    } else {
        memcpy(result.bytes, mapped, sizeof mapped);
        memcpy(result.bytes + sizeof mapped, &((const struct sockaddr_in *)address)->sin_addr, 4);
    }
    return result;
}
