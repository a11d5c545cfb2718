/**
 * @file flv.h
 * FLV framing on a chain: reads an FLV byte stream tag by tag; each payload is a slice of the
 * received blocks.
 *
 * Sources: Adobe Flash Video File Format Specification 10.1, annex E; Enhanced RTMP v2 (Veovera),
 * for the extended video and audio headers.
 *
 * Threads: the chain's.
 */
#ifndef SLUICE_FLV_H
#define SLUICE_FLV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/chain.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_FLV_HEADER_SIZE = 13,       /**< File header and the first PreviousTagSize, bytes. */
    SLUICE_FLV_TAG_HEADER_SIZE = 11,   /**< Tag header, bytes. */
    SLUICE_FLV_TRAILER_SIZE = 4,       /**< PreviousTagSize after each tag, bytes. */
    SLUICE_FLV_MAX_PAYLOAD = 0xFFFFFF, /**< Maximum value of a tag's size field, bytes. */
    /** Default maximum payload of a framer, bytes. */
    SLUICE_FLV_DEFAULT_LIMIT = 8 << 20,
    /** Maximum size written by sluice_flv_write_track_header(), bytes. */
    SLUICE_FLV_MAX_TRACK_HEADER = 7,
    /**
     * Maximum number of modifiers (ModEx of Enhanced RTMP v2) in a payload's header. The
     * specification sets no limit, and defines one kind of modifier.
     */
    SLUICE_FLV_MAX_MODIFIERS = 16,
    /** Maximum size of an onMetaData payload that is read, bytes. */
    SLUICE_FLV_MAX_METADATA = 128 << 10,
    /**
     * Maximum number of values in it, those in objects and arrays included: twice those of an index
     * of 4096 key frames.
     */
    SLUICE_FLV_MAX_VALUES = 16384,
};

/** Flags of the file header. */
enum {
    SLUICE_FLV_HAS_VIDEO = 1,
    SLUICE_FLV_HAS_AUDIO = 4,
};

/** Tag types. */
typedef enum sluice_flv_type {
    SLUICE_FLV_AUDIO = 8,
    SLUICE_FLV_VIDEO = 9,
    SLUICE_FLV_SCRIPT = 18,
} sluice_flv_type;

/** A codec name of four characters; the first is in the most significant byte. */
#define SLUICE_FOURCC(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/**
 * Codecs by FourCC. Codecs that have only a number in FLV use the name given by Enhanced RTMP or
 * MP4.
 */
enum {
    SLUICE_CODEC_NONE = 0, /**< Not specified, or an unknown number. */
    SLUICE_CODEC_H263 = SLUICE_FOURCC('s', '2', '6', '3'),
    SLUICE_CODEC_VP6 = SLUICE_FOURCC('v', 'p', '0', '6'),
    SLUICE_CODEC_H264 = SLUICE_FOURCC('a', 'v', 'c', '1'),
    SLUICE_CODEC_HEVC = SLUICE_FOURCC('h', 'v', 'c', '1'),
    SLUICE_CODEC_VVC = SLUICE_FOURCC('v', 'v', 'c', '1'),
    SLUICE_CODEC_AV1 = SLUICE_FOURCC('a', 'v', '0', '1'),
    SLUICE_CODEC_VP8 = SLUICE_FOURCC('v', 'p', '0', '8'),
    SLUICE_CODEC_VP9 = SLUICE_FOURCC('v', 'p', '0', '9'),
    SLUICE_CODEC_AAC = SLUICE_FOURCC('m', 'p', '4', 'a'),
    SLUICE_CODEC_MP3 = SLUICE_FOURCC('.', 'm', 'p', '3'),
    SLUICE_CODEC_OPUS = SLUICE_FOURCC('O', 'p', 'u', 's'),
    SLUICE_CODEC_FLAC = SLUICE_FOURCC('f', 'L', 'a', 'C'),
    SLUICE_CODEC_AC3 = SLUICE_FOURCC('a', 'c', '-', '3'),
    SLUICE_CODEC_EAC3 = SLUICE_FOURCC('e', 'c', '-', '3'),
    SLUICE_CODEC_PCMA = SLUICE_FOURCC('a', 'l', 'a', 'w'), /**< G.711 A-law. */
    SLUICE_CODEC_PCMU = SLUICE_FOURCC('u', 'l', 'a', 'w'), /**< G.711 mu-law. */
    SLUICE_CODEC_PCM = SLUICE_FOURCC('p', 'c', 'm', ' '),
    SLUICE_CODEC_ADPCM = SLUICE_FOURCC('a', 'd', 'p', 'c'),
    SLUICE_CODEC_NELLYMOSER = SLUICE_FOURCC('n', 'e', 'l', 'l'),
    SLUICE_CODEC_SPEEX = SLUICE_FOURCC('s', 'p', 'x', ' '),
};

