#include "daemon/protocols/rtsp/rtsp_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtsp/rtsp_session_internal.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/refuge.h"
#include "shared/text.h"
#include "shared/writer_text.h"

enum {
    IDLE_MS = (RTSP_TIMEOUT_S + 10) * 1000, /* of a client that sends and receives nothing */
    /* for the last reply to be taken, and the peer to close */
    ENDING_MS = 2000,
    /* for replies to be taken, so that a request that came before the end is answered */
    TAKING_MS = 10000,
    /* bytes of further requests that wait while an answer is owed */
    PIPELINE_MOST = 65536,
    BLOCK = 4096,           /* bytes of those that are received into */
    PARAMETERS_MOST = 4096, /* of a body that is no description */
};

static struct rtsp_session *of(struct session *session) {
    return (struct rtsp_session *)session;
}

void rtsp_close(struct rtsp_session *session) {
    if (session->base.closing)
        return;
    session->base.closing = true;
    hook_query_cancel(&session->base);
    rtsp_publish_leave(session, -ECONNRESET);
    rtsp_play_leave(session, "connection lost");
    session_close(&session->base);
}

/* Everything is sent: the peer sees the end, and may read what came before. */
static void finish(struct rtsp_session *session) {
    int error = session_finish(&session->base);
    if (error || (session->peer_ended && !session_is_flushing(&session->base)))
        rtsp_close(session);
}

void rtsp_end(struct rtsp_session *session) {
    if (session->base.closing || session->state == RTSP_ENDING)
        return;
    hook_query_cancel(&session->base);
    session->state = RTSP_ENDING;
    session->active_at = worker_now(session->base.worker);
    budget_rest(&session->base);
    session_set_need(&session->base, 0);
    sluice_conn_resume(session->base.conn);
    sluice_chain_skip(session_chain(&session->base), SIZE_MAX);
    if (rtsp_queued(session) == 0 && (!session->player || session->player->count == 0))
        finish(session);
}

int rtsp_need_writer(struct rtsp_session *session) {
    return session->writer ? 0 : sluice_writer_new(session->base.conn, RTSP_WRITER, &session->writer);
}

size_t rtsp_queued(const struct rtsp_session *session) {
    return session->writer ? sluice_writer_queued(session->writer) : 0;
}

static void begin_reply(struct rtsp_reply *reply, const struct rtsp_session *session, unsigned status,
                        const char *reason, int64_t cseq) {
    sluice_rtsp_write_status(&reply->head, reply->buffer, sizeof reply->buffer, status, reason, cseq);
    sluice_rtsp_write_header(&reply->head, "Server", "sluiced");
    if (*session->id)
        sluice_rtsp_write_header(&reply->head, "Session", "%s;timeout=%d", session->id, RTSP_TIMEOUT_S);
}

void rtsp_reply_begin(struct rtsp_reply *reply, const struct rtsp_session *session, unsigned status, int64_t cseq) {
    begin_reply(reply, session, status, sluice_rtsp_reason(status), cseq);
}

void rtsp_reply_send(struct rtsp_session *session, struct rtsp_reply *reply, const char *type, const char *body,
                     size_t size) {
    int length = sluice_rtsp_write_end(&reply->head, type, size);
    int error = length < 0 ? length : rtsp_need_writer(session);
    if (!error)
        error = writer_text(session->writer, reply->buffer, (size_t)length);
    if (!error && type)
        error = writer_text(session->writer, body, size);
    /* No memory, or a client that sends requests and does not read the answers. */
    if (error)
        rtsp_close(session);
}

void rtsp_respond(struct rtsp_session *session, unsigned status, int64_t cseq) {
    struct rtsp_reply reply;
    rtsp_reply_begin(&reply, session, status, cseq);
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
}

