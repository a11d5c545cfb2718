#include "daemon/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/address.h"
#include "daemon/feed.h"
#include "daemon/log.h"
#include "daemon/object_id.h"
#include "daemon/rtp_output.h"
#include "daemon/shed.h"
#include "daemon/stream_tracks.h"

enum {
    BUCKETS = 1024,
    SETTLE_MS = 500,          /* of the stream's time: a claimed track that has not come by then is not coming */
    SHED_ROUNDS = 64,         /* tries to make room before a frame is given up */
    PREVIOUS_MOST = 16 << 10, /* bytes of a frame that are held for the accounts of the next one */
    HEADERS_FREE = 8,         /* blocks of headers that any stream may hold, now and at its group's beginning */
};

struct registry {
    sluice_loop *loop;
    sluice_pool *pool;
    struct packet_pool *packets;
    struct track_payloads payloads;
    struct stream_limits limits;
    size_t block_size;
    struct stream *buckets[BUCKETS];
    uint32_t count;
    struct bans bans;
    struct claims claims;
    struct stream_totals gone; /* of publishers and players that are no more */
    void (*wanted)(struct stream *stream, void *user);
    void *wanted_user;
    struct recorders *recorders; /* or NULL */
};

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
        error = claims_init(&registry->claims, loop);
    if (error) {
        track_payloads_clear(&registry->payloads);
        packet_pool_free(registry->packets);
        free(registry);
        return error;
    }
    registry->loop = loop;
    sluice_pool_stats stats;
    sluice_pool_get_stats(registry->pool, &stats);
    registry->block_size = stats.block_size;
    registry_set_limits(registry, limits);
    *ret_registry = registry;
    return 0;
}

static void let_go(struct stream *stream, void *user) {
    (void)user;
    stream->references++;
    claim_let_go(stream);
    feeds_close(stream);
    feed_forget_replica(stream);
    stream_unref(stream);
}

void registry_free(struct registry *registry) {
    if (!registry)
        return;
    registry_each(registry, let_go, NULL);
    claims_clear(&registry->claims);
    track_payloads_clear(&registry->payloads);
    packet_pool_free(registry->packets);
    bans_clear(&registry->bans);
    free(registry);
}

static void set_limits(const struct stream *stream, struct player *player) {
    player->limit = stream->policy.player_buffer;
    player->catch_up_ms = (uint32_t)stream->policy.catch_up_ms;
}

static void set_policy(struct stream *stream, void *user) {
    const struct stream_limits *limits = user;
    stream_policies_find(limits->policies, stream->name, &stream->policy);
    if (limits->keeps_none)
        stream->policy.resume_ms = 0;
    for (struct player *player = stream->players; player; player = player->next)
        set_limits(stream, player);
}

/* What is cached or queued beyond them is not dropped at once, but with what comes next. */
void registry_set_limits(struct registry *registry, const struct stream_limits *limits) {
    registry->limits = *limits;
    registry_each(registry, set_policy, &registry->limits);
}

/* By the low bits: the high ones have chosen the worker. */
static uint32_t bucket_of(const char *name, size_t length) {
    return stream_name_hash(name, length) % BUCKETS;
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

void registry_record(struct registry *registry, struct recorders *recorders) {
    registry->recorders = recorders;
}

static void uncount_stream(struct registry *registry) {
    registry->count--;
    if (registry->limits.streams)
        atomic_fetch_sub(registry->limits.streams, 1);
}

/* One more, where there may be. */
static bool count_stream(struct registry *registry) {
    atomic_uint *all = registry->limits.streams;
    uint64_t most = registry->limits.most_streams, before = all ? atomic_fetch_add(all, 1) : registry->count;
    registry->count++;
    if (most == 0 || before < most)
        return true;
    uncount_stream(registry);
    return false;
}

static struct stream *add_stream(struct registry *registry, struct stream **bucket, const char *name, size_t length) {
    struct stream *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    memcpy(made->name, name, length);
    made->registry = registry;
    set_policy(made, &registry->limits);
    made->references = 1;
    made->next = *bucket;
    *bucket = made;
    return made;
}

/* A replica is kept like its stream. */
static void keep_until(struct stream *stream, uint64_t until) {
    if (until == 0)
        return;
    stream->references += stream->kept_until == 0;
    stream->kept_until = until;
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
        uncount_stream(registry);
        return -ENOMEM;
    }
    made->id = object_id_new();
    made->left_at = now;
    if (registry->recorders)
        made->record = record_wishes_find(&registry->recorders->wishes, made->name);
    *ret_stream = made;
    return 0;
}

