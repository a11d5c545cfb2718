#include "daemon/protocols/http/http_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/http_status.h"
#include "daemon/base/log.h"
#include "daemon/base/min_rate.h"
#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/protocols/rtsp_advice.h"
#include "daemon/server/handover.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"
#include "shared/text.h"

enum {
    IDLE_MS = 10000,       /* for a request to begin */
    HEAD_MS = 10000,       /* and then for the rest of its head */
    LINGER_MS = 2000,      /* for the peer to close */
    FLUSH_MS = 30000,      /* before, for what is encrypted, behind what the kernel has */
    PIPELINE_MOST = 65536, /* bytes of further requests that wait while a response is sent */
    BLOCK = 4096,          /* bytes of those that are received into */
};

static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

static struct http_session *of(struct session *session) {
    return (struct http_session *)session;
}

void http_close(struct http_session *session) {
    if (session->base.closing)
        return;
    session->base.closing = true;
    hook_query_cancel(&session->base);
    http_node_cancel(session);
    http_play_leave(session, "connection lost");
    session_close(&session->base);
}

void http_linger(struct http_session *session) {
    session->state = HTTP_LINGERING;
    int error = session_finish(&session->base);
    bool flushes = session_is_flushing(&session->base);
    session->deadline = worker_now(session->base.worker) + (flushes ? FLUSH_MS : LINGER_MS);
    if (error || (session->peer_ended && !flushes)) {
        http_close(session);
        return;
    }
    session_set_need(&session->base, 0);
    sluice_conn_resume(session->base.conn);
    sluice_chain_skip(session_chain(&session->base), SIZE_MAX);
}

