#include <sluice/http.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "framers/http_header.h"
#include "framers/http_syntax.h"
#include "framers/http_text.h"
#include "memory/chain.h"
#include "reader/cursor.h"

/* Empty lines before a request line that are stepped over (RFC 9112, section 2.2), bytes. */
enum { MAX_LEAD = 4 };

/*
 * Where the search for a head's end is. It checks the request line byte by byte as it comes, so that what is no HTTP,
 * or has too long a target, is refused before the rest has been waited for. What it says depends on the bytes alone
 * and not on the pieces in which they come.
 */
enum scan_part {
    SCAN_LEAD,    /* at the beginning, or behind an empty line */
    SCAN_LEAD_LF, /* behind CR: LF leads back to SCAN_LEAD */
    SCAN_METHOD,  /* from its first character to the space behind it */
    SCAN_TARGET,  /* from there to the next space */
    SCAN_LINES,   /* the rest: line by line to the empty one */
};

struct scan {
    chain_place at; /* from which the rest counts */
    enum scan_part part;
    uint8_t last;  /* SCAN_LINES: the last byte seen */
    size_t line;   /* SCAN_LINES: bytes of the current line so far */
    size_t done;   /* bytes searched */
    size_t lead;   /* bytes of empty lines before the request line */
    size_t method; /* bytes */
    size_t target; /* bytes */
};

/* What is used of an idle connection's framer comes first, so that the pages of the rest need never be touched. */
struct sluice_http {
    sluice_slice held; /* the block in which the last head was read in place */
    int error;         /* the error that is for good */
    struct scan scan;
    sluice_http_header headers[SLUICE_HTTP_MAX_HEADERS];
    char text[SLUICE_HTTP_MAX_HEAD]; /* a head that straddles blocks, put together */
};

/* The headers that say how the message is delimited and what becomes of the connection. */
struct fields {
    const sluice_http_header *host;
    const sluice_http_header *content_length;
    const sluice_http_header *transfer_encoding;
    bool close;
    bool keep_alive;
    bool expect_continue;
};

int sluice_http_new(sluice_http **ret_http) {
    sluice_http *http = malloc(sizeof *http);
    if (!http)
        return -ENOMEM;
    http->held = (sluice_slice){0};
    http->error = 0;
    http->scan = (struct scan){0};
    *ret_http = http;
    return 0;
}

void sluice_http_free(sluice_http *http) {
    if (!http)
        return;
    sluice_slice_release(&http->held);
    free(http);
}

void sluice_http_release(sluice_http *http) {
    sluice_slice_release(&http->held);
}

/* The search for the head's end. */

static int scan_lead(struct scan *scan, uint8_t c) {
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

static int scan_request_line(struct scan *scan, uint8_t c) {
    if (scan->part == SCAN_METHOD) {
        if (c == ' ')
            scan->part = SCAN_TARGET;
        else if (!http_is_token_char(c) || ++scan->method > SLUICE_HTTP_MAX_METHOD)
            return -EPROTO;
        return 0;
    }
    if (c == ' ') {
        scan->part = SCAN_LINES;
        scan->line = scan->method + scan->target + 2;
        scan->last = c;
        return scan->target > 0 ? 0 : -EPROTO;
    }
    if (!http_is_visible(c))
        return -EPROTO;
    return ++scan->target > SLUICE_HTTP_MAX_TARGET ? -ENAMETOOLONG : 0;
}

/* 1 behind the empty line, 0 at the end of the bytes. */
static int scan_lines(struct scan *scan, const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n) {
        const uint8_t *end = memchr(bytes + i, '\n', n - i);
        size_t here = end ? (size_t)(end - bytes) - i : n - i;
        if (here > 0)
            scan->last = bytes[i + here - 1];
        scan->line += here;
        scan->done += here;
        i += here;
        if (!end)
            break;
        i++;
        scan->done++;
        if (scan->last != '\r')
            return -EPROTO;
        if (scan->line == 1)
            return 1;
        scan->line = 0;
        scan->last = '\n';
    }
    return 0;
}

static int scan_bytes(struct scan *scan, const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n && scan->part != SCAN_LINES) {
        uint8_t c = bytes[i++];
        int error = scan->part <= SCAN_LEAD_LF ? scan_lead(scan, c) : scan_request_line(scan, c);
        if (error)
            return error;
        scan->done++;
    }
    return scan_lines(scan, bytes + i, n - i);
}

/* Goes on with the search: 1 (scan.done bytes end with the empty line), 0 (it has not come), or an error. */
static int find_head(struct scan *scan, sluice_chain *chain) {
    if (!chain_is_at(chain, scan->at))
        *scan = (struct scan){.at = chain_place_of(chain)};
    sluice_cursor cursor = cursor_of_chain_at(chain, scan->done);
    while (cursor_left(&cursor) > 0) {
        size_t here;
        const uint8_t *bytes = cursor_view(&cursor, &here);
        size_t room = scan->lead + SLUICE_HTTP_MAX_HEAD - scan->done;
        if (here > room)
            here = room;
        int result = scan_bytes(scan, bytes, here);
        if (result)
            return result;
        if (scan->done == scan->lead + SLUICE_HTTP_MAX_HEAD)
            return -EMSGSIZE;
        cursor_skip(&cursor, here);
    }
    return 0;
}

