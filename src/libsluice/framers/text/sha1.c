#include "framers/text/sha1.h"

enum {
    CHUNK = 64, /* bytes that are mixed in at once */
    ROUNDS = 80,
    LENGTH_BYTES = 8, /* of the message's length, at the end of the last chunk */
    END_OF_BYTES = 0x80,
};

static uint32_t turn_left(uint32_t word, unsigned bits) {
    return word << bits | word >> (32 - bits);
}

/* FIPS 180-4, sections 4.1.1 and 4.2.1. */
static uint32_t mix(int round, uint32_t b, uint32_t c, uint32_t d) {
    if (round < 20)
        return ((b & c) ^ (~b & d)) + 0x5A827999;
    if (round < 40)
        return (b ^ c ^ d) + 0x6ED9EBA1;
    if (round < 60)
        return ((b & c) ^ (b & d) ^ (c & d)) + 0x8F1BBCDC;
    return (b ^ c ^ d) + 0xCA62C1D6;
}

/* Section 6.1.2. */
static void mix_chunk(uint32_t state[5], const uint8_t chunk[CHUNK]) {
    uint32_t words[ROUNDS];
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)chunk[4 * i] << 24 | (uint32_t)chunk[4 * i + 1] << 16 | (uint32_t)chunk[4 * i + 2] << 8 |
                   chunk[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++)
        words[i] = turn_left(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);

    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t sum = turn_left(a, 5) + mix(i, b, c, d) + e + words[i];
        e = d;
        d = c;
        c = turn_left(b, 30);
        b = a;
        a = sum;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

/* What is left of the bytes, the end mark and the length: one chunk, or two. */
static void mix_end(uint32_t state[5], const uint8_t *rest, size_t left, uint64_t total) {
    uint8_t chunk[CHUNK] = {0};
    for (size_t i = 0; i < left; i++)
        chunk[i] = rest[i];
    chunk[left] = END_OF_BYTES;
    if (left + 1 > CHUNK - LENGTH_BYTES) {
        mix_chunk(state, chunk);
        for (int i = 0; i < CHUNK; i++)
            chunk[i] = 0;
    }
    uint64_t bits = total * 8;
    for (int i = 1; i <= LENGTH_BYTES; i++, bits >>= 8)
        chunk[CHUNK - i] = (uint8_t)bits;
    mix_chunk(state, chunk);
}

void sha1(const uint8_t *bytes, size_t n, uint8_t ret_digest[SHA1_SIZE]) {
    uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    size_t left = n;
    for (; left >= CHUNK; left -= CHUNK, bytes += CHUNK)
        mix_chunk(state, bytes);
    mix_end(state, bytes, left, n);
    for (int i = 0; i < SHA1_SIZE; i++)
        ret_digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
