/* Playing: tags as messages, behind the answers that say that it begins. */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtmp/rtmp_session_internal.h"
#include "daemon/relay/slow_player.h"
#include "daemon/server/hook_event.h"
#include "shared/text.h"

enum {
    CHUNK_LEAST = 8 << 20, /* announced: a tag is one chunk, and tags may become larger */
    PING_MS = 30000,       /* between pings of a player that is paused */
    /* of a pause in which it sends nothing, and the time for its host to acknowledge a ping */
    PAUSED_MS = 70000,
    ACKNOWLEDGED_MS = 10000,
};

static void tell(struct rtmp_session *session, const char *level, const char *code, const char *description) {
    if (!session->base.closing)
        rtmp_answer_status(session, session->stream, level, code, description);
}

/*
 * The answers, once there is a stream. The player's list is being gone through: what cannot be
 * queued closes the connection with the next tick.
 */
static size_t begin(struct player *player, uint8_t flags, uint8_t *buffer) {
    struct rtmp_session *session = player->user;
    (void)flags;
    (void)buffer;
    session->begins = true;
    rtmp_answer_control(session, SLUICE_RTMP_SET_CHUNK_SIZE, player->form.chunk_size);
    rtmp_answer_event(session, SLUICE_RTMP_STREAM_BEGIN, session->stream);
    tell(session, "status", "NetStream.Play.Reset", "reset");
    tell(session, "status", "NetStream.Play.Start", "playing");
    session->begins = false;
    return 0;
}

/* Which tracks it is sent: all where it says that it can take them apart, or asks for them. 0,
 * -EINVAL */
static int read_tracks(const struct rtmp_session *session, bool *ret_alone) {
    sluice_http_text value;
    *ret_alone = !(session->caps & RTMP_CAN_MULTITRACK);
    if (!text_parameter(text_of(session->asked->target.query), "tracks", &value))
        return 0;
    *ret_alone = text_is(value, "default");
    return *ret_alone || text_is(value, "all") ? 0 : -EINVAL;
}

static void set_form(const struct rtmp_session *session, struct player *player, const struct stream *stream) {
    uint64_t largest = stream->policy.frame_limit > CHUNK_LEAST ? stream->policy.frame_limit : CHUNK_LEAST;
    player->form.format = &wire_rtmp;
    player->form.chunk_size = (uint32_t)largest;
    for (size_t i = 0; session->stream > 1 && i < sizeof player->form.message_stream; i++)
        player->form.message_stream[i] = (uint8_t)(session->stream >> (8 * i));
}

void rtmp_play_start(struct rtmp_session *session, struct stream *stream) {
    struct session *base = &session->base;
    bool alone;
    if (read_tracks(session, &alone) < 0) {
        stream_unref(stream);
        rtmp_refuse(session, "NetStream.Play.Failed", "invalid parameter: tracks is all or default");
        return;
    }
    struct player *player = player_new(begin);
    if (!player) {
        stream_unref(stream);
        rtmp_refuse(session, "NetStream.Play.Failed", "out of memory");
        return;
    }
    rtmp_forget_asked(session);
    session->player = player;
    session->state = RTMP_PLAYING;
    session->joined = true;
    session_authorize(base);
    session->joined_at = player->progress_at = worker_now(base->worker);
    session_take_player(base, player);
    player->protocol = "rtmp";
    player->alone = alone;
    set_form(session, player, stream);
    player->merge_window_ms = options_merge_window(base->worker->options, stream->name, base->merge_window_ms);
    LOG(LOG_INFO, "player started", {"stream", stream->name}, {"proto", "rtmp"}, {"peer", base->peer},
        {"live", stream->live ? "yes" : "no"});
    stream_add_player(stream, player);
    /* Until the stream begins, nothing more may be owed. */
    rtmp_answer_close(session);
}

/* Takes the player from its stream; the reference on the stream stays until the kernel is done with
 * the packets. */
void rtmp_play_leave(struct rtmp_session *session, const char *reason) {
    struct player *player = session->player;
    if (!session->joined)
        return;
    session->joined = false;
    LOG(LOG_INFO, "player ended", {"stream", player->stream->name}, {"peer", session->base.peer}, {"reason", reason},
        {"bytes", log_unsigned(player->bytes_sent).text}, {"frames", log_unsigned(player->packets_sent).text},
        {"sends", log_unsigned(player->sends).text}, {"frames_dropped", log_unsigned(player_dropped(player)).text});
    hook_event_stop(&session->base, player, reason);
    stream_remove_player(player->stream, player);
    /* A message that is partly sent has to be finished before anything else. */
    player_drop(player, DROP_PAUSED);
}

