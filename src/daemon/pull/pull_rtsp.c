#include "daemon/pull/pull_rtsp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sluice/writer.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtsp/rtsp_source.h"
#include "daemon/pull/pull.h"
#include "daemon/server/server.h"
#include "daemon/server/worker.h"
#include "shared/rtsp_requests.h"

enum {
    ENDING_MS = 1000,       /* for TEARDOWN to be answered */
    REPORT_MS = 5000,       /* between receiver reports */
    KEY_PICTURE_MS = 60000, /* pictures may wait for a key picture, beyond --first-data */
    WRITER = 64 * 1024,     /* most that waits to be sent */
    BLOCK = 4096,           /* bytes of those that are received into */
    /* bytes between two messages that belong to none, as some cameras put there */
    SKIP_MOST = 16 * 1024,
};

struct pull_rtsp_session {
    struct session base;
    struct pull *pull; /* NULL when one has let go of the other: the end */
    sluice_rtsp *framer;
    sluice_writer *writer;
    struct rtsp_requests requests;
    struct rtsp_source source;
    struct rtsp_channel channels[SLUICE_SDP_MAX_MEDIA];
    uint32_t track; /* that is being set up */
    char base_url[PULL_URL + 1];
    char control[PULL_URL + 1]; /* of all media together */
    bool has_get_parameter, has_skipped, peer_ended;
    uint64_t reported_at;
    uint64_t left_at; /* when the pull had let go */
};

static struct pull_rtsp_session *of(struct session *session) {
    return (struct pull_rtsp_session *)session;
}

static uint64_t now_of(const struct pull_rtsp_session *session) {
    return worker_now(session->base.worker);
}

static void close_session(struct pull_rtsp_session *session) {
    if (session->base.closing)
        return;
    session_close(&session->base);
}

static int ask(struct pull_rtsp_session *session, sluice_rtsp_method method, const char *url) {
    const struct rtsp_request request = {
        .method = method, .url = url, .channel = session->channels[session->track].rtp};
    return rtsp_requests_ask(&session->requests, &request);
}

static void let_go(struct pull_rtsp_session *session, int error) {
    session->pull = NULL;
    session->left_at = now_of(session);
    rtsp_source_end(&session->source, error, now_of(session));
    session_set_need(&session->base, 0);
    if (session->peer_ended || !*session->requests.session || ask(session, SLUICE_RTSP_TEARDOWN, session->control) < 0)
        close_session(session);
}

static void ask_or_fail(struct pull_rtsp_session *session, sluice_rtsp_method method, const char *url) {
    int error = ask(session, method, url);
    if (error)
        pull_fail(session->pull, error, "%s cannot be sent: %s", rtsp_requests_method(method), strerror(-error));
}

static void leave(struct session *base, int error) {
    let_go(of(base), error);
}

static void keep_alive(struct session *base) {
    struct pull_rtsp_session *session = of(base);
    ask_or_fail(session, session->has_get_parameter ? SLUICE_RTSP_GET_PARAMETER : SLUICE_RTSP_OPTIONS,
                session->control);
}

/*
 * The steps up to media: what can the camera do (OPTIONS), what does it send (DESCRIBE), on which
 * channels (SETUP, once for each media), and, when the stream's name is taken, media (PLAY).
 */
static void ask_next(struct pull_rtsp_session *session, sluice_rtsp_method method, const char *url) {
    pull_begin_step(session->pull, rtsp_requests_method(method));
    ask_or_fail(session, method, url);
}

static void set_up_track(struct pull_rtsp_session *session) {
    char url[PULL_URL + 1];
    if (rtsp_control_url(session->base_url, session->source.controls[session->track], url) < 0)
        pull_fail(session->pull, -EMSGSIZE, "a control URL is too long");
    else
        ask_next(session, SLUICE_RTSP_SETUP, url);
}

static bool find_track(struct pull_rtsp_session *session, uint32_t from) {
    while (from < session->source.media_count && !rtp_input_takes(session->source.input, from))
        from++;
    if (from == session->source.media_count)
        return false;
    session->track = from;
    session->channels[from] = (struct rtsp_channel){
        .rtp = (uint8_t)(2 * from), .rtcp = (uint8_t)(2 * from + 1), .has_rtcp = true};
    return true;
}

/* A URL of a reply. */
static int read_url(sluice_http_text text, struct pull_target *ret_target) {
    return pull_target_read(&pull_rtsp.scheme, text.text, text.length, ret_target, NULL);
}

