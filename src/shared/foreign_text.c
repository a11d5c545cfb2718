#include "shared/foreign_text.h"

#include <stdlib.h>

/* Unicode, table 3-7: of how many bytes a character is by its first one, and its second one's
 * range. None: 0. */
static size_t begin(uint8_t first, uint8_t *ret_low, uint8_t *ret_high) {
    *ret_low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *ret_high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t foreign_character(const char *text, uint32_t *ret_code) {
    const uint8_t *bytes = (const uint8_t *)text;
    uint8_t low, high;
    size_t size = begin(bytes[0], &low, &high), at = 1;
    uint32_t code = size == 1 ? bytes[0] : bytes[0] & (0x7Fu >> size);
    /* The zero at the end goes on with no character. */
    for (; at < size && bytes[at] >= low && bytes[at] <= high; at++) {
        code = code << 6 | (bytes[at] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *ret_code = at == size ? code : FOREIGN_BAD;
    return at;
}

bool foreign_is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

void foreign_print(FILE *out, const char *text) {
    while (*text) {
        uint32_t code;
        size_t size = foreign_character(text, &code);
        if (code == FOREIGN_BAD)
            for (size_t i = 0; i < size; i++)
                fprintf(out, "\\x%02x", (unsigned)(uint8_t)text[i]);
        else if (foreign_is_control(code))
            fprintf(out, code < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)code);
        else
            fwrite(text, 1, size, out);
        text += size;
    }
}

char *foreign_shown(const char *text) {
    char *shown = NULL;
    size_t size;
    FILE *out = open_memstream(&shown, &size);
    if (!out)
        return NULL;
    foreign_print(out, text);
    if (fclose(out) == 0)
        return shown;
    free(shown);
    return NULL;
}
