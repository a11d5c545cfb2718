/* Playing by WebSocket: each tag is a binary message. Pongs, pings and the close frame go between
 * them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/protocols/http/http_session_internal.h"

enum {
    /* between pings, so that what lies between does not take the connection for dead */
    PING_MS = 30000,
    MESSAGE_MOST = 4096, /* bytes of a player's message, which is not used */
};

/* The handshake's answer, and the FLV header as a message. */
static size_t begin(struct player *player, uint8_t flags, uint8_t *buffer) {
    struct http_session *session = player->user;
    struct http_websocket *websocket = session->websocket;
    uint8_t header[SLUICE_WEBSOCKET_MAX_HEADER];
    size_t at = (size_t)snprintf((char *)buffer, PLAYER_PREAMBLE,
                                 "HTTP/1.1 101 Switching Protocols\r\n"
                                 "Server: sluiced\r\n"
                                 "Upgrade: websocket\r\n"
                                 "Connection: Upgrade\r\n"
                                 "Sec-WebSocket-Accept: %.*s\r\n\r\n",
                                 SLUICE_WEBSOCKET_ACCEPT_SIZE, websocket->accept);
    int size = sluice_websocket_write_header(header, SLUICE_WEBSOCKET_BINARY, true, SLUICE_FLV_HEADER_SIZE, NULL);
    memcpy(buffer + at, header, (size_t)size);
    at += (size_t)size;
    sluice_flv_write_header(buffer + at, flags);
    size = sluice_websocket_write_close(websocket->tail, SLUICE_WEBSOCKET_NORMAL, "end of stream", NULL);
    player->tail = websocket->tail;
    player->tail_size = (size_t)size;
    return at + SLUICE_FLV_HEADER_SIZE;
}

void http_websocket_start(struct http_session *session, struct stream *stream,
                          const char accept[SLUICE_WEBSOCKET_ACCEPT_SIZE]) {
    /* In pieces, which are dropped, so that nothing of a message is held. */
    const sluice_websocket_options limits = {.size = sizeof limits, .max_message = MESSAGE_MOST, .pieces = true};
    struct http_websocket *websocket = calloc(1, sizeof *websocket);
    struct player *player = player_new(begin);
    int error = websocket && player ? sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, &limits, &websocket->framer) : -1;
    if (error) {
        free(websocket);
        free(player);
        stream_unref(stream);
        http_refuse(session, 503, "out of memory");
        return;
    }
    memcpy(websocket->accept, accept, sizeof websocket->accept);
    websocket->pinged_at = worker_now(session->base.worker);
    session->websocket = websocket;
    http_play_join(session, player, stream, &wire_flv_websocket);
}

void http_websocket_free(struct http_session *session) {
    if (!session->websocket)
        return;
    sluice_websocket_free(session->websocket->framer);
    free(session->websocket);
    session->websocket = NULL;
}

/* Queues what has been written to the next control frame, unless the last one has been. */
static void queue(struct http_session *session, int size) {
    struct http_websocket *websocket = session->websocket;
    if (size <= 0)
        return;
    websocket->next_size = (size_t)size;
    sluice_conn_want_send(session->base.conn);
}

/* A close frame is on its way, its own or the end's: nothing comes behind it, and input is
 * dropped. */
static bool is_closing(const struct http_session *session) {
    return session->websocket->closing || session->player->tail_sent > 0;
}

/* The last thing that is sent, behind the tag that is partly sent. */
static void close_with(struct http_session *session, uint16_t code) {
    struct http_websocket *websocket = session->websocket;
    if (is_closing(session))
        return;
    if (!session->player->begun) {
        http_play_leave(session, "closed by player");
        http_close(session);
        return;
    }
    queue(session, sluice_websocket_write_close(websocket->next, code, NULL, NULL));
    websocket->closing = true;
    player_pause(session->player);
}

