/* Records of MP4 and FLV: ISO/IEC 14496-15, 5.3.3 and 8.3.3; 14496-3, 1.6.2; RFC 7845, 5.1. */
#include <errno.h>

#include "framers/codec/codec.h"
#include "framers/codec/rbsp.h"
#include "framers/codec/sps.h"
#include "framers/rtp/rtp_nals.h"
#include "framers/rtp/rtp_write.h"
#include "reader/cursor.h"

enum {
    AVCC_HEADER = 6,
    HVCC_HEADER = 23,
    OPUS_HEAD = 19,
    OPUS_CHANNELS = 9, /* where they stand */
    AAC_ESCAPE = 31,
    AAC_SBR = 5,
    AAC_PS = 29,
    AAC_RATES = 13,
    /* units in the arrays of a record of H.265, empty ones and others than sets included; that of
     * H.264 has room for 286 */
    MOST_UNITS = 256,
};

static bool is_set(const sluice_codec_config *config, sluice_cursor at) {
    sluice_rtp_format format = config->codec == SLUICE_CODEC_HEVC ? SLUICE_RTP_H265 : SLUICE_RTP_H264;
    return codec_is_set(config->codec, rtp_nal_type(format, cursor_byte(&at)));
}

/*
 * Sets of parameters, each behind a length of two bytes. H.265's arrays may hold others, such as
 * the encoder's SEI of a few KiB, which is stepped over.
 */
static int read_sets(sluice_cursor *cursor, unsigned count, sluice_codec_config *config) {
    for (unsigned i = 0; i < count; i++) {
        uint8_t nal[SLUICE_CODEC_MAX_BYTES];
        uint16_t length;
        if (!cursor_be16(cursor, &length) || length > cursor_left(cursor))
            return -EPROTO;
        if (length == 0 || !is_set(config, *cursor)) {
            cursor_skip(cursor, length);
            continue;
        }
        if (length > sizeof nal)
            return -EMSGSIZE;
        for (size_t j = 0; j < length; j++)
            nal[j] = cursor_byte(cursor);
        int result = sluice_codec_add_set(config, nal, length);
        if (result < 0)
            return result;
    }
    return 0;
}

static int read_length_size(uint8_t byte, sluice_codec_config *config) {
    config->length_size = (uint8_t)((byte & 3) + 1);
    return config->length_size == 3 ? -EPROTO : 0;
}

static int read_avcc(sluice_cursor cursor, sluice_codec_config *config) {
    uint8_t version, length_size, count;
    if (!cursor_u8(&cursor, &version) || version != 1 || !cursor_skip(&cursor, 3) ||
        !cursor_u8(&cursor, &length_size) || !cursor_u8(&cursor, &count))
        return -EPROTO;
    int error = read_length_size(length_size, config);
    if (!error)
        error = read_sets(&cursor, count & 0x1F, config);
    if (error)
        return error;
    if (!cursor_u8(&cursor, &count))
        return -EPROTO;
    return read_sets(&cursor, count, config);
}

static int read_hvcc(sluice_cursor cursor, sluice_codec_config *config) {
    uint8_t version, length_size, arrays;
    /* Encoders before the standard was finished wrote version 0. */
    if (!cursor_u8(&cursor, &version) || version > 1 || !cursor_skip(&cursor, 20) ||
        !cursor_u8(&cursor, &length_size) || !cursor_u8(&cursor, &arrays))
        return -EPROTO;
    int error = read_length_size(length_size, config);
    for (unsigned i = 0, units = 0; i < arrays && !error; i++) {
        uint16_t count;
        if (!cursor_skip(&cursor, 1) || !cursor_be16(&cursor, &count))
            return -EPROTO;
        units += count;
        error = units > MOST_UNITS ? -EMSGSIZE : read_sets(&cursor, count, config);
    }
    return error;
}

static uint32_t read_object_type(struct rbsp *r) {
    uint32_t type = rbsp_u(r, 5);
    return type == AAC_ESCAPE ? 32 + rbsp_u(r, 6) : type;
}

/* In Hz; 0 for a reserved index. */
static uint32_t read_rate(struct rbsp *r) {
    static const uint32_t rates[AAC_RATES] = {96000, 88200, 64000, 48000, 44100, 32000, 24000,
                                              22050, 16000, 12000, 11025, 8000,  7350};
    uint32_t index = rbsp_u(r, 4);
    return index == 15 ? rbsp_u(r, 24) : index < AAC_RATES ? rates[index] : 0;
}

