#include "daemon/protocols/http/obs_config.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json.h"

enum {
    NVIDIA = 0x10de,  /* vendor of a GPU */
    NVENC_SINCE = 31, /* version of OBS with obs_nvenc_h264_tex */
    LEAST_KBIT = 200, /* of a track */
    KEY_SECONDS = 2,  /* from one key frame to the next */
    AUDIO_KBIT = 160,
    PER_CANVAS_MOST = 4 /* renditions of a canvas */
};

/* Renditions by their shorter side, and what they need at 30 frames per second. */
static const struct {
    uint32_t side, kbit;
} ladder[] = {{2160, 14000}, {1440, 9000}, {1080, 6000}, {720, 3000}, {480, 1200}, {360, 700}};

enum { RUNGS = sizeof ladder / sizeof *ladder };

struct rendition {
    uint32_t canvas, width, height;
    uint64_t kbit;
};

void obs_request_init(struct obs_request *ret_request) {
    *ret_request = (struct obs_request){
        .schema_version = "2025-01-25",
        .canvases = {{1920, 1080, 30, 1}},
        .canvas_count = 1,
        .audio_channels = 2,
    };
}

/* Reading. */

static bool read_text(const json_t *object, const char *key, char *text, size_t size) {
    const json_t *value = json_object_get(object, key);
    const char *string = json_string_value(value);
    if (!string || json_string_length(value) >= size || strlen(string) != json_string_length(value))
        return false;
    memcpy(text, string, json_string_length(value) + 1);
    return true;
}

