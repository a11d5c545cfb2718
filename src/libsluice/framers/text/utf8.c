#include "framers/text/utf8.h"

#include "framers/text/word.h"

/*
 * Unicode, table 3-7: what may follow a first byte. Only the second byte's range depends on the
 * first; it is what rules out overlong forms (C0, C1, E0, F0), surrogates (ED) and what is beyond
 * U+10FFFF (F4 and up).
 */
static bool begin_character(utf8_state *state, uint8_t c) {
    if (c < 0xC2 || c > 0xF4)
        return false;
    state->left = (uint8_t)(c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3);
    state->low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    state->high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    return true;
}

static bool take_byte(utf8_state *state, uint8_t c) {
    if (state->left == 0)
        return c < 0x80 || begin_character(state, c);
    if (c < state->low || c > state->high)
        return false;
    state->left--;
    state->low = 0x80;
    state->high = 0xBF;
    return true;
}

/* How many bytes from here on are ASCII, by whole words. */
static size_t ascii_words(const uint8_t *bytes, size_t n) {
    const uint64_t high_bits = 0x8080808080808080;
    size_t i = 0;
    while (n - i >= sizeof(byte_word) && !(*(const byte_word *)(bytes + i) & high_bits))
        i += sizeof(byte_word);
    return i;
}

bool utf8_check(utf8_state *state, const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n) {
        if (state->left == 0 && bytes[i] < 0x80) {
            i += ascii_words(bytes + i, n - i);
            if (i == n)
                break;
        }
        if (!take_byte(state, bytes[i++]))
            return false;
    }
    return true;
}
