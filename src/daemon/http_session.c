#include "daemon/http_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/deadline.h"
#include "daemon/http_session_internal.h"
#include "daemon/http_status.h"
#include "daemon/log.h"
#include "daemon/move.h"
#include "daemon/rtsp_tunnel.h"
#include "daemon/server.h"
#include "daemon/spread.h"

enum {
    IDLE_MS = 10000,       /* for a request to begin */
    HEAD_MS = 10000,       /* and then for the rest of its head */
    RESPONSE_MS = 10000,   /* for a response to be taken, and for more of it as it is (deadline.h) */
    LINGER_MS = 2000,      /* for the peer to close */
    PIPELINE_MOST = 65536, /* bytes of further requests that wait while a response is sent */
};

static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

static struct http_session *of(struct session *session) {
    return (struct http_session *)session;
}

void http_close(struct http_session *session) {
    if (session->base.closing)
        return;
    session->base.closing = true;
    hook_cancel(&session->base);
    http_play_leave(session, "connection lost");
    sluice_conn_close(session->base.conn);
}

void http_linger(struct http_session *session) {
    session->state = HTTP_LINGERING;
    session->deadline = worker_now(session->base.worker) + LINGER_MS;
    if (session->peer_ended || sluice_conn_finish(session->base.conn) < 0) {
        http_close(session);
        return;
    }
    sluice_conn_set_need(session->base.conn, 0);
    sluice_conn_resume(session->base.conn);
    sluice_chain_skip(sluice_conn_chain(session->base.conn), SIZE_MAX);
}

