/* Requests for a stream, /NAME.flv: rights, the stream's worker and the hook first, then what the
 * method asks for. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/protocols/http/http_route.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"

static bool ask_hook(struct http_session *session, const sluice_http_request *request, bool publish,
                     sluice_http_text name) {
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    bool is_websocket = !publish && sluice_websocket_upgrade(request, accept) != -ENOENT;
    const struct hook_query_about question = {
        .event = publish ? HOOK_PUBLISH : HOOK_PLAY, .stream = name, .protocol = is_websocket ? "websocket" : "http"};
    return stream_name_is_valid(name.text, name.length) && http_ask_hook(session, request, &question);
}

void http_stream_handle(struct http_session *session, const sluice_http_request *request, sluice_http_text name) {
    bool publish = session->route->action == RULE_PUBLISH;
    if (http_cors_forbids(session, request, publish) || (publish && http_publish_forbids(session, request)))
        return;
    bool valid = stream_name_is_valid(name.text, name.length);
    struct worker *owner = server_owner(session->base.worker->server, name.text, name.length);
    if (valid && owner != session->base.worker) {
        /* The rest of the checks is made there, once. */
        http_move(session, request, owner);
        return;
    }
    if (valid && http_node_refuses(session, request))
        return;
    bool is_trusted = http_node_is_trusted(session);
    if (valid && !is_trusted && !http_authorize(session, request, session->route->action, name))
        return;
    if (is_trusted || !ask_hook(session, request, publish, name))
        session->route->serve(session, request, name);
}

/* NULL: it has been refused. */
static struct stream *get_stream(struct http_session *session, sluice_http_text name) {
    struct worker *worker = session->base.worker;
    struct stream *stream;
    int error = registry_get(worker->registry, name.text, name.length, worker_now(worker), &stream);
    if (!error)
        return stream;
    if (error == -EUSERS)
        http_refuse_limit(session, REJECT_STREAMS);
    else
        http_refuse(session, error == -EINVAL ? 404 : 503, error == -EINVAL ? "not a stream name" : "out of memory");
    return NULL;
}

void http_stream_serve_publish(struct http_session *session, const sluice_http_request *request,
                               sluice_http_text name) {
    struct stream *stream = get_stream(session, name);
    if (stream)
        http_publish_start(session, request, stream);
}

void http_stream_serve_get(struct http_session *session, const sluice_http_request *request, sluice_http_text name) {
    struct stream *stream = get_stream(session, name);
    if (stream && session->node)
        http_node_join(session, request, stream);
    else if (stream)
        http_stream_join(session, request, stream);
}

void http_stream_answer_head(struct http_session *session, const sluice_http_request *request, bool is_there) {
    if (!is_there) {
        const struct http_reply reply = {.status = 404, .reason = "no such stream"};
        http_refuse_with(session, &reply);
        return;
    }
    char *head = malloc(PLAYER_PREAMBLE);
    if (!head) {
        http_close(session);
        return;
    }
    session->keep_alive = false;
    http_send(session, head, http_play_head(session, head, PLAYER_PREAMBLE, request->minor_version >= 1),
              HTTP_RESPONSE_MS);
}

/* What GET would answer now, without waiting for a publisher. */
void http_stream_serve_head(struct http_session *session, const sluice_http_request *request, sluice_http_text name) {
    struct stream *stream = get_stream(session, name);
    if (!stream)
        return;
    if (!http_node_search(session, request, stream))
        http_stream_answer_head(session, request, http_node_has(stream));
    stream_unref(stream);
}

/* Whether another worker serves the player, which it then goes to. */
static bool spread(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    if (!spread_player(stream, &session->base))
        return false;
    stream_unref(stream);
    http_move(session, request, spread_worker(&session->base));
    return true;
}

/* In the response's body, or by WebSocket if requested. */
void http_stream_join(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE];
    int result = sluice_websocket_upgrade(request, accept);
    bool is_right = result == 0 || result == -ENOENT;
    if (http_play_read_tracks(request->query, &session->alone) < 0) {
        stream_unref(stream);
        http_refuse(session, 400, "invalid parameter: tracks is all or default");
    } else if (is_right && !session->base.reservation && !stream_has_room(stream)) {
        stream_unref(stream);
        http_refuse_limit(session, REJECT_PLAYERS);
    } else if (is_right && spread(session, request, stream)) {
        return;
    } else if (result == -ENOENT) {
        http_play_start(session, request, stream);
    } else if (result == 0) {
        http_websocket_start(session, stream, accept);
    } else {
        unsigned status = sluice_websocket_error_status(result);
        const struct http_reply reply = {
            .status = status, .reason = "invalid WebSocket upgrade: version 13 is supported", .upgrade = status == 426};
        stream_unref(stream);
        http_refuse_with(session, &reply);
    }
}