void rtsp_refuse(struct rtsp_session *session, unsigned status, int64_t cseq, const char *reason) {
    LOG(LOG_WARNING, "request refused", {"proto", "rtsp"}, {"peer", session->base.peer},
        {"status", log_unsigned(status).text}, {"reason", reason});
    struct rtsp_reply reply;
    /* Clients show the words: of media that are not carried they are to say which. */
    begin_reply(&reply, session, status, status == 415 ? reason : sluice_rtsp_reason(status), cseq);
    if (status == 455 || status == 405 || status == 501) {
        char methods[RTSP_METHODS_TEXT];
        rtsp_write_methods(status == 455 ? rtsp_methods_in(session->state) : rtsp_methods(), methods);
        sluice_rtsp_write_header(&reply.head, status == 501 ? "Public" : "Allow", "%s", methods);
    }
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
}

void rtsp_send_rtcp(struct rtsp_session *session, const struct rtsp_channel *channel, const uint8_t *bytes,
                    size_t size) {
    uint8_t header[SLUICE_RTSP_INTERLEAVED_SIZE];
    if (!channel->has_rtcp || size == 0 || rtsp_queued(session) + sizeof header + size > RTSP_OWED ||
        rtsp_need_writer(session) < 0)
        return;
    session->base.worker->reports++;
    sluice_rtsp_write_interleaved(header, channel->rtcp, (uint16_t)size);
    /* The header without its packet would be the end of all that follows. */
    if (sluice_writer_copy(session->writer, header, sizeof header) < 0 ||
        sluice_writer_copy(session->writer, bytes, size) < 0)
        rtsp_close(session);
}

/* 24 characters of which each holds 5 random bits. */
static int make_id(struct rtsp_session *session) {
    static const char characters[] = "abcdefghijkmnpqrstuvwxyz23456789";
    uint8_t random[RTSP_SESSION_ID];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    for (size_t i = 0; i < sizeof random; i++)
        session->id[i] = characters[random[i] & 31];
    return 0;
}

static bool is_taken(const struct rtsp_session *session, uint32_t track, int32_t channel) {
    for (uint32_t i = 0; i < SLUICE_SDP_MAX_MEDIA; i++) {
        const struct rtsp_channel *other = &session->channels[i];
        if (i != track && other->set_up && (other->rtp == channel || (other->has_rtcp && other->rtcp == channel)))
            return true;
    }
    return false;
}

/* The channels that the client wants, or where it does not say or has them in use, the next free
 * ones. */
static struct rtsp_channel choose_channels(const struct rtsp_session *session, uint32_t track,
                                           const sluice_rtsp_transport *transport) {
    sluice_rtsp_pair pair = transport->interleaved;
    if (pair.first < 0 || is_taken(session, track, pair.first) || pair.first == pair.second ||
        (pair.second >= 0 && is_taken(session, track, pair.second)))
        for (pair = (sluice_rtsp_pair){0, 1};
             is_taken(session, track, pair.first) || is_taken(session, track, pair.second); pair.first += 2)
            pair.second = pair.first + 3;
    return (struct rtsp_channel){
        .set_up = true, .rtp = (uint8_t)pair.first, .rtcp = (uint8_t)pair.second, .has_rtcp = pair.second >= 0};
}

/* The first alternative that is served: RTP over this connection, in the right direction. 0, or the
 * status. */
static unsigned choose_transport(const sluice_rtsp_message *request, bool record, sluice_rtsp_transport *transport) {
    sluice_rtsp_transport_walk walk = {0};
    bool malformed = false, any = false;
    int result;
    while ((result = sluice_rtsp_next_transport(request, &walk, transport)) != 0) {
        malformed |= result < 0;
        any |= result > 0;
        if (result < 0 || !transport->tcp || transport->multicast || transport->record != record)
            continue;
        if (text_folds_to(transport->profile, "RTP/AVP") || text_folds_to(transport->profile, "RTP/AVPF"))
            return 0;
    }
    return malformed || !any ? 400 : 461;
}

