#include <sluice/http.h>

#include <errno.h>
#include <string.h>

#include "framers/http/http_framer.h"
#include "framers/http/http_header.h"
#include "framers/http/http_text.h"

/* The search has seen to everything up to the byte behind the status code. */
static int parse_status_line(sluice_http_text line, sluice_http_response *response) {
    const char *code = line.text + HTTP_STATUS_SIZE - 3;
    bool has_reason = line.length > HTTP_STATUS_SIZE;
    size_t before = HTTP_STATUS_SIZE + has_reason;
    if (has_reason && code[3] != ' ')
        return -EPROTO;
    response->minor_version = (uint8_t)(line.text[7] - '0');
    response->status = (uint16_t)((code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0'));
    response->reason = (sluice_http_text){line.text + before, line.length - before};
    /* The reason is not used, so other control bytes matter only to a terminal. */
    if (memchr(line.text, '\r', line.length) || memchr(line.text, '\0', line.length))
        return -EPROTO;
    return 0;
}

/*
 * In the order of RFC 9112, section 6.3: for a response without a body because of its status or its
 * request, the other rules do not apply.
 */
static int apply_fields(const struct http_fields *fields, const char *method, sluice_http_response *response) {
    unsigned status = response->status;
    bool connects = method && strcmp(method, "CONNECT") == 0 && status / 100 == 2;
    bool is_bare = method && strcmp(method, "HEAD") == 0;
    response->interim = status / 100 == 1 && status != 101;
    response->switched = status == 101 || connects;
    response->keep_alive = !response->switched && !fields->close &&
                           (response->minor_version >= 1 || fields->keep_alive);
    if (is_bare || connects || status / 100 == 1 || status == 204 || status == 304)
        return 0;
    response->body = SLUICE_HTTP_BODY_UNTIL_CLOSE;
    int error = http_parse_body_kind(fields, response->minor_version, &response->body, &response->content_length);
    if (response->body == SLUICE_HTTP_BODY_UNTIL_CLOSE)
        response->keep_alive = false;
    return error;
}

static int parse_response(sluice_http *http, sluice_http_text rest, const char *method,
                          sluice_http_response *response) {
    struct http_fields fields;
    int error = parse_status_line(text_line(&rest), response);
    if (!error)
        error = http_parse_fields(http, rest, &fields, &response->header_count);
    if (error)
        return error;
    response->headers = http->headers;
    return apply_fields(&fields, method, response);
}

int sluice_http_next_response(sluice_http *http, sluice_chain *chain, const char *method,
                              sluice_http_response *ret_response) {
    sluice_http_text head;
    int result = http_head_find(http, chain, HTTP_RESPONSE, &head);
    if (result <= 0)
        return result;
    sluice_http_response response = {.body = SLUICE_HTTP_BODY_NONE};
    int error = parse_response(http, head, method, &response);
    if (error)
        return http_head_refuse(http, error);
    http_head_take(http, chain, head);
    *ret_response = response;
    return 1;
}

const sluice_http_header *sluice_http_response_find(const sluice_http_response *response, const char *name) {
    return http_find_header(response->headers, response->header_count, name);
}
