/**
 * @file rtp.h
 * RTP and RTCP: views of packets, sequence numbers and clocks, frames out of payloads, layouts to
 * send.
 *
 * Sources: RFC 3550 and 3551; payload formats: RFC 6184 (H.264), RFC 7798 (H.265), RFC 3640 (AAC),
 * RFC 7587 (Opus).
 *
 * Nothing here reads a socket: a packet is a slice, such as the payload of an interleaved RTSP
 * frame. A packet that is malformed is an error of that packet alone; the stream goes on with the
 * next.
 *
 * Threads: one at a time per object; what is made of slices, the pool owner's.
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
    SLUICE_RTP_HEADER_SIZE = 12,  /**< Without contributing sources and extension, bytes. */
    SLUICE_RTP_MAX_CSRC = 15,     /**< Most contributing sources. */
    SLUICE_RTCP_MAX_REPORTS = 31, /**< Most report blocks, or sources of a BYE, in a packet. */
    SLUICE_RTCP_REPORT_SIZE = 24, /**< A report block, bytes. */
    SLUICE_RTCP_SR_SIZE = 28,     /**< A sender report without report blocks, bytes. */
    SLUICE_RTCP_RR_SIZE = 8,      /**< A receiver report without report blocks, bytes. */
    SLUICE_RTCP_BYE_SIZE = 8,     /**< A BYE of one source without a reason, bytes. */
    SLUICE_RTCP_MAX_SDES = 268,   /**< Longest SDES of one source with a CNAME, bytes. */
};

/* Packets. */

/** What an RTP packet says, and where its payload lies. */
typedef struct sluice_rtp_packet {
    bool marker;                        /**< The end of an access unit, or what the profile says. */
    uint8_t payload_type;               /**< 0 to 127. */
    uint16_t sequence;                  /**< Sequence number. */
    uint32_t timestamp;                 /**< In units of the payload's clock. */
    uint32_t ssrc;                      /**< Synchronization source. */
    uint8_t csrc_count;                 /**< Contributing sources. */
    uint32_t csrc[SLUICE_RTP_MAX_CSRC]; /**< Contributing sources. */
    bool has_extension;                 /**< There is a header extension. */
    uint16_t extension_profile;         /**< What the extension is. */
    size_t extension_offset;            /**< Of its data in the packet, bytes. */
    size_t extension_length;            /**< Of its data, bytes. */
    size_t payload_offset;              /**< In the packet, bytes. */
    size_t payload_length;              /**< Without padding, bytes; may be 0. */
    uint8_t padding;                    /**< Bytes behind the payload. */
} sluice_rtp_packet;

/**
 * Reads a packet in place. @return 0, -EPROTO (too short for what it says, another version, bad
 * padding)
 */
SLUICE_API int sluice_rtp_read(const sluice_slice *packet, sluice_rtp_packet *ret_packet);

/**
 * Writes a header without contributing sources and extension; the payload follows it.
 * @param packet marker, payload type (of which 7 bits are written), sequence, timestamp, ssrc
 */
SLUICE_API void sluice_rtp_write(uint8_t buffer[SLUICE_RTP_HEADER_SIZE], const sluice_rtp_packet *packet);

/* Sequence numbers and clocks. */

/** What the sequence number of a packet says. */
typedef enum sluice_rtp_arrival {
    SLUICE_RTP_IN_ORDER,  /**< The next one, or one ahead with others missing between. */
    SLUICE_RTP_REORDERED, /**< An older one that was missing: no longer lost. */
    SLUICE_RTP_DUPLICATE, /**< One that has come before. */
    /** Far away from the others: not to be used, unless the next one goes on from it. */
    SLUICE_RTP_SUSPECT,
    SLUICE_RTP_RESTARTED, /**< The sender has begun anew: the second packet of the new sequence. */
} sluice_rtp_arrival;

/**
 * The sequence of one source; all zero at the beginning. The counts may be read, the rest is the
 * library's.
 */
