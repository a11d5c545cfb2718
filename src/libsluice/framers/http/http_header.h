/* Header lines as the heads of HTTP and RTSP messages have them. */
#ifndef SLUICE_FRAMERS_HTTP_HEADER_H
#define SLUICE_FRAMERS_HTTP_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include <sluice/http.h>

/* Splits a line, which is without its end: 0, -EPROTO. */
int http_parse_header(sluice_http_text line, sluice_http_header *ret_header);

/* Digits and nothing else: 0, -EPROTO (or more than @most, which is INT64_MAX of
 * Content-Length). */
int http_parse_number(sluice_http_text value, uint64_t most, uint64_t *ret_number);

/* The first header of that name, whatever its case; NULL when there is none. */
const sluice_http_header *http_find_header(const sluice_http_header *headers, size_t count, const char *name);

#endif
