#include "daemon/control/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/relay/slow_player.h"
#include "daemon/relay/stand_in.h"
#include "daemon/relay/video_size.h"
#include "daemon/server/server.h"

const char *snapshot_drop_name(enum player_drop cause) {
    static const char *const names[DROP_CAUSES] = {
        [DROP_QUEUE_FULL] = "queue_full", [DROP_NO_MEMORY] = "no_memory", [DROP_UNTIL_KEY] = "until_key_frame",
        [DROP_PAUSED] = "paused",         [DROP_CATCH_UP] = "catch_up",
    };
    return names[cause];
}

struct context {
    struct worker *worker;
    const struct snapshot_request *request;
    struct snapshot *snapshot;
    uint32_t room; /* for players */
    bool slow;     /* of players: those that are, or those that are not; with a limit alone */
    bool failing;  /* of edges, likewise */
};

static void count_stream(struct stream *stream, void *user) {
    struct snapshot *snapshot = user;
    snapshot->stream_count++;
    snapshot->player_count += stream->player_count;
}

static void add_sums(struct stream *stream, void *user) {
    const struct context *context = user;
    struct snapshot_sums *sums = &context->snapshot->sums;
    for (const struct player *player = stream->players; player; player = player->next) {
        sums->players++;
        sums->slow += slow_player_is(player, worker_now(context->worker));
    }
    if (stream->fed_by)
        return;
    sums->live += stream->live;
    sums->waiting += !stream->live;
    sums->bits_per_second += stream->bits_per_second;
}

static unsigned take_tracks(const struct tracks *tracks, struct snapshot_track *to) {
    unsigned count = 0;
    for (unsigned i = 0; i < tracks_room(tracks); i++) {
        const struct track *track = tracks_get(tracks, i);
        if (!track->seen)
            continue;
        to[count] = (struct snapshot_track){
            .id = track->id, .is_main = i == tracks->main, .frames = track->frames, .bytes = track->bytes};
        codec_name(track->codec, to[count++].codec);
    }
    return count;
}

static void take_media(const struct stream *stream, struct snapshot_stream *to) {
    to->has_video = stream->seen & SLUICE_FLV_HAS_VIDEO;
    to->has_audio = stream->seen & SLUICE_FLV_HAS_AUDIO;
    codec_name(tracks_main(&stream->video)->codec, to->video_codec);
    codec_name(tracks_main(&stream->audio)->codec, to->audio_codec);
    to->video_count = take_tracks(&stream->video, to->video_tracks);
    to->audio_count = take_tracks(&stream->audio, to->audio_tracks);
    to->beyond_tracks = stream->beyond_tracks;
    video_size(stream, &to->width, &to->height);
    to->frame_rate = stream->metadata.frame_rate;
}

static void take_recording(const struct recorder *recorder, struct snapshot_stream *to) {
    to->is_recorded = true;
    to->record_state = recorder_state_name(recorder);
    memcpy(to->record_file, recorder->file, sizeof to->record_file);
    to->record_files = recorder->files;
    to->record_bytes = recorder->bytes;
    to->record_frames = recorder->frames;
    to->record_dropped = recorder->frames_dropped;
    to->record_queued = recorder_queued(recorder);
    to->record_error = -recorder->error;
}

