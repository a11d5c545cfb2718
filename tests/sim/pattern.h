/* A stream whose every byte follows from its place: what arrives is compared with it. */
#ifndef SLUICE_TESTS_SIM_PATTERN_H
#define SLUICE_TESTS_SIM_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PATTERN_WORD = sizeof(uint64_t) };

/* Eight bytes at a time: most of a world is making and comparing them. */
static inline uint64_t pattern_word(uint32_t stream, uint64_t at) {
    uint64_t mixed = (at ^ (uint64_t)stream << 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Up to the next word's beginning, or fewer. */
static inline size_t pattern_part(uint32_t stream, uint64_t place, size_t n, uint8_t *ret_bytes) {
    uint64_t word = pattern_word(stream, place / PATTERN_WORD);
    size_t skipped = place % PATTERN_WORD, part = PATTERN_WORD - skipped < n ? PATTERN_WORD - skipped : n;
    memcpy(ret_bytes, (const uint8_t *)&word + skipped, part);
    return part;
}

static inline void pattern_write(uint32_t stream, uint64_t place, uint8_t *out, size_t n) {
    size_t done = n > 0 ? pattern_part(stream, place, n, out) : 0;
    for (; n - done >= PATTERN_WORD; done += PATTERN_WORD) {
        uint64_t word = pattern_word(stream, (place + done) / PATTERN_WORD);
        memcpy(out + done, &word, sizeof word);
    }
    if (done < n)
        (void)pattern_part(stream, place + done, n - done, out + done);
}

/* The first of the bytes that is not as it must be; @n when all are. */
static inline size_t pattern_check(uint32_t stream, uint64_t place, const uint8_t *bytes, size_t n) {
    uint8_t expected[PATTERN_WORD];
    for (size_t done = 0; done < n;) {
        size_t part = pattern_part(stream, place + done, n - done, expected);
        if (part == PATTERN_WORD ? memcmp(bytes + done, expected, PATTERN_WORD) : memcmp(bytes + done, expected, part))
            for (size_t i = 0;; i++)
                if (bytes[done + i] != expected[i])
                    return done + i;
        done += part;
    }
    return n;
}

#endif