int registry_add_replica(struct registry *registry, const struct stream_state *state, struct feed *fed_by,
                         struct stream **ret_replica) {
    size_t length = strlen(state->name);
    struct stream *made = add_stream(registry, &registry->buckets[bucket_of(state->name, length)], state->name, length);
    if (!made)
        return -ENOMEM;
    made->fed_by = fed_by;
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
    made->video = state->video;
    made->audio = state->audio;
    keep_until(made, state->kept_until);
    *ret_replica = made;
    return 0;
}

void stream_get_state(const struct stream *stream, struct stream_state *ret_state) {
    *ret_state = (struct stream_state){.id = stream->id,
                                       .live = stream->live,
                                       .left_at = stream->left_at,
                                       .kept_until = stream->kept_until,
                                       .seen = stream->seen,
                                       .claimed = stream->claimed,
                                       .has_metadata = stream->has_metadata,
                                       .settled = stream->settled,
                                       .opened = stream->opened,
                                       .opened_at = stream->opened_at,
                                       .has_group = !stream->gop.broken,
                                       .metadata = stream->metadata,
                                       .video = stream->video,
                                       .audio = stream->audio};
    memcpy(ret_state->name, stream->name, sizeof ret_state->name);
}

void registry_each(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user) {
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct stream *stream = registry->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            call(stream, user);
        }
}

uint32_t registry_count(const struct registry *registry) {
    return registry->count;
}

static void look_whether_spread(struct stream *stream, void *user) {
    bool *is_spread = user;
    *is_spread |= stream->feeds || stream->fed_by;
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
    stream->rate_bytes = stream->bytes;
    stream->bits_per_second = *elapsed_ms ? bytes * 8000 / *elapsed_ms : 0;
    uint64_t now = sluice_loop_now(stream->registry->loop);
    stream->references++;
    if (!claim_is_kept(stream, now))
        claim_let_go(stream);
    feeds_tick(stream, now);
    stream_unref(stream);
}

void registry_tick(struct registry *registry, uint64_t elapsed_ms) {
    registry_each(registry, tick_stream, &elapsed_ms);
}

static void add_publisher(struct stream_totals *totals, const struct stream *stream) {
    totals->frames_lost += stream->frames_dropped;
    /* The others are counted where they have come. */
    if (stream->fed_by)
        return;
    totals->bytes_received += stream->bytes;
    totals->video_frames += stream->video_frames;
    totals->audio_frames += stream->audio_frames;
    totals->jumps += stream->timeline.jumps;
}

static void add_player(struct stream_totals *totals, const struct player *player) {
    totals->bytes_sent += player->bytes_sent;
    totals->frames_sent += player->packets_sent;
    totals->sends += player->sends;
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        totals->dropped[cause] += player->dropped[cause];
}

static void add_totals(struct stream *stream, void *user) {
    add_publisher(user, stream);
    for (const struct player *player = stream->players; player; player = player->next)
        add_player(user, player);
}

void registry_get_totals(struct registry *registry, struct stream_totals *ret_totals) {
    *ret_totals = registry->gone;
    registry_each(registry, add_totals, ret_totals);
}

struct bans *registry_bans(struct registry *registry) {
    return &registry->bans;
}

struct claims *registry_claims(struct registry *registry) {
    return &registry->claims;
}

const struct stream_limits *registry_limits(const struct registry *registry) {
    return &registry->limits;
}

void registry_count_displaced(struct registry *registry) {
    registry->gone.displaced++;
}

static void forget_media(struct stream *stream) {
    gop_clear(&stream->gop);
    stream_headers_clear(&stream->headers);
    sluice_slice_release(&stream->previous);
}

void stream_unref(struct stream *stream) {
    if (!stream || --stream->references > 0)
        return;
    struct stream **link = &stream->registry->buckets[bucket_of(stream->name, strlen(stream->name))];
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    if (!stream->fed_by)
        uncount_stream(stream->registry);
    add_publisher(&stream->registry->gone, stream);
    forget_media(stream);
    rtp_output_free(stream->rtp);
    free(stream);
}

