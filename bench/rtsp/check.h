/* Whether a player gets each frame, in order, and every byte of it. What is wrong ends the process. */
#ifndef BENCH_RTSP_CHECK_H
#define BENCH_RTSP_CHECK_H

#include <stdbool.h>

#include "rtsp/media.h"

typedef struct checker {
    const media *media;
    uint32_t next[MEDIA_TRACKS];     /* the frame that is to come, or that has come in part */
    uint32_t have;                   /* bytes of that picture */
    bool begun[MEDIA_TRACKS];        /* RTP: the following is known */
    uint16_t sequence[MEDIA_TRACKS]; /* of the next packet */
    uint32_t ssrc[MEDIA_TRACKS];
    bool has_head; /* FLV: the response's head and the file header have come */
    uint64_t packets;
} checker;

/* What stands at the beginning and is whole: as many bytes as are done with. The others come again, and more. */
size_t check_rtp(checker *c, const uint8_t *bytes, size_t size);
size_t check_flv(checker *c, const uint8_t *bytes, size_t size);

static inline bool check_is_done(const checker *c) {
    return c->next[MEDIA_VIDEO] == c->media->counts[MEDIA_VIDEO] &&
           c->next[MEDIA_AUDIO] == c->media->counts[MEDIA_AUDIO];
}

#endif
