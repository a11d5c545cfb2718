#include "daemon/relay/slow_player.h"

#include "daemon/base/log.h"
#include "daemon/relay/coalesce.h"
#include "daemon/relay/stream.h"

uint64_t slow_player_stalled_ms(const struct player *player, uint64_t now) {
    return sluice_conn_is_sending(player->conn) && now > player->progress_at ? now - player->progress_at : 0;
}

/* A player that waits for a stream's first key frame drops, too, but is not behind. */
bool slow_player_is(const struct player *player, uint64_t now) {
    const struct coalesce_group *merge = player->merge;
    uint32_t window_ms = merge ? coalesce_window_most(merge->site, player->merge_window_ms) : 0;
    return slow_player_stalled_ms(player, now) >= SLOW_MS || player_behind_ms(player, now) >= SLOW_MS + window_ms ||
           (player->state == PLAYER_BEHIND && player->opened);
}

/* Once in a player's life: one that comes and goes at the edge of what its network can do would
 * fill the log. */
static void tell(struct player *player, const char *peer, uint64_t now) {
    player->told_slow = true;
    LOG(LOG_WARNING, "player is slow", {"stream", player->stream->name}, {"peer", peer},
        {"queued_bytes", log_unsigned(player->queued_bytes).text},
        {"queued_ms", log_unsigned(player_queued_ms(player)).text},
        {"behind_ms", log_unsigned(player_behind_ms(player, now)).text},
        {"stalled_ms", log_unsigned(slow_player_stalled_ms(player, now)).text},
        {"frames_dropped", log_unsigned(player_dropped(player)).text});
}

const char *slow_player_tick(struct player *player, const char *peer, uint64_t now) {
    const struct stream_policy *policy = &player->stream->policy;
    if (!sluice_conn_is_sending(player->conn))
        player->progress_at = now;
    if (slow_player_stalled_ms(player, now) >= policy->stall_ms)
        return "send timeout";
    if (policy->behind_ms > 0 && player_behind_ms(player, now) >= policy->behind_ms)
        return "too far behind";
    if (!player->told_slow && slow_player_is(player, now))
        tell(player, peer, now);
    return NULL;
}
