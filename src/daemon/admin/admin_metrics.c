#include "daemon/admin/admin_metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sluice/version.h>

#include "daemon/admin/admin_cluster.h"
#include "daemon/admin/metric_text.h"
#include "daemon/tls/tls_kernel.h"

/* All streams and players of the workers that answer, added up; and the totals of all workers. */
struct sums {
    struct stream_totals totals;
    uint64_t live, waiting, on_backup, at_interval, players, slow;
    uint64_t queued_bytes, queued_ms_most;
    uint64_t uptime_ms;
};

static void add_stream_sums(struct sums *sums, const struct snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->stream_count; i++) {
        sums->live += snapshot->streams[i].live;
        sums->waiting += !snapshot->streams[i].live;
        sums->on_backup += *snapshot->streams[i].backup != '\0';
        sums->at_interval += snapshot->streams[i].interval_ms > 0;
    }
    sums->players += snapshot->player_count;
    for (size_t i = 0; i < snapshot->player_count; i++) {
        const struct snapshot_player *player = &snapshot->players[i];
        sums->slow += player->slow;
        sums->queued_bytes += player->queued_bytes;
        if (player->queued_ms > sums->queued_ms_most)
            sums->queued_ms_most = player->queued_ms;
    }
}

static void add_totals(struct stream_totals *sum, const struct stream_totals *totals) {
    sum->bytes_received += totals->bytes_received;
    sum->video_frames += totals->video_frames;
    sum->audio_frames += totals->audio_frames;
    sum->frames_lost += totals->frames_lost;
    sum->publishers += totals->publishers;
    sum->jumps += totals->jumps;
    sum->displaced += totals->displaced;
    sum->superseded += totals->superseded;
    sum->players += totals->players;
    sum->bytes_sent += totals->bytes_sent;
    sum->frames_sent += totals->frames_sent;
    sum->sends += totals->sends;
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        sum->dropped[cause] += totals->dropped[cause];
}

static struct sums sum_up(const struct admin_view *view) {
    struct sums sums = {0};
    for (size_t i = 0; i < view->snapshots.count; i++) {
        const struct snapshot *snapshot = view->snapshots.list[i];
        add_totals(&sums.totals, &view->totals[i]);
        if (!snapshot)
            continue;
        add_stream_sums(&sums, snapshot);
        if (snapshot->uptime_ms > sums.uptime_ms)
            sums.uptime_ms = snapshot->uptime_ms;
    }
    return sums;
}

static void write_sums(FILE *out, const struct sums *sums) {
    metric_head(out, "sluice_build_info", "gauge", "Always 1; the version is in the label.");
    fprintf(out, "sluice_build_info{version=\"%s\"} 1\n", SLUICE_VERSION);
    metric_gauge(out, "sluice_uptime_seconds", "Since the server was started.", (double)sums->uptime_ms / 1000);
    metric_head(out, "sluice_streams", "gauge", "Streams, with a publisher (live) or with players only (waiting).");
    fprintf(out, "sluice_streams{state=\"live\"} %" PRIu64 "\nsluice_streams{state=\"waiting\"} %" PRIu64 "\n",
            sums->live, sums->waiting);
    metric_gauge(out, "sluice_streams_on_backup", "Of the live ones, those that another stream stands in for.",
                 (double)sums->on_backup);
    metric_gauge(out, "sluice_streams_at_interval",
                 "Of the live ones, those without a watcher, which are read at --unwatched-interval.",
                 (double)sums->at_interval);
    metric_gauge(out, "sluice_players", "Players that are connected.", (double)sums->players);
    metric_gauge(out, "sluice_slow_players", "Players that are behind, or take nothing.", (double)sums->slow);
    metric_gauge(out, "sluice_player_queue_bytes", "Payload that is queued for all players together.",
                 (double)sums->queued_bytes);
    metric_gauge(out, "sluice_player_queue_max_seconds", "Time that is queued for the player that is most behind.",
                 (double)sums->queued_ms_most / 1000);
}

