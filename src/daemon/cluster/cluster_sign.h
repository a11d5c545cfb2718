/*
 * What a node says of itself that fetches a stream from another node: the value of the request's
 * Sluice-Cluster field, and its signature.
 *
 *     from=NODE; to=NODE; epoch=E; expires=T; via=A,B; mode=origin|parent; signature=HEX
 *
 * The signature is HMAC-SHA256 by the cluster's secret over method, path, and all before it. T is
 * the engine's time in milliseconds (struct cluster_self). The response has a signature as well, of
 * this request and the epoch that comes: another server at the address is not believed.
 * No sockets, no clock.
 */
#ifndef SLUICED_CLUSTER_SIGN_H
#define SLUICED_CLUSTER_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/http.h>

#include "daemon/server/cluster_query.h"

enum {
    CLUSTER_SIGN_MS = 60000,                     /* for which a signature holds */
    CLUSTER_SIGN_AHEAD_MS = 24 * 60 * 60 * 1000, /* of epochs without one */
    CLUSTER_VIA_MOST = 8,                        /* nodes */
    CLUSTER_VIA = CLUSTER_VIA_MOST * (CLUSTER_NODE + 1),
    CLUSTER_SIGNATURE = 64,                               /* characters of a signature */
    CLUSTER_FIELD = 2 * CLUSTER_NODE + CLUSTER_VIA + 256, /* the value, with a zero */
};

enum cluster_mode {
    CLUSTER_FROM_ORIGIN, /* the node is to have a publisher of its own */
    CLUSTER_FROM_PARENT, /* the node fetches the stream itself, if it has to */
};

struct cluster_fetch {
    char from[CLUSTER_NODE + 1], to[CLUSTER_NODE + 1];
    uint64_t epoch; /* the least that it takes */
    uint64_t expires_ms;
    char via[CLUSTER_VIA]; /* nodes that fetch it from the one that asks, "A,B"; or empty */
    enum cluster_mode mode;
    char signature[CLUSTER_SIGNATURE + 1]; /* of one that was read; empty: it has none */
};

/* What the signature is for, and by. */
struct cluster_signing {
    sluice_http_text method, path;
    const uint8_t *secret;
    size_t secret_size; /* 0: there is no signature */
};

/* Whether the list "A,B" has it. */
bool cluster_via_has(const char *via, const char *node);

/* Adds it to the list, unless it is there. 0, -ENOSPC (there are CLUSTER_VIA_MOST) */
int cluster_via_add(char via[CLUSTER_VIA], const char *node);

/* The field's value. 0, -EIO (no HMAC is to be had) */
int cluster_sign_write(const struct cluster_fetch *fetch, const struct cluster_signing *signing,
                       char ret_value[CLUSTER_FIELD]);

/*
 * @now_ms: the engine's time. 0; -EPROTO: malformed; -EKEYREJECTED: the signature is missing, or
 * wrong, or there is one and no secret; -EKEYEXPIRED: it is too old
 */
int cluster_sign_read(sluice_http_text value, const struct cluster_signing *signing, uint64_t now_ms,
                      struct cluster_fetch *ret_fetch);

/* Whether an epoch that nobody has signed may be one: they are about the engine's time, and one
 * that is far above would use them up. */
bool cluster_sign_may_be_epoch(uint64_t epoch, uint64_t now_ms);

/* The signature of a field that was written; empty: it has none. */
void cluster_sign_get(const char *value, char ret_signature[CLUSTER_SIGNATURE + 1]);

/* The signature of a response to the request with this one. @signing: its secret counts. 0, -EIO */
int cluster_sign_response(const struct cluster_signing *signing, const char *request, uint64_t epoch,
                          char ret_signature[CLUSTER_SIGNATURE + 1]);

/* Whether a response has it. */
bool cluster_sign_check_response(const struct cluster_signing *signing, const char *request, uint64_t epoch,
                                 sluice_http_text signature);

#endif
