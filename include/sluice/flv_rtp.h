/**
 * @file flv_rtp.h
 * FLV to RTP: the frames of one track's tags as packets, each a small header and a slice of the
 * tag's payload.
 *
 * NAL units are found in place by their length prefixes and laid out by reference; no byte of them
 * is moved. Before a key picture that does not bring its own, the parameter sets of the sequence
 * header are sent.
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
    /** Longest header of a packet, bytes. */
    SLUICE_FLV_RTP_MAX_HEADER = SLUICE_RTP_HEADER_SIZE + 4,
};

/** Settings of a track. */
typedef struct sluice_flv_rtp_options {
    size_t size; /**< sizeof(sluice_flv_rtp_options). */
    /** SLUICE_FLV_VIDEO or SLUICE_FLV_AUDIO: the tags that the track takes. */
    sluice_flv_type type;
    uint8_t payload_type; /**< 0 to 127. */
    /**
     * The id of the track of that type, where tags name theirs; those of others are not taken. Tags
     * that name none are of track 0.
     */
    uint8_t track;
    uint32_t ssrc;      /**< Synchronization source; best random. */
    uint16_t sequence;  /**< Of the first packet; best random. */
    uint32_t timestamp; /**< Of the FLV time 0, in units of the clock; best random. */
    /**
     * Longest packet with its RTP header, bytes: 64 to 65,535. Default, when 0: 1400. Over TCP more
     * is legal, and cheaper; some players do not read more than 1500.
     */
    uint32_t max_packet;
} sluice_flv_rtp_options;

/** A packet. */
typedef struct sluice_flv_rtp_packet {
    /** RTP header, and payload bytes that precede the slice. */
    uint8_t header[SLUICE_FLV_RTP_MAX_HEADER];
    uint8_t header_size; /**< Bytes of it. */
    bool marker;         /**< As the header says. */
    /** Video: the first packet of a key picture or its parameter sets. */
    bool begins_key;
    uint32_t timestamp; /**< As the header says. */
    uint16_t sequence;  /**< As the header says. */
    /**
     * The rest. The track's, valid until its next call; refer to it with sluice_writer_slice() or
     * sluice_slice_ref(). Never empty.
     */
    sluice_slice slice;
} sluice_flv_rtp_packet;

/** What a track has sent. */
typedef struct sluice_flv_rtp_stats {
    size_t size;      /**< sizeof(sluice_flv_rtp_stats), set by the caller. */
    uint64_t packets; /**< RTP packets. */
    uint64_t octets;  /**< Payload, bytes. */
} sluice_flv_rtp_stats;

/** A track of a stream on its way to one RTSP player, or to many that share its packets; opaque. */
typedef struct sluice_flv_rtp sluice_flv_rtp;

/** Makes a track. The caller owns it. @return 0, -EINVAL (a setting out of range), -ENOMEM */
SLUICE_API int sluice_flv_rtp_new(const sluice_flv_rtp_options *options, sluice_flv_rtp **ret_rtp);

/** Frees the track and all that it holds. NULL is allowed. */
SLUICE_API void sluice_flv_rtp_free(sluice_flv_rtp *rtp);

/**
 * Gives the track a tag; then call sluice_flv_rtp_next() until it says 0. References are taken; the
 * payload stays the caller's. Sequence headers are for the track to remember. Nothing comes of what
 * is no frame (metadata, ends of sequences) and of other tracks' tags, so that a player may give
 * all tags to each of its tracks; nor of frames whose sequence header there has not been.
 * @param timestamp the tag's, milliseconds; it may wrap
 * @return 0, -EBUSY (the tag before has not been finished), -EOPNOTSUPP (a codec that is not
 *         carried, or many tracks in a tag: see sluice_flv_next_track()), -EPROTO (a malformed
 *         sequence header), -EMSGSIZE (one over the limits of sluice_codec_config)
 */
SLUICE_API int sluice_flv_rtp_push(sluice_flv_rtp *rtp, sluice_flv_type type, uint32_t timestamp,
                                   const sluice_slice *payload);

/**
 * Takes the next packet. The last one of a picture has the marker.
 * @param ret_packet untouched unless 1 is returned
 * @return 1 (a packet), 0 (the tag is finished), -EPROTO (a length prefix goes beyond the tag: what
 *         is before it has been sent), -EMSGSIZE (an audio frame that fits no packet); after an
 *         error the next call says 0
 */
SLUICE_API int sluice_flv_rtp_next(sluice_flv_rtp *rtp, sluice_flv_rtp_packet *ret_packet);

/**
 * Finishes the tag as it is: packets that have not been taken are not made. The last one that was
 * stays valid until the next call of sluice_flv_rtp_next(). Between tags nothing happens.
 */
SLUICE_API void sluice_flv_rtp_cancel(sluice_flv_rtp *rtp);

/**
 * The configuration of the last sequence header, for SDP; NULL before there was one, and for G.711
 * before a frame.
 */
SLUICE_API const sluice_codec_config *sluice_flv_rtp_config(const sluice_flv_rtp *rtp);

/** The next packet's sequence number, for RTP-Info. */
SLUICE_API uint16_t sluice_flv_rtp_sequence(const sluice_flv_rtp *rtp);

/**
 * The RTP timestamp of an FLV time in milliseconds, for RTP-Info; the base before the codec is
 * known.
 */
SLUICE_API uint32_t sluice_flv_rtp_timestamp(const sluice_flv_rtp *rtp, int64_t milliseconds);

/**
 * Writes a sender report and the CNAME, a compound packet: what a player aligns its tracks by, so
 * best sent before the first packet, and then every few seconds. Tracks of a session must be given
 * the same @p zero.
 * @param zero  NTP time of the FLV time 0, as sluice_rtp_ntp_from_unix() has it
 * @param now   NTP time, not before @p zero
 * @param cname at most 255 bytes; the same for all tracks of a session
 * @return bytes written; -EMSGSIZE (@p size is too small), -EINVAL (too long a name, or the codec
 *   is not known yet)
 */
SLUICE_API int sluice_flv_rtp_report(const sluice_flv_rtp *rtp, uint64_t zero, uint64_t now, const char *cname,
                                     uint8_t *buffer, size_t size);

/** Reads the counters. @return 0, -EINVAL (a size that was not set; nothing is written) */
SLUICE_API int sluice_flv_rtp_get_stats(const sluice_flv_rtp *rtp, sluice_flv_rtp_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
