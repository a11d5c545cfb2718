#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/messages.h"
#include "sim/peers.h"
#include "sim/rtsp.h"
#include "sim/world.h"

enum { HEAD = 1024, PIECE = 65536, ROOM = 1 << 18 };

enum body_state { BODY_LINE, BODY_BYTES, BODY_END, BODY_LAST_END, BODY_DONE };

struct sim_player {
    struct player_plan plan;
    struct file *file;
    struct viewer viewer;
    char who[48];
    char head[HEAD];
    size_t head_length;
    bool granted, refused, left, ended;
    uint32_t most; /* bytes that it reads at once */
    uint32_t wait_us;

    enum body_state state;
    char line[16];
    size_t line_length;
    size_t chunk_left;
    struct messages messages;
    struct rtsp rtsp;
};

/* One byte of the lines around chunks. */
static void take_line(struct sim_player *player, char byte) {
    WORLD_CHECK(player->line_length + 1 < sizeof player->line, "%s: a chunk's line is too long", player->who);
    player->line[player->line_length++] = byte;
    if (byte != '\n')
        return;
    player->line[player->line_length] = '\0';
    player->line_length = 0;
    if (player->state == BODY_LINE) {
        char *end;
        player->chunk_left = strtoul(player->line, &end, 16);
        WORLD_CHECK(end != player->line && *end == '\r', "%s: a chunk's line is wrong", player->who);
        player->state = player->chunk_left > 0 ? BODY_BYTES : BODY_LAST_END;
        if (player->chunk_left == 0)
            WORLD_CHECK(viewer_left(&player->viewer) == 0, "%s: the body ends inside a tag", player->who);
        return;
    }
    WORLD_CHECK(strcmp(player->line, "\r\n") == 0, "%s: a chunk's end is wrong", player->who);
    player->state = player->state == BODY_END ? BODY_LINE : BODY_DONE;
}

static void take_chunks(struct sim_player *player, const uint8_t *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        WORLD_CHECK(player->state != BODY_DONE, "%s: bytes behind the body's end", player->who);
        if (player->state != BODY_BYTES) {
            take_line(player, (char)bytes[done++]);
            continue;
        }
        size_t here = n - done < player->chunk_left ? n - done : player->chunk_left;
        viewer_feed(&player->viewer, bytes + done, here);
        player->chunk_left -= here;
        done += here;
        if (player->chunk_left == 0)
            player->state = BODY_END;
    }
}

static void take_body(struct sim_player *player, const uint8_t *bytes, size_t n) {
    if (player->refused)
        return;
    switch (player->plan.form) {
    case PLAY_CHUNKED:
        take_chunks(player, bytes, n);
        break;
    case PLAY_UNTIL_CLOSE:
        viewer_feed(&player->viewer, bytes, n);
        break;
    case PLAY_WEBSOCKET:
        messages_take(&player->messages, bytes, n);
        break;
    case PLAY_RTSP:
    case PLAYER_FORMS:
        break;
    }
}

