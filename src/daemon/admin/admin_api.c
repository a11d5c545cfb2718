#include "daemon/admin/admin_api.h"

#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "daemon/admin/admin_cluster.h"

static double seconds(uint64_t ms) {
    return (double)ms / 1000;
}

static void add_ignored(const char *names, struct json *json) {
    json_open(json, "tracks_ignored", '[');
    while (*names) {
        char name[STREAM_IGNORED];
        size_t length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        json_put_string(json, NULL, name);
        names += length;
        names += strspn(names, ", ");
    }
    json_close(json, ']');
}

static void add_publisher(const struct snapshot_stream *stream, const char *key, struct json *json) {
    json_open(json, key, '{');
    json_put_unsigned(json, "id", stream->publisher_id);
    json_put_string(json, "stream", stream->name);
    json_put_string(json, "address", stream->address);
    json_put_string(json, "protocol", stream->protocol);
    json_put_real(json, "connected_seconds", seconds(stream->state_ms));
    json_put_real(json, "silent_seconds", seconds(stream->silent_ms));
    json_put_unsigned(json, "bytes_received", stream->bytes);
    json_put_unsigned(json, "bits_per_second", stream->bits_per_second);
    json_put_unsigned(json, "frames_lost", stream->frames_lost);
    json_put_unsigned(json, "timestamp_jumps", stream->timestamp_jumps);
    add_ignored(stream->ignored, json);
    json_close(json, '}');
}

