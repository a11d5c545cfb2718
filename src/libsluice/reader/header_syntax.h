/* Character classes of header lines: RFC 9110, section 5. */
#ifndef SLUICE_READER_HEADER_SYNTAX_H
#define SLUICE_READER_HEADER_SYNTAX_H

#include <stdbool.h>
#include <stdint.h>

/* tchar of RFC 9110, section 5.6.2, as a bit for each ASCII character: methods and header names. */
static inline bool http_is_token_char(uint8_t c) {
    static const uint64_t token_chars[2] = {0x03ff6cfa00000000, 0x57ffffffc7fffffe};
    return c < 128 && (token_chars[c >> 6] >> (c & 63) & 1);
}

static inline bool http_is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

/* Header values and chunk extensions: anything but control bytes, of which the tab is allowed. */
static inline bool http_is_value_byte(uint8_t c) {
    return (c >= ' ' && c != 0x7F) || c == '\t';
}

static inline uint8_t http_lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

#endif
