/**
 * @file flv_rtp.h
 * FLV to RTP: converts the frames of one track's tags into packets, each a small header and a
 * slice of the tag's payload.
 *
 * NAL units are found in place by their length prefixes and sent by reference, without copying. If
 * a key picture has no parameter sets of its own, those of the sequence header are sent before it.
 * @code
 * sluice_flv_rtp_push(rtp, tag->type, tag->timestamp, &tag->payload);
 * while (sluice_flv_rtp_next(rtp, &packet) == 1) {
 *     uint16_t length = (uint16_t)(packet.header_size + packet.slice.length);
 *     sluice_rtsp_write_interleaved(frame, channel, length);
 *     sluice_writer_copy(writer, frame, sizeof frame);
 *     sluice_writer_copy(writer, packet.header, packet.header_size);
 *     sluice_writer_slice(writer, &packet.slice);
 * }
 * @endcode
 *
 * Threads: the pool owner's.
 */
#ifndef SLUICE_FLV_RTP_H
#define SLUICE_FLV_RTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/codec.h>
#include <sluice/flv.h>
#include <sluice/rtp.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Maximum size of a packet's header, bytes. */
    SLUICE_FLV_RTP_MAX_HEADER = SLUICE_RTP_HEADER_SIZE + 4,
    /**
     * Maximum number of NAL units of a tag that are skipped without a packet, since they are empty
     * or shorter than their header; and of those before the first slice of a key picture.
     */
    SLUICE_FLV_RTP_MAX_SKIPPED = 256,
};

/** Settings of a track. */
typedef struct sluice_flv_rtp_options {
    size_t size; /**< sizeof(sluice_flv_rtp_options). */
    /** SLUICE_FLV_VIDEO or SLUICE_FLV_AUDIO: the type of the track's tags. */
    sluice_flv_type type;
    uint8_t payload_type; /**< 0 to 127. */
    /**
     * Id of the track, for tags with track ids; tags of other tracks are ignored. Tags without an
     * id belong to track 0.
     */
    uint8_t track;
    uint32_t ssrc;     /**< Synchronization source; should be random. */
    uint16_t sequence; /**< Of the first packet; should be random. */
    /** RTP timestamp of FLV time 0, in units of the clock rate; should be random. */
    uint32_t timestamp;
    /**
     * Maximum packet size including the RTP header, bytes: 64 to 65,535. Default, if 0: 1400. Over
     * TCP larger packets are allowed and need less CPU; some players accept at most 1500.
     */
    uint32_t max_packet;
} sluice_flv_rtp_options;

/** A packet. */
typedef struct sluice_flv_rtp_packet {
    /** RTP header, and payload bytes before the slice. */
    uint8_t header[SLUICE_FLV_RTP_MAX_HEADER];
    uint8_t header_size; /**< Its size, bytes. */
    bool marker;         /**< As in the header. */
    /** Video: first packet of a key picture or of its parameter sets. */
    bool begins_key;
    uint32_t timestamp; /**< As in the header. */
    uint16_t sequence;  /**< As in the header. */
    /**
     * The rest of the packet; never empty. Owned by the track and valid until its next call;
     * reference it with sluice_writer_slice() or sluice_slice_ref().
     */
    sluice_slice slice;
} sluice_flv_rtp_packet;

/** Counters of packets sent. */
typedef struct sluice_flv_rtp_stats {
    size_t size;      /**< sizeof(sluice_flv_rtp_stats), set by the caller. */
    uint64_t packets; /**< RTP packets. */
    uint64_t octets;  /**< Payload bytes. */
} sluice_flv_rtp_stats;

/**
 * A track of a stream, converted for one RTSP player or for several that share its packets; opaque.
 */
typedef struct sluice_flv_rtp sluice_flv_rtp;

/** Makes a track. The caller owns it. @return 0, -EINVAL (a setting is out of range), -ENOMEM */
SLUICE_API int sluice_flv_rtp_new(const sluice_flv_rtp_options *options, sluice_flv_rtp **ret_rtp);

/** Frees the track and releases the slices it holds. NULL is allowed. */
SLUICE_API void sluice_flv_rtp_free(sluice_flv_rtp *rtp);

/**
 * Passes a tag to the track; then call sluice_flv_rtp_next() until it returns 0. The track takes
 * references; the caller keeps the payload. Sequence headers are stored in the track. No packets
 * are made for tags that are not frames (metadata, ends of sequences) or belong to other tracks, so
 * a player may pass every tag to each of its tracks, and none for frames before the first sequence
 * header.
 * @param timestamp the tag's, milliseconds; it may wrap
 * @return 0, -EBUSY (the previous tag has not been finished), -EOPNOTSUPP (an unsupported codec, or
 *         several tracks in a tag: see sluice_flv_next_track()), -EPROTO (a malformed sequence
 *         header), -EMSGSIZE (a sequence header over the limits of sluice_codec_config)
 */
SLUICE_API int sluice_flv_rtp_push(sluice_flv_rtp *rtp, sluice_flv_type type, uint32_t timestamp,
                                   const sluice_slice *payload);

/**
 * Returns the next packet. The last packet of a picture has the marker.
 * @param ret_packet untouched unless 1 is returned
 * @return 1 (a packet), 0 (the tag is finished), -EPROTO (a length prefix exceeds the tag; the
 *         packets before it have been returned), -EMSGSIZE (an audio frame that does not fit into a
 *         packet, or more NAL units than SLUICE_FLV_RTP_MAX_SKIPPED; the packets before have been
 *         returned); after an error the next call returns 0
 */
SLUICE_API int sluice_flv_rtp_next(sluice_flv_rtp *rtp, sluice_flv_rtp_packet *ret_packet);

/**
 * Finishes the tag early: no further packets are made for it. The last packet returned stays valid
 * until the next call of sluice_flv_rtp_next(). No effect between tags.
 */
SLUICE_API void sluice_flv_rtp_cancel(sluice_flv_rtp *rtp);

/**
 * The configuration of the last sequence header, for SDP; NULL before the first one, and for G.711
 * before the first frame.
 */
SLUICE_API const sluice_codec_config *sluice_flv_rtp_config(const sluice_flv_rtp *rtp);

/** The next packet's sequence number, for RTP-Info. */
SLUICE_API uint16_t sluice_flv_rtp_sequence(const sluice_flv_rtp *rtp);

/**
 * The RTP timestamp of an FLV time in milliseconds, for RTP-Info; the base timestamp while the
 * codec is unknown.
 */
SLUICE_API uint32_t sluice_flv_rtp_timestamp(const sluice_flv_rtp *rtp, int64_t milliseconds);

/**
 * Writes a compound packet of a sender report and the CNAME. Players align the tracks by it: send
 * it before the first packet and then every few seconds. Use the same @p zero for all tracks of a
 * session.
 * @param zero  NTP time of the FLV time 0, as from sluice_rtp_ntp_from_unix()
 * @param now   NTP time, not before @p zero
 * @param cname at most 255 bytes; the same for all tracks of a session
 * @return bytes written; -EMSGSIZE (@p size is too small), -EINVAL (the name is too long, or the
 *         codec is unknown)
 */
SLUICE_API int sluice_flv_rtp_report(const sluice_flv_rtp *rtp, uint64_t zero, uint64_t now, const char *cname,
                                     uint8_t *buffer, size_t size);

/** Reads the counters. @return 0, -EINVAL (ret_stats->size is not set; nothing is written) */
SLUICE_API int sluice_flv_rtp_get_stats(const sluice_flv_rtp *rtp, sluice_flv_rtp_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
