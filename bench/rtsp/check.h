/* Whether a player gets each frame, in order, and every byte of it. What is wrong ends the
 * process. */
#ifndef BENCH_RTSP_CHECK_H
#define BENCH_RTSP_CHECK_H

#include <stdbool.h>

#include "rtsp/media.h"
#include "rtsp/rtmp.h"

typedef struct checker {
    const media *media;
    uint32_t next[MEDIA_TRACKS];     /* the frame that is to come, or that has come in part */
    uint32_t have;                   /* bytes of that picture */
    bool begun[MEDIA_TRACKS];        /* RTP: the following is known */
    uint16_t sequence[MEDIA_TRACKS]; /* of the next packet */
    uint32_t ssrc[MEDIA_TRACKS];
    bool has_head;      /* FLV: the response's head and the file header have come */
    rtmp_chunks chunks; /* RTMP */
    uint64_t packets;
} checker;

/* The player gets what is sent after it has come: not the frames that make a stream known. */
void check_from_now_on(checker *c);

/* What stands at the beginning and is whole: as many bytes as are done with. The others come again,
 * and more. */
size_t check_rtp(checker *c, const uint8_t *bytes, size_t size);
size_t check_flv(checker *c, const uint8_t *bytes, size_t size);
size_t check_rtmp(checker *c, const uint8_t *bytes, size_t size);

static inline bool check_is_done(const checker *c) {
    return c->next[MEDIA_VIDEO] == c->media->counts[MEDIA_VIDEO] &&
           c->next[MEDIA_AUDIO] == c->media->counts[MEDIA_AUDIO];
}

#endif
