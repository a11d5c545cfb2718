#include "daemon/relay/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/log.h"
#include "daemon/base/object_id.h"
#include "daemon/relay/player_list.h"
#include "daemon/relay/replica.h"
#include "daemon/relay/stand_in.h"
#include "daemon/relay/unwatched.h"

enum {
    /* of the stream's time: a claimed track that has not come by then is not coming */
    SETTLE_MS = 500,
    SHED_ROUNDS = 64,         /* tries to make room before a frame is given up */
    PREVIOUS_MOST = 16 << 10, /* bytes of a frame that are held for the accounts of the next one */
    /* headers, in blocks or copies, that any stream may hold: now and at its group's beginning */
    HEADERS_FREE = 16,
    /* copies of headers that a stream may hold, so that it leaves memory for others': now, and in
     * its group and queues. What comes beyond them stays in its block */
    COPIES_MOST = 2 * TRACKS_HEADERS,
};

void stream_add_sink(struct stream *stream, struct stream_sink *sink) {
    struct stream_sink **link = &stream->sinks;
    while (*link && (*link)->type->rank < sink->type->rank)
        link = &(*link)->next;
    for (struct stream_sink_walk *walk = stream->walks; walk; walk = walk->outer)
        if (walk->link == link && sink->type->rank <= walk->rank)
            walk->link = &sink->next;
    sink->next = *link;
    *link = sink;
    if (unwatched_is_watcher(sink->type->rank))
        unwatched_end(stream);
}

void stream_remove_sink(struct stream *stream, struct stream_sink *sink) {
    struct stream_sink **link = &stream->sinks;
    while (*link != sink)
        link = &(*link)->next;
    for (struct stream_sink_walk *walk = stream->walks; walk; walk = walk->outer)
        if (walk->link == &sink->next)
            walk->link = link;
    *link = sink->next;
}

struct stream_sink *stream_first_sink(struct stream *stream, struct stream_sink_walk *walk) {
    *walk = (struct stream_sink_walk){.link = &stream->sinks, .outer = stream->walks};
    stream->walks = walk;
    return stream_next_sink(stream, walk);
}

struct stream_sink *stream_next_sink(struct stream *stream, struct stream_sink_walk *walk) {
    struct stream_sink *sink = *walk->link;
    if (sink) {
        walk->rank = sink->type->rank;
        walk->link = &sink->next;
    } else {
        stream->walks = walk->outer;
    }
    return sink;
}

struct stream_sink *stream_find_sink(const struct stream *stream, const struct stream_sink_type *type) {
    struct stream_sink *sink = stream->sinks;
    while (sink && sink->type != type)
        sink = sink->next;
    return sink;
}

void registry_each(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user) {
    for (size_t i = 0; i < REGISTRY_BUCKETS; i++)
        for (struct stream *stream = registry->buckets[i], *next; stream; stream = next) {
            next = stream->next;
            call(stream, user);
        }
}

void registry_uncount(struct registry *registry) {
    registry->count--;
    if (registry->limits.streams)
        atomic_fetch_sub(registry->limits.streams, 1);
}

void stream_add_totals(const struct stream *stream, struct stream_totals *totals) {
    totals->frames_lost += stream->frames_dropped;
    /* The others are counted where they have come. */
    if (stream->fed_by)
        return;
    totals->bytes_received += stream->bytes;
    totals->video_frames += stream->video_frames;
    totals->audio_frames += stream->audio_frames;
    totals->jumps += stream->timeline.jumps;
}

void stream_count_send(struct stream *stream) {
    stream->sends++;
    if (stream->fed_by)
        replica_count_send(stream->fed_by);
}

uint64_t stream_sends(const struct stream *stream) {
    return stream->sends + replicas_sends(stream);
}

void stream_keep(struct stream *stream, uint64_t until) {
    if (until == 0)
        return;
    stream->references += stream->kept_until == 0;
    stream->kept_until = until;
}

void stream_get_state(const struct stream *stream, struct stream_state *ret_state) {
    *ret_state = (struct stream_state){.id = stream->id,
                                       .live = stream->live,
                                       .left_at = stream->left_at,
                                       .kept_until = stream->kept_until,
                                       .search = stream->cluster.search,
                                       .seen = stream->seen,
                                       .claimed = stream->claimed,
                                       .has_metadata = stream->has_metadata,
                                       .settled = stream->settled,
                                       .opened = stream->opened,
                                       .opened_at = stream->opened_at,
                                       .has_group = !stream->gop.broken,
                                       .metadata = stream->metadata};
    tracks_copy(&stream->video, &ret_state->video);
    tracks_copy(&stream->audio, &ret_state->audio);
    strcpy(ret_state->name, stream->name);
}

