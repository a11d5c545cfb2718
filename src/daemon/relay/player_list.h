/*
 * A stream's players: one sink (stream_sink.h) for all of them, and a plain list. Their packets are
 * made RTP by the stream's packetizer while one of them is sent RTP.
 */
#ifndef SLUICED_PLAYER_LIST_H
#define SLUICED_PLAYER_LIST_H

#include "daemon/relay/player.h"
#include "daemon/relay/stream.h"

/* The sink of a new stream. */
void player_list_init(struct stream *stream);

/* The stream's policy is another. */
void player_list_set_limits(struct stream *stream);

/*
 * Players whose packets are gathered get those that have come, in their queues: before the stream's
 * headers are others, before frames are lost, and before queues are dropped for their age.
 */
void player_list_deliver(struct stream *stream);

/* Adds what the player was sent. */
void player_list_add_totals(const struct player *player, struct stream_totals *totals);

/* Players, those that other workers serve included. */
uint32_t stream_player_count(const struct stream *stream);

/* Whether it may have one player more. */
bool stream_has_room(const struct stream *stream);

/*
 * The player's own fields (conn, protocol, begin, user, form, merge_window_ms) are set. It must be
 * removed before it is freed.
 */
void stream_add_player(struct stream *stream, struct player *player);

/* Adds a player that asks for the tracks first: known() is called when they are, which may be so
 * already. */
void stream_add_asking(struct stream *stream, struct player *player);

/* Starts a player that has asked, or goes on after a pause: now, or with the stream's first
 * frame. */
void stream_play(struct stream *stream, struct player *player);
void stream_remove_player(struct stream *stream, struct player *player);

/* One that has been removed, with what it holds: the kernel is done with its packets. NULL is
 * allowed. */
void stream_free_player(struct player *player);

/* Another merge window for one of its players; what has been gathered leaves now. */
void stream_set_merge_window(struct stream *stream, struct player *player, uint32_t window_ms);

#endif
