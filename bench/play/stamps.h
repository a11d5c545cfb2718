/* How long the tags of a stream took: the stamp that bench-send has set in each, against the time
 * when it is read. */
#ifndef BENCH_PLAY_STAMPS_H
#define BENCH_PLAY_STAMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/content.h"

/* Where one player is in its stream; zero at first. */
typedef struct stamp_reader {
    bool started;  /* the response's head and the file header are through */
    uint32_t have; /* bytes of a tag up to the end of its stamp */
    uint32_t skip; /* bytes to throw away before the next tag */
    uint64_t tags; /* that are whole as far as they are looked at */
    uint8_t tag[CONTENT_STAMP + sizeof(uint64_t)];
} stamp_reader;

/* Reads what there is. @return bytes; ends the process at the end of the stream and at errors */
uint64_t stamp_read(stamp_reader *reader, int fd);

/* Prints what all readers have found, as JSON fields, each with a comma before it; nothing when
 * there was none. */
void stamps_print(void);

#endif
