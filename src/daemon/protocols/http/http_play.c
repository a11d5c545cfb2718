/* Playing: the response to GET /NAME.flv is the stream, for as long as there is one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/protocols/http/http_session_internal.h"
#include "daemon/relay/slow_player.h"
#include "daemon/server/hook_event.h"
#include "shared/text.h"

size_t http_play_head(const struct http_session *session, char *buffer, size_t size, bool chunked) {
    char fields[HTTP_CORS_TEXT];
    if (session->node)
        http_node_write(session, session->player->stream, fields, sizeof fields);
    else
        http_cors_write(session, fields, sizeof fields);
    int length = snprintf(buffer, size,
                          "HTTP/1.%d 200 OK\r\n"
                          "Server: sluiced\r\n"
                          "Content-Type: video/x-flv\r\n"
                          "Cache-Control: no-store\r\n"
                          "%sConnection: close\r\n"
                          "%s\r\n",
                          chunked ? 1 : 0, fields, chunked ? "Transfer-Encoding: chunked\r\n" : "");
    return (size_t)length;
}

/* The response's head and the FLV header, which is a chunk of its own in a chunked body. */
static size_t begin(struct player *player, uint8_t flags, uint8_t *buffer) {
    /* Ends a chunked body (RFC 9112, section 7.1). */
    static const char last_chunk[] = "0\r\n\r\n";
    static const char chunk_line[] = "d\r\n", chunk_end[] = "\r\n";
    _Static_assert(SLUICE_FLV_HEADER_SIZE == 0xd, "the chunk line names the size");
    bool chunked = player->form.format == &wire_flv_chunked;
    size_t at = http_play_head(player->user, (char *)buffer, PLAYER_PREAMBLE, chunked);
    if (chunked) {
        memcpy(buffer + at, chunk_line, sizeof chunk_line - 1);
        at += sizeof chunk_line - 1;
    }
    sluice_flv_write_header(buffer + at, flags);
    at += SLUICE_FLV_HEADER_SIZE;
    if (chunked) {
        memcpy(buffer + at, chunk_end, sizeof chunk_end - 1);
        at += sizeof chunk_end - 1;
        player->tail = last_chunk;
        player->tail_size = sizeof last_chunk - 1;
    }
    return at;
}

int http_play_read_tracks(sluice_http_text query, bool *ret_alone) {
    sluice_http_text value = text_of("all");
    (void)text_parameter(query, "tracks", &value);
    *ret_alone = text_is(value, "default");
    return *ret_alone || text_is(value, "all") ? 0 : -EINVAL;
}

void http_play_start(struct http_session *session, const sluice_http_request *request, struct stream *stream) {
    struct player *player = player_new(begin);
    if (!player) {
        stream_unref(stream);
        http_refuse(session, 503, "out of memory");
        return;
    }
    player->nodes = http_node_list(session);
    http_play_join(session, player, stream, request->minor_version >= 1 ? &wire_flv_chunked : &wire_flv);
}

void http_play_join(struct http_session *session, struct player *player, struct stream *stream,
                    const struct wire_format *format) {
    session->player = player;
    session->state = HTTP_PLAYING;
    session_authorize(&session->base);
    session->joined_at = worker_now(session->base.worker);
    session_take_player(&session->base, player);
    player->protocol = session->websocket ? "websocket" : session->node ? "cluster" : session->base.type->protocol;
    player->form.format = format;
    player->alone = session->alone;
    player->merge_window_ms = options_merge_window(session->base.worker->options, stream->name,
                                                   session->base.merge_window_ms);
    player->progress_at = session->joined_at;
    LOG(LOG_INFO, "player started", {"stream", stream->name}, {"proto", player->protocol}, {"peer", session->base.peer},
        {"live", stream->live ? "yes" : "no"});
    stream_add_player(stream, player);
}

/* Takes the player from its stream; the reference on the stream stays until the kernel is done with
 * the packets. */
void http_play_leave(struct http_session *session, const char *reason) {
    struct player *player = session->player;
    if (!player || session->state != HTTP_PLAYING)
        return;
    LOG(LOG_INFO, "player ended", {"stream", player->stream->name}, {"peer", session->base.peer}, {"reason", reason},
        {"bytes", log_unsigned(player->bytes_sent).text}, {"frames", log_unsigned(player->packets_sent).text},
        {"sends", log_unsigned(player->sends).text}, {"frames_dropped", log_unsigned(player_dropped(player)).text});
    hook_event_stop(&session->base, player, reason);
    stream_remove_player(player->stream, player);
    session->state = HTTP_LINGERING;
}

void http_play_free(struct http_session *session) {
    stream_free_player(session->player);
    session->player = NULL;
}

/* Whether everything has gone, after the stream's end. */
static void check_done(struct http_session *session) {
    if (!player_is_done(session->player))
        return;
    http_play_leave(session, "end of stream");
    http_linger(session);
}

void http_play_sent(struct http_session *session, size_t bytes) {
    if (bytes > 0)
        session->player->progress_at = worker_now(session->base.worker);
    player_sent(session->player, bytes);
    check_done(session);
}

/* Ends a response that has begun; else answers with @status and @reason. */
static void end(struct http_session *session, const char *why, unsigned status, const char *reason) {
    if (session->player->begun) {
        player_end(session->player);
        check_done(session);
        return;
    }
    http_play_leave(session, why);
    http_play_free(session);
    http_refuse(session, status, reason);
}

void http_play_tick(struct http_session *session, uint64_t now) {
    struct player *player = session->player;
    const struct stream *stream = player->stream;
    const char *reason = slow_player_tick(player, session->base.peer, now);
    if (reason) {
        http_play_leave(session, reason);
        http_close(session);
        return;
    }
    if (player->state == PLAYER_WAITING && session->node && http_node_is_given_up(session, stream))
        end(session, "no publisher", 410, "this node does not have the stream");
    else if (player->state == PLAYER_WAITING &&
             stream_is_given_up(stream, session->joined_at, worker_wait_ms(session->base.worker, stream), now))
        end(session, "publisher timeout", 404, "no such stream");
}

void http_play_drain(struct http_session *session) {
    if (session->websocket)
        http_websocket_drain(session);
    end(session, "server shutting down", 503, "server shutting down");
}
