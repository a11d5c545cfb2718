/*
 * What comes by RTSP to be published, whoever began the connection: a description, and RTP on channels, which become a
 * publisher's tags. Knows no sockets; the session that owns it feeds it.
 */
#ifndef SLUICED_RTSP_SOURCE_H
#define SLUICED_RTSP_SOURCE_H

#include <sluice/rtsp.h>
#include <sluice/sdp.h>

#include "daemon/publisher.h"
#include "daemon/worker.h"
#include "shared/rtp_input.h"

/* A track that has been set up. */
struct rtsp_channel {
    bool set_up;
    uint8_t rtp, rtcp;
    bool has_rtcp;
};

/* All zero at the beginning, and after rtsp_source_clear(). */
struct rtsp_source {
    char *sdp_text; /* that the description's texts lie in */
    sluice_sdp *sdp;
    struct publisher *publisher; /* NULL but while it has the stream, or waits for its name */
    struct rtp_input *input;
};

/*
 * Reads the description, copied: text, not payload. 0, -ENODATA (empty), -EPROTO (malformed, or without media),
 * -EMSGSIZE, -ENOMEM
 */
int rtsp_source_read(struct rtsp_source *source, const sluice_slice *body);

/* Makes the input for what is described. 0, -EOPNOTSUPP (no media of a kind that can be taken), -ENOMEM */
int rtsp_source_prepare(struct rtsp_source *source, struct worker *worker);

/*
 * Takes the stream of that name. Logs a refusal. 0; 1: as of publisher_attach(), and with an error the session then
 * ends the source; -EINVAL (the name), -EEXIST (it has a publisher), -EKEYREJECTED (this one is banned), -ENOMEM
 */
int rtsp_source_publish(struct rtsp_source *source, struct session *session, sluice_http_text name,
                        publisher_claimed_fn *claimed);

/* Whether it waits for the stream's name. */
bool rtsp_source_is_waiting(const struct rtsp_source *source);

/* Takes an interleaved frame. True for RTP on one of the channels; a frame of a channel that is nobody's is dropped. */
bool rtsp_source_frame(struct rtsp_source *source, const struct rtsp_channel *channels,
                       const sluice_rtsp_message *frame);

/* Ends the publisher, where there is one, as publisher_end() does, with a line about what has come. */
void rtsp_source_end(struct rtsp_source *source, int error, uint64_t now);

/* Frees the rest. There is no publisher any more. */
void rtsp_source_clear(struct rtsp_source *source);

#endif
