/**
 * @file rtp.h
 * RTP and RTCP: views of packets, sequence numbers and clocks, depacketization, packetization.
 *
 * Sources: RFC 3550 and 3551; payload formats: RFC 6184 (H.264), RFC 7798 (H.265), RFC 3640 (AAC),
 * RFC 7587 (Opus).
 *
 * No call reads a socket: a packet is a slice, such as the payload of an interleaved RTSP frame. A
 * malformed packet is an error of that packet only; the stream continues with the next.
 *
 * Threads: one at a time per object; objects that hold slices, on the pool owner's thread.
 */
#ifndef SLUICE_RTP_H
#define SLUICE_RTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_RTP_HEADER_SIZE = 12, /**< Without contributing sources and extension, bytes. */
    SLUICE_RTP_MAX_CSRC = 15,    /**< Maximum number of contributing sources. */
    /** Maximum number of report blocks, or sources of a BYE, in a packet. */
    SLUICE_RTCP_MAX_REPORTS = 31,
    SLUICE_RTCP_REPORT_SIZE = 24, /**< Size of a report block, bytes. */
    SLUICE_RTCP_SR_SIZE = 28,     /**< Size of a sender report without report blocks, bytes. */
    SLUICE_RTCP_RR_SIZE = 8,      /**< Size of a receiver report without report blocks, bytes. */
    SLUICE_RTCP_BYE_SIZE = 8,     /**< Size of a BYE of one source without a reason, bytes. */
    SLUICE_RTCP_MAX_SDES = 268,   /**< Maximum size of an SDES of one source with a CNAME, bytes. */
};

/* Packets. */

/** Fields of an RTP packet, and the position of its payload. */
typedef struct sluice_rtp_packet {
    bool marker;                        /**< End of an access unit, or as the profile defines. */
    uint8_t payload_type;               /**< 0 to 127. */
    uint16_t sequence;                  /**< Sequence number. */
    uint32_t timestamp;                 /**< In units of the payload's clock rate. */
    uint32_t ssrc;                      /**< Synchronization source. */
    uint8_t csrc_count;                 /**< Number of contributing sources. */
    uint32_t csrc[SLUICE_RTP_MAX_CSRC]; /**< Contributing sources. */
    bool has_extension;                 /**< The packet has a header extension. */
    uint16_t extension_profile;         /**< Type of the extension. */
    size_t extension_offset;            /**< Position of its data in the packet, bytes. */
    size_t extension_length;            /**< Size of its data, bytes. */
    size_t payload_offset;              /**< Position in the packet, bytes. */
    size_t payload_length;              /**< Without padding, bytes; may be 0. */
    uint8_t padding;                    /**< Bytes after the payload. */
} sluice_rtp_packet;

/** Reads a packet in place. @return 0, -EPROTO (truncated, another version, or invalid padding) */
SLUICE_API int sluice_rtp_read(const sluice_slice *packet, sluice_rtp_packet *ret_packet);

/**
 * Writes a header without contributing sources and extension; the payload follows.
 * @param packet marker, payload type (7 bits are written), sequence, timestamp, ssrc
 */
SLUICE_API void sluice_rtp_write(uint8_t buffer[SLUICE_RTP_HEADER_SIZE], const sluice_rtp_packet *packet);

/* Sequence numbers and clocks. */

/** Classification of a packet by its sequence number. */
typedef enum sluice_rtp_arrival {
    SLUICE_RTP_IN_ORDER,  /**< The next one, or a later one after missing packets. */
    SLUICE_RTP_REORDERED, /**< An earlier one that was missing; it no longer counts as lost. */
    SLUICE_RTP_DUPLICATE, /**< One that was received before. */
    /** Far from the others: do not use it, unless the next packet continues from it. */
    SLUICE_RTP_SUSPECT,
    /** The sender has restarted: this is the second packet of the new sequence. */
    SLUICE_RTP_RESTARTED,
} sluice_rtp_arrival;

/**
 * Sequence state of one source; initialize with zeros. The counters may be read; the rest is
 * private to the library.
 */
