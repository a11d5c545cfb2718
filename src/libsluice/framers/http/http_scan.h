/*
 * Finds the end of an HTTP head. The start line is checked byte by byte as it arrives, so that data
 * that is not HTTP, or a target that is too long, is rejected before the rest arrives. The result
 * depends only on the bytes, not on how they are divided into pieces.
 */
#ifndef SLUICE_FRAMERS_HTTP_SCAN_H
#define SLUICE_FRAMERS_HTTP_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "memory/chain.h"
#include "reader/header_lines.h"

enum http_head_kind { HTTP_REQUEST, HTTP_RESPONSE };

enum { HTTP_STATUS_SIZE = 12 }; /* bytes of "HTTP/1.1 200" */

enum http_scan_part {
    SCAN_LEAD,    /* at the beginning of a request, or behind an empty line before it */
    SCAN_LEAD_LF, /* behind CR: LF leads back to SCAN_LEAD */
    SCAN_METHOD,  /* from its first character to the space behind it */
    SCAN_TARGET,  /* from there to the next space */
    SCAN_STATUS,  /* from the beginning of a response to the byte behind the status code */
    SCAN_LINES,   /* the rest: line by line to the empty one */
};

struct http_scan {
    chain_place at; /* from which the rest counts */
    enum http_head_kind kind;
    enum http_scan_part part;
    header_search search; /* of all parts: done; SCAN_STATUS: line; SCAN_LINES: all of it */
    size_t lead;          /* bytes of empty lines before the start line */
    size_t method;        /* bytes */
    size_t target;        /* bytes */
};

/*
 * Goes on with the search: 1 (scan.search.done bytes end with the empty line), 0 (it has not come),
 * or -EPROTO, -EMSGSIZE, -ENAMETOOLONG, -EPROTONOSUPPORT.
 */
int http_scan(struct http_scan *scan, sluice_chain *chain, enum http_head_kind kind);

#endif
