/*
 * Other nodes of a cluster that fetch a stream from this one: GET /NAME.flv with a field that says
 * who asks, and for which epoch. And clients that only ask whether there is a stream (HEAD), which
 * another node may have.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_sign.h"
#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/server/publish_claim.h"
#include "daemon/server/server.h"
#include "shared/text.h"

/* Of a request by another node. */
struct http_node {
    struct http_session *session;
    struct cluster_fetch fetch;
    char nodes[CLUSTER_NODE + 1 + CLUSTER_VIA]; /* the one that asks, and those behind it */
    bool is_trusted;                            /* it has signed the request */
    struct stream *stream;                      /* a reference while it waits for the assertion */
    struct publish_assert_waiter waiter;
};

/* Of a HEAD that waits for the cluster's answer. */
struct http_search {
    struct stream_sink sink;
    struct http_session *session;
    struct stream *stream; /* a reference */
};

/* Who asks */

static void refuse(struct http_session *session, unsigned status, const char *reason) {
    const struct http_reply reply = {.status = status, .reason = reason};
    http_respond(session, &reply);
}

/* Without a secret a signature says nothing, and whoever is on this host is believed. */
static bool is_local(const struct http_session *session) {
    struct cidr loopback;
    const struct cidr_address *peer = &session->base.peer_address;
    return (cidr_parse("127.0.0.0/8", &loopback) == 0 && cidr_has(&loopback, peer)) ||
           (cidr_parse("::1", &loopback) == 0 && cidr_has(&loopback, peer));
}

/* 0, or the status to refuse with. */
static unsigned judge(const struct http_session *session, const sluice_http_request *request, sluice_http_text value,
                      struct cluster_fetch *ret_fetch, const char **ret_reason) {
    const struct server *server = session->base.worker->server;
    const struct cluster_self *self = server_cluster_self(server);
    const struct cluster_signing signing = {request->method, request->path, self->secret, self->secret_size};
    int error = cluster_sign_read(value, &signing, server_cluster_time(server), ret_fetch);
    if (!error && self->secret_size == 0 &&
        (!is_local(session) || !cluster_sign_may_be_epoch(ret_fetch->epoch, server_cluster_time(server))))
        error = -EKEYREJECTED;
    *ret_reason = error == -EPROTO        ? "malformed Sluice-Cluster"
                  : error == -EKEYEXPIRED ? "the signature has expired"
                                          : "the signature is wrong, or missing";
    if (error)
        return error == -EPROTO ? 400 : 403;
    *ret_reason = "another node has been asked";
    if (strcmp(ret_fetch->to, self->node) != 0)
        return 421;
    *ret_reason = "the nodes fetch it from each other";
    if (strcmp(ret_fetch->from, self->node) == 0 || cluster_via_has(ret_fetch->via, self->node))
        return 508;
    *ret_reason = "HTTP/1.1 is needed";
    return request->minor_version < 1 ? 505 : 0;
}

bool http_node_refuses(struct http_session *session, const sluice_http_request *request) {
    struct server *server = session->base.worker->server;
    const sluice_http_header *field = sluice_http_find(request, "Sluice-Cluster");
    const char *reason;
    http_node_free(session);
    if (!field || !server_cluster_self(server) || !text_is(request->method, "GET"))
        return false;
    struct http_node *node = calloc(1, sizeof *node);
    if (!node) {
        http_refuse(session, 503, "out of memory");
        return true;
    }
    const unsigned status = judge(session, request, field->value, &node->fetch, &reason);
    if (status) {
        free(node);
        session_log_refusal(&session->base, status, reason);
        refuse(session, status, reason);
        return true;
    }
    node->session = session;
    node->is_trusted = server_cluster_self(server)->secret_size > 0;
    snprintf(node->nodes, sizeof node->nodes, "%s%s%s", node->fetch.from, *node->fetch.via ? "," : "", node->fetch.via);
    session->node = node;
    /* As many streams as it wants: the players that it has have been judged there. */
    if (node->is_trusted)
        server_uncount_address(&session->base);
    return false;
}

bool http_node_is_trusted(const struct http_session *session) {
    return session->node && session->node->is_trusted;
}

const char *http_node_list(const struct http_session *session) {
    return session->node ? session->node->nodes : NULL;
}

/* What it gets */

void http_node_write(const struct http_session *session, const struct stream *stream, char *text, size_t size) {
    const struct cluster_self *self = server_cluster_self(session->base.worker->server);
    const struct cluster_signing signing = {.secret = self->secret, .secret_size = self->secret_size};
    const uint64_t epoch = stream->cluster.epoch;
    char signature[CLUSTER_SIGNATURE + 1] = "";
    /* Without one, the node that has asked does not believe it. */
    if (self->secret_size > 0)
        (void)cluster_sign_response(&signing, session->node->fetch.signature, epoch, signature);
    snprintf(text, size, "Sluice-Epoch: %" PRIu64 "\r\n%s%s%s", epoch, *signature ? "Sluice-Signature: " : "",
             signature, *signature ? "\r\n" : "");
}

