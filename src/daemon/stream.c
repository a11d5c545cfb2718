#include "daemon/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/address.h"
#include "daemon/log.h"
#include "daemon/object_id.h"
#include "daemon/rtp_output.h"

enum {
    BUCKETS = 1024,
    SETTLE_MS = 500,     /* of the stream's time: a claimed track that has not come by then is not coming */
    SHED_ROUNDS = 64,    /* tries to make room before a frame is given up */
    SHED_SLOW_MS = 1000, /* what has waited for longer is the first to go */
};

struct registry {
    sluice_loop *loop;
    sluice_pool *pool;
    struct packet_pool *packets;
    struct stream_limits limits;
    uint64_t gop_blocks;
    uint64_t opening_blocks; /* of a stream's beginning: what its players may be sent at once */
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
    registry->loop = loop;
    claims_init(&registry->claims, loop);
    registry->pool = sluice_loop_pool(loop);
    registry_set_limits(registry, limits);
    *ret_registry = registry;
    return 0;
}

static void let_go(struct stream *stream, void *user) {
    (void)user;
    claim_let_go(stream);
}

void registry_free(struct registry *registry) {
    if (!registry)
        return;
    registry_each(registry, let_go, NULL);
    packet_pool_free(registry->packets);
    bans_clear(&registry->bans);
    free(registry);
}

static void set_limits(const struct registry *registry, struct player *player) {
    player->limit = registry->limits.player_bytes;
    player->catch_up_ms = registry->limits.catch_up_ms;
}

/* What is cached or queued beyond them is not dropped at once, but with what comes next. */
void registry_set_limits(struct registry *registry, const struct stream_limits *limits) {
    sluice_pool_stats stats;
    sluice_pool_get_stats(registry->pool, &stats);
    registry->limits = *limits;
    registry->gop_blocks = limits->gop_bytes / stats.block_size;
    registry->opening_blocks = limits->player_bytes / stats.block_size;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct stream *stream = registry->buckets[i]; stream; stream = stream->next)
            for (struct player *player = stream->players; player; player = player->next)
                set_limits(registry, player);
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
    struct stream *made = calloc(1, sizeof *made);
    if (!made) {
        uncount_stream(registry);
        return -ENOMEM;
    }
    memcpy(made->name, name, length);
    made->registry = registry;
    made->id = object_id_new();
    made->references = 1;
    made->left_at = now;
    if (registry->recorders)
        made->record = record_wishes_find(&registry->recorders->wishes, made->name);
    made->next = *bucket;
    *bucket = made;
    *ret_stream = made;
    return 0;
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

uint64_t registry_packet_bytes(const struct registry *registry) {
    return packet_pool_bytes(registry->packets);
}

static void tick_stream(struct stream *stream, void *user) {
    const uint64_t *elapsed_ms = user;
    uint64_t bytes = stream->bytes - stream->rate_bytes;
    stream->rate_bytes = stream->bytes;
    stream->bits_per_second = *elapsed_ms ? bytes * 8000 / *elapsed_ms : 0;
    if (!claim_is_kept(stream, sluice_loop_now(stream->registry->loop)))
        claim_let_go(stream);
}

void registry_tick(struct registry *registry, uint64_t elapsed_ms) {
    registry_each(registry, tick_stream, &elapsed_ms);
}

static void add_publisher(struct stream_totals *totals, const struct stream *stream) {
    totals->bytes_received += stream->bytes;
    totals->video_frames += stream->video_frames;
    totals->audio_frames += stream->audio_frames;
    totals->frames_lost += stream->frames_dropped;
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
    packet_unref(stream->previous);
    stream->previous = NULL;
}

void stream_unref(struct stream *stream) {
    if (!stream || --stream->references > 0)
        return;
    struct stream **link = &stream->registry->buckets[bucket_of(stream->name, strlen(stream->name))];
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    uncount_stream(stream->registry);
    add_publisher(&stream->registry->gone, stream);
    forget_media(stream);
    rtp_output_free(stream->rtp);
    free(stream);
}

