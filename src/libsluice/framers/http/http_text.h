/*
 * Texts in an HTTP head: comparing, trimming and splitting in place. Case folding is ASCII only: in
 * a locale, other letters may fold to ASCII ones.
 */
#ifndef SLUICE_FRAMERS_HTTP_TEXT_H
#define SLUICE_FRAMERS_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sluice/http.h>

#include "framers/http/http_syntax.h"

static inline bool text_equals(sluice_http_text text, const char *word) {
    return text.length == strlen(word) && memcmp(text.text, word, text.length) == 0;
}

static inline bool text_folds_to(sluice_http_text text, const char *word) {
    for (size_t i = 0; i < text.length; i++)
        if (word[i] == '\0' || http_lower((uint8_t)text.text[i]) != http_lower((uint8_t)word[i]))
            return false;
    return word[text.length] == '\0';
}

/* Whether the text begins with the word, whatever the case. */
static inline bool text_starts(sluice_http_text text, const char *word) {
    size_t length = strlen(word);
    return text.length >= length && text_folds_to((sluice_http_text){text.text, length}, word);
}

static inline sluice_http_text text_trimmed(sluice_http_text text) {
    while (text.length > 0 && http_is_blank((uint8_t)text.text[0])) {
        text.text++;
        text.length--;
    }
    while (text.length > 0 && http_is_blank((uint8_t)text.text[text.length - 1]))
        text.length--;
    return text;
}

/* What precedes the first @c, or the whole text; @text becomes what is behind it. Without a @c that
 * is empty. */
static inline sluice_http_text text_split(sluice_http_text *text, char c) {
    const char *found = text->length > 0 ? memchr(text->text, c, text->length) : NULL;
    size_t length = found ? (size_t)(found - text->text) : text->length;
    size_t used = found ? length + 1 : length;
    sluice_http_text front = {text->text, length};
    text->text += used;
    text->length -= used;
    return front;
}

/* The next line, without its end: LF, and one CR before it; @rest becomes what is behind it. */
static inline sluice_http_text text_line(sluice_http_text *rest) {
    sluice_http_text line = text_split(rest, '\n');
    if (line.length > 0 && line.text[line.length - 1] == '\r')
        line.length--;
    return line;
}

#endif
