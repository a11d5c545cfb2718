/*
 * A bounded queue of bytes for log lines: a line is queued whole or not at all, and leaves whole.
 * It has no lock of its own.
 */
#ifndef SLUICED_LOG_RING_H
#define SLUICED_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>

enum {
    LOG_RING_BYTES = 256 << 10, /* lines of 1 KiB at most, usually about 100 bytes: some 2500 */
    LOG_RING_LINE = 2048,       /* longest line */
};

/* All zero at the beginning. */
struct log_ring {
    size_t first; /* where the oldest line begins */
    size_t used;  /* bytes, with the lengths of the lines */
    size_t lines;
    char bytes[LOG_RING_BYTES];
};

/* False if there is no room. @length: 1 to LOG_RING_LINE */
bool log_ring_put(struct log_ring *ring, const char *text, size_t length);

/*
 * Takes as many whole lines as fit into the buffer, oldest first. Bytes; 0 if the ring is empty.
 * @size: at least LOG_RING_LINE
 */
size_t log_ring_take(struct log_ring *ring, char *buffer, size_t size, size_t *ret_lines);

#endif
