/* Tags of FLV that say which they are, and whose every byte follows from that: what arrives is
 * compared with it. */
#ifndef SLUICE_TESTS_SIM_MEDIA_H
#define SLUICE_TESTS_SIM_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum media_kind { MEDIA_VIDEO_HEADER, MEDIA_AUDIO_HEADER, MEDIA_KEY_FRAME, MEDIA_VIDEO, MEDIA_AUDIO };

enum {
    MEDIA_HEADER = 13,
    MEDIA_AROUND = 15,
    MEDIA_LEAST = 48, /* of a payload */
    MEDIA_MOST = 40000,
    MEDIA_MOST_AUDIO = 8000, /* what AAC in RTP can say is hardly more */
    MEDIA_BEFORE_NAL = 9,    /* bytes of a video payload: FLV's own, and a length */
    MEDIA_BEFORE_AUDIO = 2,
    MEDIA_SPS = 13, /* place in a video header's payload */
    MEDIA_SPS_SIZE = 8,
    MEDIA_PPS = 24, /* the same, and the payload's rest is it */
    MEDIA_TAG_HEADER = 11,
};

struct media_tag {
    enum media_kind kind;
    uint8_t stream;
    uint16_t generation; /* of the stream's publishers */
    uint32_t number;     /* of the frame, from 1 on; of a header that of the frame behind it */
    uint32_t size;       /* payload, MEDIA_LEAST to MEDIA_MOST */
    uint32_t timestamp;
};

/* The file header and the empty trailer behind it. MEDIA_HEADER bytes. */
void media_write_header(uint8_t *out, bool has_video, bool has_audio);

/* The tag with its header and trailer. size + MEDIA_AROUND bytes. */
void media_write_tag(uint8_t *out, const struct media_tag *tag);

/* Reads a tag from the front: its bytes in all; 0 when it is not whole. Fails where any byte is not
 * as it was made. */
size_t media_read_tag(const uint8_t *bytes, size_t n, const char *who, struct media_tag *ret_tag);

/* Reads a frame from its name on, before which the payload had that many bytes, and all of which
 * there is. */
void media_read_frame(const uint8_t *name, size_t n, uint32_t before, const char *who, struct media_tag *ret_tag);

static inline bool media_is_header(const struct media_tag *tag) {
    return tag->kind <= MEDIA_AUDIO_HEADER;
}

#endif