/** Kind of an audio or video payload. */
typedef enum sluice_flv_packet {
    SLUICE_FLV_FRAME, /**< A coded frame. */
    /** The decoder's configuration; also for MPEG2TS sequence starts. */
    SLUICE_FLV_SEQUENCE_HEADER,
    SLUICE_FLV_SEQUENCE_END, /**< End of the sequence. */
    SLUICE_FLV_METADATA,     /**< Video: HDR information and similar. Audio: channel layout. */
    SLUICE_FLV_COMMAND,      /**< Video frame type 5: for seeking in files; not a frame. */
    /** An unknown packet type, or a header that is cut off or over a limit; relayed unchanged. */
    SLUICE_FLV_OTHER,
} sluice_flv_packet;

/**
 * Fields of the payload's own header. The fields after @c packet apply to video or audio, as
 * stated.
 */
typedef struct sluice_flv_view {
    /** SLUICE_CODEC_..., or the FourCC as received. With several tracks, that of the first. */
    uint32_t codec;
    sluice_flv_packet packet; /**< Scripts: SLUICE_FLV_METADATA. */
    bool key_frame;           /**< Video: a frame from which decoding can start. Audio: false. */
    bool enhanced;            /**< The extended header of Enhanced RTMP. */
    bool multitrack;          /**< The payload contains track ids. */
    /**
     * The payload may contain several tracks: see sluice_flv_next_track(). Codec, key frame and
     * composition time are those of the first.
     */
    bool many_tracks;
    /** Id of the track, or of the first track; 0 if the payload contains none. */
    uint8_t track;
    /** Video: 1 key, 2 inter, 3 disposable, 4 generated key, 5 command. */
    uint8_t frame_type;
    uint8_t audio_format; /**< Audio: the SoundFormat number, 0 to 15. */
    /** Audio: 1 or 2 from the legacy header; 0 if not specified. */
    uint8_t channels;
    /** Audio: Hz from the legacy header; 0 if not specified. AAC has it in its sequence header. */
    uint32_t sample_rate;
    /** Video: presentation time minus decoding time, milliseconds, signed 24 bits. */
    int32_t composition_time;
    /**
     * Bytes of the payload before the codec's data. With several tracks: before the first track id.
     */
    uint32_t header_size;
} sluice_flv_view;

/** One tag. */
typedef struct sluice_flv_tag {
    sluice_flv_type type; /**< Audio, video or script data. */
    uint32_t timestamp;   /**< Decoding time, milliseconds, all 32 bits. */
    uint32_t size;        /**< Payload size, bytes. */
    /** The PreviousTagSize after the tag equals 11 + size; if not, treat it as a warning only. */
    bool trailer_ok;
    sluice_flv_view view; /**< Header fields of the payload. */
    /**
     * The payload. Owned by the framer and valid until its next call; keep it with
     * sluice_slice_take().
     */
    sluice_slice payload;
} sluice_flv_tag;

/** One track of a multitrack payload (Enhanced RTMP v2). */
typedef struct sluice_flv_track {
    uint8_t id; /**< The track's id. */
    /** Packet type, 0 to 15; the same for all tracks of a payload. */
    uint8_t packet_type;
    /** Video: as in sluice_flv_view; the same for all tracks of a payload. */
    uint8_t frame_type;
    uint32_t codec;           /**< The FourCC. */
    sluice_flv_packet packet; /**< Kind of the packet. */
    bool key_frame;           /**< Video: a frame from which decoding can start. */
    int32_t composition_time; /**< Video: as in sluice_flv_view. */
    /** Bytes of the slice before the codec's data: 3 with a composition time, otherwise 0. */
    uint32_t header_size;
    sluice_slice slice; /**< The track's bytes; released by the caller. */
} sluice_flv_track;

/**
 * A position among the tracks of one payload; initialize with zeros. Fields are private to the
 * library.
 */
typedef struct sluice_flv_tracks {
    size_t at;           /**< Bytes of the payload already read. */
    uint32_t codec;      /**< Of all tracks, or of the last one. */
    uint8_t kind;        /**< The AvMultitrackType. */
    uint8_t packet_type; /**< Of all tracks. */
    uint8_t frame_type;  /**< Of all tracks. */
} sluice_flv_tracks;

/** An FLV framer: the parsing state of one FLV stream; opaque. */
typedef struct sluice_flv sluice_flv;

/**
 * Makes a framer at the beginning of a stream. The caller owns it.
 * @param limit maximum payload in bytes, 1 to SLUICE_FLV_MAX_PAYLOAD; 0: SLUICE_FLV_DEFAULT_LIMIT
 * @return 0, -EINVAL, -ENOMEM
 */
SLUICE_API int sluice_flv_new(uint32_t limit, sluice_flv **ret_flv);

/** Frees the framer and releases the last tag's payload. NULL is allowed. */
SLUICE_API void sluice_flv_free(sluice_flv *flv);

