/*
 * The merge window: packets for a player are collected for a time and sent together. The cost of a
 * send in the kernel hardly depends on its size.
 *
 * Players of one stream with the same window are sent to together: they get the same packets, so
 * one timer, which starts with the first packet, serves all of them. The packets stay in the
 * players' queues; this module only counts them.
 */
#ifndef SLUICED_COALESCE_H
#define SLUICED_COALESCE_H

#include <stdint.h>

#include <sluice/loop.h>

#include "daemon/relay/player.h"

enum { COALESCE_WINDOW_MOST = 350 }; /* milliseconds */

struct coalesce_group {
    struct coalesce_group *next;   /* of its stream, with another window */
    struct player *const *players; /* of the stream: also those of other windows */
    uint32_t member_count;
    uint32_t window_ms;
    sluice_timer *timer; /* runs while something is gathered */
    uint64_t bytes;      /* that each member has been given since the last flush */
    uint64_t most;       /* more bytes than these do not wait */
};

/*
 * Finds or makes the group for the player's window in a stream's @groups, and enters the player;
 * without a window, or without memory for it, the player stays alone and is sent to at once.
 * @players: of the stream.
 */
void coalesce_join(struct coalesce_group **groups, sluice_loop *loop, struct player *const *players,
                   struct player *player);

/* The last one to leave frees the group. */
void coalesce_leave(struct coalesce_group **groups, struct player *player);

/* A packet of so many bytes on the wire has been queued for the members. */
void coalesce_add(struct coalesce_group *merge, uint64_t bytes);

/* What is gathered is due now. */
void coalesce_flush(struct coalesce_group *merge);

#endif
