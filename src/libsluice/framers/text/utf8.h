/* Checking UTF-8 that comes in pieces. */
#ifndef SLUICE_FRAMERS_UTF8_H
#define SLUICE_FRAMERS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a text stands between two pieces. All zero is the beginning. */
typedef struct utf8_state {
    uint8_t left;      /* bytes that the character still has to come */
    uint8_t low, high; /* between which the next of them has to be; of no meaning when left is 0 */
} utf8_state;

/* Goes on with the text. False at the first byte with which no UTF-8 can go on; then the state is
 * of no more use. */
bool utf8_check(utf8_state *state, const uint8_t *bytes, size_t n);

/* The text does not end inside a character. */
static inline bool utf8_is_complete(const utf8_state *state) {
    return state->left == 0;
}

#endif