void http_websocket_read(struct http_session *session) {
    struct http_websocket *websocket = session->websocket;
    sluice_chain *chain = session_chain(&session->base);
    sluice_websocket_message *message;
    int result = 0;
    budget_begin(&session->base);
    while (!session->base.closing && !is_closing(session) && !budget_is_spent(&session->base.budget) &&
           (result = sluice_websocket_next(websocket->framer, chain, &message)) > 0) {
        bool is_control = message->opcode >= SLUICE_WEBSOCKET_CLOSE;
        websocket->messages += message->last && !is_control;
        websocket->in_message = is_control ? websocket->in_message : !message->last;
        budget_charge(&session->base.budget);
        if (message->opcode == SLUICE_WEBSOCKET_PING && session->player->begun)
            queue(session, sluice_websocket_write_pong(websocket->next, message, NULL));
        else if (message->opcode == SLUICE_WEBSOCKET_CLOSE)
            close_with(session, sluice_websocket_close_code(websocket->framer));
    }
    if (session->base.closing) {
        budget_rest(&session->base);
    } else if (is_closing(session)) {
        sluice_chain_skip(chain, SIZE_MAX);
        budget_rest(&session->base);
    } else if (result < 0) {
        budget_rest(&session->base);
        close_with(session, sluice_websocket_close_code(websocket->framer));
    } else {
        budget_end(&session->base, chain);
    }
}

size_t http_websocket_gather(struct http_session *session, struct iovec *iov, size_t max) {
    struct http_websocket *websocket = session->websocket;
    struct player *player = session->player;
    websocket->gathered_rest = websocket->gathered_control = 0;
    if (websocket->out_sent == websocket->out_size && websocket->next_size > 0) {
        memcpy(websocket->out, websocket->next, websocket->next_size);
        websocket->out_size = websocket->next_size;
        websocket->out_sent = websocket->next_size = 0;
    }
    size_t control = websocket->out_size - websocket->out_sent;
    if (control == 0 || player->preamble_sent < player->preamble_size || player->tail_sent > 0)
        return player_gather(player, iov, max);
    /* Where a tag is partly sent, it is finished first. */
    size_t count = player_gather_rest(player, iov, max);
    websocket->gathered_rest = player_gathered(iov, count);
    if (count == max)
        return count;
    iov[count++] = (struct iovec){websocket->out + websocket->out_sent, control};
    websocket->gathered_control = control;
    if (!websocket->closing && player->due > 0)
        count += player_gather_more(player, iov + count, max - count);
    return count;
}

void http_websocket_sent(struct http_session *session, size_t bytes) {
    struct http_websocket *websocket = session->websocket;
    size_t rest = bytes < websocket->gathered_rest ? bytes : websocket->gathered_rest;
    size_t control = bytes - rest < websocket->gathered_control ? bytes - rest : websocket->gathered_control;
    websocket->out_sent += control;
    if (websocket->closing && websocket->next_size == 0 && websocket->out_sent == websocket->out_size) {
        player_sent(session->player, bytes - control);
        http_play_leave(session, "closed by player");
        http_linger(session);
        return;
    }
    /* To the player, what came before the control frame and behind it is one. */
    http_play_sent(session, bytes - control);
}

/* The end will say why, unless it is being said. */
void http_websocket_drain(struct http_session *session) {
    struct http_websocket *websocket = session->websocket;
    struct player *player = session->player;
    if (!player->begun || player->state == PLAYER_ENDING || is_closing(session))
        return;
    player->tail_size = (size_t)sluice_websocket_write_close(websocket->tail, SLUICE_WEBSOCKET_GOING_AWAY,
                                                             "server shutting down", NULL);
}

/* Whether a message has not come whole in time, and the connection ends. */
static bool look_at_message(struct http_session *session, uint64_t now) {
    const struct http_websocket *websocket = session->websocket;
    const sluice_chain *chain = session_chain(&session->base);
    const struct pace_look look = {
        .mark = websocket->messages,
        .is_open = (websocket->in_message || sluice_chain_length(chain) > 0) && !is_closing(session) &&
                   !session->base.held_up,
        .most_ms = PACE_MESSAGE_MS,
    };
    if (!pace_is_late(&session->base.pace, &look, now))
        return false;
    close_with(session, SLUICE_WEBSOCKET_POLICY_VIOLATION);
    return true;
}

void http_websocket_tick(struct http_session *session, uint64_t now) {
    if (look_at_message(session, now))
        return;
    struct http_websocket *websocket = session->websocket;
    bool free = websocket->next_size == 0 && websocket->out_sent == websocket->out_size;
    if (now - websocket->pinged_at < PING_MS || !session->player->begun || websocket->closing || !free)
        return;
    websocket->pinged_at = now;
    queue(session, sluice_websocket_write_ping(websocket->next, NULL, 0, NULL));
}
