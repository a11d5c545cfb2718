#include "tools/probe/probe_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/codec_name.h"
#include "shared/foreign_text.h"
#include "shared/json.h"
#include "tools/say.h"

static const char *const track_names[STATS_TRACKS] = {"video", "audio"};

static bool is_key(const sluice_flv_tag *tag) {
    /* Audio begins with any frame. */
    return tag->view.packet == SLUICE_FLV_FRAME && tag->type != SLUICE_FLV_SCRIPT &&
           (tag->type == SLUICE_FLV_AUDIO || tag->view.key_frame);
}

static int64_t pts_of(const sluice_flv_tag *tag) {
    return (int64_t)tag->timestamp + (tag->type == SLUICE_FLV_VIDEO ? tag->view.composition_time : 0);
}

static const char *type_of(const sluice_flv_tag *tag) {
    return tag->type == SLUICE_FLV_VIDEO ? "video" : tag->type == SLUICE_FLV_AUDIO ? "audio" : "script";
}

static void print_json(struct json *json) {
    if (json->failed)
        say("out of memory");
    else
        fwrite(json->text, 1, json->length, stdout);
    putchar('\n');
    free(json->text);
}

void probe_print_head(const struct probe_options *options) {
    if (options->frames && !options->json)
        puts("#   offset type   kind            dts        pts     size key codec");
}

static void print_tag_json(const sluice_flv_tag *tag, int64_t offset) {
    struct json json = {0};
    char codec[CODEC_NAME];
    codec_name(tag->view.codec, codec);
    json_open(&json, NULL, '{');
    json_put_string(&json, "type", "tag");
    if (offset >= 0)
        json_put_unsigned(&json, "offset", (uint64_t)offset);
    else
        json_put_null(&json, "offset");
    json_put_string(&json, "track", type_of(tag));
    if (tag->view.multitrack)
        json_put_unsigned(&json, "id", tag->view.track);
    json_put_string(&json, "kind", stats_kind(tag));
    json_put_unsigned(&json, "dts", tag->timestamp);
    json_put_real(&json, "pts", (double)pts_of(tag));
    json_put_unsigned(&json, "size", stats_size(tag));
    json_put_unsigned(&json, "payload", tag->size);
    json_put_bool(&json, "key", is_key(tag));
    if (tag->type == SLUICE_FLV_SCRIPT)
        json_put_null(&json, "codec");
    else
        json_put_string(&json, "codec", codec);
    json_close(&json, '}');
    print_json(&json);
}

void probe_print_tag(const struct probe_options *options, const sluice_flv_tag *tag, int64_t offset) {
    char codec[CODEC_NAME] = "-", place[24] = "-";
    if (options->json) {
        print_tag_json(tag, offset);
        return;
    }
    if (tag->type != SLUICE_FLV_SCRIPT)
        codec_name(tag->view.codec, codec);
    if (offset >= 0)
        snprintf(place, sizeof place, "%" PRId64, offset);
    printf("%10s %-6s %-8s %10" PRIu32 " %10" PRId64 " %8" PRIu32 " %-3s %s\n", place, type_of(tag), stats_kind(tag),
           tag->timestamp, pts_of(tag), stats_size(tag), is_key(tag) ? "K" : "-", codec);
}

static uint32_t sample_rate(const struct stats_track *track) {
    return track->has_config && track->config.clock_rate ? track->config.clock_rate : track->legacy_rate;
}

static unsigned channels(const struct stats_track *track) {
    return track->has_config && track->config.channels ? track->config.channels : track->legacy_channels;
}

/* As JSON. */

static void put_keys(struct json *json, const struct stats_track *track) {
    json_put_unsigned(json, "key_frames", track->key_frames);
    if (track->key_frames < 2)
        return;
    json_open(json, "key_interval", '{');
    json_put_real(json, "least", (double)track->least_key / 1000);
    json_put_real(json, "mean", (double)(track->last_key - track->first_key) / 1000 / (double)(track->key_frames - 1));
    json_put_real(json, "most", (double)track->most_key / 1000);
    json_close(json, '}');
}