/* What the media's URLs are relative to. */
static void take_base(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    const sluice_http_header *base = sluice_rtsp_find(reply, "Content-Base");
    struct pull_target target;
    if (!base)
        base = sluice_rtsp_find(reply, "Content-Location");
    bool usable = base && read_url(base->value, &target) == 0;
    snprintf(session->base_url, sizeof session->base_url, "%s", usable ? target.url : session->requests.asked_url);
}

static void on_described(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    const char *stream = session->pull->option.name;
    const sluice_http_text name = {stream, strlen(stream)};
    int error = rtsp_source_describe(&session->source, &reply->payload, session->base.worker, name);
    if (error) {
        char reason[RTSP_SOURCE_REASON] = "malformed description";
        if (error == -EOPNOTSUPP)
            rtsp_source_explain(&session->source, reason);
        pull_fail(session->pull, error, "%s", error == -ENOMEM ? "out of memory" : reason);
        return;
    }
    take_base(session, reply);
    if (rtsp_control_url(session->base_url, session->source.control, session->control) < 0 || !find_track(session, 0))
        pull_fail(session->pull, -EMSGSIZE, "a control URL is too long");
    else
        set_up_track(session);
}

/* The channels that the camera has chosen; as asked, where it does not say. False where it does not
 * use this connection. */
static bool take_channels(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    struct rtsp_channel *channel = &session->channels[session->track];
    sluice_rtsp_transport_walk walk = {0};
    sluice_rtsp_transport transport;
    int result = sluice_rtsp_next_transport(reply, &walk, &transport);
    if (result < 0 || (result > 0 && !transport.tcp))
        return false;
    if (result > 0 && transport.interleaved.first >= 0) {
        channel->rtp = (uint8_t)transport.interleaved.first;
        channel->has_rtcp = transport.interleaved.second >= 0;
        channel->rtcp = channel->has_rtcp ? (uint8_t)transport.interleaved.second : 0;
    }
    channel->set_up = true;
    return true;
}

/* Where the stream's name had to be waited for. */
static void on_claimed(struct session *base, int error) {
    struct pull_rtsp_session *session = of(base);
    if (error)
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
    else
        ask_next(session, SLUICE_RTSP_PLAY, session->control);
}

static void on_set_up(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    struct pull *pull = session->pull;
    const sluice_http_text name = {pull->option.name, strlen(pull->option.name)};
    uint32_t most = 0;
    if (session->requests.timeout > 0)
        outgoing_set_timeout(&session->pull->machine, session->requests.timeout);
    if (!take_channels(session, reply)) {
        pull_fail(session->pull, -EBADMSG, "the camera does not send over the connection");
        return;
    }
    for (size_t i = 0; i < SLUICE_SDP_MAX_MEDIA; i++)
        if (session->channels[i].set_up && session->channels[i].rtp >= most)
            most = session->channels[i].rtp + 1u;
    sluice_rtsp_set_channels(session->framer, (uint16_t)(most < 255 ? most + 1 : 256));
    if (find_track(session, session->track + 1)) {
        set_up_track(session);
        return;
    }
    /* Media may overtake the answer to PLAY. */
    int result = rtsp_source_publish(&session->source, &session->base, name, on_claimed);
    if (result == -EUSERS)
        server_count_reject(session->base.worker->server, REJECT_STREAMS);
    if (result < 0)
        pull_fail(session->pull, result, "%s", publisher_error_text(result));
    else if (result == 0)
        ask_next(session, SLUICE_RTSP_PLAY, session->control);
}

static void on_challenge(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    int error = rtsp_requests_log_in(&session->requests, reply);
    session->pull->has_digest = session->requests.login.has_digest;
    if (!error)
        outgoing_step_begun(&session->pull->machine, now_of(session));
    switch (error) {
    case 0:
        break;
    case -ENOKEY:
        pull_fail(session->pull, error,
                  "%s answered 401: the camera needs credentials, and the pull has none for that host",
                  rtsp_requests_method(session->requests.asked.method));
        break;
    case -EACCES:
        pull_fail(session->pull, error, "%s answered 401: wrong user or password",
                  rtsp_requests_method(session->requests.asked.method));
        break;
    case -EPROTO:
        pull_fail(session->pull, error, "%s answered 401 with Basic in place of Digest: the password is not shown",
                  rtsp_requests_method(session->requests.asked.method));
        break;
    case -EOPNOTSUPP:
        pull_fail(session->pull, error, "%s answered 401 without a challenge that is known",
                  rtsp_requests_method(session->requests.asked.method));
        break;
    default:
        pull_fail(session->pull, error, "%s", strerror(-error));
        break;
    }
}

