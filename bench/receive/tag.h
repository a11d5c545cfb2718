/* FLV for the baselines: as little as it takes to find the packets, and as strict as ours about
 * what a tag is. */
#ifndef BENCH_RECEIVE_TAG_H
#define BENCH_RECEIVE_TAG_H

#include <stdint.h>

enum {
    TAG_FILE_HEADER = 13, /* with the PreviousTagSize behind it */
    TAG_HEADER = 11,
    TAG_TRAILER = 4,
};

/* Checks the file header; ends the process when it is none. */
void tag_check_file_header(const uint8_t header[TAG_FILE_HEADER]);

/* The size of the payload, from a tag's header; ends the process when it cannot be one. */
uint32_t tag_payload_size(const uint8_t header[TAG_HEADER]);

#endif
