/* Playing: DESCRIBE says what there is, SETUP chooses tracks, PLAY starts them at a key frame. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/protocols/rtsp/rtsp_session_internal.h"
#include "daemon/relay/slow_player.h"
#include "daemon/server/hook_event.h"
#include "daemon/server/server.h"
#include "daemon/server/spread.h"
#include "shared/codec_name.h"

const sluice_http_text rtsp_controls[PACKET_TRACKS] = {{"trackID=0", 9}, {"trackID=1", 9}};

static bool contains(sluice_http_text text, const char *word) {
    return text.length >= strlen(word) && memmem(text.text, text.length, word, strlen(word));
}

/* Whether a description is acceptable: without an Accept header anything is. */
static bool accepts_sdp(const sluice_rtsp_message *request) {
    bool any = false;
    for (size_t i = 0; i < request->header_count; i++) {
        const sluice_http_header *header = &request->headers[i];
        if (header->name.length != strlen("Accept") || strncasecmp(header->name.text, "Accept", strlen("Accept")) != 0)
            continue;
        any = true;
        if (contains(header->value, "application/sdp") || contains(header->value, "application/*") ||
            contains(header->value, "*/*"))
            return true;
    }
    return !any;
}

static struct stream *stream_of(const struct rtsp_session *session) {
    return session->player->stream;
}

static bool is_stream(const struct stream *stream, sluice_http_text name) {
    return name.length == strlen(stream->name) && memcmp(name.text, stream->name, name.length) == 0;
}

bool rtsp_play_is_of(const struct rtsp_session *session, sluice_http_text name) {
    return is_stream(stream_of(session), name);
}

/* The stream that it is to play, or the replica where it has a seat, with a reference. Errors of
 * registry_get() */
static int get_stream(const struct rtsp_session *session, sluice_http_text name, struct stream **ret_stream) {
    struct worker *worker = session->base.worker;
    if (!session->base.reservation)
        return registry_get(worker->registry, name.text, name.length, worker_now(worker), ret_stream);
    struct stream *replica = spread_stream(&session->base);
    if (!replica)
        return -ENOMEM;
    *ret_stream = replica;
    return 0;
}

static bool has_description(const struct rtsp_session *session) {
    const struct rtp_packetizer *output = stream_of(session)->rtp;
    return output && rtp_packetizer_has_tracks(output);
}

/* The tracks as they are described now. False if RTP can carry none, or memory is short. */
static bool take_description(struct rtsp_session *session) {
    if (!has_description(session))
        return false;
    session->player->description = stream_of(session)->rtp->description;
    session->player->state = PLAYER_PAUSED;
    return true;
}

static int write_description(struct rtsp_session *session, char *buffer, size_t size) {
    const struct stream *stream = stream_of(session);
    struct sockaddr_storage local = {0};
    socklen_t length = sizeof local;
    char host[ADDRESS_TEXT] = "127.0.0.1";
    if (getsockname(sluice_conn_fd(session->base.conn), (struct sockaddr *)&local, &length) == 0)
        address_format_host(&local, host);
    return rtp_packetizer_write_sdp(stream->rtp, stream->name, host, buffer, size);
}

/* The tracks are none that RTP can carry: which, and not only that. */
static void refuse_tracks(struct rtsp_session *session, int64_t cseq) {
    const struct stream *stream = stream_of(session);
    char reason[2 * CODEC_NAME + 64] = "no track supported by RTP", video[CODEC_NAME], audio[CODEC_NAME];
    bool has_video = stream->seen & SLUICE_FLV_HAS_VIDEO, has_audio = stream->seen & SLUICE_FLV_HAS_AUDIO;
    codec_name(tracks_main(&stream->video)->codec, video);
    codec_name(tracks_main(&stream->audio)->codec, audio);
    if (has_video && has_audio)
        snprintf(reason, sizeof reason, "video/%s, audio/%s are not supported by RTP", video, audio);
    else if (has_video || has_audio)
        snprintf(reason, sizeof reason, "%s/%s is not supported by RTP", has_video ? "video" : "audio",
                 has_video ? video : audio);
    rtsp_refuse(session, 415, cseq, reason);
}