static void add_tracks(const struct snapshot_track *tracks, unsigned count, struct json *json) {
    json_open(json, "tracks", '[');
    for (unsigned i = 0; i < count; i++) {
        json_open(json, NULL, '{');
        json_put_unsigned(json, "id", tracks[i].id);
        json_put_string(json, "codec", tracks[i].codec);
        json_put_bool(json, "default", tracks[i].is_main);
        json_put_unsigned(json, "frames", tracks[i].frames);
        json_put_unsigned(json, "bytes", tracks[i].bytes);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void add_video(const struct snapshot_stream *stream, struct json *json) {
    if (!stream->has_video) {
        json_put_null(json, "video");
        return;
    }
    json_open(json, "video", '{');
    json_put_string(json, "codec", stream->video_codec);
    json_put_real(json, "width", stream->width);
    json_put_real(json, "height", stream->height);
    json_put_real(json, "frame_rate", stream->frame_rate);
    add_tracks(stream->video_tracks, stream->video_count, json);
    json_close(json, '}');
}

static void add_audio(const struct snapshot_stream *stream, struct json *json) {
    if (!stream->has_audio) {
        json_put_null(json, "audio");
        return;
    }
    json_open(json, "audio", '{');
    json_put_string(json, "codec", stream->audio_codec);
    add_tracks(stream->audio_tracks, stream->audio_count, json);
    json_close(json, '}');
}

static void add_recording(const struct snapshot_stream *stream, struct json *json) {
    json_put_string(json, "record", record_override_name(stream->record));
    if (!stream->is_recorded) {
        json_put_null(json, "recording");
        return;
    }
    json_open(json, "recording", '{');
    json_put_string(json, "state", stream->record_state);
    json_put_optional(json, "file", stream->record_file);
    json_put_unsigned(json, "files", stream->record_files);
    json_put_unsigned(json, "bytes", stream->record_bytes);
    json_put_unsigned(json, "frames", stream->record_frames);
    json_put_unsigned(json, "frames_dropped", stream->record_dropped);
    json_put_unsigned(json, "queued_bytes", stream->record_queued);
    json_put_optional(json, "error", stream->record_error ? strerror(stream->record_error) : NULL);
    json_close(json, '}');
}

static void add_stream_fields(const struct snapshot_stream *stream, struct json *json) {
    json_put_unsigned(json, "id", stream->id);
    json_put_string(json, "name", stream->name);
    json_put_unsigned(json, "worker", stream->worker);
    json_put_string(json, "state", stream->live ? "live" : "waiting");
    if (stream->live && !*stream->backup)
        add_publisher(stream, "publisher", json);
    else
        json_put_null(json, "publisher");
    json_put_optional(json, "backup", stream->backup);
    json_put_optional(json, "previous_end", stream->left_why);
    json_put_real(json, "kept_seconds", seconds(stream->kept_ms));
    json_put_real(json, "uptime_seconds", seconds(stream->state_ms));
    json_put_unsigned(json, "bytes_received", stream->bytes);
    json_open(json, "frames", '{');
    json_put_unsigned(json, "video", stream->video_frames);
    json_put_unsigned(json, "audio", stream->audio_frames);
    json_close(json, '}');
    add_video(stream, json);
    add_audio(stream, json);
    json_put_unsigned(json, "frames_beyond_tracks", stream->beyond_tracks);
    json_put_unsigned(json, "bits_per_second", stream->bits_per_second);
    json_put_unsigned(json, "subscribers", stream->players);
    json_put_unsigned(json, "receive_interval_ms", stream->interval_ms);
    json_put_unsigned(json, "merge_window_ms", stream->merge_window_ms);
    json_put_bool(json, "merge_window_auto", stream->merge_window_auto);
    json_put_unsigned(json, "sends", stream->sends);
    json_put_unsigned(json, "frames_dropped", stream->frames_lost);
    json_put_unsigned(json, "blocks_held", stream->blocks_held);
    json_open(json, "gop", '{');
    json_put_unsigned(json, "frames", stream->gop_frames);
    json_put_unsigned(json, "bytes", stream->gop_bytes);
    json_close(json, '}');
    add_recording(stream, json);
}

static void add_player(const struct snapshot_player *player, struct json *json) {
    uint64_t dropped = 0;
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        dropped += player->dropped[cause];
    json_open(json, NULL, '{');
    json_put_unsigned(json, "id", player->id);
    json_put_string(json, "stream", player->stream);
    json_put_unsigned(json, "worker", player->worker);
    json_put_string(json, "address", player->address);
    json_put_string(json, "protocol", player->protocol);
    json_put_string(json, "state", player->state);
    json_put_bool(json, "slow", player->slow);
    json_put_real(json, "connected_seconds", seconds(player->age_ms));
    json_put_unsigned(json, "bytes_sent", player->bytes_sent);
    json_put_unsigned(json, "frames_sent", player->frames_sent);
    json_put_unsigned(json, "sends", player->sends);
    json_put_unsigned(json, "merge_window_ms", player->merge_window_ms);
    json_put_bool(json, "merge_window_auto", player->merge_window_auto);
    json_put_unsigned(json, "frames_dropped", dropped);
    json_open(json, "drops", '{');
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        json_put_unsigned(json, snapshot_drop_name((enum player_drop)cause), player->dropped[cause]);
    json_close(json, '}');
    json_put_unsigned(json, "queued_bytes", player->queued_bytes);
    json_put_unsigned(json, "encrypted_bytes", player->encrypted_bytes);
    json_put_bool(json, "ktls", player->kernel_sends);
    json_put_unsigned(json, "queued_ms", player->queued_ms);
    json_put_unsigned(json, "behind_ms", player->behind_ms);
    json_put_unsigned(json, "stalled_ms", player->stalled_ms);
    json_close(json, '}');
}

static void add_pull(const struct snapshot_pull *pull, struct json *json) {
    json_open(json, NULL, '{');
    json_put_unsigned(json, "id", pull->id);
    json_put_string(json, "stream", pull->stream);
    json_put_string(json, "from", pull->place);
    json_put_string(json, "type", pull->type);
    json_put_string(json, "state", outgoing_state_name(pull->state));
    json_put_optional(json, "step", pull->step);
    json_put_real(json, "state_seconds", seconds(pull->state_ms));
    json_put_string(json, "mode", pull->on_demand ? "on-demand" : "always");
    json_put_string(json, "source", pull->source == PULL_CONFIGURED ? "configuration" : "api");
    json_put_real_if(json, "ttl_seconds", pull->expires, seconds(pull->ttl_ms));
    json_put_unsigned(json, "failures", pull->failures);
    json_put_optional(json, "reason", pull->reason);
    json_put_real_if(json, "retry_seconds", pull->state == OUTGOING_BACKOFF, seconds(pull->retry_ms));
    json_close(json, '}');
}

/* Workers that have answered, one after the other. */
#define EACH_SNAPSHOT(at, view)                                                                                        \
    for (size_t at = 0; at < (view)->snapshots.count; at++)                                                            \
        if ((view)->snapshots.list[at])

static void add_stream(const struct snapshot_stream *stream, struct json *json) {
    json_open(json, NULL, '{');
    add_stream_fields(stream, json);
    json_close(json, '}');
}

/* The page of the streams, and how many there are of which it is one. */
static void add_page(const struct admin_view *view, struct json *json) {
    const struct snapshot_stream **list;
    size_t count, matching = 0;
    if (stream_page_merge(view->page, &view->snapshots, &list, &count) < 0) {
        json->failed = true;
        return;
    }
    json_open(json, "streams", '[');
    for (size_t i = 0; i < count; i++)
        add_stream(list[i], json);
    json_close(json, ']');
    free(list);
    EACH_SNAPSHOT(at, view) {
        matching += view->snapshots.list[at]->matching;
    }
    json_put_unsigned(json, "matching", matching);
}

void admin_streams(const struct admin_view *view, struct json *json) {
    if (view->page) {
        add_page(view, json);
        return;
    }
    json_open(json, "streams", '[');
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->stream_count; i++)
            add_stream(&snapshot->streams[i], json);
    }
    json_close(json, ']');
}

