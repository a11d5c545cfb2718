#include "sim/media.h"

#include <string.h>

#include "sim/pattern.h"
#include "sim/world.h"

enum { FLV_AUDIO = 8, FLV_VIDEO = 9, NAME = 9 /* bytes */ };

static void put24(uint8_t *out, uint32_t value) {
    out[0] = (uint8_t)(value >> 16);
    out[1] = (uint8_t)(value >> 8);
    out[2] = (uint8_t)value;
}

static uint32_t get24(const uint8_t *in) {
    return (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
}

static void put32(uint8_t *out, uint32_t value) {
    *out = (uint8_t)(value >> 24);
    put24(out + 1, value);
}

static uint32_t get32(const uint8_t *in) {
    return (uint32_t)*in << 24 | get24(in + 1);
}

void media_write_header(uint8_t *out, bool has_video, bool has_audio) {
    memcpy(out, "FLV\1\0\0\0\0\11\0\0\0\0", MEDIA_HEADER);
    out[4] = (uint8_t)((has_audio ? 4 : 0) | (has_video ? 1 : 0));
}

/*
 * H.264 and AAC in form. What a decoder needs to know is followed by bytes that it does not look
 * at: in the picture's parameter set and the audio's, so that they come along wherever these are
 * told otherwise.
 */
static const uint8_t video_record[] = {0x17, 0, 0, 0,    0,    1,    0x42, 0xc0, 0x0a, 0xff,
                                       0xe1, 0, 8, 0x67, 0x42, 0xc0, 0x0a, 0xda, 0x0f, 0x0a,
                                       0x69, 1, 0, 4,    0x68, 0xce, 0x3c, 0x80};
static const uint8_t audio_record[] = {0xaf, 0, 0x12, 0x10};

/* What a decoder would look at. Its bytes. */
static size_t write_codec(uint8_t *out, const struct media_tag *tag) {
    static const uint8_t nal_types[] = {[MEDIA_KEY_FRAME] = 0x65, [MEDIA_VIDEO] = 0x41};
    switch (tag->kind) {
    case MEDIA_VIDEO_HEADER:
        memcpy(out, video_record, sizeof video_record);
        out[MEDIA_PPS - 1] = (uint8_t)(tag->size - MEDIA_PPS);
        return sizeof video_record;
    case MEDIA_AUDIO_HEADER:
        memcpy(out, audio_record, sizeof audio_record);
        return sizeof audio_record;
    case MEDIA_KEY_FRAME:
    case MEDIA_VIDEO:
        memcpy(out, "\x17\1\0\0\0", 5);
        out[0] = tag->kind == MEDIA_KEY_FRAME ? 0x17 : 0x27;
        put32(out + 5, tag->size - MEDIA_BEFORE_NAL);
        out[MEDIA_BEFORE_NAL] = nal_types[tag->kind];
        return MEDIA_BEFORE_NAL + 1;
    case MEDIA_AUDIO:
        memcpy(out, "\xaf\1", MEDIA_BEFORE_AUDIO);
        return MEDIA_BEFORE_AUDIO;
    }
    return 0;
}

/* Where the name is. */
static size_t name_place(uint8_t type, const uint8_t *payload) {
    if (type == FLV_AUDIO)
        return payload[1] == 0 ? sizeof audio_record : MEDIA_BEFORE_AUDIO;
    return payload[1] == 0 ? sizeof video_record : MEDIA_BEFORE_NAL + 1;
}

static void write_name(uint8_t *out, const struct media_tag *tag) {
    out[0] = 'S';
    out[1] = (uint8_t)tag->kind;
    out[2] = tag->stream;
    out[3] = (uint8_t)(tag->generation >> 8);
    out[4] = (uint8_t)tag->generation;
    put32(out + 5, tag->number);
}

static void read_name(const uint8_t *name, uint32_t size, const char *who, struct media_tag *ret_tag) {
    WORLD_CHECK(name[0] == 'S' && name[1] <= MEDIA_AUDIO, "%s: a payload that nobody made", who);
    *ret_tag = (struct media_tag){
        .kind = name[1],
        .stream = name[2],
        .generation = (uint16_t)(name[3] << 8 | name[4]),
        .number = get32(name + 5),
        .size = size,
    };
}

static uint32_t fill_of(const struct media_tag *tag) {
    return (tag->number * 2654435761U) ^ (uint32_t)tag->stream << 24 ^ (uint32_t)tag->generation << 8 ^ tag->kind ^
           tag->size;
}

static void write_payload(uint8_t *out, const struct media_tag *tag) {
    size_t at = write_codec(out, tag);
    write_name(out + at, tag);
    at += NAME;
    pattern_write(fill_of(tag), 0, out + at, tag->size - at);
}

void media_write_tag(uint8_t *out, const struct media_tag *tag) {
    bool is_audio = tag->kind == MEDIA_AUDIO || tag->kind == MEDIA_AUDIO_HEADER;
    out[0] = is_audio ? FLV_AUDIO : FLV_VIDEO;
    put24(out + 1, tag->size);
    put24(out + 4, tag->timestamp);
    out[7] = (uint8_t)(tag->timestamp >> 24);
    put24(out + 8, 0);
    write_payload(out + MEDIA_TAG_HEADER, tag);
    put32(out + MEDIA_TAG_HEADER + tag->size, tag->size + MEDIA_TAG_HEADER);
}

size_t media_read_tag(const uint8_t *bytes, size_t n, const char *who, struct media_tag *ret_tag) {
    static uint8_t expected[MEDIA_MOST];
    if (n < MEDIA_AROUND)
        return 0;
    uint32_t size = get24(bytes + 1);
    WORLD_CHECK((bytes[0] == FLV_AUDIO || bytes[0] == FLV_VIDEO) && size >= MEDIA_LEAST && size <= MEDIA_MOST,
                "%s: a tag of type %u with %u bytes", who, bytes[0], size);
    if (n < size + MEDIA_AROUND)
        return 0;
    const uint8_t *payload = bytes + MEDIA_TAG_HEADER;
    read_name(payload + name_place(bytes[0], payload), size, who, ret_tag);
    ret_tag->timestamp = get24(bytes + 4) | (uint32_t)bytes[7] << 24;
    write_payload(expected, ret_tag);
    WORLD_CHECK(memcmp(payload, expected, size) == 0, "%s: frame %u is not as it was published", who, ret_tag->number);
    WORLD_CHECK(get32(payload + size) == size + MEDIA_TAG_HEADER, "%s: the trailer of frame %u is wrong", who,
                ret_tag->number);
    return size + MEDIA_AROUND;
}

void media_read_frame(const uint8_t *name, size_t n, uint32_t before, const char *who, struct media_tag *ret_tag) {
    WORLD_CHECK(n >= NAME, "%s: a frame of %zu bytes", who, n);
    read_name(name, before + (uint32_t)n, who, ret_tag);
    WORLD_CHECK(pattern_check(fill_of(ret_tag), 0, name + NAME, n - NAME) == n - NAME,
                "%s: frame %u is not as it was published", who, ret_tag->number);
}