/* Another publisher's: nothing of it has come yet. */
static void begin(struct stream *stream) {
    stream->live = true;
    claim_let_go(stream);
    stream->received_at = sluice_loop_now(stream->registry->loop);
    stream->seen = stream->claimed = 0;
    stream->has_metadata = stream->settled = stream->opened = false;
    stream->metadata = (sluice_flv_metadata){0};
    tracks_begin(&stream->video);
    tracks_begin(&stream->audio);
    stream->beyond_tracks = 0;
    stream->bytes = stream->rate_bytes = stream->bits_per_second = 0;
    stream->video_frames = stream->audio_frames = stream->frames_dropped = 0;
}

int stream_attach(struct stream *stream, const struct stream_source *source) {
    struct registry *registry = stream->registry;
    /* Not @source's time: it may have waited, and what holds now is what counts. */
    uint64_t now = sluice_loop_now(registry->loop);
    if (stream->live)
        return -EEXIST;
    if (claim_is_kept(stream, now) && !address_is_same_host(stream->source.peer, source->peer))
        return -EBUSY;
    if (bans_hold(&registry->bans, stream->name, source->peer, now))
        return -EKEYREJECTED;
    /* Its counts begin anew. */
    add_publisher(&registry->gone, stream);
    registry->gone.publishers++;
    bool goes_on = feeds_players(stream) > 0;
    for (struct player *player = stream->players; player; player = player->next)
        goes_on |= player->begun;
    stream->source = *source;
    stream->publisher_id = object_id_new();
    timeline_begin(&stream->timeline, goes_on);
    begin(stream);
    feeds_begin(stream);
    return 0;
}

static void flush_merges(struct stream *stream) {
    for (struct merge *merge = stream->merges; merge; merge = merge->next)
        merge_flush(merge);
}

void stream_detach(struct stream *stream, uint64_t now) {
    stream->live = false;
    stream->source.session = NULL;
    stream->left_at = now;
    stream->bits_per_second = 0;
    recorder_stop(stream->recorder);
    stream->recorder = NULL;
    forget_media(stream);
    track_payloads_rest(&stream->registry->payloads);
    flush_merges(stream);
    for (struct player *player = stream->players; player; player = player->next)
        if (player->state == PLAYER_PLAYING || player->state == PLAYER_BEHIND)
            player->state = PLAYER_WAITING;
    feeds_end(stream);
    claims_left(stream);
}

bool stream_is_given_up(const struct stream *stream, uint64_t joined, uint64_t wait_ms, uint64_t now) {
    uint64_t since = stream->left_at > joined ? stream->left_at : joined;
    return !stream->live && !claim_is_kept(stream, now) && now - since >= wait_ms;
}

/* Reads onMetaData, and cuts off the "@setDataFrame" that only a server wants. True when it is onMetaData. */
static bool read_metadata(struct stream *stream, sluice_flv_tag *tag) {
    sluice_flv_metadata metadata;
    if (tag->type != SLUICE_FLV_SCRIPT || sluice_flv_read_metadata(&tag->payload, &metadata) < 0)
        return false;
    if (metadata.set_data_frame > 0) {
        sluice_slice whole = tag->payload;
        size_t rest = sluice_slice_length(&whole) - metadata.set_data_frame;
        sluice_slice_sub(&whole, metadata.set_data_frame, rest, &tag->payload);
        sluice_slice_release(&whole);
    }
    stream->metadata = metadata;
    stream->has_metadata = true;
    return true;
}

static void log_jump(const struct stream *stream, bool is_video, int32_t by) {
    char text[16];
    snprintf(text, sizeof text, "%d", by);
    LOG(LOG_WARNING, "timestamps jump", {"stream", stream->name}, {"peer", stream->source.peer},
        {"track", is_video ? "video" : "audio"}, {"by_ms", text});
}

