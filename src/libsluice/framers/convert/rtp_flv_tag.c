/* The payloads of FLV tags, put together by reference. */
#include <errno.h>

#include "framers/codec/codec.h"
#include "framers/convert/rtp_flv.h"
#include "framers/rtp/rtp_write.h"
#include "memory/chain.h"

enum {
    LENGTH_SIZE = 4,
    FRAME_KEY = 1,
    FRAME_INTER = 2,
    VIDEO_AVC = 7,
    AVC_SEQUENCE_HEADER = 0,
    AVC_NALUS = 1,
    EX_VIDEO = 0x80,
    EX_SEQUENCE_START = 0,
    EX_CODED_FRAMES = 1,
    AUDIO_PCMA = 0x70,
    AUDIO_PCMU = 0x80,
    AUDIO_EX = 0x90,
    AUDIO_AAC = 0xAF, /* with the flags that all AAC has */
    AUDIO_16_BIT = 2,
    AUDIO_STEREO = 1,
    AAC_SEQUENCE_HEADER = 0,
    AAC_RAW = 1,
};

/* A block for headers, all of which may be written. What was left of the one before is given up. */
static int refill(struct rtp_flv_builder *builder) {
    sluice_block *block;
    int error = sluice_block_get(builder->pool, &block);
    if (error)
        return error;
    sluice_block_release(builder->headers);
    sluice_block_set_length(block, sluice_block_capacity(block));
    builder->headers = block;
    builder->used = 0;
    return 0;
}

int rtp_flv_add_bytes(struct rtp_flv_builder *builder, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        int error = !builder->headers || builder->used == builder->headers->length ? refill(builder) : 0;
        if (error)
            return error;
        size_t here = builder->headers->length - builder->used;
        here = here < size ? here : size;
        /*
         * These bytes of the block are not referenced yet: they are behind all bytes taken from it.
         */
        uint8_t *to = builder->headers->data + builder->used;
        for (size_t i = 0; i < here; i++)
            to[i] = bytes[i];
        const sluice_slice slice = {
            .first = builder->headers, .last = builder->headers, .offset = builder->used, .length = here};
        error = sluice_chain_append_slice(builder->media, &slice);
        if (error)
            return error;
        builder->used += (uint32_t)here;
        bytes += here;
        size -= here;
    }
    return 0;
}

int rtp_flv_add_pieces(struct rtp_flv_builder *builder, const sluice_rtp_unit *unit, const sluice_rtp_nal *nal) {
    for (size_t i = nal->first; i < nal->first + (size_t)nal->count; i++) {
        int error = sluice_chain_append_slice(builder->media, &unit->pieces[i]);
        if (error)
            return error;
    }
    return 0;
}

int rtp_flv_add_picture(struct rtp_flv_builder *builder, uint32_t codec, const sluice_rtp_unit *unit) {
    for (size_t i = 0; i < unit->nal_count; i++) {
        const sluice_rtp_nal *nal = &unit->nals[i];
        uint8_t prefix[LENGTH_SIZE + sizeof nal->header];
        if (codec_is_set(codec, nal->type))
            continue;
        put_be32(prefix, (uint32_t)nal->length);
        for (size_t j = 0; j < nal->header_size; j++)
            prefix[LENGTH_SIZE + j] = nal->header[j];
        int error = rtp_flv_add_bytes(builder, prefix, LENGTH_SIZE + (size_t)nal->header_size);
        if (!error)
            error = rtp_flv_add_pieces(builder, unit, nal);
        if (error)
            return error;
    }
    return 0;
}

static uint8_t g711_header(const struct rtp_flv_config *config) {
    uint8_t format = config->codec == SLUICE_CODEC_PCMA ? AUDIO_PCMA : AUDIO_PCMU;
    return format | AUDIO_16_BIT | (config->channels == 2 ? AUDIO_STEREO : 0);
}

static void put_composition(uint8_t *to, int32_t composition) {
    to[0] = (uint8_t)((uint32_t)composition >> 16);
    to[1] = (uint8_t)((uint32_t)composition >> 8);
    to[2] = (uint8_t)composition;
}

size_t rtp_flv_frame_header(const struct rtp_flv_config *config, bool key, int32_t composition, uint8_t *to) {
    uint8_t frame = (uint8_t)((key ? FRAME_KEY : FRAME_INTER) << 4);
    switch (config->codec) {
    case SLUICE_CODEC_H264:
        to[0] = frame | VIDEO_AVC;
        to[1] = AVC_NALUS;
        put_composition(to + 2, composition);
        return 5;
    case SLUICE_CODEC_HEVC:
        to[0] = EX_VIDEO | frame | EX_CODED_FRAMES;
        put_be32(to + 1, config->codec);
        put_composition(to + 5, composition);
        return 8;
    case SLUICE_CODEC_AAC:
        to[0] = AUDIO_AAC;
        to[1] = AAC_RAW;
        return 2;
    case SLUICE_CODEC_OPUS:
        to[0] = AUDIO_EX | EX_CODED_FRAMES;
        put_be32(to + 1, config->codec);
        return 5;
    default:
        to[0] = g711_header(config);
        return 1;
    }
}

size_t rtp_flv_sequence_header(const struct rtp_flv_config *config, uint8_t *to) {
    switch (config->codec) {
    case SLUICE_CODEC_H264:
        to[0] = FRAME_KEY << 4 | VIDEO_AVC;
        to[1] = AVC_SEQUENCE_HEADER;
        put_composition(to + 2, 0);
        return 5;
    case SLUICE_CODEC_HEVC:
        to[0] = EX_VIDEO | FRAME_KEY << 4 | EX_SEQUENCE_START;
        put_be32(to + 1, config->codec);
        return 5;
    case SLUICE_CODEC_AAC:
        to[0] = AUDIO_AAC;
        to[1] = AAC_SEQUENCE_HEADER;
        return 2;
    default:
        to[0] = AUDIO_EX | EX_SEQUENCE_START;
        put_be32(to + 1, config->codec);
        return 5;
    }
}
