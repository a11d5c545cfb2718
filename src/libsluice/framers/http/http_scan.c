#include "framers/http/http_scan.h"

#include <errno.h>
#include <string.h>

#include <sluice/http.h>

#include "framers/http/http_syntax.h"
#include "reader/cursor.h"

/* Empty lines before a request line that are stepped over (RFC 9112, section 2.2), bytes. */
enum { MAX_LEAD = 4 };

static int scan_lead(struct http_scan *scan, uint8_t c) {
    if (scan->part == SCAN_LEAD_LF) {
        scan->part = SCAN_LEAD;
        scan->lead += 2;
        return c == '\n' ? 0 : -EPROTO;
    }
    if (c == '\r' && scan->lead < MAX_LEAD) {
        scan->part = SCAN_LEAD_LF;
        return 0;
    }
    scan->part = SCAN_METHOD;
    scan->method = 1;
    return http_is_token_char(c) ? 0 : -EPROTO;
}

static int scan_request_line(struct http_scan *scan, uint8_t c) {
    if (scan->part == SCAN_METHOD) {
        if (c == ' ')
            scan->part = SCAN_TARGET;
        else if (!http_is_token_char(c) || ++scan->method > SLUICE_HTTP_MAX_METHOD)
            return -EPROTO;
        return 0;
    }
    if (c == ' ') {
        scan->part = SCAN_LINES;
        scan->search.line = scan->method + scan->target + 2;
        scan->search.last = c;
        return scan->target > 0 ? 0 : -EPROTO;
    }
    if (!http_is_visible(c))
        return -EPROTO;
    return ++scan->target > SLUICE_HTTP_MAX_TARGET ? -ENAMETOOLONG : 0;
}

/* "HTTP/1.1 200" and the byte behind it. A reason may be missing, and its space with it. */
static int scan_status(struct http_scan *scan, uint8_t c) {
    static const char pattern[] = "HTTP/m.n xyz";
    size_t at = scan->search.line++;
    if (at == HTTP_STATUS_SIZE) {
        scan->part = SCAN_LINES;
        scan->search.last = c;
        return c == ' ' || c == '\r' ? 0 : -EPROTO;
    }
    switch (pattern[at]) {
    case 'm':
        return c == '1' ? 0 : http_is_digit(c) ? -EPROTONOSUPPORT : -EPROTO;
    case 'n':
        return c == '0' || c == '1' ? 0 : http_is_digit(c) ? -EPROTONOSUPPORT : -EPROTO;
    case 'x':
        return http_is_digit(c) && c != '0' ? 0 : -EPROTO;
    case 'y':
    case 'z':
        return http_is_digit(c) ? 0 : -EPROTO;
    default:
        return c == (uint8_t)pattern[at] ? 0 : -EPROTO;
    }
}

static int scan_start(struct http_scan *scan, uint8_t c) {
    switch (scan->part) {
    case SCAN_LEAD:
    case SCAN_LEAD_LF:
        return scan_lead(scan, c);
    case SCAN_STATUS:
        return scan_status(scan, c);
    default:
        return scan_request_line(scan, c);
    }
}

static int scan_bytes(struct http_scan *scan, const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n && scan->part != SCAN_LINES) {
        int error = scan_start(scan, bytes[i++]);
        if (error)
            return error;
        scan->search.done++;
    }
    return header_search_bytes(&scan->search, UINT32_MAX, bytes + i, n - i);
}

int http_scan(struct http_scan *scan, sluice_chain *chain, enum http_head_kind kind) {
    if (scan->search.done == 0 || scan->kind != kind || !chain_is_at(chain, scan->at))
        *scan = (struct http_scan){.at = chain_place_of(chain),
                                   .kind = kind,
                                   .search = {.crlf = true},
                                   .part = kind == HTTP_RESPONSE ? SCAN_STATUS : SCAN_LEAD};
    sluice_cursor cursor = cursor_of_chain_at(chain, scan->search.done);
    while (cursor_left(&cursor) > 0) {
        size_t here;
        const uint8_t *bytes = cursor_view(&cursor, &here);
        size_t room = scan->lead + SLUICE_HTTP_MAX_HEAD - scan->search.done;
        if (here > room)
            here = room;
        int result = scan_bytes(scan, bytes, here);
        if (result)
            return result;
        if (scan->search.done == scan->lead + SLUICE_HTTP_MAX_HEAD)
            return -EMSGSIZE;
        cursor_skip(&cursor, here);
    }
    return 0;
}