static void forget_media(struct stream *stream) {
    gop_clear(&stream->gop);
    stream_headers_clear(&stream->headers);
    sluice_slice_release(&stream->previous);
}

void stream_unref(struct stream *stream) {
    if (!stream || --stream->references > 0)
        return;
    struct stream **link = stream->bucket;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    if (!stream->fed_by)
        registry_uncount(stream->registry);
    stream_add_totals(stream, &stream->registry->gone);
    forget_media(stream);
    for (struct stream_sink *sink; (sink = stream->sinks);) {
        stream->sinks = sink->next;
        if (sink->type->freed)
            sink->type->freed(sink);
    }
    tracks_clear(&stream->video);
    tracks_clear(&stream->audio);
    free(stream);
}

/* Another publisher's: nothing of it has come yet. */
static void begin(struct stream *stream) {
    stream->live = true;
    if (!stream->stand_in)
        publish_lock_unreserve(stream);
    stream->received_at = sluice_loop_now(stream->registry->loop);
    stream->seen = stream->claimed = 0;
    stream->lacking = 0;
    stream->has_metadata = stream->settled = stream->opened = false;
    stream->metadata = (sluice_flv_metadata){0};
    tracks_begin(&stream->video);
    tracks_begin(&stream->audio);
    stream->beyond_tracks = 0;
    stream->bytes = stream->rate_bytes = stream->bits_per_second = 0;
    stream->video_frames = stream->audio_frames = stream->frames_dropped = 0;
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->begun)
            sink->type->begun(sink, stream);
}

/* One that may attach. */
static void attach(struct stream *stream, const struct stream_source *source) {
    bool goes_on = false;
    /* Its counts begin anew. */
    stream_add_totals(stream, &stream->registry->gone);
    for (const struct stream_sink *sink = stream->sinks; sink && !goes_on; sink = sink->next)
        goes_on = sink->type->has_begun && sink->type->has_begun(sink, stream);
    stream->source = *source;
    if (source->is_remote) {
        stream->cluster.epoch = source->epoch;
        if (stream->cluster.seen < source->epoch)
            stream->cluster.seen = source->epoch;
    }
    stream->publisher_id = object_id_new();
    timeline_begin(&stream->timeline, goes_on);
    begin(stream);
}

int stream_attach(struct stream *stream, const struct stream_source *source) {
    struct registry *registry = stream->registry;
    /* Not @source's time: it may have waited, and what holds now is what counts. */
    uint64_t now = sluice_loop_now(registry->loop);
    bool is_judged = !source->is_remote;
    if (stream->live && !stream->stand_in)
        return -EEXIST;
    /* What came from another node is kept for players: the cluster decides which node has it. */
    if (is_judged && publish_lock_is_reserved(stream, now) && !stream->source.is_remote &&
        !address_is_same_host(stream->source.peer, source->peer))
        return -EBUSY;
    if (is_judged && bans_hold(&registry->bans, stream->name, source->peer, now))
        return -EKEYREJECTED;
    if (stream->stand_in)
        stand_in_yield(stream->stand_in);
    registry->gone.publishers++;
    attach(stream, source);
    return 0;
}

int stream_attach_stand_in(struct stream *stream, struct stand_in *stand_in, struct replica_site *lender,
                           const char *peer) {
    struct stream_source source = {.protocol = "backup", .since = sluice_loop_now(stream->registry->loop)};
    if (stream->live)
        return -EEXIST;
    snprintf(source.peer, sizeof source.peer, "%s", peer);
    stream->stand_in = stand_in;
    stream->lender = lender;
    attach(stream, &source);
    return 0;
}

void stream_detach(struct stream *stream, uint64_t now) {
    stream->live = false;
    stream->source.session = NULL;
    stream->source.ignored = NULL;
    if (stream->stand_in) {
        stream->stand_in = NULL;
        stream->lender = NULL;
    }
    stream->left_at = now;
    stream->bits_per_second = 0;
    player_list_deliver(stream); /* with the headers, which go */
    forget_media(stream);
    track_payloads_rest(&stream->registry->payloads);
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->ended)
            sink->type->ended(sink, stream);
    publish_lock_released(stream);
    if (stream->registry->left && !stream->fed_by)
        stream->registry->left(stream, stream->registry->left_user);
}

