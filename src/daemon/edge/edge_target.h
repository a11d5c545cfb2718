/* What an edge asks, and whom: parents, the request's fields, the answer. No state, no sockets. */
#ifndef SLUICED_EDGE_TARGET_H
#define SLUICED_EDGE_TARGET_H

#include <sluice/http.h>

#include "daemon/cluster/cluster_sign.h"
#include "daemon/config/cluster_option.h"
#include "daemon/config/pull_option.h"

struct stream;

/* The parent that is asked for a stream behind @tried others, fewer than there are: a hash of the
 * name selects the first. */
const char *edge_target_parent(const struct cluster_options *options, const char *stream, size_t tried);

/* Whether the node fetches the stream from this one, itself or by others. */
bool edge_target_is_behind(const struct stream *stream, const char *node);

/* The pull of a stream from a node. 0, -EPROTO (the address is none) */
int edge_target_option(const char *stream, const struct cluster_location *target, struct pull_option *ret_option);

struct edge_request {
    const struct cluster_self *self;
    uint64_t now_ms;             /* server_cluster_time() */
    const struct stream *stream; /* whose players fetch it from this node */
    const char *node;            /* that is asked */
    uint64_t epoch;
    enum cluster_mode mode;
    const char *path;
};

/* The request's field, with its end, and its signature, which may be empty. Bytes; -EMSGSIZE,
 * -EIO */
int edge_request_write(const struct edge_request *request, char *buffer, size_t size,
                       char ret_signature[CLUSTER_SIGNATURE + 1]);

/* What a response has to be. */
struct edge_expected {
    const struct cluster_self *self;
    uint64_t now_ms;       /* server_cluster_time() */
    const char *signature; /* of the request */
    uint64_t least;        /* epoch */
};

/* NULL: the stream comes; or why not, in a few words. */
const char *edge_response_judge(const sluice_http_response *response, const struct edge_expected *expected,
                                uint64_t *ret_epoch);

#endif