static void put_track(struct json *json, const struct stats_track *track, int kind) {
    char codec[CODEC_NAME];
    codec_name(track->codec, codec);
    json_open(json, NULL, '{');
    json_put_string(json, "type", track_names[kind]);
    json_put_unsigned(json, "id", track->id);
    json_put_string(json, "codec", codec);
    if (*track->profile)
        json_put_string(json, "profile", track->profile);
    if (*track->level)
        json_put_string(json, "level", track->level);
    if (kind == STATS_VIDEO && track->has_config) {
        json_put_unsigned(json, "width", track->config.width);
        json_put_unsigned(json, "height", track->config.height);
    }
    if (kind == STATS_AUDIO && sample_rate(track)) {
        json_put_unsigned(json, "sample_rate", sample_rate(track));
        json_put_unsigned(json, "channels", channels(track));
    }
    json_put_unsigned(json, "headers", track->headers);
    json_put_unsigned(json, "frames", track->frames);
    if (kind == STATS_VIDEO) {
        json_put_real(json, "frame_rate", stats_frame_rate(track));
        put_keys(json, track);
    }
    json_put_unsigned(json, "bytes", track->bytes);
    json_put_unsigned(json, "largest_frame", track->largest);
    json_put_real(json, "bit_rate", stats_bit_rate(track));
    if (track->has_times) {
        json_put_real(json, "start", (double)track->first / 1000);
        json_put_real(json, "duration", (double)stats_track_duration(track) / 1000);
    }
    json_put_unsigned(json, "timestamps_back", track->back);
    json_put_unsigned(json, "jumps", track->jumps);
    json_put_unsigned(json, "gaps", track->gaps);
    json_close(json, '}');
}

static void put_metadata(struct json *json, const sluice_flv_metadata *metadata) {
    json_open(json, "metadata", '{');
    json_put_real(json, "width", metadata->width);
    json_put_real(json, "height", metadata->height);
    json_put_real(json, "frame_rate", metadata->frame_rate);
    json_put_real(json, "video_data_rate", metadata->video_data_rate);
    json_put_real(json, "audio_data_rate", metadata->audio_data_rate);
    json_close(json, '}');
}

