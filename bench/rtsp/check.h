/* Whether a player gets each frame, in order, and every byte of it. What is wrong ends the
 * process. */
#ifndef BENCH_RTSP_CHECK_H
#define BENCH_RTSP_CHECK_H

#include <stdbool.h>

#include "common/media.h"
#include "rtsp/chunked.h"
#include "rtsp/rtmp.h"

typedef struct checker {
    const media *media;
    uint32_t first[MEDIA_TRACKS];    /* the frame that follows the preroll */
    uint32_t enough[MEDIA_TRACKS];   /* the one behind the last that counts */
    uint32_t end[MEDIA_TRACKS];      /* the one behind the last */
    bool joins[MEDIA_TRACKS];        /* the first frame may be any up to */
    uint32_t counts[MEDIA_TRACKS];   /* this one, from which on they count */
    uint32_t next[MEDIA_TRACKS];     /* the frame that is to come, or that has come in part */
    uint32_t have;                   /* bytes of that picture */
    bool begun[MEDIA_TRACKS];        /* RTP: the following is known */
    uint16_t sequence[MEDIA_TRACKS]; /* of the next packet */
    uint32_t ssrc[MEDIA_TRACKS];
    bool has_answer;    /* FLV: the answer's head has come; */
    bool is_chunked;    /* it says that the body is in chunks, */
    chunked chunks_of;  /* which are taken off before check_flv() sees it; */
    bool has_head;      /* the file header has come */
    rtmp_chunks chunks; /* RTMP */
    uint64_t packets;
} checker;

/* Frames of a stream behind its preroll: which are sent, and which of these count. */
typedef struct check_span {
    uint32_t first; /* in the media */
    uint32_t counted, enough, end;
} check_span;

/* @param joins the player may begin with any frame up to those that count, but then all that follow
 * must come */
void check_start(checker *c, const media *of, const check_span *span, bool joins);

/* What stands at the beginning and is whole: as many bytes as are done with. The others come again,
 * and more. */
size_t check_rtp(checker *c, uint8_t *bytes, size_t size);
size_t check_flv(checker *c, uint8_t *bytes, size_t size);
size_t check_rtmp(checker *c, uint8_t *bytes, size_t size);

static inline bool check_is_done(const checker *c) {
    return c->next[MEDIA_VIDEO] >= c->enough[MEDIA_VIDEO] && c->next[MEDIA_AUDIO] >= c->enough[MEDIA_AUDIO];
}

#endif
