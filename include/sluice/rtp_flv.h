/**
 * @file rtp_flv.h
 * RTP to FLV: the packets of a publisher's tracks as the tags of one FLV stream.
 *
 * A tag's payload is one slice over the blocks into which the packets were received; what FLV puts
 * before the media (codec, composition time, lengths of NAL units) lies in small blocks of the pool
 * that is given, and is linked in between. No byte of media is moved. Parameter sets leave the
 * pictures and become sequence headers.
 *
 * Time. RTP says when a picture is shown; FLV wants to know when it is decoded. That is derived
 * from the order of the times and from how far the SPS allows pictures to be reordered. The tracks
 * are brought to one clock by their sender reports; until there are such, by when they came. Where
 * reports correct that later, time is slewed by at most a quarter, so that it never goes back. A
 * jump of the sender's clock becomes a gap that is as long as the wait was, and at most 10 s.
 *
 * Threads: the pool owner's.
 */
#ifndef SLUICE_RTP_FLV_H
#define SLUICE_RTP_FLV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/codec.h>
#include <sluice/flv.h>
#include <sluice/pool.h>
#include <sluice/rtp.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_RTP_FLV_ANY = -1,          /**< In place of a payload type: whatever comes. */
    SLUICE_RTP_FLV_TRACKS = 2,        /**< A video and an audio track. */
    SLUICE_RTP_FLV_REPORT_SIZE = 300, /**< Longest receiver report with its CNAME, bytes. */
    /** Time of the first frame, ms: the other track may have begun earlier. */
    SLUICE_RTP_FLV_FIRST_TIME = 1000,
    SLUICE_RTP_FLV_MAX_GAP_MS = 10000, /**< A step of a track's time that is longer is a jump. */
};

/** What has come of a track. */
typedef struct sluice_rtp_flv_stats {
    size_t size;         /**< sizeof(sluice_rtp_flv_stats), set by the caller. */
    uint64_t packets;    /**< Received, without duplicates. */
    uint64_t lost;       /**< Missing. */
    uint64_t reordered;  /**< Came late; what they belonged to was lost with them. */
    uint64_t duplicates; /**< Came twice, or too late to tell. */
    uint64_t malformed;  /**< Packets that were refused, and reports. */
    /** Packets of another payload type: comfort noise, tones, error correction. */
    uint64_t ignored;
    uint64_t frames;  /**< Delivered. */
    uint64_t damaged; /**< Delivered, but with something missing in them or before them. */
    /** Not delivered: before the first key picture, over a limit, or for want of memory. */
    uint64_t dropped;
    uint64_t jumps;  /**< Of the sender's clock. */
    int64_t skew_us; /**< What is still to be slewed, microseconds. */
} sluice_rtp_flv_stats;

/** A publisher's session; opaque. */
typedef struct sluice_rtp_flv sluice_rtp_flv;

/**
 * Makes a session without tracks. The caller owns it; the pool must outlive it.
 * @param pool where blocks for headers come from: the pool of the packets, or better a class of it
 *   of small blocks
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_rtp_flv_new(sluice_pool *pool, sluice_rtp_flv **ret_flv);

/** Frees the session and all that it holds. NULL is allowed. */
SLUICE_API void sluice_rtp_flv_free(sluice_rtp_flv *flv);

/**
 * Adds a track; all of them before the first packet.
 * @param config       what SDP says of it; parameter sets may come in band
 * @param options      of the unpacker, as sluice_codec_read_fmtp() has left them; NULL for the
 *                     defaults
 * @param payload_type that SDP has given it, 0 to 127: packets of other types are ignored, as RFC
 *                     3550, section 5.1, demands; SLUICE_RTP_FLV_ANY: all are taken for the track's
 * @return the track's number, 0 or 1; -EOPNOTSUPP (FLV does not carry it: G.711 of other rates than
 *         8000 Hz or of more than two channels, AAC without its config; or its clock is faster than
 *         10 MHz, so that timestamps wrap within minutes), -EEXIST (a second one of its kind),
 *         -EINVAL (bad options or payload type), -ENOMEM
 */
