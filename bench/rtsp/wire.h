/* A stream as it is sent: all its bytes, made before anything is measured. */
#ifndef BENCH_RTSP_WIRE_H
#define BENCH_RTSP_WIRE_H

#include "common/media.h"

typedef struct wire {
    uint8_t *bytes;
    uint64_t *ends; /* where each frame is over */
} wire;

/* As FLV, with its file header and the decoders' configurations. */
void wire_make_flv(wire *made, const media *of);

/* As RTMP's messages, with the decoders' configurations. */
void wire_make_rtmp(wire *made, const media *of);

/* Bytes of payload that FLV's tags and RTMP's messages have: what comes before frames, and one
 * frame. */
uint64_t wire_flv_head(void);
uint64_t wire_flv_payload(const media_frame *frame);

/* As RTP packets in RTSP's interleaved frames: video on channel 0, audio on channel 2. */
void wire_make_rtp(wire *made, const media *of);

/* The preroll of RTP for a stream that goes on with the frame of this number, to memory of
 * ends[MEDIA_PREROLL - 1] bytes: no sequence number is missing between them. */
void wire_rtp_preroll(const wire *of, uint32_t first, uint8_t *to);

#endif
