#include "daemon/protocols/http/http_range.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shared/text.h"

static void copy(const sluice_http_request *request, const char *name, char text[HTTP_RANGE_TEXT]) {
    const sluice_http_header *header = sluice_http_find(request, name);
    text[0] = '\0';
    if (!header || header->value.length >= HTTP_RANGE_TEXT)
        return;
    memcpy(text, header->value.text, header->value.length);
    text[header->value.length] = '\0';
}

void http_conditions_read(const sluice_http_request *request, struct http_conditions *ret_conditions) {
    copy(request, "Range", ret_conditions->range);
    copy(request, "If-Range", ret_conditions->if_range);
    copy(request, "If-None-Match", ret_conditions->if_none_match);
    copy(request, "If-Modified-Since", ret_conditions->if_modified_since);
}

void http_resource_describe(struct http_resource *resource, uint64_t size, int64_t modified, long nanoseconds) {
    time_t seconds = (time_t)modified;
    struct tm parts;
    resource->size = size;
    snprintf(resource->etag, sizeof resource->etag, "\"%llx-%llx\"", (unsigned long long)size,
             (unsigned long long)modified * 1000000000 + (unsigned long long)nanoseconds);
    gmtime_r(&seconds, &parts);
    strftime(resource->modified, sizeof resource->modified, "%a, %d %b %Y %H:%M:%S GMT", &parts);
}

enum range_kind { RANGE_NONE, RANGE_SATISFIED, RANGE_UNSATISFIABLE };

/* "bytes=FIRST-LAST", "bytes=FIRST-", "bytes=-LENGTH" */
static enum range_kind read_range(const char *text, uint64_t size, struct http_part *part) {
    const uint64_t most = 999999999999999999;
    static const char unit[] = "bytes=";
    uint64_t first, last = UINT64_MAX, length;
    if (strncmp(text, unit, sizeof unit - 1) != 0 || !strchr(text, '-'))
        return RANGE_NONE;
    sluice_http_text ends = text_of(text + sizeof unit - 1), from = text_split(&ends, '-');
    if (from.length == 0) {
        if (!text_number(ends, most, &length))
            return RANGE_NONE;
        if (length == 0 || size == 0)
            return RANGE_UNSATISFIABLE;
        first = length < size ? size - length : 0;
    } else {
        if (!text_number(from, most, &first) || (ends.length > 0 && (!text_number(ends, most, &last) || last < first)))
            return RANGE_NONE;
        if (first >= size)
            return RANGE_UNSATISFIABLE;
    }
    if (last >= size)
        last = size - 1;
    part->first = first;
    part->length = last - first + 1;
    return RANGE_SATISFIED;
}

static bool is_unchanged(const struct http_resource *resource, const struct http_conditions *conditions) {
    if (*conditions->if_none_match)
        return strcmp(conditions->if_none_match, "*") == 0 || strstr(conditions->if_none_match, resource->etag);
    /* As a date is only ever sent back, it is compared as text. */
    return strcmp(conditions->if_modified_since, resource->modified) == 0;
}

struct http_part http_part_of(const struct http_resource *resource, const struct http_conditions *conditions) {
    struct http_part part = {.status = 200, .length = resource->size};
    const char *if_range = conditions->if_range;
    if (is_unchanged(resource, conditions))
        return (struct http_part){.status = 304};
    if (*if_range && strcmp(if_range, resource->etag) != 0 && strcmp(if_range, resource->modified) != 0)
        return part;
    enum range_kind kind = read_range(conditions->range, resource->size, &part);
    if (kind == RANGE_UNSATISFIABLE)
        return (struct http_part){.status = 416};
    if (kind == RANGE_SATISFIED)
        part.status = 206;
    return part;
}
