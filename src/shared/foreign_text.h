/*
 * Text from peers, which may contain any bytes. Control characters drive the terminal that shows
 * them, and bidirectional marks make one text look like another, so both are shown as their
 * numbers.
 */
#ifndef SHARED_FOREIGN_TEXT_H
#define SHARED_FOREIGN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FOREIGN_BAD UINT32_MAX

/*
 * The character at the beginning of a text that ends with a zero and is not empty: its bytes. Where
 * it is no UTF-8 the code is FOREIGN_BAD, and the bytes are as many as could have begun a character
 * (Unicode 3.9, "maximal subpart").
 */
size_t foreign_character(const char *text, uint32_t *ret_code);

/* Whether a character is one that is not shown as it is: C0, DEL, C1, and what overrides a text's
 * direction. */
bool foreign_is_control(uint32_t code);

/*
 * Prints a text safely: invalid bytes as \xNN, control characters as \xNN or \uNNNN. A backslash in
 * the text itself is not distinguished; use JSON for that.
 */
void foreign_print(FILE *out, const char *text);

/* The same as text, to be freed. NULL when memory is short. */
char *foreign_shown(const char *text);

#endif
