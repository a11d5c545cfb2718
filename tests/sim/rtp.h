/* What RTP's packets are made of, as far as both who sends and who looks at them need it (RFC 3550,
 * 6184, 3640). */
#ifndef SLUICE_TESTS_SIM_RTP_H
#define SLUICE_TESTS_SIM_RTP_H

#include <stdint.h>

enum {
    RTP = 12, /* the header */
    TYPE = 31,
    STAP_A = 24,
    FU_A = 28,
    BEGINS = 0x80,
    ENDS = 0x40,
    AU = 4, /* the section of one access unit's header */
};

static inline uint32_t get16(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

#endif
