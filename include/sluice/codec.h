/**
 * @file codec.h
 * Decoder configurations and their representations: the records of MP4 and FLV (sequence headers),
 * the parameters of SDP (fmtp), and parameter sets among the frames.
 *
 * Sources: ISO/IEC 14496-15 (AVC and HEVC decoder configuration records), 14496-3
 * (AudioSpecificConfig), RFC 7845 (OpusHead); ITU-T H.264 and H.265, section 7.3; the fmtp
 * parameters of RFC 6184, 7798, 3640, 6416 and 7587.
 *
 * Threads: one at a time per object.
 */
#ifndef SLUICE_CODEC_H
#define SLUICE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/flv.h>
#include <sluice/http.h>
#include <sluice/rtp.h>
#include <sluice/slice.h>
#include <sluice/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SLUICE_CODEC_MAX_SETS = 32, /**< Maximum number of parameter sets. */
    /** Maximum total size of the parameter sets, or of an AudioSpecificConfig, bytes. */
    SLUICE_CODEC_MAX_BYTES = 2048,
    /** Maximum size written by sluice_codec_write_record(), bytes. */
    SLUICE_CODEC_MAX_RECORD = 4096,
    /** Maximum size written by sluice_codec_write_fmtp(), including the NUL, bytes. */
    SLUICE_CODEC_MAX_FMTP = 4096,
    /** Maximum number of pictures that are decoded before a picture and shown after it. */
    SLUICE_CODEC_MAX_REORDER = 16,
};

/** A parameter set. */
typedef struct sluice_codec_set {
    /** NAL unit type: H.264 7 (SPS) and 8 (PPS); H.265 32 (VPS), 33 (SPS) and 34 (PPS). */
    uint8_t type;
    /** Identifier within its type: a set with the same type and identifier replaces it. */
    uint16_t id;
    uint16_t offset; /**< Position of its bytes, which start with the NAL unit header. */
    uint16_t length; /**< Bytes. */
} sluice_codec_set;

/** A decoder's configuration; a value without memory of its own. Unknown fields are 0. */
typedef struct sluice_codec_config {
    uint32_t codec; /**< SLUICE_CODEC_H264, _HEVC, _AAC, _OPUS, _PCMA or _PCMU. */
    /**
     * Clock rate of RTP timestamps: 90,000 for video, 48,000 for Opus, otherwise the sample rate.
     */
    uint32_t clock_rate;
    uint8_t channels; /**< Audio. */
    /** Video: size of the length prefix of each NAL unit in FLV, bytes: 1, 2 or 4. */
    uint8_t length_size;
    bool reorder_known; /**< Video: the SPS defines the reordering of pictures. */
    /** Video: maximum number of pictures decoded before a picture and shown after it. */
    uint8_t reorder;
    /** In units of clock_rate: AAC 1024 or 960 samples; video from the SPS. */
    uint32_t frame_duration;
    uint32_t width;  /**< Video: pixels, after cropping. */
    uint32_t height; /**< Video: pixels, after cropping. */
    /** Video: number of parameter sets, which are ordered by type. */
    uint8_t set_count;
    sluice_codec_set sets[SLUICE_CODEC_MAX_SETS]; /**< Parameter sets. */
    uint16_t size;                                /**< Size of @c bytes in use. */
    /** The parameter sets; for AAC the AudioSpecificConfig. */
    uint8_t bytes[SLUICE_CODEC_MAX_BYTES];
} sluice_codec_config;

/**
 * Starts a configuration with the constants of a codec.
 * @param clock_rate audio: Hz, from rtpmap; 0, and for other codecs, the codec's own
 * @param channels   audio: 0 for the codec's own
 * @return 0, -EOPNOTSUPP (another codec)
 */
SLUICE_API int sluice_codec_init(sluice_codec_config *config, uint32_t codec, uint32_t clock_rate, uint8_t channels);

/**
 * Starts a configuration from an rtpmap attribute of SDP; call sluice_codec_read_fmtp() next.
 * @param name    the encoding's: a name known to sluice_codec_by_rtp_name(), or MP4A-LATM, which is
 *                also AAC
 * @param options receives which of the two it is; the caller sets its size
 * @return 0, -EOPNOTSUPP (another encoding), -EINVAL (options->size is not set)
 */