typedef struct sluice_rtp_source {
    uint64_t received;   /**< Packets, without duplicates and suspects. */
    uint64_t lost;       /**< Packets missing now. */
    uint64_t reordered;  /**< Packets that came late. */
    uint64_t duplicates; /**< Packets that came again, or too late to tell. */
    uint64_t restarts;   /**< Times the sender has begun anew. */
    uint64_t highest;    /**< Highest sequence number, unwrapped. */
    /** Interarrival jitter, a sixteenth of a timestamp unit (RFC 3550, A.8). */
    uint64_t jitter;
    bool begun;                 /**< There was a packet. */
    bool has_suspect;           /**< The next number of a jump is known. */
    bool has_transit;           /**< There is a transit time to compare with. */
    uint16_t suspect;           /**< What follows a jump. */
    uint32_t transit;           /**< Of the packet before. */
    uint64_t window[2];         /**< The last 128 numbers: bit i is highest - i. */
    uint64_t reported_expected; /**< At the last report. */
    uint64_t reported_received; /**< At the last report. */
    /** First sequence number since the beginning or restart, unwrapped. */
    uint64_t base;
    uint64_t since; /**< Packets received since then. */
} sluice_rtp_source;

/**
 * Takes note of a packet (RFC 3550, A.1, without probation: the session has said who sends). A jump
 * by 3000 or more, or back by more than 100, is a restart once a second packet goes on from it.
 * @param ret_sequence the number unwrapped to 64 bits: it never goes back when the 16 bits wrap,
 *                     and goes up by 65,536 or more at a restart. Begins at 65,536 + the first
 *                     number. For a suspect it is untouched
 */
SLUICE_API sluice_rtp_arrival sluice_rtp_note(sluice_rtp_source *source, uint16_t sequence, uint64_t *ret_sequence);

/**
 * Takes note of a packet's time, for the jitter.
 * @param arrival when it came, in units of the payload's clock, wrapping round
 */
SLUICE_API void sluice_rtp_note_time(sluice_rtp_source *source, uint32_t timestamp, uint32_t arrival);

/** A 32-bit timestamp unwrapped; all zero at the beginning. The fields are the library's. */
typedef struct sluice_rtp_clock {
    bool begun;   /**< There was one. */
    int64_t last; /**< The last one. */
} sluice_rtp_clock;

/**
 * The timestamp as 64 bits: the one that is nearest to the last, so it may go back a little; below
 * 0 too.
 */
SLUICE_API int64_t sluice_rtp_unwrap(sluice_rtp_clock *clock, uint32_t timestamp);

/** A sender's clock and the wall clock, as a sender report relates them. */
typedef struct sluice_rtp_mapping {
    bool valid;        /**< There was a report. */
    uint64_t ntp;      /**< Wall clock: seconds since 1900 and their 2^32nd parts. */
    int64_t timestamp; /**< The same moment, unwrapped. */
    uint32_t rate;     /**< Timestamp units in a second; not 0. */
} sluice_rtp_mapping;

/** The wall clock at a timestamp. The mapping must be valid. */
SLUICE_API uint64_t sluice_rtp_to_ntp(const sluice_rtp_mapping *mapping, int64_t timestamp);

/**
 * The timestamp at a time of the wall clock, rounded to the nearest; INT64_MIN or INT64_MAX where
 * it lies beyond.
 * @param mapping must be valid
 * @param ntp     any: within 68 years of the mapping's it is meant as that before or after it
 */
SLUICE_API int64_t sluice_rtp_from_ntp(const sluice_rtp_mapping *mapping, uint64_t ntp);

/** Seconds and their 2^32nd parts from a UNIX time in nanoseconds, and back. */
SLUICE_API uint64_t sluice_rtp_ntp_from_unix(uint64_t nanoseconds);

/** The reverse; a time before 1970 is one after 2036. */
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

/** A report block: what a receiver says of a source. */
typedef struct sluice_rtcp_report {
    uint32_t ssrc;         /**< The source. */
    uint8_t fraction_lost; /**< Since the report before, in 256ths. */
    int32_t lost;          /**< In all, signed 24 bits. */
    uint32_t highest;      /**< Highest sequence number and its wraps. */
    uint32_t jitter;       /**< Timestamp units. */
    uint32_t last_sr;      /**< Middle 32 bits of the last sender report's NTP time; 0 for none. */
    uint32_t delay;        /**< Since that report, 65,536ths of a second. */
} sluice_rtcp_report;

