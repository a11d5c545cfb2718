#include "daemon/server/handshake_limit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/access/ip_limit.h"

struct handshake_limit {
    _Atomic uint64_t count;
    struct ip_limit *addresses;
};

int handshake_limit_new(struct handshake_limit **ret_limit) {
    struct handshake_limit *limit = calloc(1, sizeof *limit);
    if (!limit)
        return -ENOMEM;
    int error = ip_limit_new(&limit->addresses);
    if (error)
        free(limit);
    else
        *ret_limit = limit;
    return error;
}

void handshake_limit_free(struct handshake_limit *limit) {
    if (!limit)
        return;
    ip_limit_free(limit->addresses);
    free(limit);
}

int handshake_limit_add(struct handshake_limit *limit, const struct cidr_address *address, uint64_t most,
                        uint64_t per_address) {
    if (atomic_fetch_add(&limit->count, 1) >= most) {
        atomic_fetch_sub(&limit->count, 1);
        return -EUSERS;
    }
    int error = ip_limit_add(limit->addresses, address, per_address ? per_address : UINT64_MAX);
    if (error)
        atomic_fetch_sub(&limit->count, 1);
    return error;
}

void handshake_limit_remove(struct handshake_limit *limit, const struct cidr_address *address) {
    ip_limit_remove(limit->addresses, address);
    atomic_fetch_sub(&limit->count, 1);
}
