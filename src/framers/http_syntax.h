/* What bytes HTTP text is made of; the same for heads and for the trailers of chunked bodies. */
#ifndef SLUICE_FRAMERS_HTTP_SYNTAX_H
#define SLUICE_FRAMERS_HTTP_SYNTAX_H

#include <stdbool.h>
#include <stdint.h>

/* tchar of RFC 9110, section 5.6.2, as a bit for each ASCII character: methods and header names. */
static inline bool http_is_token_char(uint8_t c) {
    static const uint64_t token_chars[2] = {0x03ff6cfa00000000, 0x57ffffffc7fffffe};
    return c < 128 && (token_chars[c >> 6] >> (c & 63) & 1);
}

/* Visible ASCII: request targets. */
static inline bool http_is_visible(uint8_t c) {
    return c > ' ' && c < 0x7F;
}

static inline bool http_is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

/* Header values and chunk extensions: anything but control bytes, of which the tab is allowed. */
static inline bool http_is_value_byte(uint8_t c) {
    return (c >= ' ' && c != 0x7F) || c == '\t';
}

static inline bool http_is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static inline uint8_t http_lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* The value of a hexadecimal digit, or -1. */
static inline int http_hex_value(uint8_t c) {
    if (http_is_digit(c))
        return c - '0';
    c = http_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
