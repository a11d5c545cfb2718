#include "framers/http_header.h"

#include <errno.h>

#include "framers/http_text.h"
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

int http_parse_length(sluice_http_text value, uint64_t *ret_length) {
    uint64_t length = 0;
    if (value.length == 0)
        return -EPROTO;
    for (size_t i = 0; i < value.length; i++) {
        uint8_t c = (uint8_t)value.text[i];
        if (!http_is_digit(c) || length > ((uint64_t)INT64_MAX - (c - '0')) / 10)
            return -EPROTO;
        length = length * 10 + (c - '0');
    }
    *ret_length = length;
    return 0;
}

const sluice_http_header *http_find_header(const sluice_http_header *headers, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (text_folds_to(headers[i].name, name))
            return &headers[i];
    return NULL;
}
