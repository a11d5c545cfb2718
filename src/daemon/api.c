#include "daemon/api.h"

#include <ctype.h>
#include <string.h>

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

static void add_publisher(struct json *json, const struct stream *stream) {
    if (!stream->live) {
        json_null(json, "publisher");
        return;
    }
    json_open(json, "publisher", '{');
    json_string(json, "address", stream->source.peer);
    json_string(json, "protocol", stream->source.protocol);
    json_close(json, '}');
}

static void add_tracks(struct json *json, const struct stream *stream) {
    char codec[16];
    if (stream->live && (stream->seen & SLUICE_FLV_HAS_VIDEO)) {
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
    if (stream->live && (stream->seen & SLUICE_FLV_HAS_AUDIO)) {
        json_open(json, "audio", '{');
        codec_text(stream->audio_codec, codec);
        json_string(json, "codec", codec);
        json_close(json, '}');
    } else {
        json_null(json, "audio");
    }
}

static void add_recording(struct json *json, const struct stream *stream) {
    const struct recorder *recorder = stream->recorder;
    if (!recorder) {
        json_null(json, "recording");
        return;
    }
    json_open(json, "recording", '{');
    json_string(json, "state", recorder_state_name(recorder));
    if (*recorder->file)
        json_string(json, "file", recorder->file);
    else
        json_null(json, "file");
    json_unsigned(json, "files", recorder->files);
    json_unsigned(json, "bytes", recorder->bytes);
    json_unsigned(json, "frames", recorder->frames);
    json_unsigned(json, "frames_dropped", recorder->frames_dropped);
    json_unsigned(json, "queued_bytes", recorder_queued(recorder));
    if (recorder->error)
        json_string(json, "error", strerror(-recorder->error));
    else
        json_null(json, "error");
    json_close(json, '}');
}

struct context {
    struct json *json;
    struct server *server;
    uint64_t copied; /* payload bytes that the pool's users have copied: the same for all streams */
};

static void add_stream(struct stream *stream, void *user) {
    const struct context *context = user;
    struct json *json = context->json;
    uint64_t since = stream->live ? stream->source.since : stream->left_at;

    json_open(json, NULL, '{');
    json_string(json, "name", stream->name);
    json_string(json, "state", stream->live ? "live" : "waiting");
    add_publisher(json, stream);
    json_real(json, "uptime_seconds", (double)(server_now(context->server) - since) / 1000);
    json_unsigned(json, "bytes_received", stream->bytes);
    json_open(json, "frames", '{');
    json_unsigned(json, "video", stream->video_frames);
    json_unsigned(json, "audio", stream->audio_frames);
    json_close(json, '}');
    add_tracks(json, stream);
    json_unsigned(json, "bits_per_second", stream->bits_per_second);
    json_unsigned(json, "subscribers", stream->player_count);
    json_unsigned(json, "merge_window_ms", options_merge_window(context->server->options, stream->name, NULL));
    json_unsigned(json, "sends", stream->sends);
    json_unsigned(json, "frames_dropped", stream->frames_dropped);
    json_unsigned(json, "blocks_held", stream->blocks_held);
    json_open(json, "gop", '{');
    json_unsigned(json, "frames", stream->gop.count);
    json_unsigned(json, "bytes", stream->gop.bytes);
    json_close(json, '}');
    add_recording(json, stream);
    json_unsigned(json, "payload_bytes_copied", context->copied);
    json_close(json, '}');
}

static const char *player_state_text(const struct player *player) {
    switch (player->state) {
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

static void add_players(struct stream *stream, void *user) {
    const struct context *context = user;
    struct json *json = context->json;
    for (const struct player *player = stream->players; player; player = player->next) {
        const struct session *session = player->user;
        json_open(json, NULL, '{');
        json_string(json, "stream", stream->name);
        json_string(json, "address", session->peer);
        json_string(json, "protocol", player->form.kind == PACKET_RTP ? "rtsp" : "http");
        json_string(json, "state", player_state_text(player));
        json_unsigned(json, "bytes_sent", player->bytes_sent);
        json_unsigned(json, "frames_sent", player->packets_sent);
        json_unsigned(json, "sends", player->sends);
        json_unsigned(json, "merge_window_ms", player->merge_window_ms);
        json_unsigned(json, "frames_dropped", player->packets_dropped);
        json_unsigned(json, "queued_bytes", player->queued_bytes);
        json_close(json, '}');
    }
}

static void add_pull(const struct pull *pull, void *user) {
    const struct context *context = user;
    struct json *json = context->json;
    const struct pull_machine *machine = &pull->machine;
    uint64_t now = server_now(context->server);
    json_open(json, NULL, '{');
    json_string(json, "stream", pull->option->name);
    json_string(json, "from", pull->target.place);
    json_string(json, "state", pull_state_name(machine->state));
    json_real(json, "state_seconds", (double)(now - machine->since) / 1000);
    json_string(json, "mode", machine->on_demand ? "on-demand" : "always");
    json_unsigned(json, "failures", machine->failures);
    if (*pull->reason)
        json_string(json, "reason", pull->reason);
    else
        json_null(json, "reason");
    if (machine->state == PULL_BACKOFF)
        json_real(json, "retry_seconds", machine->retry_at > now ? (double)(machine->retry_at - now) / 1000 : 0);
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

static void add_loop(struct json *json, const sluice_loop *loop) {
    sluice_loop_stats stats;
    sluice_loop_get_stats(loop, &stats);
    json_open(json, "loop", '{');
    json_string(json, "backend", stats.backend);
    json_string(json, "features", stats.features);
    json_unsigned(json, "connections", stats.connections);
    json_unsigned(json, "turns", stats.turns);
    json_unsigned(json, "system_calls", stats.enters);
    json_unsigned(json, "completions", stats.completions);
    json_unsigned(json, "starved", stats.starved);
    json_unsigned(json, "aimed", stats.aimed);
    json_unsigned(json, "overflows", stats.overflows);
    json_close(json, '}');
}

void api_streams(struct server *server, struct json *json) {
    sluice_pool_stats pool;
    sluice_pool_get_stats(server->pool, &pool);
    struct context context = {json, server, pool.bytes_copied};

    json_open(json, NULL, '{');
    json_open(json, "streams", '[');
    registry_each(server->registry, add_stream, &context);
    json_close(json, ']');
    json_open(json, "players", '[');
    registry_each(server->registry, add_players, &context);
    json_close(json, ']');
    json_open(json, "pulls", '[');
    pulls_each(server->pulls, add_pull, &context);
    json_close(json, ']');
    add_pool(json, &pool);
    add_loop(json, server->loop);
    json_string(json, "version", SLUICE_VERSION);
    json_real(json, "uptime_seconds", (double)(server_now(server) - server->started_at) / 1000);
    json_close(json, '}');
}