/* The whole response as text. NULL when memory is short. */
static char *format_reply(const struct http_session *session, const struct http_reply *reply, size_t *ret_size) {
    char line[256] = "";
    int line_size = reply->body || reply->status == 204 ? 0 : snprintf(line, sizeof line, "%s\n", reply->reason);
    const char *body = reply->body ? reply->body : line;
    size_t body_size = reply->body ? reply->body_size : (size_t)line_size;
    size_t room = 1024 + (session->head_only ? 0 : body_size);
    char *text = malloc(room);
    if (!text)
        return NULL;
    int at = snprintf(text, room, "HTTP/1.1 %u %s\r\nServer: sluiced\r\n", reply->status,
                      http_status_text(reply->status));
    at += http_origin_write(session, text + at, room - (size_t)at);
    if (reply->allow)
        at += snprintf(text + at, room - (size_t)at, "Allow: %s\r\n", reply->allow);
    /* "*" does not stand for Authorization, and for nothing where credentials are sent along. */
    if (reply->preflight && http_origin_is_granted(session))
        at += snprintf(text + at, room - (size_t)at,
                       "Access-Control-Allow-Methods: GET, HEAD, POST, PUT\r\nAccess-Control-Allow-Headers: *, "
                       "Authorization, Content-Type, Range, If-Range, If-None-Match, If-Modified-Since\r\n"
                       "Access-Control-Max-Age: 600\r\n");
    if (reply->challenge)
        at += snprintf(text + at, room - (size_t)at, "WWW-Authenticate: %s\r\n", reply->challenge);
    if (reply->retry_after > 0)
        at += snprintf(text + at, room - (size_t)at, "Retry-After: %u\r\n", reply->retry_after);
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

void http_respond(struct http_session *session, const struct http_reply *wanted) {
    struct http_reply reply = *wanted;
    reply.keep_alive = reply.keep_alive && http_may_go_on(session);
    char *text = format_reply(session, &reply, &session->response_size);
    free(reply.body);
    if (!text) {
        http_close(session);
        return;
    }
    session->response = text;
    session->response_sent = 0;
    session->keep_alive = reply.keep_alive;
    session->state = HTTP_RESPONDING;
    session->deadline = worker_now(session->base.worker) + RESPONSE_MS;
    session->base.worker->answers++;
    if (!session->keep_alive)
        sluice_chain_skip(sluice_conn_chain(session->base.conn), SIZE_MAX);
    sluice_conn_want_send(session->base.conn);
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

void http_refuse_limit(struct http_session *session, enum refusal refusal) {
    server_count_refusal(session->base.worker->server, refusal);
    http_refuse(session, 503, refusal_reason(refusal));
}

/* A request has been handled, or a part of it has come. */
static void go_on(struct http_session *session) {
    /* Its texts are needed still. */
    if (session->state == HTTP_ASKING || session->state == HTTP_MOVING)
        return;
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

bool http_text_is(const sluice_http_text *text, const char *word) {
    return text->length == strlen(word) && memcmp(text->text, word, text->length) == 0;
}

/* The connection goes to another worker, which goes on with the request; or the request is refused. */
static void move(struct http_session *session, const sluice_http_request *request, struct worker *owner) {
    session->asked = malloc(sizeof *session->asked);
    int error = session->asked ? session_move(&session->base, owner) : -ENOMEM;
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

/* HEAD: what GET would answer now, without waiting for a publisher. */
static void answer_head(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    bool live = stream->live;
    stream_unref(stream);
    if (!live) {
        const struct http_reply reply = {.status = 404, .reason = "no such stream"};
        http_refuse_with(session, &reply);
        return;
    }
    char *head = malloc(PLAYER_PREAMBLE);
    if (!head) {
        http_close(session);
        return;
    }
    session->response = head;
    session->response_size = http_play_head(session, head, PLAYER_PREAMBLE, request->minor_version >= 1);
    session->response_sent = 0;
    session->keep_alive = false;
    session->state = HTTP_RESPONDING;
    session->deadline = worker_now(session->base.worker) + RESPONSE_MS;
    sluice_conn_want_send(session->base.conn);
}

/* Whether another worker serves the player, which it then goes to. */
static bool spread(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    if (!spread_player(stream, &session->base))
        return false;
    stream_unref(stream);
    move(session, request, spread_worker(&session->base));
    return true;
}

/* By the response's body, or where that is asked for by WebSocket. */
static void play(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    int result = sluice_websocket_upgrade(request, accept);
    bool is_right = result == 0 || result == -ENOENT;
    if (http_play_read_tracks(request->query, &session->alone) < 0) {
        stream_unref(stream);
        http_refuse(session, 400, "tracks is all or default");
    } else if (is_right && !session->base.seat && !stream_has_room(stream)) {
        stream_unref(stream);
        http_refuse_limit(session, REFUSED_PLAYERS);
    } else if (is_right && spread(session, request, stream)) {
        return;
    } else if (result == -ENOENT) {
        http_play_start(session, request, stream);
    } else if (result == 0) {
        http_websocket_start(session, stream, accept);
    } else {
        unsigned status = sluice_websocket_error_status(result);
        const struct http_reply reply = {.status = status, .reason = "not WebSocket 13", .upgrade = status == 426};
        stream_unref(stream);
        http_refuse_with(session, &reply);
    }
}

/* What is asked for may be had. */
static void serve_stream(struct http_session *session, const sluice_http_request *request, sluice_http_text name) {
    struct worker *worker = session->base.worker;
    struct stream *stream;
    int error = registry_get(worker->registry, name.text, name.length, worker_now(worker), &stream);
    if (error == -EUSERS)
        http_refuse_limit(session, REFUSED_STREAMS);
    else if (error)
        http_refuse(session, error == -EINVAL ? 404 : 503, error == -EINVAL ? "not a stream name" : "out of memory");
    else if (http_text_is(&request->method, "HEAD"))
        answer_head(session, request, stream);
    else if (http_text_is(&request->method, "GET"))
        play(session, request, stream);
    else
        http_publish_start(session, request, stream);
}

static void forget_asked(struct http_session *session) {
    hook_cancel(&session->base);
    free(session->asked);
    session->asked = NULL;
}

/* A body that nobody reads ends the connection behind the response, and so does another process that takes over. */
static bool keeps_alive(const struct http_session *session, const sluice_http_request *request) {
    bool has_body = request->body == SLUICE_HTTP_BODY_CHUNKED ||
                    (request->body == SLUICE_HTTP_BODY_LENGTH && request->content_length > 0);
    return request->keep_alive && !has_body && !session->base.worker->leaving;
}

static void on_answered(struct session *base, bool granted) {
    struct http_session *session = of(base);
    sluice_http_request *request = session->asked;
    if (base->closing || session->state != HTTP_ASKING)
        return;
    session->asked = NULL;
    session->state = HTTP_HEAD;
    if (granted)
        session_authorize(base);
    if (granted && http_record_wants(base->worker, &request->path)) {
        http_record_look(session, request, keeps_alive(session, request));
    } else if (granted) {
        const sluice_http_text name = {request->path.text + 1, request->path.length - strlen("/.flv")};
        serve_stream(session, request, name);
    } else {
        const struct http_reply reply = {.status = 403, .reason = "no right to do that"};
        http_respond(session, &reply);
    }
    free(request);
    sluice_conn_resume(base->conn);
    go_on(session);
}

bool http_ask_hook(struct http_session *session, const sluice_http_request *request,
                   const struct hook_question *question) {
    session->asked = malloc(sizeof *session->asked);
    int asks = session->asked ? hook_ask(&session->base, question, on_answered) : -ENOMEM;
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

static bool ask_hook(struct http_session *session, const sluice_http_request *request, bool publish,
                     sluice_http_text name) {
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    bool is_websocket = !publish && sluice_websocket_upgrade(request, accept) != -ENOENT;
    const struct hook_question question = {
        .event = publish ? HOOK_PUBLISH : HOOK_PLAY, .stream = name, .protocol = is_websocket ? "websocket" : "http"};
    return stream_name_is_valid(name.text, name.length) && http_ask_hook(session, request, &question);
}

/* /NAME.flv: publish, play. */
static void handle_stream(struct http_session *session, const sluice_http_request *request, size_t name_length,
                          bool keep_alive) {
    const sluice_http_text *method = &request->method;
    bool publish = http_text_is(method, "POST") || http_text_is(method, "PUT");
    bool head = http_text_is(method, "HEAD");

    if (!publish && !head && !http_text_is(method, "GET")) {
        const struct http_reply reply = {.status = 405,
                                         .reason = "publish with POST or PUT, play with GET",
                                         .allow = "GET, HEAD, POST, PUT, OPTIONS",
                                         .keep_alive = keep_alive};
        http_refuse_with(session, &reply);
        return;
    }
    if (http_origin_forbids(session, request, publish) || (publish && http_publish_forbids(session, request)))
        return;
    const sluice_http_text name = {request->path.text + 1, name_length};
    bool valid = stream_name_is_valid(name.text, name.length);
    struct worker *owner = server_owner(session->base.worker->server, name.text, name.length);
    if (valid && owner != session->base.worker) {
        /* Who may and who is asked is looked at there, once. */
        move(session, request, owner);
        return;
    }
    if (valid && !http_authorize(session, request, publish ? RULE_PUBLISH : RULE_PLAY, name))
        return;
    if (!ask_hook(session, request, publish, name))
        serve_stream(session, request, name);
}

static void handle_request(struct http_session *session, const sluice_http_request *request) {
    static const char suffix[] = ".flv";
    const size_t suffix_length = sizeof suffix - 1;
    const sluice_http_text *path = &request->path;
    bool keep_alive = keeps_alive(session, request);

    session->head_only = http_text_is(&request->method, "HEAD");
    http_origin_read(session, request);
    if (http_text_is(&request->method, "OPTIONS")) {
        const struct http_reply reply = {.status = 204,
                                         .reason = "",
                                         .allow = "GET, HEAD, POST, PUT, OPTIONS",
                                         .preflight = true,
                                         .keep_alive = keep_alive};
        http_respond(session, &reply);
    } else if (sluice_http_find(request, "x-sessioncookie")) {
        http_refuse(session, 501, RTSP_TUNNEL_ADVICE);
    } else if (http_record_wants(session->base.worker, path)) {
        http_record_start(session, request, keep_alive);
    } else if (path->length > suffix_length + 1 && path->text[0] == '/' &&
               memcmp(path->text + path->length - suffix_length, suffix, suffix_length) == 0) {
        handle_stream(session, request, path->length - suffix_length - 1, keep_alive);
    } else {
        http_refuse(session, 404, "nothing here: streams are at /APP/NAME.flv");
    }
}

/* However late that is: the time before was the connection's, this is the request's. */
static void begin_head(struct http_session *session) {
    session->has_begun = true;
    session->deadline = worker_now(session->base.worker) + HEAD_MS;
}

static void read_requests(struct http_session *session) {
    sluice_http_request request;
    sluice_chain *chain = sluice_conn_chain(session->base.conn);
    /* Not before there is something to read: it is large, and most of those that wait are done with it soon. */
    if (!session->http && sluice_http_new(&session->http) < 0) {
        http_close(session);
        return;
    }
    int result = sluice_http_next(session->http, chain, &request);
    if (result < 0)
        http_refuse(session, sluice_http_error_status(result), "malformed request, or one over a limit");
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
        play(session, request, replica);
    else
        http_refuse(session, 503, "out of memory");
}

/* The session has come to the worker whose the stream is that its request asks for, or that serves its players. */
static void moved(struct session *base) {
    struct http_session *session = of(base);
    sluice_http_request *request = session->asked;
    session->asked = NULL;
    session->state = HTTP_HEAD;
    if (base->worker->draining)
        http_refuse(session, 503, "the server stops");
    else if (base->seat)
        take_seat(session, request);
    else
        handle_request(session, request);
    free(request);
    go_on(session);
}

static void take_data(struct http_session *session, sluice_conn *conn) {
    sluice_chain *chain = sluice_conn_chain(conn);
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
                          (session->state == HTTP_ASKING && !http_text_is(&session->asked->method, "GET")))) {
        /* A short stream, which may all be there. */
        return;
    } else if (error || (session->state != HTTP_RESPONDING && session->state != HTTP_LOOKING)) {
        http_play_leave(session, error ? "connection lost" : "the player left");
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
    sluice_conn_set_need(session->base.conn, 0);
    sluice_conn_resume(session->base.conn);
    read_requests(session);
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
                session->deadline = deadline_moved(session->deadline, worker_now(session->base.worker), part,
                                                   RESPONSE_MS);
            return;
        }
        free(session->response);
        session->response = NULL;
        if (!session->file || http_record_sent(session, bytes))
            response_sent(session);
    } else if (session->file) {
        if (http_record_sent(session, bytes))
            response_sent(session);
    } else if (session->state == HTTP_PLAYING && session->websocket) {
        http_websocket_sent(session, bytes);
    } else if (session->state == HTTP_PLAYING) {
        http_play_sent(session, bytes);
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
    http_play_leave(session, "the server stops");
    http_play_free(session);
    http_websocket_free(session);
    http_record_free(session);
    publisher_end(session->publisher, -ESHUTDOWN, 0, worker_now(session->base.worker));
    worker_end_session(&session->base);
    discard(&session->base);
}

static const sluice_conn_events events = {
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
        if (late && sluice_chain_length(sluice_conn_chain(base->conn)) > 0)
            http_refuse(session, 408, "the request did not come");
        else if (late)
            http_close(session);
        break;
    case HTTP_ASKING:
    case HTTP_CLAIMING:
        break;
    case HTTP_PUBLISHING:
        http_publish_tick(session, now);
        break;
    case HTTP_PLAYING:
        if (session->websocket)
            http_websocket_tick(session, now);
        http_play_tick(session, now);
        break;
    case HTTP_LOOKING:
        if (late) {
            http_record_free(session);
            http_refuse(session, 503, "the disk does not answer");
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
        http_refuse(session, 503, "the server stops");
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

static bool publishes(const struct session *base) {
    const struct http_session *session = (const struct http_session *)base;
    return session->state == HTTP_CLAIMING || session->state == HTTP_PUBLISHING || session->file;
}

static size_t held(const struct session *base) {
    const struct http_session *session = (const struct http_session *)base;
    size_t pinned = publisher_held(session->publisher);
    return pinned + http_record_held(session) + (session->payload ? sluice_chain_footprint(session->payload) : 0);
}

/* A recording's length has been promised: only the connection's end says that the rest does not come. */
static void end_file(struct http_session *session) {
    struct session *base = &session->base;
    denials_log_reason(&base->worker->denials, worker_now(base->worker), "http", base->peer, &base->peer_address, 503,
                       refusal_reason(REFUSED_MEMORY));
    http_close(session);
}

/* Where it is about to answer, the answer ends the connection; further requests are dropped. */
static void evict(struct session *base) {
    struct http_session *session = of(base);
    const struct http_reply reply = {.status = 503, .reason = refusal_reason(REFUSED_MEMORY), .retry_after = 1};
    switch (session->state) {
    case HTTP_ASKING:
        forget_asked(session);
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
        if (session->file)
            end_file(session);
        break;
    case HTTP_LINGERING:
        break;
    case HTTP_MOVING:
    case HTTP_PLAYING:
    case HTTP_LOOKING:
        http_play_leave(session, refusal_reason(REFUSED_MEMORY));
        http_close(session);
        break;
    }
}

static const struct session_type http_session_type = {.protocol = "http",
                                                      .events = &events,
                                                      .tick = tick,
                                                      .drain = drain,
                                                      .kick = kick,
                                                      .publishes = publishes,
                                                      .held = held,
                                                      .evict = evict,
                                                      .moved = moved,
                                                      .discard = discard};

int http_session_start(struct worker *worker, sluice_conn_handover *connection, const struct sockaddr_storage *peer,
                       const struct listener_option *listener) {
    struct http_session *session = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    session_init(&session->base, &http_session_type, worker, peer);
    session->base.merge_window_ms = listener->merge_window_ms;
    session->state = HTTP_HEAD;
    session->deadline = worker_now(worker) + IDLE_MS;
    int error = sluice_conn_adopt(worker->loop, connection, &events, session, &session->base.conn);
    if (error) {
        free(session);
        return error;
    }
    worker_add(worker, &session->base);
    return 0;
}