/* Parsing of a whole head, in which the search has seen to the line ends, the method and the target's bytes. */

/* The next line, without its CRLF. */
static sluice_http_text next_line(sluice_http_text *rest) {
    sluice_http_text line = text_split(rest, '\n');
    line.length--;
    return line;
}

static int parse_version(sluice_http_text version, uint8_t *ret_minor) {
    if (version.length != 8 || memcmp(version.text, "HTTP/", 5) != 0 || version.text[6] != '.' ||
        !http_is_digit((uint8_t)version.text[5]) || !http_is_digit((uint8_t)version.text[7]))
        return -EPROTO;
    if (version.text[5] != '1' || version.text[7] > '1')
        return -EPROTONOSUPPORT;
    *ret_minor = (uint8_t)(version.text[7] - '0');
    return 0;
}

/* reg-name of RFC 3986, section 3.2.2. */
static bool is_registered_name(sluice_http_text name) {
    for (size_t i = 0; i < name.length; i++) {
        uint8_t c = (uint8_t)name.text[i];
        if (c == '%') {
            if (name.length - i < 3 || http_hex_value((uint8_t)name.text[i + 1]) < 0 ||
                http_hex_value((uint8_t)name.text[i + 2]) < 0)
                return false;
            i += 2;
        } else if (!http_is_digit(c) && (http_lower(c) < 'a' || http_lower(c) > 'z') &&
                   (c == '\0' || !strchr("-._~!$&'()*+,;=", c))) {
            return false;
        }
    }
    return true;
}

/* uri-host [":" port] without user information; the host may be empty where the caller lets it. */
static bool is_authority(sluice_http_text text, bool needs_host, bool needs_port) {
    const char *end = text.text + text.length;
    sluice_http_text host;
    if (text.length > 0 && text.text[0] == '[') {
        host = text_split(&text, ']');
        if (host.length < 2 || host.text + host.length == end)
            return false;
        for (size_t i = 1; i < host.length; i++)
            if (http_hex_value((uint8_t)host.text[i]) < 0 && host.text[i] != ':' && host.text[i] != '.')
                return false;
        if (text_split(&text, ':').length > 0)
            return false;
    } else {
        host = text_split(&text, ':');
        if (!is_registered_name(host))
            return false;
    }
    for (size_t i = 0; i < text.length; i++)
        if (!http_is_digit((uint8_t)text.text[i]))
            return false;
    return (host.length > 0 || !needs_host) && (text.length > 0 || !needs_port);
}

/* What is behind "http://" or "https://"; false where the target begins otherwise. */
static bool skip_scheme(sluice_http_text *target) {
    static const char *const schemes[] = {"http://", "https://"};
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(schemes[i]);
        if (target->length > length && text_folds_to((sluice_http_text){target->text, length}, schemes[i])) {
            target->text += length;
            target->length -= length;
            return true;
        }
    }
    return false;
}

/* The four forms of RFC 9112, section 3.2. */
static int split_target(sluice_http_request *request) {
    sluice_http_text rest = request->target;
    request->query = (sluice_http_text){rest.text + rest.length, 0};
    if (text_equals(request->method, "CONNECT")) {
        request->path = request->query;
        return is_authority(rest, true, true) ? 0 : -EPROTO;
    }
    bool is_options = text_equals(request->method, "OPTIONS");
    if (text_equals(rest, "*")) {
        request->path = rest;
        return is_options ? 0 : -EPROTO;
    }
    if (memchr(rest.text, '#', rest.length))
        return -EPROTO;
    if (rest.text[0] != '/') {
        if (!skip_scheme(&rest))
            return -EPROTO;
        size_t length = 0;
        while (length < rest.length && rest.text[length] != '/' && rest.text[length] != '?')
            length++;
        if (!is_authority((sluice_http_text){rest.text, length}, true, false))
            return -EPROTO;
        rest.text += length;
        rest.length -= length;
    }
    bool has_query = rest.length > 0 && memchr(rest.text, '?', rest.length);
    request->path = text_split(&rest, '?');
    request->query = rest;
    if (request->path.length == 0)
        request->path = (sluice_http_text){is_options && !has_query ? "*" : "/", 1};
    return 0;
}

static int parse_request_line(const struct scan *scan, sluice_http_text line, sluice_http_request *request) {
    request->method = (sluice_http_text){line.text, scan->method};
    request->target = (sluice_http_text){line.text + scan->method + 1, scan->target};
    size_t before = scan->method + scan->target + 2;
    int error = parse_version((sluice_http_text){line.text + before, line.length - before}, &request->minor_version);
    return error ? error : split_target(request);
}

static int set_once(const sluice_http_header **field, const sluice_http_header *header) {
    if (*field)
        return -EPROTO;
    *field = header;
    return 0;
}

