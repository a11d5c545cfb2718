/* A stream as it is sent: all its bytes, made before anything is measured. */
#ifndef BENCH_RTSP_WIRE_H
#define BENCH_RTSP_WIRE_H

#include "rtsp/media.h"

typedef struct wire {
    uint8_t *bytes;
    uint64_t *ends; /* where each frame is over */
} wire;

/* As FLV, with its file header and the decoders' configurations. */
void wire_make_flv(wire *made, const media *of);

/* As RTMP's messages, with the decoders' configurations. */
void wire_make_rtmp(wire *made, const media *of);

/* Bytes of payload that FLV's tags and RTMP's messages have: all, and up to the first frame of each
 * track. */
void wire_flv_payload(const media *of, uint64_t *ret_all, uint64_t *ret_preroll);

/* As RTP packets in RTSP's interleaved frames: video on channel 0, audio on channel 2. */
void wire_make_rtp(wire *made, const media *of);

#endif
