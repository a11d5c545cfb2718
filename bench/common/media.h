/* A real stream, determined by a seed: 25 pictures a second as large as those of H.264, in groups
 * of 2 s that a key picture begins, and 43 frames of AAC between them. */
#ifndef BENCH_COMMON_MEDIA_H
#define BENCH_COMMON_MEDIA_H

#include <stddef.h>
#include <stdint.h>

#include "common/arrivals.h"

enum {
    MEDIA_VIDEO = 0,
    MEDIA_AUDIO = 1,
    MEDIA_TRACKS = 2,
    /* frames: the first of each track, by which a server knows what the stream is */
    MEDIA_PREROLL = 2,
    MEDIA_VIDEO_CLOCK = 90000,
    MEDIA_AUDIO_CLOCK = 44100,
    MEDIA_GROUP_NS = 2000000000,
    MEDIA_GROUP_FRAMES = 138, /* of both tracks, at most */
    MEDIA_KEY_TIMES = 10,     /* by default a key picture is as large as so many others */
    MEDIA_MOST_KEY_TIMES = 50,
    MEDIA_MOST_KBITS = 100000,
    MEDIA_MOST_FRAMES = 1000000,
};

typedef struct media_frame {
    uint8_t track;
    uint8_t nal;       /* video: the byte that its NAL unit begins with */
    uint32_t size;     /* of the NAL unit or AAC frame */
    uint32_t index;    /* in its track */
    uint32_t clock;    /* when it is shown, in units of the track's clock */
    uint64_t at_ns;    /* the same, in nanoseconds */
    const uint8_t *at; /* video: the bytes behind the first; audio: all */
} media_frame;

typedef struct media {
    media_frame *frames; /* of both tracks, in order of time */
    uint32_t count;
    uint32_t *tracks[MEDIA_TRACKS]; /* where each track's frames are among them */
    uint32_t counts[MEDIA_TRACKS];
    uint64_t bytes; /* of all frames */
} media;

/* H.264's parameter sets and AAC's configuration, and a description with them. */
typedef struct media_bytes {
    const uint8_t *bytes;
    size_t size;
} media_bytes;
extern const media_bytes media_sps, media_pps, media_aac;
extern const char media_sdp[];

/*
 * @param kbits of the stream per second, both tracks, on average @param key_times a key picture is
 * as large as so many others @param count frames of both tracks together
 */
void media_make(media *made, uint32_t kbits, uint32_t key_times, uint32_t count);

/*
 * Streams of a program have the same frames, but each is at another place of its group at the same
 * time. This one of so many sends the preroll, and then the frames from this one on; made must have
 * MEDIA_GROUP_FRAMES more than it sends.
 */
uint32_t media_first(const media *of, enum arrivals how, uint32_t stream, uint32_t streams);

/* When so many frames from media_first() on are due, nanoseconds since the beginning. */
void media_due(const media *of, enum arrivals how, uint32_t stream, uint32_t streams, uint64_t *due_ns, uint32_t count);

static inline int media_is_key(const media_frame *frame) {
    return (frame->nal & 0x1F) == 5;
}

#endif