static void on_redirect(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    struct pull *pull = session->pull;
    const sluice_http_header *location = sluice_rtsp_find(reply, "Location");
    struct pull_target target;
    if (!location || read_url(location->value, &target) < 0) {
        pull_fail(session->pull, -EBADMSG, "redirected to what is no rtsp:// URL");
        return;
    }
    if (pull->target.is_secure && !target.is_secure) {
        pull_fail(session->pull, -EACCES, "redirected from rtsps:// to rtsp://");
        return;
    }
    /* What the operator has not named may be of this host's own network, and is not the camera's to
     * have asked. */
    if (strcasecmp(target.host, pull->option.target.host) != 0) {
        pull_fail(session->pull, -EACCES, "redirected to another host");
        return;
    }
    let_go(session, 0);
    pull_redirect(pull, &target);
}

/* The answer to what keeps the session. */
static void on_alive(struct pull_rtsp_session *session, unsigned status) {
    if (status >= 400 && session->requests.asked.method == SLUICE_RTSP_GET_PARAMETER)
        session->has_get_parameter = false;
    session->requests.asked.method = SLUICE_RTSP_OTHER;
    if (status == 454)
        pull_fail(session->pull, -ECONNRESET, "the camera has forgotten the session");
}

static void on_good_reply(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    sluice_rtsp_method asked = session->requests.asked.method;
    if (rtsp_requests_answered(&session->requests, reply) < 0) {
        pull_fail(session->pull, -EBADMSG, "malformed Session");
        return;
    }
    switch (asked) {
    case SLUICE_RTSP_OPTIONS:
        session->has_get_parameter = sluice_rtsp_public(reply) & SLUICE_RTSP_GET_PARAMETER;
        ask_next(session, SLUICE_RTSP_DESCRIBE, session->pull->target.url);
        break;
    case SLUICE_RTSP_DESCRIBE:
        on_described(session, reply);
        break;
    case SLUICE_RTSP_SETUP:
        on_set_up(session, reply);
        break;
    default:
        publisher_expect(session->source.publisher, now_of(session));
        pull_begin_playing(session->pull);
        break;
    }
}

/* Whether the request that is under way has been repeated with credentials, which the camera has
 * not accepted yet. */
static bool is_login(const struct pull_rtsp_session *session) {
    return session->requests.asked.method != SLUICE_RTSP_OTHER && session->requests.login.answered > 0;
}

static void on_reply(struct pull_rtsp_session *session, const sluice_rtsp_message *reply) {
    unsigned status = reply->status;
    if (!rtsp_requests_is_answer(&session->requests, reply))
        return;
    if (!session->pull)
        close_session(session);
    else if (status == 401)
        on_challenge(session, reply);
    else if (session->pull->machine.state == OUTGOING_ACTIVE)
        on_alive(session, status);
    else if (status == 301 || status == 302)
        on_redirect(session, reply);
    else if (status < 300 ||
             (session->requests.asked.method == SLUICE_RTSP_OPTIONS && (status == 405 || status == 501)))
        on_good_reply(session, reply);
    else
        pull_fail(session->pull, -ECONNREFUSED, "%s answered %u %s%s",
                  rtsp_requests_method(session->requests.asked.method), status, sluice_rtsp_reason(status),
                  status == 403 && is_login(session) ? ": wrong user or password, or no right to that path" : "");
}

/* Cameras may ask, too: whether somebody is there. */
static void on_request(struct pull_rtsp_session *session, const sluice_rtsp_message *request) {
    int error = rtsp_requests_reply(&session->requests, request);
    if (error)
        pull_fail(session->pull, error, "asks on and takes no answers");
}

static void on_skipped(struct pull_rtsp_session *session, size_t skipped) {
    if (session->has_skipped || !session->pull)
        return;
    session->has_skipped = true;
    LOG(LOG_WARNING, "bytes skipped", {"stream", session->pull->option.name}, {"peer", session->base.peer},
        {"bytes", log_unsigned(skipped).text});
}

/* As with FLV, a frame that is too large ends the publisher, and so does a lost header. */
static void end_broken(struct pull_rtsp_session *session) {
    int error = session->source.error;
    if (session->source.publisher && error)
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
}

static void on_frame(struct pull_rtsp_session *session, const sluice_rtsp_message *frame) {
    if (rtsp_source_frame(&session->source, session->channels, frame))
        outgoing_media(&session->pull->machine, now_of(session));
    else if (rtsp_source_has_ended(&session->source))
        pull_fail(session->pull, 0, "the camera has ended its media (RTCP BYE)");
}