int codec_take_aac(sluice_codec_config *config, const uint8_t *bytes, size_t size) {
    static const uint8_t channels[16] = {0, 1, 2, 3, 4, 5, 6, 8, 0, 0, 0, 7, 8, 24, 8, 0};
    struct rbsp r = {.at = bytes, .end = bytes + size};
    if (size > SLUICE_CODEC_MAX_BYTES)
        return -EMSGSIZE;
    uint32_t type = read_object_type(&r), rate = read_rate(&r), layout = rbsp_u(&r, 4);
    if (type == AAC_SBR || type == AAC_PS) {
        read_rate(&r);
        type = read_object_type(&r);
    }
    bool is_short = rbsp_bit(&r);
    if (r.over || rate == 0 || type == 0)
        return -EPROTO;
    /* SDP may count in another rate, such as that of the decoder's output where SBR doubles it. */
    uint32_t samples = is_short ? 960 : 1024;
    if (config->clock_rate == 0)
        config->clock_rate = rate;
    uint64_t duration = ((uint64_t)samples * config->clock_rate + rate / 2) / rate;
    config->frame_duration = duration <= config->clock_rate ? (uint32_t)duration : samples;
    if (channels[layout])
        config->channels = channels[layout];
    config->size = (uint16_t)size;
    for (size_t i = 0; i < size; i++)
        config->bytes[i] = bytes[i];
    return 0;
}

static int read_aac(sluice_cursor cursor, sluice_codec_config *config) {
    uint8_t bytes[SLUICE_CODEC_MAX_BYTES];
    size_t size = cursor_left(&cursor);
    if (size > sizeof bytes)
        return -EMSGSIZE;
    for (size_t i = 0; i < size; i++)
        bytes[i] = cursor_byte(&cursor);
    return codec_take_aac(config, bytes, size);
}

static int read_opus(sluice_cursor cursor, sluice_codec_config *config) {
    if (cursor_left(&cursor) < OPUS_HEAD)
        return -EPROTO;
    cursor_skip(&cursor, OPUS_CHANNELS);
    config->channels = cursor_byte(&cursor);
    return config->channels ? 0 : -EPROTO;
}

int sluice_codec_read_record(sluice_codec_config *ret_config, uint32_t codec, const sluice_slice *slice,
                             size_t offset) {
    sluice_codec_config config;
    sluice_cursor cursor = cursor_of_slice(slice);
    int error = sluice_codec_init(&config, codec, 0, 0);
    if (error)
        return error;
    if (!cursor_skip(&cursor, offset))
        return -EPROTO;
    if (codec == SLUICE_CODEC_H264)
        error = read_avcc(cursor, &config);
    else if (codec == SLUICE_CODEC_HEVC)
        error = read_hvcc(cursor, &config);
    else if (codec == SLUICE_CODEC_AAC)
        error = read_aac(cursor, &config);
    else if (codec == SLUICE_CODEC_OPUS)
        error = read_opus(cursor, &config);
    else
        error = -EOPNOTSUPP; /* G.711 has none */
    if (!error)
        *ret_config = config;
    return error;
}

static unsigned count_sets(const sluice_codec_config *config, uint8_t type) {
    unsigned count = 0;
    for (size_t i = 0; i < config->set_count; i++)
        count += config->sets[i].type == type;
    return count;
}

/* All sets of a type, each behind its length. */
static uint8_t *write_sets(const sluice_codec_config *config, uint8_t type, uint8_t *to) {
    for (size_t i = 0; i < config->set_count; i++) {
        const sluice_codec_set *set = &config->sets[i];
        if (set->type != type)
            continue;
        put_be16(to, set->length);
        to += 2;
        for (size_t j = 0; j < set->length; j++)
            *to++ = config->bytes[set->offset + j];
    }
    return to;
}

