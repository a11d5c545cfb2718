/* A player of the daemon without a connection, which takes what is queued for it. */
#ifndef SLUICE_TESTS_SUPPORT_TAKING_H
#define SLUICE_TESTS_SUPPORT_TAKING_H

#include "daemon/relay/player.h"

static inline void take_queued(struct player *player) {
    struct iovec pieces[64];
    size_t count;
    while ((count = player_gather(player, pieces, sizeof pieces / sizeof *pieces)) > 0) {
        size_t bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += pieces[i].iov_len;
        player_sent(player, bytes);
    }
}

#endif
