/* Requests: the parsing of a whole head, in which the search has seen to line ends, method and the
 * target's bytes. */
#include <sluice/http.h>

#include <errno.h>
#include <string.h>

#include "framers/http/http_framer.h"
#include "framers/http/http_header.h"
#include "framers/http/http_text.h"

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

static int parse_request_line(const struct http_scan *scan, sluice_http_text line, sluice_http_request *request) {
    request->method = (sluice_http_text){line.text, scan->method};
    request->target = (sluice_http_text){line.text + scan->method + 1, scan->target};
    size_t before = scan->method + scan->target + 2;
    int error = parse_version((sluice_http_text){line.text + before, line.length - before}, &request->minor_version);
    return error ? error : split_target(request);
}

static int apply_fields(const struct http_fields *fields, sluice_http_request *request) {
    if (!fields->host && request->minor_version >= 1)
        return -EPROTO;
    if (fields->host && !is_authority(fields->host->value, false, false))
        return -EPROTO;
    request->keep_alive = !fields->close && (request->minor_version >= 1 || fields->keep_alive);
    request->expect_continue = fields->expect_continue && request->minor_version >= 1;
    return http_parse_body_kind(fields, request->minor_version, &request->body, &request->content_length);
}

static int parse_request(sluice_http *http, sluice_http_text rest, sluice_http_request *request) {
    struct http_fields fields;
    int error = parse_request_line(&http->scan, text_line(&rest), request);
    if (!error)
        error = http_parse_fields(http, rest, &fields, &request->header_count);
    if (error)
        return error;
    request->headers = http->headers;
    return apply_fields(&fields, request);
}

int sluice_http_next(sluice_http *http, sluice_chain *chain, sluice_http_request *ret_request) {
    sluice_http_text head;
    int result = http_head_find(http, chain, HTTP_REQUEST, &head);
    if (result <= 0)
        return result;
    sluice_http_request request = {.body = SLUICE_HTTP_BODY_NONE};
    int error = parse_request(http, head, &request);
    if (error)
        return http_head_refuse(http, error);
    http_head_take(http, chain, head);
    *ret_request = request;
    return 1;
}

const sluice_http_header *sluice_http_find(const sluice_http_request *request, const char *name) {
    return http_find_header(request->headers, request->header_count, name);
}