static void take_stream(struct stream *stream, void *user) {
    const struct context *context = user;
    uint64_t now = worker_now(context->worker);
    uint32_t window_ms = options_merge_window(context->worker->options, stream->name, OPTIONS_MERGE_UNSET);
    struct snapshot_stream *to = &context->snapshot->streams[context->snapshot->stream_count++];
    *to = (struct snapshot_stream){
        .id = stream->id,
        .worker = context->worker->index,
        .is_replica = stream->fed_by,
        .live = stream->live,
        .state_ms = now - (stream->live ? stream->source.since : stream->left_at),
        .kept_ms = publish_lock_is_reserved(stream, now) ? stream->kept_until - now : 0,
        .left_why = stream->left_why,
        .bytes = stream->bytes,
        .video_frames = stream->video_frames,
        .audio_frames = stream->audio_frames,
        .frames_lost = stream->frames_dropped,
        .timestamp_jumps = stream->timeline.jumps,
        .bits_per_second = stream->bits_per_second,
        .players = stream->player_count,
        .merge_window_ms = coalesce_window_now(&stream->registry->merging, window_ms),
        .merge_window_auto = window_ms == COALESCE_WINDOW_AUTO,
        .sends = stream_sends(stream),
        .blocks_held = stream->blocks_held,
        .gop_frames = stream->gop.count,
        .gop_bytes = stream->gop.bytes,
        .record = record_overrides_find(&context->worker->recorders.overrides, stream->name),
    };
    strcpy(to->name, stream->name);
    const struct recorder *recorder = recorder_of(stream);
    if (recorder)
        take_recording(recorder, to);
    if (!stream->live || stream->fed_by)
        return;
    to->publisher_id = stream->publisher_id;
    if (stream->stand_in)
        strcpy(to->backup, stream->stand_in->source->name);
    to->protocol = stream->source.protocol;
    to->silent_ms = now - stream->received_at;
    to->interval_ms = stream->source.interval_ms;
    memcpy(to->address, stream->source.peer, sizeof to->address);
    if (stream->source.ignored)
        snprintf(to->ignored, sizeof to->ignored, "%s", stream->source.ignored);
    take_media(stream, to);
}

static const char *state_name(enum player_state state) {
    switch (state) {
    case PLAYER_PAUSED:
        return "paused";
    case PLAYER_ASKING:
    case PLAYER_WAITING:
        return "waiting";
    case PLAYER_PLAYING:
        return "playing";
    case PLAYER_BEHIND:
        return "dropping";
    case PLAYER_ENDING:
        return "ending";
    }
    return "";
}

static void take_player(const struct player *player, uint64_t now, struct snapshot_player *to) {
    const struct session *session = player->user;
    *to = (struct snapshot_player){
        .id = player->id,
        .worker = session->worker->index,
        .protocol = player->protocol,
        .state = state_name(player->state),
        .age_ms = now - player->since,
        .bytes_sent = player->bytes_sent,
        .frames_sent = player->packets_sent,
        .sends = player->sends,
        .merge_window_ms = coalesce_window_now(&player->stream->registry->merging, player->merge_window_ms),
        .merge_window_auto = player->merge_window_ms == COALESCE_WINDOW_AUTO,
        .queued_bytes = player->queued_bytes,
        .encrypted_bytes = player_encrypted(player),
        .kernel_sends = session_kernel_sends(session),
        .queued_ms = player_queued_ms(player),
        .behind_ms = player_behind_ms(player, now),
        .stalled_ms = slow_player_stalled_ms(player, now),
        .slow = slow_player_is(player, now),
    };
    strcpy(to->stream, player->stream->name);
    memcpy(to->address, session->peer, sizeof to->address);
    memcpy(to->dropped, player->dropped, sizeof to->dropped);
}

static void take_players(struct stream *stream, void *user) {
    const struct context *context = user;
    const uint64_t now = worker_now(context->worker);
    struct snapshot *snapshot = context->snapshot;
    for (const struct player *player = stream->players; player && snapshot->player_count < context->room;
         player = player->next)
        if (!context->request->most_players || slow_player_is(player, now) == context->slow)
            take_player(player, now, &snapshot->players[snapshot->player_count++]);
}

static void count_pull(const struct pull *pull, void *user) {
    size_t *count = user;
    (void)pull;
    ++*count;
}

static void take_pull(const struct pull *pull, void *user) {
    const struct context *context = user;
    const struct outgoing *machine = &pull->machine;
    uint64_t now = worker_now(context->worker);
    struct snapshot *snapshot = context->snapshot;
    struct snapshot_pull *to = &snapshot->pulls[snapshot->pull_count++];
    *to = (struct snapshot_pull){
        .id = pull->id,
        .type = pull->option.type->scheme.name,
        .step = machine->state == OUTGOING_NEGOTIATING ? pull->step : NULL,
        .state = machine->state,
        .state_ms = now - machine->since,
        .retry_ms = machine->retry_at > now ? machine->retry_at - now : 0,
        .on_demand = machine->on_demand,
        .failures = machine->failures,
        .source = pull->source,
        .expires = pull->expires_at > 0,
        .ttl_ms = pull->expires_at > now ? pull->expires_at - now : 0,
    };
    snprintf(to->stream, sizeof to->stream, "%s", pull->option.name);
    memcpy(to->place, pull->target.place, sizeof to->place);
    memcpy(to->reason, pull->reason, sizeof to->reason);
}