SLUICE_API int sluice_rtp_flv_add(sluice_rtp_flv *flv, const sluice_codec_config *config,
                                  const sluice_rtp_unpacker_options *options, int payload_type);

/** The flags for the FLV file header: SLUICE_FLV_HAS_... of the tracks. */
SLUICE_API uint8_t sluice_rtp_flv_flags(const sluice_rtp_flv *flv);

/**
 * Gives an RTP packet of the same pool; then call sluice_rtp_flv_next() until it says 0. References
 * are taken; the packet stays the caller's.
 * @param track as sluice_rtp_flv_add() has said
 * @param now   when it came, nanoseconds of a clock that only goes forward
 * @return 0 (also for a packet that is not used: late, doubled, of another source or payload type),
 *         -EINVAL (no such track), -EBUSY (the packet before has not been finished), -EPROTO
 *         (malformed; the next one may be well)
 */
SLUICE_API int sluice_rtp_flv_push(sluice_rtp_flv *flv, unsigned track, const sluice_slice *packet, uint64_t now);

/**
 * Gives an RTCP compound. Nothing is kept of it.
 * @param ret_bye if not NULL, whether the source has said goodbye
 * @return 0, -EINVAL (no such track), -EPROTO (malformed; what is before that has been used)
 */
SLUICE_API int sluice_rtp_flv_push_rtcp(sluice_rtp_flv *flv, unsigned track, const sluice_slice *compound, uint64_t now,
                                        bool *ret_bye);

/**
 * Takes the next tag. Its type, timestamp, size, view and payload are as sluice_flv_next() would
 * give them. Video begins with its sequence header and a key picture, audio with its sequence
 * header; when parameter sets change, there is another one. Sequence headers that SDP has told come
 * before the first packet, at time 0.
 * @param ret_tag the tag; untouched unless 1 is returned. It lies in the session, valid until its
 *                next call, and the session sees whether its payload was moved out with
 *                sluice_slice_take().
 * @return 1 (a tag), 0 (there is none), or with a frame dropped: -ENOBUFS, -ENOMEM, -EMSGSIZE (it
 *         was over a limit of the unpacker's options, or of FLV); the next call goes on
 */
SLUICE_API int sluice_rtp_flv_next(sluice_rtp_flv *flv, sluice_flv_tag **ret_tag);

/**
 * Ends the units that are not complete, at the end of a stream; sluice_rtp_flv_next() then delivers
 * them.
 */
SLUICE_API void sluice_rtp_flv_flush(sluice_rtp_flv *flv);

/**
 * Writes a receiver report and the CNAME, to be sent to the publisher every few seconds.
 * @param ssrc  the receiver's own
 * @param now   as for sluice_rtp_flv_push()
 * @param cname at most 255 bytes
 * @return bytes written, at most SLUICE_RTP_FLV_REPORT_SIZE; -EINVAL (no such track, nothing has
 *         come, too long a name), -EMSGSIZE (@p size is too small)
 */
SLUICE_API int sluice_rtp_flv_report(sluice_rtp_flv *flv, unsigned track, uint32_t ssrc, uint64_t now,
                                     const char *cname, uint8_t *buffer, size_t size);

/**
 * Blocks of the pool that a track's unit under assembly holds, which ends with packets that have
 * not come. After a fragment was lost it may count more than there are, until the unit's end. 0
 * where there is no such track.
 */
SLUICE_API size_t sluice_rtp_flv_blocks(const sluice_rtp_flv *flv, unsigned track);

/** Reads a track's counters. @return 0, -EINVAL (no such track) */
SLUICE_API int sluice_rtp_flv_get_stats(const sluice_rtp_flv *flv, unsigned track, sluice_rtp_flv_stats *ret_stats);

/**
 * A track's configuration as it is now, for SDP; NULL for no such track. Valid until the session's
 * next call.
 */
SLUICE_API const sluice_codec_config *sluice_rtp_flv_config(const sluice_rtp_flv *flv, unsigned track);

#ifdef __cplusplus
}
#endif

#endif
