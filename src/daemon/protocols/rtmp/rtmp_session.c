#include "daemon/protocols/rtmp/rtmp_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtmp/rtmp_session_internal.h"
#include "daemon/server/hook_query.h"
#include "daemon/server/reject.h"
#include "daemon/server/server.h"
#include "shared/rtmp_peer.h"

enum {
    /* for the handshake, for connect, and then for publish or play; and for answers to be taken by
     * a client that has ended its side, so that its next message is answered */
    STEP_MS = 10000,
    LEAVING_MS = 5000,    /* for a client to connect elsewhere */
    ENDING_MS = 2000,     /* for the last answer to be taken, and the peer to close */
    WAITING_MOST = 65536, /* bytes that wait while a request is decided */
    /* Chunks that cost as much as a frame: 500 to 600 instructions each, by callgrind. */
    CHUNKS_A_PIECE = 4,
    /* that one call of the framer reads, so that it is no more than any session may have */
    CHUNKS = BUDGET_LEAST * CHUNKS_A_PIECE,
};

static struct rtmp_session *of(struct session *session) {
    return (struct rtmp_session *)session;
}

void rtmp_close(struct rtmp_session *session) {
    if (session->base.closing)
        return;
    session->base.closing = true;
    hook_query_cancel(&session->base);
    rtmp_publish_end(session, -ECONNRESET, false);
    rtmp_play_leave(session, "connection lost");
    session_close(&session->base);
}

/*
 * Everything is sent: the peer sees the end, and may read what came before. One that closes the
 * connection itself might take an earlier end for a failure.
 */
static void finish(struct rtmp_session *session) {
    if (session->peer_ends && !session->peer_ended)
        return;
    int error = session_finish(&session->base);
    if (error || (session->peer_ended && !session_is_flushing(&session->base)))
        rtmp_close(session);
}

static bool has_sent_all(const struct rtmp_session *session) {
    return rtmp_answer_queued(session) == 0 && (!session->player || session->player->count == 0);
}

void rtmp_end(struct rtmp_session *session) {
    if (session->base.closing || session->state == RTMP_ENDING)
        return;
    hook_query_cancel(&session->base);
    session->state = RTMP_ENDING;
    session->active_at = worker_now(session->base.worker);
    budget_rest(&session->base);
    session_set_need(&session->base, 0);
    sluice_conn_resume(session->base.conn);
    sluice_chain_skip(session_chain(&session->base), SIZE_MAX);
    if (has_sent_all(session))
        finish(session);
}

/* Whether it may take what comes; else something is decided first. */
static bool takes_messages(const struct rtmp_session *session) {
    switch (session->state) {
    case RTMP_HANDSHAKE:
    case RTMP_CONNECTING:
    case RTMP_CONNECTED:
    case RTMP_PUBLISHING:
    case RTMP_PLAYING:
        return !session->base.closing;
    case RTMP_MOVING:
    case RTMP_ASKING:
    case RTMP_CLAIMING:
    case RTMP_ENDING:
        break;
    }
    return false;
}

/* Whether the client has to read answers before it gets further ones. Media of a publisher do not
 * wait for that. */
static bool is_held_back(const struct rtmp_session *session) {
    return session->state != RTMP_PUBLISHING && rtmp_answer_queued(session) > RTMP_OWED;
}

static bool is_reading(const struct rtmp_session *session) {
    return takes_messages(session) && !is_held_back(session);
}

/* 1: it is complete, 0, -errno. Its memory, more than all else of the session, is not allocated
 * before there are bytes for it. */
static int take_handshake(struct rtmp_session *session, sluice_chain *chain) {
    if (!session->handshake && sluice_chain_length(chain) == 0)
        return 0;
    int error = session->handshake ? 0
                                   : rtmp_handshake_begin(SLUICE_RTMP_SERVER, SLUICE_RTMP_SIMPLE, &session->handshake);
    if (error)
        return error;
    budget_charge_request(&session->base.budget);
    int result = sluice_rtmp_handshake_next(session->handshake, chain);
    error = result >= 0 ? rtmp_handshake_send(session->handshake, session->writer) : 0;
    if (error)
        result = error == -EPIPE ? error : -ENOMEM;
    if (result <= 0)
        return result;
    sluice_rtmp_handshake_free(session->handshake);
    session->handshake = NULL;
    session->state = RTMP_CONNECTING;
    session->active_at = worker_now(session->base.worker);
    return 1;
}

