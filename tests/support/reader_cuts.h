/* Chains whose bytes are cut in given places, for the cursor and the reader. */
#ifndef SLUICE_TESTS_SUPPORT_READER_CUTS_H
#define SLUICE_TESTS_SUPPORT_READER_CUTS_H

#include <sluice/reader.h>

#include <errno.h>
#include <stdlib.h>

#include "support/chain_rig.h"
#include "support/feed.h"

enum { BYTES = 20 };

static const uint8_t bytes[BYTES] = {0x80, 0x01, 0xfe, 0x7f, 0xff, 0x00, 0x12, 0x34, 0x56, 0x78,
                                     0x9a, 0xbc, 0xde, 0xf0, 0x0f, 0xc3, 0x5a, 0xa5, 0x81, 0x18};

static inline sluice_reader *new_reader(sluice_chain *chain) {
    sluice_reader *reader;
    assert_int_equal(sluice_reader_new(chain, &reader), 0);
    return reader;
}

/* The bytes in three blocks that are cut at a and at b; fewer where a cut is at an end or both are
 * the same. */
static inline void feed_cut(sluice_chain *chain, sluice_pool *pool, const void *from, size_t size, size_t a, size_t b) {
    feed(chain, pool, from, a, 0);
    feed(chain, pool, (const uint8_t *)from + a, b - a, 0);
    feed(chain, pool, (const uint8_t *)from + b, size - b, 0);
}

static inline uint64_t big_endian(const uint8_t *from, unsigned n) {
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value = value * 256 + from[i];
    return value;
}

static inline uint64_t little_endian(const uint8_t *from, unsigned n) {
    uint64_t value = 0;
    while (n-- > 0)
        value = value * 256 + from[n];
    return value;
}

/* What a line call must say when so many bytes are there. */
static inline int expected_line(const char *there, size_t come, size_t size, size_t *ret_length, size_t *ret_used) {
    size_t limit = size + 2;
    for (size_t place = 0; place < come && place < limit; place++) {
        if (there[place] != '\n')
            continue;
        *ret_used = place + 1;
        *ret_length = place > 0 && there[place - 1] == '\r' ? place - 1 : place;
        return *ret_length <= size ? 0 : -EMSGSIZE;
    }
    return come >= limit ? -EMSGSIZE : -EAGAIN;
}

#endif