/* Those that are slow, or those that are not, as long as there is room. */
static void add_some(const struct admin_view *view, bool slow, uint32_t *room, struct json *json) {
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i<snapshot->player_count && * room> 0; i++) {
            if (snapshot->players[i].slow != slow)
                continue;
            add_player(&snapshot->players[i], json);
            --*room;
        }
    }
}

/* Each worker has given as many as there may be in all. */
static void add_limited_players(const struct admin_view *view, struct json *json) {
    uint32_t room = view->most_players;
    json_open(json, "players", '[');
    add_some(view, true, &room, json);
    add_some(view, false, &room, json);
    json_close(json, ']');
}

static void add_players(const struct admin_view *view, const char *stream, struct json *json) {
    if (view->most_players) {
        add_limited_players(view, json);
        return;
    }
    json_open(json, "players", '[');
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->player_count; i++)
            if (!stream || strcmp(snapshot->players[i].stream, stream) == 0)
                add_player(&snapshot->players[i], json);
    }
    json_close(json, ']');
}

static void add_minute(const struct frame_second *frames, struct json *json) {
    if (!frames)
        return;
    json_open(json, "last_minute", '[');
    for (size_t i = 0; i < FRAME_MINUTE_SECONDS; i++) {
        json_open(json, NULL, '{');
        json_put_unsigned(json, "frames", frames[i].frames);
        json_put_unsigned(json, "bytes", frames[i].bytes);
        json_put_unsigned(json, "largest", frames[i].largest);
        json_put_unsigned(json, "key_frames", frames[i].key_frames);
        json_put_unsigned(json, "largest_key", frames[i].largest_key);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void admin_publishers(const struct admin_view *view, struct json *json) {
    json_open(json, "publishers", '[');
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->stream_count; i++)
            if (snapshot->streams[i].live && !*snapshot->streams[i].backup)
                add_publisher(&snapshot->streams[i], NULL, json);
    }
    json_close(json, ']');
}

static bool has_stream(const struct snapshot *snapshot, const char *name) {
    for (size_t i = 0; i < snapshot->stream_count; i++)
        if (strcmp(snapshot->streams[i].name, name) == 0)
            return true;
    return false;
}

/* Streams that are recorded, and those that an operator has spoken of, whether they are there or
 * not. */