static void take_control(struct rtmp_session *session, const sluice_rtmp_message *message) {
    sluice_rtmp_control control;
    if (sluice_rtmp_read_control(message, &control) == 0 && control.event == SLUICE_RTMP_PING_REQUEST)
        rtmp_answer_event(session, SLUICE_RTMP_PING_RESPONSE, control.value);
}

static void take_message(struct rtmp_session *session, sluice_rtmp_message *message) {
    switch (message->type) {
    case SLUICE_RTMP_COMMAND:
    case SLUICE_RTMP_COMMAND3:
        budget_charge_request(&session->base.budget);
        rtmp_command_handle(session, message);
        break;
    case SLUICE_RTMP_USER_CONTROL:
        take_control(session, message);
        break;
    default:
        if (session->state == RTMP_PUBLISHING)
            rtmp_publish_message(session, message);
        break;
    }
}

/* 1: something has been taken, 0: there is nothing whole, -errno */
static int take_one(struct rtmp_session *session, sluice_chain *chain) {
    sluice_rtmp_message *message;
    uint32_t sequence;
    if (session->state == RTMP_HANDSHAKE)
        return take_handshake(session, chain);
    if (session->aggregate) {
        rtmp_publish_go_on(session);
        return 1;
    }
    int result = sluice_rtmp_next(session->framer, chain, &message);
    budget_charge_many(&session->base.budget, sluice_rtmp_chunks(session->framer) / CHUNKS_A_PIECE);
    if (sluice_rtmp_must_acknowledge(session->framer, &sequence)) {
        budget_charge(&session->base.budget);
        rtmp_answer_control(session, SLUICE_RTMP_ACKNOWLEDGEMENT, sequence);
    }
    if (result != 1 || session->base.closing)
        return result;
    session->messages++;
    if (session->state == RTMP_PLAYING)
        session->active_at = worker_now(session->base.worker);
    budget_charge(&session->base.budget);
    take_message(session, message);
    return 1;
}

/* The bytes are no RTMP, or more than there may be; or memory is short; or the peer has gone. */
static void fail(struct rtmp_session *session, int error) {
    if (error == -EPIPE) {
        rtmp_close(session);
        return;
    }
    bool is_short = error == -ENOMEM || error == -ENOBUFS;
    /* What the framer calls a protocol error would be said of FLV. */
    error = error == -EPROTO || error == -EPROTONOSUPPORT ? -EILSEQ : error;
    if (!session->publisher)
        session_log_refusal(&session->base, is_short ? 503 : 400,
                            is_short ? reject_reason(REJECT_MEMORY) : publisher_error_text(error));
    rtmp_play_leave(session, publisher_error_text(error));
    rtmp_publish_end(session, error, true);
    rtmp_end(session);
}

/* What came before a regular end has been taken. */
static void end_by_peer(struct rtmp_session *session) {
    bool is_cut = sluice_chain_length(session_chain(&session->base)) > 0 ||
                  (session->framer && sluice_rtmp_footprint(session->framer) > 0);
    rtmp_play_leave(session, "closed by player");
    rtmp_publish_end(session, is_cut ? -EPIPE : 0, false);
    if (rtmp_answer_queued(session) > 0 || session_is_flushing(&session->base))
        rtmp_end(session);
    else
        rtmp_close(session);
}

static void set_need(struct rtmp_session *session) {
    size_t need = session->state != RTMP_HANDSHAKE ? sluice_rtmp_need(session->framer)
                  : session->handshake             ? sluice_rtmp_handshake_need(session->handshake)
                                                   : 1;
    session_set_need(&session->base, need);
}

void rtmp_read(struct rtmp_session *session) {
    struct session *base = &session->base;
    if (!is_reading(session))
        return;
    sluice_chain *chain = session_chain(base);
    int result = 0;
    budget_begin(base);
    while (is_reading(session) && !budget_is_spent(&base->budget) && (result = take_one(session, chain)) > 0)
        ;
    if (base->closing || session->state == RTMP_ENDING)
        return;
    if (result < 0) {
        fail(session, result);
    } else if (!is_reading(session)) {
        budget_rest(base);
        session_set_need(base, 0);
    } else if (!budget_end(base, chain)) {
        if (session->peer_ended)
            end_by_peer(session);
        else
            set_need(session);
    }
}