/* A number from @least on; absent or null: @preset. */
static bool read_number(const json_t *object, const char *key, json_int_t least, json_int_t most, json_int_t preset,
                        uint32_t *ret_number) {
    const json_t *value = json_object_get(object, key);
    json_int_t number = !value || json_is_null(value) ? preset
                        : json_is_integer(value)      ? json_integer_value(value)
                                                      : -1;
    if (number != preset && (number < least || number > most))
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

static bool read_canvas(const json_t *object, struct obs_canvas *canvas) {
    const json_t *rate = json_object_get(object, "framerate");
    return read_number(object, "width", 16, OBS_SIDE, -1, &canvas->width) && canvas->width <= OBS_SIDE &&
           read_number(object, "height", 16, OBS_SIDE, -1, &canvas->height) && canvas->height <= OBS_SIDE &&
           read_number(rate, "numerator", 1, 1000000, 30, &canvas->rate_numerator) &&
           read_number(rate, "denominator", 1, 1000000, 1, &canvas->rate_denominator);
}

static bool read_preferences(const json_t *preferences, struct obs_request *request) {
    const json_t *canvases = json_object_get(preferences, "canvases");
    uint32_t kbit = 0;
    if (!json_is_object(preferences) || !json_is_array(canvases) || json_array_size(canvases) == 0 ||
        !read_number(preferences, "maximum_aggregate_bitrate", 1, 10000000, 0, &kbit) ||
        !read_number(preferences, "maximum_video_tracks", 1, 1000, 0, &request->most_tracks) ||
        !read_number(preferences, "audio_channels", 1, 8, 2, &request->audio_channels))
        return false;
    request->most_kbit = kbit;
    request->has_vod_audio = json_is_true(json_object_get(preferences, "vod_track_audio"));
    request->canvas_count = 0;
    for (size_t i = 0; i < json_array_size(canvases) && i < OBS_CANVASES; i++)
        if (!read_canvas(json_array_get(canvases, i), &request->canvases[request->canvas_count++]))
            return false;
    return true;
}

static bool has_nvenc(const json_t *client, const json_t *capabilities) {
    const char *version = json_string_value(json_object_get(client, "version"));
    const json_t *gpus = json_object_get(capabilities, "gpu"), *gpu;
    bool found = false;
    size_t i;
    json_array_foreach(gpus, i, gpu) {
        found |= json_integer_value(json_object_get(gpu, "vendor_id")) == NVIDIA;
    }
    return found && version && atoi(version) >= NVENC_SINCE;
}

int obs_request_read(const char *text, size_t size, struct obs_request *ret_request) {
    struct obs_request request;
    json_error_t reason;
    json_t *members = json_loadb(text, size, JSON_REJECT_DUPLICATES, &reason);
    if (!members)
        return json_error_code(&reason) == json_error_out_of_memory ? -ENOMEM : -EINVAL;
    obs_request_init(&request);
    const json_t *client = json_object_get(members, "client");
    const bool is_right = json_is_object(client) &&
                          read_text(members, "authentication", request.key, sizeof request.key) &&
                          read_text(members, "schema_version", request.schema_version, sizeof request.schema_version) &&
                          read_preferences(json_object_get(members, "preferences"), &request);
    request.has_nvenc = is_right && has_nvenc(client, json_object_get(members, "capabilities"));
    json_decref(members);
    if (is_right)
        *ret_request = request;
    explicit_bzero(&request, sizeof request);
    return is_right ? 0 : -EINVAL;
}

/* Renditions. */

static uint64_t least_of(uint64_t a, uint64_t b) {
    return b > 0 && b < a ? b : a;
}

static uint32_t side_of(const struct obs_canvas *canvas) {
    return canvas->width < canvas->height ? canvas->width : canvas->height;
}

/* What a picture of that size needs, between the rungs by its side. */
static uint64_t kbit_of(const struct obs_canvas *canvas, uint32_t side) {
    size_t rung = 0;
    while (rung + 1 < RUNGS && ladder[rung].side > side)
        rung++;
    uint64_t kbit = (uint64_t)ladder[rung].kbit * side / ladder[rung].side;
    return canvas->rate_numerator > 40ull * canvas->rate_denominator ? kbit * 3 / 2 : kbit;
}

static void add_rendition(struct rendition *list, uint32_t *count, const struct obs_request *request, uint32_t canvas,
                          uint32_t side) {
    const struct obs_canvas *from = &request->canvases[canvas];
    list[(*count)++] = (struct rendition){
        .canvas = canvas,
        .width = (uint32_t)((uint64_t)from->width * side / side_of(from)) & ~1u,
        .height = (uint32_t)((uint64_t)from->height * side / side_of(from)) & ~1u,
        .kbit = kbit_of(from, side),
    };
}

/* Each canvas at its own size first, then smaller ones in turn, so that none takes all tracks. */
static uint32_t choose(const struct obs_request *request, uint32_t most, struct rendition list[OBS_TRACKS]) {
    uint32_t count = 0, sides[OBS_CANVASES];
    for (uint32_t round = 0; round < PER_CANVAS_MOST; round++) {
        for (uint32_t i = 0; i < request->canvas_count && count < most; i++) {
            uint32_t side = round == 0 ? side_of(&request->canvases[i]) : 0;
            for (size_t rung = 0; rung < RUNGS && round > 0 && side == 0; rung++)
                side = ladder[rung].side < sides[i] ? ladder[rung].side : 0;
            if (side > 0)
                add_rendition(list, &count, request, i, side);
            sides[i] = side;
        }
    }
    return count;
}

static uint64_t sum_of(const struct rendition *list, uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += list[i].kbit;
    return sum;
}

/* Without those for which more than half of the bits of all would have to go; then all in the same
 * proportion. */
static uint32_t fit(struct rendition *list, uint32_t count, uint64_t most) {
    while (count > 1 && (sum_of(list, count) > 2 * most || count * LEAST_KBIT > most))
        count--;
    const uint64_t sum = sum_of(list, count);
    for (uint32_t i = 0; i < count && sum > most; i++)
        list[i].kbit = list[i].kbit * most / sum;
    return count;
}

/* Writing. */

static void write_video(const struct rendition *rendition, const struct obs_request *request, struct json *json) {
    const struct obs_canvas *canvas = &request->canvases[rendition->canvas];
    json_open(json, NULL, '{');
    json_put_string(json, "type", request->has_nvenc ? "obs_nvenc_h264_tex" : "obs_x264");
    json_put_unsigned(json, "width", rendition->width);
    json_put_unsigned(json, "height", rendition->height);
    json_open(json, "framerate", '{');
    json_put_unsigned(json, "numerator", canvas->rate_numerator);
    json_put_unsigned(json, "denominator", canvas->rate_denominator);
    json_close(json, '}');
    json_put_string(json, "gpu_scale_type", "OBS_SCALE_BICUBIC");
    json_put_string(json, "colorspace", "VIDEO_CS_709");
    json_put_string(json, "range", "VIDEO_RANGE_PARTIAL");
    json_put_string(json, "format", "VIDEO_FORMAT_NV12");
    json_put_unsigned(json, "canvas_index", rendition->canvas);
    json_open(json, "settings", '{');
    json_put_string(json, "rate_control", "CBR");
    json_put_unsigned(json, "bitrate", rendition->kbit);
    json_put_unsigned(json, "keyint_sec", KEY_SECONDS);
    json_put_string(json, "profile", "high");
    json_put_string(json, "preset", request->has_nvenc ? "p4" : "veryfast");
    json_put_unsigned(json, "bf", 0);
    json_close(json, '}');
    json_close(json, '}');
}

static void write_audio(const char *key, unsigned track, const struct obs_request *request, struct json *json) {
    json_open(json, key, '[');
    json_open(json, NULL, '{');
    json_put_string(json, "codec", "aac");
    json_put_unsigned(json, "track_id", track);
    json_put_unsigned(json, "channels", request->audio_channels);
    json_open(json, "settings", '{');
    json_put_unsigned(json, "bitrate", AUDIO_KBIT);
    json_close(json, '}');
    json_close(json, '}');
    json_close(json, ']');
}

static void write_frame(const struct obs_request *request, const char *url, struct json *json) {
    char template[1024];
    snprintf(template, sizeof template, "%s/{stream_key}", url);
    json_open(json, "meta", '{');
    json_put_string(json, "service", "sluiced");
    json_put_string(json, "schema_version", request->schema_version);
    json_put_string(json, "config_id", "");
    json_close(json, '}');
    json_open(json, "status", '{');
    json_put_string(json, "result", "success");
    json_put_null(json, "html_en_us");
    json_close(json, '}');
    json_open(json, "ingest_endpoints", '[');
    json_open(json, NULL, '{');
    json_put_string(json, "protocol", "RTMP");
    json_put_string(json, "url_template", template);
    json_put_string(json, "authentication", "");
    json_close(json, '}');
    json_close(json, ']');
}

char *obs_config_write(const struct obs_request *request, const struct obs_limits *limits, const char *url,
                       size_t *ret_size) {
    struct rendition list[OBS_TRACKS];
    struct json json = {0};
    uint32_t most = (uint32_t)least_of(least_of(OBS_TRACKS, limits->tracks), request->most_tracks);
    uint32_t count = fit(list, choose(request, most, list), least_of(limits->kbit, request->most_kbit));
    json_open(&json, NULL, '{');
    write_frame(request, url, &json);
    json_open(&json, "encoder_configurations", '[');
    for (uint32_t i = 0; i < count; i++)
        write_video(&list[i], request, &json);
    json_close(&json, ']');
    json_open(&json, "audio_configurations", '{');
    write_audio("live", 1, request, &json);
    if (request->has_vod_audio)
        write_audio("vod", 2, request, &json);
    json_close(&json, '}');
    json_close(&json, '}');
    if (json.failed) {
        free(json.text);
        return NULL;
    }
    *ret_size = json.length;
    return json.text;
}
