/**
 * @file codec.h
 * What a decoder must know before the first frame, and the forms in which it travels: the records
 * of MP4 and FLV (sequence headers), the parameters of SDP (fmtp), parameter sets among the frames.
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
    SLUICE_CODEC_MAX_SETS = 32,    /**< Most parameter sets. */
    SLUICE_CODEC_MAX_BYTES = 2048, /**< Most bytes of all of them, or of an AudioSpecificConfig. */
    /** Longest record that sluice_codec_write_record() writes, bytes. */
    SLUICE_CODEC_MAX_RECORD = 4096,
    /** Longest text that sluice_codec_write_fmtp() writes, with its NUL, bytes. */
    SLUICE_CODEC_MAX_FMTP = 4096,
    /** Most pictures that can be decoded before one that is shown earlier. */
    SLUICE_CODEC_MAX_REORDER = 16,
};

/** A parameter set. */
typedef struct sluice_codec_set {
    /** NAL unit type: H.264 7 (SPS) and 8 (PPS); H.265 32 (VPS), 33 (SPS) and 34 (PPS). */
    uint8_t type;
    uint16_t id;     /**< Its own number: a set of the same type and number takes its place. */
    uint16_t offset; /**< Of its bytes, the NAL unit header first. */
    uint16_t length; /**< Bytes. */
} sluice_codec_set;

/** A decoder's configuration; a value without memory of its own. What it does not know is 0. */
typedef struct sluice_codec_config {
    uint32_t codec; /**< SLUICE_CODEC_H264, _HEVC, _AAC, _OPUS, _PCMA or _PCMU. */
    /** Of RTP timestamps: 90,000 for video, 48,000 for Opus, else the sample rate. */
    uint32_t clock_rate;
    uint8_t channels; /**< Audio. */
    /** Video: bytes of the length before each NAL unit in FLV: 1, 2 or 4. */
    uint8_t length_size;
    bool reorder_known; /**< Video: the SPS says how far pictures are reordered. */
    /** Video: most pictures that are decoded before one and shown after it. */
    uint8_t reorder;
    /** Units of clock_rate: AAC 1024 or 960 samples; video as the SPS says. */
    uint32_t frame_duration;
    uint32_t width;  /**< Video: pixels, cropped. */
    uint32_t height; /**< Video: pixels, cropped. */
    /** Video: parameter sets, in the order of their types. */
    uint8_t set_count;
    sluice_codec_set sets[SLUICE_CODEC_MAX_SETS]; /**< Parameter sets. */
    uint16_t size;                                /**< Bytes below. */
    /** The parameter sets; of AAC the AudioSpecificConfig. */
    uint8_t bytes[SLUICE_CODEC_MAX_BYTES];
} sluice_codec_config;

/**
 * Begins a configuration with what is known of the codec alone.
 * @param clock_rate audio: Hz, as rtpmap says it; 0 and others for the codec's own
 * @param channels   audio: 0 for the codec's own
 * @return 0, -EOPNOTSUPP (another codec)
 */
SLUICE_API int sluice_codec_init(sluice_codec_config *config, uint32_t codec, uint32_t clock_rate, uint8_t channels);

/**
 * The same by what an rtpmap attribute of SDP says; sluice_codec_read_fmtp() then takes what fmtp
 * says.
 * @param name    the encoding's: as sluice_codec_by_rtp_name() knows it, or MP4A-LATM, which is AAC
 *                too
 * @param options which of the two is written there; its size is set by the caller
 * @return 0, -EOPNOTSUPP (another encoding), -EINVAL (the size)
 */
SLUICE_API int sluice_codec_read_rtpmap(sluice_codec_config *config, sluice_http_text name, uint32_t clock_rate,
                                        uint8_t channels, sluice_rtp_unpacker_options *options);

/**
 * Whether a decoder can begin: video has SPS and PPS (H.265: VPS too), AAC its AudioSpecificConfig.
 */
SLUICE_API bool sluice_codec_is_complete(const sluice_codec_config *config);

/**
 * Takes a parameter set, and what it says.
 * @param nal NAL unit without start code or length; copied, for it is no payload
 * @return 1 (the configuration has changed), 0 (known already), -EINVAL (no parameter set of the
 *         codec), -EPROTO (malformed), -EMSGSIZE (too many sets or bytes); on failure nothing has
 *         changed
 */
SLUICE_API int sluice_codec_add_set(sluice_codec_config *config, const uint8_t *nal, size_t length);

/**
 * Reads the record of a sequence header: AVCDecoderConfigurationRecord,
 * HEVCDecoderConfigurationRecord, AudioSpecificConfig, OpusHead.
 * @param offset of the record in the slice: header_size of the FLV view
 * @return 0, -EOPNOTSUPP (another codec), -EPROTO (malformed), -EMSGSIZE (over a limit); on failure
 *   nothing is written
 */
SLUICE_API int sluice_codec_read_record(sluice_codec_config *ret_config, uint32_t codec, const sluice_slice *slice,
                                        size_t offset);

/**
 * Writes the record; length prefixes are said to be of four bytes. SLUICE_CODEC_MAX_RECORD bytes
 * are always enough.
 * @return bytes written, 0 for G.711; -EINVAL (not complete), -EMSGSIZE (@p size is too small)
 */
SLUICE_API int sluice_codec_write_record(const sluice_codec_config *config, uint8_t *buffer, size_t size);

/**
 * Takes what the parameters of an SDP fmtp attribute say, behind the payload type:
 * sprop-parameter-sets, sprop-vps, sprop-sps, sprop-pps, config, sizeLength, indexLength,
 * indexDeltaLength, cpresent. Others are stepped over. Sets that are malformed are too: they may
 * come in band. The config of MP4A-LATM is a StreamMuxConfig. Of several configs the first counts.
 * @param options where not NULL, AAC's lengths are written there, and said whether it is LATM
 * @return 0, -EPROTO (a malformed config or length), -EOPNOTSUPP (packetization that is not read:
 *         packetization-mode=2, sprop-max-don-diff or sprop-depack-buf-nalus above 0, constantSize,
 *         interleaved AAC; LATM with its config in band, or of several frames, programs or layers,
 *         or of other objects than AAC), -EMSGSIZE (too long)
 */
SLUICE_API int sluice_codec_read_fmtp(sluice_codec_config *config, sluice_http_text fmtp,
                                      sluice_rtp_unpacker_options *options);

/**
 * Writes the parameters of an SDP fmtp attribute, to be put behind the payload type.
 * SLUICE_CODEC_MAX_FMTP bytes are always enough.
 * @return characters, not counting the NUL; 0 where there are none to say; -EMSGSIZE (@p size is
 *   too small)
 */
SLUICE_API int sluice_codec_write_fmtp(const sluice_codec_config *config, char *buffer, size_t size);

/** The payload format. @return SLUICE_RTP_..., or -EOPNOTSUPP */
SLUICE_API int sluice_codec_rtp_format(uint32_t codec);

/** The name in SDP's rtpmap, such as "MPEG4-GENERIC"; NULL for a codec that is not carried. */
SLUICE_API const char *sluice_codec_rtp_name(uint32_t codec);

/** The codec of a name in rtpmap, whatever its case; SLUICE_CODEC_NONE for others. */
SLUICE_API uint32_t sluice_codec_by_rtp_name(sluice_http_text name);

#ifdef __cplusplus
}
#endif

#endif
