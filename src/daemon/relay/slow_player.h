/* Players that do not keep up: whether one is, what the log says of it, and when it is ended. */
#ifndef SLUICED_SLOW_PLAYER_H
#define SLUICED_SLOW_PLAYER_H

#include "daemon/relay/player.h"

enum { SLOW_MS = 1000 };

/* How long ago it took a byte of what is to be sent, milliseconds; 0 where nothing is. */
uint64_t slow_player_stalled_ms(const struct player *player, uint64_t now);

/* Whether it takes less than it is to get: it, or the network before it, is slow and not the
 * publisher. */
bool slow_player_is(const struct player *player, uint64_t now);

/*
 * Twice a second, of one that is to be sent something: the first time that it is slow is told on
 * the log. NULL, or why it is to be ended.
 */
const char *slow_player_tick(struct player *player, const char *peer, uint64_t now);

#endif