/** One packet of a compound. */
typedef struct sluice_rtcp_packet {
    uint8_t type;  /**< SLUICE_RTCP_..., or another, of which only offset and length hold. */
    size_t offset; /**< Of the packet in the compound, bytes. */
    size_t length; /**< With its header and padding, bytes. */
    /** SR, RR: who reports. SDES, BYE: the first source; 0 where there is none. */
    uint32_t ssrc;
    uint64_t ntp; /**< SR: wall clock. */
    /** SR: the same moment in the sender's units. */
    uint32_t timestamp;
    uint32_t packets; /**< SR: sent. */
    uint32_t octets;  /**< SR: payload sent. */
    /** SR, RR: report blocks. SDES, BYE: sources. */
    uint8_t count;
    sluice_rtcp_report reports[SLUICE_RTCP_MAX_REPORTS]; /**< SR, RR. */
    uint32_t sources[SLUICE_RTCP_MAX_REPORTS];           /**< SDES, BYE. */
    size_t text_offset; /**< SDES: the first CNAME. BYE: the reason. In the compound. */
    size_t text_length; /**< Bytes, UTF-8; 0 where there is none. */
} sluice_rtcp_packet;

/**
 * Steps to the next packet of a compound. The compound need not begin with a report (RFC 5506).
 * @param offset in: 0 at the beginning; out: behind the packet. For an error it is the compound's
 *   end
 * @return 1 (a packet), 0 (there are no more), -EPROTO (another version, a length that is beyond
 *         the end or too short for what it holds, padding other than in the last)
 */
SLUICE_API int sluice_rtcp_next(const sluice_slice *compound, size_t *offset, sluice_rtcp_packet *ret_packet);

/**
 * The report block about a source, and the beginning of the next interval (RFC 3550, A.3).
 * @param last_sr NTP time of its last sender report, 0 for none
 * @param now     NTP time
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
 * @return bytes written; -EMSGSIZE (@p size is too small), -EINVAL (too long a name)
 */
SLUICE_API int sluice_rtcp_write_sdes(uint8_t *buffer, size_t size, uint32_t ssrc, const char *cname);

/* Frames out of payloads. */

/** Payload formats. */
typedef enum sluice_rtp_format {
    SLUICE_RTP_H264, /**< RFC 6184, packetization modes 0 and 1: single NAL units, STAP-A, FU-A. */
    SLUICE_RTP_H265, /**< RFC 7798 without decoding order numbers: single NAL units, AP, FU. */
    /** RFC 3640, AAC-hbr or AAC-lbr, without interleaving; to read, RFC 6416 too. */
    SLUICE_RTP_AAC,
    SLUICE_RTP_AUDIO, /**< G.711, Opus and others where a payload is a frame. */
} sluice_rtp_format;

/** Settings of an unpacker. Zero in any field means its default. */
typedef struct sluice_rtp_unpacker_options {
    size_t size;         /**< sizeof(sluice_rtp_unpacker_options). */
    uint32_t max_unit;   /**< Longest access unit, bytes. Default 8 MiB. */
    uint32_t max_pieces; /**< Most pieces of an access unit: to 65,536. Default 16,384. */
    uint32_t max_nals;   /**< Most NAL units of an access unit: to 65,536. Default 1024. */
    uint8_t size_length; /**< AAC: bits: 6, 13, 16. Default 13. */
    /** AAC: bits: 0, 2, 3; 0 holds where size_length is given, else the default, 3. */
    uint8_t index_length;
    uint8_t index_delta_length; /**< AAC: bits, likewise. */
    uint32_t frame_duration;    /**< AAC: timestamp units of a frame. Default 1024. */
    /** AAC: MP4A-LATM (RFC 6416), elements of one frame without their configuration. */
    bool latm;
} sluice_rtp_unpacker_options;

