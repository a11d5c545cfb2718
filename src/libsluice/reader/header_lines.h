/*
 * "key: value" lines up to an empty line: finding their end, and parsing them. Used for header
 * blocks (headers.c) and for the heads of HTTP and RTSP messages.
 */
#ifndef SLUICE_READER_HEADER_LINES_H
#define SLUICE_READER_HEADER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/headers.h>

/* Where the search for the empty line is. All zero before the first line. */
typedef struct header_search {
    size_t done;  /* bytes searched */
    size_t lines; /* whole lines */
    size_t line;  /* bytes of the current line */
    uint8_t last; /* byte seen */
    bool folded;  /* a line but the first began with a blank */
    bool crlf;    /* set by the caller: a line that does not end with CR and LF is an error */
} header_search;

/*
 * Continues over bytes that follow those already searched. Returns 1 after the empty line; 0 at
 * their end; -EMSGSIZE at the end of the first line over the limit, which each further call
 * examines again, so that it returns the same; -EPROTO if a line does not end with CRLF although
 * crlf is set. Then the search has ended.
 */
int header_search_bytes(header_search *search, uint32_t max_lines, const uint8_t *bytes, size_t n);

/* Splits a line, which is without its end: 0, -EPROTO (no colon, bytes that may not be, a folded
 * line). */
int header_split(const char *line, size_t length, sluice_header *ret_header);

/* Puts folded lines together: each line end before a blank, and that blank, become spaces (RFC
 * 9112, section 5.2). */
void header_unfold(char *text, size_t length);

#endif
