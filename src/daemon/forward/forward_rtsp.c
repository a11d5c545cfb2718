#include "daemon/forward/forward_rtsp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/forward/forward.h"
#include "daemon/forward/forward_session.h"
#include "daemon/relay/rtp_packetizer.h"
#include "daemon/server/worker.h"
#include "shared/rtsp_requests.h"

enum {
    WRITER = 64 * 1024,    /* most that waits to be sent, besides packets */
    SDP_MOST = 16 * 1024,  /* of a description */
    REPORT_MS = 5000,      /* between sender reports */
    ALIVE_MS = 25000,      /* between requests, where the target says nothing of its sessions */
    ANSWER_MOST = 4096,    /* bytes of an answer's body */
    SKIP_MOST = 16 * 1024, /* bytes between two messages that belong to none */
};

struct forward_rtsp_session {
    struct forward_session base;
    sluice_rtsp *framer;
    struct rtsp_requests requests;
    /* for a request when the forward has gone */
    char user[RTSP_LOGIN_USER + 1], password[RTSP_LOGIN_USER + 1];
    char url[PULL_URL + 1];
    char *sdp; /* until the answer to ANNOUNCE */
    unsigned track;
    uint8_t rtcp[PACKET_TRACKS]; /* channels */
    uint64_t reported_at, asked_at;
};

static struct forward_rtsp_session *of(struct forward_session *base) {
    return (struct forward_rtsp_session *)base;
}

static const struct rtp_packetizer *output_of(const struct forward_rtsp_session *session) {
    return session->base.player->stream->rtp;
}

static void ask(struct forward_rtsp_session *session, const struct rtsp_request *request) {
    const char *method = rtsp_requests_method(request->method);
    struct forward *forward = session->base.forward;
    session->asked_at = worker_now(session->base.base.worker);
    if (forward && forward->machine.state == OUTGOING_NEGOTIATING)
        forward_begin_step(forward, method);
    int error = rtsp_requests_ask(&session->requests, request);
    if (error)
        forward_session_fail(&session->base, error, "%s cannot be sent: %s", method, strerror(-error));
}

static void ask_plainly(struct forward_rtsp_session *session, sluice_rtsp_method method) {
    ask(session, &(struct rtsp_request){.method = method, .url = session->url});
}

/* The next track that is present, from that one on. False: there is none. */
static bool set_up_next(struct forward_rtsp_session *session, unsigned track) {
    char url[PULL_URL + 1], control[32];
    while (track < PACKET_TRACKS && !output_of(session)->tracks[track].present)
        track++;
    if (track == PACKET_TRACKS)
        return false;
    session->track = track;
    int length = snprintf(control, sizeof control, "trackID=%u", track);
    if (rtsp_control_url(session->url, (sluice_http_text){control, (size_t)length}, url) < 0)
        forward_session_fail(&session->base, -EMSGSIZE, "the URL is too long");
    else
        ask(session, &(struct rtsp_request){
                         .method = SLUICE_RTSP_SETUP, .url = url, .record = true, .channel = (uint8_t)(2 * track)});
    return true;
}

/* The tracks are known, and described. */
static void announce(struct forward_rtsp_session *session) {
    struct player *player = session->base.player;
    const struct rtp_packetizer *output = output_of(session);
    if (!output || !rtp_packetizer_has_tracks(output)) {
        forward_session_fail(&session->base, -EOPNOTSUPP, "no track supported by RTP");
        return;
    }
    player->description = output->description;
    player->state = PLAYER_PAUSED;
    session->sdp = malloc(SDP_MOST);
    int size = session->sdp ? rtp_packetizer_write_sdp(output, "-", "0.0.0.0", session->sdp, SDP_MOST) : -ENOMEM;
    if (size < 0)
        forward_session_fail(&session->base, size, "%s", strerror(-size));
    else
        ask(session,
            &(struct rtsp_request){
                .method = SLUICE_RTSP_ANNOUNCE, .url = session->url, .body = session->sdp, .body_size = (size_t)size});
}

