#include <sluice/headers.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/bytes.h>

#include "abi/sized.h"
#include "memory/chain.h"
#include "reader/cursor.h"
#include "reader/header_lines.h"
#include "reader/header_syntax.h"
#include "reader/reader.h"

enum {
    DEFAULT_COUNT = 100,
    DEFAULT_KEY = 256,
    DEFAULT_VALUE = 8192,
    DEFAULT_TOTAL = 8192,
    MAX_COUNT = 10000,
    MAX_TOTAL = 1 << 20,
};

/* Where the search for the empty line is. */
struct search {
    chain_place at; /* from which the rest counts */
    header_search lines;
};

struct sluice_headers {
    sluice_headers_options limits;
    struct search search;
    sluice_slice held; /* the block in which the text is read in place */
    sluice_bytes text; /* text that straddled blocks */
    size_t count;
    sluice_header lines[];
};

static uint32_t or_default(uint32_t value, uint32_t fallback) {
    return value ? value : fallback;
}

int sluice_headers_new(const sluice_headers_options *options, sluice_headers **ret_headers) {
    sluice_headers_options limits;
    int error = SIZED_READ(&limits, options);
    if (error)
        return error;
    limits.max_count = or_default(limits.max_count, DEFAULT_COUNT);
    limits.max_key = or_default(limits.max_key, DEFAULT_KEY);
    limits.max_value = or_default(limits.max_value, DEFAULT_VALUE);
    limits.max_total = or_default(limits.max_total, DEFAULT_TOTAL);
    if (limits.max_count > MAX_COUNT || limits.max_total > MAX_TOTAL)
        return -EINVAL;
    sluice_headers *headers = calloc(1, sizeof *headers + limits.max_count * sizeof *headers->lines);
    if (!headers)
        return -ENOMEM;
    headers->limits = limits;
    sluice_bytes_init(&headers->text, limits.max_total);
    *ret_headers = headers;
    return 0;
}

/* But for how far the search for their end has come. */
static void forget_lines(sluice_headers *headers) {
    headers->count = 0;
    sluice_slice_release(&headers->held);
    sluice_bytes_clear(&headers->text);
}

void sluice_headers_clear(sluice_headers *headers) {
    forget_lines(headers);
    headers->search = (struct search){0};
}

void sluice_headers_free(sluice_headers *headers) {
    if (!headers)
        return;
    sluice_slice_release(&headers->held);
    sluice_bytes_free(&headers->text);
    free(headers);
}

/* Goes on with the search: 1 (search.lines.done bytes end with the empty line), 0 (it has not
 * come), -EMSGSIZE. */
static int find_end(sluice_headers *headers, sluice_chain *chain) {
    struct search *search = &headers->search;
    if (!chain_is_at(chain, search->at))
        *search = (struct search){.at = chain_place_of(chain)};
    sluice_cursor cursor = cursor_of_chain_at(chain, search->lines.done);
    while (cursor_left(&cursor) > 0 && search->lines.done < headers->limits.max_total) {
        size_t here;
        const uint8_t *bytes = cursor_view(&cursor, &here);
        if (here > headers->limits.max_total - search->lines.done)
            here = headers->limits.max_total - search->lines.done;
        int result = header_search_bytes(&search->lines, headers->limits.max_count, bytes, here);
        if (result)
            return result;
        cursor_skip(&cursor, here);
    }
    return search->lines.done == headers->limits.max_total ? -EMSGSIZE : 0;
}

static int parse_line(const sluice_headers *headers, const char *line, size_t length, sluice_header *ret_header) {
    sluice_header header;
    int error = header_split(line, length, &header);
    if (error)
        return error;
    if (header.key_length > headers->limits.max_key || header.value_length > headers->limits.max_value)
        return -EMSGSIZE;
    *ret_header = header;
    return 0;
}

/* The text ends with the empty line, and has no more lines than there is room for. */
static int parse(sluice_headers *headers, const char *text) {
    size_t lines = headers->search.lines.lines - 1;
    const char *end = text + headers->search.lines.done;
    for (size_t i = 0; i < lines; i++) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)(line_end - text);
        if (text[length - 1] == '\r')
            length--;
        int error = parse_line(headers, text, length, &headers->lines[i]);
        if (error)
            return error;
        text = line_end + 1;
    }
    headers->count = lines;
    return 0;
}

/* The text in one piece: in place, or gathered and counted. */
static int gather_text(sluice_headers *headers, sluice_chain *chain, const char **ret_text) {
    size_t n = headers->search.lines.done, here;
    sluice_cursor cursor = cursor_of_chain(chain);
    *ret_text = (const char *)cursor_view(&cursor, &here);
    if (here >= n)
        return 0;
    sluice_slice slice = {0};
    chain_hold(chain, n, &slice);
    int error = sluice_bytes_append_slice(&headers->text, &slice);
    sluice_slice_release(&slice);
    *ret_text = (const char *)sluice_bytes_view(&headers->text);
    return error;
}

/* Until the whole block is there. */
static int wait_for_end(sluice_headers *headers, sluice_reader *reader) {
    int error = reader_begin(reader);
    while (!error) {
        int result = find_end(headers, reader_chain(reader));
        if (result != 0)
            return result < 0 ? result : 0;
        error = reader_want(reader, chain_length(reader_chain(reader)) + 1);
    }
    return error;
}

int sluice_headers_read(sluice_headers *headers, sluice_reader *reader) {
    forget_lines(headers);
    int error = wait_for_end(headers, reader);
    if (error)
        return error;

    const char *text;
    error = gather_text(headers, reader_chain(reader), &text);
    if (!error)
        error = parse(headers, text);
    if (error) {
        /* The empty line is behind the search: begin anew, so that the next call says the same. */
        headers->search = (struct search){0};
        sluice_bytes_clear(&headers->text);
        return error;
    }
    if (sluice_bytes_length(&headers->text) > 0)
        sluice_reader_skip(reader, headers->search.lines.done);
    else
        sluice_reader_slice(reader, headers->search.lines.done, &headers->held);
    headers->search = (struct search){0};
    return 0;
}

size_t sluice_headers_count(const sluice_headers *headers) {
    return headers->count;
}

const sluice_header *sluice_headers_at(const sluice_headers *headers, size_t index) {
    return index < headers->count ? &headers->lines[index] : NULL;
}

/* Case never folds by the locale, in which other letters may fold to ASCII ones. */
static bool is_key(const sluice_header *header, const char *key, size_t length) {
    if (header->key_length != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (http_lower((uint8_t)header->key[i]) != http_lower((uint8_t)key[i]))
            return false;
    return true;
}

const sluice_header *sluice_headers_find(const sluice_headers *headers, const char *key) {
    size_t length = strlen(key);
    for (size_t i = 0; i < headers->count; i++)
        if (is_key(&headers->lines[i], key, length))
            return &headers->lines[i];
    return NULL;
}