static void add_recordings(const struct snapshot *snapshot, struct json *json) {
    for (size_t i = 0; i < snapshot->stream_count; i++) {
        const struct snapshot_stream *stream = &snapshot->streams[i];
        if (!stream->is_recorded && stream->record == RECORD_BY_RULE)
            continue;
        json_open(json, NULL, '{');
        json_put_string(json, "stream", stream->name);
        add_recording(stream, json);
        json_close(json, '}');
    }
    for (size_t i = 0; i < snapshot->override_count; i++) {
        if (has_stream(snapshot, snapshot->overrides[i].stream))
            continue;
        json_open(json, NULL, '{');
        json_put_string(json, "stream", snapshot->overrides[i].stream);
        json_put_string(json, "record", record_override_name(snapshot->overrides[i].override));
        json_put_null(json, "recording");
        json_close(json, '}');
    }
}

/* Pulls and forwards: all of them in their order, or first those that fail and then the others. */
enum pick { PICK_ALL, PICK_FAILING, PICK_OTHERS, PICKS };

static bool is_picked(enum pick pick, enum outgoing_state state) {
    return pick == PICK_ALL || (state == OUTGOING_BACKOFF) == (pick == PICK_FAILING);
}

/* Writes those that are picked. What a list is: admin_pulls() and admin_forwards(). @room: for how
 * many yet. How many there are in all. */
typedef size_t add_picked_fn(const struct admin_view *view, enum pick pick, size_t *room, struct json *json);

static void add_outgoing(const struct admin_view *view, const char *key, add_picked_fn *add, struct json *json) {
    size_t room = view->most_outgoing ? view->most_outgoing : SIZE_MAX, total = 0;
    json_open(json, key, '[');
    if (!view->most_outgoing)
        add(view, PICK_ALL, &room, json);
    for (enum pick pick = PICK_FAILING; view->most_outgoing && pick < PICKS; pick++)
        total = add(view, pick, &room, json);
    json_close(json, ']');
    if (view->most_outgoing)
        json_put_unsigned(json, "total", total);
}

static size_t add_pulls(const struct admin_view *view, enum pick pick, size_t *room, struct json *json) {
    size_t total = 0;
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        total += snapshot->pull_count;
        for (size_t i = 0; *room > 0 && i < snapshot->pull_count; i++) {
            if (!is_picked(pick, snapshot->pulls[i].state))
                continue;
            add_pull(&snapshot->pulls[i], json);
            --*room;
        }
    }
    return total;
}

void admin_pulls(const struct admin_view *view, struct json *json) {
    add_outgoing(view, "pulls", add_pulls, json);
}

static void add_forward(const struct snapshot_forward *forward, struct json *json) {
    json_open(json, NULL, '{');
    json_put_unsigned(json, "id", forward->id);
    json_put_string(json, "stream", forward->stream);
    json_put_string(json, "to", forward->place);
    json_put_unsigned(json, "target", forward->position);
    json_put_string(json, "type", forward->type);
    json_put_string(json, "state", forward_state_name(forward->state));
    json_put_optional(json, "step", forward->step);
    json_put_optional(json, "tracks", forward->tracks);
    json_put_bool(json, "ktls", forward->kernel_sends);
    json_put_real(json, "state_seconds", seconds(forward->state_ms));
    json_put_unsigned(json, "failures", forward->failures);
    json_put_optional(json, "reason", forward->reason);
    json_put_real_if(json, "retry_seconds", forward->state == OUTGOING_BACKOFF, seconds(forward->retry_ms));
    json_put_unsigned(json, "bytes_sent", forward->bytes_sent);
    json_put_unsigned(json, "frames_sent", forward->frames_sent);
    json_put_unsigned(json, "frames_dropped", forward->frames_dropped);
    json_close(json, '}');
}

static size_t add_forwards(const struct admin_view *view, enum pick pick, size_t *room, struct json *json) {
    size_t total = 0;
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        total += snapshot->forward_count;
        for (size_t i = 0; *room > 0 && i < snapshot->forward_count; i++) {
            if (!is_picked(pick, snapshot->forwards[i].state))
                continue;
            add_forward(&snapshot->forwards[i], json);
            --*room;
        }
    }
    return total;
}

void admin_forwards(const struct admin_view *view, struct json *json) {
    add_outgoing(view, "forwards", add_forwards, json);
}