/* The first SPS, which is known to be there and well-formed. */
static struct sps first_sps(const sluice_codec_config *config, const uint8_t **ret_bytes) {
    struct sps sps = {0};
    for (size_t i = 0; i < config->set_count; i++) {
        const sluice_codec_set *set = &config->sets[i];
        *ret_bytes = config->bytes + set->offset;
        if (config->codec == SLUICE_CODEC_H264 && set->type == H264_SPS) {
            sps_read_h264(*ret_bytes, set->length, &sps);
            break;
        }
        if (config->codec == SLUICE_CODEC_HEVC && set->type == H265_SPS) {
            sps_read_h265(*ret_bytes, set->length, &sps);
            break;
        }
    }
    return sps;
}

static size_t write_avcc(const sluice_codec_config *config, uint8_t *buffer) {
    const uint8_t *bytes = NULL;
    struct sps sps = first_sps(config, &bytes);
    uint8_t *to = buffer;
    *to++ = 1;
    for (int i = 1; i <= 3; i++)
        *to++ = bytes[i];
    *to++ = 0xFC | 3;
    *to++ = (uint8_t)(0xE0 | count_sets(config, H264_SPS));
    to = write_sets(config, H264_SPS, to);
    *to++ = (uint8_t)count_sets(config, H264_PPS);
    to = write_sets(config, H264_PPS, to);
    if (bytes[1] != 66 && bytes[1] != 77 && bytes[1] != 88) {
        *to++ = 0xFC | sps.chroma;
        *to++ = (uint8_t)(0xF8 | (sps.luma_depth - 8));
        *to++ = (uint8_t)(0xF8 | (sps.chroma_depth - 8));
        *to++ = 0; /* SPS extensions */
    }
    return (size_t)(to - buffer);
}

static size_t write_hvcc(const sluice_codec_config *config, uint8_t *buffer) {
    const uint8_t *bytes = NULL;
    struct sps sps = first_sps(config, &bytes);
    uint8_t *to = buffer;
    *to++ = 1;
    for (int i = 0; i < 12; i++)
        *to++ = sps.profile[i];
    put_be16(to, 0xF000); /* segmentation: not said */
    to += 2;
    *to++ = 0xFC; /* parallelism: not said */
    *to++ = 0xFC | sps.chroma;
    *to++ = (uint8_t)(0xF8 | (sps.luma_depth - 8));
    *to++ = (uint8_t)(0xF8 | (sps.chroma_depth - 8));
    put_be16(to, 0); /* frame rate: not said */
    to += 2;
    *to++ = (uint8_t)(sps.sub_layers << 3 | sps.nested << 2 | 3);
    *to++ = 3;
    for (uint8_t type = H265_VPS; type <= H265_PPS; type++) {
        *to++ = 0x80 | type;
        put_be16(to, (uint16_t)count_sets(config, type));
        to = write_sets(config, type, to + 2);
    }
    return (size_t)(to - buffer);
}

static size_t write_opus(const sluice_codec_config *config, uint8_t *buffer) {
    static const uint8_t head[OPUS_HEAD] = {'O', 'p', 'u', 's', 'H', 'e', 'a', 'd', 1, 0, 0, 0, 0x80, 0xBB};
    for (size_t i = 0; i < OPUS_HEAD; i++)
        buffer[i] = i == OPUS_CHANNELS ? config->channels : head[i];
    return OPUS_HEAD;
}

static size_t record_size(const sluice_codec_config *config) {
    switch (config->codec) {
    case SLUICE_CODEC_H264:
        return AVCC_HEADER + 1 + 4 + config->size + 2U * config->set_count;
    case SLUICE_CODEC_HEVC:
        return HVCC_HEADER + 3 * 3 + config->size + 2U * config->set_count;
    case SLUICE_CODEC_OPUS:
        return OPUS_HEAD;
    default:
        return config->size;
    }
}

int sluice_codec_write_record(const sluice_codec_config *config, uint8_t *buffer, size_t size) {
    if (!sluice_codec_is_complete(config))
        return -EINVAL;
    if (size < record_size(config))
        return -EMSGSIZE;
    switch (config->codec) {
    case SLUICE_CODEC_H264:
        return (int)write_avcc(config, buffer);
    case SLUICE_CODEC_HEVC:
        return (int)write_hvcc(config, buffer);
    case SLUICE_CODEC_OPUS:
        return (int)write_opus(config, buffer);
    default:
        for (size_t i = 0; i < config->size; i++)
            buffer[i] = config->bytes[i];
        return config->size;
    }
}