/* A part of them would be a fall, which is a restart to Prometheus. */
static void write_totals(FILE *out, const struct stream_totals *totals, const struct server *server) {
    metric_counter(out, "sluice_publishers_total", "Publishers that have had a stream.", totals->publishers);
    metric_counter(out, "sluice_publishers_displaced_total", "Publishers that another one has taken the stream from.",
                   totals->displaced);
    metric_counter(out, "sluice_players_total", "Players that have come to a stream.", totals->players);
    metric_counter(out, "sluice_received_bytes_total", "FLV bytes that publishers have sent.", totals->bytes_received);
    metric_head(out, "sluice_received_frames_total", "counter", "Frames that publishers have sent.");
    fprintf(out, "sluice_received_frames_total{kind=\"video\"} %" PRIu64 "\n", totals->video_frames);
    fprintf(out, "sluice_received_frames_total{kind=\"audio\"} %" PRIu64 "\n", totals->audio_frames);
    metric_counter(out, "sluice_lost_frames_total", "Frames of publishers that found no memory.", totals->frames_lost);
    metric_counter(out, "sluice_timestamp_jumps_total", "Jumps of publishers' timestamps, which were repaired.",
                   totals->jumps);
    metric_counter(out, "sluice_sent_bytes_total", "Bytes that players have been sent.", totals->bytes_sent);
    metric_counter(out, "sluice_sent_frames_total", "Frames and headers that players have been sent.",
                   totals->frames_sent);
    metric_counter(out, "sluice_sends_total", "System calls, or their like, by which players took bytes.",
                   totals->sends);
    metric_head(out, "sluice_dropped_frames_total", "counter", "Frames that a player was not sent, by cause.");
    for (size_t cause = 0; cause < DROP_CAUSES; cause++)
        fprintf(out, "sluice_dropped_frames_total{cause=\"%s\"} %" PRIu64 "\n",
                snapshot_drop_name((enum player_drop)cause), totals->dropped[cause]);
    metric_head(out, "sluice_refused_total", "counter", "What was refused, by the setting that limits it.");
    for (enum reject_cause cause = 0; cause < REJECT_CAUSES; cause++)
        fprintf(out, "sluice_refused_total{cause=\"%s\"} %" PRIu64 "\n", reject_name(cause),
                server_refused(server, cause));
    metric_head(out, "sluice_recording_repairs_total", "counter",
                "Recordings left behind: repaired, kept as damaged, or removed since they were empty.");
    for (enum recovery_result result = 0; result < RECOVERY_RESULTS; result++)
        fprintf(out, "sluice_recording_repairs_total{result=\"%s\"} %" PRIu64 "\n", recovery_result_name(result),
                server_repaired(server, result));
}

/* A member of each worker's or stream's snapshot: an unsigned number, or a bool. */
struct metric {
    const char *name, *type, *help;
    size_t offset, size;
};

#define WORKER(member) offsetof(struct snapshot, member), sizeof(((struct snapshot *)0)->member)
#define STREAM(member) offsetof(struct snapshot_stream, member), sizeof(((struct snapshot_stream *)0)->member)

static uint64_t value_of(const void *object, const struct metric *metric) {
    const void *member = (const char *)object + metric->offset;
    switch (metric->size) {
    case sizeof(bool):
        return *(const bool *)member;
    case sizeof(uint32_t):
        return *(const uint32_t *)member;
    default:
        return *(const uint64_t *)member;
    }
}