typedef struct sluice_rtp_source {
    uint64_t received;   /**< Packets, without duplicates and unconfirmed jumps. */
    uint64_t lost;       /**< Packets currently missing. */
    uint64_t reordered;  /**< Packets received late. */
    uint64_t duplicates; /**< Packets received again, or too late to be classified. */
    uint64_t restarts;   /**< Number of restarts of the sender. */
    uint64_t highest;    /**< Highest sequence number, unwrapped. */
    /** Interarrival jitter, in 1/16 of a timestamp unit (RFC 3550, A.8). */
    uint64_t jitter;
    bool begun;                 /**< A packet was received. */
    bool has_suspect;           /**< The successor of a jump is known. */
    bool has_transit;           /**< A previous transit time is known. */
    uint16_t suspect;           /**< Sequence number after a jump. */
    uint32_t transit;           /**< Of the previous packet. */
    uint64_t window[2];         /**< The last 128 numbers: bit i is highest - i. */
    uint64_t reported_expected; /**< At the last report. */
    uint64_t reported_received; /**< At the last report. */
    /** First sequence number since the start or restart, unwrapped. */
    uint64_t base;
    uint64_t since; /**< Packets received since then. */
} sluice_rtp_source;

/**
 * Records a packet's sequence number (RFC 3550, A.1, without probation, because the session
 * identifies the sender). A jump by 3000 or more forwards, or by more than 100 backwards, is a
 * restart if the next packet continues from it.
 * @param ret_sequence the number unwrapped to 64 bits: it does not decrease when the 16 bits wrap,
 *                     and increases by 65,536 or more at a restart. Starts at 65,536 + the first
 *                     number. Untouched for an unconfirmed jump
 */
SLUICE_API sluice_rtp_arrival sluice_rtp_note(sluice_rtp_source *source, uint16_t sequence, uint64_t *ret_sequence);

/**
 * Records a packet's arrival, for the jitter.
 * @param arrival time of arrival in units of the payload's clock rate, modulo 2^32
 */
SLUICE_API void sluice_rtp_note_time(sluice_rtp_source *source, uint32_t timestamp, uint32_t arrival);

/** Unwraps 32-bit timestamps; initialize with zeros. Fields are private to the library. */
typedef struct sluice_rtp_clock {
    bool begun;   /**< A timestamp was seen. */
    int64_t last; /**< The last one. */
} sluice_rtp_clock;

/**
 * Unwraps a timestamp to 64 bits: the value nearest to the previous one, so it may decrease
 * slightly, also below 0.
 */
SLUICE_API int64_t sluice_rtp_unwrap(sluice_rtp_clock *clock, uint32_t timestamp);

/** Relation between a sender's clock and the wall clock, from a sender report. */
typedef struct sluice_rtp_mapping {
    bool valid;        /**< A report was received. */
    uint64_t ntp;      /**< Wall clock: NTP timestamp, seconds since 1900 in units of 2^-32 s. */
    int64_t timestamp; /**< The same moment, unwrapped. */
    uint32_t rate;     /**< Timestamp units per second; not 0. */
} sluice_rtp_mapping;

/** Converts a timestamp to wall clock time. The mapping must be valid. */
SLUICE_API uint64_t sluice_rtp_to_ntp(const sluice_rtp_mapping *mapping, int64_t timestamp);

/**
 * Converts a wall clock time to a timestamp, rounded to the nearest; INT64_MIN or INT64_MAX if out
 * of range.
 * @param mapping must be valid
 * @param ntp     any value; interpreted as the time within 68 years of the mapping's
 */
SLUICE_API int64_t sluice_rtp_from_ntp(const sluice_rtp_mapping *mapping, uint64_t ntp);

/** Converts a UNIX time in nanoseconds to an NTP timestamp. */
SLUICE_API uint64_t sluice_rtp_ntp_from_unix(uint64_t nanoseconds);

/** The reverse; times before 1970 map to times after 2036. */
SLUICE_API uint64_t sluice_rtp_ntp_to_unix(uint64_t ntp);

/* RTCP. */

/** Packet types. */
typedef enum sluice_rtcp_type {
    SLUICE_RTCP_SR = 200,
    SLUICE_RTCP_RR = 201,
    SLUICE_RTCP_SDES = 202,
    SLUICE_RTCP_BYE = 203,
    SLUICE_RTCP_APP = 204,
} sluice_rtcp_type;

/** A report block: a receiver's statistics about a source. */
typedef struct sluice_rtcp_report {
    uint32_t ssrc;         /**< The source. */
    uint8_t fraction_lost; /**< Since the previous report, in 1/256. */
    int32_t lost;          /**< Total, signed 24 bits. */
    uint32_t highest;      /**< Highest sequence number, with its wraps in the upper 16 bits. */
    uint32_t jitter;       /**< Timestamp units. */
    uint32_t last_sr;      /**< Middle 32 bits of the last sender report's NTP time; 0 for none. */
    uint32_t delay;        /**< Since that report, in 1/65,536 s. */
} sluice_rtcp_report;

