#include "daemon/relay/player_list.h"

#include <stdlib.h>

#include "daemon/base/object_id.h"
#include "daemon/relay/coalesce.h"
#include "daemon/relay/reclaim.h"
#include "daemon/relay/replica.h"
#include "daemon/relay/rtp_packetizer.h"
#include "daemon/relay/unwatched.h"

static void set_limits(struct player *player) {
    player->limit = player->stream->policy.player_buffer;
    player->catch_up_ms = (uint32_t)player->stream->policy.catch_up_ms;
}

void player_list_set_limits(struct stream *stream) {
    for (struct player *player = stream->players; player; player = player->next)
        set_limits(player);
}

void player_list_add_totals(const struct player *player, struct stream_totals *totals) {
    totals->bytes_sent += player->bytes_sent;
    totals->frames_sent += player->packets_sent;
    totals->sends += player->sends;
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        totals->dropped[cause] += player->dropped[cause];
}

/* For players that know no tracks. */
static void make_alone(struct stream *stream, struct packet *packet) {
    if (packet && packet->takes_alone && stream_is_main(stream, packet))
        track_payload_make_alone(&stream->registry->payloads, packet);
}

/* The same of the main tracks' headers. */
static void make_headers_alone(struct stream *stream, const struct stream_headers *headers) {
    make_alone(stream, stream_headers_get(headers, PACKET_VIDEO_HEADER, stream->video.main));
    make_alone(stream, stream_headers_get(headers, PACKET_AUDIO_HEADER, stream->audio.main));
}

/* The same of all that a player is started with. */
static void make_cached_alone(struct stream *stream) {
    make_headers_alone(stream, &stream->headers);
    make_headers_alone(stream, &stream->gop.headers);
    for (size_t i = 0; i < stream->gop.count; i++)
        make_alone(stream, stream->gop.packets[i]);
}

/*
 * RTP is sent from now on, of the tracks as they are now: of the group first, so that sequence
 * numbers go up. What has been made for a player before is shared.
 */
static void begin_rtp(struct stream *stream) {
    if (stream->rtp_players == 0)
        return;
    if (!stream->rtp)
        stream->rtp = rtp_packetizer_new(stream);
    if (stream->rtp)
        rtp_packetizer_begin(stream->rtp, stream);
}

static void start_player(struct stream *stream, struct player *player) {
    if (player->form.format->is_packetized) {
        /* What its user was told of the tracks must hold still. */
        if (!stream->rtp || player->description != stream->rtp->description) {
            player_end(player);
            return;
        }
    }
    if (player->alone)
        make_cached_alone(stream);
    static const struct gop none;
    bool has_group = !player->form.format->is_packetized || rtp_packetizer_has_group(stream->rtp);
    player_start(player, sluice_loop_now(stream->registry->loop), stream->seen, has_group ? &stream->gop : &none,
                 &stream->headers, stream->seen & SLUICE_FLV_HAS_VIDEO);
}

/* Whether half of the memory that the stream's tags are in is used. */
static bool is_pressed(const struct stream *stream) {
    if (stream->lender)
        return replica_is_pressed(stream->lender);
    return reclaim_exceeds(stream->registry->pool, 2, 0);
}

/* A stream that ends behind its loop has no players, and no groups. */
static void flush_merges(struct stream *stream) {
    if (!stream->merges)
        return;
    uint64_t now = sluice_loop_now(stream->registry->loop);
    for (struct coalesce_group *merge = stream->merges; merge; merge = merge->next)
        coalesce_flush(merge, now);
}

void player_list_deliver(struct stream *stream) {
    for (struct coalesce_group *merge = stream->merges; merge; merge = merge->next)
        coalesce_deliver(merge);
}

/* To the players of each group; returns how many these are. */
static uint32_t push_to_groups(struct stream *stream, struct packet *packet, bool has_video) {
    if (!stream->merges)
        return 0;
    uint64_t now = sluice_loop_now(stream->registry->loop);
    uint32_t members = 0;
    for (struct coalesce_group *merge = stream->merges; merge; merge = merge->next) {
        coalesce_begin(merge, now);
        coalesce_push(merge, packet, has_video);
        members += merge->member_count;
    }
    return members;
}

/* Counts a packet that has been pushed to all players. What is gathered is memory: none is to be
 * had, none is used. */
static void gather(struct stream *stream, const struct packet *packet) {
    if (!stream->merges)
        return;
    uint64_t now = sluice_loop_now(stream->registry->loop), bytes = wire_flv_chunked.size(packet);
    bool is_gathering = false;
    for (struct coalesce_group *merge = stream->merges; merge; merge = merge->next) {
        coalesce_add(merge, packet, bytes, now);
        is_gathering |= merge->packets > 0;
    }
    if (is_gathering && is_pressed(stream))
        flush_merges(stream);
}

/* The sink */

/*
 * Players that are behind go on with a packet that decoding can begin with, and get the headers
 * first. A header has no form for them yet where it had come again behind a gap, or there was no
 * memory.
 */
static void make_pushed_alone(struct stream *stream, struct packet *packet) {
    if (stream_is_sync(stream, packet))
        make_headers_alone(stream, &stream->headers);
    make_alone(stream, packet);
}