static void count_forward(const struct forward *forward, void *user) {
    size_t *count = user;
    (void)forward;
    ++*count;
}

static void take_forward(const struct forward *forward, void *user) {
    const struct context *context = user;
    const struct outgoing *machine = &forward->machine;
    uint64_t now = worker_now(context->worker);
    struct snapshot *snapshot = context->snapshot;
    struct snapshot_forward *to = &snapshot->forwards[snapshot->forward_count++];
    struct stream_totals totals;
    forward_get_totals(forward, &totals);
    *to = (struct snapshot_forward){
        .id = forward->id,
        .type = forward->option.type->scheme.name,
        .position = forward->position + 1,
        .step = machine->state == OUTGOING_NEGOTIATING ? forward->step : NULL,
        .tracks = forward_tracks_name(forward),
        .kernel_sends = forward_kernel_sends(forward),
        .state = machine->state,
        .state_ms = now - machine->since,
        .retry_ms = machine->retry_at > now ? machine->retry_at - now : 0,
        .failures = machine->failures,
        .bytes_sent = totals.bytes_sent,
        .frames_sent = totals.frames_sent,
    };
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        to->frames_dropped += totals.dropped[cause];
    strcpy(to->stream, forward->stream->name);
    memcpy(to->place, forward->target.place, sizeof to->place);
    memcpy(to->reason, forward->reason, sizeof to->reason);
}

/* Room for so many things, at least one. */
static bool make_room(void *list, size_t *count, size_t size) {
    void **to = list;
    *to = calloc(*count ? *count : 1, size);
    *count = 0;
    return *to != NULL;
}

static int take_wishes(const struct record_overrides *overrides, struct snapshot *snapshot) {
    snapshot->override_count = overrides->count;
    if (!make_room(&snapshot->overrides, &snapshot->override_count, sizeof *snapshot->overrides))
        return -ENOMEM;
    if (overrides->count > 0)
        memcpy(snapshot->overrides, overrides->list, overrides->count * sizeof *overrides->list);
    snapshot->override_count = overrides->count;
    return 0;
}

static int take_bans(struct worker *worker, struct snapshot *snapshot) {
    const uint64_t now = worker_now(worker);
    size_t count;
    const struct ban *bans = bans_list(&worker->registry->bans, now, &count);
    snapshot->ban_count = count;
    if (!make_room(&snapshot->bans, &snapshot->ban_count, sizeof *snapshot->bans))
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct snapshot_ban *to = &snapshot->bans[snapshot->ban_count++];
        to->is_shared = bans[i].is_shared;
        to->has_age = bans[i].since > 0;
        to->age_ms = now - bans[i].since;
        to->left_ms = bans[i].until - now;
        memcpy(to->stream, bans[i].stream, sizeof to->stream);
        memcpy(to->host, bans[i].host, sizeof to->host);
        memcpy(to->node, bans[i].node, sizeof to->node);
    }
    return 0;
}

/* Calls for each stream that is asked for: a replica has the name of its stream. */
static void each_stream(const struct context *context, void (*call)(struct stream *stream, void *user), void *user) {
    struct registry *registry = context->worker->registry;
    struct stream *stream;
    if (!*context->request->stream)
        registry_each(registry, call, user);
    else if ((stream = registry_find(registry, context->request->stream)))
        call(stream, user);
}

static void take_replica(struct stream *stream, void *user) {
    if (stream->fed_by)
        take_stream(stream, user);
}

static void count_replica(struct stream *stream, void *user) {
    size_t *count = user;
    *count += stream->fed_by != NULL;
}

/* The page's streams, and all replicas: their players count with their streams. */
static int take_page(struct context *context) {
    struct snapshot *snapshot = context->snapshot;
    struct registry *registry = context->worker->registry;
    struct stream **list;
    size_t count;
    int error = stream_page_select(context->request->page, registry, &list, &count, &snapshot->matching);
    if (error)
        return error;
    size_t room = count;
    registry_each(registry, count_replica, &room);
    if (make_room(&snapshot->streams, &room, sizeof *snapshot->streams)) {
        for (size_t i = 0; i < count; i++)
            take_stream(list[i], context);
        registry_each(registry, take_replica, context);
    } else {
        error = -ENOMEM;
    }
    free(list);
    return error;
}