/* The whole response as text. NULL when memory is short. */
static char *format_reply(const struct http_session *session, const struct http_reply *reply, size_t *ret_size) {
    char line[256] = "";
    int line_size = reply->body || reply->status == 204 ? 0 : snprintf(line, sizeof line, "%s\n", reply->reason);
    const char *body = reply->body ? reply->body : line;
    size_t body_size = reply->body ? reply->body_size : (size_t)line_size;
    size_t room = 1024 + (session->head_only ? 0 : body_size) + (reply->location ? strlen(reply->location) : 0);
    char *text = malloc(room);
    if (!text)
        return NULL;
    int at = snprintf(text, room, "HTTP/1.1 %u %s\r\nServer: sluiced\r\n", reply->status,
                      http_status_text(reply->status));
    at += http_cors_write(session, text + at, room - (size_t)at);
    if (reply->methods)
        at += http_route_write_methods(text + at, room - (size_t)at, "Allow", reply->methods | METHOD_OPTIONS);
    /* "*" does not stand for Authorization, and for nothing where credentials are sent along. */
    if (reply->preflight && http_cors_is_granted(session)) {
        at += http_route_write_methods(text + at, room - (size_t)at, "Access-Control-Allow-Methods", reply->methods);
        at += snprintf(text + at, room - (size_t)at,
                       "Access-Control-Allow-Headers: *, "
                       "Authorization, Content-Type, Range, If-Range, If-None-Match, If-Modified-Since\r\n"
                       "Access-Control-Max-Age: 600\r\n");
    }
    if (reply->challenge)
        at += snprintf(text + at, room - (size_t)at, "WWW-Authenticate: %s\r\n", reply->challenge);
    if (reply->retry_after > 0)
        at += snprintf(text + at, room - (size_t)at, "Retry-After: %u\r\n", reply->retry_after);
    if (reply->location)
        at += snprintf(text + at, room - (size_t)at, "Location: %s\r\n", reply->location);
    if (reply->status == 415)
        at += snprintf(text + at, room - (size_t)at, "Accept-Encoding: identity\r\n");
    if (reply->upgrade)
        at += snprintf(text + at, room - (size_t)at, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    if (reply->status != 204)
        at += snprintf(text + at, room - (size_t)at, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                       reply->type ? reply->type : "text/plain; charset=utf-8", body_size);
    at += snprintf(text + at, room - (size_t)at, "Connection: %s\r\n\r\n", reply->keep_alive ? "keep-alive" : "close");
    if (!session->head_only) {
        memcpy(text + at, body, body_size);
        at += (int)body_size;
    }
    *ret_size = (size_t)at;
    return text;
}

/* What a client repeats that plays and publishes nothing does not keep its connection for ever. */
bool http_may_go_on(const struct http_session *session) {
    return !session->peer_ended && !session_is_overdue(&session->base);
}

void http_send(struct http_session *session, char *response, size_t size, uint64_t within_ms) {
    session->response = response;
    session->response_size = size;
    session->response_sent = 0;
    session->state = HTTP_RESPONDING;
    session->deadline = worker_now(session->base.worker) + within_ms;
    budget_rest(&session->base);
    if (!session->keep_alive)
        sluice_chain_skip(session_chain(&session->base), SIZE_MAX);
    sluice_conn_want_send(session->base.conn);
}

void http_respond(struct http_session *session, const struct http_reply *wanted) {
    struct http_reply reply = *wanted;
    reply.keep_alive = reply.keep_alive && http_may_go_on(session);
    size_t size;
    char *text = format_reply(session, &reply, &size);
    free(reply.body);
    if (!text) {
        http_close(session);
        return;
    }
    session->keep_alive = reply.keep_alive;
    session->base.worker->answers++;
    http_send(session, text, size, HTTP_RESPONSE_MS);
}

void http_refuse_with(struct http_session *session, const struct http_reply *reply) {
    LOG(LOG_WARNING, "request refused", {"peer", session->base.peer}, {"status", log_unsigned(reply->status).text},
        {"reason", reply->reason});
    http_respond(session, reply);
}

void http_refuse(struct http_session *session, unsigned status, const char *reason) {
    const struct http_reply reply = {.status = status, .reason = reason};
    http_refuse_with(session, &reply);
}

void http_refuse_limit(struct http_session *session, enum reject_cause refusal) {
    server_count_reject(session->base.worker->server, refusal);
    http_refuse(session, 503, reject_reason(refusal));
}

/* A request has been handled, or a part of it has come. */
static void go_on(struct http_session *session) {
    /* Its texts are needed still. */
    if (session->state == HTTP_ASKING || session->state == HTTP_MOVING)
        return;
    if (session->state == HTTP_READING) {
        http_obs_feed(session);
        return;
    }
    /* What comes of the request may last long: do not hold its block meanwhile. */
    sluice_http_release(session->http);
    if (session->state == HTTP_PLAYING || session->state == HTTP_PUBLISHING) {
        sluice_http_free(session->http);
        session->http = NULL;
    }
    if (session->state == HTTP_PUBLISHING && !session->base.closing)
        http_publish_feed(session);
    else if (session->state == HTTP_PLAYING && session->websocket && !session->base.closing)
        http_websocket_read(session);
}

void http_continue(struct http_session *session) {
    session->continue_left = sizeof interim - 1;
    sluice_conn_want_send(session->base.conn);
}

void http_move(struct http_session *session, const sluice_http_request *request, struct worker *owner) {
    session->asked = malloc(sizeof *session->asked);
    int error = session->asked ? session_migrate(&session->base, owner) : -ENOMEM;
    if (error) {
        free(session->asked);
        session->asked = NULL;
        http_refuse(session, 503, "out of memory");
        return;
    }
    *session->asked = *request;
    session->state = HTTP_MOVING;
    session->deadline = worker_now(session->base.worker) + HEAD_MS;
    /* Its pool is this worker's. It is empty: between requests there is no payload. */
    sluice_chain_free(session->payload);
    session->payload = NULL;
}

static void forget_asked(struct http_session *session) {
    hook_query_cancel(&session->base);
    http_node_cancel(session);
    free(session->asked);
    session->asked = NULL;
    sluice_http_release(session->http);
}

bool http_keeps_alive(const struct http_session *session, const sluice_http_request *request) {
    bool has_body = request->body == SLUICE_HTTP_BODY_CHUNKED ||
                    (request->body == SLUICE_HTTP_BODY_LENGTH && request->content_length > 0);
    return request->keep_alive && !has_body && !session->base.worker->leaving;
}

int http_wait_asked(struct http_session *session, const sluice_http_request *request) {
    session->asked = malloc(sizeof *session->asked);
    if (!session->asked)
        return -ENOMEM;
    *session->asked = *request;
    session->state = HTTP_ASKING;
    return 0;
}

void http_go_on_asked(struct http_session *session,
                      void (*handle)(struct http_session *session, const sluice_http_request *request)) {
    sluice_http_request *request = session->asked;
    session->asked = NULL;
    session->state = HTTP_HEAD;
    handle(session, request);
    free(request);
    sluice_conn_resume(session->base.conn);
    go_on(session);
}

static void serve_granted(struct http_session *session, const sluice_http_request *request) {
    session_authorize(&session->base);
    session->route->serve(session, request, http_route_rest(session->route, request));
}

static void answer_denied(struct http_session *session, const sluice_http_request *request) {
    const struct http_reply reply = {.status = 403, .reason = "not authorized"};
    (void)request;
    http_respond(session, &reply);
}

static void on_answered(struct session *base, bool granted) {
    if (!base->closing && of(base)->state == HTTP_ASKING)
        http_go_on_asked(of(base), granted ? serve_granted : answer_denied);
}

bool http_ask_hook(struct http_session *session, const sluice_http_request *request,
                   const struct hook_query_about *question) {
    session->asked = malloc(sizeof *session->asked);
    int asks = session->asked ? hook_query_start(&session->base, question, on_answered) : -ENOMEM;
    if (asks > 0) {
        *session->asked = *request;
        session->state = HTTP_ASKING;
        return true;
    }
    free(session->asked);
    session->asked = NULL;
    if (asks < 0)
        http_refuse(session, 503, "out of memory");
    return asks < 0;
}

/* By the table of routes. */
static void handle_request(struct http_session *session, const sluice_http_request *request) {
    struct http_reply reply = {.keep_alive = http_keeps_alive(session, request)};

    session->route = http_route_find(session->base.worker, request, &reply.methods);
    session->head_only = text_is(request->method, "HEAD");
    http_cors_read(session, request);
    if (text_is(request->method, "OPTIONS")) {
        reply.status = 204;
        reply.reason = "";
        reply.methods = reply.methods ? reply.methods : http_route_all_methods(session->base.worker);
        reply.preflight = true;
        http_respond(session, &reply);
    } else if (sluice_http_find(request, "x-sessioncookie")) {
        http_refuse(session, 501, RTSP_ADVICE);
    } else if (session->route && !http_redirect(session, request)) {
        session->route->handle(session, request, http_route_rest(session->route, request));
    } else if (reply.methods && !session->route) {
        reply.status = 405;
        reply.reason = "method not allowed: see Allow";
        http_refuse_with(session, &reply);
    } else if (!session->route) {
        http_refuse(session, 404, "not found: streams are at /APP/NAME.flv");
    }
}

/* However late that is: the time before was the connection's, this is the request's. */
static void begin_head(struct http_session *session) {
    session->has_begun = true;
    session->deadline = worker_now(session->base.worker) + HEAD_MS;
}

static void read_requests(struct http_session *session) {
    sluice_http_request request;
    sluice_chain *chain = session_chain(&session->base);
    if (!session->http && sluice_http_new(&session->http) < 0) {
        http_close(session);
        return;
    }
    if (sluice_chain_length(chain) > 0 && !budget_admits_request(&session->base))
        return;
    int result = sluice_http_next(session->http, chain, &request);
    /* What was asked is not known, and so neither what an answer may consist of. */
    if (result == -ENOMEM)
        http_close(session);
    else if (result < 0)
        http_refuse(session, sluice_http_error_status(result), "malformed or oversized request");
    else if (result > 0)
        handle_request(session, &request);
    else if (!session->has_begun && sluice_chain_length(chain) > 0)
        begin_head(session);
    go_on(session);
}

/* A player that another worker has sent, which has judged the request. */
static void take_seat(struct http_session *session, const sluice_http_request *request) {
    struct stream *replica = spread_stream(&session->base);
    if (replica)
        http_stream_join(session, request, replica);
    else
        http_refuse(session, 503, "out of memory");
}

/*
 * The session has arrived at the worker that owns the requested stream, or that serves its players.
 */
static void moved(struct session *base) {
    struct http_session *session = of(base);
    sluice_http_request *request = session->asked;
    session->asked = NULL;
    session->state = HTTP_HEAD;
    if (base->worker->draining)
        http_refuse(session, 503, "server shutting down");
    else if (base->reservation)
        take_seat(session, request);
    else
        handle_request(session, request);
    free(request);
    go_on(session);
}

static void take_data(struct http_session *session, sluice_conn *conn) {
    sluice_chain *chain = session_chain(&session->base);
    switch (session->state) {
    case HTTP_HEAD:
        read_requests(session);
        break;
    case HTTP_PUBLISHING:
        http_publish_feed(session);
        break;
    case HTTP_ASKING:
    case HTTP_CLAIMING:
        if (sluice_chain_length(chain) > PIPELINE_MOST)
            sluice_conn_pause(conn);
        break;
    case HTTP_MOVING:
        break;
    case HTTP_READING:
        http_obs_feed(session);
        break;
    case HTTP_LOOKING:
    case HTTP_RESPONDING:
        if (!session->keep_alive && session->state == HTTP_RESPONDING)
            sluice_chain_skip(chain, SIZE_MAX);
        else if (sluice_chain_length(chain) > PIPELINE_MOST)
            sluice_conn_pause(conn);
        break;
    case HTTP_PLAYING:
        if (session->websocket)
            http_websocket_read(session);
        else
            sluice_chain_skip(chain, SIZE_MAX);
        break;
    case HTTP_LINGERING:
        sluice_chain_skip(chain, SIZE_MAX);
        break;
    }
}

static void on_data(sluice_conn *conn, void *user) {
    struct http_session *session = user;
    if (session_refuses_tls(&session->base))
        http_close(session);
    else
        take_data(session, conn);
    session_account(&session->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct http_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (session->state == HTTP_PUBLISHING || (error && session->state == HTTP_CLAIMING)) {
        http_publish_peer_ended(session, error);
        if (error)
            http_close(session);
    } else if (!error && (session->state == HTTP_CLAIMING ||
                          (session->state == HTTP_ASKING && !text_is(session->asked->method, "GET")))) {
        /* A short stream, which may all be there. */
        return;
    } else if (!error && session->state == HTTP_HEAD) {
        http_linger(session);
    } else if (error || (session->state != HTTP_RESPONDING && session->state != HTTP_LOOKING &&
                         !(session->state == HTTP_LINGERING && session_is_flushing(&session->base)))) {
        http_play_leave(session, error ? "connection lost" : "closed by player");
        http_close(session);
    }
    session->keep_alive = false;
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct http_session *session = user;
    size_t count = 0;
    (void)conn;
    if (session->continue_left > 0)
        iov[count++] = (struct iovec){(void *)(interim + sizeof interim - 1 - session->continue_left),
                                      session->continue_left};
    if (session->response)
        iov[count++] = (struct iovec){session->response + session->response_sent,
                                      session->response_size - session->response_sent};
    if (session->file)
        count += http_record_gather(session, iov + count, max - count);
    if (session->state == HTTP_PLAYING && session->websocket)
        count += http_websocket_gather(session, iov + count, max - count);
    else if (session->state == HTTP_PLAYING)
        count += player_gather(session->player, iov + count, max - count);
    return count;
}

static void response_sent(struct http_session *session) {
    if (!session->keep_alive) {
        http_linger(session);
        return;
    }
    session->state = HTTP_HEAD;
    session->head_only = session->has_begun = false;
    session->base.is_authorized = false;
    session->deadline = worker_now(session->base.worker) + IDLE_MS;
    session_set_need(&session->base, 0);
    sluice_conn_resume(session->base.conn);
    read_requests(session);
}

/* With its end nothing that was read is held any more. */
static void file_sent(struct http_session *session, size_t bytes) {
    if (!http_record_sent(session, bytes))
        return;
    response_sent(session);
    session_account(&session->base);
}

/* Now the peer may close. */
static void all_sent(struct http_session *session) {
    session->deadline = worker_now(session->base.worker) + LINGER_MS;
    if (session->peer_ended)
        http_close(session);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct http_session *session = user;
    size_t part = bytes < session->continue_left ? bytes : session->continue_left;
    (void)conn;
    session->continue_left -= part;
    bytes -= part;
    if (session->response) {
        part = session->response_size - session->response_sent;
        part = bytes < part ? bytes : part;
        session->response_sent += part;
        bytes -= part;
        if (session->response_sent < session->response_size) {
            /* A file's head is its head's: the body has a time of its own. */
            if (!session->file)
                session->deadline = min_rate_extend(session->deadline, worker_now(session->base.worker), part,
                                                    HTTP_RESPONSE_MS);
            return;
        }
        free(session->response);
        session->response = NULL;
        if (!session->file)
            response_sent(session);
        else
            file_sent(session, bytes);
    } else if (session->file) {
        file_sent(session, bytes);
    } else if (session->state == HTTP_PLAYING && session->websocket) {
        http_websocket_sent(session, bytes);
    } else if (session->state == HTTP_PLAYING) {
        http_play_sent(session, bytes);
    } else if (session->state == HTTP_LINGERING && !session_is_flushing(&session->base)) {
        all_sent(session);
    }
}

static void discard(struct session *base) {
    struct http_session *session = of(base);
    sluice_chain_free(session->payload);
    sluice_http_free(session->http);
    free(session->asked);
    free(session->response);
    free(session->origin);
    free(session);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct http_session *session = user;
    (void)conn;
    http_play_leave(session, "server shutting down");
    http_play_free(session);
    http_node_free(session);
    http_websocket_free(session);
    http_record_free(session);
    http_acme_free(session);
    flv_source_end(&session->source, -ESHUTDOWN, 0, worker_now(session->base.worker));
    worker_end_session(&session->base);
    discard(&session->base);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

static void tick(struct session *base, uint64_t now) {
    struct http_session *session = of(base);
    /* What has not been read is not late. */
    if (base->held_up && session->state == HTTP_HEAD && session->has_begun)
        session->deadline = now + HEAD_MS;
    bool late = now >= session->deadline;
    switch (session->state) {
    case HTTP_HEAD:
        if (late && sluice_chain_length(session_chain(base)) > 0)
            http_refuse(session, 408, "request timeout");
        else if (late)
            http_close(session);
        break;
    case HTTP_ASKING:
    case HTTP_CLAIMING:
        break;
    case HTTP_READING:
        if (late) {
            http_obs_end(session);
            http_refuse(session, 408, "request timeout");
        }
        break;
    case HTTP_PUBLISHING:
        http_publish_tick(session, now);
        break;
    case HTTP_PLAYING:
        if (session->websocket)
            http_websocket_tick(session, now);
        if (!base->closing)
            http_play_tick(session, now);
        break;
    case HTTP_LOOKING:
        if (late) {
            http_record_free(session);
            http_acme_free(session);
            http_refuse(session, 503, "disk timeout");
        }
        break;
    case HTTP_MOVING:
    case HTTP_RESPONDING:
    case HTTP_LINGERING:
        if (late)
            http_close(session);
        break;
    }
}

static void drain(struct session *base) {
    struct http_session *session = of(base);
    switch (session->state) {
    case HTTP_HEAD:
    case HTTP_MOVING:
        http_close(session);
        break;
    case HTTP_ASKING:
        forget_asked(session);
        http_refuse(session, 503, "server shutting down");
        break;
    case HTTP_READING:
        http_obs_end(session);
        http_refuse(session, 503, "server shutting down");
        break;
    case HTTP_CLAIMING:
    case HTTP_PUBLISHING:
        http_publish_end(session, -ESHUTDOWN, 503);
        break;
    case HTTP_PLAYING:
        http_play_drain(session);
        break;
    case HTTP_RESPONDING:
        session->keep_alive = false;
        break;
    case HTTP_LOOKING:
    case HTTP_LINGERING:
        break;
    }
}

static void kick(struct session *base, int error) {
    struct http_session *session = of(base);
    if (session->state == HTTP_PUBLISHING) {
        http_publish_end(session, error, http_publish_status(error));
        return;
    }
    http_play_leave(session, publisher_error_text(error));
    http_close(session);
}

/* Nothing of a body can be taken while the session moves, for a turn or two. Its right is judged
 * where it arrives. */
static bool publishes(const struct session *base) {
    const struct http_session *session = (const struct http_session *)base;
    return session->state == HTTP_CLAIMING || session->state == HTTP_PUBLISHING || session->file ||
           (session->state == HTTP_MOVING && session->route->action == RULE_PUBLISH);
}

static size_t held(const struct session *base) {
    const struct http_session *session = (const struct http_session *)base;
    size_t pinned = flv_source_held(&session->source);
    /* Of a request that waits for a hook, the block of its head. */
    pinned += session->state == HTTP_ASKING ? BLOCK : 0;
    return pinned + http_record_held(session) + (session->payload ? sluice_chain_footprint(session->payload) : 0);
}

static size_t reads(const struct session *base) {
    return http_record_reads((const struct http_session *)base);
}

/* What counts as publishing and has no publisher, which would log its end. */
static void end_without_answer(struct http_session *session) {
    session_log_refusal(&session->base, 503, reject_reason(REJECT_MEMORY));
    http_close(session);
}

/* Where it is about to answer, the answer ends the connection; further requests are dropped. */
static void evict(struct session *base) {
    struct http_session *session = of(base);
    const struct http_reply reply = {.status = 503, .reason = reject_reason(REJECT_MEMORY), .retry_after = 1};
    switch (session->state) {
    case HTTP_ASKING:
        forget_asked(session);
        http_respond(session, &reply);
        break;
    case HTTP_READING:
        http_obs_end(session);
        http_respond(session, &reply);
        break;
    case HTTP_HEAD:
        http_respond(session, &reply);
        break;
    case HTTP_CLAIMING:
    case HTTP_PUBLISHING:
        http_publish_end(session, -ENOBUFS, http_publish_status(-ENOBUFS));
        break;
    case HTTP_RESPONDING:
        session->keep_alive = false;
        /* A recording's length has been promised: only the connection's end says that the rest does
         * not come. */
        if (session->file)
            end_without_answer(session);
        break;
    case HTTP_LINGERING:
        break;
    case HTTP_MOVING:
        if (publishes(base))
            end_without_answer(session);
        else
            http_close(session);
        break;
    case HTTP_PLAYING:
    case HTTP_LOOKING:
        http_play_leave(session, reject_reason(REJECT_MEMORY));
        http_close(session);
        break;
    }
}

static int prepare(struct session *base, const struct handover *handover) {
    (void)handover;
    of(base)->state = HTTP_HEAD;
    of(base)->deadline = worker_now(base->worker) + IDLE_MS;
    return 0;
}

static const struct session_type http_session_type = {.protocol = "http",
                                                      .events = &events,
                                                      .size = sizeof(struct http_session),
                                                      .prepare = prepare,
                                                      .tick = tick,
                                                      .drain = drain,
                                                      .kick = kick,
                                                      .publishes = publishes,
                                                      .held = held,
                                                      .reads = reads,
                                                      .evict = evict,
                                                      .moved = moved,
                                                      .discard = discard};

static int reject(char *buffer, size_t size, unsigned status, const char *reason) {
    return snprintf(buffer, size,
                    "HTTP/1.1 %u %s\r\nServer: sluiced\r\nAccess-Control-Allow-Origin: *\r\n"
                    "Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
                    status, http_status_text(status), strlen(reason) + 1, reason);
}

const struct protocol http_protocol = {
    .option = {"http", SETTING_LISTENER, true, .group = GROUP_LISTENERS, .preset = "127.0.0.1:8080",
               .value = "ADDR:PORT[,tls][,merge-window=MS]",
               .expected = "ADDR:PORT, such as 127.0.0.1:8080 or [::1]:8080",
               .help = "Accept HTTP: POST and GET /NAME.flv, WebSocket",
               .text = "POST publishes, GET and WebSocket play. The merge window (see "
                       "--merge-window) applies to the players of this listener.",
               .examples = {"127.0.0.1:8080,merge-window=100", "0.0.0.0:8443,tls"}},
    .serves_players = true,
    .session = &http_session_type,
    .reject = reject,
};