/** One packet of a compound. */
typedef struct sluice_rtcp_packet {
    /** SLUICE_RTCP_..., or another type, for which only offset and length are set. */
    uint8_t type;
    size_t offset; /**< Position of the packet in the compound, bytes. */
    size_t length; /**< Including header and padding, bytes. */
    /** SR, RR: the reporting source. SDES, BYE: the first source; 0 if there is none. */
    uint32_t ssrc;
    uint64_t ntp; /**< SR: wall clock. */
    /** SR: the same moment in timestamp units. */
    uint32_t timestamp;
    uint32_t packets; /**< SR: packets sent. */
    uint32_t octets;  /**< SR: payload bytes sent. */
    /** SR, RR: number of report blocks. SDES, BYE: number of sources. */
    uint8_t count;
    sluice_rtcp_report reports[SLUICE_RTCP_MAX_REPORTS]; /**< SR, RR. */
    uint32_t sources[SLUICE_RTCP_MAX_REPORTS];           /**< SDES, BYE. */
    /** SDES: position of the first CNAME. BYE: of the reason. In the compound. */
    size_t text_offset;
    size_t text_length; /**< Bytes, UTF-8; 0 if there is none. */
} sluice_rtcp_packet;

/**
 * Reads the next packet of a compound. The compound need not begin with a report (RFC 5506).
 * @param offset in: 0 at the beginning; out: position after the packet. After an error, the
 *               compound's end
 * @return 1 (a packet), 0 (there are no more), -EPROTO (another version, a length that exceeds the
 *         compound or is too short for the content, or padding in a packet other than the last)
 */
SLUICE_API int sluice_rtcp_next(const sluice_slice *compound, size_t *offset, sluice_rtcp_packet *ret_packet);

/**
 * Makes the report block for a source and starts its next interval (RFC 3550, A.3).
 * @param last_sr         NTP time of its last sender report, 0 for none
 * @param last_sr_arrival NTP time at which that report arrived
 * @param now             NTP time
 */
SLUICE_API void sluice_rtp_report(sluice_rtp_source *source, uint32_t ssrc, uint64_t last_sr, uint64_t last_sr_arrival,
                                  uint64_t now, sluice_rtcp_report *ret_report);

/**
 * Writes an SR (ssrc, ntp, timestamp, packets, octets, reports), an RR (ssrc, reports) or a BYE
 * (ssrc).
 * @return bytes written; -EMSGSIZE (@p size is too small), -EINVAL (another type, more than
 *   SLUICE_RTCP_MAX_REPORTS)
 */
SLUICE_API int sluice_rtcp_write(uint8_t *buffer, size_t size, const sluice_rtcp_packet *packet);

/**
 * Writes an SDES of one source with a CNAME.
 * @param cname at most 255 bytes, UTF-8
 * @return bytes written; -EMSGSIZE (@p size is too small), -EINVAL (the name is too long)
 */
SLUICE_API int sluice_rtcp_write_sdes(uint8_t *buffer, size_t size, uint32_t ssrc, const char *cname);

/* Depacketization. */

/** Payload formats. */
typedef enum sluice_rtp_format {
    SLUICE_RTP_H264, /**< RFC 6184, packetization modes 0 and 1: single NAL units, STAP-A, FU-A. */
    SLUICE_RTP_H265, /**< RFC 7798 without decoding order numbers: single NAL units, AP, FU. */
    /** RFC 3640, AAC-hbr or AAC-lbr, without interleaving; for reading, also RFC 6416. */
    SLUICE_RTP_AAC,
    SLUICE_RTP_AUDIO, /**< G.711, Opus and other formats with one frame per payload. */
} sluice_rtp_format;

/** Settings of an unpacker. Zero in any field means its default. */
typedef struct sluice_rtp_unpacker_options {
    size_t size;       /**< sizeof(sluice_rtp_unpacker_options). */
    uint32_t max_unit; /**< Maximum size of an access unit, bytes. Default 8 MiB. */
    /** Maximum number of pieces of an access unit: up to 65,536. Default 16,384. */
    uint32_t max_pieces;
    /** Maximum number of NAL units of an access unit: up to 65,536. Default 1024. */
    uint32_t max_nals;
    uint8_t size_length; /**< AAC: bits: 6, 13 or 16. Default 13. */
    /**
     * AAC: bits: 0, 2 or 3. If size_length is set, 0 means 0 bits; otherwise 0 means the default,
     * 3.
     */
    uint8_t index_length;
    uint8_t index_delta_length; /**< AAC: bits, likewise. */
    uint32_t frame_duration;    /**< AAC: duration of a frame in timestamp units. Default 1024. */
    /** AAC: MP4A-LATM (RFC 6416), AudioMuxElements of one frame without configuration. */
    bool latm;
} sluice_rtp_unpacker_options;

