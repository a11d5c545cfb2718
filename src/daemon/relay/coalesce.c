#include "daemon/relay/coalesce.h"

#include <stdlib.h>

#include "daemon/base/tcp_delay.h"
#include "daemon/relay/stream.h"

/* More than these do not wait: measured, a larger send saves nothing, and one of these a socket
 * takes whole. */
enum { MERGE_BYTES = 128 << 10 };

/* Milliseconds. Shorter windows end by themselves when the packets do, which are some 14 ms apart,
 * and no load makes that many players wait for them. */
enum { SPREAD_LEAST = 60 };

/* Packets that are kept for a group's members. */
enum { KEPT_LEAST = 16, KEPT_MOST = 256 };

uint32_t coalesce_window_now(const struct coalesce_site *site, uint32_t window_ms) {
    return window_ms == COALESCE_WINDOW_AUTO ? site->automatic.window_ms : window_ms;
}

uint32_t coalesce_window_most(const struct coalesce_site *site, uint32_t window_ms) {
    return window_ms == COALESCE_WINDOW_AUTO ? site->automatic.most_ms : window_ms;
}

static void give_kept(const struct coalesce_group *merge, struct player *player) {
    for (size_t i = 0; i < merge->kept_count; i++)
        player_push(player, merge->kept[i], &player->stream->headers, merge->has_video);
}

static void forget_kept(struct coalesce_group *merge) {
    for (size_t i = 0; i < merge->kept_count; i++)
        packet_unref(merge->kept[i]);
    merge->kept_count = 0;
}

void coalesce_deliver(struct coalesce_group *merge) {
    if (!merge || merge->kept_count == 0)
        return;
    for (struct player *player = merge->members; player; player = player->next_member)
        give_kept(merge, player);
    forget_kept(merge);
}

void coalesce_flush(struct coalesce_group *merge, uint64_t now) {
    sluice_timer_stop(merge->timer);
    merge->site->waited += merge->packets * merge->member_count;
    merge->site->waited_ms += (merge->packets * now - merge->came_ms) * merge->member_count;
    merge->packets = merge->came_ms = 0;
    merge->bytes = 0;
    for (struct player *player = merge->members; player; player = player->next_member) {
        give_kept(merge, player);
        player_flush(player);
    }
    forget_kept(merge);
}

static void window_over(sluice_timer *timer, void *user) {
    struct coalesce_group *merge = user;
    (void)timer;
    coalesce_flush(merge, sluice_loop_now(merge->loop));
}

static void set_delay(struct player *player, bool on) {
    if (player->is_delayed == on)
        return;
    player->is_delayed = on;
    tcp_delay_set(sluice_conn_fd(player->conn), on);
}

/* An automatic window opens or closes: a system call for each member, after a measurement at
 * most. */
static void set_delays(struct coalesce_group *merge, bool on) {
    if (merge->is_delayed == on)
        return;
    merge->is_delayed = on;
    for (struct player *player = merge->members; player; player = player->next_member)
        set_delay(player, on);
}

void coalesce_begin(struct coalesce_group *merge, uint64_t now) {
    if (merge->window_ms != COALESCE_WINDOW_AUTO)
        return;
    auto_window_measure(&merge->site->automatic, now);
    merge->site->automatic.frames += merge->member_count;
    set_delays(merge, merge->site->automatic.window_ms > 0);
    merge->is_open = merge->packets == 0 && merge->site->automatic.window_ms == 0;
}

/* Room for one more. */
static bool keep_room(struct coalesce_group *merge) {
    if (merge->kept_count < merge->kept_capacity)
        return true;
    size_t capacity = merge->kept_capacity ? 2 * merge->kept_capacity : KEPT_LEAST;
    struct packet **kept = capacity <= KEPT_MOST ? realloc(merge->kept, capacity * sizeof *kept) : NULL;
    if (!kept)
        return false;
    merge->kept = kept;
    merge->kept_capacity = capacity;
    return true;
}

/* Whether a member has waited for this packet, so that it is sent at once: to go on after a gap, or
 * to skip what it is behind. */
static bool is_awaited(const struct coalesce_group *merge, const struct packet *packet) {
    if (packet->role != PACKET_KEY_FRAME)
        return false;
    for (const struct player *player = merge->members; player; player = player->next_member)
        if (player->state == PLAYER_BEHIND || player->count > 0)
            return true;
    return false;
}

void coalesce_push(struct coalesce_group *merge, struct packet *packet, bool has_video) {
    bool at_once = merge->is_open || is_awaited(merge, packet);
    if (at_once || merge->has_video != has_video || !keep_room(merge))
        coalesce_deliver(merge);
    merge->has_video = has_video;
    if (!at_once && keep_room(merge)) {
        merge->kept[merge->kept_count++] = packet_ref(packet);
        return;
    }
    for (struct player *player = merge->members; player; player = player->next_member)
        player_push(player, packet, &player->stream->headers, has_video);
}

/* Where in the window a group's windows end, of 256 parts: half of it behind the first one's, then
 * the quarters, and so on, so that any number of groups is spread. */
static uint32_t phase(uint32_t place) {
    uint32_t reversed = 0;
    for (uint32_t bit = 0; bit < 8; bit++)
        reversed |= (place >> bit & 1) << (7 - bit);
    return reversed;
}

/* Windows that are a promise of time alone; see first_wait_ms(). */
static bool has_fixed_ends(const struct coalesce_group *merge) {
    return merge->is_spread && merge->window_now_ms >= SPREAD_LEAST;
}

