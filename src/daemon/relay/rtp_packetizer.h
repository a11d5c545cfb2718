/*
 * A stream as RTP: its tracks, and the packets of each frame, made once for all its RTSP players. A
 * packet is a part of the tag's payload in place, after a few bytes of header. Its worker's thread
 * only.
 */
#ifndef SLUICED_RTP_PACKETIZER_H
#define SLUICED_RTP_PACKETIZER_H

#include <sluice/codec.h>
#include <sluice/flv_rtp.h>
#include <sluice/sdp.h>

#include "daemon/relay/stream.h"

enum {
    RTP_VIDEO_TRACK = 0,
    RTP_AUDIO_TRACK = 1,
    RTP_MAX_REPORT = SLUICE_RTCP_SR_SIZE + SLUICE_RTCP_MAX_SDES,
};

struct rtp_track {
    bool present;
    uint8_t place, id; /* of the stream's main track of that kind */
    uint8_t payload_type;
    sluice_codec_config config; /* as it was described */
    sluice_flv_rtp *rtp;        /* made for the first description */
};

struct rtp_packetizer {
    struct stream_sink sink;
    struct rtp_track tracks[PACKET_TRACKS];
    uint64_t id; /* of the session description */
    /* another number where players would have to be told anew what the tracks are */
    uint32_t description;
    bool has_clock, is_reported;
    uint64_t ntp_zero;      /* wall clock at the stream's time 0 */
    sluice_rtp_clock clock; /* the stream's time, milliseconds */
    uint64_t noted_at;      /* wall clock when the last frame was noted */
    uint64_t window_at;     /* wall clock when lateness was first looked at */
    int64_t least;          /* how late the least late frame since then was, in units of NTP */
    uint64_t packets;       /* RTP packets that are held */
    bool has_group;         /* what is cached is of the tracks as they are described */
};

/* A sink of the stream, and gone with it. NULL when memory is short. */
struct rtp_packetizer *rtp_packetizer_new(struct stream *stream);

/*
 * Takes the main tracks from the headers that players begin with, those of the group, then makes
 * what it holds. Where a header has changed within the group in a way that players would have to be
 * told, the group is not for them, and the tracks are those of now.
 */
void rtp_packetizer_begin(struct rtp_packetizer *output, const struct stream *stream);

/* The same for a player that is to be told of the tracks, where there are others already. */
void rtp_packetizer_describe(struct rtp_packetizer *output, const struct stream *stream);

/* Whether new players may be sent the group. */
bool rtp_packetizer_has_group(const struct rtp_packetizer *output);

/* Whether there is a track at all. */
bool rtp_packetizer_has_tracks(const struct rtp_packetizer *output);

/* Writes the session description. Bytes, or a negative errno. */
int rtp_packetizer_write_sdp(const struct rtp_packetizer *output, const char *name, const char *address, char *buffer,
                             size_t size);

/* Writes a sender report of a track. Bytes, at most RTP_MAX_REPORT; 0 before there is anything to
 * say. */
size_t rtp_packetizer_write_report(struct rtp_packetizer *output, unsigned track, uint8_t buffer[RTP_MAX_REPORT]);

#endif
