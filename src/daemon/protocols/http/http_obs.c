/*
 * The configuration for OBS's multitrack video: POST /obs/APP with what OBS says of itself, or GET
 * /obs/APP/NAME for the answer to a client that says nothing. It takes the right to publish.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/protocols/http/obs_config.h"
#include "shared/text.h"

enum { BODY_MS = 10000, HOST = 255, URL = 640, PIECES = 256 };

/* The first listener for RTMP; NULL without. */
static const struct listener_option *find_ingest(const struct worker *worker) {
    const struct options *options = worker->options;
    for (size_t i = 0; i < options->listener_count; i++)
        if (strcmp(options->listeners[i].protocol->option.name, "rtmp") == 0)
            return &options->listeners[i];
    return NULL;
}

bool http_obs_is_served(const struct worker *worker) {
    return find_ingest(worker);
}

/* The host by which the client has reached this server, with brackets where it has some. False:
 * there is none that could be a part of a URL. */
static bool read_host(const sluice_http_request *request, char host[HOST + 1]) {
    const sluice_http_header *header = sluice_http_find(request, "Host");
    sluice_http_text text = header ? header->value : (sluice_http_text){"", 0};
    const char *end = text.length > 0 && *text.text == '[' ? memchr(text.text, ']', text.length) : NULL;
    const char *colon = end ? NULL : text.length > 0 ? memchr(text.text, ':', text.length) : NULL;
    size_t length = end ? (size_t)(end - text.text) + 1 : colon ? (size_t)(colon - text.text) : text.length;
    snprintf(host, HOST + 1, "%.*s", length <= HOST ? (int)length : 0, text.text);
    return *host &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") == strlen(host);
}

/* @app: of the stream's name, without the last part */
static void answer(struct http_session *session, const sluice_http_request *request, sluice_http_text app,
                   const struct obs_request *about) {
    const struct worker *worker = session->base.worker;
    const struct listener_option *ingest = find_ingest(worker);
    const struct obs_limits limits = {.tracks = (uint32_t)worker->options->obs_tracks,
                                      .kbit = worker->options->obs_bitrate};
    char host[HOST + 1], url[URL];
    if (!ingest || !read_host(request, host)) {
        http_refuse(session, ingest ? 400 : 404, ingest ? "invalid Host" : "no RTMP listener");
        return;
    }
    snprintf(url, sizeof url, "%s://%s:%u/%.*s", ingest->tls ? "rtmps" : "rtmp", host, address_port(&ingest->address),
             (int)app.length, app.text);
    struct http_reply reply = {.status = 200, .reason = "OK", .type = "application/json"};
    reply.body = obs_config_write(about, &limits, url, &reply.body_size);
    if (!reply.body) {
        http_refuse(session, 503, "out of memory");
        return;
    }
    http_respond(session, &reply);
}

/* The stream's name without its last part; empty: it has one part alone. */
static sluice_http_text app_of(sluice_http_text name) {
    const char *slash = name.length > 0 ? memrchr(name.text, '/', name.length) : NULL;
    return (sluice_http_text){name.text, slash ? (size_t)(slash - name.text) : 0};
}

void http_obs_handle_get(struct http_session *session, const sluice_http_request *request, sluice_http_text name) {
    struct obs_request about;
    if (http_cors_forbids(session, request, true))
        return;
    if (!stream_name_is_valid(name.text, name.length) || app_of(name).length == 0) {
        http_refuse(session, 404, "expected /obs/APP/NAME");
        return;
    }
    if (!http_authorize(session, request, RULE_PUBLISH, name))
        return;
    obs_request_init(&about);
    answer(session, request, app_of(name), &about);
}

