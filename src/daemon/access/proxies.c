#include "daemon/access/proxies.h"

#include <string.h>

/* NULL, or what was expected. */
static const char *read_one(struct proxies *proxies, const char *text, size_t length) {
    if (proxies->count == PROXIES_MOST)
        return "at most 64 ranges";
    char *copy = proxies->texts[proxies->count];
    struct cidr *range = &proxies->ranges[proxies->count];
    if (length >= PROXIES_TEXT)
        return "addresses or ranges such as 10.0.0.2,fd00::/64";
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (cidr_parse(copy, range) < 0)
        return "addresses or ranges such as 10.0.0.2,fd00::/64";
    if (range->bits == 0 || (cidr_is_v4(&range->address) && range->bits == 96))
        return "the proxies' addresses: from a range of all addresses, any client could claim to be another";
    proxies->count++;
    return NULL;
}

const char *proxies_add(struct proxies *proxies, const char *text) {
    const size_t before = proxies->count;
    for (;;) {
        size_t length = strcspn(text, ",");
        const char *expected = read_one(proxies, text, length);
        if (expected) {
            proxies->count = before;
            return expected;
        }
        if (!text[length])
            return NULL;
        text += length + 1;
    }
}

bool proxies_has(const struct proxies *proxies, const struct cidr_address *address) {
    for (size_t i = 0; i < proxies->count; i++)
        if (cidr_has(&proxies->ranges[i], address))
            return true;
    return false;
}
