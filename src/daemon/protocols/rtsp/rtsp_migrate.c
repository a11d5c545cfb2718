/*
 * A session goes to the worker of the stream that it asks for, or to one that serves some of its
 * players, with the request: its state machine goes on there.
 */
#include <string.h>

#include "daemon/protocols/rtsp/rtsp_session_internal.h"
#include "daemon/server/handover.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"

/* The worker of the stream that a request is about; the session's own where it is about none, or a
 * refusal is due. */
static struct worker *owner_of(const struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct worker *worker = session->base.worker;
    struct rtsp_target target;
    if (rtsp_play_read_target(request, &target) < 0 || !stream_name_is_valid(target.name.text, target.name.length))
        return worker;
    return server_owner(worker->server, target.name.text, target.name.length);
}

/* Of a description that it has had: nothing has been sent to it yet. */
static void leave(struct rtsp_session *session) {
    rtsp_play_leave(session, "client selected another stream");
    rtsp_play_free(session);
    session->state = RTSP_INIT;
}

/* Whether it goes on at the replica where it has a seat: with the stream that it has been
 * described. */
static bool is_seated(const struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    return session->base.reservation && session->player && !(request->method_id & SLUICE_RTSP_ANNOUNCE) &&
           rtsp_play_read_target(request, &target) == 0 && rtsp_play_is_of(session, target.name);
}

bool rtsp_migrate(struct rtsp_session *session, const sluice_rtsp_message *request) {
    const unsigned naming = SLUICE_RTSP_ANNOUNCE | SLUICE_RTSP_DESCRIBE | SLUICE_RTSP_SETUP;
    /* Once tracks are set up, or a stream is published, the session is the stream's. */
    bool bound = session->state != RTSP_INIT && session->state != RTSP_DESCRIBED;
    if (bound || !(request->method_id & naming) || is_seated(session, request))
        return false;
    struct worker *owner = owner_of(session, request);
    if (session->base.reservation) {
        leave(session);
        spread_leave(&session->base);
    }
    if (owner == session->base.worker)
        return false;
    leave(session);
    session->moving = request;
    rtsp_try_migrate(session);
    return true;
}

bool rtsp_spread(struct rtsp_session *session, const sluice_rtsp_message *request, sluice_http_text name, bool live) {
    char text[STREAM_NAME + 1];
    bool is_bound = session->player && (session->state != RTSP_DESCRIBED || rtsp_play_is_of(session, name));
    if (session->base.reservation || is_bound || !stream_name_is_valid(name.text, name.length))
        return false;
    memcpy(text, name.text, name.length);
    text[name.length] = '\0';
    struct stream *stream = registry_find(session->base.worker->registry, text);
    if (!stream || !stream_has_room(stream) || (live && !stream_is_known(stream)) ||
        !spread_player(stream, &session->base))
        return false;
    leave(session);
    session->moving = request;
    rtsp_try_migrate(session);
    return true;
}

void rtsp_try_migrate(struct rtsp_session *session) {
    const sluice_rtsp_message *request = session->moving;
    if (session->base.closing || session->base.move || rtsp_queued(session) > 0 || session_is_sending(&session->base))
        return;
    struct worker *to = session->base.reservation ? spread_worker(&session->base) : owner_of(session, request);
    if (session_migrate(&session->base, to) == 0)
        return;
    session->moving = NULL;
    rtsp_refuse(session, 503, request->cseq, "out of memory");
    rtsp_end(session);
}

void rtsp_migrated(struct session *base) {
    struct rtsp_session *session = (struct rtsp_session *)base;
    const sluice_rtsp_message *request = session->moving;
    session->moving = NULL;
    session->active_at = worker_now(base->worker);
    /* An empty one is tied to the loop before. */
    sluice_writer_free(session->writer);
    session->writer = NULL;
    if (base->worker->draining) {
        rtsp_respond(session, 503, request->cseq);
        rtsp_end(session);
    } else {
        /* A session with a reservation has been authorized. */
        if (base->reservation)
            rtsp_dispatch(session, request);
        else
            rtsp_handle(session, request);
        rtsp_read(session);
    }
}
