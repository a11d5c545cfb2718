/* Slow players: detection, the log line, and the reason to disconnect. */
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
 * Twice a second, for a player with queued data: logs once that it is slow. Returns NULL, or the
 * reason to disconnect it.
 */
const char *slow_player_tick(struct player *player, const char *peer, uint64_t now);

#endif