static void send_description(struct rtsp_session *session, int64_t cseq, sluice_http_text url) {
    char *body = malloc(RTSP_BODY);
    int size = body ? write_description(session, body, RTSP_BODY) : -ENOMEM;
    if (size < 0) {
        rtsp_refuse(session, 503, cseq, strerror(-size));
    } else {
        struct rtsp_reply reply;
        bool slash = url.length > 0 && url.text[url.length - 1] == '/';
        rtsp_reply_begin(&reply, session, 200, cseq);
        sluice_rtsp_write_header(&reply.head, "Content-Base", "%.*s%s", (int)url.length, url.text, slash ? "" : "/");
        rtsp_reply_send(session, &reply, "application/sdp", body, (size_t)size);
    }
    free(body);
}

static void answer_description(struct rtsp_session *session, int64_t cseq, sluice_http_text url) {
    if (!take_description(session)) {
        refuse_tracks(session, cseq);
        rtsp_play_leave(session, "no track supported by RTP");
        rtsp_play_free(session);
        session->state = RTSP_INIT;
        return;
    }
    session->state = session->state == RTSP_TO_PLAY ? RTSP_TO_PLAY : RTSP_DESCRIBED;
    send_description(session, cseq, url);
}

/*
 * To one that is playing, or is set up while no publisher is there: RFC 2326, 10.2 has DESCRIBE
 * change no state.
 */
static void describe_again(struct rtsp_session *session, const sluice_rtsp_message *request) {
    if (!stream_is_known(stream_of(session)))
        rtsp_refuse(session, 404, request->cseq, sluice_rtsp_reason(404));
    else if (!has_description(session))
        refuse_tracks(session, request->cseq);
    else
        send_description(session, request->cseq, request->url);
}

/*
 * The stream that is waited for has come: while its publisher is being read. What the client has
 * sent meanwhile is handled in a call of its own.
 */
static void on_known(struct player *player) {
    struct rtsp_session *session = player->user;
    if (session->state != RTSP_WAITING)
        return;
    const sluice_http_text url = {session->asked_url, strlen(session->asked_url)};
    session->state = RTSP_INIT;
    session->active_at = worker_now(session->base.worker);
    answer_description(session, session->asked_cseq, url);
    if (session->base.closing)
        return;
    sluice_conn_resume(session->base.conn);
    session_again(&session->base);
}

/* The reference on the stream goes to the player. */
static int make_player(struct rtsp_session *session, struct stream *stream) {
    struct player *player = player_new(NULL);
    if (!player)
        return -ENOMEM;
    session_take_player(&session->base, player);
    player->protocol = session->base.type->protocol;
    player->known = on_known;
    player->form.format = &wire_rtp;
    player->merge_window_ms = options_merge_window(session->base.worker->options, stream->name,
                                                   session->base.merge_window_ms);
    session->player = player;
    session->joined = true;
    session->joined_at = player->progress_at = worker_now(session->base.worker);
    stream_add_asking(stream, player);
    return 0;
}

void rtsp_play_leave(struct rtsp_session *session, const char *reason) {
    struct player *player = session->player;
    if (!player || !session->joined)
        return;
    session->joined = false;
    if (player->begun)
        LOG(LOG_INFO, "player ended", {"stream", player->stream->name}, {"proto", "rtsp"}, {"peer", session->base.peer},
            {"reason", reason}, {"bytes", log_unsigned(player->bytes_sent).text},
            {"frames", log_unsigned(player->packets_sent).text}, {"sends", log_unsigned(player->sends).text},
            {"frames_dropped", log_unsigned(player_dropped(player)).text});
    hook_event_stop(&session->base, player, reason);
    stream_remove_player(player->stream, player);
    player_drop(player, DROP_PAUSED);
    player->state = PLAYER_ENDING;
}

void rtsp_play_free(struct rtsp_session *session) {
    stream_free_player(session->player);
    session->player = NULL;
}

/* Makes the player of that stream, which a DESCRIBE or a first SETUP asks for: 0, or the status to
 * refuse with. */
static unsigned join(struct rtsp_session *session, sluice_http_text name, bool live) {
    struct worker *worker = session->base.worker;
    struct stream *stream;
    if (session->player && is_stream(stream_of(session), name))
        return 0;
    if (session->player && session->state != RTSP_DESCRIBED)
        return 455;
    int error = get_stream(session, name, &stream);
    if (error == -EUSERS)
        server_count_reject(worker->server, REJECT_STREAMS);
    if (error)
        return error == -EINVAL ? 404 : 503;
    if (live && !stream_is_known(stream)) {
        stream_unref(stream);
        return 404;
    }
    rtsp_play_leave(session, "client selected another stream");
    rtsp_play_free(session);
    session->state = RTSP_INIT;
    if (!session->base.reservation && !stream_has_room(stream)) {
        stream_unref(stream);
        server_count_reject(worker->server, REJECT_PLAYERS);
        return 453;
    }
    if (make_player(session, stream) < 0) {
        stream_unref(stream);
        return 503;
    }
    return 0;
}

