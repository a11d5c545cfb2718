/* The parameters of SDP's fmtp: RFC 6184, 8.1; RFC 7798, 7.1; RFC 3640, 4.1; RFC 6416, 7.3; RFC
 * 7587, 6.1. */
#include <errno.h>
#include <stdio.h>

#include "abi/sized.h"
#include "framers/codec/codec.h"
#include "framers/http/http_header.h"
#include "framers/http/http_text.h"
#include "framers/text/base64.h"

/* Parameter sets in base64, with commas between. */
static int read_sprop(sluice_codec_config *config, sluice_http_text value) {
    while (value.length > 0) {
        uint8_t nal[SLUICE_CODEC_MAX_BYTES + 2];
        sluice_http_text one = text_trimmed(text_split(&value, ','));
        if (one.length > BASE64_SIZE(SLUICE_CODEC_MAX_BYTES))
            return -EMSGSIZE;
        ssize_t length = base64_decode(one.text, one.length, nal);
        if (length > 0 && sluice_codec_add_set(config, nal, (size_t)length) == -EMSGSIZE)
            return -EMSGSIZE;
    }
    return 0;
}

static int hex_digit(uint8_t c) {
    uint8_t lower = http_lower(c);
    if (c >= '0' && c <= '9')
        return c - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static int read_config(sluice_codec_config *config, sluice_http_text value, bool latm) {
    uint8_t bytes[SLUICE_CODEC_MAX_BYTES];
    if (value.length / 2 > sizeof bytes)
        return -EMSGSIZE;
    if (value.length % 2)
        return -EPROTO;
    for (size_t i = 0; i < value.length; i += 2) {
        int high = hex_digit((uint8_t)value.text[i]), low = hex_digit((uint8_t)value.text[i + 1]);
        if (high < 0 || low < 0)
            return -EPROTO;
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    return latm ? codec_take_latm(config, bytes, value.length / 2) : codec_take_aac(config, bytes, value.length / 2);
}

/* Up to 65,535; -EPROTO */
static int read_number(sluice_http_text value) {
    uint64_t number;
    return http_parse_number(value, UINT16_MAX, &number) ? -EPROTO : (int)number;
}

static int read_length(sluice_http_text value, int most, uint8_t *ret_length) {
    int number = read_number(value);
    if (number < 0 || number > most)
        return -EPROTO;
    *ret_length = (uint8_t)number;
    return 0;
}

/* A packetization that is not read unless it is 0 (or, for a mode, at most @most). */
static int refuse_above(sluice_http_text value, int most) {
    int number = read_number(value);
    return number < 0 ? number : number > most ? -EOPNOTSUPP : 0;
}

static int read_video(sluice_codec_config *config, sluice_http_text name, sluice_http_text value) {
    if (config->codec == SLUICE_CODEC_H264) {
        if (text_folds_to(name, "sprop-parameter-sets"))
            return read_sprop(config, value);
        return text_folds_to(name, "packetization-mode") ? refuse_above(value, 1) : 0;
    }
    if (text_folds_to(name, "sprop-vps") || text_folds_to(name, "sprop-sps") || text_folds_to(name, "sprop-pps"))
        return read_sprop(config, value);
    if (text_folds_to(name, "sprop-max-don-diff") || text_folds_to(name, "sprop-depack-buf-nalus"))
        return refuse_above(value, 0);
    return 0;
}

static int read_aac(sluice_codec_config *config, sluice_http_text name, sluice_http_text value,
                    sluice_rtp_unpacker_options *options) {
    if (text_folds_to(name, "config"))
        return read_config(config, value, false);
    if (text_folds_to(name, "sizelength"))
        return read_length(value, 16, &options->size_length);
    if (text_folds_to(name, "indexlength"))
        return read_length(value, 8, &options->index_length);
    if (text_folds_to(name, "indexdeltalength"))
        return read_length(value, 8, &options->index_delta_length);
    if (text_folds_to(name, "constantsize") || text_folds_to(name, "maxdisplacement"))
        return refuse_above(value, 0);
    return 0;
}

/* Without a cpresent=0, the configuration is in band, where it is not read. */
static int read_latm(sluice_codec_config *config, sluice_http_text name, sluice_http_text value, bool *in_band) {
    if (text_folds_to(name, "config"))
        return read_config(config, value, true);
    if (text_folds_to(name, "cpresent")) {
        int number = read_number(value);
        *in_band = number != 0;
        return number < 0 ? number : 0;
    }
    return 0;
}

int sluice_codec_read_fmtp(sluice_codec_config *config, sluice_http_text fmtp, sluice_rtp_unpacker_options *options) {
    sluice_rtp_unpacker_options read;
    if (SIZED_READ(&read, options) < 0)
        return -EINVAL;
    bool in_band = config->codec == SLUICE_CODEC_AAC && read.latm, has_config = false;
    while (fmtp.length > 0) {
        sluice_http_text value = text_split(&fmtp, ';');
        sluice_http_text name = text_trimmed(text_split(&value, '='));
        int error = 0;
        value = text_trimmed(value);
        bool is_config = text_folds_to(name, "config"), is_again = is_config && has_config;
        has_config |= is_config;
        /* Of several configurations the first counts; half of one and half of another is none. */
        if (codec_is_video(config->codec))
            error = read_video(config, name, value);
        else if (is_again)
            continue;
        else if (config->codec == SLUICE_CODEC_AAC && read.latm)
            error = read_latm(config, name, value, &in_band);
        else if (config->codec == SLUICE_CODEC_AAC)
            error = read_aac(config, name, value, &read);
        if (error)
            return error;
    }
    bool has_lengths = config->codec == SLUICE_CODEC_AAC && read.size_length > 0;
    if (in_band ||
        (has_lengths && !sluice_rtp_aac_lengths_are_used(read.size_length, read.index_length, read.index_delta_length)))
        return -EOPNOTSUPP;
    if (config->codec == SLUICE_CODEC_AAC)
        read.frame_duration = config->frame_duration;
    return options ? SIZED_WRITE(options, &read) : 0;
}

/* Text with room for a NUL behind it. */
struct text {
    char *buffer;
    size_t size, length;
    bool full;
};

static void add_text(struct text *text, const char *from) {
    size_t length = strlen(from);
    if (text->full || length >= text->size - text->length) {
        text->full = true;
        return;
    }
    for (size_t i = 0; i <= length; i++)
        text->buffer[text->length + i] = from[i];
    text->length += length;
}

/* The sets of a type, or of all, in base64. */
static void add_sets(struct text *text, const sluice_codec_config *config, const char *name, int type) {
    bool is_first = true;
    for (size_t i = 0; i < config->set_count; i++) {
        const sluice_codec_set *set = &config->sets[i];
        char base64[BASE64_SIZE(SLUICE_CODEC_MAX_BYTES) + 1];
        if (type && set->type != type)
            continue;
        base64_encode(config->bytes + set->offset, set->length, base64);
        base64[BASE64_SIZE((size_t)set->length)] = '\0';
        add_text(text, is_first ? name : ",");
        add_text(text, base64);
        is_first = false;
    }
}

static void add_h264(struct text *text, const sluice_codec_config *config) {
    char level[32] = "";
    for (size_t i = 0; i < config->set_count && !level[0]; i++) {
        const uint8_t *bytes = config->bytes + config->sets[i].offset;
        if (config->sets[i].type == H264_SPS)
            snprintf(level, sizeof level, "; profile-level-id=%02X%02X%02X", bytes[1], bytes[2], bytes[3]);
    }
    add_text(text, "packetization-mode=1");
    add_sets(text, config, "; sprop-parameter-sets=", 0);
    add_text(text, level);
}

static void add_aac(struct text *text, const sluice_codec_config *config) {
    add_text(text, "profile-level-id=1; mode=AAC-hbr; sizelength=13; indexlength=3; indexdeltalength=3");
    add_text(text, config->size ? "; config=" : "");
    for (size_t i = 0; i < config->size; i++) {
        char hex[3];
        snprintf(hex, sizeof hex, "%02X", config->bytes[i]);
        add_text(text, hex);
    }
}

int sluice_codec_write_fmtp(const sluice_codec_config *config, char *buffer, size_t size) {
    struct text text = {buffer, size, 0, size == 0};
    add_text(&text, "");
    switch (config->codec) {
    case SLUICE_CODEC_H264:
        add_h264(&text, config);
        break;
    case SLUICE_CODEC_HEVC:
        add_sets(&text, config, "sprop-vps=", H265_VPS);
        add_sets(&text, config, text.length ? "; sprop-sps=" : "sprop-sps=", H265_SPS);
        add_sets(&text, config, text.length ? "; sprop-pps=" : "sprop-pps=", H265_PPS);
        break;
    case SLUICE_CODEC_AAC:
        add_aac(&text, config);
        break;
    case SLUICE_CODEC_OPUS:
        add_text(&text, config->channels == 1 ? "" : "sprop-stereo=1");
        break;
    default:
        break;
    }
    return text.full ? -EMSGSIZE : (int)text.length;
}