bool stream_is_given_up(const struct stream *stream, uint64_t joined, uint64_t wait_ms, uint64_t now) {
    uint64_t since = stream->left_at > joined ? stream->left_at : joined;
    bool is_searched = stream->cluster.search == STREAM_SEARCH_ASKS || stream->cluster.search == STREAM_SEARCH_COMES;
    /* A replica's publisher has left by the clock of another worker, whose turn may be later. */
    return !stream->live && !publish_lock_is_reserved(stream, now) && !is_searched && now >= since &&
           now - since >= wait_ms;
}

void stream_set_search(struct stream *stream, enum stream_search search) {
    struct stream_sink_walk walk;
    if (stream->cluster.search == search)
        return;
    stream->cluster.search = search;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->searched)
            sink->type->searched(sink, stream);
}

bool stream_is_known(const struct stream *stream) {
    return stream->live && stream->settled;
}

void stream_want(struct stream *stream) {
    if (!stream->live && stream->registry->wanted)
        stream->registry->wanted(stream, stream->registry->wanted_user);
}

/* Reads onMetaData, and cuts off the "@setDataFrame" that only a server wants. True when it is
 * onMetaData: one that is malformed or over a limit is relayed as any other script. */
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
    LOG(LOG_WARNING, "timestamps jumped", {"stream", stream->name}, {"peer", stream->source.peer},
        {"track", is_video ? "video" : "audio"}, {"by_ms", text});
}

