/* The framer of HTTP heads, and what the heads of requests and responses have in common. */
#ifndef SLUICE_FRAMERS_HTTP_FRAMER_H
#define SLUICE_FRAMERS_HTTP_FRAMER_H

#include <stdbool.h>

#include <sluice/http.h>
#include <sluice/slice.h>

#include "framers/http/http_scan.h"

/* Small while no head is held: most connections wait for longer than they are asked. */
struct sluice_http {
    sluice_slice held; /* the block in which the last head was read in place */
    int error;         /* the error that is for good */
    struct http_scan scan;
    /* Of the last head; NULL: none is held, or it has no header lines, or lies in one block. */
    sluice_http_header *headers; /* room for SLUICE_HTTP_MAX_HEADERS */
    char *text;                  /* a head that straddles blocks, put together */
};

/* The headers that say how the message is delimited and what becomes of the connection. */
struct http_fields {
    const sluice_http_header *host;
    const sluice_http_header *content_length;
    const sluice_http_header *transfer_encoding;
    bool close;
    bool keep_alive;
    bool expect_continue;
};

/*
 * Lets go of the last head, and looks for the next one: 1 (all of it is in one piece, in the
 * chain's block or in the framer, and still in the chain), 0 (more is needed), or the error that is
 * for good: -ENOMEM, or as of http_scan().
 */
int http_head_find(sluice_http *http, sluice_chain *chain, enum http_head_kind kind, sluice_http_text *ret_head);

/* Takes the head that was found out of the chain; a block that its text lies in is held. */
void http_head_take(sluice_http *http, sluice_chain *chain, sluice_http_text head);

/* The head that was found is refused, for good. Returns the error. */
int http_head_refuse(sluice_http *http, int error);

/* The header lines up to the empty one, into the framer. 0, -EPROTO, -EMSGSIZE, -ENOMEM */
int http_parse_fields(sluice_http *http, sluice_http_text rest, struct http_fields *ret_fields, size_t *ret_count);

/*
 * How the headers delimit a body (RFC 9112, section 6): whatever two recipients could read in two
 * ways is refused. 0 (@ret_kind and @ret_length are untouched where they do not delimit it),
 * -EPROTO, -EOPNOTSUPP
 */
int http_parse_body_kind(const struct http_fields *fields, uint8_t minor_version, sluice_http_body_kind *ret_kind,
                         uint64_t *ret_length);

#endif
