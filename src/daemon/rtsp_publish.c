/* Publishing: ANNOUNCE says what comes and takes the stream's name, SETUP chooses channels, RECORD starts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/log.h"
#include "daemon/rtsp_session_internal.h"

static bool is_sdp(const sluice_rtsp_message *request) {
    static const char type[] = "application/sdp";
    const sluice_http_header *header = sluice_rtsp_find(request, "Content-Type");
    return header && header->value.length >= sizeof type - 1 &&
           strncasecmp(header->value.text, type, sizeof type - 1) == 0;
}

static void take_tag(sluice_flv_tag *tag, uint8_t flags, void *user) {
    struct rtsp_session *session = user;
    publisher_publish(session->publisher, tag, flags);
}

/* The body as text of the session's: text, not payload. 0, or the status to refuse with. */
static unsigned read_description(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct iovec pieces[SLUICE_SDP_MAX_SIZE / 512];
    size_t length = sluice_slice_length(&request->payload), at = 0;
    if (length == 0)
        return 400;
    if (!is_sdp(request))
        return 415;
    size_t count = sluice_slice_iov(&request->payload, 0, pieces, sizeof pieces / sizeof *pieces);
    if (length > SLUICE_SDP_MAX_SIZE || count > sizeof pieces / sizeof *pieces)
        return 413;
    session->sdp_text = malloc(length);
    session->sdp = malloc(sizeof *session->sdp);
    if (!session->sdp_text || !session->sdp)
        return 503;
    for (size_t i = 0; i < count; at += pieces[i++].iov_len)
        memcpy(session->sdp_text + at, pieces[i].iov_base, pieces[i].iov_len);
    int error = sluice_sdp_read(session->sdp_text, length, session->sdp);
    return error == -EMSGSIZE ? 413 : error || session->sdp->media_count == 0 ? 400 : 0;
}

static void forget_description(struct rtsp_session *session) {
    rtp_input_free(session->input);
    free(session->sdp_text);
    free(session->sdp);
    session->input = NULL;
    session->sdp_text = NULL;
    session->sdp = NULL;
}

static unsigned make_publisher(struct rtsp_session *session, sluice_http_text name) {
    struct server *server = session->base.server;
    struct stream_source source = {.protocol = "rtsp", .since = server_now(server)};
    struct stream *stream;
    memcpy(source.peer, session->base.peer, sizeof source.peer);
    uint32_t frame_limit = (uint32_t)server->options->frame_limit;
    int error = registry_get(server->registry, name.text, name.length, server_now(server), &stream);
    if (error)
        return error == -EINVAL ? 404 : 503;
    error = publisher_new(stream, &source, frame_limit, &session->publisher);
    if (error) {
        stream_unref(stream);
        return 503;
    }
    error = rtp_input_new(server_small_pool(server), session->sdp, take_tag, session, &session->input);
    if (!error)
        error = publisher_attach(session->publisher);
    if (!error)
        return 0;
    /* Logs the refusal. */
    publisher_end(session->publisher, error, 0, server_now(server));
    session->publisher = NULL;
    return error == -EEXIST ? 403 : error == -EOPNOTSUPP ? 415 : 503;
}

void rtsp_announce(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    unsigned status = rtsp_read_target(request->url, NULL, 0, &target) < 0 ? 400 : read_description(session, request);
    if (!status)
        status = make_publisher(session, target.name);
    if (status) {
        forget_description(session);
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
        return;
    }
    session->state = RTSP_ANNOUNCED;
    rtsp_respond(session, 200, request->cseq);
}

/* What a request of a publisher is about: 0, or the status to refuse with. */
static unsigned read_target(const struct rtsp_session *session, const sluice_rtsp_message *request,
                            struct rtsp_target *ret_target) {
    sluice_http_text controls[SLUICE_SDP_MAX_MEDIA];
    const char *name = publisher_stream_name(session->publisher);
    for (size_t i = 0; i < session->sdp->media_count; i++)
        controls[i] = session->sdp->media[i].control;
    if (rtsp_read_target(request->url, controls, session->sdp->media_count, ret_target) < 0)
        return 400;
    bool same = ret_target->name.length == strlen(name) && memcmp(ret_target->name.text, name, strlen(name)) == 0;
    return same || ret_target->track >= 0 ? 0 : 404;
}

void rtsp_publish_setup(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    unsigned status = read_target(session, request, &target);
    if (!status && target.track < 0 && session->sdp->media_count > 1)
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
    rtsp_respond(session, 200, request->cseq);
}

/* An interleaved frame. Those of players (receiver reports), and those of no channel, are dropped. */
void rtsp_publish_frame(struct rtsp_session *session, sluice_rtsp_message *frame) {
    for (uint32_t i = 0; session->state == RTSP_RECORDING && i < session->sdp->media_count; i++) {
        const struct rtsp_channel *channel = &session->channels[i];
        if (!channel->set_up)
            continue;
        if (channel->rtp == frame->channel)
            rtp_input_rtp(session->input, i, &frame->payload);
        else if (channel->has_rtcp && channel->rtcp == frame->channel)
            rtp_input_rtcp(session->input, i, &frame->payload);
    }
}

static void send_reports(struct rtsp_session *session, uint64_t now) {
    uint8_t buffer[RTP_MAX_RECEIVER_REPORT];
    session->reported_at = now;
    for (uint32_t i = 0; i < session->sdp->media_count; i++)
        if (session->channels[i].set_up)
            rtsp_send_rtcp(session, &session->channels[i], buffer, rtp_input_write_report(session->input, i, buffer));
}

void rtsp_publish_tick(struct rtsp_session *session, uint64_t now) {
    const sluice_chain *chain = sluice_conn_chain(session->base.conn);
    uint64_t received = sluice_chain_consumed(chain) + sluice_chain_length(chain);
    if (received != session->received) {
        session->received = received;
        session->active_at = now;
    } else if (now - session->active_at >= session->base.server->options->idle_ms) {
        rtsp_publish_leave(session, -ETIMEDOUT);
        rtsp_end(session);
        return;
    }
    if (now - session->reported_at >= RTSP_REPORT_MS)
        send_reports(session, now);
}

/* What came of the tracks: where frames are missing, it says on which side. */
static void log_counts(const struct rtsp_session *session) {
    struct rtp_input_counts counts;
    rtp_input_get_counts(session->input, &counts);
    LOG(LOG_INFO, "packets received", {"stream", publisher_stream_name(session->publisher)}, {"proto", "rtsp"},
        {"peer", session->base.peer}, {"packets", log_unsigned(counts.packets).text},
        {"lost", log_unsigned(counts.lost).text}, {"malformed", log_unsigned(counts.malformed).text},
        {"frames_dropped", log_unsigned(counts.dropped).text});
}

void rtsp_publish_leave(struct rtsp_session *session, int error) {
    if (!session->publisher)
        return;
    rtp_input_flush(session->input);
    log_counts(session);
    publisher_end(session->publisher, error, 0, server_now(session->base.server));
    session->publisher = NULL;
}
