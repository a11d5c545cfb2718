#include "daemon/api.h"

#include <ctype.h>

#include <sluice/version.h>

static const struct {
    uint32_t codec;
    const char *name;
} codec_names[] = {
    {SLUICE_CODEC_H263, "flv1"},
    {SLUICE_CODEC_VP6, "vp6"},
    {SLUICE_CODEC_H264, "h264"},
    {SLUICE_CODEC_HEVC, "hevc"},
    {SLUICE_CODEC_VVC, "vvc"},
    {SLUICE_CODEC_AV1, "av1"},
    {SLUICE_CODEC_VP8, "vp8"},
    {SLUICE_CODEC_VP9, "vp9"},
    {SLUICE_CODEC_AAC, "aac"},
    {SLUICE_CODEC_MP3, "mp3"},
    {SLUICE_CODEC_OPUS, "opus"},
    {SLUICE_CODEC_FLAC, "flac"},
    {SLUICE_CODEC_AC3, "ac3"},
    {SLUICE_CODEC_EAC3, "eac3"},
    {SLUICE_CODEC_PCMA, "pcm_alaw"},
    {SLUICE_CODEC_PCMU, "pcm_mulaw"},
    {SLUICE_CODEC_PCM, "pcm"},
    {SLUICE_CODEC_ADPCM, "adpcm"},
    {SLUICE_CODEC_NELLYMOSER, "nellymoser"},
    {SLUICE_CODEC_SPEEX, "speex"},
};

/* The usual name, or else the four characters. */
static void codec_text(uint32_t codec, char text[16]) {
    for (size_t i = 0; i < sizeof codec_names / sizeof *codec_names; i++) {
        if (codec_names[i].codec == codec) {
            size_t at = 0;
            for (const char *from = codec_names[i].name; *from; from++)
                text[at++] = *from;
            text[at] = '\0';
            return;
        }
    }
    for (int i = 0; i < 4; i++) {
        char byte = (char)(codec >> (24 - 8 * i));
        text[i] = isprint((unsigned char)byte) ? byte : '?';
    }
    text[4] = '\0';
}

static void add_publisher(struct json *json, const struct stream_snapshot *stream) {
    if (!stream->live) {
        json_null(json, "publisher");
        return;
    }
    json_open(json, "publisher", '{');
    json_string(json, "address", stream->source.peer);
    json_string(json, "protocol", stream->source.protocol);
    json_close(json, '}');
}

static void add_tracks(struct json *json, const struct stream_snapshot *stream) {
    char codec[16];
    if (stream->live && (stream->tracks & SLUICE_FLV_HAS_VIDEO)) {
        json_open(json, "video", '{');
        codec_text(stream->video_codec, codec);
        json_string(json, "codec", codec);
        json_real(json, "width", stream->metadata.width);
        json_real(json, "height", stream->metadata.height);
        json_real(json, "frame_rate", stream->metadata.frame_rate);
        json_close(json, '}');
    } else {
        json_null(json, "video");
    }
    if (stream->live && (stream->tracks & SLUICE_FLV_HAS_AUDIO)) {
        json_open(json, "audio", '{');
        codec_text(stream->audio_codec, codec);
        json_string(json, "codec", codec);
        json_close(json, '}');
    } else {
        json_null(json, "audio");
    }
}

/* @copied: payload bytes that the pools' users have copied, the same for all streams */
static void add_stream(struct json *json, const struct stream_snapshot *stream, uint32_t worker, uint64_t copied) {
    json_open(json, NULL, '{');
    json_string(json, "name", stream->name);
    json_string(json, "state", stream->live ? "live" : "waiting");
    json_unsigned(json, "worker", worker);
    add_publisher(json, stream);
    json_real(json, "uptime_seconds", (double)stream->state_ms / 1000);
    json_unsigned(json, "bytes_received", stream->bytes);
    json_open(json, "frames", '{');
    json_unsigned(json, "video", stream->video_frames);
    json_unsigned(json, "audio", stream->audio_frames);
    json_close(json, '}');
    add_tracks(json, stream);
    json_unsigned(json, "bits_per_second", stream->bits_per_second);
    json_unsigned(json, "subscribers", stream->players);
    json_unsigned(json, "merge_window_ms", stream->merge_window_ms);
    json_unsigned(json, "sends", stream->sends);
    json_unsigned(json, "frames_dropped", stream->frames_dropped);
    json_unsigned(json, "blocks_held", stream->blocks_held);
    json_open(json, "gop", '{');
    json_unsigned(json, "frames", stream->gop_frames);
    json_unsigned(json, "bytes", stream->gop_bytes);
    json_close(json, '}');
    json_unsigned(json, "payload_bytes_copied", copied);
    json_close(json, '}');
}

static void add_player(struct json *json, const struct player_snapshot *player, const char *stream) {
    json_open(json, NULL, '{');
    json_string(json, "stream", stream);
    json_string(json, "address", player->peer);
    json_string(json, "protocol", player->protocol);
    json_string(json, "state", player->state);
    json_unsigned(json, "bytes_sent", player->bytes_sent);
    json_unsigned(json, "frames_sent", player->frames_sent);
    json_unsigned(json, "sends", player->sends);
    json_unsigned(json, "merge_window_ms", player->merge_window_ms);
    json_unsigned(json, "frames_dropped", player->frames_dropped);
    json_unsigned(json, "queued_bytes", player->queued_bytes);
    json_close(json, '}');
}