enum {
    /** Maximum number of AAC frames in a packet; encoders use 1 to 50. */
    SLUICE_RTP_MAX_FRAMES = 64,
};

/**
 * Whether these AAC lengths occur in practice: RFC 3640's modes have sizes of 6 bits (AAC-lbr) and
 * 13 bits (AAC-hbr), and some encoders use 16; indexes have 2 or 3 bits, or none. Other lengths
 * would only allow many tiny frames.
 */
SLUICE_API bool sluice_rtp_aac_lengths_are_used(uint8_t size_length, uint8_t index_length, uint8_t index_delta_length);

/** A NAL unit or an audio frame: its header, and which pieces belong to it. */
typedef struct sluice_rtp_nal {
    /** NAL unit header of a fragmented unit, whose pieces do not contain it. */
    uint8_t header[2];
    /** Size of @c header, 0 to 2 bytes; 0 if the first piece begins with the header. */
    uint8_t header_size;
    uint8_t type;   /**< Video: the NAL unit type. */
    uint32_t first; /**< Index of its first piece. */
    uint32_t count; /**< Number of its pieces. */
    size_t length;  /**< Including the header, bytes. */
} sluice_rtp_nal;

/** An access unit: the NAL units of one picture, or one audio frame. */
typedef struct sluice_rtp_unit {
    uint32_t timestamp; /**< Presentation time. */
    uint64_t sequence;  /**< Sequence number of its last packet. */
    /** Decoding can start here: H.264 IDR or an immediate recovery point; H.265 IRAP; audio. */
    bool key;
    /** Packets of it, or between it and the previous unit, are missing or were rejected. */
    bool damaged;
    size_t length;              /**< Total size of the NAL units, bytes. */
    const sluice_rtp_nal *nals; /**< In order. */
    size_t nal_count;           /**< Number of NAL units; 1 for audio. */
    sluice_slice *pieces;       /**< The pieces of all NAL units, in order. */
    size_t piece_count;         /**< Number of pieces. */
} sluice_rtp_unit;

/** Assembles access units from the packets of one source; opaque. */
typedef struct sluice_rtp_unpacker sluice_rtp_unpacker;

/**
 * Makes an unpacker. The caller owns it. @return 0, -EINVAL (a setting is out of range), -ENOMEM
 */
SLUICE_API int sluice_rtp_unpacker_new(sluice_rtp_format format, const sluice_rtp_unpacker_options *options,
                                       sluice_rtp_unpacker **ret_unpacker);

/** Frees the unpacker and releases the slices it holds. NULL is allowed. */
SLUICE_API void sluice_rtp_unpacker_free(sluice_rtp_unpacker *unpacker);

/**
 * Passes a packet to the unpacker; then call sluice_rtp_unpacker_next() until it returns 0. The
 * unpacker takes references of its own, only on the payload's blocks, and holds them until it has
 * delivered the unit.
 * @param packet   from sluice_rtp_read(). A packet without payload is skipped and does not count as
 *                 missing
 * @param sequence unwrapped, from sluice_rtp_note(); a gap means that packets are missing
 * @return 0, -EBUSY (the previous packet has not been finished), -ESTALE (not above the previous
 *         packet: late or repeated; dropped), -EINVAL (the view does not belong to this slice)
 */
SLUICE_API int sluice_rtp_unpacker_push(sluice_rtp_unpacker *unpacker, const sluice_slice *slice,
                                        const sluice_rtp_packet *packet, uint64_t sequence);

/**
 * Returns the next access unit. A video unit ends at the marker, or when a packet has another
 * timestamp, which delays it by one packet. Audio is delivered frame by frame. Releases the
 * previous unit, except pieces that were moved out with sluice_slice_take().
 *
 * @param ret_unit the unit; untouched unless 1 is returned. It is stored in the unpacker and valid
 *                 until its next call
 * @return 1 (a unit), 0 (none is complete). On an error the packet is dropped and its access unit
 *         is damaged: -EPROTO (malformed, a fragment without a start, more than
 *         SLUICE_RTP_MAX_FRAMES frames), -EOPNOTSUPP (a valid but unsupported payload:
 *         interleaving, decoding order numbers, reserved types), -EMSGSIZE (a unit over a limit;
 *         its rest is dropped), -ENOMEM. The next call continues.
 */
