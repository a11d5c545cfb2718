#include "framers/codec/codec.h"

#include <errno.h>

#include "abi/sized.h"
#include "framers/codec/rbsp.h"
#include "framers/codec/sps.h"
#include "framers/http/http_text.h"
#include "framers/rtp/rtp_nals.h"

enum {
    VIDEO_CLOCK = 90000,
    OPUS_CLOCK = 48000,
    G711_CLOCK = 8000,
    LENGTH_SIZE = 4,
    MOST_PPS = 256,
};

static const struct codec {
    uint32_t codec;
    const char *name;
    sluice_rtp_format format;
    uint32_t clock_rate; /* 0 where it is the sample rate */
    uint8_t channels;
} codecs[] = {
    {SLUICE_CODEC_H264, "H264", SLUICE_RTP_H264, VIDEO_CLOCK, 0},
    {SLUICE_CODEC_HEVC, "H265", SLUICE_RTP_H265, VIDEO_CLOCK, 0},
    {SLUICE_CODEC_AAC, "MPEG4-GENERIC", SLUICE_RTP_AAC, 0, 0},
    {SLUICE_CODEC_OPUS, "opus", SLUICE_RTP_AUDIO, OPUS_CLOCK, 2},
    {SLUICE_CODEC_PCMA, "PCMA", SLUICE_RTP_AUDIO, 0, 1},
    {SLUICE_CODEC_PCMU, "PCMU", SLUICE_RTP_AUDIO, 0, 1},
};

static const struct codec *find(uint32_t codec) {
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i].codec == codec)
            return &codecs[i];
    return NULL;
}

int sluice_codec_rtp_format(uint32_t codec) {
    const struct codec *found = find(codec);
    return found ? (int)found->format : -EOPNOTSUPP;
}

const char *sluice_codec_rtp_name(uint32_t codec) {
    const struct codec *found = find(codec);
    return found ? found->name : NULL;
}

uint32_t sluice_codec_by_rtp_name(sluice_http_text name) {
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (text_folds_to(name, codecs[i].name))
            return codecs[i].codec;
    return SLUICE_CODEC_NONE;
}

int sluice_codec_init(sluice_codec_config *config, uint32_t codec, uint32_t clock_rate, uint8_t channels) {
    const struct codec *found = find(codec);
    if (!found)
        return -EOPNOTSUPP;
    *config = (sluice_codec_config){.codec = codec};
    config->clock_rate = found->clock_rate ? found->clock_rate : clock_rate;
    config->channels = channels ? channels : found->channels;
    if (codec_is_video(codec)) {
        config->length_size = LENGTH_SIZE;
        config->channels = 0;
    } else if (codec == SLUICE_CODEC_AAC) {
        config->frame_duration = 1024;
    } else if (config->clock_rate == 0) {
        config->clock_rate = G711_CLOCK;
    }
    return 0;
}

int sluice_codec_read_rtpmap(sluice_codec_config *config, sluice_http_text name, uint32_t clock_rate, uint8_t channels,
                             sluice_rtp_unpacker_options *options) {
    bool latm = text_folds_to(name, "MP4A-LATM");
    int error = SIZED_CHECK(options);
    if (!error)
        error = sluice_codec_init(config, latm ? SLUICE_CODEC_AAC : sluice_codec_by_rtp_name(name), clock_rate,
                                  channels);
    if (!error)
        options->latm = latm;
    return error;
}

static bool has_set(const sluice_codec_config *config, uint8_t type) {
    for (size_t i = 0; i < config->set_count; i++)
        if (config->sets[i].type == type)
            return true;
    return false;
}

bool sluice_codec_is_complete(const sluice_codec_config *config) {
    switch (config->codec) {
    case SLUICE_CODEC_H264:
        return has_set(config, H264_SPS) && has_set(config, H264_PPS);
    case SLUICE_CODEC_HEVC:
        return has_set(config, H265_VPS) && has_set(config, H265_SPS) && has_set(config, H265_PPS);
    case SLUICE_CODEC_AAC:
        return config->size > 0;
    default:
        return find(config->codec);
    }
}

