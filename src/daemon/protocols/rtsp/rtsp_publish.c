/*
 * Publishing: ANNOUNCE describes the media and reserves the stream's name, SETUP chooses channels,
 * RECORD starts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtsp/rtsp_session_internal.h"
#include "daemon/server/server.h"

static bool is_sdp(const sluice_rtsp_message *request) {
    static const char type[] = "application/sdp";
    const sluice_http_header *header = sluice_rtsp_find(request, "Content-Type");
    return header && header->value.length >= sizeof type - 1 &&
           strncasecmp(header->value.text, type, sizeof type - 1) == 0;
}

/* 0, or the status to refuse the description with. */
static unsigned read_description(struct rtsp_session *session, const sluice_rtsp_message *request,
                                 sluice_http_text name) {
    if (sluice_slice_length(&request->payload) > 0 && !is_sdp(request))
        return 415;
    switch (rtsp_source_describe(&session->source, &request->payload, session->base.worker, name)) {
    case 0:
        return 0;
    case -EMSGSIZE:
        return 413;
    case -EOPNOTSUPP:
        return 415;
    case -ENODATA:
    case -EPROTO:
        return 400;
    default:
        return 503;
    }
}

static void announced(struct rtsp_session *session, int64_t cseq) {
    session->state = RTSP_ANNOUNCED;
    rtsp_respond(session, 200, cseq);
}

static void refuse(struct rtsp_session *session, unsigned status, int64_t cseq) {
    char reason[RTSP_SOURCE_REASON];
    snprintf(reason, sizeof reason, "%s", sluice_rtsp_reason(status));
    if (status == 415 && session->source.ignored)
        rtsp_source_explain(&session->source, reason);
    rtsp_source_clear(&session->source);
    rtsp_refuse(session, status, cseq, reason);
}

static unsigned status_of(int error) {
    switch (error) {
    case -EINVAL:
        return 404;
    case -EEXIST:
    case -EBUSY:
    case -EKEYREJECTED:
    case -EREMOTE:
        return 403;
    default:
        return 503;
    }
}

/* The answer to ANNOUNCE was owed. */
static void on_claimed(struct session *base, int error) {
    struct rtsp_session *session = (struct rtsp_session *)base;
    session->active_at = worker_now(base->worker);
    if (error) {
        rtsp_publish_leave(session, error);
        refuse(session, status_of(error), session->asked_cseq);
    } else {
        announced(session, session->asked_cseq);
    }
    sluice_conn_resume(base->conn);
    rtsp_read(session);
}

void rtsp_announce(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    unsigned status = rtsp_read_target(request->url, NULL, 0, &target) < 0 ? 400 : 0;
    int result = 0;
    if (!status)
        status = read_description(session, request, target.name);
    if (!status)
        result = rtsp_source_publish(&session->source, &session->base, target.name, on_claimed);
    if (result == -EUSERS)
        server_count_reject(session->base.worker->server, REJECT_STREAMS);
    if (result < 0)
        status = status_of(result);
    if (status)
        refuse(session, status, request->cseq);
    else if (result > 0)
        session->asked_cseq = request->cseq;
    else
        announced(session, request->cseq);
}

/* What a request of a publisher is about: 0, or the status to refuse with. */
static unsigned read_target(const struct rtsp_session *session, const sluice_rtsp_message *request,
                            struct rtsp_target *ret_target) {
    const struct rtsp_source *source = &session->source;
    const char *name = publisher_stream_name(source->publisher);
    if (rtsp_read_target(request->url, source->controls, source->media_count, ret_target) < 0)
        return 400;
    bool same = ret_target->name.length == strlen(name) && memcmp(ret_target->name.text, name, strlen(name)) == 0;
    return same || ret_target->track >= 0 ? 0 : 404;
}

void rtsp_publish_setup(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    unsigned status = read_target(session, request, &target);
    if (!status && target.track < 0 && session->source.media_count > 1)
        status = 459;
    if (status) {
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
        return;
    }
    uint32_t track = target.track < 0 ? 0 : (uint32_t)target.track;
    if (rtsp_setup_track(session, request, track, true) < 0)
        return;
    session->state = RTSP_TO_RECORD;
}

void rtsp_record(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    unsigned status = read_target(session, request, &target);
    if (!status && target.track >= 0 && session->set_up_count > 1)
        status = 460;
    if (status) {
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
        return;
    }
    session->state = RTSP_RECORDING;
    session_authorize(&session->base);
    rtsp_respond(session, 200, request->cseq);
}

/* As with FLV, a frame that is too large ends the publisher, and so does a lost header. */
static void end_broken(struct rtsp_session *session) {
    if (!session->source.publisher || !session->source.error)
        return;
    rtsp_publish_leave(session, session->source.error);
    rtsp_end(session);
}

/* An interleaved frame. Those of players (receiver reports), and those of no channel, are
 * dropped. */
void rtsp_publish_frame(struct rtsp_session *session, sluice_rtsp_message *frame) {
    if (session->state == RTSP_RECORDING)
        (void)rtsp_source_frame(&session->source, session->channels, frame);
    end_broken(session);
}

void rtsp_publish_go_on(struct rtsp_session *session) {
    rtsp_source_go_on(&session->source);
    end_broken(session);
}

static void send_reports(struct rtsp_session *session, uint64_t now) {
    uint8_t buffer[RTP_MAX_RECEIVER_REPORT];
    session->reported_at = now;
    for (uint32_t i = 0; i < session->source.media_count; i++)
        if (session->channels[i].set_up)
            rtsp_send_rtcp(session, &session->channels[i], buffer,
                           rtp_input_write_report(session->source.input, i, buffer));
}

bool rtsp_publish_is_late(const struct rtsp_session *session, uint64_t now) {
    const struct publisher *publisher = session->source.publisher;
    return publisher && publisher_is_late(publisher, now);
}

/* An interleaved frame, or a frame of the media being received. */
static bool is_slow(struct rtsp_session *session, uint64_t received, uint64_t now) {
    struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    bool is_ours = budget_has_more(base) || base->held_up;
    struct pace_look look = {
        .mark = sluice_chain_consumed(chain),
        .received = received,
        .is_open = sluice_chain_length(chain) > 0 && !is_ours,
        .most_ms = publisher_idle_ms(session->source.publisher),
        .earns = true,
    };
    bool is_late = pace_is_late(&base->pace, &look, now);
    look.is_open = rtp_input_is_inside(session->source.input, &look.mark) && !is_ours;
    return pace_is_late(&session->unit, &look, now) || is_late;
}

void rtsp_publish_tick(struct rtsp_session *session, uint64_t now) {
    const sluice_chain *chain = session_chain(&session->base);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    bool is_late = is_slow(session, received, now);
    bool is_silent = now - session->active_at >= publisher_idle_ms(session->source.publisher);
    if (received != session->received || budget_has_more(&session->base)) {
        session->received = received;
        session->active_at = now;
        is_silent = false;
    }
    if (is_silent || is_late) {
        rtsp_publish_leave(session, is_silent ? -ETIMEDOUT : -EINPROGRESS);
        rtsp_end(session);
        return;
    }
    if (now - session->reported_at >= RTSP_REPORT_MS)
        send_reports(session, now);
}

void rtsp_publish_leave(struct rtsp_session *session, int error) {
    rtsp_source_end(&session->source, error, worker_now(session->base.worker));
}
