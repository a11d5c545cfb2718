/* Selects the part of a file with which a request is answered (RFC 9110, sections 13 and 14). */
#ifndef SLUICED_HTTP_RANGE_H
#define SLUICED_HTTP_RANGE_H

#include <stdint.h>

#include <sluice/http.h>

enum { HTTP_RANGE_TEXT = 96, HTTP_ETAG = 40, HTTP_DATE = 32 };

/* What a request says of the parts that it wants. What is too long to be one of ours is left
 * out. */
struct http_conditions {
    char range[HTTP_RANGE_TEXT];
    char if_range[HTTP_RANGE_TEXT];
    char if_none_match[HTTP_RANGE_TEXT];
    char if_modified_since[HTTP_RANGE_TEXT];
};

/* What there is. */
struct http_resource {
    uint64_t size;
    char etag[HTTP_ETAG];
    char modified[HTTP_DATE];
};

/* The answer. */
struct http_part {
    unsigned status; /* 200, 206, 304, 416 */
    uint64_t first;
    uint64_t length; /* bytes of the body */
};

void http_conditions_read(const sluice_http_request *request, struct http_conditions *ret_conditions);

/* @modified: seconds since 1970; @nanoseconds: of it. */
void http_resource_describe(struct http_resource *resource, uint64_t size, int64_t modified, long nanoseconds);

/* One range is honoured; several, and what is no range, are answered with the whole. */
struct http_part http_part_of(const struct http_resource *resource, const struct http_conditions *conditions);

#endif
