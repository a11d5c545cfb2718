/**
 * @file flv.h
 * FLV framing on a chain: an FLV byte stream in, one tag at a time out, the payload a slice of the
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
    SLUICE_FLV_TRAILER_SIZE = 4,       /**< PreviousTagSize behind each tag, bytes. */
    SLUICE_FLV_MAX_PAYLOAD = 0xFFFFFF, /**< What a tag's size field can say, bytes. */
    /** Largest payload that a framer takes unless told otherwise, bytes. */
    SLUICE_FLV_DEFAULT_LIMIT = 8 << 20,
    /** Longest header that sluice_flv_write_track_header() writes, bytes. */
    SLUICE_FLV_MAX_TRACK_HEADER = 7,
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

/** What a codec's name is written as: four characters, first in the most significant byte. */
#define SLUICE_FOURCC(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/**
 * Codecs by their FourCC; the numbered ones of FLV have the name that Enhanced RTMP or MP4 gives
 * them.
 */
enum {
    SLUICE_CODEC_NONE = 0, /**< Not said, or a number that is not known. */
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

/** What an audio or video payload is. */
typedef enum sluice_flv_packet {
    SLUICE_FLV_FRAME, /**< A coded frame. */
    /** The decoder's configuration; for MPEG2TS sequence starts too. */
    SLUICE_FLV_SEQUENCE_HEADER,
    SLUICE_FLV_SEQUENCE_END, /**< No more frames. */
    SLUICE_FLV_METADATA,     /**< Video: HDR information and the like. Audio: channel layout. */
    SLUICE_FLV_COMMAND,      /**< Video frame type 5: for seeking in files; no frame. */
    SLUICE_FLV_OTHER,        /**< A packet type that is not known; relayed as it is. */
} sluice_flv_packet;

/**
 * What the payload's own header says. The fields below @c packet hold for video, or audio, as said.
 */
typedef struct sluice_flv_view {
    /** SLUICE_CODEC_..., or the FourCC as it came. With several tracks the first's. */
    uint32_t codec;
    sluice_flv_packet packet; /**< Scripts: SLUICE_FLV_METADATA. */
    bool key_frame;           /**< Video: a frame from which decoding can start. Audio: false. */
    bool enhanced;            /**< The extended header of Enhanced RTMP. */
    bool multitrack;          /**< The payload names its track, or its tracks. */
    /**
     * There may be more than one in it: see sluice_flv_next_track(). The codec, the key frame and
     * the composition time are those of the first.
     */
    bool many_tracks;
    /** The track's id, or that of the first; 0 where the payload names none. */
    uint8_t track;
    /** Video: 1 key, 2 inter, 3 disposable, 4 generated key, 5 command. */
    uint8_t frame_type;
    uint8_t audio_format; /**< Audio: the SoundFormat number, 0 to 15. */
    /** Audio: 1 or 2 as the legacy header says; 0 where it says nothing. */
    uint8_t channels;
    /**
     * Audio: Hz as the legacy header says; 0 where it says nothing. AAC's is in its sequence
     * header.
     */
    uint32_t sample_rate;
    /** Video: presentation minus decoding time, milliseconds, signed 24 bit. */
    int32_t composition_time;
    /**
     * Bytes of the payload before the codec's own data. With many tracks: up to the first track's
     * id.
     */
    uint32_t header_size;
} sluice_flv_view;

/** One tag. */
typedef struct sluice_flv_tag {
    sluice_flv_type type; /**< Audio, video or script data. */
    uint32_t timestamp;   /**< Decoding time, milliseconds, all 32 bits. */
    uint32_t size;        /**< Bytes of payload. */
    /** The PreviousTagSize behind the tag is 11 + size; a wrong one is only a warning. */
    bool trailer_ok;
    sluice_flv_view view; /**< What the payload is. */
    /** The payload. The framer's: valid until its next call; sluice_slice_take() to hold it. */
    sluice_slice payload;
} sluice_flv_tag;

/** One track of a multitrack payload (Enhanced RTMP v2). */
typedef struct sluice_flv_track {
    uint8_t id; /**< The track's id. */
    /** The number of the packet type, 0 to 15, the same for all tracks of a payload. */
    uint8_t packet_type;
    /** Video: as in sluice_flv_view; the same for all tracks of a payload. */
    uint8_t frame_type;
    uint32_t codec;           /**< The FourCC. */
    sluice_flv_packet packet; /**< What it is. */
    bool key_frame;           /**< Video: a frame from which decoding can start. */
    int32_t composition_time; /**< Video: as in sluice_flv_view. */
    /** Bytes of the slice before the codec's own data: the composition time's 3, or 0. */
    uint32_t header_size;
    sluice_slice slice; /**< The track's bytes. The caller's to release. */
} sluice_flv_track;

/** A place among the tracks of one payload; all zero at first. The fields are the library's. */
typedef struct sluice_flv_tracks {
    size_t at;           /**< Bytes of the payload that have been read. */
    uint32_t codec;      /**< Of the tracks, or of the last one. */
    uint8_t kind;        /**< The AvMultitrackType. */
    uint8_t packet_type; /**< Of all tracks. */
    uint8_t frame_type;  /**< Of all tracks. */
} sluice_flv_tracks;

/** An FLV framer: the state of one FLV stream; opaque. */
typedef struct sluice_flv sluice_flv;

/**
 * Makes a framer at the beginning of a stream. The caller owns it.
 * @param limit largest payload in bytes, 1 to SLUICE_FLV_MAX_PAYLOAD; 0 for
 *   SLUICE_FLV_DEFAULT_LIMIT
 * @return 0, -EINVAL, -ENOMEM
 */
SLUICE_API int sluice_flv_new(uint32_t limit, sluice_flv **ret_flv);

/** Frees the framer and releases the last tag's payload. NULL is allowed. */
SLUICE_API void sluice_flv_free(sluice_flv *flv);

/**
 * Takes the next tag out of the chain. Nothing is consumed until a tag is whole (the file header
 * likewise); then the tag leaves the chain with its trailer. Empty tags and tags of unknown types
 * are skipped, without being buffered. Releases the payload of the tag before, unless it was moved
 * out with sluice_slice_take().
 *
 * @param ret_tag the tag; untouched unless 1 is returned. It lies in the framer, valid until the
 *                framer's next call, and the framer sees whether its payload was moved out: keep
 *                the payload of this tag, never of a copy.
 * @return 1 (a tag), 0 (more bytes are needed: see sluice_flv_need()), or for good: -EPROTO (not
 *         FLV, or a header that cannot be, such as a tag whose reserved bits are set),
 *         -EPROTONOSUPPORT (a version other than 1), -EMSGSIZE (a payload over the limit, found
 *         before it is buffered), -EACCES (an encrypted tag)
 */
SLUICE_API int sluice_flv_next(sluice_flv *flv, sluice_chain *chain, sluice_flv_tag **ret_tag);

/** Bytes that the chain must hold before sluice_flv_next() can say anything new; at least 1. */
SLUICE_API size_t sluice_flv_need(const sluice_flv *flv);

/**
 * The file header's flags, 0 before it has been read. Encoders get them wrong: believe the tags.
 */
SLUICE_API uint8_t sluice_flv_flags(const sluice_flv *flv);

/**
 * Takes the next track out of a multitrack payload, by reference. Its size is checked against the
 * payload's end. How many there are is bounded by the payload alone, at four bytes each: stop where
 * you have enough.
 * @param place     where to go on: all zero for the first track, and then left alone
 * @param ret_track untouched unless 1 is returned
 * @return 1 (a track), 0 (there are no more; at first also: the payload is not multitrack, or of a
 *         kind that is not known), -EPROTO (it ends within a track), -EINVAL (@p place is not of
 *         this payload)
 */
SLUICE_API int sluice_flv_next_track(sluice_flv_tracks *place, sluice_flv_type type, const sluice_slice *payload,
                                     sluice_flv_track *ret_track);

/**
 * Writes what stands before a track's slice in a payload of its own: the slice follows it as it is.
 * @param alone true: without the id, for players that do not know tracks; H.264 and AAC in the form
 *              that FLV had for them before FourCCs. False: with the id (OneTrack)
 * @return bytes written
 */
SLUICE_API size_t sluice_flv_write_track_header(uint8_t buffer[SLUICE_FLV_MAX_TRACK_HEADER], sluice_flv_type type,
                                                const sluice_flv_track *track, bool alone);

/** What an FLV stream's onMetaData says, as far as a relay needs it. Zero where it says nothing. */
typedef struct sluice_flv_metadata {
    bool has_video;         /**< A video codec, or hasVideo, is named. */
    bool has_audio;         /**< An audio codec, or hasAudio, is named. */
    double width;           /**< Pixels. */
    double height;          /**< Pixels. */
    double frame_rate;      /**< Frames per second. */
    double video_data_rate; /**< kbit/s. */
    double audio_data_rate; /**< kbit/s. */
    /** Bytes of a leading "@setDataFrame" name, which files and players do not want. */
    size_t set_data_frame;
} sluice_flv_metadata;

/**
 * Reads an onMetaData script payload (AMF 0). Values of other types and unknown names are stepped
 * over.
 * @return 0, -ENOENT (a script tag of another name), -EPROTO (broken AMF; nothing is written)
 */
SLUICE_API int sluice_flv_read_metadata(const sluice_slice *payload, sluice_flv_metadata *ret_metadata);

/** Writes the file header and the first PreviousTagSize. @param flags SLUICE_FLV_HAS_... */
SLUICE_API void sluice_flv_write_header(uint8_t buffer[SLUICE_FLV_HEADER_SIZE], uint8_t flags);

/**
 * Writes a tag's header. @param size payload bytes, at most SLUICE_FLV_MAX_PAYLOAD @param timestamp
 * milliseconds
 */
SLUICE_API void sluice_flv_write_tag_header(uint8_t buffer[SLUICE_FLV_TAG_HEADER_SIZE], sluice_flv_type type,
                                            uint32_t size, uint32_t timestamp);

/** Writes the PreviousTagSize that follows a tag. @param size payload bytes */
SLUICE_API void sluice_flv_write_trailer(uint8_t buffer[SLUICE_FLV_TRAILER_SIZE], uint32_t size);

#ifdef __cplusplus
}
#endif

#endif