/*
 * For how long the first packet waits. A timer is up to a millisecond late, and the window is a
 * promise. Where there are several groups, windows end at fixed times: once two of them had ended
 * in one long turn, their next ones would begin with the same packet, and stay together.
 */
static uint64_t first_wait_ms(const struct coalesce_group *merge, uint64_t now) {
    uint64_t window = merge->window_now_ms;
    if (!has_fixed_ends(merge))
        return window - 1;
    uint64_t left = window - (now + window - window * phase(merge->place) / 256) % window;
    return left < window ? left : window - 1;
}

static void note_cadence(struct coalesce_group *merge, const struct packet *packet, uint64_t now) {
    if (packet_role_is_frame(packet->role))
        cadence_note(packet->role == PACKET_AUDIO ? &merge->audio : &merge->video, packet->timestamp, now);
}

static bool is_expected(const struct cadence *cadence, uint64_t now, uint64_t end) {
    return cadence->has_begun && cadence_next(cadence, now) <= end;
}

/* Whether a frame is expected before the window is over, as far as is known. */
static bool is_worth_waiting(const struct coalesce_group *merge, uint64_t now) {
    uint64_t end = merge->began + merge->window_now_ms;
    bool is_known = merge->video.has_begun || merge->audio.has_begun;
    return merge->is_whole || !is_known || is_expected(&merge->video, now, end) || is_expected(&merge->audio, now, end);
}

/*
 * The first packet. If the window before was ended early, and this one would have been in it, this
 * one is not: frames that come when they should not, whoever sends them, cost twice the sends at
 * most.
 */
static void begin_window(struct coalesce_group *merge, uint64_t now) {
    bool is_early = now < merge->began + merge->window_now_ms;
    merge->began = now;
    merge->window_now_ms = coalesce_window_now(merge->site, merge->window_ms);
    merge->is_whole = is_early || has_fixed_ends(merge);
}

void coalesce_add(struct coalesce_group *merge, const struct packet *packet, uint64_t bytes, uint64_t now) {
    note_cadence(merge, packet, now);
    if (merge->is_open)
        return;
    if (merge->packets == 0)
        begin_window(merge, now);
    merge->packets++;
    merge->came_ms += now;
    merge->bytes += bytes;
    if (merge->bytes >= merge->most || !is_worth_waiting(merge, now))
        coalesce_flush(merge, now);
    else if (merge->packets == 1)
        sluice_timer_start(merge->timer, first_wait_ms(merge, now));
}

static struct coalesce_group *make(struct coalesce_site *site, sluice_loop *loop, const struct player *player) {
    struct coalesce_group *merge = malloc(sizeof *merge);
    if (!merge)
        return NULL;
    /* Gathering must not make a player lose frames that it would not lose without. */
    uint64_t most = player->limit / 4 < MERGE_BYTES ? player->limit / 4 : MERGE_BYTES;
    *merge = (struct coalesce_group){.window_ms = player->merge_window_ms, .most = most, .site = site, .loop = loop};
    merge->is_open = coalesce_window_now(site, merge->window_ms) == 0;
    if (sluice_timer_new(loop, window_over, merge, &merge->timer) < 0) {
        free(merge);
        return NULL;
    }
    return merge;
}

/* The least number that no other group of this window has. */
static uint32_t free_place(const struct coalesce_group *groups, uint32_t window_ms) {
    uint32_t place = 0;
    for (const struct coalesce_group *merge = groups; merge;) {
        bool is_taken = merge->window_ms == window_ms && merge->place == place;
        place += is_taken;
        merge = is_taken ? groups : merge->next;
    }
    return place;
}

static void add(struct coalesce_group **groups, struct coalesce_group *made) {
    made->place = free_place(*groups, made->window_ms);
    for (struct coalesce_group *merge = *groups; merge; merge = merge->next)
        if (merge->window_ms == made->window_ms)
            merge->is_spread = made->is_spread = true;
    made->next = *groups;
    *groups = made;
}

void coalesce_join(struct coalesce_group **groups, struct coalesce_site *site, sluice_loop *loop,
                   struct player *player) {
    player->merge = NULL;
    if (player->merge_window_ms == 0) {
        set_delay(player, false);
        return;
    }
    struct coalesce_group *merge = *groups;
    while (merge && (merge->window_ms != player->merge_window_ms || merge->member_count == COALESCE_MEMBERS))
        merge = merge->next;
    if (!merge) {
        merge = make(site, loop, player);
        if (!merge)
            return;
        add(groups, merge);
    }
    /* What came before the player is for the others. */
    coalesce_deliver(merge);
    merge->member_count++;
    player->merge = merge;
    player->next_member = merge->members;
    merge->members = player;
    set_delay(player, merge->is_delayed);
}

static void remove_member(struct coalesce_group *merge, struct player *player) {
    struct player **place = &merge->members;
    while (*place != player)
        place = &(*place)->next_member;
    *place = player->next_member;
    merge->member_count--;
}

void coalesce_leave(struct coalesce_group **groups, struct player *player) {
    struct coalesce_group *merge = player->merge;
    player->merge = NULL;
    if (!merge)
        return;
    remove_member(merge, player);
    if (merge->member_count > 0)
        return;
    while (*groups != merge)
        groups = &(*groups)->next;
    *groups = merge->next;
    forget_kept(merge);
    free(merge->kept);
    sluice_timer_free(merge->timer);
    free(merge);
}
