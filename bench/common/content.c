#include "common/content.h"

#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "common/process.h"

enum { ENOUGH = 1 << 20, FEWEST_TAGS = 16, HEADER = CONTENT_TAG_HEADER, VIDEO = 9, FRAME_MS = 33 };

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

uint64_t content_checksum(const content *made, uint64_t packets) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < packets; i++)
        sum += packet_checksum(made->bytes + i % made->tags * made->tag_size + HEADER, made->payload, i);
    return sum;
}