/* What comes is kept for later. Work that was left when answers were queued waits for these now. */
static void keep(struct rtmp_session *session) {
    budget_rest(&session->base);
    if (sluice_chain_length(session_chain(&session->base)) > WAITING_MOST)
        sluice_conn_pause(session->base.conn);
}

static void on_data(sluice_conn *conn, void *user) {
    struct rtmp_session *session = user;
    (void)conn;
    sluice_chain *chain = session_chain(&session->base);
    if (session_refuses_tls(&session->base))
        rtmp_close(session);
    else if (is_reading(session))
        rtmp_read(session);
    else if (session->state == RTMP_ENDING)
        sluice_chain_skip(chain, SIZE_MAX);
    else
        keep(session);
    session_account(&session->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct rtmp_session *session = user;
    (void)conn;
    session->peer_ended = true;
    if (error) {
        rtmp_close(session);
        return;
    }
    /* A short stream, which may all be there. */
    if (session->state == RTMP_CLAIMING || (session->state == RTMP_ASKING && session->asked->action == RULE_PUBLISH))
        return;
    /* Messages are left, which are answered as the answers before are taken. */
    if (takes_messages(session) && is_held_back(session)) {
        session->active_at = worker_now(session->base.worker);
        return;
    }
    end_by_peer(session);
}

/* Between a player's messages, never inside one, go answers. */
static size_t gather_with_answers(struct rtmp_session *session, struct iovec *iov, size_t max) {
    struct player *player = session->player;
    size_t rest = player ? player_gather_rest(player, iov, max) : 0;
    session->gathered_rest = player_gathered(iov, rest);
    size_t text = rest < max ? sluice_writer_gather(session->writer, iov + rest, max - rest) : 0;
    session->gathered_text = player_gathered(iov + rest, text);
    size_t count = rest + text;
    bool due = player && session->joined && (count > 0 || player->due > 0);
    if (due && sluice_writer_queued(session->writer) == session->gathered_text)
        count += player_gather_more(player, iov + count, max - count);
    return count;
}

static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct rtmp_session *session = user;
    (void)conn;
    if (session->writer)
        return gather_with_answers(session, iov, max);
    if (!session->player)
        return 0;
    return session->joined ? player_gather(session->player, iov, max) : player_gather_rest(session->player, iov, max);
}

/* Bytes of answers among those that were sent, which are no longer owed. */
static size_t answers_sent(struct rtmp_session *session, size_t bytes) {
    size_t rest = bytes < session->gathered_rest ? bytes : session->gathered_rest;
    size_t text = bytes - rest < session->gathered_text ? bytes - rest : session->gathered_text;
    session->gathered_rest = session->gathered_text = 0;
    /* Also of nothing: the kernel is done with what it gave. */
    sluice_writer_sent(session->writer, text);
    if (session->state == RTMP_PUBLISHING || session->state == RTMP_PLAYING)
        rtmp_answer_close(session);
    return text;
}

/* Answers have been sent: messages that wait for that are handled in a later turn. */
static void go_on(struct rtmp_session *session) {
    sluice_conn_resume(session->base.conn);
    session_again(&session->base);
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct rtmp_session *session = user;
    bool was_held_back = is_held_back(session);
    (void)conn;
    size_t text = session->writer ? answers_sent(session, bytes) : 0;
    /* To the player, what came before the text and behind it is one. */
    if (session->player)
        rtmp_play_sent(session, bytes - text);
    if (session->state == RTMP_ENDING && has_sent_all(session))
        finish(session);
    if (session->state == RTMP_MOVING)
        rtmp_try_migrate(session);
    else if (was_held_back && !is_held_back(session))
        go_on(session);
}

static void discard(struct session *base) {
    struct rtmp_session *session = of(base);
    sluice_writer_free(session->writer);
    sluice_rtmp_handshake_free(session->handshake);
    sluice_rtmp_free(session->framer);
    if (session->asked)
        explicit_bzero(session->asked, sizeof *session->asked);
    free(session->asked);
    free(session);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct rtmp_session *session = user;
    (void)conn;
    rtmp_publish_end(session, -ESHUTDOWN, false);
    rtmp_play_leave(session, "server shutting down");
    rtmp_play_free(session);
    worker_end_session(&session->base);
    discard(&session->base);
}

