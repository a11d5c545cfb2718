/* The StreamMuxConfig of MP4A-LATM: ISO/IEC 14496-3, 1.7.3.1; what is in it of an
 * AudioSpecificConfig, 1.6.2.1. */
#include <errno.h>

#include "framers/codec/codec.h"

enum {
    AAC_MAIN = 1,
    AAC_LTP = 4, /* and AAC-LC and AAC-SSR between */
    AAC_SBR = 5,
    AAC_PS = 29,
    EXPLICIT_RATE = 15,
    SYNC_SBR = 0x2B7,
    SYNC_PS = 0x548,
};

/* Beyond the end are zeros: GStreamer leaves out what follows the AudioSpecificConfig. */
struct bits {
    const uint8_t *bytes;
    size_t count, at;
};

static uint32_t take(struct bits *bits, unsigned n) {
    uint32_t value = 0;
    for (; n > 0; n--, bits->at++)
        value = value << 1 | (bits->at < bits->count ? bits->bytes[bits->at / 8] >> (7 - bits->at % 8) & 1U : 0);
    return value;
}

static bool next_is(const struct bits *bits, unsigned n, uint32_t value) {
    struct bits ahead = *bits;
    return take(&ahead, n) == value;
}

static void skip_rate(struct bits *bits) {
    if (take(bits, 4) == EXPLICIT_RATE)
        take(bits, 24);
}

/* The SBR signalling after a configuration that is complete without it. */
static void skip_extension(struct bits *bits) {
    if (!next_is(bits, 11, SYNC_SBR))
        return;
    take(bits, 11);
    if (take(bits, 5) != AAC_SBR || take(bits, 1) == 0)
        return;
    skip_rate(bits);
    if (next_is(bits, 11, SYNC_PS))
        take(bits, 12);
}

/* The length of an AudioSpecificConfig is known only from its end. */
static int skip_config(struct bits *bits) {
    uint32_t type = take(bits, 5);
    skip_rate(bits);
    uint32_t layout = take(bits, 4);
    if (type == AAC_SBR || type == AAC_PS) {
        skip_rate(bits);
        type = take(bits, 5);
    }
    take(bits, 1);
    bool core = take(bits, 1);
    if (core)
        take(bits, 14);
    bool extended = take(bits, 1);
    if (bits->at > bits->count)
        return -EPROTO;
    /* Other objects, and channels that a program config element lays out, are not read. */
    if (type < AAC_MAIN || type > AAC_LTP || layout == 0 || extended)
        return -EOPNOTSUPP;
    skip_extension(bits);
    return bits->at > bits->count ? -EPROTO : 0;
}

int codec_take_latm(sluice_codec_config *config, const uint8_t *bytes, size_t size) {
    struct bits bits = {.bytes = bytes, .count = 8 * size};
    uint8_t own[SLUICE_CODEC_MAX_BYTES];
    size_t own_size = 0;
    if (size > sizeof own)
        return -EMSGSIZE;
    uint32_t version = take(&bits, 1), same_timing = take(&bits, 1), more_frames = take(&bits, 6);
    uint32_t more_programs = take(&bits, 4), more_layers = take(&bits, 3);
    if (bits.at > bits.count)
        return -EPROTO;
    if (version || !same_timing || more_frames || more_programs || more_layers)
        return -EOPNOTSUPP;
    struct bits from = bits;
    int error = skip_config(&bits);
    if (error)
        return error;
    /* Only frames with explicit lengths, and no other data. */
    size_t end = bits.at;
    uint32_t length_type = take(&bits, 3);
    take(&bits, 8);
    uint32_t other_data = take(&bits, 1);
    if (length_type || other_data)
        return -EOPNOTSUPP;
    for (from.count = end; from.at < end;)
        own[own_size++] = (uint8_t)take(&from, 8);
    return codec_take_aac(config, own, own_size);
}
