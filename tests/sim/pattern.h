/* A stream whose every byte follows from its place: what arrives is compared with it. */
#ifndef SLUICE_TESTS_SIM_PATTERN_H
#define SLUICE_TESTS_SIM_PATTERN_H

#include <stddef.h>
#include <stdint.h>

static inline uint8_t pattern_byte(uint32_t stream, uint64_t place) {
    uint32_t mixed = ((uint32_t)place ^ stream * 0x9e3779b9U) * 2654435761U;
    return (uint8_t)(mixed >> 24);
}

static inline void pattern_write(uint32_t stream, uint64_t place, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = pattern_byte(stream, place + i);
}

/* The first of the bytes that is not as it must be; @n when all are. */
static inline size_t pattern_check(uint32_t stream, uint64_t place, const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n && bytes[i] == pattern_byte(stream, place + i))
        i++;
    return i;
}

#endif
