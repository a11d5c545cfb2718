#include "framers/text/base64.h"

#include <errno.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const uint8_t *bytes, size_t n, char *text) {
    for (size_t i = 0; i < n; i += 3) {
        size_t here = n - i < 3 ? n - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (here > 1)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (here > 2)
            group |= bytes[i + 2];
        *text++ = digits[group >> 18];
        *text++ = digits[group >> 12 & 63];
        *text++ = here > 1 ? digits[group >> 6 & 63] : '=';
        *text++ = here > 2 ? digits[group & 63] : '=';
    }
}

static int digit_value(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t length, uint8_t *bytes) {
    for (int i = 0; i < 2 && length > 0 && text[length - 1] == '='; i++)
        length--;
    if (length % 4 == 1)
        return -EPROTO;
    uint8_t *to = bytes;
    uint32_t group = 0;
    for (size_t i = 0; i < length; i++) {
        int value = digit_value(text[i]);
        if (value < 0)
            return -EPROTO;
        group = group << 6 | (uint32_t)value;
        if (i % 4 == 3) {
            *to++ = (uint8_t)(group >> 16);
            *to++ = (uint8_t)(group >> 8);
            *to++ = (uint8_t)group;
        }
    }
    if (length % 4 >= 2)
        *to++ = (uint8_t)(length % 4 == 2 ? group >> 4 : group >> 10);
    if (length % 4 == 3)
        *to++ = (uint8_t)(group >> 2);
    return to - bytes;
}