/* The time that players are told. */
static uint32_t stream_time(struct stream *stream, const sluice_flv_tag *tag, enum packet_role role, bool is_main) {
    uint32_t threshold = (uint32_t)stream->policy.jump_ms, time = 0;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    unsigned track = tag->type == SLUICE_FLV_AUDIO ? TIMELINE_AUDIO : TIMELINE_VIDEO;
    int32_t by = 0;
    /* Other tracks have the time of the main one, or they would not stay together. */
    if (!packet_role_is_frame(role) || !is_main)
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

/* What another worker lends is not this one's to be short of. */
static int keep(const struct stream *stream, sluice_slice *payload, sluice_slice *ret_kept) {
    struct registry *registry = stream->registry;
    if (stream->lender) {
        *ret_kept = *payload;
        *payload = (sluice_slice){0};
        return 0;
    }
    int error = sluice_slice_take(payload, ret_kept);
    for (int round = 0; error == -ENOBUFS && round < SHED_ROUNDS && registry->make_room(registry, RECLAIM_FOR_BLOCKS);
         round++)
        error = sluice_slice_take(payload, ret_kept);
    return error;
}

/* What the pool lacks while the frame is held, in blocks: views, of which it has a number, count as
 * their share. */
static uint32_t pool_share(const sluice_slice *payload, const sluice_slice *before) {
    size_t blocks = sluice_slice_footprint(payload, before);
    size_t views = sluice_slice_blocks(payload) / SLUICE_POOL_VIEWS_PER_BLOCK;
    return (uint32_t)(views > blocks ? views : blocks);
}

/*
 * What the next frame may share a block with, if the packet is held by anybody; replicas hold its
 * payload. Of a large one its end: nothing else could give the rest up. Headers are mostly copies,
 * which share none.
 */
static void remember(struct stream *stream, const struct packet *packet) {
    size_t length = packet_size(packet), from = length > PREVIOUS_MOST ? length - 1 : 0;
    if (packet->role < PACKET_KEY_FRAME)
        return;
    sluice_slice_release(&stream->previous);
    bool is_held = packet->references > 1 || replicas_any(stream);
    if (!is_held || length == 0 || sluice_slice_sub(&packet->payload, from, length - from, &stream->previous) < 0)
        stream->previous = (sluice_slice){0};
}

static struct packet *new_packet(struct registry *registry, const sluice_flv_tag *tag, enum packet_role role,
                                 uint32_t time, sluice_slice *payload) {
    struct packet *packet = packet_new(registry->packets, tag, role, time, payload);
    for (int round = 0; !packet && round < SHED_ROUNDS && registry->make_room(registry, RECLAIM_FOR_PACKETS); round++)
        packet = packet_new(registry->packets, tag, role, time, payload);
    return packet;
}

/* The version of a header or of metadata, the same for the same bytes in the same place; 0 for
 * others. */
static uint32_t header_version(struct stream *stream, const struct packet *packet) {
    if (packet->role >= PACKET_KEY_FRAME)
        return 0;
    struct track_header *header = packet->role == PACKET_METADATA
                                      ? &stream->metadata_header
                                      : &tracks_at(stream_tracks(stream, packet->type), packet->track)->header;
    return track_header_take(header, &packet->payload, &stream->versions);
}

/* Room among the headers for what is one. */
static bool has_room(struct stream *stream, enum packet_role role, unsigned place) {
    int at = header_place(role, place);
    return at < 0 || stream_headers_need(&stream->headers, (size_t)at) == 0;
}

/* What stays while its publisher does gets memory of its own, so that it holds no block: true where
 * there is some. Another worker's is what that one has made of it. */
static bool keep_apart(const struct stream *stream, sluice_slice *payload, enum packet_role role,
                       sluice_slice *ret_kept) {
    const struct registry *registry = stream->registry;
    if (role >= PACKET_KEY_FRAME || stream->lender || stream->copies >= COPIES_MOST ||
        packet_copy_header(registry->packets, registry->pool, payload, ret_kept) < 0)
        return false;
    sluice_slice_release(payload);
    return true;
}

/* The payload stays with the tag where there is no memory. */
static struct packet *make_packet(struct stream *stream, sluice_flv_tag *tag, enum packet_role role, unsigned place) {
    sluice_slice kept;
    if (!has_room(stream, role, place))
        return NULL;
    bool is_main = tag->type == SLUICE_FLV_SCRIPT || place == stream_tracks(stream, tag->type)->main;
    uint32_t time = stream_time(stream, tag, role, is_main);
    bool is_apart = keep_apart(stream, &tag->payload, role, &kept);
    if (!is_apart && keep(stream, &tag->payload, &kept) < 0)
        return NULL;
    struct packet *packet = new_packet(stream->registry, tag, role, time, &kept);
    if (!packet) {
        tag->payload = kept;
        return NULL;
    }
    packet->received_at = stream->received_at;
    packet->track = (uint8_t)place;
    packet_set_version(packet, header_version(stream, packet));
    /* A copy counts as a block where a group or the headers are bounded by blocks. */
    if (is_apart)
        packet_account(packet, 1, &stream->copies);
    else
        packet_account(packet, pool_share(&packet->payload, &stream->previous), &stream->blocks_held);
    if (stream->lender)
        packet_set_loan(packet, packet_loan(&stream->lender->lent, packet->blocks * stream->registry->block_size));
    return packet;
}

/* The tracks that the publisher says it has; both, where it says nothing. */
static uint8_t claimed_tracks(const struct stream *stream, uint8_t flags) {
    uint8_t claimed = flags & (SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO);
    if (stream->has_metadata)
        claimed = (uint8_t)((stream->metadata.has_video ? SLUICE_FLV_HAS_VIDEO : 0) |
                            (stream->metadata.has_audio ? SLUICE_FLV_HAS_AUDIO : 0));
    return claimed ? claimed : SLUICE_FLV_HAS_AUDIO | SLUICE_FLV_HAS_VIDEO;
}

static uint64_t gop_blocks(const struct stream *stream) {
    return stream->policy.gop_size / stream->registry->block_size;
}

/* What its players may be sent at once. */
static uint64_t opening_blocks(const struct stream *stream) {
    return stream->policy.player_buffer / stream->registry->block_size;
}

/*
 * The beginning of a stream, until its tracks are known: the flags that players are told must be
 * true, or they wait for a track that never comes. What has come meanwhile is in the group, and
 * players start with all of it.
 */
static void collect(struct stream *stream, struct packet *packet) {
    /* What comes before the first frame is with the headers, what comes later is in its place among
     * the frames. */
    if (packet->role < PACKET_KEY_FRAME && !stream->opened)
        return;
    if (!stream->opened) {
        stream->opened = true;
        stream->opened_at = packet->timestamp;
    }
    gop_open(&stream->gop, packet, &stream->headers, opening_blocks(stream));
}

static bool is_settled(const struct stream *stream, const struct packet *packet, uint8_t flags) {
    uint8_t missing = claimed_tracks(stream, flags) & (uint8_t)~stream->seen;
    return stream->opened && (!missing || (int32_t)(packet->timestamp - stream->opened_at) >= SETTLE_MS);
}

static void settle(struct stream *stream) {
    struct registry *registry = stream->registry;
    stream->settled = true;
    tracks_settle(&stream->video);
    tracks_settle(&stream->audio);
    if (registry->opened && !stream->fed_by)
        registry->opened(stream, registry->opened_user);
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->opened)
            sink->type->opened(sink, stream);
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
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->lost)
            sink->type->lost(sink, stream);
}