/* The time that players are told. */
static uint32_t stream_time(struct stream *stream, const sluice_flv_tag *tag, enum packet_role role, bool is_main) {
    uint32_t threshold = (uint32_t)stream->policy.jump_ms, time = 0;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    unsigned track = tag->type == SLUICE_FLV_AUDIO ? TIMELINE_AUDIO : TIMELINE_VIDEO;
    int32_t by = 0;
    /* Other tracks have the time of the main one, or they would not stay together. */
    if (role < PACKET_KEY_FRAME || role > PACKET_AUDIO || !is_main)
        return timeline_other(&stream->timeline, track, tag->timestamp, threshold);
    const struct timeline_frame frame = {
        .track = track,
        .timestamp = tag->timestamp,
        .composition = is_video ? tag->view.composition_time : 0,
        .now = stream->received_at,
    };
    if (timeline_frame(&stream->timeline, &frame, threshold, &time, &by))
        log_jump(stream, is_video, by);
    return time;
}

static int keep(struct stream *stream, sluice_slice *payload, sluice_slice *ret_kept) {
    int error = sluice_slice_keep(payload, ret_kept);
    for (int round = 0; error == -ENOBUFS && round < SHED_ROUNDS && shed(stream->registry, SHED_FOR_BLOCKS); round++)
        error = sluice_slice_keep(payload, ret_kept);
    return error;
}

/* What the pool lacks while the frame is held, in blocks: views, of which it has a number, count as their share. */
static uint32_t pool_share(const sluice_slice *payload, const sluice_slice *before) {
    size_t blocks = sluice_slice_footprint(payload, before);
    size_t views = sluice_slice_blocks(payload) / SLUICE_POOL_VIEWS_PER_BLOCK;
    return (uint32_t)(views > blocks ? views : blocks);
}

/* What the next frame may share a block with. Of a large one its end: nothing else could give the rest up. */
static void remember(struct stream *stream, const sluice_slice *payload) {
    size_t length = sluice_slice_length(payload), from = length > PREVIOUS_MOST ? length - 1 : 0;
    sluice_slice_release(&stream->previous);
    if (length == 0 || sluice_slice_sub(payload, from, length - from, &stream->previous) < 0)
        stream->previous = (sluice_slice){0};
}

static struct packet *new_packet(struct registry *registry, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t time, sluice_slice *payload) {
    struct packet *packet = packet_new(registry->packets, tag, role, time, payload);
    for (int round = 0; !packet && round < SHED_ROUNDS && shed(registry, SHED_FOR_PACKETS); round++)
        packet = packet_new(registry->packets, tag, role, time, payload);
    return packet;
}

static struct packet *make_packet(struct stream *stream, sluice_flv_tag *tag, enum packet_role role, unsigned place) {
    sluice_slice kept;
    bool is_main = tag->type == SLUICE_FLV_SCRIPT || place == stream_tracks(stream, tag->type)->main;
    uint32_t time = stream_time(stream, tag, role, is_main);
    if (keep(stream, &tag->payload, &kept) < 0)
        return NULL;
    struct packet *packet = new_packet(stream->registry, tag, role, time, &kept);
    if (!packet) {
        sluice_slice_release(&kept);
        return NULL;
    }
    packet->received_at = stream->received_at;
    packet->track = (uint8_t)place;
    packet->version = stream_header_version(stream, packet);
    packet_account(packet, pool_share(&packet->payload, &stream->previous), &stream->blocks_held);
    remember(stream, &packet->payload);
    return packet;
}

/* For players that know no tracks. */
static void make_alone(struct stream *stream, struct packet *packet) {
    if (packet && packet->view.multitrack && stream_is_main(stream, packet))
        track_payload_make_alone(&stream->registry->payloads, packet);
}

