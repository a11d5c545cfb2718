/* A request to publish or to play: on the worker of its stream it is judged, and a hook asked; a
 * player may go to another worker then. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/protocols/rtmp/rtmp_session_internal.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"
#include "shared/text.h"

/* Where a client is sent that has been served, its app is needed. */
static uint16_t app_size(const struct rtmp_asked *asked) {
    struct rtmp_target app;
    if (rtmp_target_read_app(asked->app, asked->url, &app) < 0 || *app.query ||
        strlen(app.name) >= strlen(asked->target.name))
        return RTMP_APP_UNKNOWN;
    return (uint16_t)strlen(app.name);
}

void rtmp_forget_asked(struct rtmp_session *session) {
    if (!session->asked)
        return;
    session->app_size = app_size(session->asked);
    explicit_bzero(session->asked, sizeof *session->asked);
    free(session->asked);
    session->asked = NULL;
}

static bool publishes(const struct rtmp_session *session) {
    return session->asked->action == RULE_PUBLISH;
}

void rtmp_refuse(struct rtmp_session *session, const char *code, const char *reason) {
    session_log_refusal(&session->base, 400, reason);
    rtmp_answer_status(session, session->stream, "error", code, reason);
    rtmp_end(session);
}

/* By a rule, or a hook, which has been logged. */
static void refuse_right(struct rtmp_session *session, unsigned status) {
    rtmp_answer_status(session, session->stream, "error",
                       publishes(session) ? "NetStream.Publish.Denied" : "NetStream.Play.Failed",
                       status == 401 ? "credentials required" : "not authorized");
    rtmp_end(session);
}

/* For want of something, or because of a limit. */
static void refuse_for_now(struct rtmp_session *session, const char *reason) {
    rtmp_refuse(session, publishes(session) ? "NetStream.Publish.Denied" : "NetStream.Play.Failed", reason);
}

static void refuse_limit(struct rtmp_session *session, enum reject_cause cause) {
    server_count_reject(session->base.worker->server, cause);
    refuse_for_now(session, reject_reason(cause));
}

static sluice_http_text name_of(const struct rtmp_session *session) {
    return text_of(session->asked->target.name);
}

static struct worker *owner_of(const struct rtmp_session *session) {
    sluice_http_text name = name_of(session);
    return server_owner(session->base.worker->server, name.text, name.length);
}

static void move(struct rtmp_session *session) {
    session->state = RTMP_MOVING;
    session->active_at = worker_now(session->base.worker);
    rtmp_try_migrate(session);
}

static void serve_player(struct rtmp_session *session, struct stream *stream) {
    if (!stream_has_room(stream)) {
        stream_unref(stream);
        refuse_limit(session, REJECT_PLAYERS);
    } else if (spread_player(stream, &session->base)) {
        stream_unref(stream);
        move(session);
    } else {
        rtmp_play_start(session, stream);
    }
}

/* What has been granted. */
static void serve(struct rtmp_session *session) {
    struct worker *worker = session->base.worker;
    sluice_http_text name = name_of(session);
    struct stream *stream;
    int error = registry_get(worker->registry, name.text, name.length, worker_now(worker), &stream);
    if (error == -EUSERS)
        refuse_limit(session, REJECT_STREAMS);
    else if (error)
        refuse_for_now(session, "out of memory");
    else if (publishes(session))
        rtmp_publish_start(session, stream);
    else
        serve_player(session, stream);
}

static void on_answered(struct session *base, bool granted) {
    struct rtmp_session *session = (struct rtmp_session *)base;
    if (base->closing || session->state != RTMP_ASKING)
        return;
    session->state = RTMP_CONNECTED;
    if (granted) {
        session_authorize(base);
        serve(session);
    } else {
        refuse_right(session, 403);
    }
    if (base->closing || session->state == RTMP_MOVING)
        return;
    sluice_conn_resume(base->conn);
    rtmp_read(session);
}

/* Whether there is an answer to be waited for, or the request has been refused. */
static bool ask_hook(struct rtmp_session *session) {
    const struct hook_query_about question = {.event = publishes(session) ? HOOK_PUBLISH : HOOK_PLAY,
                                              .stream = name_of(session),
                                              .protocol = "rtmp",
                                              .query = session->asked->target.query};
    int asks = hook_query_start(&session->base, &question, on_answered);
    if (asks > 0)
        session->state = RTMP_ASKING;
    else if (asks < 0)
        refuse_for_now(session, "out of memory");
    return asks != 0;
}

static bool authorize(struct rtmp_session *session) {
    const struct rtmp_asked *asked = session->asked;
    const struct authorize access = {.by = options_credentials(session->base.worker->options),
                                     .action = asked->action,
                                     .stream = name_of(session),
                                     .peer = &session->base.peer_address,
                                     .certificate = session_peer_certificate(&session->base)};
    bool shown = false;
    unsigned status = rtmp_auth_check(&asked->auth, &access, text_of(asked->target.query), &shown);
    if (shown)
        session_authorize(&session->base);
    if (status == 0)
        return true;
    session_log_refusal(&session->base, status, NULL);
    refuse_right(session, status);
    return false;
}

/* Whether this node drains: the client is asked to connect to another one, where it can be. */
static bool sends_away(struct rtmp_session *session) {
    char url[RTMP_REFUGE];
    if (!session->base.worker->evacuates)
        return false;
    session->app_size = app_size(session->asked);
    if (rtmp_find_refuge(session, session->asked->target.name, url))
        (void)rtmp_answer_reconnect(session, url);
    refuse_for_now(session, "this node is drained");
    return true;
}

static void judge(struct rtmp_session *session) {
    if (sends_away(session))
        return;
    if (owner_of(session) != session->base.worker)
        move(session);
    else if (authorize(session) && !ask_hook(session))
        serve(session);
}

void rtmp_request_begin(struct rtmp_session *session, enum rule_action action, const char *name) {
    struct rtmp_asked *asked = session->asked;
    asked->action = action;
    if (rtmp_target_read(asked->app, asked->url, name, &asked->target) == 0)
        judge(session);
    else
        rtmp_refuse(session, publishes(session) ? "NetStream.Publish.BadName" : "NetStream.Play.StreamNotFound",
                    "not a stream name");
}

void rtmp_try_migrate(struct rtmp_session *session) {
    struct session *base = &session->base;
    if (base->closing || base->move || rtmp_answer_queued(session) > 0 || session_is_sending(base))
        return;
    if (session_migrate(base, base->reservation ? spread_worker(base) : owner_of(session)) < 0)
        refuse_for_now(session, "out of memory");
}

/* A player that another worker has sent, which has judged the request. */
static void take_seat(struct rtmp_session *session) {
    struct stream *replica = spread_stream(&session->base);
    if (replica)
        rtmp_play_start(session, replica);
    else
        refuse_for_now(session, "out of memory");
}

void rtmp_migrated(struct session *base) {
    struct rtmp_session *session = (struct rtmp_session *)base;
    session->active_at = worker_now(base->worker);
    session->state = RTMP_CONNECTED;
    /* The old one is tied to nothing any more. */
    sluice_writer_free(session->writer);
    session->writer = NULL;
    if (rtmp_answer_open(session) < 0) {
        rtmp_close(session);
        return;
    }
    if (base->worker->draining)
        refuse_for_now(session, "server shutting down");
    else if (base->reservation)
        take_seat(session);
    else
        judge(session);
    rtmp_read(session);
}