/* The stream key is a name and perhaps a query, which holds the token. */
static void decide(struct http_session *session, const sluice_http_request *request, const struct obs_request *about) {
    const sluice_http_text app = http_route_rest(session->route, request);
    sluice_http_request asked = *request;
    sluice_http_text query = text_of(about->key), token;
    const sluice_http_text key = text_split(&query, '?');
    char text[STREAM_NAME + 1];
    int length = snprintf(text, sizeof text, "%.*s/%.*s", (int)app.length, app.text, (int)key.length, key.text);
    if (!text_parameter(asked.query, "token", &token))
        asked.query = query;
    if (length < 0 || (size_t)length >= sizeof text || !stream_name_is_valid(text, (size_t)length)) {
        http_refuse(session, 400, "the stream key is no name of a stream");
        return;
    }
    const sluice_http_text name = {text, (size_t)length};
    if (http_authorize(session, &asked, RULE_PUBLISH, name))
        answer(session, request, app_of(name), about);
}

void http_obs_end(struct http_session *session) {
    free(session->asked);
    session->asked = NULL;
    sluice_chain_skip(session->payload, SIZE_MAX);
    sluice_http_release(session->http);
}

/* JSON is text, and no payload: it is read in one piece. */
static void join(const sluice_slice *slice, char *text) {
    struct iovec pieces[PIECES];
    for (size_t at = 0; at < sluice_slice_length(slice);) {
        const size_t count = sluice_slice_iov(slice, at, pieces, PIECES);
        for (size_t i = 0; i < count; i++) {
            memcpy(text + at, pieces[i].iov_base, pieces[i].iov_len);
            at += pieces[i].iov_len;
        }
    }
}

static void read_body(struct http_session *session) {
    const size_t size = sluice_chain_length(session->payload);
    struct obs_request about = {0};
    sluice_slice slice;
    char *text = malloc(size + 1);
    int error = text ? sluice_chain_take(session->payload, size, &slice) : -ENOMEM;
    if (!error) {
        join(&slice, text);
        sluice_slice_release(&slice);
        error = obs_request_read(text, size, &about);
        explicit_bzero(text, size);
    }
    free(text);
    if (error == -EINVAL)
        http_refuse(session, 400, "expected the request of OBS for a multitrack configuration");
    else if (error)
        http_refuse(session, 503, "out of memory");
    else
        decide(session, session->asked, &about);
    explicit_bzero(&about, sizeof about);
    http_obs_end(session);
}

void http_obs_feed(struct http_session *session) {
    int result = sluice_http_body_next(&session->body, session_chain(&session->base), session->payload);
    if (result >= 0 && sluice_chain_length(session->payload) <= OBS_BODY) {
        if (result > 0)
            read_body(session);
        return;
    }
    const unsigned status = result < 0 ? sluice_http_body_error_status(&session->body) : 413;
    http_obs_end(session);
    http_refuse(session, status, result < 0 ? "malformed body" : "the body is too large");
}

void http_obs_handle_post(struct http_session *session, const sluice_http_request *request, sluice_http_text app) {
    if (http_cors_forbids(session, request, true))
        return;
    if (!stream_name_is_valid(app.text, app.length)) {
        http_refuse(session, 404, "expected /obs/APP");
        return;
    }
    if (request->body == SLUICE_HTTP_BODY_NONE ||
        (request->body == SLUICE_HTTP_BODY_LENGTH && request->content_length > OBS_BODY)) {
        http_refuse(session, request->body == SLUICE_HTTP_BODY_NONE ? 411 : 413, "expected a body of at most 16 KiB");
        return;
    }
    if (!session->payload && sluice_chain_new(session->base.worker->pool, &session->payload) < 0) {
        http_refuse(session, 503, "out of memory");
        return;
    }
    session->asked = malloc(sizeof *session->asked);
    if (!session->asked) {
        http_refuse(session, 503, "out of memory");
        return;
    }
    *session->asked = *request;
    session->state = HTTP_READING;
    session->deadline = worker_now(session->base.worker) + BODY_MS;
    sluice_http_body_begin(&session->body, request, false);
    if (request->expect_continue)
        http_continue(session);
}