/* The tracks that the publisher says it has; both, where it says nothing. */
static uint8_t claimed_tracks(const struct stream *stream, uint8_t flags) {
    uint8_t claimed = flags & (SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    if (stream->has_metadata)
        claimed = (uint8_t)((stream->metadata.has_video ? SLUICE_FLV_HAS_VIDEO : 0) |
                            (stream->metadata.has_audio ? SLUICE_FLV_HAS_AUDIO : 0));
    return claimed ? claimed : SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO;
}

/*
 * RTP is sent from now on, of the tracks as they are now: of the group first, so that sequence numbers go up. What has
 * been made for a player before is shared.
 */
static void begin_rtp(struct stream *stream) {
    if (stream->rtp_players == 0)
        return;
    if (!stream->rtp)
        stream->rtp = rtp_output_new();
    if (!stream->rtp)
        return;
    rtp_output_begin(stream->rtp, stream);
}

/* The same of all that a player is started with. */
static void make_cached_alone(struct stream *stream) {
    for (size_t i = 0; i < TRACKS_HEADERS; i++) {
        make_alone(stream, stream->headers.list[i]);
        make_alone(stream, stream->gop.headers.list[i]);
    }
    for (size_t i = 0; i < stream->gop.count; i++)
        make_alone(stream, stream->gop.packets[i]);
}

static void start_player(struct stream *stream, struct player *player) {
    if (player->form.kind == PACKET_RTP) {
        /* What its user was told of the tracks must hold still. */
        if (!stream->rtp || player->description != stream->rtp->description) {
            player_end(player);
            return;
        }
    }
    if (player->alone)
        make_cached_alone(stream);
    static const struct gop none;
    bool has_group = player->form.kind != PACKET_RTP || rtp_output_has_group(stream->rtp);
    player_start(player, sluice_loop_now(stream->registry->loop), stream->seen, has_group ? &stream->gop : &none,
                 &stream->headers, stream->seen & SLUICE_FLV_HAS_VIDEO);
}

static uint64_t gop_blocks(const struct stream *stream) {
    return stream->policy.gop_size / stream->registry->block_size;
}

/* What its players may be sent at once. */
static uint64_t opening_blocks(const struct stream *stream) {
    return stream->policy.player_buffer / stream->registry->block_size;
}

/*
 * The beginning of a stream, until its tracks are known: the flags that players are told must be true, or they wait
 * for a track that never comes. What has come meanwhile is in the group, and players start with all of it.
 */
static void open_stream(struct stream *stream, struct packet *packet, uint8_t flags) {
    /* What comes before the first frame is with the headers, what comes later is in its place among the frames. */
    if (packet->role < PACKET_KEY_FRAME && !stream->opened)
        return;
    if (!stream->opened) {
        stream->opened = true;
        stream->opened_at = packet->timestamp;
    }
    gop_open(&stream->gop, packet, &stream->headers, opening_blocks(stream));
    uint8_t missing = claimed_tracks(stream, flags) & (uint8_t)~stream->seen;
    stream->settled = !missing || (int32_t)(packet->timestamp - stream->opened_at) >= SETTLE_MS;
    if (!stream->settled)
        return;
    tracks_settle(&stream->video);
    tracks_settle(&stream->audio);
    begin_rtp(stream);
    if (stream->registry->recorders && !stream->fed_by)
        recorder_start(stream->registry->recorders, stream);
    /* Who is told may leave. */
    for (struct player *player = stream->players, *next; player; player = next) {
        next = player->next;
        if (player->state == PLAYER_WAITING)
            start_player(stream, player);
        else if (player->state == PLAYER_ASKING)
            player->known(player);
    }
    if (!(stream->seen & SLUICE_FLV_HAS_VIDEO) || gop_blocks(stream) == 0 || stream->gop.blocks > gop_blocks(stream))
        gop_drop(&stream->gop);
}

size_t stream_pinned(const struct stream *stream) {
    uint64_t blocks = stream->headers.blocks + stream->gop.headers.blocks;
    return blocks > HEADERS_FREE ? blocks * stream->registry->block_size : 0;
}

void stream_lose(struct stream *stream) {
    stream->frames_dropped++;
    gop_drop(&stream->gop);
    recorder_lose(stream->recorder);
    for (struct player *player = stream->players; player; player = player->next)
        player_drop(player, DROP_NO_MEMORY);
    feeds_lose(stream);
}

/* Whether half of the memory that the stream's tags are in is used. */
static bool is_pressed(const struct stream *stream) {
    sluice_pool_stats pool;
    if (stream->fed_by)
        return feed_is_pressed(stream->fed_by);
    sluice_pool_get_stats(stream->registry->pool, &pool);
    return pool.held > pool.max / 2;
}

/* Counts a packet that has been queued for all players. What is gathered is memory: none is to be had, none is used. */
static void gather(struct stream *stream, const struct packet *packet) {
    const struct packet_form form = {.kind = PACKET_CHUNKED};
    if (!stream->merges)
        return;
    for (struct merge *merge = stream->merges; merge; merge = merge->next)
        merge_add(merge, packet_wire_size(packet, &form));
    if (is_pressed(stream))
        flush_merges(stream);
}

/* Players of tracks that are others from now on are ended: they cannot be told. */
static void make_rtp(struct stream *stream, struct packet *packet) {
    bool is_header = packet->role == PACKET_VIDEO_HEADER || packet->role == PACKET_AUDIO_HEADER;
    if (!is_header) {
        rtp_output_make(stream->rtp, packet);
        return;
    }
    if (!rtp_output_take_header(stream->rtp, stream, packet))
        return;
    for (struct player *player = stream->players; player; player = player->next)
        if (player->form.kind == PACKET_RTP && (player->state == PLAYER_PLAYING || player->state == PLAYER_BEHIND))
            player_end(player);
}

/* To everybody here. */
static void take(struct stream *stream, struct packet *packet, uint8_t flags) {
    if (stream->alone_players > 0)
        make_alone(stream, packet);
    stream_headers_set(&stream->headers, packet);
    if (!stream->settled) {
        open_stream(stream, packet, flags);
        return;
    }
    bool has_video = stream->seen & SLUICE_FLV_HAS_VIDEO;
    /* First, since the memory of the group before may be what RTP needs. */
    gop_add(&stream->gop, packet, &stream->headers, gop_blocks(stream));
    if (stream->rtp_players > 0 && stream->rtp)
        make_rtp(stream, packet);
    for (struct player *player = stream->players; player; player = player->next)
        player_push(player, packet, &stream->headers, has_video);
    if (stream->recorder)
        recorder_push(stream->recorder, packet, &stream->headers);
    gather(stream, packet);
}

/* A tag of one track at most. */
static int publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags) {
    bool has_track = tag->type != SLUICE_FLV_SCRIPT, is_metadata = read_metadata(stream, tag);
    struct tracks *tracks = stream_tracks(stream, tag->type);
    int place = has_track ? tracks_take(tracks, tag->view.track) : 0;
    if (place < 0) {
        stream->beyond_tracks += tag->view.packet == SLUICE_FLV_FRAME;
        return 0;
    }
    enum packet_role role = stream_role(tag, is_metadata, has_track && place == tracks->main);
    stream_count_tag(stream, tag, (unsigned)place);
    struct packet *packet = make_packet(stream, tag, role, (unsigned)place);
    if (!packet) {
        stream_lose(stream);
        return -ENOMEM;
    }
    /* First: who is told here that the stream is known may open a feed, which begins with this packet. */
    feeds_push(stream, packet, flags);
    take(stream, packet, flags);
    packet_unref(packet);
    return 0;
}