static void known(struct player *player) {
    announce(player->user);
}

static void send_reports(struct forward_rtsp_session *session) {
    struct rtp_packetizer *output = session->base.player->stream->rtp;
    uint8_t report[RTP_MAX_REPORT];
    session->reported_at = worker_now(session->base.base.worker);
    for (unsigned i = 0; i < PACKET_TRACKS && output; i++)
        if (session->base.player->form.tracks[i])
            rtsp_requests_send_rtcp(&session->requests, session->rtcp[i], report,
                                    rtp_packetizer_write_report(output, i, report));
}

/* The channels are those that were asked for, unless the target has chosen others. */
static bool take_channels(struct forward_rtsp_session *session, const sluice_rtsp_message *reply) {
    struct packet_form *form = &session->base.player->form;
    sluice_rtsp_transport_walk walk = {0};
    sluice_rtsp_transport transport;
    int result = sluice_rtsp_next_transport(reply, &walk, &transport);
    if (result < 0 || (result > 0 && !transport.tcp))
        return false;
    bool has_channels = result > 0 && transport.interleaved.first >= 0;
    uint8_t channel = has_channels ? (uint8_t)transport.interleaved.first : (uint8_t)(2 * session->track);
    form->tracks[session->track] = true;
    form->channels[session->track] = channel;
    session->rtcp[session->track] = has_channels && transport.interleaved.second >= 0
                                        ? (uint8_t)transport.interleaved.second
                                        : (uint8_t)(channel + 1);
    return true;
}

static void on_good_reply(struct forward_rtsp_session *session, const sluice_rtsp_message *reply) {
    sluice_rtsp_method asked = session->requests.asked.method;
    if (rtsp_requests_answered(&session->requests, reply) < 0) {
        forward_session_fail(&session->base, -EBADMSG, "malformed Session");
    } else if (asked == SLUICE_RTSP_ANNOUNCE) {
        free(session->sdp);
        session->sdp = NULL;
        (void)set_up_next(session, 0);
    } else if (asked == SLUICE_RTSP_SETUP) {
        if (!take_channels(session, reply))
            forward_session_fail(&session->base, -EBADMSG, "the target does not receive over the connection");
        else if (!set_up_next(session, session->track + 1))
            ask_plainly(session, SLUICE_RTSP_RECORD);
    } else if (asked == SLUICE_RTSP_RECORD) {
        forward_session_play_asked(&session->base);
        send_reports(session);
    }
}

static void on_challenge(struct forward_rtsp_session *session, const sluice_rtsp_message *reply) {
    const char *method = rtsp_requests_method(session->requests.asked.method);
    int error = rtsp_requests_log_in(&session->requests, reply);
    session->base.forward->has_digest = session->requests.login.has_digest;
    if (error)
        forward_session_fail(&session->base, error, "%s answered 401: %s", method,
                             error == -ENOKEY   ? "the target needs credentials"
                             : error == -EACCES ? "wrong user or password"
                             : error == -EPROTO ? "Basic in place of Digest: the password is not shown"
                                                : strerror(-error));
}

static void on_reply(struct forward_rtsp_session *session, const sluice_rtsp_message *reply) {
    if (!rtsp_requests_is_answer(&session->requests, reply))
        return;
    sluice_rtsp_method asked = session->requests.asked.method;
    if (!session->base.forward)
        forward_session_close(&session->base);
    else if (reply->status == 401)
        on_challenge(session, reply);
    else if (reply->status < 300 || asked == SLUICE_RTSP_OPTIONS)
        on_good_reply(session, reply);
    else
        forward_session_fail(&session->base, -ECONNREFUSED, "%s answered %u %s", rtsp_requests_method(asked),
                             reply->status, sluice_rtsp_reason(reply->status));
}