enum {
    SLUICE_RTP_MAX_FRAMES = 64, /**< Most AAC frames of a packet; encoders put 1 to 50 into one. */
};

/**
 * Whether an encoder describes its AAC so: RFC 3640's modes have sizes of 6 bits (AAC-lbr) and 13
 * (AAC-hbr), some write 16; indexes are 2 or 3 bits, or left out. Others have no use but to make
 * many frames of few bytes.
 */
SLUICE_API bool sluice_rtp_aac_lengths_are_used(uint8_t size_length, uint8_t index_length, uint8_t index_delta_length);

/** A NAL unit, or an audio frame: what precedes its pieces, and which pieces are its own. */
typedef struct sluice_rtp_nal {
    /** NAL unit header of one that came in fragments, which do not hold it. */
    uint8_t header[2];
    /** Bytes of it, 0 to 2; 0 where the first piece begins with the header. */
    uint8_t header_size;
    uint8_t type;   /**< Video: the NAL unit type. */
    uint32_t first; /**< Its first piece. */
    uint32_t count; /**< Its pieces. */
    size_t length;  /**< With its header, bytes. */
} sluice_rtp_nal;

/** An access unit: the NAL units of one picture, or one audio frame. */
typedef struct sluice_rtp_unit {
    uint32_t timestamp; /**< Of presentation. */
    uint64_t sequence;  /**< Of its last packet. */
    /** Decoding can begin here: H.264 IDR, or a recovery point at once; H.265 IRAP; audio. */
    bool key;
    /** Packets of it, or between it and the unit before, are missing or were refused. */
    bool damaged;
    size_t length;              /**< Of all NAL units, bytes. */
    const sluice_rtp_nal *nals; /**< In order. */
    size_t nal_count;           /**< NAL units; 1 for audio. */
    sluice_slice *pieces;       /**< All NAL units' pieces, in order. */
    size_t piece_count;         /**< Pieces. */
} sluice_rtp_unit;

/** Puts access units together from the packets of one source; opaque. */
typedef struct sluice_rtp_unpacker sluice_rtp_unpacker;

/** Makes an unpacker. The caller owns it. @return 0, -EINVAL (a setting out of range), -ENOMEM */
SLUICE_API int sluice_rtp_unpacker_new(sluice_rtp_format format, const sluice_rtp_unpacker_options *options,
                                       sluice_rtp_unpacker **ret_unpacker);

/** Frees the unpacker and all that it holds. NULL is allowed. */
SLUICE_API void sluice_rtp_unpacker_free(sluice_rtp_unpacker *unpacker);

/**
 * Gives the unpacker a packet; then call sluice_rtp_unpacker_next() until it says 0. The unpacker
 * takes references of its own, only on the payload's blocks, and holds them until it has delivered
 * the unit.
 * @param packet   what sluice_rtp_read() has said of it; one without payload is passed over, and is
 *                 not missing
 * @param sequence unwrapped, as sluice_rtp_note() says it; one that is not the next means that
 *   packets are missing
 * @return 0, -EBUSY (the packet before has not been finished), -ESTALE (not above the packet
 *         before: it came late, or twice; dropped), -EINVAL (the view is not of this slice)
 */
SLUICE_API int sluice_rtp_unpacker_push(sluice_rtp_unpacker *unpacker, const sluice_slice *slice,
                                        const sluice_rtp_packet *packet, uint64_t sequence);

/**
 * Takes the next access unit. Video ends with the marker or before another timestamp; a timestamp's
 * change costs the delay of a packet. Audio is delivered frame by frame. The unit before is
 * released, but for pieces that were moved out with sluice_slice_take().
 *
 * @param ret_unit the unit; untouched unless 1 is returned. It lies in the unpacker, valid until
 *   its next call
 * @return 1 (a unit), 0 (there is none), or, with the packet dropped and its access unit damaged:
 *         -EPROTO (malformed, a fragment without a beginning, more than SLUICE_RTP_MAX_FRAMES
 *         frames), -EOPNOTSUPP (a kind of payload that is legal and not read: interleaving,
 *         decoding order numbers, reserved types), -EMSGSIZE (a unit over a limit: it is dropped up
 *         to the next), -ENOMEM. The next call goes on.
 */