SLUICE_API int sluice_codec_read_rtpmap(sluice_codec_config *config, sluice_http_text name, uint32_t clock_rate,
                                        uint8_t channels, sluice_rtp_unpacker_options *options);

/**
 * Whether a decoder can start: video needs SPS and PPS (H.265: also VPS), AAC its
 * AudioSpecificConfig.
 */
SLUICE_API bool sluice_codec_is_complete(const sluice_codec_config *config);

/**
 * Adds a parameter set and reads its fields.
 * @param nal NAL unit without start code or length; copied (it is not payload)
 * @return 1 (the configuration has changed), 0 (already known), -EINVAL (not a parameter set of the
 *         codec), -EPROTO (malformed), -EMSGSIZE (too many sets or bytes); on failure nothing has
 *         changed
 */
SLUICE_API int sluice_codec_add_set(sluice_codec_config *config, const uint8_t *nal, size_t length);

/**
 * Reads the record of a sequence header: AVCDecoderConfigurationRecord,
 * HEVCDecoderConfigurationRecord, AudioSpecificConfig, OpusHead.
 * @param offset position of the record in the slice: header_size of the FLV view
 * @return 0, -EOPNOTSUPP (another codec), -EPROTO (malformed), -EMSGSIZE (over a limit); on failure
 *         nothing is written
 */
SLUICE_API int sluice_codec_read_record(sluice_codec_config *ret_config, uint32_t codec, const sluice_slice *slice,
                                        size_t offset);

/**
 * Writes the record, with a length prefix size of 4 bytes. SLUICE_CODEC_MAX_RECORD bytes are always
 * enough.
 * @return bytes written, 0 for G.711; -EINVAL (incomplete), -EMSGSIZE (@p size is too small)
 */
SLUICE_API int sluice_codec_write_record(const sluice_codec_config *config, uint8_t *buffer, size_t size);

/**
 * Reads the parameters of an SDP fmtp attribute, after the payload type: sprop-parameter-sets,
 * sprop-vps, sprop-sps, sprop-pps, config, sizeLength, indexLength, indexDeltaLength, cpresent.
 * Others are ignored, and so are malformed parameter sets, because sets may also arrive in band.
 * The config of MP4A-LATM is a StreamMuxConfig. If config occurs several times, the first is used.
 * @param options if not NULL, receives AAC's lengths and whether it is LATM
 * @return 0, -EPROTO (a malformed config or length), -EOPNOTSUPP (unsupported packetization:
 *         packetization-mode=2, sprop-max-don-diff or sprop-depack-buf-nalus above 0, constantSize,
 *         interleaved AAC; LATM with its config in band, with several frames, programs or layers,
 *         or with object types other than AAC), -EMSGSIZE (too long)
 */
SLUICE_API int sluice_codec_read_fmtp(sluice_codec_config *config, sluice_http_text fmtp,
                                      sluice_rtp_unpacker_options *options);

/**
 * Writes the parameters of an SDP fmtp attribute, to be placed after the payload type.
 * SLUICE_CODEC_MAX_FMTP bytes are always enough.
 * @return characters without the NUL; 0 if there are no parameters; -EMSGSIZE (@p size is too
 *         small)
 */
SLUICE_API int sluice_codec_write_fmtp(const sluice_codec_config *config, char *buffer, size_t size);

/** The payload format. @return SLUICE_RTP_..., or -EOPNOTSUPP */
SLUICE_API int sluice_codec_rtp_format(uint32_t codec);

/** The name in SDP's rtpmap, such as "MPEG4-GENERIC"; NULL for an unsupported codec. */
SLUICE_API const char *sluice_codec_rtp_name(uint32_t codec);

/** The codec of an rtpmap name, compared without regard to case; SLUICE_CODEC_NONE if unknown. */
SLUICE_API uint32_t sluice_codec_by_rtp_name(sluice_http_text name);

#ifdef __cplusplus
}
#endif

#endif
