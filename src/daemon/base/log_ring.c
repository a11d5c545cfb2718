#include "daemon/base/log_ring.h"

#include <stdint.h>
#include <string.h>

/* A line is its length, as uint16_t, and its bytes. Both may go on at the beginning of the
 * array. */

static void write_at(struct log_ring *ring, size_t at, const void *bytes, size_t n) {
    size_t start = at % LOG_RING_BYTES, part = LOG_RING_BYTES - start;
    part = n < part ? n : part;
    memcpy(ring->bytes + start, bytes, part);
    memcpy(ring->bytes, (const char *)bytes + part, n - part);
}

static void read_at(const struct log_ring *ring, size_t at, void *bytes, size_t n) {
    size_t start = at % LOG_RING_BYTES, part = LOG_RING_BYTES - start;
    part = n < part ? n : part;
    memcpy(bytes, ring->bytes + start, part);
    memcpy((char *)bytes + part, ring->bytes, n - part);
}

bool log_ring_put(struct log_ring *ring, const char *text, size_t length) {
    const uint16_t size = (uint16_t)length;
    if (sizeof size + length > LOG_RING_BYTES - ring->used)
        return false;
    write_at(ring, ring->first + ring->used, &size, sizeof size);
    write_at(ring, ring->first + ring->used + sizeof size, text, length);
    ring->used += sizeof size + length;
    ring->lines++;
    return true;
}

size_t log_ring_take(struct log_ring *ring, char *buffer, size_t size, size_t *ret_lines) {
    size_t taken = 0, lines = 0;
    uint16_t length;
    for (; ring->used > 0; lines++) {
        read_at(ring, ring->first, &length, sizeof length);
        if (length > size - taken)
            break;
        read_at(ring, ring->first + sizeof length, buffer + taken, length);
        taken += length;
        ring->first = (ring->first + sizeof length + length) % LOG_RING_BYTES;
        ring->used -= sizeof length + length;
    }
    ring->lines -= lines;
    *ret_lines = lines;
    return taken;
}
