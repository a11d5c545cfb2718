/*
 * An FLV file in memory: read once into blocks of a pool of its own, and its tags are slices of
 * them, which all publishers send. Times are milliseconds from the first frame on; a file that is
 * sent again goes on behind itself.
 */
#ifndef TOOLS_MEDIA_H
#define TOOLS_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/codec.h>
#include <sluice/flv.h>
#include <sluice/pool.h>

enum media_track { MEDIA_VIDEO, MEDIA_AUDIO, MEDIA_TRACKS };

struct media_tag {
    sluice_flv_type type;
    bool frame;    /* else a header, a script or the like */
    bool key;      /* video: decoding can begin here */
    uint32_t time; /* of decoding */
    uint32_t due;  /* when to send it: never before the tag in front of it */
    int32_t show;  /* presentation minus decoding */
    uint32_t size; /* of the frame without FLV's header */
    sluice_slice payload;
};

struct media {
    sluice_pool *pool;
    struct media_tag *tags;
    size_t count;
    uint32_t duration; /* with the last frame, milliseconds; not 0 */
    bool has[MEDIA_TRACKS];
    bool has_config[MEDIA_TRACKS]; /* what RTSP announces is known */
    sluice_codec_config config[MEDIA_TRACKS];
    uint64_t bytes; /* of payloads */
};

/* 0, -EPROTO (not FLV, or damaged), -ENODATA (no frames in it), -ENOMEM, or an error of open(2) or
 * read(2) */
int media_read(const char *path, struct media **ret_media);

/* NULL is allowed. */
void media_free(struct media *media);

/* Times of a tag by its number in the endless stream that the file makes when it is sent again and
 * again. */
static inline uint64_t media_time(const struct media *media, uint64_t number) {
    return number / media->count * media->duration + media->tags[number % media->count].time;
}

static inline uint64_t media_due(const struct media *media, uint64_t number) {
    return number / media->count * media->duration + media->tags[number % media->count].due;
}

static inline const struct media_tag *media_at(const struct media *media, uint64_t number) {
    return &media->tags[number % media->count];
}

/* The first tag that is not due before this time, by its number in the endless stream. */
uint64_t media_find(const struct media *media, uint64_t time);

#endif