int rtsp_setup_track(struct rtsp_session *session, const sluice_rtsp_message *request, uint32_t track, bool record) {
    sluice_rtsp_transport transport;
    unsigned status = choose_transport(request, record, &transport);
    if (!status && !*session->id && make_id(session) < 0)
        status = 503;
    if (status == 461) {
        /* Players and publishers try UDP first: nothing to warn of. */
        rtsp_respond(session, status, request->cseq);
        return -1;
    }
    if (status) {
        rtsp_refuse(session, status, request->cseq,
                    status == 400 ? "missing or malformed Transport" : "no random numbers");
        return -1;
    }
    struct rtsp_channel channel = choose_channels(session, track, &transport);
    session->set_up_count += !session->channels[track].set_up;
    session->channels[track] = channel;

    struct rtsp_reply reply;
    rtsp_reply_begin(&reply, session, 200, request->cseq);
    const sluice_rtsp_transport agreed = {
        .tcp = true,
        .record = record,
        .interleaved = {channel.rtp, channel.has_rtcp ? channel.rtcp : -1},
        .client_port = {-1, -1},
        .server_port = {-1, -1},
    };
    sluice_rtsp_write_transport(&reply.head, &agreed);
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
    return 0;
}

static void answer_options(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_reply reply;
    char methods[RTSP_METHODS_TEXT];
    rtsp_write_methods(rtsp_methods(), methods);
    rtsp_reply_begin(&reply, session, 200, request->cseq);
    sluice_rtsp_write_header(&reply.head, "Public", "%s", methods);
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
}

/* Empty ones keep the session alive; there are no parameters to get or set. */
static void answer_parameters(struct rtsp_session *session, const sluice_rtsp_message *request) {
    bool asks = sluice_slice_length(&request->payload) > 0;
    rtsp_respond(session, asks ? 451 : 200, request->cseq);
}

static void teardown(struct rtsp_session *session, const sluice_rtsp_message *request) {
    /* What is queued is of no use any more, but a frame that is partly sent has to be finished
     * before the reply. */
    rtsp_play_leave(session, "closed by player");
    rtsp_publish_leave(session, 0);
    rtsp_respond(session, 200, request->cseq);
    rtsp_end(session);
}

static void refuse_option(struct rtsp_session *session, const sluice_rtsp_message *request) {
    const sluice_http_header *require = sluice_rtsp_find(request, "Require");
    if (!require)
        require = sluice_rtsp_find(request, "Proxy-Require");
    struct rtsp_reply reply;
    rtsp_reply_begin(&reply, session, 551, request->cseq);
    sluice_rtsp_write_header(&reply.head, "Unsupported", "%.*s", (int)require->value.length, require->value.text);
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
}

/* Whether the request begins something: what follows is about what has begun. */
static bool begins(const struct rtsp_session *session, const sluice_rtsp_message *request) {
    return request->method_id & (SLUICE_RTSP_ANNOUNCE | SLUICE_RTSP_DESCRIBE) ||
           (request->method_id == SLUICE_RTSP_SETUP && session->state < RTSP_ANNOUNCED);
}

/* Whether the client may have what it asks for; it has been answered where it may not. */
static bool authorize(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct worker *worker = session->base.worker;
    bool publishes = request->method_id == SLUICE_RTSP_ANNOUNCE;
    struct rtsp_target target;
    /* What is no URL is refused as such. */
    if (session->is_granted || !begins(session, request) || rtsp_play_read_target(request, &target) < 0)
        return true;
    const struct authorize access = {.by = options_credentials(worker->options),
                                     .action = publishes ? RULE_PUBLISH : RULE_PLAY,
                                     .stream = target.name,
                                     .peer = &session->base.peer_address,
                                     .certificate = session_peer_certificate(&session->base)};
    unsigned status = rtsp_authorize(&session->auth, &access, request);
    if (status == 0 && session->auth.has_shown)
        session_authorize(&session->base);
    if (status == 0)
        return true;
    struct rtsp_reply reply;
    rtsp_reply_begin(&reply, session, status, request->cseq);
    if (status == 401 && rtsp_write_challenges(&session->auth, &reply.head) < 0) {
        rtsp_refuse(session, 503, request->cseq, "no random numbers");
        return false;
    }
    /* The first time is how it is meant to be. */
    if (status != 401 || session->auth.failures > 0)
        session_log_refusal(&session->base, status, NULL);
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
    if (session->auth.failures >= RTSP_AUTH_FAILURES)
        rtsp_end(session);
    return false;
}

