#include "daemon/base/cidr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { PRIVATE_MOST = 8 };

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

static struct cidr_address last_of(const struct cidr *cidr) {
    struct cidr_address last = cidr->address;
    for (unsigned i = cidr->bits; i < 128; i++)
        last.bytes[i / 8] |= (uint8_t)(1 << (7 - i % 8));
    return last;
}

static int compare(const void *a, const void *b) {
    const struct cidr *one = a, *other = b;
    int order = memcmp(one->address.bytes, other->address.bytes, sizeof one->address.bytes);
    return order ? order : (int)one->bits - (int)other->bits;
}

/* Adds one. False where that was the last address of all. */
static bool step(struct cidr_address *address) {
    for (size_t i = sizeof address->bytes; i-- > 0;)
        if (++address->bytes[i] != 0)
            return true;
    return false;
}

bool cidr_cover(struct cidr *list, size_t count, const struct cidr *part) {
    struct cidr_address next = part->address;
    const struct cidr_address last = last_of(part);
    const bool is_v4 = part->bits >= 8 * sizeof mapped && cidr_is_v4(&part->address);
    qsort(list, count, sizeof *list, compare);
    for (size_t i = 0; i < count; i++) {
        const struct cidr_address end = last_of(&list[i]);
        /* IPv4 addresses are in no range of IPv6 ones. */
        if (is_v4 && list[i].bits < 8 * sizeof mapped)
            continue;
        if (memcmp(list[i].address.bytes, next.bytes, sizeof next.bytes) > 0)
            return false;
        if (memcmp(end.bytes, next.bytes, sizeof next.bytes) < 0)
            continue;
        if (memcmp(end.bytes, last.bytes, sizeof last.bytes) >= 0)
            return true;
        next = end;
        if (!step(&next))
            return true;
    }
    return false;
}

static bool are_public(const struct cidr *list, size_t count, const char *space, const char *const *others) {
    struct cidr *all = calloc(count + PRIVATE_MOST, sizeof *all), part;
    size_t at = count;
    if (!all)
        return true;
    if (count > 0)
        memcpy(all, list, count * sizeof *all);
    for (size_t i = 0; others[i]; i++)
        if (cidr_parse(others[i], &all[at]) == 0)
            at++;
    bool covered = cidr_parse(space, &part) == 0 && cidr_cover(all, at, &part);
    free(all);
    return covered;
}

bool cidr_are_public(const struct cidr *list, size_t count) {
    /* RFC 6890: ranges that cover all other addresses need not include these. */
    static const char *const not_public[] = {"0.0.0.0/8",      "10.0.0.0/8",     "100.64.0.0/10",
                                             "127.0.0.0/8",    "169.254.0.0/16", "172.16.0.0/12",
                                             "192.168.0.0/16", "224.0.0.0/3",    NULL};
    static const char *const none[] = {NULL};
    return are_public(list, count, "0.0.0.0/0", not_public) || are_public(list, count, "2000::/3", none);
}
