/*
 * What an RTSP publisher sends, as the tags that streams are made of: RTP packets are put together
 * to frames, by reference, and their clocks are brought together. Knows no sockets. Its worker's
 * thread only.
 */
#ifndef SHARED_RTP_INPUT_H
#define SHARED_RTP_INPUT_H

#include <stdbool.h>

#include <sluice/flv.h>
#include <sluice/pool.h>
#include <sluice/rtp_flv.h>
#include <sluice/sdp.h>

enum {
    RTP_MAX_RECEIVER_REPORT = SLUICE_RTP_FLV_REPORT_SIZE,
    RTP_INPUT_NAMES = 96, /* bytes for the names of media, with the terminating zero */
};

struct rtp_input;

/* What has come of all media together: RTP packets, and frames that were dropped. */
struct rtp_input_counts {
    uint64_t packets, lost, malformed, dropped;
};

/* What becomes of the packets. */
struct rtp_input_events {
    /*
     * A tag, whose payload may be kept. @flags: of the tracks, as in an FLV header. False: those
     * behind it are left to rtp_input_go_on().
     */
    bool (*tag)(sluice_flv_tag *tag, uint8_t flags, void *user);

    /* A frame has found no memory, so that those behind it may be of no use; or NULL. */
    void (*lost)(void *user);

    /* A frame was over the limit, and dropped; or NULL. */
    void (*too_large)(void *user);
};

/*
 * @max_frame: bytes of a frame; 0: the library's limit 0, -EOPNOTSUPP (no media of a kind that can
 * be taken), -ENOMEM. Of several video or audio media the first one that can be taken is; the
 * others are received and dropped. @ret_ignored: those that are not taken, such as "video/AV1,
 * audio/AC3"; empty where all are. Written also for -EOPNOTSUPP. Characters that no name has become
 * "?", and what is too much for it "...".
 */
int rtp_input_new(sluice_pool *pool, const sluice_sdp *sdp, uint32_t max_frame, const struct rtp_input_events *events,
                  void *user, struct rtp_input **ret_input, char ret_ignored[RTP_INPUT_NAMES]);
void rtp_input_free(struct rtp_input *input);

/* Whether this media is taken. */
bool rtp_input_takes(const struct rtp_input *input, size_t media);

/* Whether tags of the last packet are left, and takes them: before the next packet. */
bool rtp_input_has_more(const struct rtp_input *input);
void rtp_input_go_on(struct rtp_input *input);

/* Takes an RTP or RTCP packet of a media. What is malformed is dropped and counted. */
void rtp_input_rtp(struct rtp_input *input, size_t media, const sluice_slice *packet);
/* True where it says that the media's source has ended. */
bool rtp_input_rtcp(struct rtp_input *input, size_t media, const sluice_slice *compound);

/* Writes a receiver report about a media. Bytes; 0 when there is nothing to report. */
size_t rtp_input_write_report(struct rtp_input *input, size_t media, uint8_t buffer[RTP_MAX_RECEIVER_REPORT]);

/* Blocks that frames hold of which packets are still to come. */
size_t rtp_input_blocks(const struct rtp_input *input);

/*
 * Whether a frame has begun of which packets are still to come, and which: a number that stays the
 * same until that frame ends, whatever the other tracks bring meanwhile. Of several it is the one
 * that holds the most.
 */
bool rtp_input_is_inside(const struct rtp_input *input, uint64_t *ret_frame);

void rtp_input_get_counts(const struct rtp_input *input, struct rtp_input_counts *ret_counts);

/* The publisher has ended: what is not complete is taken as it is. */
void rtp_input_flush(struct rtp_input *input);

#endif