static const struct metric worker_metrics[] = {
    {"sluice_worker_connections", "gauge", "Connections of a worker.", WORKER(connections)},
    {"sluice_worker_tls_connections", "gauge", "Connections of a worker with TLS.", WORKER(tls_connections)},
    {"sluice_worker_ktls_connections", "gauge", "Connections of a worker whose sent data the kernel encrypts (kTLS).",
     WORKER(ktls_connections)},
    {"sluice_worker_tls_decrypted_bytes_total", "counter", "Bytes of data that a worker has decrypted.",
     WORKER(tls_bytes.decrypted)},
    {"sluice_worker_tls_encrypted_bytes_total", "counter", "Bytes of data that a worker has encrypted, without kTLS.",
     WORKER(tls_bytes.encrypted)},
    {"sluice_worker_tls_gathered_bytes_total", "counter",
     "Of these, bytes of several pieces that were copied together for a record.", WORKER(tls_bytes.gathered)},
    {"sluice_worker_tls_copied_bytes_total", "counter", "Bytes that a worker's TLS has copied in user space.",
     WORKER(tls_bytes.copied)},
    {"sluice_worker_turns_total", "counter", "Turns of a worker's loop.", WORKER(loop.turns)},
    {"sluice_worker_system_calls_total", "counter", "System calls by which a worker's loop waited.",
     WORKER(loop.enters)},
    {"sluice_worker_completions_total", "counter", "Completions that a worker's loop has handled.",
     WORKER(loop.completions)},
    {"sluice_worker_starved_total", "counter", "Receives that found no block and had to wait.", WORKER(loop.starved)},
    {"sluice_worker_overflows_total", "counter", "Overflows of a completion queue.", WORKER(loop.overflows)},
    {"sluice_pool_limit_bytes", "gauge", "Most memory that a worker's blocks may take.", WORKER(pool.bytes_max)},
    {"sluice_pool_mapped_bytes", "gauge", "Memory that a worker's blocks lie in.", WORKER(pool.bytes_mapped)},
    {"sluice_pool_held_bytes", "gauge", "Memory of blocks that a worker's streams and players hold.",
     WORKER(pool.bytes_held)},
    {"sluice_lent_bytes", "gauge", "Memory of a worker's blocks that other workers' players hold.", WORKER(lent_bytes)},
    {"sluice_packet_bytes", "gauge", "Memory that describes the tags in a worker's blocks.", WORKER(packet_bytes)},
    {"sluice_payload_copied_bytes_total", "counter", "Payload bytes that the library has copied, besides TLS.",
     WORKER(pool.bytes_copied)},
};

static void write_merging(FILE *out, const struct admin_view *view) {
    static const struct {
        const char *name, *type, *help;
        enum { WINDOW, LOAD, FRAMES, DELAY, BATCH } what;
    } metrics[] = {
        {"sluice_worker_merge_window_seconds", "gauge", "Automatic merge window of a worker now.", WINDOW},
        {"sluice_worker_load_ratio", "gauge",
         "Part of the time in which a worker's thread runs or waits for a core, smoothed.", LOAD},
        {"sluice_worker_merged_frames_total", "counter", "Frames that waited for a merge window, for each player.",
         FRAMES},
        {"sluice_worker_merge_delay_seconds_total", "counter",
         "Time that these frames waited for it, together. Nagle's algorithm, on while a window is open, may add to it.",
         DELAY},
        {"sluice_worker_batch_window_seconds", "gauge", "Batching window of a worker's loop now.", BATCH},
    };
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        metric_head(out, metrics[i].name, metrics[i].type, metrics[i].help);
        for (size_t at = 0; at < view->snapshots.count; at++) {
            const struct snapshot *snapshot = view->snapshots.list[at];
            if (!snapshot)
                continue;
            const struct coalesce_site *merging = &snapshot->merging;
            double value = metrics[i].what == WINDOW   ? merging->automatic.window_ms / 1000.0
                           : metrics[i].what == LOAD   ? merging->automatic.load
                           : metrics[i].what == FRAMES ? (double)merging->waited
                           : metrics[i].what == BATCH  ? snapshot->batch_us / 1e6
                                                       : (double)merging->waited_ms / 1000;
            fprintf(out, "%s{worker=\"%zu\"} %.15g\n", metrics[i].name, at, value);
        }
    }
}

static void write_workers(FILE *out, const struct admin_view *view) {
    for (size_t i = 0; i < sizeof worker_metrics / sizeof *worker_metrics; i++) {
        const struct metric *metric = &worker_metrics[i];
        metric_head(out, metric->name, metric->type, metric->help);
        for (size_t at = 0; at < view->snapshots.count; at++)
            if (view->snapshots.list[at])
                fprintf(out, "%s{worker=\"%zu\"} %" PRIu64 "\n", metric->name, at,
                        value_of(view->snapshots.list[at], metric));
    }
    metric_head(out, "sluice_worker_up", "gauge",
                "Whether a worker answers. If not, totals have its last values, and the rest is without it.");
    for (size_t at = 0; at < view->snapshots.count; at++)
        fprintf(out, "sluice_worker_up{worker=\"%zu\"} %d\n", at, view->snapshots.list[at] != NULL);
    metric_head(out, "sluice_pool_blocks", "gauge", "Blocks of a worker's pool.");
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        if (!snapshot)
            continue;
        fprintf(out, "sluice_pool_blocks{worker=\"%zu\",state=\"free\"} %u\n", at, snapshot->pool.free);
        fprintf(out, "sluice_pool_blocks{worker=\"%zu\",state=\"kernel\"} %u\n", at, snapshot->pool.kernel);
        fprintf(out, "sluice_pool_blocks{worker=\"%zu\",state=\"held\"} %u\n", at, snapshot->pool.held);
    }
}

