/**
 * @file rtp_flv.h
 * RTP to FLV: converts the packets of a publisher's tracks into the tags of one FLV stream.
 *
 * A tag's payload is one slice over the blocks that received the packets. FLV's own fields (codec,
 * composition time, lengths of NAL units) are written to small blocks of the given pool and linked
 * in between. Media bytes are not copied. Parameter sets are removed from the pictures and become
 * sequence headers.
 *
 * Time: RTP timestamps are presentation times, FLV needs decoding times. These are derived from the
 * order of the timestamps and from the reordering that the SPS allows. The tracks are aligned by
 * their sender reports, and by arrival time until reports arrive. If reports correct the alignment
 * later, time is slewed by at most a quarter, so it never goes back. A jump of the sender's clock
 * becomes a gap as long as the actual pause, at most 10 s.
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
    SLUICE_RTP_FLV_ANY = -1,   /**< Accepts any payload type. */
    SLUICE_RTP_FLV_TRACKS = 2, /**< One video and one audio track. */
    /** Maximum size of a receiver report with its CNAME, bytes. */
    SLUICE_RTP_FLV_REPORT_SIZE = 300,
    /** Time of the first frame, ms: the other track may have started earlier. */
    SLUICE_RTP_FLV_FIRST_TIME = 1000,
    SLUICE_RTP_FLV_MAX_GAP_MS = 10000, /**< A longer step of a track's time is a jump. */
    /** Maximum number of packets in an RTCP compound. A sender needs two or three. */
    SLUICE_RTP_FLV_MAX_RTCP = 64,
};

/** Counters of a track. */
typedef struct sluice_rtp_flv_stats {
    size_t size;         /**< sizeof(sluice_rtp_flv_stats), set by the caller. */
    uint64_t packets;    /**< Received, without duplicates. */
    uint64_t lost;       /**< Missing. */
    uint64_t reordered;  /**< Received late; the data they belonged to was lost. */
    uint64_t duplicates; /**< Received twice, or too late to be classified. */
    uint64_t malformed;  /**< Rejected packets and reports. */
    /** Packets of other payload types: comfort noise, tones, error correction. */
    uint64_t ignored;
    uint64_t frames;  /**< Delivered. */
    uint64_t damaged; /**< Delivered, with data missing in them or before them. */
    /** Not delivered: before the first key picture, over a limit, or without memory. */
    uint64_t dropped;
    uint64_t jumps;  /**< Of the sender's clock. */
    int64_t skew_us; /**< Correction still to be slewed, microseconds. */
} sluice_rtp_flv_stats;

/** A publisher's session; opaque. */
typedef struct sluice_rtp_flv sluice_rtp_flv;

/**
 * Makes a session without tracks. The caller owns it; the pool must outlive it.
 * @param pool source of the blocks for headers: the pool of the packets, or preferably a class of
 *             it with small blocks
 * @return 0, -ENOMEM
 */
SLUICE_API int sluice_rtp_flv_new(sluice_pool *pool, sluice_rtp_flv **ret_flv);

/** Frees the session and releases the slices it holds. NULL is allowed. */
SLUICE_API void sluice_rtp_flv_free(sluice_rtp_flv *flv);

/**
 * Adds a track. Add all tracks before the first packet.
 * @param config       from SDP; parameter sets may also arrive in band
 * @param options      of the unpacker, as set by sluice_codec_read_fmtp(); NULL for the defaults
 * @param payload_type from SDP, 0 to 127: packets of other types are ignored, as required by RFC
 *                     3550, section 5.1; SLUICE_RTP_FLV_ANY: all packets belong to the track
 * @return the track's number, 0 or 1; -EOPNOTSUPP (not supported by FLV: G.711 with a rate other
 *         than 8000 Hz or more than two channels, AAC without its config; or a clock rate above 10
 *         MHz, with which timestamps wrap within minutes), -EEXIST (a second track of the same
 *         kind), -EINVAL (invalid options or payload type), -ENOMEM
 */