static int note_field(struct fields *fields, const sluice_http_header *header) {
    if (text_folds_to(header->name, "Host"))
        return set_once(&fields->host, header);
    if (text_folds_to(header->name, "Content-Length"))
        return set_once(&fields->content_length, header);
    if (text_folds_to(header->name, "Transfer-Encoding"))
        return set_once(&fields->transfer_encoding, header);

    bool is_connection = text_folds_to(header->name, "Connection");
    if (!is_connection && !text_folds_to(header->name, "Expect"))
        return 0;
    for (sluice_http_text rest = header->value; rest.length > 0;) {
        sluice_http_text member = text_trimmed(text_split(&rest, ','));
        if (is_connection && text_folds_to(member, "close"))
            fields->close = true;
        else if (is_connection && text_folds_to(member, "keep-alive"))
            fields->keep_alive = true;
        else if (!is_connection && text_folds_to(member, "100-continue"))
            fields->expect_continue = true;
    }
    return 0;
}

/* How the body is delimited (RFC 9112, section 6): whatever two recipients could read in two ways is refused. */
static int parse_body_kind(const struct fields *fields, sluice_http_request *request) {
    if (fields->transfer_encoding) {
        if (fields->content_length || request->minor_version == 0)
            return -EPROTO;
        if (!text_folds_to(fields->transfer_encoding->value, "chunked"))
            return -EOPNOTSUPP;
        request->body = SLUICE_HTTP_BODY_CHUNKED;
    } else if (fields->content_length) {
        request->body = SLUICE_HTTP_BODY_LENGTH;
        return http_parse_length(fields->content_length->value, &request->content_length);
    }
    return 0;
}

static int apply_fields(const struct fields *fields, sluice_http_request *request) {
    if (!fields->host && request->minor_version >= 1)
        return -EPROTO;
    if (fields->host && !is_authority(fields->host->value, false, false))
        return -EPROTO;
    request->keep_alive = !fields->close && (request->minor_version >= 1 || fields->keep_alive);
    request->expect_continue = fields->expect_continue && request->minor_version >= 1;
    return parse_body_kind(fields, request);
}

static int parse_head(sluice_http *http, sluice_http_text rest, sluice_http_request *request) {
    int error = parse_request_line(&http->scan, next_line(&rest), request);
    if (error)
        return error;
    struct fields fields = {0};
    for (;;) {
        sluice_http_text line = next_line(&rest);
        if (line.length == 0)
            break;
        if (request->header_count == SLUICE_HTTP_MAX_HEADERS)
            return -EMSGSIZE;
        sluice_http_header *header = &http->headers[request->header_count++];
        error = http_parse_header(line, header);
        if (!error)
            error = note_field(&fields, header);
        if (error)
            return error;
    }
    request->headers = http->headers;
    return apply_fields(&fields, request);
}

/* The head in one piece: in its block, or gathered in the framer. */
static sluice_http_text head_text(sluice_http *http, const sluice_chain *chain, bool *ret_in_place) {
    size_t length = http->scan.done - http->scan.lead;
    sluice_cursor cursor = cursor_of_chain(chain);
    cursor_skip(&cursor, http->scan.lead);
    size_t here;
    const uint8_t *view = cursor_view(&cursor, &here);
    *ret_in_place = here >= length;
    if (here >= length)
        return (sluice_http_text){(const char *)view, length};
    /* Text, of a bounded length and once a request: not payload, so it is not counted as copied. */
    for (size_t done = 0; done < length;) {
        view = cursor_view(&cursor, &here);
        if (here > length - done)
            here = length - done;
        memcpy(http->text + done, view, here);
        done += here;
        cursor_skip(&cursor, here);
    }
    return (sluice_http_text){http->text, length};
}

static int take_head(sluice_http *http, sluice_chain *chain, sluice_http_request *ret_request) {
    int result = find_head(&http->scan, chain);
    if (result <= 0)
        return result;
    bool in_place;
    sluice_http_text text = head_text(http, chain, &in_place);
    sluice_http_request request = {0};
    int error = parse_head(http, text, &request);
    if (error)
        return error;
    sluice_chain_skip(chain, http->scan.lead);
    if (in_place)
        (void)sluice_chain_take(chain, text.length, &http->held);
    else
        sluice_chain_skip(chain, text.length);
    http->scan = (struct scan){.at = chain_place_of(chain)};
    *ret_request = request;
    return 1;
}

int sluice_http_next(sluice_http *http, sluice_chain *chain, sluice_http_request *ret_request) {
    sluice_slice_release(&http->held);
    if (http->error)
        return http->error;
    int result = take_head(http, chain, ret_request);
    if (result < 0)
        http->error = result;
    return result;
}

unsigned sluice_http_error_status(int error) {
    switch (error) {
    case -EMSGSIZE:
        return 431;
    case -ENAMETOOLONG:
        return 414;
    case -EPROTONOSUPPORT:
        return 505;
    case -EOPNOTSUPP:
        return 501;
    case -ENOBUFS:
    case -ENOMEM:
        return 503;
    default:
        return 400;
    }
}

const sluice_http_header *sluice_http_find(const sluice_http_request *request, const char *name) {
    return http_find_header(request->headers, request->header_count, name);
}
