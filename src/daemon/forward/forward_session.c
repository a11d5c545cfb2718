#include "daemon/forward/forward_session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/forward/forward.h"
#include "daemon/relay/slow_player.h"
#include "daemon/server/publisher.h"
#include "daemon/server/server.h"

enum { ENDING_MS = 3000 }; /* for what is queued to be sent, and the end to be answered */

static struct forward_session *of(struct session *base) {
    return (struct forward_session *)base;
}

static const struct forward_session_type *type_of(const struct forward_session *session) {
    return (const struct forward_session_type *)session->base.type;
}

static uint64_t now_of(const struct forward_session *session) {
    return worker_now(session->base.worker);
}

void forward_session_close(struct forward_session *session) {
    if (session->base.closing)
        return;
    session_close(&session->base);
}

static void check_end(struct forward_session *session) {
    if (session->ends && !session->base.closing && sluice_writer_queued(session->writer) == 0) {
        session->ends = false;
        (void)session_finish(&session->base);
    }
}

void forward_session_end(struct forward_session *session) {
    session->ends = true;
    check_end(session);
}

void forward_session_add_totals(const struct forward_session *session, struct stream_totals *totals) {
    if (session->joined)
        player_list_add_totals(session->player, totals);
}

/* The player leaves the stream; the kernel may still have packets of it. */
static void stop_playing(struct forward_session *session, const char *reason) {
    struct player *player = session->player;
    if (!session->joined)
        return;
    session->joined = false;
    if (player->begun)
        LOG(LOG_INFO, "forward ended", {"stream", player->stream->name}, {"proto", player->protocol},
            {"peer", session->base.peer}, {"reason", reason}, {"bytes", log_unsigned(player->bytes_sent).text},
            {"frames", log_unsigned(player->packets_sent).text}, {"sends", log_unsigned(player->sends).text},
            {"frames_dropped", log_unsigned(player_dropped(player)).text});
    stream_remove_player(player->stream, player);
    player_drop(player, DROP_PAUSED);
    player->state = PLAYER_ENDING;
}

/* All has been sent that is to be sent. */
static void check_done(struct forward_session *session) {
    if (session->forward || !session->joined || !player_is_done(session->player))
        return;
    stop_playing(session, "end of stream");
    type_of(session)->done(session, true);
}

static void let_go(struct forward_session *session, int error, const char *reason) {
    forward_session_add_totals(session, &session->forward->totals);
    session->forward = NULL;
    session->left_at = now_of(session);
    if (!error && session->joined && session->player->begun && !session->peer_ended) {
        player_end(session->player);
        check_done(session);
    } else {
        stop_playing(session, reason);
        type_of(session)->done(session, false);
    }
}

void forward_session_leave(struct forward_session *session, int error) {
    let_go(session, error, error ? strerror(-error) : "end of stream");
}

void forward_session_fail(struct forward_session *session, int error, const char *format, ...) {
    struct forward *forward = session->forward;
    char reason[FORWARD_REASON];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (!forward)
        return;
    let_go(session, error, reason);
    forward_fail(forward, reason);
}

void forward_session_repeat(struct forward_session *session) {
    struct forward *forward = session->forward;
    let_go(session, -ERESTART, "the target wants a login");
    forward_again(forward);
}

/* Playing */

int forward_session_make_player(struct forward_session *session, const struct wire_format *format,
                                player_begin_fn *begin) {
    struct session *base = &session->base;
    struct player *player = player_new(begin);
    if (!player)
        return -ENOMEM;
    player->stream = stream_ref(session->forward->stream);
    session_take_player(base, player);
    player->protocol = base->type->protocol;
    player->form.format = format;
    player->merge_window_ms = options_merge_window(base->worker->options, player->stream->name, base->merge_window_ms);
    player->progress_at = now_of(session);
    session->player = player;
    return 0;
}

void forward_session_play(struct forward_session *session) {
    session->joined = true;
    forward_begin_sending(session->forward);
    stream_add_player(session->player->stream, session->player);
}

void forward_session_ask(struct forward_session *session) {
    session->joined = true;
    stream_add_asking(session->player->stream, session->player);
}

void forward_session_play_asked(struct forward_session *session) {
    session->player->progress_at = now_of(session);
    forward_begin_sending(session->forward);
    stream_play(session->player->stream, session->player);
}

/* The connection */

static void on_data(sluice_conn *conn, void *user) {
    struct forward_session *session = user;
    (void)conn;
    type_of(session)->received(session, session_chain(&session->base));
    session_account(&session->base);
}

static void on_end(sluice_conn *conn, int error, void *user) {
    struct forward_session *session = user;
    char reason[SESSION_FAILURE] = "the target has ended the connection";
    (void)conn;
    session->peer_ended = true;
    if (error)
        session_explain(&session->base, error, reason);
    forward_session_fail(session, error ? error : -ECONNRESET, "%s", reason);
    forward_session_close(session);
}

