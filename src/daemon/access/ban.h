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
#include "daemon/base/node_name.h"
#include "daemon/base/stream_name.h"

enum { BAN_MOST = 256 }; /* at a time; the one that ends first makes room for another */

/* What is known of a ban besides its end. */
struct ban_origin {
    const char *node; /* of a cluster, that had the publisher; NULL: not known, or no cluster */
    bool is_shared;   /* the cluster's engine has it, and with that all nodes */
    bool is_listed;   /* it was made at a time that is not known */
    uint64_t age_ms;  /* since it was made, where that is known */
};

struct ban {
    char stream[STREAM_NAME + 1];
    char host[ADDRESS_TEXT];
    uint64_t until;           /* loop time */
    uint64_t since;           /* loop time; 0: not known */
    char node[NODE_NAME + 1]; /* empty: not known */
    bool is_shared;
    bool is_doubted; /* see bans_doubt() */
};

/* All zero at the beginning. */
struct bans {
    struct ban *list;
    size_t count;
};

/*
 * @peer: address and port, of which the host counts. @origin: of one that is there already, what it
 * does not know stays. 0, -ENOMEM
 */
int bans_add(struct bans *bans, const char *stream, const char *peer, uint64_t now, uint64_t ban_ms,
             const struct ban_origin *origin);

/* The ban, if it is there, is the cluster's, too. */
void bans_share(struct bans *bans, const char *stream, const char *peer, uint64_t now);

/*
 * The cluster's engine lists its bans: those that are shared are doubted, until they are added
 * again; those that are still doubted afterwards end. How many did.
 */
void bans_doubt(struct bans *bans);
size_t bans_end_doubted(struct bans *bans);

/* Ends those whose time is over; @ret_count: how many are left. Valid until the next call. */
const struct ban *bans_list(struct bans *bans, uint64_t now, size_t *ret_count);

/* Whether the peer may not publish the stream now. */
bool bans_hold(struct bans *bans, const char *stream, const char *peer, uint64_t now);

/* All hosts may publish the stream again. Whether there was a ban. */
bool bans_lift(struct bans *bans, const char *stream, uint64_t now);

void bans_clear(struct bans *bans);

#endif
