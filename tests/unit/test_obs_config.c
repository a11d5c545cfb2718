/* OBS's multitrack configuration: requests as OBS sends them, and what they are answered. */
#include "daemon/protocols/http/obs_config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

/* As OBS builds it (GoLiveAPI_PostData.cpp). */
#define REQUEST(key, version, gpu, preferences)                                                                        \
    "{\"authentication\":\"" key "\",\"capabilities\":{\"cpu\":{\"logical_cores\":16,\"name\":\"AMD Ryzen 7\","        \
    "\"physical_cores\":8,\"speed\":3800},\"gaming_features\":null,\"gpu\":" gpu ",\"memory\":{\"free\":21474836480,"  \
    "\"total\":34359738368},\"system\":{\"arm\":false,\"armEmulation\":false,\"bits\":64,\"build\":22631,"             \
    "\"name\":\"Windows\",\"release\":\"23H2\",\"revision\":\"4317\",\"version\":\"10.0\"}},"                          \
    "\"client\":{\"name\":\"obs-studio\",\"supported_codecs\":[\"h264\",\"h265\",\"av1\"],\"version\":\"" version      \
    "\"},"                                                                                                             \
    "\"preferences\":{" preferences "},\"schema_version\":\"2025-01-25\",\"service\":\"IVS\"}"
#define NVIDIA                                                                                                         \
    "[{\"dedicated_video_memory\":8589934592,\"device_id\":9348,\"driver_version\":\"32.0.15.6603\","                  \
    "\"model\":\"NVIDIA GeForce RTX 3070\",\"shared_system_memory\":17179869184,\"vendor_id\":4318}]"
#define AUDIO                                                                                                          \
    "\"audio_channels\":2,\"audio_fixed_buffering\":false,\"audio_max_buffering_ms\":960,"                             \
    "\"audio_samples_per_sec\":48000,\"composition_gpu_index\":0,\"vod_track_audio\":"
#define CANVAS(width, height, rate)                                                                                    \
    "{\"canvas_height\":" #height ",\"canvas_width\":" #width ",\"framerate\":{\"denominator\":1,\"numerator\":" #rate \
    "},\"height\":" #height ",\"width\":" #width "}"
#define NO_LIMITS ",\"maximum_aggregate_bitrate\":null,\"maximum_video_tracks\":null"

static const struct obs_limits limits = {.tracks = 3, .kbit = 12000};

static json_t *answer(const struct obs_request *request, const struct obs_limits *bounds) {
    size_t size;
    char *text = obs_config_write(request, bounds, "rtmp://h:1935/live", &size);
    assert_non_null(text);
    json_t *config = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(config);
    free(text);
    return config;
}

static void read(const char *text, struct obs_request *ret_request) {
    assert_int_equal(obs_request_read(text, strlen(text), ret_request), 0);
}

/* "1920x1080@6000 ..." */
static void check_renditions(const struct obs_request *request, const struct obs_limits *bounds, const char *expected) {
    json_t *config = answer(request, bounds), *one;
    char text[512] = "", type[64];
    size_t i;
    json_array_foreach(json_object_get(config, "encoder_configurations"), i, one) {
        const json_t *settings = json_object_get(one, "settings");
        snprintf(type, sizeof type, "%s%lld:%lldx%lld@%lld", i > 0 ? " " : "",
                 json_integer_value(json_object_get(one, "canvas_index")),
                 json_integer_value(json_object_get(one, "width")), json_integer_value(json_object_get(one, "height")),
                 json_integer_value(json_object_get(settings, "bitrate")));
        strcat(text, type);
    }
    assert_string_equal(text, expected);
    json_decref(config);
}

static void whole_answer(void **state) {
    (void)state;
    struct obs_request request;
    read(REQUEST("key?token=t", "31.0.3", NVIDIA, AUDIO "true,\"canvases\":[" CANVAS(1920, 1080, 60) "]" NO_LIMITS),
         &request);
    assert_string_equal(request.key, "key?token=t");
    json_t *config = answer(&request, &limits), *video, *expected;
    expected = json_loads(
        "{\"meta\":{\"service\":\"sluiced\",\"schema_version\":\"2025-01-25\",\"config_id\":\"\"},"
        "\"status\":{\"result\":\"success\",\"html_en_us\":null},"
        "\"ingest_endpoints\":[{\"protocol\":\"RTMP\",\"url_template\":\"rtmp://h:1935/live/{stream_key}\","
        "\"authentication\":\"\"}],"
        "\"audio_configurations\":{"
        "\"live\":[{\"codec\":\"aac\",\"track_id\":1,\"channels\":2,\"settings\":{\"bitrate\":160}}],"
        "\"vod\":[{\"codec\":\"aac\",\"track_id\":2,\"channels\":2,\"settings\":{\"bitrate\":160}}]}}",
        0, NULL);
    video = json_incref(json_array_get(json_object_get(config, "encoder_configurations"), 0));
    json_object_del(config, "encoder_configurations");
    assert_true(json_equal(config, expected));
    json_decref(expected);
    expected = json_loads(
        "{\"type\":\"obs_nvenc_h264_tex\",\"width\":1920,\"height\":1080,"
        "\"framerate\":{\"numerator\":60,\"denominator\":1},\"gpu_scale_type\":\"OBS_SCALE_BICUBIC\","
        "\"colorspace\":\"VIDEO_CS_709\",\"range\":\"VIDEO_RANGE_PARTIAL\",\"format\":\"VIDEO_FORMAT_NV12\","
        "\"canvas_index\":0,\"settings\":{\"rate_control\":\"CBR\",\"bitrate\":7058,\"keyint_sec\":2,"
        "\"profile\":\"high\",\"preset\":\"p4\",\"bf\":0}}",
        0, NULL);
    assert_true(json_equal(video, expected));
    json_decref(expected);
    json_decref(video);
    json_decref(config);
}

