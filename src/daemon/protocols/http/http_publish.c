/* Publishing: the body of POST or PUT /NAME.flv is an FLV stream. */
#include <errno.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "shared/text.h"

unsigned http_publish_status(int error) {
    switch (error) {
    case -EMSGSIZE:
        return 413;
    case -ENOBUFS:
    case -ENOMEM:
    case -ESHUTDOWN:
    case -EHOSTDOWN:
        return 503;
    case -ETIMEDOUT:
    case -ETIME:
    case -EINPROGRESS:
        return 408;
    case -ECANCELED:
    case -EKEYREJECTED:
        return 403;
    case -EEXIST:
    case -EBUSY:
    case -ESTALE:
    case -EREMOTE:
        return 409;
    default:
        return 400;
    }
}

/* "identity" says that there is none. */
static bool has_coding(const sluice_http_request *request) {
    for (size_t i = 0; i < request->header_count; i++)
        if (text_folds_to(request->headers[i].name, "Content-Encoding") && request->headers[i].value.length > 0 &&
            !text_folds_to(request->headers[i].value, "identity"))
            return true;
    return false;
}

bool http_publish_forbids(struct http_session *session, const sluice_http_request *request) {
    if (sluice_http_find(request, "Content-Range"))
        http_refuse(session, 400, "unsupported Content-Range: a stream is published as a whole");
    else if (has_coding(request))
        http_refuse(session, 415, "unsupported Content-Encoding: a stream is published without one");
    else
        return false;
    return true;
}

/* The name is another's. Logs the refusal. */
static void refuse_name(struct http_session *session, int error) {
    flv_source_end(&session->source, error, 0, worker_now(session->base.worker));
    const struct http_reply reply = {.status = http_publish_status(error), .reason = publisher_error_text(error)};
    http_respond(session, &reply);
}

/* The stream is its own. */
static void begin(struct http_session *session) {
    session->state = HTTP_PUBLISHING;
    session_authorize(&session->base);
    session->received = 0;
    session->received_at = worker_now(session->base.worker);
    if (session->expects_continue)
        http_continue(session);
}

/* All of it may have come meanwhile. */
static void on_claimed(struct session *base, int error) {
    struct http_session *session = (struct http_session *)base;
    sluice_conn_resume(base->conn);
    if (error) {
        refuse_name(session, error);
        return;
    }
    begin(session);
    sluice_http_free(session->http);
    session->http = NULL;
    http_publish_feed(session);
}

static int make_publisher(struct http_session *session, struct stream *stream) {
    struct worker *worker = session->base.worker;
    struct stream_source from = {.protocol = "http", .since = worker_now(worker), .session = &session->base};
    memcpy(from.peer, session->base.peer, sizeof from.peer);
    int error = session->payload ? 0 : sluice_chain_new(worker->pool, &session->payload);
    if (!error)
        error = flv_source_begin(&session->source, stream, &from, on_claimed);
    return error;
}

void http_publish_start(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    if (make_publisher(session, stream) < 0) {
        stream_unref(stream);
        http_refuse(session, 503, "out of memory");
        return;
    }
    session->expects_continue = request->expect_continue;
    session->keep_alive = request->keep_alive && !session->base.worker->leaving;
    /* Encoders that send neither a length nor chunks mean: until I close. */
    sluice_http_body_begin(&session->body, request, request->body == SLUICE_HTTP_BODY_NONE);
    if (session->body.kind == SLUICE_HTTP_BODY_UNTIL_CLOSE)
        session->keep_alive = false;
    int result = publisher_attach(session->source.publisher);
    if (result < 0)
        refuse_name(session, result);
    else if (result > 0)
        session->state = HTTP_CLAIMING;
    else
        begin(session);
}

void http_publish_end(struct http_session *session, int error, unsigned status) {
    size_t left = sluice_chain_length(session->payload);
    int result = flv_source_end(&session->source, error, left, worker_now(session->base.worker));
    if (!result)
        session_authorize(&session->base);
    sluice_chain_skip(session->payload, left);
    session_set_need(&session->base, 0);
    const struct http_reply reply = {
        .status = !result ? 200
                  : error ? status
                          : 400,
        .reason = !result ? "published" : publisher_error_text(result),
        .keep_alive = !result && session->keep_alive,
    };
    http_respond(session, &reply);
}

/* An FLV framer's need in terms of the connection's chain, where body bytes are not mixed with
 * chunk lines. */
static void set_need(struct http_session *session) {
    size_t need = flv_source_need(&session->source);
    size_t have = sluice_chain_length(session->payload);
    size_t missing = need > have ? need - have : 1;
    if (session->body.kind == SLUICE_HTTP_BODY_CHUNKED)
        missing = 1;
    if (session->body.kind == SLUICE_HTTP_BODY_LENGTH && missing > session->body.left)
        missing = (size_t)session->body.left;
    session_set_need(&session->base, missing);
}

void http_publish_feed(struct http_session *session) {
    sluice_chain *chain = session_chain(&session->base);
    budget_begin(&session->base);
    int body = sluice_http_body_next(&session->body, chain, session->payload);
    int error = flv_source_feed(&session->source, session->payload);
    if (error)
        http_publish_end(session, error, http_publish_status(error));
    else if (budget_end(&session->base, session->payload))
        return;
    else if (body < 0)
        http_publish_end(session, body, sluice_http_body_error_status(&session->body));
    else if (body > 0)
        http_publish_end(session, 0, 0);
    else if (session->peer_ended)
        http_publish_peer_ended(session, 0);
    else
        set_need(session);
}

void http_publish_peer_ended(struct http_session *session, int error) {
    if (error == 0)
        error = sluice_http_body_end(&session->body);
    http_publish_end(session, error, http_publish_status(error));
}

void http_publish_tick(struct http_session *session, uint64_t now) {
    const sluice_chain *chain = session_chain(&session->base);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    const struct session *base = &session->base;
    bool is_ours = budget_has_more(base) || base->held_up;
    if (received != session->received || is_ours) {
        session->received = received;
        session->received_at = now;
    }
    if (base->held_up)
        publisher_expect(session->source.publisher, now);
    const struct pace_look look = {
        .mark = sluice_chain_consumed(session->payload),
        .received = received,
        .is_open = sluice_chain_length(session->payload) + sluice_chain_length(chain) > 0 && !is_ours,
        .most_ms = publisher_idle_ms(session->source.publisher),
        .earns = true,
    };
    bool is_slow = pace_is_late(&session->base.pace, &look, now);
    if (now - session->received_at >= publisher_idle_ms(session->source.publisher))
        http_publish_end(session, -ETIMEDOUT, http_publish_status(-ETIMEDOUT));
    else if (publisher_is_late(session->source.publisher, now))
        http_publish_end(session, -ETIME, http_publish_status(-ETIME));
    else if (is_slow)
        http_publish_end(session, -EINPROGRESS, http_publish_status(-EINPROGRESS));
}