SLUICE_API int sluice_rtp_unpacker_next(sluice_rtp_unpacker *unpacker, sluice_rtp_unit **ret_unit);

/**
 * Ends the incomplete unit, at the end of a stream; sluice_rtp_unpacker_next() then delivers it.
 */
SLUICE_API void sluice_rtp_unpacker_flush(sluice_rtp_unpacker *unpacker);

/**
 * Duration of an Opus packet in samples at 48 kHz, from its first two bytes (RFC 6716, section
 * 3.1). @return 0 if invalid
 */
SLUICE_API uint32_t sluice_rtp_opus_duration(const uint8_t *bytes, size_t length);

/* Packetization. */

/** Divides a NAL unit or an AAC frame into packets; a value. Fields are private to the library. */
typedef struct sluice_rtp_packing {
    sluice_rtp_format format; /**< Format. */
    uint8_t header[2];        /**< The NAL unit's header. */
    uint8_t header_size;      /**< Its size, bytes. */
    size_t length;            /**< Of the NAL unit or frame, bytes. */
    size_t done;              /**< Bytes assigned to packets. */
    size_t most;              /**< Maximum payload of a packet, bytes. */
} sluice_rtp_packing;

/** Payload of one packet: a few bytes, then a part of the NAL unit or frame. */
typedef struct sluice_rtp_part {
    uint8_t prefix[4];   /**< Payload bytes that precede the part. */
    uint8_t prefix_size; /**< Its size, 0 to 4 bytes. */
    size_t offset;       /**< Position of the part in the NAL unit or frame. */
    size_t length;       /**< Of the part, bytes. */
    /** Last part of the NAL unit or frame; set the marker in the last part of a picture. */
    bool last;
} sluice_rtp_part;

/**
 * Starts dividing: a single packet if the payload fits, otherwise FU-A, FU or AAC fragments (RFC
 * 3640, AAC-hbr). SLUICE_RTP_AUDIO frames are never divided.
 * @param start       the NAL unit's first bytes: one for H.264, two for H.265; not used for other
 *                    formats
 * @param length      size of the NAL unit with its header, or of the frame, bytes
 * @param max_payload maximum size after the RTP header, bytes
 * @return 0, -EINVAL (a NAL unit shorter than its header, an empty frame, or a payload size without
 *         room for data), -EMSGSIZE (an AAC frame over 8191 bytes, or audio that does not fit)
 */
SLUICE_API int sluice_rtp_pack(sluice_rtp_packing *packing, sluice_rtp_format format, const uint8_t *start,
                               size_t length, size_t max_payload);

/** Returns the next packet's payload. @return 1, 0 (there are no more) */
SLUICE_API int sluice_rtp_pack_next(sluice_rtp_packing *packing, sluice_rtp_part *ret_part);

/** One of several NAL units that share a packet. */
typedef struct sluice_rtp_member {
    uint8_t start[2];    /**< In: first bytes of the NAL unit, as for sluice_rtp_pack(). */
    uint16_t length;     /**< In: bytes. */
    uint8_t prefix[4];   /**< Out: payload bytes that precede it. */
    uint8_t prefix_size; /**< Out: size of @c prefix, bytes. */
} sluice_rtp_member;

/**
 * Combines several NAL units in one packet: STAP-A or AP. The payload is each member's prefix
 * followed by the member, in order.
 * @return number of members that fit, from the first on; with less than 2, use a packet for a
 *         single unit
 */
SLUICE_API size_t sluice_rtp_aggregate(sluice_rtp_format format, sluice_rtp_member *members, size_t count,
                                       size_t max_payload);

/**
 * Writes the AU headers of an AAC-hbr packet; the frames follow, in order.
 * @return bytes written, 2 + 2 * count; -EMSGSIZE (@p size is too small), -EINVAL (no frame, more
 *         than 64, or a frame of 0 or over 8191 bytes)
 */
SLUICE_API int sluice_rtp_write_aac(uint8_t *buffer, size_t size, const uint32_t *lengths, size_t count);

#ifdef __cplusplus
}
#endif

#endif
