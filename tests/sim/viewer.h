/* Watches a sequence of tags: each must be whole and as it was published, in order, and what is
 * missing marked. */
#ifndef SLUICE_TESTS_SIM_VIEWER_H
#define SLUICE_TESTS_SIM_VIEWER_H

#include "sim/media.h"

struct viewer {
    const char *who;
    uint8_t stream;
    bool has_video;
    bool takes_any_start; /* video may begin before a key frame */
    bool takes_gaps;      /* and counts them */
    uint8_t *bytes;       /* not read yet */
    size_t count, room;
    bool has_file_header;
    bool has_key;                  /* since the beginning */
    uint16_t header_generation[2]; /* of the last decoder's header of each kind: its publisher */
    uint32_t header_number[2];     /* and the frame behind it; 0: there was none */
    bool has_frame;
    uint16_t generation; /* of the last frame */
    uint32_t number;
    uint32_t timestamp;
    uint64_t seen; /* publishers, a bit for each */
    uint32_t frames, gaps;
};

void viewer_feed(struct viewer *viewer, const uint8_t *bytes, size_t n);

/* The same with one that was read otherwise. */
void viewer_see(struct viewer *viewer, const struct media_tag *tag);

/* Bytes of a tag that is not whole. */
size_t viewer_left(const struct viewer *viewer);
void viewer_clear(struct viewer *viewer);

#endif
