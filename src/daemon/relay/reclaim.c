#include "daemon/relay/reclaim.h"

#include "daemon/relay/player.h"
#include "daemon/relay/player_list.h"

enum { SHED_SLOW_MS = 1000 }; /* what has waited for longer is the first to go */

bool reclaim_exceeds(sluice_pool *pool, unsigned fourths, uint32_t more) {
    sluice_pool_stats stats = {.size = sizeof stats};
    (void)sluice_pool_get_stats(pool, &stats);
    uint64_t held = stats.held, all = held + sluice_pool_available(pool);
    return held + more > all - all * (4 - fourths) / 4;
}

struct shedding {
    enum reclaim_for what;
    const struct replica_site *lender; /* for another */
    uint64_t now, waited_ms;           /* queues with packets this old are dropped */
    struct stream *largest;
    struct player *longest;
};

static bool gives(const struct shedding *shedding, const struct stream *stream) {
    switch (shedding->what) {
    case RECLAIM_FOR_BLOCKS:
        return !stream->lender;
    case RECLAIM_FOR_PACKETS:
        return true;
    case RECLAIM_FOR_ANOTHER:
        return stream->lender == shedding->lender;
    }
    return false;
}

static void find_largest(struct stream *stream, void *user) {
    struct shedding *shedding = user;
    if (gives(shedding, stream) && stream->gop.blocks > 0 &&
        (!shedding->largest || stream->gop.blocks > shedding->largest->gop.blocks))
        shedding->largest = stream;
}

static void find_longest_queue(struct stream *stream, void *user) {
    struct shedding *shedding = user;
    for (struct player *player = gives(shedding, stream) ? stream->players : NULL; player; player = player->next)
        if (player_spare(player) > 1 && (!shedding->longest || player->queued_bytes > shedding->longest->queued_bytes))
            shedding->longest = player;
}

/* It looks at all queues first: what is kept for them is in them from then on. */
static void find_slowest(struct stream *stream, void *user) {
    struct shedding *shedding = user;
    player_list_deliver(stream);
    for (const struct player *player = gives(shedding, stream) ? stream->players : NULL; player;
         player = player->next) {
        uint64_t waited_ms = player_waited_ms(player, shedding->now);
        shedding->waited_ms = waited_ms > shedding->waited_ms ? waited_ms : shedding->waited_ms;
    }
}

static void drop_slowest(struct stream *stream, void *user) {
    const struct shedding *shedding = user;
    for (struct player *player = gives(shedding, stream) ? stream->players : NULL; player; player = player->next)
        if (player_waited_ms(player, shedding->now) >= shedding->waited_ms)
            player_drop(player, DROP_NO_MEMORY);
}

static void want_room(struct stream *stream, void *user) {
    (void)user;
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->want_room)
            sink->type->want_room(sink);
}

/*
 * Drops the queues of the slowest players: the one with the oldest packet, and those with packets
 * of at least half that age. The players of a stream hold the same blocks, so dropping the queue of
 * one of several stalled players would free nothing.
 */
static bool shed_slowest(struct registry *registry, struct shedding *shedding) {
    shedding->now = sluice_loop_now(registry->loop);
    registry_each(registry, find_slowest, shedding);
    if (shedding->waited_ms < SHED_SLOW_MS)
        return false;
    shedding->waited_ms = shedding->waited_ms / 2 > SHED_SLOW_MS ? shedding->waited_ms / 2 : SHED_SLOW_MS;
    registry_each(registry, drop_slowest, shedding);
    return true;
}

static bool drop_largest(struct registry *registry, struct shedding *shedding) {
    registry_each(registry, find_largest, shedding);
    if (!shedding->largest)
        return false;
    gop_drop(&shedding->largest->gop);
    return true;
}

bool reclaim(struct registry *registry, enum reclaim_for what) {
    struct shedding shedding = {.what = what};
    if (what == RECLAIM_FOR_BLOCKS)
        registry_each(registry, want_room, NULL);
    if (shed_slowest(registry, &shedding))
        return true;
    if (drop_largest(registry, &shedding))
        return true;
    registry_each(registry, find_longest_queue, &shedding);
    /* The largest gives way: that may be a message that is not whole, which no player is to pay
     * for. */
    if (what == RECLAIM_FOR_BLOCKS && registry->shortage &&
        registry->shortage(shedding.longest ? shedding.longest->queued_bytes : 0, registry->shortage_user))
        return true;
    if (!shedding.longest)
        return false;
    player_drop(shedding.longest, DROP_NO_MEMORY);
    return true;
}

bool reclaim_replicas(struct registry *registry, const struct replica_site *lender, bool groups) {
    struct shedding shedding = {.what = RECLAIM_FOR_ANOTHER, .lender = lender};
    return shed_slowest(registry, &shedding) || (groups && drop_largest(registry, &shedding));
}
