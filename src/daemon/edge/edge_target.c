#include "daemon/edge/edge_target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster_command.h"
#include "daemon/pull/pull_http.h"
#include "daemon/relay/player.h"
#include "daemon/relay/stream.h"
#include "shared/text.h"

const char *edge_target_parent(const struct cluster_options *options, const char *stream, size_t tried) {
    const size_t first = stream_name_hash(stream, strlen(stream)) % options->parent_count;
    return options->parents[(first + tried) % options->parent_count];
}

bool edge_target_is_behind(const struct stream *stream, const char *node) {
    for (const struct player *player = stream->players; player; player = player->next)
        if (player->nodes && cluster_via_has(player->nodes, node))
            return true;
    return false;
}

int edge_target_option(const char *stream, const struct cluster_location *target, struct pull_option *ret_option) {
    struct pull_option option = {.type = &pull_http};
    char url[CLUSTER_ADDRESS + STREAM_NAME + 32];
    const int length = snprintf(url, sizeof url, "%s://%s/%s.flv", target->is_secure ? "https" : "http",
                                target->address, stream);
    if (!*target->address || strpbrk(target->address, "/?#@") ||
        pull_http.parse(url, (size_t)length, &option.target, NULL) < 0)
        return -EPROTO;
    snprintf(option.name, sizeof option.name, "%s", stream);
    *ret_option = option;
    return 0;
}

/* The nodes that wait for it here: as many as a request names. The others find a ring, if they are
 * in one, by what waits too long. */
static void list_nodes(const struct stream *stream, char via[CLUSTER_VIA]) {
    for (const struct player *player = stream->players; player; player = player->next) {
        sluice_http_text rest = text_of(player->nodes ? player->nodes : "");
        while (rest.length > 0) {
            const sluice_http_text part = text_split(&rest, ',');
            char node[CLUSTER_NODE + 1];
            snprintf(node, sizeof node, "%.*s", (int)part.length, part.text);
            (void)cluster_via_add(via, node);
        }
    }
}

int edge_request_write(const struct edge_request *request, char *buffer, size_t size,
                       char ret_signature[CLUSTER_SIGNATURE + 1]) {
    const struct cluster_self *self = request->self;
    const struct cluster_signing signing = {.method = {"GET", 3},
                                            .path = {request->path, strcspn(request->path, "?")},
                                            .secret = self->secret,
                                            .secret_size = self->secret_size};
    struct cluster_fetch fetch = {
        .epoch = request->epoch, .expires_ms = request->now_ms + CLUSTER_SIGN_MS, .mode = request->mode};
    char value[CLUSTER_FIELD];
    snprintf(fetch.from, sizeof fetch.from, "%s", self->node);
    snprintf(fetch.to, sizeof fetch.to, "%s", request->node);
    list_nodes(request->stream, fetch.via);
    const int error = cluster_sign_write(&fetch, &signing, value);
    if (error)
        return error;
    const int length = snprintf(buffer, size, "Sluice-Cluster: %s\r\n", value);
    if (length < 0 || (size_t)length >= size)
        return -EMSGSIZE;
    cluster_sign_get(value, ret_signature);
    return length;
}

static const char *explain(unsigned status) {
    switch (status) {
    case 403:
        return "the signature is not accepted";
    case 404:
        return "no stream, or no node of a cluster";
    case 410:
        return "the node does not have the stream";
    case 421:
        return "another node has the address";
    case 503:
        return "the node is full, or stops";
    case 508:
        return "the nodes fetch it from each other";
    default:
        return "unexpected status";
    }
}

/* With a secret, whoever has the address now does not count: media and an epoch are the node's. */
static bool is_believed(const sluice_http_response *response, const struct edge_expected *expected, uint64_t epoch) {
    const sluice_http_header *header = sluice_http_response_find(response, "Sluice-Signature");
    const struct cluster_signing signing = {.secret = expected->self->secret,
                                            .secret_size = expected->self->secret_size};
    if (signing.secret_size == 0)
        return cluster_sign_may_be_epoch(epoch, expected->now_ms);
    return header && cluster_sign_check_response(&signing, expected->signature, epoch, header->value);
}

const char *edge_response_judge(const sluice_http_response *response, const struct edge_expected *expected,
                                uint64_t *ret_epoch) {
    const sluice_http_header *header = sluice_http_response_find(response, "Sluice-Epoch");
    uint64_t epoch;
    if (response->status != 200)
        return explain(response->status);
    if (!header || !text_number(header->value, CLUSTER_EPOCH_MAX, &epoch))
        return "no epoch";
    if (!is_believed(response, expected, epoch))
        return "the answer is not signed by a node of this cluster";
    if (epoch < expected->least)
        return "an older epoch";
    *ret_epoch = epoch;
    return NULL;
}
