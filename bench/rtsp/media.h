/* What a camera or an encoder sends, determined by a seed: pictures as large as those of H.264, and
 * frames of AAC. */
#ifndef BENCH_RTSP_MEDIA_H
#define BENCH_RTSP_MEDIA_H

#include <stddef.h>
#include <stdint.h>

enum {
    MEDIA_VIDEO = 0,
    MEDIA_AUDIO = 1,
    MEDIA_TRACKS = 2,
    /* frames: the first of each track, by which a server knows what the stream is */
    MEDIA_PREROLL = 2,
    MEDIA_VIDEO_CLOCK = 90000,
    MEDIA_AUDIO_CLOCK = 44100,
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

/* @param kbits of the stream per second, both tracks @param count frames of both tracks together */
void media_make(media *made, uint32_t kbits, uint32_t count);

/*
 * How much later than the first one's the frames of this of so many streams are due, nanoseconds:
 * they are spread evenly.
 */
uint64_t media_phase_ns(const media *of, uint32_t stream, uint32_t streams);

/* When a frame is due after the first that is, the one behind the preroll, nanoseconds. */
static inline uint64_t media_due_ns(const media *of, const media_frame *frame) {
    return frame->at_ns - of->frames[MEDIA_PREROLL].at_ns;
}

static inline int media_is_key(const media_frame *frame) {
    return (frame->nal & 0x1F) == 5;
}

#endif