/* Within the bounds of the server and of the client, on both sides of each. */
static void renditions(void **state) {
    (void)state;
    struct obs_request request;
    const struct obs_limits wide = {.tracks = 10, .kbit = 1000000};
    obs_request_init(&request);
    check_renditions(&request, &limits, "0:1920x1080@6000 0:1280x720@3000 0:852x480@1200");
    check_renditions(&request, &wide, "0:1920x1080@6000 0:1280x720@3000 0:852x480@1200 0:640x360@700");
    check_renditions(&request, &(struct obs_limits){1, 12000}, "0:1920x1080@6000");
    check_renditions(&request, &(struct obs_limits){3, 10200}, "0:1920x1080@6000 0:1280x720@3000 0:852x480@1200");
    check_renditions(&request, &(struct obs_limits){3, 5100}, "0:1920x1080@3000 0:1280x720@1500 0:852x480@600");
    check_renditions(&request, &(struct obs_limits){3, 5099}, "0:1920x1080@3399 0:1280x720@1699");
    check_renditions(&request, &(struct obs_limits){3, 500}, "0:1920x1080@500");
    request.most_tracks = 2;
    request.most_kbit = 4500;
    check_renditions(&request, &limits, "0:1920x1080@3000 0:1280x720@1500");
    read(REQUEST("k", "30.2.3", NVIDIA,
                 AUDIO "false,\"canvases\":[" CANVAS(1280, 720, 30) "," CANVAS(1080, 1920, 30) "]" NO_LIMITS),
         &request);
    assert_false(request.has_nvenc);
    check_renditions(&request, &limits, "0:1280x720@3000 1:1080x1920@6000 0:852x480@1200");
}

static void small_canvas(void **state) {
    (void)state;
    struct obs_request request;
    read(REQUEST("k", "32.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(160, 90, 30) "]" NO_LIMITS), &request);
    check_renditions(&request, &limits, "0:160x90@175");
    read(REQUEST("k", "32.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(8192, 16, 30) "]" NO_LIMITS), &request);
    check_renditions(&request, &limits, "0:8192x16@31");
    read(REQUEST("k", "32.0.0", "null",
                 AUDIO "false,\"canvases\":[" CANVAS(640, 360, 30) "," CANVAS(640, 360, 30) "," CANVAS(
                     640, 360, 30) "," CANVAS(640, 360, 30) "," CANVAS(640, 360, 30) "]" NO_LIMITS),
         &request);
    assert_int_equal(request.canvas_count, OBS_CANVASES);
}

static void wrong_requests(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"authentication\":\"k\"}",
        REQUEST("k\\u0000", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(640, 360, 30) "]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[1]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(8193, 360, 30) "]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(640, 15, 30) "]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(640, -1, 30) "]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(640, "360", 30) "]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(640, 360, 0) "]"),
        REQUEST("k", "31.0.0", "null",
                AUDIO "false,\"maximum_aggregate_bitrate\":10000001,\"canvases\":[" CANVAS(640, 360, 30) "]"),
        REQUEST("k", "31.0.0", "null", AUDIO "false,\"canvases\":[" CANVAS(640, 360, 30) "]") "x",
    };
    struct obs_request request;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (obs_request_read(rows[i], strlen(rows[i]), &request) != -EINVAL)
            fail_msg("taken: %s", rows[i]);
    char key[OBS_KEY + 2], text[4096];
    memset(key, 'k', sizeof key);
    for (size_t length = OBS_KEY; length <= OBS_KEY + 1; length++) {
        snprintf(text, sizeof text,
                 "{\"authentication\":\"%.*s\",\"schema_version\":\"x\",\"client\":{},\"preferences\":{\"canvases\":["
                 "{\"width\":16,\"height\":16}]}}",
                 (int)length, key);
        assert_int_equal(obs_request_read(text, strlen(text), &request), length == OBS_KEY ? 0 : -EINVAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_answer),
        cmocka_unit_test(renditions),
        cmocka_unit_test(small_canvas),
        cmocka_unit_test(wrong_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