static void handle(struct pull_rtsp_session *session, const sluice_rtsp_message *message) {
    if (message->skipped > 0)
        on_skipped(session, message->skipped);
    if (message->kind == SLUICE_RTSP_REPLY)
        on_reply(session, message);
    else if (message->kind == SLUICE_RTSP_REQUEST)
        on_request(session, message);
    else if (session->source.publisher && !rtsp_source_is_waiting(&session->source))
        on_frame(session, message);
    end_broken(session);
}

/* Handles a message, or what the budget has left of the last one: 1, 0 (there is none), or the
 * framer's error. */
static int handle_next(struct pull_rtsp_session *session) {
    sluice_rtsp_message *message;
    if (rtsp_source_has_more(&session->source)) {
        rtsp_source_go_on(&session->source);
        end_broken(session);
        return 1;
    }
    int result = sluice_rtsp_next(session->framer, session_chain(&session->base), &message);
    if (result > 0) {
        handle(session, message);
        budget_charge(&session->base.budget);
    }
    return result;
}

static void take_data(struct pull_rtsp_session *session) {
    int result = 1;
    budget_begin(&session->base);
    while (!session->base.closing && !budget_is_spent(&session->base.budget) && result > 0)
        result = handle_next(session);
    if (session->base.closing)
        return;
    if (result < 0) {
        pull_fail(session->pull, -EBADMSG, "malformed RTSP, or over a limit: %s", strerror(-result));
        close_session(session);
        return;
    }
    if (!budget_end(&session->base, session_chain(&session->base)))
        session_set_need(&session->base, session->source.publisher ? sluice_rtsp_need(session->framer) : 0);
}