static bool is_own(const struct stream *stream) {
    return stream->live && !stream->source.is_remote && stream->cluster.claims;
}

static void start(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    session->alone = false;
    http_play_start(session, request, stream);
}

static void refuse_gone(struct http_session *session, struct stream *stream) {
    stream_unref(stream);
    refuse(session, 410, "this node does not have the stream");
}

/* The request again, when it is known whether the stream is this node's still. */
static void finish(struct http_session *session, const sluice_http_request *request) {
    struct stream *stream = session->node->stream;
    session->node->stream = NULL;
    if (is_own(stream) && stream->cluster.epoch >= session->node->fetch.epoch)
        start(session, request, stream);
    else
        refuse_gone(session, stream);
}

static void asserted(struct publish_assert_waiter *waiter) {
    struct http_node *node = (struct http_node *)(void *)((char *)waiter - offsetof(struct http_node, waiter));
    if (!node->session->base.closing)
        http_go_on_asked(node->session, finish);
}

/* Takes the reference. */
static void wait_for_assertion(struct http_session *session, const sluice_http_request *request,
                               struct stream *stream) {
    struct http_node *node = session->node;
    int error = publish_claims_assert(session->base.worker, stream, node->fetch.epoch, &node->waiter);
    if (!error && (error = http_wait_asked(session, request)) < 0)
        publish_assert_cancel(&node->waiter);
    if (error) {
        stream_unref(stream);
        http_refuse(session, 503, strerror(-error));
        return;
    }
    node->stream = stream;
    node->waiter.asserted = asserted;
}

void http_node_join(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    const struct cluster_fetch *fetch = &session->node->fetch;
    if (is_own(stream) && stream->cluster.epoch < fetch->epoch) {
        wait_for_assertion(session, request, stream);
        return;
    }
    if (!is_own(stream)) {
        if (fetch->mode == CLUSTER_FROM_ORIGIN || stream->stand_in) {
            refuse_gone(session, stream);
            return;
        }
        components_asked(&session->base.worker->components, stream, fetch->epoch);
    }
    start(session, request, stream);
}

bool http_node_is_given_up(const struct http_session *session, const struct stream *stream) {
    const enum stream_search search = stream->cluster.search;
    return !stream->live && (session->node->fetch.mode == CLUSTER_FROM_ORIGIN ||
                             (search != STREAM_SEARCH_ASKS && search != STREAM_SEARCH_COMES));
}

/* Whether there is a stream */

static bool is_there(const struct stream *stream) {
    return stream->live || stream->cluster.search == STREAM_SEARCH_COMES;
}

static struct stream *leave(struct http_session *session) {
    struct http_search *search = session->search;
    struct stream *stream = search->stream;
    stream_remove_sink(stream, &search->sink);
    free(search);
    session->search = NULL;
    return stream;
}

/* Whoever calls the sinks holds the stream, too. */
static void tell(struct http_session *session, const sluice_http_request *request) {
    struct stream *stream = leave(session);
    http_stream_answer_head(session, request, is_there(stream));
    stream_unref(stream);
}

static void on_search(struct stream_sink *sink, struct stream *stream) {
    struct http_session *session = ((struct http_search *)sink)->session;
    if (session->base.closing || (!stream->live && stream->cluster.search == STREAM_SEARCH_ASKS))
        return;
    http_go_on_asked(session, tell);
}

static const struct stream_sink_type search_type = {.rank = SINK_SEARCH, .begun = on_search, .searched = on_search};

bool http_node_search(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    struct worker *worker = session->base.worker;
    if (stream->live || !server_cluster_self(worker->server))
        return false;
    components_asked(&worker->components, stream, 0);
    if (stream->cluster.search != STREAM_SEARCH_ASKS)
        return false;
    struct http_search *search = calloc(1, sizeof *search);
    if (!search || http_wait_asked(session, request) < 0) {
        free(search);
        return false;
    }
    search->sink.type = &search_type;
    search->session = session;
    search->stream = stream_ref(stream);
    session->search = search;
    stream_add_sink(stream, &search->sink);
    return true;
}

bool http_node_has(const struct stream *stream) {
    return is_there(stream);
}

/* The end */

void http_node_cancel(struct http_session *session) {
    if (session->search)
        stream_unref(leave(session));
    if (!session->node)
        return;
    publish_assert_cancel(&session->node->waiter);
    stream_unref(session->node->stream);
    session->node->stream = NULL;
}

void http_node_free(struct http_session *session) {
    http_node_cancel(session);
    free(session->node);
    session->node = NULL;
}