int stream_attach(struct stream *stream, const struct stream_source *source) {
    struct registry *registry = stream->registry;
    if (stream->live)
        return -EEXIST;
    if (claim_is_kept(stream, source->since) && !address_is_same_host(stream->source.peer, source->peer))
        return -EBUSY;
    if (bans_hold(&registry->bans, stream->name, source->peer, source->since))
        return -EKEYREJECTED;
    /* Its counts begin anew. */
    add_publisher(&registry->gone, stream);
    registry->gone.publishers++;
    bool goes_on = false;
    for (struct player *player = stream->players; player; player = player->next)
        goes_on |= player->begun;
    stream->live = true;
    stream->source = *source;
    stream->publisher_id = object_id_new();
    claim_let_go(stream);
    stream->received_at = sluice_loop_now(registry->loop);
    stream->seen = stream->claimed = 0;
    stream->has_metadata = stream->settled = stream->opened = false;
    timeline_begin(&stream->timeline, goes_on);
    stream->metadata = (sluice_flv_metadata){0};
    stream->video_codec = stream->audio_codec = SLUICE_CODEC_NONE;
    stream->bytes = stream->rate_bytes = stream->bits_per_second = 0;
    stream->video_frames = stream->audio_frames = stream->frames_dropped = 0;
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
    flush_merges(stream);
    for (struct player *player = stream->players; player; player = player->next)
        if (player->state == PLAYER_PLAYING || player->state == PLAYER_BEHIND)
            player->state = PLAYER_WAITING;
    claims_left(&stream->registry->claims);
}

bool stream_is_given_up(const struct stream *stream, uint64_t joined, uint64_t wait_ms, uint64_t now) {
    uint64_t since = stream->left_at > joined ? stream->left_at : joined;
    return !stream->live && !claim_is_kept(stream, now) && now - since >= wait_ms;
}

