#include "daemon/relay/coalesce.h"

#include <stdlib.h>

/* More than these do not wait: measured, a larger send saves nothing, and one of these a socket
 * takes whole. */
enum { MERGE_BYTES = 128 << 10 };

void coalesce_flush(struct coalesce_group *merge) {
    sluice_timer_stop(merge->timer);
    merge->bytes = 0;
    for (struct player *player = *merge->players; player; player = player->next)
        if (player->merge == merge)
            player_flush(player);
}

static void window_over(sluice_timer *timer, void *user) {
    (void)timer;
    coalesce_flush(user);
}

void coalesce_add(struct coalesce_group *merge, uint64_t bytes) {
    /* A timer is up to a millisecond late, and the window is a promise. */
    if (merge->bytes == 0)
        sluice_timer_start(merge->timer, merge->window_ms - 1);
    merge->bytes += bytes;
    if (merge->bytes >= merge->most)
        coalesce_flush(merge);
}

static struct coalesce_group *make(sluice_loop *loop, struct player *const *players, const struct player *player) {
    struct coalesce_group *merge = malloc(sizeof *merge);
    if (!merge)
        return NULL;
    /* Gathering must not make a player lose frames that it would not lose without. */
    uint64_t most = player->limit / 4 < MERGE_BYTES ? player->limit / 4 : MERGE_BYTES;
    *merge = (struct coalesce_group){.players = players, .window_ms = player->merge_window_ms, .most = most};
    if (sluice_timer_new(loop, window_over, merge, &merge->timer) < 0) {
        free(merge);
        return NULL;
    }
    return merge;
}

void coalesce_join(struct coalesce_group **groups, sluice_loop *loop, struct player *const *players,
                   struct player *player) {
    player->merge = NULL;
    if (player->merge_window_ms == 0)
        return;
    struct coalesce_group *merge = *groups;
    while (merge && merge->window_ms != player->merge_window_ms)
        merge = merge->next;
    if (!merge) {
        merge = make(loop, players, player);
        if (!merge)
            return;
        merge->next = *groups;
        *groups = merge;
    }
    merge->member_count++;
    player->merge = merge;
}

void coalesce_leave(struct coalesce_group **groups, struct player *player) {
    struct coalesce_group *merge = player->merge;
    player->merge = NULL;
    if (!merge || --merge->member_count > 0)
        return;
    while (*groups != merge)
        groups = &(*groups)->next;
    *groups = merge->next;
    sluice_timer_free(merge->timer);
    free(merge);
}