/* @is_main: of the main track, or of none */
static enum packet_role role_of(const sluice_flv_tag *tag, bool is_metadata, bool is_main) {
    const sluice_flv_view *view = &tag->view;
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    if (tag->type == SLUICE_FLV_SCRIPT)
        return is_metadata ? PACKET_METADATA : PACKET_OTHER;
    if (view->packet == SLUICE_FLV_SEQUENCE_HEADER)
        return is_video ? PACKET_VIDEO_HEADER : PACKET_AUDIO_HEADER;
    if (view->packet != SLUICE_FLV_FRAME)
        return PACKET_OTHER;
    if (is_video)
        return view->key_frame && is_main ? PACKET_KEY_FRAME : PACKET_VIDEO;
    return PACKET_AUDIO;
}

/* @place: of its track */
static void count_tag(struct stream *stream, const sluice_flv_tag *tag, unsigned place) {
    bool is_frame = tag->view.packet == SLUICE_FLV_FRAME;
    if (tag->type == SLUICE_FLV_SCRIPT)
        return;
    struct track *track = tracks_at(stream_tracks(stream, tag->type), place);
    bool is_video = tag->type == SLUICE_FLV_VIDEO;
    stream->seen |= is_video ? SLUICE_FLV_HAS_VIDEO : SLUICE_FLV_HAS_AUDIO;
    if (tag->view.codec)
        track->codec = tag->view.codec;
    track->channels = tag->view.channels;
    track->frames += is_frame;
    track->bytes += tag->size;
    stream->video_frames += is_video && is_frame;
    stream->audio_frames += !is_video && is_frame;
    if (is_frame && place == stream_tracks(stream, tag->type)->main &&
        (is_video || !(stream->seen & SLUICE_FLV_HAS_VIDEO)))
        frame_minute_add(&stream->minute, stream->received_at, tag->size, is_video && tag->view.key_frame);
}

/* Frames that players are still to get were made for the headers before. */
static void set_header(struct stream *stream, struct packet *packet) {
    if (packet->role >= PACKET_KEY_FRAME)
        return;
    player_list_deliver(stream);
    (void)stream_headers_set(&stream->headers, packet); /* has_room() */
}

static void take(struct stream *stream, struct packet *packet, uint8_t flags) {
    set_header(stream, packet);
    /* First, since the memory of the group before may be what the sinks need. */
    if (stream->settled)
        gop_add(&stream->gop, packet, &stream->headers, gop_blocks(stream));
    else
        collect(stream, packet);
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(stream, &walk); sink; sink = stream_next_sink(stream, &walk))
        if (sink->type->packet)
            sink->type->packet(sink, stream, packet, flags);
    if (!stream->settled && is_settled(stream, packet, flags))
        settle(stream);
}

/*
 * There is no memory for a tag. @place: of its track, or negative. A decoder's header that is not
 * known to be the one in force would not come again: publishers send theirs at the beginning.
 */
static int lose_tag(struct stream *stream, const sluice_flv_tag *tag, int place) {
    stream_lose(stream);
    if (tag->type == SLUICE_FLV_SCRIPT || tag->view.packet != SLUICE_FLV_SEQUENCE_HEADER)
        return -ENOMEM;
    enum packet_role role = tag->type == SLUICE_FLV_VIDEO ? PACKET_VIDEO_HEADER : PACKET_AUDIO_HEADER;
    const struct packet *has = place < 0 ? NULL : stream_headers_get(&stream->headers, role, (unsigned)place);
    return has && packet_has_data(has, tag) ? -ENOMEM : -ENOTRECOVERABLE;
}

/* A tag of a track beyond as many as there may be. */
static int leave_out(struct stream *stream, const sluice_flv_tag *tag) {
    stream->beyond_tracks += tag->view.packet == SLUICE_FLV_FRAME;
    return 0;
}