/* Requests go before packets, but not into one. */
static size_t on_gather(sluice_conn *conn, struct iovec *iov, size_t max, void *user) {
    struct forward_session *session = user;
    struct player *player = session->player;
    (void)conn;
    session->is_writing = false;
    if (session->joined && player->count > 0 && type_of(session)->gathering)
        type_of(session)->gathering(session);
    bool has_text = sluice_writer_queued(session->writer) > 0;
    size_t count = has_text && player ? player_gather_rest(player, iov, max) : 0;
    if (count > 0)
        return count;
    session->is_writing = has_text;
    if (has_text)
        return sluice_writer_gather(session->writer, iov, max);
    return player && session->joined ? player_gather(player, iov, max) : 0;
}

static void on_sent(sluice_conn *conn, size_t bytes, void *user) {
    struct forward_session *session = user;
    struct player *player = session->player;
    (void)conn;
    if (bytes > 0 && player)
        player->progress_at = now_of(session);
    if (session->is_writing) {
        sluice_writer_sent(session->writer, bytes);
        if (type_of(session)->written && sluice_writer_queued(session->writer) == 0)
            type_of(session)->written(session);
    } else if (player) {
        player_sent(player, bytes);
    }
    check_done(session);
    check_end(session);
}

static void free_session(struct forward_session *session) {
    if (type_of(session)->clear)
        type_of(session)->clear(session);
    stream_free_player(session->player);
    sluice_writer_free(session->writer);
    explicit_bzero(session, type_of(session)->base.size);
    free(session);
}

static void on_closed(sluice_conn *conn, void *user) {
    struct forward_session *session = user;
    (void)conn;
    if (session->forward) {
        forward_session_add_totals(session, &session->forward->totals);
        session->forward->session = NULL;
    }
    stop_playing(session, "server shutting down");
    worker_end_session(&session->base);
    free_session(session);
}

const sluice_conn_events forward_session_events = {
    .size = sizeof forward_session_events,
    .on_data = on_data,
    .on_end = on_end,
    .on_gather = on_gather,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

/* The session */

int forward_session_prepare(struct session *base, const struct handover *handover) {
    (void)handover;
    base->is_uncounted = true;
    return 0;
}

void forward_session_tick(struct session *base, uint64_t now) {
    struct forward_session *session = of(base);
    if (!session->forward) {
        if (now - session->left_at >= ENDING_MS)
            forward_session_close(session);
        return;
    }
    const char *reason = session->forward->machine.state == OUTGOING_ACTIVE
                             ? slow_player_tick(session->player, base->peer, now)
                             : NULL;
    if (reason)
        forward_session_fail(session, -ETIMEDOUT, "%s", reason);
    else if (session->joined && session->player->state == PLAYER_ENDING)
        forward_session_fail(session, -ESTALE, "the tracks have changed");
    else if (type_of(session)->tick)
        type_of(session)->tick(session, now);
}

/* The forward lets go of it. */
void forward_session_drain(struct session *base) {
    (void)base;
}

/* As with any other failure, the forward tries again after a while. */
void forward_session_kick(struct session *base, int error) {
    struct forward_session *session = of(base);
    forward_session_fail(session, error, "%s", publisher_error_text(error));
    /* A stream that is kicked expects its players to leave. */
    stop_playing(session, publisher_error_text(error));
    forward_session_close(session);
}

void forward_session_evict(struct session *base) {
    struct forward_session *session = of(base);
    forward_session_fail(session, -ENOBUFS, "%s", publisher_error_text(-ENOBUFS));
    forward_session_close(session);
}

void forward_session_discard(struct session *base) {
    free_session(of(base));
}

size_t forward_session_held(const struct session *base) {
    const struct forward_session *session = (const struct forward_session *)base;
    return type_of(session)->held ? type_of(session)->held(session) : 0;
}

int forward_session_start(const struct forward_session_type *type, struct forward *forward, int fd, size_t writer,
                          struct forward_session **ret_session) {
    const struct session_secure secure = {forward->context, forward->target.host};
    struct session *base;
    int error = session_start_outgoing(&type->base, forward->worker, fd, &forward->job.address,
                                       forward->target.is_secure ? &secure : NULL, &base);
    if (error)
        return error;
    struct forward_session *session = of(base);
    session->forward = forward;
    forward->session = session;
    outgoing_connected(&forward->machine, now_of(session));
    error = sluice_writer_new(base->conn, writer, &session->writer);
    if (error) {
        forward_session_fail(session, error, "%s", strerror(-error));
        forward_session_close(session);
    }
    *ret_session = session;
    return 0;
}
