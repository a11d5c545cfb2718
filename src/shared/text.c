#include "shared/text.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

bool text_is(sluice_http_text text, const char *word) {
    return text.length == strlen(word) && memcmp(text.text, word, text.length) == 0;
}

bool text_folds_to(sluice_http_text text, const char *word) {
    return text.length == strlen(word) && strncasecmp(text.text, word, text.length) == 0;
}

sluice_http_text text_split(sluice_http_text *text, char c) {
    const char *found = text->length > 0 ? memchr(text->text, c, text->length) : NULL;
    sluice_http_text front = {text->text, found ? (size_t)(found - text->text) : text->length};
    size_t used = front.length + (found != NULL);
    *text = (sluice_http_text){text->text + used, text->length - used};
    return front;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

sluice_http_text text_trimmed(sluice_http_text text) {
    while (text.length > 0 && is_blank(*text.text))
        text = (sluice_http_text){text.text + 1, text.length - 1};
    while (text.length > 0 && is_blank(text.text[text.length - 1]))
        text.length--;
    return text;
}

bool text_number(sluice_http_text text, uint64_t most, uint64_t *ret_number) {
    uint64_t number = 0;
    for (size_t i = 0; i < text.length; i++) {
        unsigned digit = (unsigned char)text.text[i] - (unsigned)'0';
        if (digit > 9 || digit > most || number > (most - digit) / 10)
            return false;
        number = 10 * number + digit;
    }
    if (text.length > 0)
        *ret_number = number;
    return text.length > 0;
}

bool text_parameter(sluice_http_text query, const char *name, sluice_http_text *ret_value) {
    while (query.length > 0) {
        sluice_http_text value = text_split(&query, '&');
        bool has_value = memchr(value.text, '=', value.length);
        if (has_value && text_is(text_split(&value, '='), name)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

int text_decode(sluice_http_text text, char *out, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.text[i];
        if (c == '%' && i + 2 < text.length && hex_digit(text.text[i + 1]) >= 0 && hex_digit(text.text[i + 2]) >= 0) {
            c = (char)(hex_digit(text.text[i + 1]) * 16 + hex_digit(text.text[i + 2]));
            i += 2;
        }
        if (at + 1 >= size)
            return -EMSGSIZE;
        if (iscntrl((unsigned char)c))
            return -EINVAL;
        out[at++] = c;
    }
    out[at] = '\0';
    return 0;
}