static void put_faults(struct json *json, const struct stats *stats) {
    json_put_unsigned(json, "errors", stats->errors);
    json_put_unsigned(json, "warnings", stats->warnings);
    json_open(json, "faults", '[');
    for (uint32_t i = 0; i < stats->fault_count; i++) {
        const struct stats_fault *fault = &stats->faults[i];
        json_open(json, NULL, '{');
        json_put_string(json, "level", fault->is_error ? "error" : "warning");
        json_put_string(json, "what", fault->what);
        if (fault->offset >= 0)
            json_put_unsigned(json, "offset", (uint64_t)fault->offset);
        else
            json_put_null(json, "offset");
        json_put_string(json, "text", fault->text);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void print_summary_json(const struct probe_options *options, const struct stats *stats,
                               const struct probe_end *end) {
    struct json json = {0};
    json_open(&json, NULL, '{');
    json_put_string(&json, "type", "summary");
    json_put_string(&json, "container", end->container);
    if (options->target.kind == TARGET_FILE)
        json_put_string(&json, "input", options->input);
    if (end->size >= 0)
        json_put_unsigned(&json, "size", (uint64_t)end->size);
    json_put_real(&json, "duration", (double)stats_duration(stats) / 1000);
    json_put_unsigned(&json, "tags", stats->tags);
    if (end->has_flags) {
        json_put_bool(&json, "header_video", end->flags & SLUICE_FLV_HAS_VIDEO);
        json_put_bool(&json, "header_audio", end->flags & SLUICE_FLV_HAS_AUDIO);
    }
    json_open(&json, "tracks", '[');
    for (int i = 0; i < STATS_TRACKS * STATS_MOST; i++)
        if (stats->tracks[i / STATS_MOST][i % STATS_MOST].seen)
            put_track(&json, &stats->tracks[i / STATS_MOST][i % STATS_MOST], i / STATS_MOST);
    json_close(&json, ']');
    if (stats->has_metadata)
        put_metadata(&json, &stats->metadata);
    put_faults(&json, stats);
    if (end->reason)
        json_put_string(&json, "ended", end->reason);
    json_close(&json, '}');
    print_json(&json);
}

/* As text. */

static void print_bit_rate(double bits) {
    if (bits >= 1e6)
        printf("%.2f Mbit/s", bits / 1e6);
    else
        printf("%.1f kbit/s", bits / 1e3);
}

static void print_track(const struct stats_track *track, int kind) {
    char codec[CODEC_NAME];
    codec_name(track->codec, codec);
    printf("  %s", track_names[kind]);
    if (track->id > 0)
        printf(" %u", track->id);
    printf(": %s", codec);
    if (*track->profile)
        printf(" %s%s%s", track->profile, *track->level ? "@" : "", track->level);
    if (kind == STATS_VIDEO && track->has_config)
        printf(", %" PRIu32 "x%" PRIu32, track->config.width, track->config.height);
    if (kind == STATS_VIDEO && stats_frame_rate(track) > 0)
        printf(", %.4g frames/s", stats_frame_rate(track));
    if (kind == STATS_AUDIO && sample_rate(track))
        printf(", %" PRIu32 " Hz, %u channel%s", sample_rate(track), channels(track), channels(track) == 1 ? "" : "s");
    printf(", ");
    print_bit_rate(stats_bit_rate(track));
    printf("\n    %" PRIu64 " frames, %" PRIu64 " bytes, the largest %" PRIu64 "\n", track->frames, track->bytes,
           track->largest);
    if (track->has_times)
        printf("    from %.3f s, for %.3f s\n", (double)track->first / 1000,
               (double)stats_track_duration(track) / 1000);
    if (kind == STATS_VIDEO)
        printf("    %" PRIu64 " key frames", track->key_frames);
    if (kind == STATS_VIDEO && track->key_frames > 1)
        printf(", every %.3f s (%.3f to %.3f)",
               (double)(track->last_key - track->first_key) / 1000 / (double)(track->key_frames - 1),
               (double)track->least_key / 1000, (double)track->most_key / 1000);
    if (kind == STATS_VIDEO)
        putchar('\n');
    if (track->back + track->jumps + track->gaps)
        printf("    timestamps: %" PRIu64 " back, %" PRIu64 " jumps, %" PRIu64 " gaps\n", track->back, track->jumps,
               track->gaps);
}

static void print_faults(const struct stats *stats) {
    if (stats->errors + stats->warnings == 0) {
        puts("  no errors");
        return;
    }
    printf("  %" PRIu64 " errors, %" PRIu64 " warnings\n", stats->errors, stats->warnings);
    for (uint32_t i = 0; i < stats->fault_count; i++) {
        const struct stats_fault *fault = &stats->faults[i];
        printf("    %s", fault->is_error ? "error" : "warning");
        if (fault->offset >= 0)
            printf(" at byte %" PRId64, fault->offset);
        fputs(": ", stdout);
        foreign_print(stdout, fault->text);
        putchar('\n');
    }
    if (stats->fault_count < stats->errors + stats->warnings)
        printf("    and %" PRIu64 " more\n", stats->errors + stats->warnings - stats->fault_count);
}

void probe_print_summary(const struct probe_options *options, const struct stats *stats, const struct probe_end *end) {
    if (options->json) {
        print_summary_json(options, stats, end);
        return;
    }
    char place[TARGET_HOST + 16];
    target_place(&options->target, place, sizeof place);
    bool remote = options->target.kind != TARGET_FILE && options->target.kind != TARGET_INPUT;
    foreign_print(stdout, remote ? place : options->input);
    foreign_print(stdout, remote ? options->target.path : "");
    printf(": %s, %.3f s, %" PRIu64 " tags", end->container, (double)stats_duration(stats) / 1000, stats->tags);
    if (end->size >= 0)
        printf(", %" PRId64 " bytes", end->size);
    putchar('\n');
    for (int i = 0; i < STATS_TRACKS * STATS_MOST; i++)
        if (stats->tracks[i / STATS_MOST][i % STATS_MOST].seen)
            print_track(&stats->tracks[i / STATS_MOST][i % STATS_MOST], i / STATS_MOST);
    print_faults(stats);
    if (end->reason) {
        fputs("  ended: ", stdout);
        foreign_print(stdout, end->reason);
        putchar('\n');
    }
}