void rtsp_dispatch(struct rtsp_session *session, const sluice_rtsp_message *request) {
    bool publishes = session->state >= RTSP_ANNOUNCED;
    switch (request->method_id) {
    case SLUICE_RTSP_OPTIONS:
        answer_options(session, request);
        break;
    case SLUICE_RTSP_DESCRIBE:
        rtsp_describe(session, request);
        break;
    case SLUICE_RTSP_ANNOUNCE:
        rtsp_announce(session, request);
        break;
    case SLUICE_RTSP_SETUP:
        if (publishes)
            rtsp_publish_setup(session, request);
        else
            rtsp_play_setup(session, request);
        break;
    case SLUICE_RTSP_PLAY:
        rtsp_play(session, request);
        break;
    case SLUICE_RTSP_RECORD:
        rtsp_record(session, request);
        break;
    case SLUICE_RTSP_PAUSE:
        rtsp_pause(session, request);
        break;
    case SLUICE_RTSP_TEARDOWN:
        teardown(session, request);
        break;
    default:
        answer_parameters(session, request);
        break;
    }
}

static unsigned action_of(const sluice_rtsp_message *request) {
    return request->method_id == SLUICE_RTSP_ANNOUNCE ? RULE_PUBLISH : RULE_PLAY;
}

static bool is_hooked(const struct rtsp_session *session, const sluice_rtsp_message *request, sluice_http_text name) {
    return session->hooked_actions == action_of(request) && text_is(name, session->hooked);
}

/* Keeps what a hook has granted. 0, -ENOMEM */
static int keep_hooked(struct rtsp_session *session, const sluice_rtsp_message *request, sluice_http_text name) {
    char *hooked = strndup(name.text, name.length);
    if (!hooked)
        return -ENOMEM;
    free(session->hooked);
    session->hooked = hooked;
    session->hooked_actions = action_of(request);
    return 0;
}

static void on_answered(struct session *base, bool granted) {
    struct rtsp_session *session = of(base);
    const sluice_rtsp_message *request = session->asked;
    struct rtsp_target target;
    session->asked = NULL;
    if (base->closing || session->state == RTSP_ENDING || rtsp_play_read_target(request, &target) < 0)
        return;
    if (!granted) {
        rtsp_respond(session, 403, request->cseq);
    } else if (keep_hooked(session, request, target.name) < 0) {
        rtsp_refuse(session, 503, request->cseq, "out of memory");
    } else {
        session_authorize(base);
        rtsp_dispatch(session, request);
    }
    if (base->closing)
        return;
    sluice_conn_resume(base->conn);
    rtsp_read(session);
}

/* Whether there is an answer to be waited for, or the request has been answered. */
static bool ask_hook(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    if (!begins(session, request) || rtsp_play_read_target(request, &target) < 0 ||
        !stream_name_is_valid(target.name.text, target.name.length) || is_hooked(session, request, target.name))
        return false;
    const struct hook_query_about question = {action_of(request) == RULE_PUBLISH ? HOOK_PUBLISH : HOOK_PLAY,
                                              target.name, "rtsp", NULL, NULL};
    int asks = hook_query_start(&session->base, &question, on_answered);
    if (asks < 0)
        rtsp_refuse(session, 503, request->cseq, "out of memory");
    session->asked = asks > 0 ? request : NULL;
    return asks != 0;
}

/* Whether requests may be handled: they wait while an answer is not known. */
static bool takes_requests(const struct rtsp_session *session) {
    return !session->base.closing && !session->base.worker->draining && !session->moving && !session->base.hook &&
           !rtsp_source_is_waiting(&session->source) && session->state != RTSP_WAITING && session->state != RTSP_ENDING;
}

/* Whether the client has to read replies before it gets further ones. Frames of a publisher do not
 * wait for that. */
static bool is_held_back(const struct rtsp_session *session) {
    return session->state != RTSP_RECORDING && rtsp_queued(session) > RTSP_OWED;
}

static bool is_reading(const struct rtsp_session *session) {
    return takes_requests(session) && !is_held_back(session);
}

/* Whether the request may come now, and with a body of that size; it has been answered where it may
 * not. */