static __attribute__((noinline)) void push(struct stream *stream, struct packet *packet) {
    if (stream->alone_players > 0)
        make_pushed_alone(stream, packet);
    bool has_video = stream->seen & SLUICE_FLV_HAS_VIDEO;
    uint32_t alone = stream->player_count - push_to_groups(stream, packet, has_video);
    for (struct player *player = stream->players; player && alone > 0; player = player->next)
        if (!player->merge) {
            player_push(player, packet, &stream->headers, has_video);
            alone--;
        }
    gather(stream, packet);
}

/* A stream without players is frequent, and each frame comes here. */
static void take(struct stream_sink *sink, struct stream *stream, struct packet *packet, uint8_t flags) {
    (void)sink, (void)flags;
    if (stream->settled && stream->players)
        push(stream, packet);
}

static void start_all(struct stream_sink *sink, struct stream *stream) {
    (void)sink;
    begin_rtp(stream);
    /* A session that is called here may leave. */
    for (struct player *player = stream->players, *next; player; player = next) {
        next = player->next;
        if (player->state == PLAYER_WAITING)
            start_player(stream, player);
        else if (player->state == PLAYER_ASKING)
            player->known(player);
    }
}

static void drop_all(struct stream_sink *sink, struct stream *stream) {
    (void)sink;
    player_list_deliver(stream);
    for (struct player *player = stream->players; player; player = player->next)
        player_drop(player, DROP_NO_MEMORY);
}

static void wait_all(struct stream_sink *sink, struct stream *stream) {
    (void)sink;
    flush_merges(stream);
    for (struct player *player = stream->players; player; player = player->next) {
        if (player->state != PLAYER_PLAYING && player->state != PLAYER_BEHIND)
            continue;
        if (player->nodes)
            player_end(player);
        else
            player->state = PLAYER_WAITING;
    }
}

static bool has_begun(const struct stream_sink *sink, const struct stream *stream) {
    bool begun = false;
    (void)sink;
    for (const struct player *player = stream->players; player; player = player->next)
        begun |= player->begun;
    return begun;
}

void player_list_init(struct stream *stream) {
    static const struct stream_sink_type type = {
        .rank = SINK_PLAYERS,
        .packet = take,
        .opened = start_all,
        .lost = drop_all,
        .ended = wait_all,
        .has_begun = has_begun,
    };
    stream->player_sink.type = &type;
    stream_add_sink(stream, &stream->player_sink);
}

/* Players */

static void join_merge(struct stream *stream, struct player *player) {
    struct registry *registry = stream->registry;
    coalesce_join(&stream->merges, &registry->merging, registry->loop, player);
}

static void insert_player(struct stream *stream, struct player *player) {
    player->stream = stream;
    player->id = object_id_new();
    player->since = sluice_loop_now(stream->registry->loop);
    stream->registry->gone.players++;
    set_limits(player);
    join_merge(stream, player);
    player->prev = NULL;
    player->next = stream->players;
    if (stream->players)
        stream->players->prev = player;
    stream->players = player;
    stream->player_count++;
    unwatched_end(stream);
    stream->rtp_players += player->form.format->is_packetized;
    stream->alone_players += player->alone;
    stream_want(stream);
}

uint32_t stream_player_count(const struct stream *stream) {
    return stream->player_count + replicas_players(stream);
}

bool stream_has_room(const struct stream *stream) {
    uint64_t most = stream->policy.max_players;
    return most == 0 || stream_player_count(stream) < most;
}

void stream_add_player(struct stream *stream, struct player *player) {
    insert_player(stream, player);
    stream_play(stream, player);
}

void stream_add_asking(struct stream *stream, struct player *player) {
    insert_player(stream, player);
    player->state = PLAYER_ASKING;
    if (!stream_is_known(stream))
        return;
    if (stream->rtp_players == 1)
        begin_rtp(stream);
    else if (stream->rtp)
        rtp_packetizer_describe(stream->rtp, stream);
}

void stream_play(struct stream *stream, struct player *player) {
    /* What is kept for it, while it was paused or waited, is in the group that it starts with. */
    coalesce_deliver(player->merge);
    player->state = PLAYER_WAITING;
    if (stream_is_known(stream))
        start_player(stream, player);
}

void stream_remove_player(struct stream *stream, struct player *player) {
    if (player->prev)
        player->prev->next = player->next;
    else
        stream->players = player->next;
    if (player->next)
        player->next->prev = player->prev;
    player->next = player->prev = NULL;
    coalesce_leave(&stream->merges, player);
    stream->player_count--;
    player_list_add_totals(player, &stream->registry->gone);
    stream->rtp_players -= player->form.format->is_packetized;
    stream->alone_players -= player->alone;
}

void stream_free_player(struct player *player) {
    if (!player)
        return;
    player_clear(player);
    stream_unref(player->stream);
    free(player);
}

void stream_set_merge_window(struct stream *stream, struct player *player, uint32_t window_ms) {
    if (player->merge_window_ms == window_ms)
        return;
    coalesce_deliver(player->merge);
    player_flush(player);
    coalesce_leave(&stream->merges, player);
    player->merge_window_ms = window_ms;
    join_merge(stream, player);
}
