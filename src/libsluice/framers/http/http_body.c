#include <sluice/http.h>

#include <errno.h>

#include "framers/http/http_syntax.h"
#include "memory/pool.h"
#include "reader/cursor.h"

/*
 * Where a chunked body is (RFC 9112, section 7.1). Each byte of the lines around the data makes at
 * most one transition and is consumed with it, so nothing is looked at twice, however it arrives.
 * An error is kept beside the state.
 */
enum chunk_state {
    /* at a size line; set at the beginning and by the LF behind a chunk's data */
    CHUNK_SIZE_FIRST,
    CHUNK_SIZE,       /* set by the first digit */
    CHUNK_SIZE_BLANK, /* set by a blank behind the size: only ";" may end it */
    CHUNK_EXTENSION,  /* set by ";": its text means nothing here and is dropped */
    CHUNK_SIZE_LF,    /* set by the CR of the size line; LF must follow */
    CHUNK_DATA,       /* set by that LF where the size is not 0 */
    CHUNK_DATA_CR,    /* set by the move of the chunk's last byte */
    CHUNK_DATA_LF,    /* set by that CR */
    /* at a line behind the last chunk; set by the LF of the size line 0 and of a trailer line */
    CHUNK_TRAILER_FIRST,
    CHUNK_TRAILER_NAME,  /* set by a name's first character */
    CHUNK_TRAILER_VALUE, /* set by the colon */
    CHUNK_TRAILER_LF,    /* set by the CR of a trailer line */
    CHUNK_LAST_LF,       /* set by the CR of the empty line */
    CHUNK_DONE,          /* set by its LF; what follows in the chain is the next request's */
};

enum {
    MAX_SIZE_DIGITS = 16,
    /* Each chunk costs a view in the target. So many are free; beyond them each must stand for its
     * part of the pool. */
    FREE_VIEWS = 1024,
};

void sluice_http_body_begin(sluice_http_body *body, const sluice_http_request *request, bool until_close) {
    *body = (sluice_http_body){.kind = request->body, .state = CHUNK_SIZE_FIRST};
    if (body->kind == SLUICE_HTTP_BODY_LENGTH)
        body->left = request->content_length;
    else if (body->kind == SLUICE_HTTP_BODY_NONE && until_close)
        body->kind = SLUICE_HTTP_BODY_UNTIL_CLOSE;
}

void sluice_http_body_begin_response(sluice_http_body *body, const sluice_http_response *response) {
    *body = (sluice_http_body){.kind = response->body, .state = CHUNK_SIZE_FIRST};
    if (body->kind == SLUICE_HTTP_BODY_LENGTH)
        body->left = response->content_length;
}

static int size_digit(sluice_http_body *body, uint8_t c) {
    int digit = http_hex_value(c);
    if (digit < 0 || body->line > MAX_SIZE_DIGITS || body->left > (uint64_t)INT64_MAX >> 4)
        return -EPROTO;
    body->left = body->left << 4 | (unsigned)digit;
    return CHUNK_SIZE;
}

/*
 * A blank behind the size is legal only before ";" ("bad whitespace", which a recipient must
 * accept): elsewhere recipients differ about it, so it is refused.
 */
static int size_step(sluice_http_body *body, uint8_t c) {
    switch (body->state) {
    case CHUNK_SIZE_FIRST:
        return size_digit(body, c);
    case CHUNK_SIZE:
        if (http_is_blank(c))
            return CHUNK_SIZE_BLANK;
        if (c == ';')
            return CHUNK_EXTENSION;
        return c == '\r' ? CHUNK_SIZE_LF : size_digit(body, c);
    case CHUNK_SIZE_BLANK:
        if (c == ';')
            return CHUNK_EXTENSION;
        return http_is_blank(c) ? CHUNK_SIZE_BLANK : -EPROTO;
    case CHUNK_EXTENSION:
        if (c == '\r')
            return CHUNK_SIZE_LF;
        return http_is_value_byte(c) ? CHUNK_EXTENSION : -EPROTO;
    default: /* CHUNK_SIZE_LF */
        body->line = 0;
        if (c != '\n')
            return -EPROTO;
        return body->left > 0 ? CHUNK_DATA : CHUNK_TRAILER_FIRST;
    }
}

/* Trailer lines are held to the rules of header lines, and dropped. */
static int trailer_step(const sluice_http_body *body, uint8_t c) {
    switch (body->state) {
    case CHUNK_TRAILER_FIRST:
        if (c == '\r')
            return CHUNK_LAST_LF;
        return http_is_token_char(c) ? CHUNK_TRAILER_NAME : -EPROTO;
    case CHUNK_TRAILER_NAME:
        if (c == ':')
            return CHUNK_TRAILER_VALUE;
        return http_is_token_char(c) ? CHUNK_TRAILER_NAME : -EPROTO;
    case CHUNK_TRAILER_VALUE:
        if (c == '\r')
            return CHUNK_TRAILER_LF;
        return http_is_value_byte(c) ? CHUNK_TRAILER_VALUE : -EPROTO;
    case CHUNK_TRAILER_LF:
        return c == '\n' ? CHUNK_TRAILER_FIRST : -EPROTO;
    default: /* CHUNK_LAST_LF */
        return c == '\n' ? CHUNK_DONE : -EPROTO;
    }
}