static bool admit(struct rtsp_session *session, const sluice_rtsp_message *request) {
    unsigned status = rtsp_admit(session->state, session->id, request);
    if (!status && request->method_id != SLUICE_RTSP_ANNOUNCE && request->body_length > PARAMETERS_MOST)
        status = 413;
    if (status == 551)
        refuse_option(session, request);
    else if (status)
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
    return status == 0;
}

/*
 * The head of a message has come, and its body has not: whether it will be accepted is decided now,
 * in the same way as of a message that comes at once. The body of one that is refused is dropped as
 * it comes.
 */
static void judge_head(struct rtsp_session *session) {
    sluice_rtsp_message *none;
    const sluice_rtsp_message *head = sluice_rtsp_head(session->framer);
    if (!head || session->is_judged)
        return;
    session->is_granted = false;
    if (head->kind == SLUICE_RTSP_REQUEST && admit(session, head) && authorize(session, head))
        session->is_judged = true;
    if (session->is_judged || !takes_requests(session))
        return;
    sluice_rtsp_drop_body(session->framer);
    /* The part that has come; it is not whole, so that nothing can follow it. */
    (void)sluice_rtsp_next(session->framer, session_chain(&session->base), &none);
}

/* Whether this node drains, and the request has been answered: the stream is elsewhere. */
static bool redirect(struct rtsp_session *session, const sluice_rtsp_message *request) {
    const char *end = request->url.text + request->url.length, *host, *path = NULL;
    char url[REFUGE_URL];
    struct rtsp_reply reply;
    if (!session->base.worker->evacuates || !begins(session, request))
        return false;
    host = memmem(request->url.text, request->url.length, "://", 3);
    if (host)
        path = memchr(host + 3, '/', (size_t)(end - host - 3));
    if (!path || !refuge_url(&session->base, "rtsp", url)) {
        rtsp_refuse(session, 503, request->cseq, "this node is drained");
    } else {
        session_log_refusal(&session->base, 302, "this node is drained");
        rtsp_reply_begin(&reply, session, 302, request->cseq);
        sluice_rtsp_write_header(&reply.head, "Location", "%s%.*s", url, (int)(end - path), path);
        rtsp_reply_send(session, &reply, NULL, NULL, 0);
    }
    if (!session->base.closing)
        rtsp_end(session);
    return true;
}

void rtsp_handle(struct rtsp_session *session, const sluice_rtsp_message *request) {
    session->active_at = worker_now(session->base.worker);
    if (!admit(session, request) || redirect(session, request))
        return;
    /* Rights and hooks are checked at once, where the request is handled. */
    if (rtsp_migrate(session, request) || !authorize(session, request))
        return;
    if (!ask_hook(session, request))
        rtsp_dispatch(session, request);
}

static void fail(struct rtsp_session *session, int error) {
    unsigned status = sluice_rtsp_error_status(error);
    if (rtsp_refuse_http(session))
        return;
    rtsp_publish_leave(session, error == -EPROTO ? -EBADMSG : error);
    rtsp_play_leave(session, "malformed RTSP");
    rtsp_refuse(session, status, -1, "malformed or oversized request");
    rtsp_end(session);
}

/* Everything that came before the end has been handled: what is owed is sent. */
static void end_by_peer(struct rtsp_session *session) {
    rtsp_publish_leave(session, 0);
    rtsp_play_leave(session, "closed by player");
    if (rtsp_queued(session) > 0 || session_is_flushing(&session->base))
        rtsp_end(session);
    else
        rtsp_close(session);
}

/* Whether a request that came before the end is handled later. */
static bool has_requests_left(const struct rtsp_session *session) {
    return session->moving || (takes_requests(session) && is_held_back(session));
}