/* A tag of one track at most. */
static int publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags) {
    bool has_track = tag->type != SLUICE_FLV_SCRIPT, is_metadata = read_metadata(stream, tag);
    struct tracks *tracks = stream_tracks(stream, tag->type);
    int place = has_track ? tracks_take(tracks, tag->view.track) : 0;
    if (place < 0)
        return place == -EUSERS ? leave_out(stream, tag) : lose_tag(stream, tag, place);
    enum packet_role role = role_of(tag, is_metadata, has_track && place == tracks->main);
    count_tag(stream, tag, (unsigned)place);
    struct packet *packet = make_packet(stream, tag, role, (unsigned)place);
    if (!packet)
        return lose_tag(stream, tag, place);
    take(stream, packet, flags);
    remember(stream, packet);
    packet_unref(packet);
    return 0;
}

/* There is no memory to make a tag of one track of a tag that holds many. */
static int lose_part(struct stream *stream, const sluice_flv_tag *whole, const sluice_flv_track *track) {
    /* The payload's reference stays the track's. */
    const sluice_flv_tag part = {
        .type = whole->type,
        .view = {.codec = track->codec, .packet = track->packet, .header_size = track->header_size},
        .payload = track->slice,
    };
    int place = tracks_take(stream_tracks(stream, part.type), track->id);
    return place == -EUSERS ? leave_out(stream, &part) : lose_tag(stream, &part, place);
}

/* One track of a tag that holds many, as a tag of its own. */
static int publish_part(struct stream *stream, const sluice_flv_tag *whole, const sluice_flv_track *track,
                        uint8_t flags) {
    sluice_flv_tag tag = {.type = whole->type, .timestamp = whole->timestamp, .trailer_ok = true};
    int error = track_payload_make(&stream->registry->payloads, tag.type, track, false, &tag.payload, &tag.view);
    if (error)
        return lose_part(stream, whole, track);
    tag.size = (uint32_t)sluice_slice_length(&tag.payload);
    error = publish(stream, &tag, flags);
    sluice_slice_release(&tag.payload);
    return error;
}

/*
 * Publishes the tracks of a tag that holds many, each as a tag of its own; as many as there may be,
 * and what is behind them is not looked at. The main track's is the first, since a group begins
 * with its key frame, and the others' key frames belong to it. As of stream_publish()
 */
static __attribute__((noinline)) int publish_parts(struct stream *stream, const sluice_flv_tag *tag, uint8_t flags) {
    uint8_t main = tracks_main(stream_tracks(stream, tag->type))->id;
    int error = 0, result = 1;
    bool is_frame = tag->view.packet == SLUICE_FLV_FRAME;
    for (int others = 0; others < 2; others++) {
        sluice_flv_tracks place = {0};
        sluice_flv_track track;
        for (unsigned i = 0; i < TRACKS_MOST; i++) {
            result = sluice_flv_next_track(&place, tag->type, &tag->payload, &track);
            if (result != 1)
                break;
            int failed = (track.id != main) == others ? publish_part(stream, tag, &track, flags) : 0;
            error = error == -ENOTRECOVERABLE || failed == 0 ? error : failed;
            sluice_slice_release(&track.slice);
        }
        if (others && result == 1 && sluice_flv_next_track(&place, tag->type, &tag->payload, &track) == 1) {
            stream->beyond_tracks += is_frame;
            sluice_slice_release(&track.slice);
        }
    }
    stream->frames_dropped += result < 0 && is_frame;
    return error;
}

int stream_publish(struct stream *stream, sluice_flv_tag *tag, uint8_t flags) {
    stream->bytes += SLUICE_FLV_TAG_HEADER_SIZE + tag->size + SLUICE_FLV_TRAILER_SIZE;
    stream->received_at = sluice_loop_now(stream->registry->loop);
    if (!tag->view.many_tracks || tag->view.packet == SLUICE_FLV_OTHER)
        return publish(stream, tag, flags);
    return publish_parts(stream, tag, flags);
}

void stream_replica_begin(struct stream *replica) {
    stream_add_totals(replica, &replica->registry->gone);
    begin(replica);
}

void stream_replica_end(struct stream *replica, uint64_t left_at, uint64_t kept_until) {
    if (replica->live)
        stream_detach(replica, left_at);
    publish_lock_unreserve(replica);
    stream_keep(replica, kept_until);
}

