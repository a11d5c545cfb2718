#include "sim/media.h"

#include <string.h>

#include "sim/pattern.h"
#include "sim/world.h"

enum { FLV_AUDIO = 8, FLV_VIDEO = 9, NAME = 14 /* bytes at a payload's front */ };

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

/* What a decoder would look at, then which tag it is. */
static void write_name(uint8_t *out, const struct media_tag *tag) {
    static const uint8_t codecs[][5] = {
        [MEDIA_VIDEO_HEADER] = {0x17, 0, 0, 0, 0}, [MEDIA_AUDIO_HEADER] = {0xaf, 0, 0x12, 0x10, 0},
        [MEDIA_KEY_FRAME] = {0x17, 1, 0, 0, 0},    [MEDIA_VIDEO] = {0x27, 1, 0, 0, 0},
        [MEDIA_AUDIO] = {0xaf, 1, 0, 0, 0},
    };
    memcpy(out, codecs[tag->kind], 5);
    out[5] = 'S';
    out[6] = (uint8_t)tag->kind;
    out[7] = tag->stream;
    out[8] = (uint8_t)(tag->generation >> 8);
    out[9] = (uint8_t)tag->generation;
    put32(out + 10, tag->number);
}

static uint32_t fill_of(const struct media_tag *tag) {
    return (tag->number * 2654435761U) ^ (uint32_t)tag->stream << 24 ^ (uint32_t)tag->generation << 8 ^ tag->kind ^
           tag->size;
}

static void write_payload(uint8_t *out, const struct media_tag *tag) {
    write_name(out, tag);
    pattern_write(fill_of(tag), 0, out + NAME, tag->size - NAME);
}

void media_write_tag(uint8_t *out, const struct media_tag *tag) {
    bool is_audio = tag->kind == MEDIA_AUDIO || tag->kind == MEDIA_AUDIO_HEADER;
    out[0] = is_audio ? FLV_AUDIO : FLV_VIDEO;
    put24(out + 1, tag->size);
    put24(out + 4, tag->timestamp);
    out[7] = (uint8_t)(tag->timestamp >> 24);
    put24(out + 8, 0);
    write_payload(out + 11, tag);
    put32(out + 11 + tag->size, tag->size + 11);
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
    const uint8_t *name = bytes + 11;
    *ret_tag = (struct media_tag){
        .kind = name[6],
        .stream = name[7],
        .generation = (uint16_t)(name[8] << 8 | name[9]),
        .number = get32(name + 10),
        .size = size,
        .timestamp = get24(bytes + 4) | (uint32_t)bytes[7] << 24,
    };
    WORLD_CHECK(name[5] == 'S' && name[6] <= MEDIA_AUDIO, "%s: a payload that nobody made", who);
    write_payload(expected, ret_tag);
    WORLD_CHECK(memcmp(name, expected, size) == 0, "%s: frame %u is not as it was published", who, ret_tag->number);
    WORLD_CHECK(get32(name + size) == size + 11, "%s: the trailer of frame %u is wrong", who, ret_tag->number);
    return size + MEDIA_AROUND;
}