static int take_streams(struct context *context) {
    struct snapshot *snapshot = context->snapshot;
    bool is_wanted = context->request->parts & SNAPSHOT_STREAMS;
    if (is_wanted && context->request->page) {
        snapshot->stream_count = 0;
        return take_page(context);
    }
    if (!is_wanted)
        snapshot->stream_count = 0;
    if (!make_room(&snapshot->streams, &snapshot->stream_count, sizeof *snapshot->streams))
        return -ENOMEM;
    if (is_wanted)
        each_stream(context, take_stream, context);
    return 0;
}

static int take_all_players(struct context *context) {
    struct snapshot *snapshot = context->snapshot;
    const uint32_t most = context->request->most_players;
    if (!(context->request->parts & SNAPSHOT_PLAYERS))
        snapshot->player_count = 0;
    if (most && snapshot->player_count > most)
        snapshot->player_count = most;
    context->room = (uint32_t)snapshot->player_count;
    if (!make_room(&snapshot->players, &snapshot->player_count, sizeof *snapshot->players))
        return -ENOMEM;
    if (!context->room)
        return 0;
    context->slow = true;
    each_stream(context, take_players, context);
    context->slow = false;
    if (most)
        each_stream(context, take_players, context);
    return 0;
}

static int take_pulls(struct context *context) {
    struct snapshot *snapshot = context->snapshot;
    pulls_each(context->worker, count_pull, &snapshot->pull_count);
    if (!make_room(&snapshot->pulls, &snapshot->pull_count, sizeof *snapshot->pulls))
        return -ENOMEM;
    if (context->request->parts & SNAPSHOT_PULLS)
        pulls_each(context->worker, take_pull, context);
    return 0;
}

static int take_forwards(struct context *context) {
    struct snapshot *snapshot = context->snapshot;
    forwards_each(context->worker, count_forward, &snapshot->forward_count);
    if (!make_room(&snapshot->forwards, &snapshot->forward_count, sizeof *snapshot->forwards))
        return -ENOMEM;
    if (context->request->parts & SNAPSHOT_FORWARDS)
        forwards_each(context->worker, take_forward, context);
    return 0;
}

static void count_edge(const struct edge_status *edge, void *user) {
    struct snapshot_edge_counts *counts = user;
    counts->of[edge->phase]++;
    counts->failing += edge->failures > 0;
}

static void take_edge(const struct edge_status *edge, void *user) {
    const struct context *context = user;
    struct snapshot *snapshot = context->snapshot;
    if (snapshot->edge_count == context->request->most_edges || (edge->failures > 0) != context->failing)
        return;
    struct snapshot_edge *to = &snapshot->edges[snapshot->edge_count++];
    to->phase = edge->phase;
    to->mode = edge->mode;
    to->epoch = edge->epoch;
    to->failures = edge->failures;
    snprintf(to->stream, sizeof to->stream, "%s", edge->stream);
    snprintf(to->node, sizeof to->node, "%s", edge->node);
    snprintf(to->address, sizeof to->address, "%s", edge->address);
    snprintf(to->reason, sizeof to->reason, "%s", edge->reason);
}

static int take_edges(struct context *context) {
    struct snapshot *snapshot = context->snapshot;
    if (!(context->request->parts & SNAPSHOT_EDGES))
        return 0;
    edges_each(context->worker, count_edge, &snapshot->edge_counts);
    if (!context->request->most_edges)
        return 0;
    snapshot->edges = calloc(context->request->most_edges, sizeof *snapshot->edges);
    if (!snapshot->edges)
        return -ENOMEM;
    context->failing = true;
    edges_each(context->worker, take_edge, context);
    context->failing = false;
    edges_each(context->worker, take_edge, context);
    return 0;
}

static int take_frames(const struct context *context) {
    const struct worker *worker = context->worker;
    const struct stream *stream = registry_find(worker->registry, context->request->stream);
    if (!(context->request->parts & SNAPSHOT_FRAMES) || !stream || stream->fed_by)
        return 0;
    context->snapshot->frames = calloc(FRAME_MINUTE_SECONDS, sizeof *context->snapshot->frames);
    if (!context->snapshot->frames)
        return -ENOMEM;
    frame_minute_get(&stream->minute, worker_now(worker), context->snapshot->frames);
    return 0;
}