void rtmp_play_free(struct rtmp_session *session) {
    stream_free_player(session->player);
    session->player = NULL;
}

void rtmp_play_pause(struct rtmp_session *session, bool pause) {
    struct player *player = session->player;
    if (pause && player->begun) {
        player_pause(player);
        session->pinged_at = worker_now(session->base.worker);
    } else if (player->state == PLAYER_PAUSED) {
        session->joined_at = player->progress_at = worker_now(session->base.worker);
        stream_play(player->stream, player);
    }
    tell(session, "status", pause ? "NetStream.Pause.Notify" : "NetStream.Unpause.Notify",
         pause ? "paused" : "resumed");
}

/* Behind the last message of a stream that has ended. */
static void finish(struct rtmp_session *session, const char *reason) {
    rtmp_play_leave(session, reason);
    if (!session->base.closing)
        rtmp_answer_event(session, SLUICE_RTMP_STREAM_EOF, session->stream);
    tell(session, "status", "NetStream.Play.UnpublishNotify", reason);
    tell(session, "status", "NetStream.Play.Stop", reason);
    rtmp_end(session);
}

static void check_done(struct rtmp_session *session) {
    if (session->joined && player_is_done(session->player))
        finish(session, session->base.worker->draining ? "server shutting down" : "end of stream");
}

void rtmp_play_sent(struct rtmp_session *session, size_t bytes) {
    struct player *player = session->player;
    if (bytes > 0)
        player->progress_at = worker_now(session->base.worker);
    player_sent(player, bytes);
    /* Messages that were on their way when it left, or paused. */
    if (!session->joined || player->state == PLAYER_PAUSED)
        player_drop(player, DROP_PAUSED);
    check_done(session);
}

/* Ends what has begun; else answers that there is nothing. */
static void end(struct rtmp_session *session, const char *why, const char *code, const char *reason) {
    if (session->player->begun) {
        player_end(session->player);
        check_done(session);
        return;
    }
    rtmp_play_leave(session, why);
    rtmp_refuse(session, code, reason);
}

/* Whether its host has acknowledged all that it was sent. */
static bool is_acknowledged(const struct rtmp_session *session) {
    int unacknowledged = 0;
    return ioctl(sluice_conn_fd(session->base.conn), SIOCOUTQ, &unacknowledged) < 0 || unacknowledged == 0;
}

/*
 * A player that is paused is sent nothing by which the end of its connection would be noticed, so
 * it is asked whether it is there. One that does not read while it is paused gives no answer, but
 * its host acknowledges the ping. Why it ends, or NULL.
 */
static const char *look_at_pause(struct rtmp_session *session, uint64_t now) {
    if (session->player->state != PLAYER_PAUSED)
        return NULL;
    bool is_silent = now - session->active_at >= PAUSED_MS && now - session->pinged_at >= ACKNOWLEDGED_MS;
    if (is_silent && !is_acknowledged(session))
        return "session timeout";
    if (now - session->pinged_at >= PING_MS) {
        session->pinged_at = now;
        rtmp_answer_event(session, SLUICE_RTMP_PING_REQUEST, (uint32_t)now);
    }
    return NULL;
}

void rtmp_play_tick(struct rtmp_session *session, uint64_t now) {
    struct player *player = session->player;
    const struct stream *stream = player->stream;
    const char *reason = session->failed ? "answers not read" : slow_player_tick(player, session->base.peer, now);
    if (!reason)
        reason = look_at_pause(session, now);
    if (reason) {
        rtmp_play_leave(session, reason);
        rtmp_close(session);
    } else if (player->state == PLAYER_WAITING &&
               stream_is_given_up(stream, session->joined_at, worker_wait_ms(session->base.worker, stream), now)) {
        end(session, "publisher timeout", "NetStream.Play.StreamNotFound", "no such stream");
    }
}

void rtmp_play_drain(struct rtmp_session *session) {
    end(session, "server shutting down", "NetStream.Play.Failed", "server shutting down");
}