void rtsp_describe(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    unsigned status = accepts_sdp(request) ? 0 : 406;
    if (!status && (rtsp_read_target(request->url, NULL, 0, &target) < 0))
        status = 400;
    if (!status && rtsp_spread(session, request, target.name, false))
        return;
    if (!status)
        status = join(session, target.name, false);
    if (status) {
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
        return;
    }
    bool known = stream_is_known(stream_of(session));
    if (session->state == RTSP_PLAYING || (session->state == RTSP_TO_PLAY && !known)) {
        describe_again(session, request);
        return;
    }
    if (known) {
        answer_description(session, request->cseq, request->url);
        return;
    }
    free(session->asked_url);
    session->asked_url = strndup(request->url.text, request->url.length);
    if (!session->asked_url) {
        rtsp_refuse(session, 503, request->cseq, "out of memory");
        return;
    }
    session->asked_cseq = request->cseq;
    session->joined_at = worker_now(session->base.worker);
    session->player->state = PLAYER_ASKING;
    session->state = RTSP_WAITING;
}

/* The track that a SETUP is about: 0, or the status to refuse with. */
static unsigned find_track(const struct rtsp_session *session, const struct rtsp_target *target, uint32_t *ret_track) {
    const struct rtp_packetizer *output = stream_of(session)->rtp;
    uint32_t count = 0, only = 0;
    for (uint32_t i = 0; i < PACKET_TRACKS; i++) {
        if (!output->tracks[i].present)
            continue;
        count++;
        only = i;
    }
    if (target->track < 0 && count > 1)
        return 459;
    *ret_track = target->track < 0 ? only : (uint32_t)target->track;
    return output->tracks[*ret_track].present ? 0 : 404;
}

int rtsp_play_read_target(const sluice_rtsp_message *request, struct rtsp_target *ret_target) {
    bool has_track = request->method_id == SLUICE_RTSP_SETUP;
    return rtsp_read_target(request->url, has_track ? rtsp_controls : NULL, has_track ? PACKET_TRACKS : 0, ret_target);
}

void rtsp_play_setup(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    uint32_t track = 0;
    unsigned status = rtsp_read_target(request->url, rtsp_controls, PACKET_TRACKS, &target) < 0 ? 400 : 0;
    if (!status && rtsp_spread(session, request, target.name, true))
        return;
    if (!status)
        status = join(session, target.name, true);
    if (!status && session->state == RTSP_INIT)
        status = take_description(session) ? 0 : 415;
    if (!status) {
        session->state = session->state == RTSP_INIT ? RTSP_DESCRIBED : session->state;
        status = find_track(session, &target, &track);
    }
    if (status == 415) {
        refuse_tracks(session, request->cseq);
        return;
    }
    if (status) {
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
        return;
    }
    if (rtsp_setup_track(session, request, track, false) < 0)
        return;
    session->player->form.tracks[track] = true;
    session->player->form.channels[track] = session->channels[track].rtp;
    session->state = RTSP_TO_PLAY;
}

/* An aggregate request about the session's stream: 0, or the status to refuse with. */
static unsigned check_aggregate(const struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct rtsp_target target;
    if (rtsp_read_target(request->url, rtsp_controls, PACKET_TRACKS, &target) < 0)
        return 400;
    if (!is_stream(stream_of(session), target.name))
        return 404;
    return target.track >= 0 && session->set_up_count > 1 ? 460 : 0;
}

/* Where each track begins: numbers of its own, times of the same moment. None where it is not known
 * yet. */