static int take_lists(struct worker *worker, const struct snapshot_request *request, struct snapshot *snapshot) {
    struct context context = {.worker = worker, .request = request, .snapshot = snapshot};
    each_stream(&context, count_stream, snapshot);
    if (request->parts & SNAPSHOT_SUMS)
        registry_each(worker->registry, add_sums, &context);
    int error = take_streams(&context);
    error = error ? error : take_all_players(&context);
    error = error ? error : take_pulls(&context);
    error = error ? error : take_forwards(&context);
    error = error ? error : take_edges(&context);
    error = error ? error : take_frames(&context);
    if (!error && request->parts & SNAPSHOT_OVERRIDES)
        error = take_wishes(&worker->recorders.overrides, snapshot);
    if (!error && request->parts & SNAPSHOT_BANS)
        error = take_bans(worker, snapshot);
    return error;
}

static void count_tls(struct worker *worker, struct snapshot *snapshot) {
    worker_count_tls(worker);
    snapshot->tls_bytes = worker->tls_bytes;
    for (const struct session *session = worker->sessions; session; session = session->next) {
        snapshot->tls_connections += session->tls && !session_is_shaking(session);
        snapshot->ktls_connections += session_kernel_sends(session);
    }
}

/* Of the calling thread. */
static uint64_t thread_cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int snapshot_take(struct worker *worker, const struct snapshot_request *request, struct snapshot **ret_snapshot) {
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return -ENOMEM;
    snapshot->uptime_ms = worker_now(worker) - server_started_at(worker->server);
    snapshot->cpu_ns = thread_cpu_ns();
    snapshot->connections = worker->session_count;
    if (request->parts & SNAPSHOT_TLS)
        count_tls(worker, snapshot);
    snapshot->pool.size = sizeof snapshot->pool;
    snapshot->loop.size = sizeof snapshot->loop;
    sluice_pool_get_stats(worker->pool, &snapshot->pool);
    sluice_loop_get_stats(worker->loop, &snapshot->loop);
    registry_get_totals(worker->registry, &snapshot->totals);
    snapshot->merging = worker->registry->merging;
    snapshot->batch_us = worker->batch_us;
    snapshot->lent_bytes = atomic_load(&worker->site.lent);
    snapshot->packet_bytes = registry_packet_bytes(worker->registry);
    if (worker->listeners)
        listeners_addresses(worker->listeners, worker->options, snapshot->listeners);
    int error = take_lists(worker, request, snapshot);
    if (error) {
        snapshot_free(snapshot);
        return error;
    }
    *ret_snapshot = snapshot;
    return 0;
}

static struct snapshot_stream *find_stream(struct snapshot *const *list, size_t count, uint64_t id) {
    for (size_t at = 0; at < count; at++)
        for (size_t i = 0; list[at] && i < list[at]->stream_count; i++)
            if (list[at]->streams[i].id == id && !list[at]->streams[i].is_replica)
                return &list[at]->streams[i];
    return NULL;
}

void snapshots_fold(struct snapshot *const *list, size_t count) {
    for (size_t at = 0; at < count; at++) {
        struct snapshot *snapshot = list[at];
        size_t kept = 0;
        for (size_t i = 0; snapshot && i < snapshot->stream_count; i++) {
            const struct snapshot_stream *replica = &snapshot->streams[i];
            if (!replica->is_replica) {
                snapshot->streams[kept++] = *replica;
                continue;
            }
            struct snapshot_stream *stream = find_stream(list, count, replica->id);
            if (!stream)
                continue;
            stream->players += replica->players;
        }
        if (snapshot)
            snapshot->stream_count = kept;
    }
}

bool snapshots_are_whole(const struct snapshots *snapshots) {
    for (size_t i = 0; i < snapshots->count; i++)
        if (!snapshots->list[i])
            return false;
    return true;
}

void snapshot_free(struct snapshot *snapshot) {
    if (!snapshot)
        return;
    free(snapshot->streams);
    free(snapshot->players);
    free(snapshot->pulls);
    free(snapshot->frames);
    free(snapshot->forwards);
    free(snapshot->edges);
    free(snapshot->overrides);
    free(snapshot->bans);
    free(snapshot);
}
