/*
 * OBS's multitrack configuration ("GetClientConfiguration", schema 2025-01-25): what OBS says of
 * itself in a request, and the encoders that it is told to run. No sockets.
 */
#ifndef SLUICED_OBS_CONFIG_H
#define SLUICED_OBS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OBS_BODY = 16 * 1024, /* longest request */
    OBS_KEY = 512,        /* longest stream key, with its query */
    OBS_VERSION = 32,     /* longest schema version */
    OBS_CANVASES = 4,     /* that are used; further ones get no encoder */
    OBS_TRACKS = 10,      /* video encoders that OBS runs */
    OBS_SIDE = 8192,      /* largest width and height */
};

struct obs_canvas {
    uint32_t width, height;
    uint32_t rate_numerator, rate_denominator;
};

struct obs_request {
    char key[OBS_KEY + 1];
    char schema_version[OBS_VERSION + 1];
    struct obs_canvas canvases[OBS_CANVASES];
    uint32_t canvas_count;
    uint64_t most_kbit;   /* of all tracks together; 0: the client has no limit */
    uint32_t most_tracks; /* likewise */
    uint32_t audio_channels;
    bool has_vod_audio;
    bool has_nvenc; /* a GPU and a version of OBS with NVENC by the name that the answer uses */
};

struct obs_limits {
    uint32_t tracks; /* at most; of video */
    uint64_t kbit;   /* at most; of all video tracks together */
};

/* A client that says nothing: 1080p30 without limits. */
void obs_request_init(struct obs_request *ret_request);

/* Reads the body of a request. 0, -EINVAL (not JSON, not such a request, or a value that is out of
 * range), -ENOMEM */
int obs_request_read(const char *text, size_t size, struct obs_request *ret_request);

/* The answer, of @ret_size bytes. The caller frees it. @url: of the ingest,
 * "rtmp://HOST:PORT/APP". NULL without memory */
char *obs_config_write(const struct obs_request *request, const struct obs_limits *limits, const char *url,
                       size_t *ret_size);

#endif
