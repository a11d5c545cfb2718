#include "tools/http_response.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINE_MOST = 1024 };

int http_response_init(struct http_response *response, sluice_chain *chain) {
    *response = (struct http_response){0};
    int error = sluice_reader_new(chain, &response->reader);
    return error ? error : sluice_headers_new(NULL, &response->headers);
}

void http_response_clear(struct http_response *response) {
    sluice_headers_free(response->headers);
    sluice_reader_free(response->reader);
    *response = (struct http_response){0};
}

/* "HTTP/1.1 200 OK" */
static int read_status(struct http_response *response, const char *line, size_t length) {
    static const char version[] = "HTTP/1.";
    const size_t size = sizeof version - 1;
    if (length < size + 5 || memcmp(line, version, size) != 0 || line[size] < '0' || line[size] > '9' ||
        line[size + 1] != ' ')
        return -EPROTO;
    unsigned status = 0;
    for (size_t i = size + 2; i < size + 5; i++) {
        if (line[i] < '0' || line[i] > '9')
            return -EPROTO;
        status = status * 10 + (unsigned)(line[i] - '0');
    }
    int rest = length > size + 6 ? (int)(length - size - 6) : 0;
    snprintf(response->reason, sizeof response->reason, "%.*s", rest, line + length - rest);
    response->status = status;
    response->has_status = true;
    return 0;
}

static bool is_chunked(const struct http_response *response) {
    const sluice_header *coding = sluice_headers_find(response->headers, "Transfer-Encoding");
    return coding && coding->value_length == 7 && strncasecmp(coding->value, "chunked", 7) == 0;
}

static int begin_body(struct http_response *response) {
    sluice_http_request delimited = {.body = SLUICE_HTTP_BODY_NONE};
    const sluice_header *length = sluice_headers_find(response->headers, "Content-Length");
    char text[24];
    if (is_chunked(response)) {
        delimited.body = SLUICE_HTTP_BODY_CHUNKED;
    } else if (length) {
        char *end;
        snprintf(text, sizeof text, "%.*s", (int)length->value_length, length->value);
        delimited.body = SLUICE_HTTP_BODY_LENGTH;
        delimited.content_length = strtoull(text, &end, 10);
        if (!isdigit((unsigned char)*text) || *end)
            return -EPROTO;
    }
    sluice_http_body_begin(&response->body, &delimited, true);
    return 0;
}

int http_response_next(struct http_response *response) {
    char scratch[LINE_MOST];
    const char *line;
    size_t length;
    int error = 0;
    while (!error) {
        if (!response->has_status) {
            error = sluice_reader_line(response->reader, scratch, sizeof scratch, &line, &length);
            if (!error)
                error = read_status(response, line, length);
            if (error)
                break;
        }
        error = sluice_headers_read(response->headers, response->reader);
        if (error)
            break;
        if (response->status >= 200) {
            error = begin_body(response);
            sluice_headers_clear(response->headers);
            return error ? error : 1;
        }
        response->has_status = false;
    }
    return error == -EAGAIN ? 0 : error;
}
