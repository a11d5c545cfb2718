#include <sluice/http.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "framers/http/http_framer.h"
#include "framers/http/http_header.h"
#include "framers/http/http_text.h"
#include "memory/chain.h"
#include "reader/cursor.h"

int sluice_http_new(sluice_http **ret_http) {
    sluice_http *http = calloc(1, sizeof *http);
    if (!http)
        return -ENOMEM;
    *ret_http = http;
    return 0;
}

void sluice_http_free(sluice_http *http) {
    if (!http)
        return;
    sluice_http_release(http);
    free(http);
}

void sluice_http_release(sluice_http *http) {
    sluice_slice_release(&http->held);
    free(http->headers);
    free(http->text);
    http->headers = NULL;
    http->text = NULL;
}

/* The head in one piece: in its block, or gathered in the framer. 0, -ENOMEM */
static int head_text(sluice_http *http, const sluice_chain *chain, sluice_http_text *ret_text) {
    size_t length = http->scan.search.done - http->scan.lead;
    sluice_cursor cursor = cursor_of_chain(chain);
    cursor_skip(&cursor, http->scan.lead);
    size_t here;
    const uint8_t *view = cursor_view(&cursor, &here);
    if (here >= length) {
        *ret_text = (sluice_http_text){(const char *)view, length};
        return 0;
    }
    http->text = malloc(length);
    if (!http->text)
        return -ENOMEM;
    /* Text, of a bounded length and once a request: not payload, so it is not counted as copied. */
    for (size_t done = 0; done < length;) {
        view = cursor_view(&cursor, &here);
        if (here > length - done)
            here = length - done;
        memcpy(http->text + done, view, here);
        done += here;
        cursor_skip(&cursor, here);
    }
    *ret_text = (sluice_http_text){http->text, length};
    return 0;
}

int http_head_find(sluice_http *http, sluice_chain *chain, enum http_head_kind kind, sluice_http_text *ret_head) {
    sluice_http_release(http);
    if (http->error)
        return http->error;
    int result = http_scan(&http->scan, chain, kind);
    int error = result > 0 ? head_text(http, chain, ret_head) : result;
    if (error < 0)
        return http_head_refuse(http, error);
    return result;
}

void http_head_take(sluice_http *http, sluice_chain *chain, sluice_http_text head) {
    sluice_chain_skip(chain, http->scan.lead);
    if (head.text != http->text)
        (void)sluice_chain_take(chain, head.length, &http->held);
    else
        sluice_chain_skip(chain, head.length);
    http->scan.search.done = 0;
}

int http_head_refuse(sluice_http *http, int error) {
    http->error = error;
    return error;
}

static int set_once(const sluice_http_header **field, const sluice_http_header *header) {
    if (*field)
        return -EPROTO;
    *field = header;
    return 0;
}

static int note_field(struct http_fields *fields, const sluice_http_header *header) {
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

int http_parse_fields(sluice_http *http, sluice_http_text rest, struct http_fields *ret_fields, size_t *ret_count) {
    struct http_fields fields = {0};
    size_t count = 0;
    for (;;) {
        sluice_http_text line = text_line(&rest);
        if (line.length == 0)
            break;
        if (count == SLUICE_HTTP_MAX_HEADERS)
            return -EMSGSIZE;
        if (!http->headers)
            http->headers = malloc(SLUICE_HTTP_MAX_HEADERS * sizeof *http->headers);
        if (!http->headers)
            return -ENOMEM;
        sluice_http_header *header = &http->headers[count++];
        int error = http_parse_header(line, header);
        if (!error)
            error = note_field(&fields, header);
        if (error)
            return error;
    }
    *ret_fields = fields;
    *ret_count = count;
    return 0;
}

int http_parse_body_kind(const struct http_fields *fields, uint8_t minor_version, sluice_http_body_kind *ret_kind,
                         uint64_t *ret_length) {
    if (fields->transfer_encoding) {
        if (fields->content_length || minor_version == 0)
            return -EPROTO;
        if (!text_folds_to(fields->transfer_encoding->value, "chunked"))
            return -EOPNOTSUPP;
        *ret_kind = SLUICE_HTTP_BODY_CHUNKED;
    } else if (fields->content_length) {
        *ret_kind = SLUICE_HTTP_BODY_LENGTH;
        return http_parse_number(fields->content_length->value, INT64_MAX, ret_length);
    }
    return 0;
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