static const sluice_conn_events events = {
    .size = sizeof events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

/* A message of a session that does not publish must be whole in time. */
static bool is_slow(struct rtmp_session *session, uint64_t now) {
    struct session *base = &session->base;
    const sluice_chain *chain = session_chain(base);
    const struct pace_look look = {
        .mark = session->messages,
        .is_open = (sluice_chain_length(chain) > 0 || sluice_rtmp_footprint(session->framer) > 0) &&
                   is_reading(session) && !budget_has_more(base) && !base->held_up,
        .most_ms = PACE_MESSAGE_MS,
    };
    return pace_is_late(&base->pace, &look, now);
}

static void give_up(struct rtmp_session *session, const char *reason) {
    session_log_refusal(&session->base, 408, reason);
    rtmp_play_leave(session, reason);
    rtmp_end(session);
}

static void end_all(struct rtmp_session *session, int error) {
    rtmp_play_leave(session, publisher_error_text(error));
    rtmp_publish_end(session, error, true);
    rtmp_end(session);
}

/*
 * Whether a client that has ended its side takes nothing of what it is owed. Where its connection
 * has failed since, there may be no other sign of that: a TLS stage reports one end.
 */
static bool takes_nothing(const struct rtmp_session *session, uint64_t now) {
    return session->peer_ended && takes_messages(session) && is_held_back(session) &&
           now - session->active_at >= STEP_MS;
}

static void tick(struct session *base, uint64_t now) {
    struct rtmp_session *session = of(base);
    /* One that does not read its answers is not read by its own fault. */
    if (base->held_up && !is_held_back(session) && session->state != RTMP_ENDING && session->state != RTMP_MOVING)
        session->active_at = now;
    if (base->worker->leaving && (session->state == RTMP_PUBLISHING || session->state == RTMP_PLAYING))
        (void)rtmp_answer_reconnect(session, NULL);
    if (base->closing)
        return;
    if (session->leaves_at > 0 && now >= session->leaves_at) {
        end_all(session, -ECANCELED);
        return;
    }
    if (takes_nothing(session, now)) {
        rtmp_play_leave(session, "answers not read");
        rtmp_close(session);
        return;
    }
    switch (session->state) {
    case RTMP_HANDSHAKE:
    case RTMP_CONNECTING:
    case RTMP_CONNECTED:
        if (now - session->active_at >= STEP_MS || session_is_overdue(base) || is_slow(session, now))
            give_up(session, "request timeout");
        break;
    case RTMP_ASKING:
    case RTMP_CLAIMING:
        break;
    case RTMP_PUBLISHING:
        rtmp_publish_tick(session, now);
        break;
    case RTMP_PLAYING:
        if (is_slow(session, now))
            give_up(session, "request timeout");
        else
            rtmp_play_tick(session, now);
        break;
    case RTMP_MOVING:
    case RTMP_ENDING:
        if (now - session->active_at >= (session->state == RTMP_MOVING ? STEP_MS : ENDING_MS))
            rtmp_close(session);
        break;
    }
}

static bool publishes(const struct session *base) {
    return ((const struct rtmp_session *)base)->publisher;
}

/* What a message under way holds, and what the stream has pinned. */
static size_t held(const struct session *base) {
    const struct rtmp_session *session = (const struct rtmp_session *)base;
    size_t under_way = session->framer ? sluice_rtmp_footprint(session->framer) : 0;
    size_t aggregate = session->aggregate ? session->aggregate->size : 0;
    return under_way + aggregate + publisher_held(session->publisher);
}

static size_t owes(const struct session *base) {
    return rtmp_answer_queued((const struct rtmp_session *)base);
}

static void drain(struct session *base) {
    struct rtmp_session *session = of(base);
    bool is_served = session->state == RTMP_PUBLISHING || session->state == RTMP_PLAYING;
    if (session->state == RTMP_MOVING || session->state == RTMP_HANDSHAKE) {
        rtmp_close(session);
        return;
    }
    if (is_served)
        (void)rtmp_answer_reconnect(session, NULL);
    if (base->closing)
        return;
    if (session->state == RTMP_PLAYING)
        rtmp_play_drain(session);
    else
        end_all(session, -ESHUTDOWN);
}

/* The framer is not needed any more, and may hold a message. */
static void evict(struct session *base) {
    struct rtmp_session *session = of(base);
    /* What is owed already is not read: there is no use in one more answer. */
    if (session->state == RTMP_MOVING || session->state == RTMP_HANDSHAKE || is_held_back(session)) {
        rtmp_close(session);
        return;
    }
    if (session->state == RTMP_ENDING)
        return;
    if (!session->publisher)
        session_log_refusal(base, 503, reject_reason(REJECT_MEMORY));
    end_all(session, -ENOBUFS);
    sluice_rtmp_free(session->framer);
    session->framer = NULL;
}

static void kick(struct session *base, int error) {
    struct rtmp_session *session = of(base);
    if (session->state == RTMP_MOVING || session->state == RTMP_HANDSHAKE)
        rtmp_close(session);
    else
        end_all(session, error);
}

bool rtmp_find_refuge(const struct rtmp_session *session, const char *name, char url[RTMP_REFUGE]) {
    if (session->app_size == RTMP_APP_UNKNOWN || !refuge_url(&session->base, "rtmp", url))
        return false;
    sprintf(url + strlen(url), "/%.*s", (int)session->app_size, name);
    return true;
}

static bool redirect(struct session *base, const char *url) {
    struct rtmp_session *session = of(base);
    char refuge[RTMP_REFUGE];
    const bool is_served = session->state == RTMP_PUBLISHING || session->state == RTMP_PLAYING;
    if (!url && is_served &&
        rtmp_find_refuge(session,
                         session->player ? session->player->stream->name : publisher_stream_name(session->publisher),
                         refuge))
        url = refuge;
    if ((session->state != RTMP_PUBLISHING && session->state != RTMP_PLAYING) || !rtmp_answer_reconnect(session, url))
        return false;
    if (session->leaves_at == 0)
        session->leaves_at = worker_now(base->worker) + LEAVING_MS;
    return true;
}

/* The largest tag that any stream may have: which one it is about is not known yet. */
static uint32_t largest_tag(const struct options *options) {
    const struct stream_policies *streams = &options->streams;
    uint64_t most = streams->all.frame_limit;
    for (size_t i = 0; i < streams->count; i++)
        if (streams->list[i].field == offsetof(struct stream_policy, frame_limit) &&
            streams->list[i].value.number > most)
            most = streams->list[i].value.number;
    return most < SLUICE_RTMP_MAX_MESSAGE ? (uint32_t)most : SLUICE_RTMP_MAX_MESSAGE;
}

static int prepare(struct session *base, const struct handover *handover) {
    struct rtmp_session *session = of(base);
    const sluice_rtmp_limits limits = {
        .size = sizeof limits, .message = largest_tag(base->worker->options), .work = CHUNKS};
    (void)handover;
    session->state = RTMP_HANDSHAKE;
    session->active_at = worker_now(base->worker);
    session->chunk_size = SLUICE_RTMP_DEFAULT_CHUNK;
    return sluice_rtmp_new(&limits, &session->framer);
}

static void begin(struct session *base) {
    int error = rtmp_answer_open(of(base));
    if (!error)
        return;
    session_log_failed(base, error);
    rtmp_close(of(base));
}

static const struct session_type rtmp_session_type = {.protocol = "rtmp",
                                                      .events = &events,
                                                      .size = sizeof(struct rtmp_session),
                                                      .prepare = prepare,
                                                      .begin = begin,
                                                      .tick = tick,
                                                      .drain = drain,
                                                      .kick = kick,
                                                      .redirect = redirect,
                                                      .publishes = publishes,
                                                      .held = held,
                                                      .owes = owes,
                                                      .evict = evict,
                                                      .moved = rtmp_migrated,
                                                      .discard = discard};

const struct protocol rtmp_protocol = {
    .option = {"rtmp", SETTING_LISTENER, true, .group = GROUP_LISTENERS, .preset = "127.0.0.1:1935",
               .value = "ADDR:PORT[,tls][,merge-window=MS]",
               .expected = "ADDR:PORT, such as 127.0.0.1:1935 or [::1]:1935",
               .help = "Accept RTMP: publish and play rtmp://HOST/APP/NAME",
               .text = "The stream is APP/NAME. The merge window (see --merge-window) applies to the "
                       "players of this listener."},
    .serves_players = true,
    .session = &rtmp_session_type,
};