static enum packet_role role_of(const sluice_flv_tag *tag, bool is_metadata) {
    const sluice_flv_view *view = &tag->view;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    if (tag->type == SLUICE_FLV_SCRIPT)
        return is_metadata ? PACKET_METADATA : PACKET_OTHER;
    if (view->packet == SLUICE_FLV_SEQUENCE_HEADER)
        return is_video ? PACKET_VIDEO_HEADER : PACKET_AUDIO_HEADER;
    if (view->packet != SLUICE_FLV_FRAME)
        return PACKET_OTHER;
    if (is_video)
        return view->key_frame ? PACKET_KEY_FRAME : PACKET_VIDEO;
    return PACKET_AUDIO;
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

static void count_tag(struct stream *stream, const sluice_flv_tag *tag, enum packet_role role) {
    stream->bytes += SLUICE_FLV_TAG_HEADER_SIZE + tag->size + SLUICE_FLV_TRAILER_SIZE;
    if (tag->type == SLUICE_FLV_VIDEO) {
        stream->seen |= SLUICE_FLV_HAS_VIDEO;
        if (tag->view.codec)
            stream->video_codec = tag->view.codec;
        stream->video_frames += role == PACKET_KEY_FRAME || role == PACKET_VIDEO;
    } else if (tag->type == SLUICE_FLV_AUDIO) {
        stream->seen |= SLUICE_FLV_HAS_AUDIO;
        if (tag->view.codec)
            stream->audio_codec = tag->view.codec;
        stream->audio_channels = tag->view.channels;
        stream->audio_frames += role == PACKET_AUDIO;
    }
}

static void log_jump(const struct stream *stream, bool is_video, int32_t by) {
    char text[16];
    snprintf(text, sizeof text, "%d", by);
    LOG(LOG_WARNING, "timestamps jump", {"stream", stream->name}, {"peer", stream->source.peer},
        {"track", is_video ? "video" : "audio"}, {"by_ms", text});
}

/* The time that players are told. */
static uint32_t stream_time(struct stream *stream, const sluice_flv_tag *tag, enum packet_role role) {
    uint32_t threshold = stream->registry->limits.jump_ms, time = 0;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    unsigned track = tag->type == SLUICE_FLV_AUDIO ? TIMELINE_AUDIO : TIMELINE_VIDEO;
    int32_t by = 0;
    if (role < PACKET_KEY_FRAME || role > PACKET_AUDIO)
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

static void find_largest(struct stream *stream, void *user) {
    struct stream **largest = user;
    if (stream->gop.blocks > 0 && (!*largest || stream->gop.blocks > (*largest)->gop.blocks))
        *largest = stream;
}

static void find_longest_queue(struct stream *stream, void *user) {
    struct player **longest = user;
    for (struct player *player = stream->players; player; player = player->next)
        if (player->count > player->gathered + 1 && (!*longest || player->queued_bytes > (*longest)->queued_bytes))
            *longest = player;
}

/* Those whose queues hold what has waited for so long. */
struct slowest {
    uint64_t now, waited_ms;
};

static void find_slowest(struct stream *stream, void *user) {
    struct slowest *slowest = user;
    for (const struct player *player = stream->players; player; player = player->next) {
        uint64_t waited_ms = player_waited_ms(player, slowest->now);
        slowest->waited_ms = waited_ms > slowest->waited_ms ? waited_ms : slowest->waited_ms;
    }
}

static void drop_slowest(struct stream *stream, void *user) {
    const struct slowest *slowest = user;
    for (struct player *player = stream->players; player; player = player->next)
        if (player_waited_ms(player, slowest->now) >= slowest->waited_ms)
            player_drop(player, DROP_NO_MEMORY);
}

/*
 * The slowest players: the one whose queue goes back furthest, and those who are half as slow. The players of a stream
 * hold the same blocks, so that to drop one of several that have stalled would free nothing.
 */
static bool shed_slowest(struct registry *registry) {
    struct slowest slowest = {.now = sluice_loop_now(registry->loop)};
    registry_each(registry, find_slowest, &slowest);
    if (slowest.waited_ms < SHED_SLOW_MS)
        return false;
    slowest.waited_ms = slowest.waited_ms / 2 > SHED_SLOW_MS ? slowest.waited_ms / 2 : SHED_SLOW_MS;
    registry_each(registry, drop_slowest, &slowest);
    return true;
}

/*
 * Makes room when consumers hold all but the pool's reserve. First what the slowest players are behind, whose doing it
 * is; then what only new players would miss, the largest cached group; then the longest queue. False when there is
 * nothing to give up.
 */
static bool shed(struct registry *registry) {
    if (shed_slowest(registry))
        return true;
    struct stream *largest = NULL;
    registry_each(registry, find_largest, &largest);
    if (largest) {
        gop_drop(&largest->gop);
        return true;
    }
    struct player *longest = NULL;
    registry_each(registry, find_longest_queue, &longest);
    if (!longest)
        return false;
    player_drop(longest, DROP_NO_MEMORY);
    return true;
}

static int keep(struct stream *stream, sluice_slice *payload, sluice_slice *ret_kept) {
    int error = sluice_slice_keep(payload, ret_kept);
    for (int round = 0; error == -ENOBUFS && round < SHED_ROUNDS && shed(stream->registry); round++)
        error = sluice_slice_keep(payload, ret_kept);
    return error;
}

static struct packet *make_packet(struct stream *stream, sluice_flv_tag *tag, enum packet_role role) {
    sluice_slice kept;
    uint32_t time = stream_time(stream, tag, role);
    if (keep(stream, &tag->payload, &kept) < 0)
        return NULL;
    struct packet *packet = packet_new(stream->registry->packets, tag, role, time, &kept);
    for (int round = 0; !packet && round < SHED_ROUNDS && shed(stream->registry); round++)
        packet = packet_new(stream->registry->packets, tag, role, time, &kept);
    if (!packet) {
        sluice_slice_release(&kept);
        return NULL;
    }
    packet->received_at = stream->received_at;
    const sluice_slice *before = stream->previous ? &stream->previous->payload : NULL;
    packet_account(packet, (uint32_t)sluice_slice_footprint(&packet->payload, before), &stream->blocks_held);
    packet_unref(stream->previous);
    stream->previous = packet_ref(packet);
    return packet;
}

static void cache_header(struct stream *stream, struct packet *packet) {
    if (packet->role == PACKET_METADATA)
        stream_headers_set(&stream->headers.metadata, packet);
    else if (packet->role == PACKET_VIDEO_HEADER)
        stream_headers_set(&stream->headers.video, packet);
    else if (packet->role == PACKET_AUDIO_HEADER)
        stream_headers_set(&stream->headers.audio, packet);
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

static void start_player(struct stream *stream, struct player *player) {
    if (player->form.kind == PACKET_RTP) {
        /* What its user was told of the tracks must hold still. */
        if (!stream->rtp || player->description != stream->rtp->description) {
            player_end(player);
            return;
        }
    }
    player_start(player, sluice_loop_now(stream->registry->loop), stream->seen, &stream->gop, &stream->headers,
                 stream->seen & SLUICE_FLV_HAS_VIDEO);
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
    gop_open(&stream->gop, packet, &stream->headers, stream->registry->opening_blocks);
    uint8_t missing = claimed_tracks(stream, flags) & (uint8_t)~stream->seen;
    stream->settled = !missing || (int32_t)(packet->timestamp - stream->opened_at) >= SETTLE_MS;
    if (!stream->settled)
        return;
    begin_rtp(stream);
    if (stream->registry->recorders)
        recorder_start(stream->registry->recorders, stream);
    /* Who is told may leave. */
    for (struct player *player = stream->players, *next; player; player = next) {
        next = player->next;
        if (player->state == PLAYER_WAITING)
            start_player(stream, player);
        else if (player->state == PLAYER_ASKING)
            player->known(player);
    }
    if (!(stream->seen & SLUICE_FLV_HAS_VIDEO) || stream->gop.blocks > stream->registry->gop_blocks)
        gop_drop(&stream->gop);
}

static void lose_frame(struct stream *stream) {
    stream->frames_dropped++;
    gop_drop(&stream->gop);
    recorder_lose(stream->recorder);
    for (struct player *player = stream->players; player; player = player->next)
        player_drop(player, DROP_NO_MEMORY);
}

/* Counts a packet that has been queued for all players. What is gathered is memory: none is to be had, none is used. */
static void gather(struct stream *stream, const struct packet *packet) {
    const struct packet_form form = {.kind = PACKET_CHUNKED};
    if (!stream->merges)
        return;
    sluice_pool_stats pool;
    sluice_pool_get_stats(stream->registry->pool, &pool);
    for (struct merge *merge = stream->merges; merge; merge = merge->next)
        merge_add(merge, packet_wire_size(packet, &form));
    if (pool.held > pool.max / 2)
        flush_merges(stream);
}

int stream_publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags) {
    enum packet_role role = role_of(tag, read_metadata(stream, tag));
    count_tag(stream, tag, role);
    stream->received_at = sluice_loop_now(stream->registry->loop);
    struct packet *packet = make_packet(stream, tag, role);
    if (!packet) {
        lose_frame(stream);
        return -ENOMEM;
    }
    cache_header(stream, packet);
    if (stream->settled) {
        bool has_video = stream->seen & SLUICE_FLV_HAS_VIDEO;
        /* First, since the memory of the group before may be what RTP needs. */
        gop_add(&stream->gop, packet, &stream->headers, stream->registry->gop_blocks);
        if (stream->rtp_players > 0 && stream->rtp)
            rtp_output_make(stream->rtp, packet);
        for (struct player *player = stream->players; player; player = player->next)
            player_push(player, packet, &stream->headers, has_video);
        if (stream->recorder)
            recorder_push(stream->recorder, packet, &stream->headers);
        gather(stream, packet);
    } else {
        open_stream(stream, packet, flags);
    }
    packet_unref(packet);
    return 0;
}

static void insert_player(struct stream *stream, struct player *player) {
    player->stream = stream;
    player->id = object_id_new();
    player->since = sluice_loop_now(stream->registry->loop);
    stream->registry->gone.players++;
    set_limits(stream->registry, player);
    merge_join(&stream->merges, stream->registry->loop, &stream->players, player);
    player->prev = NULL;
    player->next = stream->players;
    if (stream->players)
        stream->players->prev = player;
    stream->players = player;
    stream->player_count++;
    stream->rtp_players += player->form.kind == PACKET_RTP;
    if (!stream->live && stream->registry->wanted)
        stream->registry->wanted(stream, stream->registry->wanted_user);
}

bool stream_has_room(const struct stream *stream) {
    uint64_t most = stream->registry->limits.most_players;
    return most == 0 || stream->player_count < most;
}

void stream_add_player(struct stream *stream, struct player *player) {
    insert_player(stream, player);
    stream_play(stream, player);
}

void stream_add_asking(struct stream *stream, struct player *player) {
    insert_player(stream, player);
    player->state = PLAYER_ASKING;
    if (stream_is_known(stream) && stream->rtp_players == 1)
        begin_rtp(stream);
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
}

void stream_set_merge_window(struct stream *stream, struct player *player, uint32_t window_ms) {
    if (player->merge_window_ms == window_ms)
        return;
    player_flush(player);
    merge_leave(&stream->merges, player);
    player->merge_window_ms = window_ms;
    merge_join(&stream->merges, stream->registry->loop, &stream->players, player);
}