SLUICE_API int sluice_rtp_flv_add(sluice_rtp_flv *flv, const sluice_codec_config *config,
                                  const sluice_rtp_unpacker_options *options, int payload_type);

/** The flags for the FLV file header: SLUICE_FLV_HAS_... of the tracks. */
SLUICE_API uint8_t sluice_rtp_flv_flags(const sluice_rtp_flv *flv);

/**
 * Passes an RTP packet of the same pool to a track; then call sluice_rtp_flv_next() until it
 * returns 0. The session takes references; the caller keeps the packet.
 * @param track from sluice_rtp_flv_add()
 * @param now   time of arrival, nanoseconds of a monotonic clock
 * @return 0 (also for an unused packet: late, duplicate, or of another source or payload type),
 *         -EINVAL (no such track), -EBUSY (the previous packet has not been finished), -EPROTO
 *         (malformed; the next packet may be valid)
 */
SLUICE_API int sluice_rtp_flv_push(sluice_rtp_flv *flv, unsigned track, const sluice_slice *packet, uint64_t now);

/**
 * Passes an RTCP compound to a track. The session does not keep it.
 * @param ret_bye if not NULL, set to whether the source has sent a BYE
 * @return 0, -EINVAL (no such track), -EPROTO (malformed), -EMSGSIZE (more packets than
 *         SLUICE_RTP_FLV_MAX_RTCP); the packets before the error have been used
 */
SLUICE_API int sluice_rtp_flv_push_rtcp(sluice_rtp_flv *flv, unsigned track, const sluice_slice *compound, uint64_t now,
                                        bool *ret_bye);

/**
 * Returns the next tag, with type, timestamp, size, view and payload as from sluice_flv_next().
 * Video starts with its sequence header and a key picture, audio with its sequence header; a new
 * sequence header follows each change of parameter sets. Sequence headers known from SDP come
 * before the first packet, at time 0.
 * @param ret_tag the tag; untouched unless 1 is returned. It is stored in the session and valid
 *                until its next call. To keep the payload, move it out of this struct with
 *                sluice_slice_take()
 * @return 1 (a tag), 0 (there is none), or, with a frame dropped: -ENOBUFS, -ENOMEM, -EMSGSIZE
 *         (over a limit of the unpacker's options or of FLV); the next call continues
 */
SLUICE_API int sluice_rtp_flv_next(sluice_rtp_flv *flv, sluice_flv_tag **ret_tag);

/** Ends the incomplete units, at the end of a stream; sluice_rtp_flv_next() then delivers them. */
SLUICE_API void sluice_rtp_flv_flush(sluice_rtp_flv *flv);

/**
 * Writes a receiver report and the CNAME, to be sent to the publisher every few seconds.
 * @param ssrc  the receiver's own
 * @param now   as for sluice_rtp_flv_push()
 * @param cname at most 255 bytes
 * @return bytes written, at most SLUICE_RTP_FLV_REPORT_SIZE; -EINVAL (no such track, no packet
 *         received, or the name is too long), -EMSGSIZE (@p size is too small)
 */
SLUICE_API int sluice_rtp_flv_report(sluice_rtp_flv *flv, unsigned track, uint32_t ssrc, uint64_t now,
                                     const char *cname, uint8_t *buffer, size_t size);

/**
 * Number of the pool's blocks held by a track's incomplete unit, which waits for more packets.
 * After a lost fragment the number may be too high until the unit ends. 0 if there is no such
 * track.
 */
SLUICE_API size_t sluice_rtp_flv_blocks(const sluice_rtp_flv *flv, unsigned track);

/** Reads a track's counters. @return 0, -EINVAL (no such track) */
SLUICE_API int sluice_rtp_flv_get_stats(const sluice_rtp_flv *flv, unsigned track, sluice_rtp_flv_stats *ret_stats);

/**
 * A track's current configuration, for SDP; NULL if there is no such track, or no memory.
 * Valid until the session's next call.
 */
SLUICE_API const sluice_codec_config *sluice_rtp_flv_config(const sluice_rtp_flv *flv, unsigned track);

#ifdef __cplusplus
}
#endif

#endif
