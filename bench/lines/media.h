/* The streams of the load: 1.04 Mbit/s, 25 video and 43 audio frames a second, groups of 2 s. */
#ifndef SLUICE_BENCH_LINES_MEDIA_H
#define SLUICE_BENCH_LINES_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>

enum {
    VIDEO_RATE = 25, /* frames a second */
    AUDIO_RATE = 43,
    GROUP_FRAMES = 50, /* video: 2 s */
    /* bytes: 1.04 Mbit/s, a key frame 10 times as large as the others */
    KEY_FRAME = 38640,
    VIDEO_FRAME = 3864,
    AUDIO_FRAME = 372,
    MEDIA_TAG = KEY_FRAME + SLUICE_FLV_TAG_HEADER_SIZE + SLUICE_FLV_TRAILER_SIZE, /* the largest */
};

/* Where a stream is. */
struct media {
    uint64_t video, audio; /* frames so far */
    uint64_t shift_ms;     /* streams are not in step: their groups begin one after the other */
};

/* The stream of that number, of so many. */
struct media media_of(uint64_t index, uint64_t count);

/* Whether a frame is due so many milliseconds after the load's beginning. */
bool media_is_due(const struct media *media, bool is_video, uint64_t now_ms);

/* Writes the next one's tag; its length. Of the payload, only the header. */
size_t media_write(struct media *media, bool is_video, uint8_t to[MEDIA_TAG]);

#endif
