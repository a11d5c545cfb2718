/*
 * Bans: publishers that an operator has banned for a time. Until it ends, the host may not publish
 * that stream; other hosts may. An IPv6 /64 network counts as one host, as for limits. Its worker's
 * thread only.
 */
#ifndef SLUICED_BAN_H
#define SLUICED_BAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/address.h"
#include "daemon/base/stream_name.h"

enum { BAN_MOST = 256 }; /* at a time; the one that ends first makes room for another */

struct ban {
    char stream[STREAM_NAME + 1];
    char host[ADDRESS_TEXT];
    uint64_t until; /* loop time */
};

/* All zero at the beginning. */
struct bans {
    struct ban *list;
    size_t count;
};

/* @peer: address and port, of which the host counts. 0, -ENOMEM */
int bans_add(struct bans *bans, const char *stream, const char *peer, uint64_t now, uint64_t ban_ms);

/* Whether the peer may not publish the stream now. */
bool bans_hold(struct bans *bans, const char *stream, const char *peer, uint64_t now);

/* All hosts may publish the stream again. Whether there was a ban. */
bool bans_lift(struct bans *bans, const char *stream, uint64_t now);

void bans_clear(struct bans *bans);

#endif
