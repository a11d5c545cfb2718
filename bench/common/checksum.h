/* What every receiver computes of what it has received, so that all are seen to have done the same
 * work. */
#ifndef BENCH_COMMON_CHECKSUM_H
#define BENCH_COMMON_CHECKSUM_H

#include <stdint.h>
#include <string.h>

enum { CHECKSUM_BYTES = 64 }; /* touched of each payload; none is shorter */

/*
 * Of one packet. Sums of these do not depend on the order in which streams are served, but a packet
 * that is lost, or in the wrong place of its stream, changes them. @param index of the packet in
 * its stream
 */
static inline uint64_t packet_checksum(const uint8_t first[CHECKSUM_BYTES], uint32_t size, uint64_t index) {
    static const uint64_t factors[CHECKSUM_BYTES / 8] = {
        0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93,
        0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3,
    };
    uint64_t sum = size;
    for (int i = 0; i < CHECKSUM_BYTES / 8; i++) {
        uint64_t word;
        memcpy(&word, first + 8 * i, sizeof word);
        sum += word * factors[i];
    }
    return sum * (2 * index + 1);
}

#endif
