/*
 * A stream as RTP: its tracks, and each frame's packets, made once for all its RTSP players. They are parts of the
 * tag's payload in place, each behind a few bytes of its own. Its worker's thread only.
 */
#ifndef SLUICED_RTP_OUTPUT_H
#define SLUICED_RTP_OUTPUT_H

#include <sluice/codec.h>
#include <sluice/flv_rtp.h>
#include <sluice/sdp.h>

#include "daemon/gop.h"

enum {
    RTP_VIDEO_TRACK = 0,
    RTP_AUDIO_TRACK = 1,
    RTP_MAX_REPORT = SLUICE_RTCP_SR_SIZE + SLUICE_RTCP_MAX_SDES,
};

struct stream;

struct rtp_track {
    bool present;
    uint8_t place, id; /* of the stream's main track of that kind */
    uint8_t payload_type;
    sluice_codec_config config; /* as it was described */
    sluice_flv_rtp *rtp;        /* made for the first description */
};

struct rtp_output {
    struct rtp_track tracks[PACKET_TRACKS];
    uint64_t id;          /* of the session description */
    uint32_t description; /* another number where players would have to be told anew what the tracks are */
    bool has_clock, is_reported;
    uint64_t ntp_zero;      /* wall clock at the stream's time 0 */
    sluice_rtp_clock clock; /* the stream's time, milliseconds */
    uint64_t noted_at;      /* wall clock when the last frame was noted */
    uint64_t window_at;     /* wall clock when lateness was first looked at */
    int64_t least;          /* how late the least late frame since then was, in units of NTP */
    uint64_t packets;       /* RTP packets that are held */
    bool has_group;         /* what is cached is of the tracks as they are described */
};

/* NULL when memory is short. */
struct rtp_output *rtp_output_new(void);
void rtp_output_free(struct rtp_output *output);

/*
 * Takes the main tracks from the headers that players begin with, those of the group, then makes what it holds. Where a
 * header has changed within the group in a way that players would have to be told, the group is not for them, and the
 * tracks are those of now.
 */
void rtp_output_begin(struct rtp_output *output, const struct stream *stream);

/* The same for a player that is to be told of the tracks, where there are others already. */
void rtp_output_describe(struct rtp_output *output, const struct stream *stream);

/* Whether new players may be sent the group. */
bool rtp_output_has_group(const struct rtp_output *output);

/*
 * A header has come, and is the stream's now. True: the track is another one by it than players were told, and they
 * cannot go on.
 */
bool rtp_output_take_header(struct rtp_output *output, const struct stream *stream, const struct packet *header);

/* Whether there is a track at all. */
bool rtp_output_has_tracks(const struct rtp_output *output);

/*
 * Makes the packet's RTP packets, unless it has them; takes note of headers. Where that fails, it has none: for want of
 * memory, or because the frame is in more parts than its size is worth.
 */
void rtp_output_make(struct rtp_output *output, struct packet *packet);

/* Writes the session description. Bytes, or a negative errno. */
int rtp_output_write_sdp(const struct rtp_output *output, const char *name, const char *address, char *buffer,
                         size_t size);

/* Writes a sender report of a track. Bytes, at most RTP_MAX_REPORT; 0 before there is anything to say. */
size_t rtp_output_write_report(struct rtp_output *output, unsigned track, uint8_t buffer[RTP_MAX_REPORT]);

#endif
