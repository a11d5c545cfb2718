#include "reader/header_lines.h"

#include <errno.h>
#include <string.h>

#include "reader/header_syntax.h"

int header_search_bytes(header_search *search, uint32_t max_lines, const uint8_t *bytes, size_t n) {
    while (n > 0) {
        const uint8_t *end = memchr(bytes, '\n', n);
        size_t here = end ? (size_t)(end - bytes) : n;
        if (search->line == 0 && search->lines > 0 && here > 0 && http_is_blank(bytes[0]))
            search->folded = true;
        if (here > 0)
            search->last = bytes[here - 1];
        search->line += here;
        if (!end) {
            search->done += here;
            return 0;
        }
        if (search->crlf && (search->line == 0 || search->last != '\r'))
            return -EPROTO;
        bool empty = search->line == 0 || (search->line == 1 && search->last == '\r');
        if (!empty && search->lines == max_lines) {
            search->line -= here;
            return -EMSGSIZE;
        }
        search->done += here + 1;
        search->line = 0;
        search->lines++;
        if (empty)
            return 1;
        bytes += here + 1;
        n -= here + 1;
    }
    return 0;
}

int header_split(const char *line, size_t length, sluice_header *ret_header) {
    const char *colon = length > 0 ? memchr(line, ':', length) : NULL;
    if (!colon || colon == line)
        return -EPROTO;
    sluice_header header = {.key = line, .key_length = (size_t)(colon - line), .value = colon + 1};
    header.value_length = length - header.key_length - 1;
    for (size_t i = 0; i < header.key_length; i++)
        if (!http_is_token_char((uint8_t)header.key[i]))
            return -EPROTO;
    for (size_t i = 0; i < header.value_length; i++)
        if (!http_is_value_byte((uint8_t)header.value[i]))
            return -EPROTO;
    while (header.value_length > 0 && http_is_blank((uint8_t)header.value[0])) {
        header.value++;
        header.value_length--;
    }
    while (header.value_length > 0 && http_is_blank((uint8_t)header.value[header.value_length - 1]))
        header.value_length--;
    *ret_header = header;
    return 0;
}

void header_unfold(char *text, size_t length) {
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] != '\n' || !http_is_blank((uint8_t)text[i + 1]))
            continue;
        text[i] = ' ';
        if (i > 0 && text[i - 1] == '\r')
            text[i - 1] = ' ';
    }
}