/* The payload stays with the tag where there is no memory. */
static struct packet *make_replica_packet(struct stream *replica, struct stream_tag *tag) {
    if (!has_room(replica, tag->role, tag->track))
        return NULL;
    struct packet *packet = new_packet(replica->registry, &tag->tag, tag->role, tag->tag.timestamp, &tag->tag.payload);
    if (!packet)
        return NULL;
    packet->received_at = tag->received_at;
    packet->track = tag->track;
    packet_set_version(packet, tag->version);
    if (tag->loan.account)
        packet_set_loan(packet, tag->loan);
    tag->loan = (struct packet_loan){0};
    packet_account(packet, tag->blocks, &replica->blocks_held);
    return packet;
}

/* The places are those that the stream's own worker has given. 0, -ENOMEM */
static int take_replica_track(struct stream *replica, const struct stream_tag *tag) {
    if (tag->tag.type == SLUICE_FLV_SCRIPT)
        return 0;
    struct tracks *tracks = stream_tracks(replica, tag->tag.type);
    if (tracks_need(tracks, tag->track) < 0 || tracks_need(tracks, tag->main) < 0)
        return -ENOMEM;
    tracks->main = tag->main;
    struct track *track = tracks_at(tracks, tag->track);
    track->id = tag->tag.view.track;
    track->seen = true;
    return 0;
}

/*
 * Where there is no memory for a decoder's header, the replica waits for it to come again: unless
 * it is the one in force. @packet: NULL: there is no memory
 */
static void note_header(struct stream *replica, const struct stream_tag *tag, const struct packet *packet) {
    if (tag->role != PACKET_VIDEO_HEADER && tag->role != PACKET_AUDIO_HEADER)
        return;
    uint64_t bit = (uint64_t)1 << header_place(tag->role, tag->track);
    const struct packet *has = stream_headers_get(&replica->headers, tag->role, tag->track);
    if (packet) {
        replica->lacking &= ~bit;
    } else if (!has || tag->version == 0 || packet_version(has) != tag->version) {
        replica->lacking |= bit;
        replica_want_headers(replica->fed_by);
    }
}

/* A frame that cannot be decoded: players that wait for a key frame wait for a header first. */
static void hold_back(struct stream *replica, const struct stream_tag *tag) {
    for (struct player *player = replica->players; player; player = player->next)
        player_miss(player, tag->tag.type, tag->track == tag->main);
}

void stream_replica_publish(struct stream *replica, struct stream_tag *tag) {
    (void)read_metadata(replica, &tag->tag);
    replica->bytes += SLUICE_FLV_TAG_HEADER_SIZE + tag->tag.size + SLUICE_FLV_TRAILER_SIZE;
    replica->received_at = tag->received_at;
    if (take_replica_track(replica, tag) < 0) {
        note_header(replica, tag, NULL);
        stream_lose(replica);
        return;
    }
    count_tag(replica, &tag->tag, tag->track);
    if (replica->lacking && packet_role_is_frame(tag->role)) {
        hold_back(replica, tag);
        return;
    }
    struct packet *packet = make_replica_packet(replica, tag);
    note_header(replica, tag, packet);
    if (!packet) {
        stream_lose(replica);
        return;
    }
    take(replica, packet, tag->flags);
    packet_unref(packet);
}

/*
 * A header behind a gap. Players see by the headers' version that it is another one. RTP is made
 * with the header that the packetizer was given last, and a stand-in has passed on that one.
 */
static void tell_header(struct stream *replica, struct packet *header) {
    struct stream_sink_walk walk;
    for (struct stream_sink *sink = stream_first_sink(replica, &walk); sink; sink = stream_next_sink(replica, &walk))
        if (sink->type->rank == SINK_PACKETIZER || sink->type->rank == SINK_STAND_IN)
            sink->type->packet(sink, replica, header, 0);
}

void stream_replica_cache(struct stream *replica, struct stream_tag *tag, bool in_group) {
    int error = take_replica_track(replica, tag);
    struct packet *packet = error || (replica->lacking && packet_role_is_frame(tag->role))
                                ? NULL
                                : make_replica_packet(replica, tag);
    note_header(replica, tag, packet);
    if (!packet) {
        gop_drop(&replica->gop);
        return;
    }
    set_header(replica, packet);
    if (!in_group && replica->settled && packet->role < PACKET_KEY_FRAME)
        tell_header(replica, packet);
    if (in_group)
        gop_open(&replica->gop, packet, &replica->headers, opening_blocks(replica));
    packet_unref(packet);
}
