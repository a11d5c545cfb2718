#include "framers/http/http_header.h"

#include <errno.h>

#include "framers/http/http_text.h"
#include "reader/header_lines.h"

int http_parse_header(sluice_http_text line, sluice_http_header *ret_header) {
    sluice_header header;
    int error = header_split(line.text, line.length, &header);
    if (error)
        return error;
    ret_header->name = (sluice_http_text){header.key, header.key_length};
    ret_header->value = (sluice_http_text){header.value, header.value_length};
    return 0;
}

int http_parse_number(sluice_http_text value, uint64_t most, uint64_t *ret_number) {
    uint64_t number = 0;
    if (value.length == 0)
        return -EPROTO;
    for (size_t i = 0; i < value.length; i++) {
        uint8_t c = (uint8_t)value.text[i], digit = (uint8_t)(c - '0');
        if (!http_is_digit(c) || digit > most || number > (most - digit) / 10)
            return -EPROTO;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return 0;
}

const sluice_http_header *http_find_header(const sluice_http_header *headers, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (text_folds_to(headers[i].name, name))
            return &headers[i];
    return NULL;
}