/* The duration of a picture: H.264 counts fields. */
static uint32_t duration_of(uint32_t codec, const struct sps *sps) {
    uint64_t ticks = (uint64_t)sps->tick * (codec == SLUICE_CODEC_H264 ? 2 : 1);
    uint64_t duration = sps->scale ? (ticks * VIDEO_CLOCK + sps->scale / 2) / sps->scale : 0;
    return duration <= VIDEO_CLOCK ? (uint32_t)duration : 0;
}

/* The set's own number; an SPS is read whole, into @ret_sps. */
static int read_set(uint32_t codec, uint8_t type, const uint8_t *nal, size_t length, uint16_t *ret_id,
                    struct sps *ret_sps) {
    bool is_h265 = codec == SLUICE_CODEC_HEVC;
    if (type == (is_h265 ? H265_SPS : H264_SPS)) {
        int error = is_h265 ? sps_read_h265(nal, length, ret_sps) : sps_read_h264(nal, length, ret_sps);
        *ret_id = (uint16_t)ret_sps->id;
        return error;
    }
    struct rbsp r = {.at = nal + (is_h265 ? 2 : 1), .end = nal + length};
    uint32_t id = type == H265_VPS && is_h265 ? rbsp_u(&r, 4) : rbsp_ue(&r);
    if (r.over || id >= MOST_PPS)
        return -EPROTO;
    *ret_id = (uint16_t)id;
    return 0;
}

/* Takes the set at @at away; its bytes close up. */
static void remove_set(sluice_codec_config *config, size_t at) {
    sluice_codec_set set = config->sets[at];
    for (size_t i = set.offset + (size_t)set.length; i < config->size; i++)
        config->bytes[i - set.length] = config->bytes[i];
    config->size = (uint16_t)(config->size - set.length);
    config->set_count--;
    for (size_t i = at; i < config->set_count; i++)
        config->sets[i] = config->sets[i + 1];
    for (size_t i = 0; i < config->set_count; i++)
        if (config->sets[i].offset > set.offset)
            config->sets[i].offset = (uint16_t)(config->sets[i].offset - set.length);
}

/* Where sets of the type end. */
static size_t place_for(const sluice_codec_config *config, uint8_t type) {
    size_t place = config->set_count;
    while (place > 0 && config->sets[place - 1].type > type)
        place--;
    return place;
}

static bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n) {
    return n == 0 || memcmp(a, b, n) == 0;
}

int sluice_codec_add_set(sluice_codec_config *config, const uint8_t *nal, size_t length) {
    bool is_h265 = config->codec == SLUICE_CODEC_HEVC;
    if (!codec_is_video(config->codec) || length == 0)
        return -EINVAL;
    uint8_t type = rtp_nal_type(is_h265 ? SLUICE_RTP_H265 : SLUICE_RTP_H264, nal[0]);
    if (!codec_is_set(config->codec, type))
        return -EINVAL;
    if (length > SLUICE_CODEC_MAX_BYTES)
        return -EMSGSIZE;
    if (length < (is_h265 ? 3 : 2))
        return -EPROTO;
    struct sps sps = {0};
    uint16_t id;
    int error = read_set(config->codec, type, nal, length, &id, &sps);
    if (error)
        return error;

    size_t known = 0, freed = 0;
    while (known < config->set_count && (config->sets[known].type != type || config->sets[known].id != id))
        known++;
    if (known < config->set_count) {
        const sluice_codec_set *set = &config->sets[known];
        if (set->length == length && same_bytes(config->bytes + set->offset, nal, length))
            return 0;
        freed = set->length;
    } else if (known == SLUICE_CODEC_MAX_SETS) {
        return -EMSGSIZE;
    }
    if (config->size - freed + length > SLUICE_CODEC_MAX_BYTES)
        return -EMSGSIZE;
    if (known < config->set_count)
        remove_set(config, known);
    size_t place = place_for(config, type);
    for (size_t i = config->set_count++; i > place; i--)
        config->sets[i] = config->sets[i - 1];
    config->sets[place] = (sluice_codec_set){type, id, config->size, (uint16_t)length};
    for (size_t i = 0; i < length; i++)
        config->bytes[config->size++] = nal[i];
    if (type == (is_h265 ? H265_SPS : H264_SPS)) {
        config->width = sps.width;
        config->height = sps.height;
        config->reorder = sps.reorder;
        config->reorder_known = sps.reorder_known;
        config->frame_duration = duration_of(config->codec, &sps);
    }
    return 1;
}