static void on_data(sluice_conn *conn, void *user) {
    struct pull_rtsp_session *session = user;
    (void)conn;
    take_data(session);
    session_account(&session->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct pull_rtsp_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (is_login(session))
        pull_fail(session->pull, error,
                  "the camera has ended the connection in answer to the credentials: wrong user or password");
    else if (error)
        pull_fail_connection(session->pull, &session->base, error);
    else
        pull_fail(session->pull, 0, "the camera has ended the connection");
    close_session(session);
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    const struct pull_rtsp_session *session = user;
    (void)conn;
    return sluice_writer_gather(session->writer, iov, max);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    const struct pull_rtsp_session *session = user;
    (void)conn;
    sluice_writer_sent(session->writer, bytes);
}

static void free_session(struct pull_rtsp_session *session) {
    sluice_writer_free(session->writer);
    sluice_rtsp_free(session->framer);
    rtsp_source_clear(&session->source);
    explicit_bzero(session, sizeof *session);
    free(session);
}

static void discard(struct session *base) {
    free_session(of(base));
}

static void on_closed(sluice_conn *conn, void *user) {
    struct pull_rtsp_session *session = user;
    (void)conn;
    rtsp_source_end(&session->source, -ESHUTDOWN, now_of(session));
    if (session->pull)
        session->pull->session = NULL;
    worker_end_session(&session->base);
    free_session(session);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

/* Receiver reports of all media. Where there is no room they are lost. */
static void send_reports(struct pull_rtsp_session *session) {
    uint8_t report[RTP_MAX_RECEIVER_REPORT];
    _Static_assert(sizeof report <= RTSP_REQUESTS_RTCP, "a report is one packet");
    for (uint32_t i = 0; i < session->source.media_count; i++) {
        const struct rtsp_channel *channel = &session->channels[i];
        if (channel->set_up && channel->has_rtcp)
            rtsp_requests_send_rtcp(&session->requests, channel->rtcp, report,
                                    rtp_input_write_report(session->source.input, i, report));
    }
}

/* Whether a frame of the media comes too slowly, though packets of it come. */
static bool is_slow(struct pull_rtsp_session *session, uint64_t now) {
    const struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    struct pace_look look = {
        .received = sluice_chain_consumed(chain) + sluice_chain_length(chain),
        .most_ms = OUTGOING_SILENCE_MS,
        .earns = true,
    };
    look.is_open = rtp_input_is_inside(session->source.input, &look.mark) && !budget_has_more(base) && !base->held_up;
    return pace_is_late(&session->base.pace, &look, now);
}

/*
 * Whether no frame has come for longer than --first-data since the answer to PLAY. Pictures may
 * wait for a key picture for longer: some cameras send one a minute.
 */
static bool is_late(const struct pull_rtsp_session *session, uint64_t now) {
    struct rtp_input_counts counts;
    if (session->pull->machine.state != OUTGOING_ACTIVE)
        return false;
    rtp_input_get_counts(session->source.input, &counts);
    uint64_t longer = counts.dropped > 0 ? KEY_PICTURE_MS : 0;
    return now >= longer && publisher_is_late(session->source.publisher, now - longer);
}

/* The pull has its own deadlines; what has not been read does not count. */
static void tick(struct session *base, uint64_t now) {
    struct pull_rtsp_session *session = of(base);
    const bool is_publishing = session->pull && session->source.publisher;
    if (session->pull && base->held_up) {
        pull_held_up(session->pull, now);
        if (is_publishing)
            publisher_expect(session->source.publisher, now);
    }
    if (is_publishing && is_late(session, now)) {
        pull_fail(session->pull, -ETIME, "%s", publisher_error_text(-ETIME));
        return;
    }
    if (is_publishing && is_slow(session, now)) {
        pull_fail(session->pull, -EINPROGRESS, "%s", publisher_error_text(-EINPROGRESS));
        return;
    }
    if (!session->pull) {
        if (now - session->left_at >= ENDING_MS)
            close_session(session);
    } else if (session->source.publisher && now - session->reported_at >= REPORT_MS) {
        session->reported_at = now;
        send_reports(session);
    }
}

/* The pull lets go of it. */
static void drain(struct session *base) {
    (void)base;
}

/* As with any other failure, the pull tries again after a while. */
static void kick(struct session *base, int error) {
    struct pull_rtsp_session *session = of(base);
    if (session->pull)
        pull_fail(session->pull, error, "%s", publisher_error_text(error));
    else
        close_session(session);
}

static bool publishes(const struct session *base) {
    return ((const struct pull_rtsp_session *)base)->source.publisher;
}

static size_t held(const struct session *base) {
    const struct pull_rtsp_session *session = (const struct pull_rtsp_session *)base;
    size_t pinned = publisher_held(session->source.publisher);
    return pinned + (session->source.input ? rtp_input_blocks(session->source.input) * BLOCK : 0);
}

/* The camera is not asked to end what it cannot be read for. */
static void evict(struct session *base) {
    struct pull_rtsp_session *session = of(base);
    pull_fail(session->pull, -ENOBUFS, "%s", publisher_error_text(-ENOBUFS));
    close_session(session);
}

static int prepare(struct session *base, const struct handover *handover) {
    const sluice_rtsp_options limits = {
        .size = sizeof limits, .max_body = SLUICE_SDP_MAX_SIZE, .max_skip = SKIP_MOST, .channels = 1};
    (void)handover;
    base->is_uncounted = true;
    of(base)->reported_at = worker_now(base->worker);
    return sluice_rtsp_new(&limits, &of(base)->framer);
}

static const struct session_type session_type = {.protocol = "rtsp",
                                                 .pulls = true,
                                                 .events = &events,
                                                 .size = sizeof(struct pull_rtsp_session),
                                                 .prepare = prepare,
                                                 .tick = tick,
                                                 .drain = drain,
                                                 .kick = kick,
                                                 .publishes = publishes,
                                                 .held = held,
                                                 .evict = evict,
                                                 .discard = discard};

static int parse(const char *url, size_t length, struct pull_target *ret_target, sluice_http_text *ret_user) {
    return pull_target_read(&pull_rtsp.scheme, url, length, ret_target, ret_user);
}

/* Another host is not told what was meant for the one of the option. */
static struct rtsp_login login_of(const struct pull *pull) {
    const struct pull_option *option = &pull->option;
    bool is_same_host = strcasecmp(pull->target.host, option->target.host) == 0;
    return (struct rtsp_login){
        .user = option->has_user && is_same_host ? option->user : NULL,
        .password = option->password,
        .has_digest = pull->has_digest,
    };
}

static int start(struct pull *pull, int fd, struct session **ret_session) {
    int error = pull_start_session(pull, &session_type, fd, ret_session);
    if (error)
        return error;
    struct pull_rtsp_session *session = of(*ret_session);
    session->requests = (struct rtsp_requests){
        .agent = "sluiced", .login = login_of(pull), .asked.method = SLUICE_RTSP_OTHER};
    session->pull = pull;
    outgoing_connected(&pull->machine, session->reported_at);
    error = sluice_writer_new(session->base.conn, WRITER, &session->writer);
    session->requests.writer = session->writer;
    if (error)
        pull_fail(session->pull, error, "%s", strerror(-error));
    else
        ask_next(session, SLUICE_RTSP_OPTIONS, pull->target.url);
    return 0;
}

const struct pull_type pull_rtsp = {.scheme = {"rtsp", 554, "rtsps", 322, NULL},
                                    .form = "rtsp[s]://[USER:PASSWORD@]HOST[:PORT]/PATH",
                                    .parse = parse,
                                    .start = start,
                                    .leave = leave,
                                    .keep_alive = keep_alive};
