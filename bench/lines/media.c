#include "lines/media.h"

#include <string.h>

struct media media_of(uint64_t index, uint64_t count) {
    return (struct media){.shift_ms = index * (1000 * GROUP_FRAMES / VIDEO_RATE) / count};
}

bool media_is_due(const struct media *media, bool is_video, uint64_t now_ms) {
    uint64_t frames = is_video ? media->video : media->audio;
    return frames * 1000 <= (now_ms + media->shift_ms) * (is_video ? VIDEO_RATE : AUDIO_RATE);
}

/* A tag whose payload begins with these bytes; its length. */
static size_t write_tag(uint8_t *to, sluice_flv_type type, uint32_t time, const uint8_t *begin, size_t size) {
    sluice_flv_write_tag_header(to, type, (uint32_t)size, time);
    memcpy(to + SLUICE_FLV_TAG_HEADER_SIZE, begin, 5);
    sluice_flv_write_trailer(to + SLUICE_FLV_TAG_HEADER_SIZE + size, (uint32_t)size);
    return SLUICE_FLV_TAG_HEADER_SIZE + size + SLUICE_FLV_TRAILER_SIZE;
}

size_t media_write(struct media *media, bool is_video, uint8_t to[MEDIA_TAG]) {
    static const uint8_t key[5] = {0x17, 1}, inter[5] = {0x27, 1}, audio[5] = {0xaf, 1};
    uint64_t number = is_video ? media->video++ : media->audio++;
    uint32_t time = (uint32_t)(number * 1000 / (is_video ? VIDEO_RATE : AUDIO_RATE));
    bool is_key = number % GROUP_FRAMES == 0;
    if (!is_video)
        return write_tag(to, SLUICE_FLV_AUDIO, time, audio, AUDIO_FRAME);
    return write_tag(to, SLUICE_FLV_VIDEO, time, is_key ? key : inter, is_key ? KEY_FRAME : VIDEO_FRAME);
}