static void write_rtp_info(struct rtsp_session *session, struct rtsp_reply *reply, sluice_http_text url) {
    const struct packet *first[PACKET_TRACKS] = {0};
    const struct rtp_packetizer *output = stream_of(session)->rtp;
    char text[RTSP_HEAD / 2];
    size_t at = 0;
    bool slash = url.length > 0 && url.text[url.length - 1] == '/';
    if (url.length > sizeof text / 2 - 64)
        return;
    uint32_t begin = player_first_packets(session->player, first);
    for (size_t i = 0; i < PACKET_TRACKS; i++)
        if (first[i])
            at += (size_t)snprintf(text + at, sizeof text - at, "%surl=%.*s%s%.*s;seq=%u;rtptime=%u", at ? "," : "",
                                   (int)url.length, url.text, slash ? "" : "/", (int)rtsp_controls[i].length,
                                   rtsp_controls[i].text, first[i]->rtp.sequence,
                                   sluice_flv_rtp_timestamp(output->tracks[i].rtp, begin));
    if (at > 0)
        sluice_rtsp_write_header(&reply->head, "RTP-Info", "%s", text);
}

static void send_reports(struct rtsp_session *session, uint64_t now) {
    uint8_t buffer[RTP_MAX_REPORT];
    struct rtp_packetizer *output = stream_of(session)->rtp;
    session->reported_at = now;
    for (unsigned i = 0; i < PACKET_TRACKS && output; i++)
        if (session->player->form.tracks[i])
            rtsp_send_rtcp(session, &session->channels[i], buffer, rtp_packetizer_write_report(output, i, buffer));
}

void rtsp_play(struct rtsp_session *session, const sluice_rtsp_message *request) {
    struct player *player = session->player;
    struct stream *stream = stream_of(session);
    sluice_rtsp_range range;
    int error = sluice_rtsp_read_range(request, &range);
    unsigned status = error == -EOPNOTSUPP ? 457 : error == -EPROTO ? 400 : check_aggregate(session, request);
    if (status) {
        rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
        return;
    }
    bool begins = session->state != RTSP_PLAYING;
    uint64_t now = worker_now(session->base.worker);
    if (begins) {
        LOG(LOG_INFO, "player started", {"stream", stream->name}, {"proto", "rtsp"}, {"peer", session->base.peer},
            {"live", stream->live ? "yes" : "no"});
        player->progress_at = session->joined_at = now;
        session->state = RTSP_PLAYING;
        session_authorize(&session->base);
        stream_play(stream, player);
    }
    struct rtsp_reply reply;
    rtsp_reply_begin(&reply, session, 200, request->cseq);
    sluice_rtsp_write_header(&reply.head, "Range", "npt=now-");
    if (begins)
        write_rtp_info(session, &reply, request->url);
    rtsp_reply_send(session, &reply, NULL, NULL, 0);
    if (begins)
        send_reports(session, now);
}

void rtsp_pause(struct rtsp_session *session, const sluice_rtsp_message *request) {
    if (session->player) {
        unsigned status = check_aggregate(session, request);
        if (status) {
            rtsp_refuse(session, status, request->cseq, sluice_rtsp_reason(status));
            return;
        }
        player_pause(session->player);
        session->state = RTSP_TO_PLAY;
    } else {
        session->state = RTSP_TO_RECORD;
    }
    rtsp_respond(session, 200, request->cseq);
}

/*
 * No publisher has appeared: the pending answer reports it, and the client may request another
 * stream.
 */
static void give_up_waiting(struct rtsp_session *session) {
    rtsp_play_leave(session, "publisher timeout");
    rtsp_play_free(session);
    session->state = RTSP_INIT;
    session->active_at = worker_now(session->base.worker);
    rtsp_refuse(session, 404, session->asked_cseq, "no such stream");
    if (session->base.closing)
        return;
    sluice_conn_resume(session->base.conn);
    rtsp_read(session);
}

void rtsp_play_tick(struct rtsp_session *session, uint64_t now) {
    struct player *player = session->player;
    const struct stream *stream = stream_of(session);
    bool in_vain = stream_is_given_up(stream, session->joined_at, worker_wait_ms(session->base.worker, stream), now);

    if (session->state == RTSP_WAITING) {
        if (in_vain)
            give_up_waiting(session);
        return;
    }
    const char *reason = slow_player_tick(player, session->base.peer, now);
    if (reason) {
        rtsp_play_leave(session, reason);
        rtsp_close(session);
    } else if (player->state == PLAYER_ENDING || (player->state == PLAYER_WAITING && in_vain)) {
        rtsp_play_leave(session, player->state == PLAYER_ENDING ? "tracks changed" : "end of stream");
        rtsp_end(session);
    } else if (now - session->reported_at >= RTSP_REPORT_MS) {
        send_reports(session, now);
    }
}
