/* Character classes of HTTP text, for heads and for the trailers of chunked bodies. */
#ifndef SLUICE_FRAMERS_HTTP_SYNTAX_H
#define SLUICE_FRAMERS_HTTP_SYNTAX_H

#include <stdbool.h>
#include <stdint.h>

#include "reader/header_syntax.h"

/* Visible ASCII: request targets. */
static inline bool http_is_visible(uint8_t c) {
    return c > ' ' && c < 0x7F;
}

static inline bool http_is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* The value of a hexadecimal digit, or -1. */
static inline int http_hex_value(uint8_t c) {
    if (http_is_digit(c))
        return c - '0';
    c = http_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