static void add_pool(const sluice_pool_stats *pool, struct json *json) {
    json_open(json, "pool", '{');
    json_put_unsigned(json, "block_size", pool->block_size);
    json_put_unsigned(json, "blocks_max", pool->max);
    json_put_unsigned(json, "blocks_total", pool->total);
    json_put_unsigned(json, "blocks_free", pool->free);
    json_put_unsigned(json, "blocks_kernel", pool->kernel);
    json_put_unsigned(json, "blocks_held", pool->held);
    json_put_unsigned(json, "blocks_held_peak", pool->peak_held);
    json_put_unsigned(json, "blocks_reserve", pool->reserve);
    json_put_unsigned(json, "bytes_max", pool->bytes_max);
    json_put_unsigned(json, "bytes_mapped", pool->bytes_mapped);
    json_put_unsigned(json, "bytes_held", pool->bytes_held);
    json_put_unsigned(json, "views", pool->views);
    json_put_unsigned(json, "payload_bytes_copied", pool->bytes_copied);
    json_close(json, '}');
}

/* Of all workers. Their peaks need not have been at the same time: the sum is the most that it can
 * have been. */
void admin_pool(const struct admin_view *view, struct json *json) {
    sluice_pool_stats sum = {.size = sizeof sum};
    EACH_SNAPSHOT(at, view) {
        const sluice_pool_stats *pool = &view->snapshots.list[at]->pool;
        sum.block_size = pool->block_size;
        sum.max += pool->max;
        sum.total += pool->total;
        sum.free += pool->free;
        sum.kernel += pool->kernel;
        sum.held += pool->held;
        sum.peak_held += pool->peak_held;
        sum.reserve += pool->reserve;
        sum.bytes_max += pool->bytes_max;
        sum.bytes_mapped += pool->bytes_mapped;
        sum.bytes_held += pool->bytes_held;
        sum.views += pool->views;
        sum.bytes_copied += pool->bytes_copied;
    }
    add_pool(&sum, json);
}

static void add_loop(const sluice_loop_stats *loop, struct json *json) {
    json_open(json, "loop", '{');
    json_put_string(json, "backend", loop->backend);
    json_put_string(json, "features", loop->features);
    json_put_unsigned(json, "connections", loop->connections);
    json_put_unsigned(json, "turns", loop->turns);
    json_put_unsigned(json, "system_calls", loop->enters);
    json_put_unsigned(json, "completions", loop->completions);
    json_put_unsigned(json, "starved", loop->starved);
    json_put_unsigned(json, "aimed", loop->aimed);
    json_put_unsigned(json, "overflows", loop->overflows);
    json_close(json, '}');
}

static void add_tls_bytes(const struct tls_bytes *bytes, struct json *json) {
    json_open(json, "tls_bytes", '{');
    json_put_unsigned(json, "decrypted", bytes->decrypted);
    json_put_unsigned(json, "encrypted", bytes->encrypted);
    json_put_unsigned(json, "gathered", bytes->gathered);
    json_put_unsigned(json, "copied", bytes->copied);
    json_close(json, '}');
}