SLUICE_API int sluice_rtp_unpacker_next(sluice_rtp_unpacker *unpacker, sluice_rtp_unit **ret_unit);

/**
 * Ends the unit that is not complete, as at the stream's end; sluice_rtp_unpacker_next() then
 * delivers it.
 */
SLUICE_API void sluice_rtp_unpacker_flush(sluice_rtp_unpacker *unpacker);

/**
 * Samples of an Opus packet at 48 kHz, by its first two bytes (RFC 6716, section 3.1). @return 0
 * for none
 */
SLUICE_API uint32_t sluice_rtp_opus_duration(const uint8_t *bytes, size_t length);

/* Layouts to send. */

/** Lays a NAL unit, or an AAC frame, out in packets; by value. The fields are the library's. */
typedef struct sluice_rtp_packing {
    sluice_rtp_format format; /**< Format. */
    uint8_t header[2];        /**< The NAL unit's header. */
    uint8_t header_size;      /**< Bytes of it. */
    size_t length;            /**< Of the NAL unit or frame. */
    size_t done;              /**< Laid out. */
    size_t most;              /**< Bytes of a payload. */
} sluice_rtp_packing;

/** What one packet's payload is made of: a few bytes, then a part of the NAL unit or frame. */
typedef struct sluice_rtp_part {
    uint8_t prefix[4];   /**< Payload bytes that precede the part. */
    uint8_t prefix_size; /**< Bytes of it, 0 to 4. */
    size_t offset;       /**< Of the part in the NAL unit or frame. */
    size_t length;       /**< Of the part, bytes. */
    /** Ends the NAL unit or frame: with the picture's last one, the marker. */
    bool last;
} sluice_rtp_part;

/**
 * Begins a layout: one packet where it fits, else FU-A, FU or AAC fragments (RFC 3640, AAC-hbr).
 * Audio is never split.
 * @param start       the NAL unit's first bytes: one for H.264, two for H.265; not looked at for
 *                    others
 * @param length      of the NAL unit with its header, or of the frame, bytes
 * @param max_payload bytes behind the RTP header
 * @return 0, -EINVAL (a NAL unit shorter than its header or an empty frame, a payload that leaves
 *         no room for data), -EMSGSIZE (AAC frames over 8191 bytes; audio that does not fit)
 */
SLUICE_API int sluice_rtp_pack(sluice_rtp_packing *packing, sluice_rtp_format format, const uint8_t *start,
                               size_t length, size_t max_payload);

/** The next packet's layout. @return 1, 0 (there are no more) */
SLUICE_API int sluice_rtp_pack_next(sluice_rtp_packing *packing, sluice_rtp_part *ret_part);

/** One of several NAL units or AAC frames that go into one packet. */
typedef struct sluice_rtp_member {
    uint8_t start[2];    /**< In: of a NAL unit the first bytes, as for sluice_rtp_pack(). */
    uint16_t length;     /**< In: bytes. */
    uint8_t prefix[4];   /**< Out: payload bytes that precede it. */
    uint8_t prefix_size; /**< Out: bytes of it. */
} sluice_rtp_member;

/**
 * Lays several NAL units out in one packet: STAP-A or AP. The payload is each member's prefix and
 * the member, in order.
 * @return how many of the members fit, from the first on; less than 2 means that a packet for one
 *   is as good
 */
SLUICE_API size_t sluice_rtp_aggregate(sluice_rtp_format format, sluice_rtp_member *members, size_t count,
                                       size_t max_payload);

/**
 * Writes the AU headers of an AAC-hbr packet; the frames follow, in order.
 * @return bytes written, 2 + 2 * count; -EMSGSIZE (@p size is too small), -EINVAL (none, more than
 *         64, or a frame of 0 or over 8191 bytes)
 */
SLUICE_API int sluice_rtp_write_aac(uint8_t *buffer, size_t size, const uint32_t *lengths, size_t count);

#ifdef __cplusplus
}
#endif

#endif