/* The state behind this byte, or an error. */
static int chunk_step(sluice_http_body *body, uint8_t c) {
    if (body->state == CHUNK_DATA_CR)
        return c == '\r' ? CHUNK_DATA_LF : -EPROTO;
    if (body->state == CHUNK_DATA_LF)
        return c == '\n' ? CHUNK_SIZE_FIRST : -EPROTO;
    bool in_size = body->state <= CHUNK_SIZE_LF;
    if (++body->line > (in_size ? SLUICE_HTTP_MAX_CHUNK_LINE : SLUICE_HTTP_MAX_HEAD))
        return -EMSGSIZE;
    return in_size ? size_step(body, c) : trailer_step(body, c);
}

/* Consumes the lines around the data, up to the next data, the body's end or the chain's. */
static int skip_lines(sluice_http_body *body, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    while (cursor_left(&cursor) > 0 && body->state != CHUNK_DATA && body->state != CHUNK_DONE) {
        int next = chunk_step(body, cursor_byte(&cursor));
        if (next < 0)
            return next;
        body->state = (uint8_t)next;
    }
    sluice_chain_skip(chain, chain_length(chain) - cursor_left(&cursor));
    return 0;
}

/* Moves @n bytes, or what is there of them. */
static int move_data(sluice_http_body *body, sluice_chain *chain, uint64_t n, sluice_chain *to) {
    size_t here = n < chain_length(chain) ? (size_t)n : chain_length(chain);
    int error = sluice_chain_move(chain, here, to);
    if (!error)
        body->total += here;
    return error;
}

/* More views than the bytes are worth, or they would run out before the blocks do. */
static bool has_too_many_views(const sluice_chain *to) {
    size_t length = sluice_chain_length(to);
    return sluice_chain_blocks(to) >
           FREE_VIEWS + length / pool_bytes_per_view(to->pool) + length / pool_block_size(to->pool);
}

static int move_chunk(sluice_http_body *body, sluice_chain *chain, sluice_chain *to) {
    uint64_t before = body->total;
    int error = move_data(body, chain, body->left, to);
    if (error)
        return error;
    body->left -= body->total - before;
    if (body->left == 0)
        body->state = CHUNK_DATA_CR;
    return has_too_many_views(to) ? -EMSGSIZE : 0;
}

static int read_chunked(sluice_http_body *body, sluice_chain *chain, sluice_chain *to) {
    while (body->state != CHUNK_DONE && chain_length(chain) > 0) {
        int error = body->state == CHUNK_DATA ? move_chunk(body, chain, to) : skip_lines(body, chain);
        if (error)
            return error;
    }
    return body->state == CHUNK_DONE;
}

static int read_body(sluice_http_body *body, sluice_chain *chain, sluice_chain *to) {
    uint64_t before = body->total;
    int error;
    switch (body->kind) {
    case SLUICE_HTTP_BODY_LENGTH:
        error = move_data(body, chain, body->left, to);
        body->left -= body->total - before;
        return error ? error : body->left == 0;
    case SLUICE_HTTP_BODY_CHUNKED:
        return read_chunked(body, chain, to);
    case SLUICE_HTTP_BODY_UNTIL_CLOSE:
        return move_data(body, chain, UINT64_MAX, to);
    default: /* SLUICE_HTTP_BODY_NONE */
        return 1;
    }
}

int sluice_http_body_next(sluice_http_body *body, sluice_chain *chain, sluice_chain *to) {
    if (body->error)
        return body->error;
    int result = read_body(body, chain, to);
    if (result < 0)
        body->error = result;
    return result;
}

unsigned sluice_http_body_error_status(const sluice_http_body *body) {
    bool in_trailer = body->kind == SLUICE_HTTP_BODY_CHUNKED && body->state >= CHUNK_TRAILER_FIRST;
    if (body->error == -EMSGSIZE && !in_trailer)
        return 413;
    return sluice_http_error_status(body->error);
}

int sluice_http_body_end(const sluice_http_body *body) {
    if (body->error)
        return -ECONNRESET;
    switch (body->kind) {
    case SLUICE_HTTP_BODY_LENGTH:
        return body->left == 0 ? 0 : -ECONNRESET;
    case SLUICE_HTTP_BODY_CHUNKED:
        return body->state == CHUNK_DONE ? 0 : -ECONNRESET;
    default: /* complete at once, or ended by the close */
        return 0;
    }
}
