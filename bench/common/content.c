#include "common/content.h"

#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "common/process.h"

enum {
    ENOUGH = 1 << 20,
    FEWEST_TAGS = 16,
    HEADER = CONTENT_TAG_HEADER,
    AUDIO = 8,
    VIDEO = 9,
    FRAME_MS = 33,
    VIDEO_HEAD = 9, /* before a NAL unit: the codec's bytes, and its length */
    AUDIO_HEAD = 2,
};

const uint8_t content_file_header[CONTENT_FILE_HEADER] = {'F', 'L', 'V', 1, 1, 0, 0, 0, 9, 0, 0, 0, 0};

uint64_t content_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

static void write_be(uint8_t *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static void write_tag(uint8_t *tag, uint32_t payload, uint32_t timestamp, uint64_t *random) {
    /* H.264, and a key frame, so that a player can start with any. */
    static const uint8_t key_frame[] = {0x17, 1, 0, 0, 0};
    memset(tag, 0, HEADER);
    tag[0] = VIDEO;
    write_be(tag + 1, payload, 3);
    write_be(tag + 4, timestamp, 3);
    for (uint32_t at = 0; at < payload; at += 8) {
        uint64_t word = content_random(random);
        memcpy(tag + HEADER + at, &word, payload - at < 8 ? payload - at : 8);
    }
    memcpy(tag + HEADER, key_frame, sizeof key_frame);
    write_be(tag + HEADER + payload, HEADER + payload, 4);
}

void content_make(content *made, uint32_t payload, size_t most_write, uint64_t seed) {
    made->ends = NULL;
    made->payload = payload;
    made->tag_size = payload + CONTENT_AROUND_PAYLOAD;
    made->tags = ENOUGH / made->tag_size;
    if (made->tags < FEWEST_TAGS)
        made->tags = FEWEST_TAGS;
    made->length = (size_t)made->tags * made->tag_size;
    made->bytes = malloc(made->length + most_write);
    if (!made->bytes)
        fail(EXIT_FAILURE, "no memory for the content");
    for (uint32_t i = 0; i < made->tags; i++)
        write_tag(made->bytes + (size_t)i * made->tag_size, payload, i * FRAME_MS, &seed);
    for (size_t i = 0; i < most_write; i++)
        made->bytes[made->length + i] = made->bytes[i % made->length];
}

static uint32_t payload_of(const media_frame *frame) {
    return frame->size + (frame->track == MEDIA_VIDEO ? VIDEO_HEAD : AUDIO_HEAD);
}

static void write_frame(uint8_t *tag, const media_frame *frame) {
    uint32_t payload = payload_of(frame);
    uint8_t *to = tag + HEADER;
    memset(tag, 0, HEADER + VIDEO_HEAD);
    tag[0] = frame->track == MEDIA_VIDEO ? VIDEO : AUDIO;
    write_be(tag + 1, payload, 3);
    write_be(tag + 4, (uint32_t)(frame->at_ns / 1000000), 3);
    to[0] = frame->track == MEDIA_AUDIO ? 0xAF : media_is_key(frame) ? 0x17 : 0x27;
    to[1] = 1;
    if (frame->track == MEDIA_VIDEO) {
        write_be(to + 5, frame->size, 4);
        to[VIDEO_HEAD] = frame->nal;
        memcpy(to + VIDEO_HEAD + 1, frame->at, frame->size - 1);
    } else {
        memcpy(to + AUDIO_HEAD, frame->at, frame->size);
    }
    write_be(to + payload, HEADER + payload, 4);
}

void content_make_media(content *made, const media *of) {
    uint64_t end = 0;
    *made = (content){.tags = of->count, .ends = calloc(of->count, sizeof *made->ends)};
    for (uint32_t i = 0; made->ends && i < of->count; i++)
        made->ends[i] = end += payload_of(&of->frames[i]) + CONTENT_AROUND_PAYLOAD;
    made->length = end;
    made->bytes = malloc(end);
    if (!made->bytes || !made->ends)
        fail(EXIT_FAILURE, "no memory for the content");
    for (uint32_t i = 0; i < of->count; i++)
        write_frame(made->bytes + content_begin(made, i), &of->frames[i]);
}

uint64_t content_checksum(const content *made, uint64_t first, uint64_t packets) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < packets; i++) {
        uint64_t tag = made->ends ? first + i : i % made->tags, begin = content_begin(made, tag);
        uint32_t payload = made->payload;
        if (made->ends)
            payload = (uint32_t)(made->ends[tag] - begin) - CONTENT_AROUND_PAYLOAD;
        sum += packet_checksum(made->bytes + begin + HEADER, payload, i);
    }
    return sum;
}
