/* Integers as RTP and RTCP write them: the most significant byte first. */
#ifndef SLUICE_FRAMERS_RTP_WRITE_H
#define SLUICE_FRAMERS_RTP_WRITE_H

#include <stdint.h>

static inline void put_be16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static inline void put_be32(uint8_t *to, uint32_t value) {
    put_be16(to, (uint16_t)(value >> 16));
    put_be16(to + 2, (uint16_t)value);
}

#endif
