/*
 * Bits of a NAL unit, most significant first, without emulation prevention bytes. Reading beyond
 * the end returns zeros and sets an error, which needs to be checked only once, at the end.
 */
#ifndef SLUICE_FRAMERS_RBSP_H
#define SLUICE_FRAMERS_RBSP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbsp {
    const uint8_t *at, *end;
    uint8_t byte;
    unsigned left;  /* bits of the byte */
    unsigned zeros; /* bytes of zero before the next */
    bool over;
};

static inline unsigned rbsp_bit(struct rbsp *r) {
    if (r->left == 0) {
        if (r->zeros >= 2 && r->at < r->end && *r->at == 3) {
            r->at++;
            r->zeros = 0;
        }
        if (r->at == r->end) {
            r->over = true;
            return 0;
        }
        r->byte = *r->at++;
        r->zeros = r->byte ? 0 : r->zeros + 1;
        r->left = 8;
    }
    return r->byte >> --r->left & 1;
}

/* At most 32 bits. */
static inline uint32_t rbsp_u(struct rbsp *r, unsigned n) {
    uint32_t value = 0;
    while (n-- > 0)
        value = value << 1 | rbsp_bit(r);
    return value;
}

/* Exp-Golomb codes; what needs more than 32 bits is an error. */
static inline uint32_t rbsp_ue(struct rbsp *r) {
    unsigned zeros = 0;
    while (!r->over && rbsp_bit(r) == 0)
        zeros++;
    if (r->over || zeros > 31) {
        r->over = true;
        return 0;
    }
    return (1U << zeros) - 1 + rbsp_u(r, zeros);
}

/* Signed ones, of which no caller needs the value. */
static inline void rbsp_skip_se(struct rbsp *r) {
    rbsp_ue(r);
}

#endif