int stream_publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags) {
    stream->bytes += SLUICE_FLV_TAG_HEADER_SIZE + tag->size + SLUICE_FLV_TRAILER_SIZE;
    stream->received_at = sluice_loop_now(stream->registry->loop);
    if (!tag->view.many_tracks || tag->view.packet == SLUICE_FLV_OTHER)
        return publish(stream, tag, flags);
    const struct stream_parts parts = {
        .stream = stream, .payloads = &stream->registry->payloads, .publish = publish, .flags = flags};
    return stream_publish_parts(&parts, tag);
}

void stream_replica_begin(struct stream *replica) {
    add_publisher(&replica->registry->gone, replica);
    begin(replica);
}

void stream_replica_end(struct stream *replica, uint64_t left_at, uint64_t kept_until) {
    if (replica->live)
        stream_detach(replica, left_at);
    claim_let_go(replica);
    keep_until(replica, kept_until);
}

void stream_replica_lose(struct stream *replica, bool gap, uint32_t frames) {
    for (struct player *player = replica->players; player; player = player->next) {
        if (player->state == PLAYER_PLAYING || player->state == PLAYER_BEHIND)
            player->dropped[DROP_NO_MEMORY] += frames;
        if (gap)
            player_drop(player, DROP_NO_MEMORY);
    }
    if (gap)
        gop_drop(&replica->gop);
}