void rtsp_read(struct rtsp_session *session) {
    sluice_chain *chain = session_chain(&session->base);
    sluice_rtsp_message *message;
    int result = 0;
    budget_begin(&session->base);
    while (is_reading(session) && !budget_is_spent(&session->base.budget)) {
        if (rtsp_source_has_more(&session->source)) {
            rtsp_publish_go_on(session);
            continue;
        }
        result = sluice_rtsp_next(session->framer, chain, &message);
        if (result <= 0)
            break;
        session->is_granted = session->is_judged;
        session->is_judged = false;
        bool is_frame = message->kind == SLUICE_RTSP_INTERLEAVED;
        if (message->kind == SLUICE_RTSP_REQUEST)
            rtsp_handle(session, message);
        else if (is_frame)
            rtsp_publish_frame(session, message);
        if (is_frame)
            budget_charge(&session->base.budget);
        else
            budget_charge_request(&session->base.budget);
    }
    if (session->base.closing)
        return;
    if (result == 0 && is_reading(session))
        judge_head(session);
    if (session->base.closing)
        return;
    bool reads_on = is_reading(session);
    /* What is waited for may take long: a message that is not needed for it holds no block
     * meanwhile. */
    if (!reads_on && !session->asked && !session->moving)
        sluice_rtsp_release(session->framer);
    /* A session that does not publish is charged with the bytes that it sends. */
    bool withholds = reads_on && session->source.publisher;
    if (result < 0) {
        fail(session, result);
    } else if (!reads_on) {
        budget_rest(&session->base);
        session_set_need(&session->base, 0);
    } else if (!budget_end(&session->base, chain)) {
        session_set_need(&session->base, withholds ? sluice_rtsp_need(session->framer) : 0);
    }
    if (session->peer_ended && !budget_has_more(&session->base) && !has_requests_left(session))
        end_by_peer(session);
}

static void on_data(sluice_conn *conn, void *user) {
    struct rtsp_session *session = user;
    sluice_chain *chain = session_chain(&session->base);
    if (session_refuses_tls(&session->base))
        rtsp_close(session);
    else if (session->state == RTSP_ENDING)
        sluice_chain_skip(chain, SIZE_MAX);
    else if (is_reading(session))
        rtsp_read(session);
    else if (sluice_chain_length(chain) > PIPELINE_MOST)
        sluice_conn_pause(conn);
    session_account(&session->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct rtsp_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (error) {
        rtsp_publish_leave(session, error);
        rtsp_play_leave(session, "connection lost");
        rtsp_close(session);
    } else if (has_requests_left(session)) {
        session->active_at = worker_now(session->base.worker);
    } else {
        end_by_peer(session);
    }
}

/* Between interleaved frames, never inside one, go replies and reports. */
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct rtsp_session *session = user;
    (void)conn;
    size_t rest = session->player ? player_gather_rest(session->player, iov, max) : 0;
    session->gathered_rest = player_gathered(iov, rest);
    size_t text = session->writer && rest < max ? sluice_writer_gather(session->writer, iov + rest, max - rest) : 0;
    session->gathered_text = player_gathered(iov + rest, text);
    size_t count = rest + text;
    struct player *player = session->player;
    bool due = player && (count > 0 || player->due > 0);
    if (due && rtsp_queued(session) == session->gathered_text)
        count += player_gather_more(player, iov + count, max - count);
    return count;
}

/* Replies have been sent: requests that wait for that are handled in a later turn. */
static void go_on(struct rtsp_session *session) {
    sluice_conn_resume(session->base.conn);
    session_again(&session->base);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct rtsp_session *session = user;
    bool was_held_back = is_held_back(session);
    (void)conn;
    size_t rest = bytes < session->gathered_rest ? bytes : session->gathered_rest;
    size_t text = bytes - rest < session->gathered_text ? bytes - rest : session->gathered_text;
    /* Also of nothing: the kernel is done with what it gave. */
    if (session->writer)
        sluice_writer_sent(session->writer, text);
    /* It keeps memory for the next answer, which may never come. */
    if (rtsp_queued(session) == 0) {
        sluice_writer_free(session->writer);
        session->writer = NULL;
    }
    /* To the player, what came before the text and behind it is one. */
    if (session->player) {
        if (bytes > 0)
            session->player->progress_at = worker_now(session->base.worker);
        player_sent(session->player, bytes - text);
        /* It has left, or paused, while frames were on their way: those that are not begun would
         * follow the reply. */
        if (!session->joined || session->player->state == PLAYER_PAUSED)
            player_drop(session->player, DROP_PAUSED);
    }
    if (session->state == RTSP_ENDING && rtsp_queued(session) == 0 && (!session->player || session->player->count == 0))
        finish(session);
    if (session->moving)
        rtsp_try_migrate(session);
    else if (was_held_back && !is_held_back(session))
        go_on(session);
}

