/* The head of an HTTP response, read from a chain: what a client needs to know before the body. */
#ifndef TOOLS_HTTP_RESPONSE_H
#define TOOLS_HTTP_RESPONSE_H

#include <sluice/chain.h>
#include <sluice/headers.h>
#include <sluice/http.h>
#include <sluice/reader.h>

struct http_response {
    sluice_reader *reader;
    sluice_headers *headers;
    bool has_status;
    unsigned status;
    char reason[64];       /* behind the status; any bytes */
    sluice_http_body body; /* once the head is there: ready for sluice_http_body_next() */
};

/* 0, -ENOMEM; to be cleared in any case. */
int http_response_init(struct http_response *response, sluice_chain *chain);
void http_response_clear(struct http_response *response);

/*
 * Takes the head out of the chain, and interim responses (1xx) before it. 1 (it is there), 0 (more is needed), or for
 * good: -EPROTO (no HTTP response), -EMSGSIZE (over a limit), -ENOMEM
 */
int http_response_next(struct http_response *response);

#endif