/* The payload stays with the tag where there is no memory. */
static struct packet *make_replica_packet(struct stream *replica, struct stream_tag *tag) {
    struct packet *packet = new_packet(replica->registry, &tag->tag, tag->role, tag->tag.timestamp, &tag->tag.payload);
    if (!packet)
        return NULL;
    packet->received_at = tag->received_at;
    packet->track = tag->track;
    packet->version = tag->version;
    packet->loan = tag->loan;
    tag->loan = (struct packet_loan){0};
    packet_account(packet, tag->blocks, &replica->blocks_held);
    return packet;
}

void stream_replica_publish(struct stream *replica, struct stream_tag *tag) {
    (void)read_metadata(replica, &tag->tag);
    replica->bytes += SLUICE_FLV_TAG_HEADER_SIZE + tag->tag.size + SLUICE_FLV_TRAILER_SIZE;
    stream_take_replica_track(replica, tag);
    stream_count_tag(replica, &tag->tag, tag->track);
    replica->received_at = tag->received_at;
    struct packet *packet = make_replica_packet(replica, tag);
    if (!packet) {
        stream_lose(replica);
        return;
    }
    take(replica, packet, tag->flags);
    packet_unref(packet);
}

void stream_replica_cache(struct stream *replica, struct stream_tag *tag, bool in_group) {
    stream_take_replica_track(replica, tag);
    struct packet *packet = make_replica_packet(replica, tag);
    if (!packet) {
        gop_drop(&replica->gop);
        return;
    }
    stream_headers_set(&replica->headers, packet);
    if (in_group)
        gop_open(&replica->gop, packet, &replica->headers, opening_blocks(replica));
    packet_unref(packet);
}

static void insert_player(struct stream *stream, struct player *player) {
    player->stream = stream;
    player->id = object_id_new();
    player->since = sluice_loop_now(stream->registry->loop);
    stream->registry->gone.players++;
    set_limits(stream, player);
    merge_join(&stream->merges, stream->registry->loop, &stream->players, player);
    player->prev = NULL;
    player->next = stream->players;
    if (stream->players)
        stream->players->prev = player;
    stream->players = player;
    stream->player_count++;
    stream->rtp_players += player->form.kind == PACKET_RTP;
    stream->alone_players += player->alone;
    stream_want(stream);
}

uint32_t stream_player_count(const struct stream *stream) {
    return stream->player_count + feeds_players(stream);
}

void stream_want(struct stream *stream) {
    if (!stream->live && stream->registry->wanted)
        stream->registry->wanted(stream, stream->registry->wanted_user);
}

bool stream_has_room(const struct stream *stream) {
    uint64_t most = stream->policy.max_players;
    return most == 0 || stream_player_count(stream) < most;
}

void stream_add_player(struct stream *stream, struct player *player) {
    insert_player(stream, player);
    stream_play(stream, player);
}

void stream_add_asking(struct stream *stream, struct player *player) {
    insert_player(stream, player);
    player->state = PLAYER_ASKING;
    if (!stream_is_known(stream))
        return;
    if (stream->rtp_players == 1)
        begin_rtp(stream);
    else if (stream->rtp)
        rtp_output_describe(stream->rtp, stream);
}

bool stream_is_known(const struct stream *stream) {
    return stream->live && stream->settled;
}

void stream_play(struct stream *stream, struct player *player) {
    player->state = PLAYER_WAITING;
    if (stream_is_known(stream))
        start_player(stream, player);
}

void stream_remove_player(struct stream *stream, struct player *player) {
    if (player->prev)
        player->prev->next = player->next;
    else
        stream->players = player->next;
    if (player->next)
        player->next->prev = player->prev;
    player->next = player->prev = NULL;
    merge_leave(&stream->merges, player);
    stream->player_count--;
    add_player(&stream->registry->gone, player);
    stream->rtp_players -= player->form.kind == PACKET_RTP;
    stream->alone_players -= player->alone;
}

void stream_free_player(struct player *player) {
    if (!player)
        return;
    player_clear(player);
    stream_unref(player->stream);
    free(player);
}

void stream_set_merge_window(struct stream *stream, struct player *player, uint32_t window_ms) {
    if (player->merge_window_ms == window_ms)
        return;
    player_flush(player);
    merge_leave(&stream->merges, player);
    player->merge_window_ms = window_ms;
    merge_join(&stream->merges, stream->registry->loop, &stream->players, player);
}