static void free_session(struct rtsp_session *session) {
    sluice_writer_free(session->writer);
    sluice_rtsp_free(session->framer);
    rtsp_source_clear(&session->source);
    rtsp_auth_clear(&session->auth);
    free(session->hooked);
    free(session->asked_url);
    free(session);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct rtsp_session *session = user;
    (void)conn;
    rtsp_publish_leave(session, -ESHUTDOWN);
    rtsp_play_leave(session, "server shutting down");
    rtsp_play_free(session);
    worker_end_session(&session->base);
    free_session(session);
}

static void discard(struct session *base) {
    free_session(of(base));
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

static void give_up(struct rtsp_session *session, const char *reason) {
    rtsp_publish_leave(session, -ETIMEDOUT);
    rtsp_play_leave(session, reason);
    rtsp_close(session);
}

/*
 * Requests keep a session alive, but not one that never was allowed anything. A player may wait for
 * its publisher in between: that much longer it may go on.
 */
static bool is_unauthorized_for_long(const struct rtsp_session *session, uint64_t now) {
    const struct session *base = &session->base;
    if (base->is_authorized || session->state == RTSP_ENDING || !session_is_overdue(base))
        return false;
    return session->state != RTSP_WAITING ||
           now - base->authorized_at - SESSION_UNAUTHORIZED_MS >= worker_wait_ms(base->worker, session->player->stream);
}

/*
 * A request, or an interleaved frame of a session that does not publish, must be complete in time.
 */
static bool is_slow(struct rtsp_session *session, uint64_t now) {
    struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    const struct pace_look look = {
        .mark = sluice_chain_consumed(chain),
        .is_open = sluice_chain_length(chain) > 0 && is_reading(session) && !budget_has_more(base) && !base->held_up,
        .most_ms = PACE_MESSAGE_MS,
    };
    return session->state != RTSP_RECORDING && pace_is_late(&base->pace, &look, now);
}

static void refuse_slow(struct rtsp_session *session) {
    rtsp_publish_leave(session, -ETIMEDOUT);
    rtsp_play_leave(session, "request timeout");
    session_log_refusal(&session->base, 408, "request timeout");
    rtsp_respond(session, 408, -1);
    rtsp_end(session);
}

/*
 * Whether a client that has ended its side takes nothing of what it is owed. Where its connection
 * has failed since, there may be no other sign of that: a TLS stage reports one end.
 */
static bool takes_nothing(const struct rtsp_session *session, uint64_t now) {
    return session->peer_ended && takes_requests(session) && is_held_back(session) &&
           now - session->active_at >= TAKING_MS;
}

static void tick(struct session *base, uint64_t now) {
    struct rtsp_session *session = of(base);
    /* One that does not read its replies is not read by its own fault. */
    bool held_up = base->held_up && !is_held_back(session);
    if (held_up && session->state != RTSP_ENDING && !base->move)
        session->active_at = now;
    if (held_up && session->source.publisher)
        publisher_expect(session->source.publisher, now);
    if (takes_nothing(session, now)) {
        rtsp_play_leave(session, "replies not read");
        rtsp_close(session);
        return;
    }
    if (is_slow(session, now)) {
        refuse_slow(session);
        return;
    }
    if (rtsp_publish_is_late(session, now)) {
        rtsp_publish_leave(session, -ETIME);
        rtsp_end(session);
        return;
    }
    if (is_unauthorized_for_long(session, now)) {
        give_up(session, "setup timeout");
        return;
    }
    switch (session->state) {
    case RTSP_RECORDING:
        rtsp_publish_tick(session, now);
        break;
    case RTSP_PLAYING:
    case RTSP_WAITING:
        rtsp_play_tick(session, now);
        break;
    case RTSP_ENDING:
        if (now - session->active_at >= ENDING_MS)
            rtsp_close(session);
        break;
    default:
        if (now - session->active_at < IDLE_MS)
            break;
        give_up(session, "session timeout");
        break;
    }
}

static bool publishes(const struct session *base) {
    return ((const struct rtsp_session *)base)->source.publisher;
}

static size_t held(const struct session *base) {
    const struct rtsp_session *session = (const struct rtsp_session *)base;
    size_t besides = publisher_held(session->source.publisher);
    besides += session->asked ? session->asked->body_length + BLOCK : 0;
    return besides + (session->source.input ? rtp_input_blocks(session->source.input) * BLOCK : 0);
}

static size_t owes(const struct session *base) {
    return rtsp_queued((const struct rtsp_session *)base);
}

/* The answer that is owed is 503, or a reply to no request where none is and @always. */
static void end_with_503(struct rtsp_session *session, bool always) {
    bool asks = session->base.hook && session->asked;
    bool owes = asks || session->state == RTSP_WAITING || rtsp_source_is_waiting(&session->source);
    int64_t cseq = asks ? session->asked->cseq : owes ? session->asked_cseq : -1;
    int error = always ? -ENOBUFS : -ESHUTDOWN;
    rtsp_publish_leave(session, error);
    rtsp_play_leave(session, publisher_error_text(error));
    if (owes || always)
        rtsp_respond(session, 503, cseq);
    rtsp_end(session);
}

static void drain(struct session *base) {
    struct rtsp_session *session = of(base);
    if (session->moving)
        rtsp_close(session);
    else
        end_with_503(session, false);
}

/* The framer is not needed any more, and may hold a request. */
static void evict(struct session *base) {
    struct rtsp_session *session = of(base);
    /* What is owed already is not read: there is no use in one more answer. */
    if (session->moving || !session->base.conn || is_held_back(session)) {
        rtsp_close(session);
        return;
    }
    if (session->state == RTSP_ENDING)
        return;
    end_with_503(session, true);
    session->asked = NULL;
    sluice_rtsp_free(session->framer);
    session->framer = NULL;
}

static void kick(struct session *base, int error) {
    struct rtsp_session *session = of(base);
    rtsp_publish_leave(session, error);
    rtsp_play_leave(session, publisher_error_text(error));
    rtsp_close(session);
}

static int prepare(struct session *base, const struct handover *handover) {
    const sluice_rtsp_options limits = {.size = sizeof limits, .max_body = SLUICE_SDP_MAX_SIZE};
    (void)handover;
    of(base)->state = RTSP_INIT;
    of(base)->active_at = worker_now(base->worker);
    return sluice_rtsp_new(&limits, &of(base)->framer);
}

static const struct session_type rtsp_session_type = {.protocol = "rtsp",
                                                      .events = &events,
                                                      .size = sizeof(struct rtsp_session),
                                                      .prepare = prepare,
                                                      .tick = tick,
                                                      .drain = drain,
                                                      .kick = kick,
                                                      .publishes = publishes,
                                                      .held = held,
                                                      .owes = owes,
                                                      .evict = evict,
                                                      .moved = rtsp_migrated,
                                                      .discard = discard};

/* No request has been read, so the number of the one that this answers is not known. */
static int reject(char *buffer, size_t size, unsigned status, const char *reason) {
    (void)reason;
    return snprintf(buffer, size, "RTSP/1.0 %s\r\nServer: sluiced\r\n\r\n",
                    status == 400 ? "400 Bad Request" : "503 Service Unavailable");
}

const struct protocol rtsp_protocol = {
    .option = {"rtsp", SETTING_LISTENER, true, .group = GROUP_LISTENERS, .preset = "127.0.0.1:8554",
               .value = "ADDR:PORT[,tls][,merge-window=MS]",
               .expected = "ADDR:PORT, such as 127.0.0.1:8554 or [::1]:8554",
               .help = "Accept RTSP: publish and play rtsp://HOST:PORT/NAME",
               .text =
                   "Media are interleaved on the RTSP connection. The merge window (see --merge-window) applies to the "
                   "players of this listener."},
    .serves_players = true,
    .session = &rtsp_session_type,
    .reject = reject,
};
