/*
 * Media received by RTSP for publishing, by a publisher's connection or by a pull: a description,
 * and RTP on channels, converted to a publisher's tags. No sockets; the owning session passes the
 * data.
 */
#ifndef SLUICED_RTSP_SOURCE_H
#define SLUICED_RTSP_SOURCE_H

#include <sluice/rtsp.h>
#include <sluice/sdp.h>

#include "daemon/server/publisher.h"
#include "daemon/server/worker.h"
#include "shared/rtp_input.h"

enum { RTSP_SOURCE_REASON = RTP_INPUT_NAMES + 24 };

/* A track that has been set up. */
struct rtsp_channel {
    bool set_up;
    uint8_t rtp, rtcp;
    bool has_rtcp;
};

/* All zero at the beginning, and after rtsp_source_clear(). */
struct rtsp_source {
    sluice_http_text control;   /* URL of all media together; empty where it is not said */
    sluice_http_text *controls; /* and of each; media_count of them, and the texts behind them */
    size_t media_count;
    struct publisher *publisher; /* NULL but while it has the stream, or waits for its name */
    struct rtp_input *input;     /* NULL after an end with -ENOBUFS, too */
    uint64_t refused;            /* frames that were too large only as tags */
    /* by which it is to be ended, as of publisher_publish(); or 0 */
    int error;
    /* media that have sent RTP, and of these, media ended by a BYE; a bit each */
    uint32_t heard, ended;
    char *ignored; /* media that are not taken, by name; NULL: there are none */
};

/*
 * Reads the description, copied: text, not payload; and makes the input for what it describes.
 * @name: of the stream that it will be, by which the limit of a frame is found 0, -ENODATA (empty),
 * -EPROTO (malformed, or without media), -EMSGSIZE, -EOPNOTSUPP (no media of a kind that can be
 * taken), -ENOMEM; after an error it is to be cleared.
 */
int rtsp_source_describe(struct rtsp_source *source, const sluice_slice *body, struct worker *worker,
                         sluice_http_text name);

/* Says which media are not supported, in one line; for -EOPNOTSUPP. */
void rtsp_source_explain(const struct rtsp_source *source, char ret_reason[RTSP_SOURCE_REASON]);

/*
 * Takes the stream of that name. Logs a refusal. 0; 1: as of publisher_attach(), and with an error
 * the session then ends the source; -EINVAL (the name), -EEXIST (it has a publisher), -EKEYREJECTED
 * (this one is banned), -ENOMEM
 */
int rtsp_source_publish(struct rtsp_source *source, struct session *session, sluice_http_text name,
                        publisher_claimed_fn *claimed);

/* Whether it waits for the stream's name. */
bool rtsp_source_is_waiting(const struct rtsp_source *source);

/*
 * Whether tags of the last packet are left, since the session's budget was spent; and publishes
 * them. Before the next interleaved frame.
 */
bool rtsp_source_has_more(const struct rtsp_source *source);
void rtsp_source_go_on(struct rtsp_source *source);

/*
 * Takes an interleaved frame. True for RTP on one of the channels; frames on other channels are
 * dropped.
 */
bool rtsp_source_frame(struct rtsp_source *source, const struct rtsp_channel *channels,
                       const sluice_rtsp_message *frame);

/*
 * Whether the sender has ended: a BYE was received for each of the media that it has sent. Further
 * packets cancel the BYE: some senders restart, and some continue audio after video has ended.
 */
bool rtsp_source_has_ended(const struct rtsp_source *source);

/*
 * Ends the publisher, if there is one, like publisher_end(), and logs the counts of received
 * packets. Frames that are not complete are published as they are. With -ENOBUFS they are dropped,
 * with the input: their memory is needed at once.
 */
void rtsp_source_end(struct rtsp_source *source, int error, uint64_t now);

/* Frees the rest. There is no publisher any more. */
void rtsp_source_clear(struct rtsp_source *source);

#endif
