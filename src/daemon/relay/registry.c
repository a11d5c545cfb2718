#include "daemon/relay/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/object_id.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/reclaim.h"
#include "daemon/relay/replica.h"
#include "daemon/relay/unwatched.h"

int registry_new(sluice_loop *loop, const struct stream_limits *limits, struct registry **ret_registry) {
    struct registry *registry = calloc(1, sizeof *registry);
    if (!registry)
        return -ENOMEM;
    int error = packet_pool_new(limits->packet_bytes, &registry->packets);
    if (error) {
        free(registry);
        return error;
    }
    registry->pool = sluice_loop_pool(loop);
    error = track_payloads_init(&registry->payloads, registry->pool);
    if (!error)
        error = publish_locks_init(&registry->locks, loop);
    if (error) {
        track_payloads_clear(&registry->payloads);
        packet_pool_free(registry->packets);
        free(registry);
        return error;
    }
    registry->loop = loop;
    registry->make_room = reclaim;
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(registry->pool, &stats);
    registry->block_size = stats.block_size;
    registry_set_limits(registry, limits);
    *ret_registry = registry;
    return 0;
}

static void let_go(struct stream *stream, void *user) {
    (void)user;
    stream->references++;
    publish_lock_unreserve(stream);
    replicas_close(stream);
    replica_forget(stream);
    stream_unref(stream);
}

void registry_free(struct registry *registry) {
    if (!registry)
        return;
    registry_each(registry, let_go, NULL);
    publish_locks_clear(&registry->locks);
    track_payloads_clear(&registry->payloads);
    packet_pool_free(registry->packets);
    bans_clear(&registry->bans);
    free(registry);
}

static void set_policy(struct stream *stream, void *user) {
    const struct stream_limits *limits = user;
    stream_policies_find(limits->policies, stream->name, &stream->policy);
    if (limits->keeps_none)
        stream->policy.resume_ms = 0;
    player_list_set_limits(stream);
}

/* What is cached or queued beyond them is not dropped at once, but with what comes next. */
void registry_set_limits(struct registry *registry, const struct stream_limits *limits) {
    registry->limits = *limits;
    auto_window_limit(&registry->merging.automatic, limits->merge_window_most);
    registry_each(registry, set_policy, &registry->limits);
}

/* By the low bits: the high ones have chosen the worker. */
static uint32_t bucket_of(const char *name, size_t length) {
    return stream_name_hash(name, length) % REGISTRY_BUCKETS;
}

static struct stream *find_in(struct stream *bucket, const char *name, size_t length) {
    struct stream *found = bucket;
    while (found && (strlen(found->name) != length || memcmp(found->name, name, length) != 0))
        found = found->next;
    return found;
}

struct stream *registry_find(const struct registry *registry, const char *name) {
    size_t length = strlen(name);
    return find_in(registry->buckets[bucket_of(name, length)], name, length);
}

void registry_on_wanted(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user) {
    registry->wanted = call;
    registry->wanted_user = user;
}

void registry_on_shortage(struct registry *registry, registry_shortage_fn *call, void *user) {
    registry->shortage = call;
    registry->shortage_user = user;
}

void registry_on_left(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user) {
    registry->left = call;
    registry->left_user = user;
}

void registry_on_opened(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user) {
    registry->opened = call;
    registry->opened_user = user;
}

/* One more, where there may be. */
static bool count_stream(struct registry *registry) {
    atomic_uint *all = registry->limits.streams;
    uint64_t most = registry->limits.most_streams, before = all ? atomic_fetch_add(all, 1) : registry->count;
    registry->count++;
    if (most == 0 || before < most)
        return true;
    registry_uncount(registry);
    return false;
}

static struct stream *add_stream(struct registry *registry, struct stream **bucket, const char *name, size_t length) {
    struct stream *made = calloc(1, sizeof *made + length + 1);
    if (!made)
        return NULL;
    char *text = (char *)(made + 1);
    memcpy(text, name, length);
    made->name = text;
    made->registry = registry;
    made->bucket = bucket;
    player_list_init(made);
    set_policy(made, &registry->limits);
    made->references = 1;
    made->next = *bucket;
    *bucket = made;
    return made;
}

int registry_get(struct registry *registry, const char *name, size_t length, uint64_t now, struct stream **ret_stream) {
    if (!stream_name_is_valid(name, length))
        return -EINVAL;
    struct stream **bucket = &registry->buckets[bucket_of(name, length)];
    struct stream *found = find_in(*bucket, name, length);
    if (found) {
        found->references++;
        *ret_stream = found;
        return 0;
    }
    if (!count_stream(registry))
        return -EUSERS;
    struct stream *made = add_stream(registry, bucket, name, length);
    if (!made) {
        registry_uncount(registry);
        return -ENOMEM;
    }
    made->id = object_id_new();
    made->left_at = now;
    *ret_stream = made;
    return 0;
}

int registry_add_replica(struct registry *registry, const struct stream_state *state, struct replica *fed_by,
                         struct replica_site *lender, struct stream **ret_replica) {
    size_t length = strlen(state->name);
    struct stream *made = add_stream(registry, &registry->buckets[bucket_of(state->name, length)], state->name, length);
    if (!made)
        return -ENOMEM;
    made->fed_by = fed_by;
    made->lender = lender;
    made->id = state->id;
    made->live = state->live;
    made->left_at = state->left_at;
    made->received_at = sluice_loop_now(registry->loop);
    made->seen = state->seen;
    made->claimed = state->claimed;
    made->has_metadata = state->has_metadata;
    made->settled = state->settled;
    made->opened = state->opened;
    made->opened_at = state->opened_at;
    made->gop.broken = !state->has_group;
    made->metadata = state->metadata;
    made->cluster.search = state->search;
    if (tracks_restore(&made->video, &state->video) < 0 || tracks_restore(&made->audio, &state->audio) < 0) {
        stream_unref(made);
        return -ENOMEM;
    }
    stream_keep(made, state->kept_until);
    *ret_replica = made;
    return 0;
}

static void look_whether_spread(struct stream *stream, void *user) {
    bool *is_spread = user;
    *is_spread |= replicas_any(stream) || stream->fed_by;
}

bool registry_is_spread(struct registry *registry) {
    bool is_spread = false;
    registry_each(registry, look_whether_spread, &is_spread);
    return is_spread;
}

uint64_t registry_packet_bytes(const struct registry *registry) {
    return packet_pool_bytes(registry->packets);
}

static void tick_stream(struct stream *stream, void *user) {
    const uint64_t *elapsed_ms = user;
    uint64_t bytes = stream->bytes - stream->rate_bytes;
    bool flows = stream->settled && bytes > 0;
    stream->rate_bytes = stream->bytes;
    stream->bits_per_second = *elapsed_ms ? bytes * 8000 / *elapsed_ms : 0;
    uint64_t now = sluice_loop_now(stream->registry->loop);
    stream->references++;
    if (!publish_lock_is_reserved(stream, now))
        publish_lock_unreserve(stream);
    replicas_tick(stream, now);
    unwatched_tick(stream, flows);
    stream_unref(stream);
}

void registry_tick(struct registry *registry, uint64_t elapsed_ms) {
    registry_each(registry, tick_stream, &elapsed_ms);
}

static void add_totals(struct stream *stream, void *user) {
    stream_add_totals(stream, user);
    for (const struct player *player = stream->players; player; player = player->next)
        player_list_add_totals(player, user);
}

void registry_get_totals(struct registry *registry, struct stream_totals *ret_totals) {
    *ret_totals = registry->gone;
    registry_each(registry, add_totals, ret_totals);
}