/* Requests of the target, and its receiver reports, which say nothing that is needed. */
static void handle(struct forward_rtsp_session *session, const sluice_rtsp_message *message) {
    if (message->kind == SLUICE_RTSP_REPLY)
        on_reply(session, message);
    else if (message->kind == SLUICE_RTSP_REQUEST && rtsp_requests_reply(&session->requests, message) < 0)
        forward_session_fail(&session->base, -ENOBUFS, "the target asks on and takes no answers");
}

static void received(struct forward_session *base, sluice_chain *chain) {
    struct forward_rtsp_session *session = of(base);
    sluice_rtsp_message *message;
    int result = 1;
    budget_begin(&base->base);
    while (!base->base.closing && !budget_is_spent(&base->base.budget) &&
           (result = sluice_rtsp_next(session->framer, chain, &message)) > 0) {
        handle(session, message);
        budget_charge(&base->base.budget);
    }
    if (base->base.closing)
        return;
    if (result < 0) {
        forward_session_fail(base, -EBADMSG, "malformed RTSP, or over a limit: %s", strerror(-result));
        forward_session_close(base);
    } else if (!budget_end(&base->base, chain)) {
        session_set_need(&base->base, sluice_rtsp_need(session->framer));
    }
}

static void tick(struct forward_session *base, uint64_t now) {
    struct forward_rtsp_session *session = of(base);
    uint64_t alive_ms = session->requests.timeout > 1 ? (uint64_t)session->requests.timeout * 500 : ALIVE_MS;
    if (base->forward->machine.state != OUTGOING_ACTIVE)
        return;
    if (now - session->reported_at >= REPORT_MS)
        send_reports(session);
    if (session->requests.asked.method == SLUICE_RTSP_OTHER && now - session->asked_at >= alive_ms)
        ask_plainly(session, SLUICE_RTSP_OPTIONS);
}

static void done(struct forward_session *base, bool is_whole) {
    struct forward_rtsp_session *session = of(base);
    if (is_whole)
        ask_plainly(session, SLUICE_RTSP_TEARDOWN);
    else
        forward_session_close(base);
}

static void clear(struct forward_session *base) {
    sluice_rtsp_free(of(base)->framer);
    free(of(base)->sdp);
}

static const struct forward_session_type session_type = {
    .base = FORWARD_SESSION_TYPE("rtsp", struct forward_rtsp_session),
    .done = done,
    .received = received,
    .tick = tick,
    .clear = clear,
};

static void prepare_requests(struct forward_rtsp_session *session, const struct forward *forward) {
    const struct forward_option *option = &forward->option;
    memcpy(session->url, forward->target.url, sizeof session->url);
    memcpy(session->user, option->user, sizeof session->user);
    memcpy(session->password, option->password, sizeof session->password);
    session->requests = (struct rtsp_requests){
        .writer = session->base.writer,
        .agent = "sluiced",
        .login = {.user = option->has_user ? session->user : NULL,
                  .password = session->password,
                  .has_digest = forward->has_digest},
        .asked.method = SLUICE_RTSP_OTHER,
    };
}

static int start(struct forward *forward, int fd) {
    const sluice_rtsp_options limits = {
        .size = sizeof limits, .max_body = ANSWER_MOST, .max_skip = SKIP_MOST, .channels = 256};
    struct forward_session *base;
    int error = forward_session_start(&session_type, forward, fd, WRITER, &base);
    if (error || !base->forward)
        return error;
    struct forward_rtsp_session *session = of(base);
    prepare_requests(session, forward);
    error = sluice_rtsp_new(&limits, &session->framer);
    if (!error)
        error = forward_session_make_player(base, &wire_rtp, NULL);
    if (error) {
        forward_session_fail(base, error, "%s", strerror(-error));
        return 0;
    }
    base->player->known = known;
    forward_session_ask(base);
    if (stream_is_known(forward->stream))
        announce(session);
    return 0;
}

const struct forward_type forward_rtsp = {
    .scheme = {"rtsp", 554, "rtsps", 322, NULL}, .form = "rtsp[s]://[USER:PASSWORD@]HOST[:PORT]/PATH", .start = start};