/**
 * Reads the next tag. Nothing is consumed until a tag (or the file header) is complete; then the
 * tag is consumed with its trailer. Empty tags and tags of unknown types are skipped without
 * buffering. Releases the payload of the previous tag, unless it was moved out with
 * sluice_slice_take().
 *
 * @param ret_tag the tag; untouched unless 1 is returned. It is stored in the framer and valid
 *                until the framer's next call. To keep the payload, take it from this struct, not
 *                from a copy: the framer must see that it was moved out
 * @return 1 (a tag), 0 (more bytes are needed: see sluice_flv_need()), or for good: -EPROTO (not
 *         FLV, or an invalid header, such as a tag with reserved bits set), -EPROTONOSUPPORT (a
 *         version other than 1), -EMSGSIZE (a payload over the limit, detected before it is
 *         buffered), -EACCES (an encrypted tag)
 */
SLUICE_API int sluice_flv_next(sluice_flv *flv, sluice_chain *chain, sluice_flv_tag **ret_tag);

/**
 * Reads the header of a payload that came otherwise than in FLV, such as in an RTMP message. Does
 * not fail: a payload that is too short for its own header, or empty, or has more modifiers than
 * SLUICE_FLV_MAX_MODIFIERS, is SLUICE_FLV_OTHER, all header, with what could be read.
 * @param payload borrowed during the call
 */
SLUICE_API void sluice_flv_read_view(sluice_flv_type type, const sluice_slice *payload, sluice_flv_view *ret_view);

/**
 * Number of bytes that the chain must hold before sluice_flv_next() can return another result; at
 * least 1.
 */
SLUICE_API size_t sluice_flv_need(const sluice_flv *flv);

/**
 * Flags of the file header; 0 before it has been read. Encoders often set them wrongly: rely on the
 * tags.
 */
SLUICE_API uint8_t sluice_flv_flags(const sluice_flv *flv);

/**
 * Returns the next track of a multitrack payload, by reference. Its size is checked against the
 * payload's end. The number of tracks is limited only by the payload size (four bytes per track),
 * so stop when you have enough.
 * @param place     current position: zeros for the first track; do not change it afterwards
 * @param ret_track untouched unless 1 is returned
 * @return 1 (a track), 0 (there are no more; at the first call also: the payload is not multitrack,
 *         or of an unknown kind), -EPROTO (the payload ends within a track), -EINVAL (@p place does
 *         not belong to this payload)
 */
SLUICE_API int sluice_flv_next_track(sluice_flv_tracks *place, sluice_flv_type type, const sluice_slice *payload,
                                     sluice_flv_track *ret_track);

/**
 * Writes the header for a track's slice in a payload of its own; the slice follows unchanged.
 * @param alone true: without the id, for players that do not support tracks; H.264 and AAC use
 *              FLV's original format without FourCC. False: with the id (OneTrack)
 * @return bytes written
 */
SLUICE_API size_t sluice_flv_write_track_header(uint8_t buffer[SLUICE_FLV_MAX_TRACK_HEADER], sluice_flv_type type,
                                                const sluice_flv_track *track, bool alone);

/** Fields of an FLV stream's onMetaData that a relay needs. Missing fields are zero. */
typedef struct sluice_flv_metadata {
    bool has_video;         /**< A video codec or hasVideo is present. */
    bool has_audio;         /**< An audio codec or hasAudio is present. */
    double width;           /**< Pixels. */
    double height;          /**< Pixels. */
    double frame_rate;      /**< Frames per second. */
    double video_data_rate; /**< kbit/s. */
    double audio_data_rate; /**< kbit/s. */
    /** Size of a leading "@setDataFrame" name, bytes; it must be removed for files and players. */
    size_t set_data_frame;
} sluice_flv_metadata;

/**
 * Reads an onMetaData script payload (AMF 0). Values of other types and unknown names are skipped.
 * @return 0, -ENOENT (a script tag with another name), -EPROTO (malformed AMF), -EMSGSIZE (larger
 *         than SLUICE_FLV_MAX_METADATA, or more values than SLUICE_FLV_MAX_VALUES); on failure
 *         nothing is written
 */
SLUICE_API int sluice_flv_read_metadata(const sluice_slice *payload, sluice_flv_metadata *ret_metadata);

/** Writes the file header and the first PreviousTagSize. @param flags SLUICE_FLV_HAS_... */
SLUICE_API void sluice_flv_write_header(uint8_t buffer[SLUICE_FLV_HEADER_SIZE], uint8_t flags);

/**
 * Writes a tag's header.
 * @param size      payload size, bytes, at most SLUICE_FLV_MAX_PAYLOAD
 * @param timestamp milliseconds
 */
SLUICE_API void sluice_flv_write_tag_header(uint8_t buffer[SLUICE_FLV_TAG_HEADER_SIZE], sluice_flv_type type,
                                            uint32_t size, uint32_t timestamp);

/** Writes the PreviousTagSize that follows a tag. @param size payload size, bytes */
SLUICE_API void sluice_flv_write_trailer(uint8_t buffer[SLUICE_FLV_TRAILER_SIZE], uint32_t size);

#ifdef __cplusplus
}
#endif

#endif