static void add_pull(struct json *json, const struct pull_snapshot *pull) {
    json_open(json, NULL, '{');
    json_string(json, "stream", pull->name);
    json_string(json, "from", pull->from);
    json_string(json, "state", pull->state);
    json_real(json, "state_seconds", (double)pull->state_ms / 1000);
    json_string(json, "mode", pull->on_demand ? "on-demand" : "always");
    json_unsigned(json, "failures", pull->failures);
    if (*pull->reason)
        json_string(json, "reason", pull->reason);
    else
        json_null(json, "reason");
    if (pull->waits)
        json_real(json, "retry_seconds", (double)pull->retry_ms / 1000);
    else
        json_null(json, "retry_seconds");
    json_close(json, '}');
}

static void add_pool(struct json *json, const sluice_pool_stats *pool) {
    json_open(json, "pool", '{');
    json_unsigned(json, "block_size", pool->block_size);
    json_unsigned(json, "blocks_max", pool->max);
    json_unsigned(json, "blocks_total", pool->total);
    json_unsigned(json, "blocks_free", pool->free);
    json_unsigned(json, "blocks_kernel", pool->kernel);
    json_unsigned(json, "blocks_held", pool->held);
    json_unsigned(json, "blocks_held_peak", pool->peak_held);
    json_unsigned(json, "blocks_reserve", pool->reserve);
    json_unsigned(json, "bytes_held", pool->bytes_held);
    json_unsigned(json, "views", pool->views);
    json_unsigned(json, "payload_bytes_copied", pool->bytes_copied);
    json_close(json, '}');
}

static void add_loop(struct json *json, const sluice_loop_stats *loop) {
    json_open(json, "loop", '{');
    json_string(json, "backend", loop->backend);
    json_string(json, "features", loop->features);
    json_unsigned(json, "connections", loop->connections);
    json_unsigned(json, "turns", loop->turns);
    json_unsigned(json, "system_calls", loop->enters);
    json_unsigned(json, "completions", loop->completions);
    json_unsigned(json, "starved", loop->starved);
    json_unsigned(json, "aimed", loop->aimed);
    json_unsigned(json, "overflows", loop->overflows);
    json_close(json, '}');
}

static void add_worker(struct json *json, const struct worker_snapshot *worker) {
    sluice_loop_stats loop = worker->loop;
    loop.features = worker->features;
    json_open(json, NULL, '{');
    json_unsigned(json, "connections", worker->connections);
    json_unsigned(json, "streams", worker->stream_count);
    json_unsigned(json, "players", worker->player_count);
    json_unsigned(json, "bits_per_second", worker->bits_per_second);
    add_pool(json, &worker->pool);
    add_loop(json, &loop);
    json_close(json, '}');
}

/* The sums of all workers. What is said in words, or is a size, is the same for all of them. */
static void add_totals(struct json *json, const struct snapshot *snapshot) {
    sluice_pool_stats pool = snapshot->workers[0].pool;
    sluice_loop_stats loop = snapshot->workers[0].loop;
    loop.features = snapshot->workers[0].features;
    for (uint32_t i = 1; i < snapshot->worker_count; i++) {
        const sluice_pool_stats *more = &snapshot->workers[i].pool;
        const sluice_loop_stats *other = &snapshot->workers[i].loop;
        pool.max += more->max;
        pool.total += more->total;
        pool.free += more->free;
        pool.kernel += more->kernel;
        pool.held += more->held;
        pool.peak_held += more->peak_held;
        pool.reserve += more->reserve;
        pool.bytes_held += more->bytes_held;
        pool.views += more->views;
        pool.bytes_copied += more->bytes_copied;
        loop.connections += other->connections;
        loop.turns += other->turns;
        loop.enters += other->enters;
        loop.completions += other->completions;
        loop.starved += other->starved;
        loop.aimed += other->aimed;
        loop.overflows += other->overflows;
    }
    add_pool(json, &pool);
    add_loop(json, &loop);
}

static void add_lists(struct json *json, const struct snapshot *snapshot) {
    uint64_t copied = 0;
    for (uint32_t i = 0; i < snapshot->worker_count; i++)
        copied += snapshot->workers[i].pool.bytes_copied;
    json_open(json, "streams", '[');
    for (uint32_t i = 0; i < snapshot->worker_count; i++)
        for (size_t k = 0; k < snapshot->workers[i].stream_count; k++)
            add_stream(json, &snapshot->workers[i].streams[k], i, copied);
    json_close(json, ']');
    json_open(json, "players", '[');
    for (uint32_t i = 0; i < snapshot->worker_count; i++) {
        const struct worker_snapshot *worker = &snapshot->workers[i];
        for (size_t k = 0; k < worker->player_count; k++)
            add_player(json, &worker->players[k], worker->streams[worker->players[k].stream].name);
    }
    json_close(json, ']');
    json_open(json, "pulls", '[');
    for (uint32_t i = 0; i < snapshot->worker_count; i++)
        for (size_t k = 0; k < snapshot->workers[i].pull_count; k++)
            add_pull(json, &snapshot->workers[i].pulls[k]);
    json_close(json, ']');
}

void api_streams(const struct snapshot *snapshot, struct json *json) {
    json_open(json, NULL, '{');
    add_lists(json, snapshot);
    add_totals(json, snapshot);
    json_open(json, "workers", '[');
    for (uint32_t i = 0; i < snapshot->worker_count; i++)
        add_worker(json, &snapshot->workers[i]);
    json_close(json, ']');
    json_string(json, "version", SLUICE_VERSION);
    json_real(json, "uptime_seconds", (double)snapshot->uptime_ms / 1000);
    json_close(json, '}');
}