/* Names of streams hold nothing that a label would have to escape. */
static const struct metric stream_metrics[] = {
    {"sluice_stream_live", "gauge", "Whether a stream has a publisher.", STREAM(live)},
    {"sluice_stream_players", "gauge", "Players of a stream.", STREAM(players)},
    {"sluice_stream_received_bytes_total", "counter", "FLV bytes of a stream's publisher.", STREAM(bytes)},
    {"sluice_stream_received_video_frames_total", "counter", "Video frames of a stream's publisher.",
     STREAM(video_frames)},
    {"sluice_stream_received_audio_frames_total", "counter", "Audio frames of a stream's publisher.",
     STREAM(audio_frames)},
    {"sluice_stream_lost_frames_total", "counter", "Frames of a stream that found no memory.", STREAM(frames_lost)},
    {"sluice_stream_sends_total", "counter", "Sends to a stream's players.", STREAM(sends)},
    {"sluice_stream_blocks", "gauge", "Blocks that a stream and its players hold.", STREAM(blocks_held)},
    {"sluice_stream_recording", "gauge", "Whether a stream is recorded.", STREAM(is_recorded)},
    {"sluice_stream_recorded_bytes_total", "counter", "FLV bytes of a stream that recordings were given.",
     STREAM(record_bytes)},
    {"sluice_stream_recording_dropped_frames_total", "counter", "Frames that recordings of a stream lack.",
     STREAM(record_dropped)},
    {"sluice_stream_recording_queue_bytes", "gauge", "Bytes that the disk is behind with a stream.",
     STREAM(record_queued)},
};

static void write_stream_metric(FILE *out, const struct admin_view *view, const struct metric *metric) {
    size_t shown = 0;
    metric_head(out, metric->name, metric->type, metric->help);
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; snapshot && i < snapshot->stream_count && shown < METRICS_MOST_STREAMS; i++, shown++)
            fprintf(out, "%s{stream=\"%s\"} %" PRIu64 "\n", metric->name, snapshot->streams[i].name,
                    value_of(&snapshot->streams[i], metric));
    }
}

static void write_pulls(FILE *out, const struct admin_view *view) {
    metric_head(out, "sluice_pull_failures", "gauge", "Failures of a pull since it last played for a while.");
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; snapshot && i < snapshot->pull_count; i++)
            fprintf(out, "sluice_pull_failures{stream=\"%s\"} %u\n", snapshot->pulls[i].stream,
                    snapshot->pulls[i].failures);
    }
    metric_head(out, "sluice_pull_playing", "gauge", "Whether media come by a pull.");
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; snapshot && i < snapshot->pull_count; i++)
            fprintf(out, "sluice_pull_playing{stream=\"%s\"} %d\n", snapshot->pulls[i].stream,
                    snapshot->pulls[i].state == OUTGOING_ACTIVE);
    }
}

typedef uint64_t forward_value_fn(const struct snapshot_forward *forward);

static uint64_t failures_of(const struct snapshot_forward *forward) {
    return forward->failures;
}

static uint64_t is_sending(const struct snapshot_forward *forward) {
    return forward->state == OUTGOING_ACTIVE;
}

static uint64_t bytes_sent_of(const struct snapshot_forward *forward) {
    return forward->bytes_sent;
}

static uint64_t frames_dropped_of(const struct snapshot_forward *forward) {
    return forward->frames_dropped;
}