void admin_workers(const struct admin_view *view, struct json *json) {
    json_open(json, "workers", '[');
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        json_open(json, NULL, '{');
        json_put_unsigned(json, "worker", at);
        json_put_bool(json, "answers", snapshot != NULL);
        if (snapshot) {
            json_put_unsigned(json, "connections", snapshot->connections);
            json_put_unsigned(json, "tls_connections", snapshot->tls_connections);
            json_put_unsigned(json, "ktls_connections", snapshot->ktls_connections);
            add_tls_bytes(&snapshot->tls_bytes, json);
            json_put_unsigned(json, "players_ever", snapshot->totals.players);
            json_put_unsigned(json, "publishers_ever", snapshot->totals.publishers);
            json_put_unsigned(json, "bytes_received", snapshot->totals.bytes_received);
            json_put_unsigned(json, "bytes_sent", snapshot->totals.bytes_sent);
            json_put_unsigned(json, "packet_bytes", snapshot->packet_bytes);
            json_put_unsigned(json, "lent_bytes", snapshot->lent_bytes);
            add_pool(&snapshot->pool, json);
            add_loop(&snapshot->loop, json);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

double admin_uptime(const struct admin_view *view) {
    uint64_t longest = 0;
    EACH_SNAPSHOT(at, view) {
        uint64_t its = view->snapshots.list[at]->uptime_ms;
        longest = its > longest ? its : longest;
    }
    return seconds(longest);
}

void admin_players(const struct admin_view *view, struct json *json) {
    add_players(view, NULL, json);
}

static void add_repairs(const struct admin_view *view, struct json *json) {
    json_open(json, "repairs", '{');
    for (enum recovery_result result = 0; result < RECOVERY_RESULTS; result++)
        json_put_unsigned(json, recovery_result_name(result), server_repaired(view->server, result));
    json_close(json, '}');
}

void admin_recordings(const struct admin_view *view, struct json *json) {
    json_open(json, "recordings", '[');
    EACH_SNAPSHOT(at, view) {
        add_recordings(view->snapshots.list[at], json);
    }
    json_close(json, ']');
    add_repairs(view, json);
}

void admin_health(const struct admin_view *view, struct json *json) {
    size_t answered = 0;
    EACH_SNAPSHOT(at, view) {
        answered++;
    }
    const bool is_whole = answered == view->snapshots.count && !admin_cluster_is_degraded(view);
    json_put_string(json, "status", is_whole ? "ok" : "degraded");
    json_put_unsigned(json, "workers", view->snapshots.count);
    json_put_unsigned(json, "workers_answering", answered);
    json_put_real(json, "uptime_seconds", admin_uptime(view));
    admin_cluster_summary(view, json);
}

void admin_version(const struct admin_view *view, struct json *json) {
    (void)view;
    json_put_string(json, "version", SLUICE_VERSION);
    json_put_string(json, "api", "v1");
}

static void add_refused(const struct admin_view *view, struct json *json) {
    json_open(json, "refused", '{');
    for (enum reject_cause cause = 0; cause < REJECT_CAUSES; cause++)
        json_put_unsigned(json, reject_name(cause), server_refused(view->server, cause));
    json_close(json, '}');
}

void admin_snapshot(const struct admin_view *view, struct json *json) {
    json_put_string(json, "version", SLUICE_VERSION);
    json_put_real(json, "uptime_seconds", admin_uptime(view));
    admin_streams(view, json);
    add_players(view, NULL, json);
    admin_pulls(view, json);
    admin_forwards(view, json);
    admin_pool(view, json);
    admin_workers(view, json);
    add_refused(view, json);
    admin_certificates(view, json);
    json_open(json, "tls", '{');
    admin_tls(view, json);
    json_close(json, '}');
    admin_cluster_summary(view, json);
    json_put_unsigned(json, "log_lines_lost", view->log_lost);
}

bool admin_stream(const struct admin_view *view, const char *name, struct json *json) {
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->stream_count; i++) {
            if (strcmp(snapshot->streams[i].name, name) != 0)
                continue;
            json_open(json, NULL, '{');
            json_put_bool(json, "partial", !snapshots_are_whole(&view->snapshots));
            add_stream_fields(&snapshot->streams[i], json);
            add_players(view, name, json);
            add_minute(snapshot->frames, json);
            json_close(json, '}');
            return true;
        }
    }
    return false;
}

bool admin_player(const struct admin_view *view, uint64_t id, struct json *json) {
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->player_count; i++) {
            if (snapshot->players[i].id != id)
                continue;
            add_player(&snapshot->players[i], json);
            return true;
        }
    }
    return false;
}

bool admin_publisher(const struct admin_view *view, uint64_t id, struct json *json) {
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->stream_count; i++) {
            if (!snapshot->streams[i].live || *snapshot->streams[i].backup || snapshot->streams[i].publisher_id != id)
                continue;
            add_publisher(&snapshot->streams[i], NULL, json);
            return true;
        }
    }
    return false;
}

bool admin_pull(const struct admin_view *view, uint64_t id, struct json *json) {
    EACH_SNAPSHOT(at, view) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; i < snapshot->pull_count; i++) {
            if (snapshot->pulls[i].id != id)
                continue;
            add_pull(&snapshot->pulls[i], json);
            return true;
        }
    }
    return false;
}
