/*
 * Texts that no zero ends: words, numbers and parts of what a peer has sent. The library's framers
 * have the like for themselves. Case folds as in the C locale, which the programs do not leave.
 */
#ifndef SHARED_TEXT_H
#define SHARED_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <sluice/http.h>

static inline sluice_http_text text_of(const char *word) {
    return (sluice_http_text){word, strlen(word)};
}

bool text_is(sluice_http_text text, const char *word);

/* The same, whatever the case. */
bool text_folds_to(sluice_http_text text, const char *word);

/* What precedes the first @c, or the whole text; @text becomes what is behind it. Without a @c that
 * is empty. */
sluice_http_text text_split(sluice_http_text *text, char c);

/* Without the blanks at both ends. */
sluice_http_text text_trimmed(sluice_http_text text);

/* A number that is the whole text, of digits alone. False where it is none, or more than @most. */
bool text_number(sluice_http_text text, uint64_t most, uint64_t *ret_number);

/* The value of the first parameter of that name in a query, as it is there. False: there is
 * none. */
bool text_parameter(sluice_http_text query, const char *name, sluice_http_text *ret_value);

/*
 * Percent-decodes into @out, with a NUL. A percent sign without two digits stands for itself. 0,
 * -EMSGSIZE: longer than @size - 1 bytes, -EINVAL: a control byte
 */
int text_decode(sluice_http_text text, char *out, size_t size);

#endif
