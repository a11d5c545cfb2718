/* What is sent: FLV streams that a seed determines. All streams of a run are the same, or are parts
 * of the same. */
#ifndef BENCH_COMMON_CONTENT_H
#define BENCH_COMMON_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/media.h"

enum {
    CONTENT_FILE_HEADER = 13,
    CONTENT_TAG_HEADER = 11,
    CONTENT_AROUND_PAYLOAD = 15,
};

/* Some tags of one size, made once and sent again and again; or all tags of a real stream. */
typedef struct content {
    uint8_t *bytes;    /* the tags, and as much of their beginning again as one write may take */
    size_t length;     /* of the tags */
    uint32_t tags;     /* how many */
    uint32_t payload;  /* bytes of each one's payload */
    uint32_t tag_size; /* with header and trailer */
    uint64_t *ends;    /* of a real stream: where each tag is over; else NULL */
} content;

/* The file header, which every stream begins with. */
extern const uint8_t content_file_header[CONTENT_FILE_HEADER];

/* @param most_write the largest piece that will be asked for */
void content_make(content *made, uint32_t payload, size_t most_write, uint64_t seed);

/* A tag for each frame, without the decoders' configurations. */
void content_make_media(content *made, const media *of);

/* Where the tag of this number begins, from 0: bytes behind the file header. */
static inline uint64_t content_begin(const content *made, uint64_t tag) {
    if (!made->ends)
        return tag * made->tag_size;
    return tag > 0 ? made->ends[tag - 1] : 0;
}

/* The bytes from a place in the stream on, counted from behind the file header: at least most_write
 * of them; of a real stream up to its end. */
static inline const uint8_t *content_at(const content *made, uint64_t place) {
    return made->bytes + place % made->length;
}

/* What a receiver of so many packets in one stream must find, which begins with this tag. */
uint64_t content_checksum(const content *made, uint64_t first, uint64_t packets);

/* The next number of a sequence that its state determines. */
uint64_t content_random(uint64_t *state);

#endif
