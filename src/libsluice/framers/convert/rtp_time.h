/* The time of tracks: from RTP's timestamps to one line of microseconds, and from presentation to
 * decoding. */
#ifndef SLUICE_FRAMERS_RTP_TIME_H
#define SLUICE_FRAMERS_RTP_TIME_H

#include <sluice/codec.h>
#include <sluice/rtp.h>

/* What the tracks of a session have in common: the track that was first, by which the others go. */
struct rtp_line {
    const struct rtp_track_time *first;
};

/* Of one track; all zero but for the rate at the beginning. */
struct rtp_track_time {
    uint32_t rate; /* timestamp units in a second */
    bool begun;
    sluice_rtp_clock clock;
    sluice_rtp_mapping mapping; /* of the last sender report */
    int64_t base;               /* timestamp that lies at @anchor */
    int64_t anchor;             /* microseconds on the line; timestamps and this move on together */
    int64_t last;               /* timestamp of the last unit */
    int64_t furthest;           /* microseconds of the latest unit there was */
    uint64_t arrival;           /* of the last unit, nanoseconds */
    int64_t skew;               /* microseconds that are still to be slewed */
    uint64_t jumps;
};

/* The time of a unit on the line, microseconds; it says whether the sender's clock has jumped. */
int64_t rtp_time_of(struct rtp_line *line, struct rtp_track_time *time, uint32_t timestamp, uint64_t now,
                    bool *ret_jumped);

/* Takes note of a sender report; then all tracks are to be corrected. */
void rtp_time_report(struct rtp_track_time *time, uint64_t ntp, uint32_t timestamp);

/* Measures anew what is to be slewed. */
void rtp_time_correct(const struct rtp_line *line, struct rtp_track_time *time);

/* Decoding times of one video track: the latest presentation times, ascending. */
struct rtp_decode_order {
    int64_t shown[SLUICE_CODEC_MAX_REORDER + 1];
    size_t count;
    uint8_t depth;    /* of reordering, as far as is known */
    int64_t duration; /* of a picture, microseconds: for the first ones */
};

/* What the SPS says of the order and of the rate, at the beginning and where it changes. */
void rtp_decode_configure(struct rtp_decode_order *order, const sluice_codec_config *config);

/* The decoding time of the next unit, which is shown at @shown; both in microseconds. */
int64_t rtp_decode_time(struct rtp_decode_order *order, int64_t shown);

#endif