/* Whether the answer to the request lets it play. */
static bool is_granted(const struct sim_player *player) {
    if (player->plan.form != PLAY_WEBSOCKET)
        return strncmp(player->head + 8, " 200 ", 5) == 0;
    return strncmp(player->head + 8, " 101 ", 5) == 0 && strstr(player->head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void take(struct sim_player *player, const uint8_t *bytes, size_t n) {
    size_t done = 0;
    while (done < n && !player->granted && !player->refused) {
        WORLD_CHECK(player->head_length + 1 < HEAD, "%s: the head is too long", player->who);
        player->head[player->head_length++] = (char)bytes[done++];
        player->head[player->head_length] = '\0';
        if (player->head_length < 4 || strcmp(player->head + player->head_length - 4, "\r\n\r\n") != 0)
            continue;
        WORLD_CHECK(strncmp(player->head, "HTTP/1.", 7) == 0, "%s: no HTTP answer", player->who);
        player->granted = is_granted(player);
        player->refused = !player->granted;
        world_trace(player->granted ? "granted" : "refused", player->file->id, atoi(player->head + 9), 0);
    }
    take_body(player, bytes + done, n - done);
}

static void die(void *user) {
    struct sim_player *player = user;
    if (player->left || player->ended)
        return;
    player->left = true;
    if (world_one_in(2))
        peer_reset(player->file);
    else
        peer_finish(player->file);
}

static uint32_t amount(struct sim_player *player) {
    switch (player->plan.manner) {
    case PLAYER_READS:
        return PIECE;
    case PLAYER_READS_NOTHING:
        return 0;
    case PLAYER_READS_AT_TIMES:
        return world_one_in(50) ? PIECE : world_random(player->most);
    case PLAYER_READS_SLOWLY:
    case PLAYER_DIES:
        break;
    }
    return world_between(1, player->most);
}

static void say(struct sim_player *player) {
    if (player->plan.form == PLAY_WEBSOCKET && player->granted)
        messages_say(&player->messages, player->file);
    if (player->plan.form != PLAY_RTSP)
        return;
    if (player->rtsp.step == RTSP_IS_OVER)
        die(player);
    else
        rtsp_say(&player->rtsp, player->file);
}

static void work(void *user) {
    static uint8_t bytes[PIECE];
    struct sim_player *player = user;
    if (player->left || player->ended)
        return;
    uint32_t most = amount(player);
    size_t n = peer_receive(player->file, bytes, most);
    if (player->plan.form == PLAY_RTSP)
        rtsp_take(&player->rtsp, bytes, n);
    else
        take(player, bytes, n);
    if (peer_is_ended(player->file)) {
        player->ended = true;
        world_trace("player ends", player->file->id, player->viewer.frames, player->viewer.gaps);
        peer_finish(player->file);
        return;
    }
    say(player);
    if (player->file->sent_length == 0 || player->plan.manner == PLAYER_READS_NOTHING)
        peer_watch(player->file, player->wait_us, work, player);
    else
        world_after(world_between(1, player->wait_us), work, player);
}

struct sim_player *sim_player_new(const struct player_plan *plan) {
    static const char upgrade[] = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    char request[256];
    struct file *file = peer_connect(plan->form == PLAY_RTSP ? PEERS_RTSP_PORT : PEERS_HTTP_PORT);
    if (!file)
        return NULL;
    struct sim_player *player = world_allocate(sizeof *player);
    player->plan = *plan;
    player->file = file;
    if (plan->has_room)
        file->buffer = ROOM;
    player->viewer = (struct viewer){
        .who = player->who, .stream = plan->show->stream, .has_video = plan->show->has_video};
    player->messages.viewer = &player->viewer;
    player->viewer.takes_gaps = plan->form == PLAY_RTSP && plan->may_lose;
    snprintf(player->who, sizeof player->who, "player %u", file->id);
    player->most = world_between(1, 4000);
    player->wait_us = plan->manner == PLAYER_READS ? 2000 : world_between(100, 20000);
    int length = snprintf(request, sizeof request, "GET /live/%u.flv HTTP/1.%d\r\nHost: here\r\n%s\r\n",
                          plan->show->stream, plan->form == PLAY_UNTIL_CLOSE ? 0 : 1,
                          plan->form == PLAY_WEBSOCKET ? upgrade : "");
    if (plan->form == PLAY_RTSP)
        rtsp_begin(&player->rtsp, &player->viewer, plan->show->has_video, plan->show->has_audio);
    else
        (void)peer_send(file, request, (size_t)length);
    world_trace("player", plan->show->stream, plan->manner, file->id);
    world_after(1, work, player);
    if (plan->manner == PLAYER_DIES)
        world_after(world_between(1, 3000000), die, player);
    return player;
}

enum player_form sim_player_form(const struct sim_player *player) {
    return player->plan.form;
}

const struct viewer *sim_player_viewer(const struct sim_player *player) {
    return &player->viewer;
}

bool sim_player_is_playing(const struct sim_player *player) {
    return (player->granted || player->rtsp.step == RTSP_PLAYS) && !player->left && !player->ended &&
           !player->file->dead;
}

void sim_player_leave(struct sim_player *player) {
    if (player->left || player->ended)
        return;
    player->left = true;
    peer_finish(player->file);
    peer_reset(player->file);
}

bool sim_player_is_answered(const struct sim_player *player) {
    return messages_is_answered(&player->messages) && rtsp_is_answered(&player->rtsp);
}

void sim_player_check_end(const struct sim_player *player) {
    if (player->state == BODY_DONE)
        WORLD_CHECK(viewer_left(&player->viewer) == 0, "%s: the body has ended inside a tag", player->who);
}

void sim_player_free(struct sim_player *player) {
    if (!player)
        return;
    kernel_file_unref(player->file);
    viewer_clear(&player->viewer);
    rtsp_clear(&player->rtsp);
    world_free(player);
}