/* A stream has one forward for each option. */
static void write_forwards(FILE *out, const struct admin_view *view) {
    static const struct {
        const char *name, *type, *help;
        forward_value_fn *value;
    } metrics[] = {
        {"sluice_forward_failures", "gauge", "Failures of a forward since it last sent for a while.", failures_of},
        {"sluice_forward_sending", "gauge", "Whether media are sent by a forward.", is_sending},
        {"sluice_forward_sent_bytes_total", "counter", "Bytes sent by a forward.", bytes_sent_of},
        {"sluice_forward_frames_dropped_total", "counter", "Frames that a slow forward has lost.", frames_dropped_of},
    };
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        metric_head(out, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t at = 0; at < view->snapshots.count; at++) {
            const struct snapshot *snapshot = view->snapshots.list[at];
            for (size_t i = 0; snapshot && i < snapshot->forward_count; i++) {
                const struct snapshot_forward *forward = &snapshot->forwards[i];
                fprintf(out, "%s{stream=\"%s\",target=\"%zu\"} %" PRIu64 "\n", metrics[m].name, forward->stream,
                        forward->position, metrics[m].value(forward));
            }
        }
    }
}

static void write_notices(FILE *out, const struct admin_view *view) {
    metric_head(
        out, "sluice_hook_notices_total", "counter",
        "What hooks were told: delivered, failed (refused, or tried in vain), or dropped since too many waited.");
    for (enum hook_kind event = HOOK_UNPUBLISH; event < HOOK_KINDS; event++) {
        const struct hook_event_counts *counts = &view->notices[event];
        const char *name = hook_kind_name(event);
        fprintf(out, "sluice_hook_notices_total{event=\"%s\",result=\"delivered\"} %" PRIu64 "\n", name,
                counts->delivered);
        fprintf(out, "sluice_hook_notices_total{event=\"%s\",result=\"failed\"} %" PRIu64 "\n", name, counts->failed);
        fprintf(out, "sluice_hook_notices_total{event=\"%s\",result=\"dropped\"} %" PRIu64 "\n", name, counts->dropped);
    }
    metric_gauge(out, "sluice_hook_notices_waiting", "What hooks are yet to be told.", (double)view->notices_waiting);
}

static void write_certificates(FILE *out, const struct admin_view *view) {
    sluice_tls_certificate_info info = {.size = sizeof info};
    const time_t now = time(NULL);
    metric_head(out, "sluice_certificate_expiry_days", "gauge",
                "Days until a certificate of TLS listeners expires; negative: it has.");
    for (size_t i = 0; view->tls && sluice_tls_context_get_certificate(view->tls, i, &info) == 0; i++) {
        fprintf(out, "sluice_certificate_expiry_days{number=\"%zu\",name=\"", i);
        metric_label(out, info.name ? info.name : "");
        fputs("\",subject=\"", out);
        metric_label(out, info.subject);
        fprintf(out, "\"} %.4f\n", (double)(info.expires - now) / 86400);
    }
}

/* Neither name of a step nor text of an error holds anything that a label would have to escape. */
static void write_ktls(FILE *out, const struct admin_view *view) {
    sluice_tls_kernel_info info;
    if (!tls_kernel_get(view->tls_kernel, &info))
        return;
    metric_head(
        out, "sluice_ktls_used", "gauge",
        "Whether the kernel may encrypt what listeners and forwards send by TLS, as --ktls asks for; and what it "
        "cannot do.");
    fprintf(out, "sluice_ktls_used{failed=\"%s\",reason=\"%s\"} %d\n", info.step ? info.step : "",
            info.error ? strerror(-info.error) : "", info.is_used);
}

char *admin_metrics(const struct admin_view *view, size_t *ret_size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_size);
    if (!out)
        return NULL;
    const struct sums sums = sum_up(view);
    uint64_t streams = sums.live + sums.waiting;
    write_sums(out, &sums);
    write_totals(out, &sums.totals, view->server);
    write_workers(out, view);
    write_merging(out, view);
    for (size_t i = 0; i < sizeof stream_metrics / sizeof *stream_metrics; i++)
        write_stream_metric(out, view, &stream_metrics[i]);
    metric_gauge(out, "sluice_streams_left_out", "Streams over the limit of those that are shown one by one.",
                 streams > METRICS_MOST_STREAMS ? (double)(streams - METRICS_MOST_STREAMS) : 0);
    write_pulls(out, view);
    write_forwards(out, view);
    write_notices(out, view);
    write_certificates(out, view);
    write_ktls(out, view);
    admin_cluster_metrics(out, view);
    metric_counter(out, "sluice_log_lines_lost_total",
                   "Log lines that were not written: standard error was not read, or failed.", view->log_lost);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
