#include <sluice/resp.h>

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"
#include "framers/resp/resp_line.h"
#include "memory/chain.h"
#include "reader/cursor.h"

/* An incomplete aggregate. */
struct frame {
    uint32_t left; /* elements that have not ended */
    bool is_attribute;
};

/*
 * How far the next reply has been looked through. The chain remembers the block, so that a reply of
 * many blocks is not walked again from its first one whenever a piece arrives.
 */
struct scan {
    /* if it has changed, by other consumers or another stream, the fields below are void */
    chain_place at;
    /* bytes from there to the place: whole lines and bodies, and the received part of a line */
    size_t done;
    size_t body; /* at a body: its bytes with CRLF; 0: at or in a line */
    bool is_verbatim;
    uint32_t elements; /* announced so far */
    uint32_t depth;    /* frames in use */
    struct resp_line line;
};

/* A bulk string with its header consumed. */
struct open_bulk {
    bool is_open;
    bool is_skipping; /* the rest is dropped */
    uint64_t left;    /* bytes of the body to come; behind them CRLF */
};

struct sluice_resp {
    sluice_resp_limits limits;
    int error;   /* what next() returns for good; else 0 */
    size_t need; /* below this many bytes in the chain there is nothing to look at */
    struct open_bulk bulk;
    struct scan scan;
    /* handed out by pointer, so that a consumer's keep() empties this very slice */
    sluice_resp_reply reply;
    struct frame frames[]; /* limits.depth of them */
};

static int set_limits(sluice_resp_limits *limits) {
    if (limits->bulk == 0)
        limits->bulk = SLUICE_RESP_DEFAULT_BULK;
    if (limits->bulk > SIZE_MAX / 4)
        return -EINVAL;
    if (limits->reply == 0) /* what is more than one bulk string needs room too */
        limits->reply = limits->bulk > SLUICE_RESP_DEFAULT_BULK ? 2 * limits->bulk : 2 * SLUICE_RESP_DEFAULT_BULK;
    if (limits->line == 0)
        limits->line = SLUICE_RESP_DEFAULT_LINE;
    if (limits->elements == 0)
        limits->elements = SLUICE_RESP_DEFAULT_ELEMENTS;
    if (limits->depth == 0)
        limits->depth = SLUICE_RESP_DEFAULT_DEPTH;
    return limits->elements > INT32_MAX || limits->depth > SLUICE_RESP_MAX_DEPTH ? -EINVAL : 0;
}

int sluice_resp_new(const sluice_resp_limits *limits, sluice_resp **ret_resp) {
    sluice_resp_limits set;
    int error = SIZED_READ(&set, limits);
    if (!error)
        error = set_limits(&set);
    if (error)
        return error;
    sluice_resp *resp = calloc(1, sizeof *resp + set.depth * sizeof *resp->frames);
    if (!resp)
        return -ENOMEM;
    resp->limits = set;
    resp->need = 1;
    *ret_resp = resp;
    return 0;
}

void sluice_resp_free(sluice_resp *resp) {
    if (!resp)
        return;
    sluice_slice_release(&resp->reply.bytes);
    free(resp);
}

void sluice_resp_reset(sluice_resp *resp) {
    sluice_slice_release(&resp->reply.bytes);
    resp->error = 0;
    resp->need = 1;
    resp->bulk = (struct open_bulk){0};
    resp->scan.at = (chain_place){0};
}

size_t sluice_resp_need(const sluice_resp *resp) {
    return resp->need;
}

/* No arrival is enough any more. */
static int fail(sluice_resp *resp, int error) {
    resp->error = error;
    resp->need = SIZE_MAX;
    return error;
}

/* The search for the end of a reply. Its steps say 1 (the reply is whole), 0 (go on), -EAGAIN or
 * what is wrong. */

static void scan_begin(struct scan *scan, const sluice_chain *chain) {
    scan->at = chain_place_of(chain);
    scan->done = 0;
    scan->body = 0;
    scan->elements = 0;
    scan->depth = 0;
    resp_line_begin(&scan->line);
}

/* A value has ended, and with it the aggregates of which it is the last. */
static int end_value(sluice_resp *resp) {
    struct scan *scan = &resp->scan;
    while (scan->depth > 0) {
        struct frame *frame = &resp->frames[scan->depth - 1];
        if (--frame->left > 0)
            return 0;
        scan->depth--;
        if (frame->is_attribute)
            return 0; /* the value that it belongs to is still to come */
    }
    return 1;
}

static int begin_aggregate(sluice_resp *resp, const struct resp_header *header) {
    struct scan *scan = &resp->scan;
    bool is_attribute = header->type == SLUICE_RESP_ATTRIBUTE;
    if (header->type == SLUICE_RESP_PUSH && scan->depth > 0)
        return -EPROTO;
    if (scan->depth == resp->limits.depth || header->count > resp->limits.elements - scan->elements)
        return -EMSGSIZE;
    if (header->count == 0)
        return is_attribute ? 0 : end_value(resp);
    scan->elements += (uint32_t)header->count;
    resp->frames[scan->depth++] = (struct frame){(uint32_t)header->count, is_attribute};
    return 0;
}

/* A line is whole, and @done bytes of the reply with it. */
static int begin_value(sluice_resp *resp, size_t done) {
    struct scan *scan = &resp->scan;
    struct resp_header header;
    int error = resp_line_parse(&scan->line, &header);
    if (error)
        return error;
    if (done > resp->limits.reply)
        return -EMSGSIZE;
    resp_line_begin(&scan->line);
    if (header.kind == RESP_AGGREGATE)
        return begin_aggregate(resp, &header);
    if (header.body == 0)
        return end_value(resp);
    if (header.body > resp->limits.bulk + RESP_CRLF_SIZE || header.body > resp->limits.reply - done)
        return -EMSGSIZE;
    scan->body = (size_t)header.body;
    scan->is_verbatim = header.type == SLUICE_RESP_VERBATIM;
    return 0;
}

static int read_line(sluice_resp *resp, const sluice_chain *chain, sluice_cursor *cursor) {
    int result = resp_line_read(&resp->scan.line, resp->limits.line, cursor);
    if (result < 0)
        return result;
    if (result > 0)
        return begin_value(resp, chain_length(chain) - cursor_left(cursor));
    resp->need = chain_length(chain) + 1;
    return -EAGAIN;
}

static bool at_crlf(sluice_cursor cursor) {
    uint16_t end = 0;
    return cursor_be16(&cursor, &end) && end == ('\r' << 8 | '\n');
}

static bool at_format(sluice_cursor cursor) {
    uint8_t colon = 0;
    return cursor_skip(&cursor, RESP_FORMAT_SIZE - 1) && cursor_u8(&cursor, &colon) && colon == ':';
}

static int read_body(sluice_resp *resp, const sluice_chain *chain, sluice_cursor *cursor) {
    struct scan *scan = &resp->scan;
    if (cursor_left(cursor) < scan->body) {
        resp->need = chain_length(chain) - cursor_left(cursor) + scan->body;
        return -EAGAIN;
    }
    if (scan->is_verbatim && !at_format(*cursor))
        return -EPROTO;
    cursor_skip(cursor, scan->body - RESP_CRLF_SIZE);
    if (!at_crlf(*cursor))
        return -EPROTO;
    cursor_skip(cursor, RESP_CRLF_SIZE);
    scan->body = 0;
    return end_value(resp);
}

/* Goes on to the end of the reply, or of the chain; @ret_length is the reply's. */
static int scan_reply(sluice_resp *resp, sluice_chain *chain, size_t *ret_length) {
    sluice_cursor cursor = cursor_of_chain_at(chain, resp->scan.done);
    int result = 0;
    while (result == 0)
        result = resp->scan.body > 0 ? read_body(resp, chain, &cursor) : read_line(resp, chain, &cursor);
    if (result == -EAGAIN)
        resp->scan.done = chain_length(chain) - cursor_left(&cursor);
    *ret_length = chain_length(chain) - cursor_left(&cursor);
    return result;
}

static void take_reply(sluice_resp *resp, sluice_chain *chain, size_t length) {
    sluice_resp_reply *reply = &resp->reply;
    (void)sluice_chain_take(chain, length, &reply->bytes);
    reply->elements = (sluice_resp_walk){.rest = reply->bytes, .left = 1};
    sluice_resp_walk_next(&reply->elements, &reply->value);
    resp->need = 1;
}

int sluice_resp_next(sluice_resp *resp, sluice_chain *chain, sluice_resp_reply **ret_reply) {
    sluice_slice_release(&resp->reply.bytes);
    int result = sluice_resp_bulk_close(resp, chain);
    if (result <= 0)
        return result;
    if (!chain_is_at(chain, resp->scan.at)) {
        scan_begin(&resp->scan, chain);
        resp->need = 1;
    }
    if (chain_length(chain) < resp->need)
        return 0;
    size_t length;
    result = scan_reply(resp, chain, &length);
    if (result == -EAGAIN)
        return 0;
    if (result < 0)
        return fail(resp, result);
    take_reply(resp, chain, length);
    *ret_reply = &resp->reply;
    return 1;
}

/* Bulk strings that leave the chain in pieces. */

/* Bytes of the body are done with. */
static void advance(sluice_resp *resp, uint64_t n) {
    resp->bulk.left -= n;
    resp->need = resp->bulk.left > 0 ? 1 : RESP_CRLF_SIZE;
}

/*
 * Reads the header of the bulk string at the chain's front: 1, 0 (it is not whole), -ENOMSG (there
 * is something else), or what is wrong. Always from its first byte: it is short, and the search for
 * a reply's end keeps its own place.
 */
static int read_bulk_header(const sluice_chain *chain, size_t *ret_size, uint64_t *ret_length) {
    sluice_cursor start = cursor_of_chain(chain), cursor = start;
    struct resp_line line;
    struct resp_header header;
    uint8_t type = 0;
    if (cursor_u8(&start, &type) && type != SLUICE_RESP_BULK)
        return resp_kind(type) == RESP_NO_TYPE ? -EPROTO : -ENOMSG;
    resp_line_begin(&line);
    int result = resp_line_read(&line, 0, &cursor);
    if (result <= 0)
        return result;
    int error = resp_line_parse(&line, &header);
    if (error)
        return error;
    if (header.type == SLUICE_RESP_NULL)
        return -ENOMSG;
    *ret_size = chain_length(chain) - cursor_left(&cursor);
    *ret_length = header.body - RESP_CRLF_SIZE;
    return 1;
}

int sluice_resp_bulk_open(sluice_resp *resp, sluice_chain *chain, uint64_t *ret_length) {
    sluice_slice_release(&resp->reply.bytes);
    int result = sluice_resp_bulk_close(resp, chain);
    if (result <= 0)
        return result;
    size_t size;
    uint64_t length;
    result = read_bulk_header(chain, &size, &length);
    if (result == 0)
        resp->need = chain_length(chain) + 1;
    if (result <= 0)
        return result == 0 || result == -ENOMSG ? result : fail(resp, result);
    sluice_chain_skip(chain, size);
    resp->bulk = (struct open_bulk){.is_open = true, .left = length};
    advance(resp, 0);
    *ret_length = length;
    return 1;
}

uint64_t sluice_resp_bulk_left(const sluice_resp *resp) {
    return resp->bulk.left;
}

int sluice_resp_bulk_take(sluice_resp *resp, sluice_chain *chain, size_t max, sluice_slice *ret_slice) {
    if (!resp->bulk.is_open || resp->bulk.is_skipping || max == 0)
        return -EINVAL;
    if (max > chain_length(chain))
        max = chain_length(chain);
    if (max > resp->bulk.left)
        max = (size_t)resp->bulk.left;
    if (max == 0)
        return 0;
    (void)sluice_chain_take(chain, max, ret_slice);
    advance(resp, max);
    return 1;
}

int sluice_resp_bulk_advance(sluice_resp *resp, uint64_t n) {
    if (!resp->bulk.is_open || resp->bulk.is_skipping || n > resp->bulk.left)
        return -EINVAL;
    advance(resp, n);
    return 0;
}

int sluice_resp_bulk_skip(sluice_resp *resp) {
    if (!resp->bulk.is_open)
        return -EINVAL;
    resp->bulk.is_skipping = true;
    return 0;
}

int sluice_resp_bulk_close(sluice_resp *resp, sluice_chain *chain) {
    if (resp->error)
        return resp->error;
    if (!resp->bulk.is_open)
        return 1;
    if (resp->bulk.left > 0 && !resp->bulk.is_skipping)
        return -EBUSY;
    if (resp->bulk.left > 0) {
        size_t here = resp->bulk.left < chain_length(chain) ? (size_t)resp->bulk.left : chain_length(chain);
        sluice_chain_skip(chain, here);
        advance(resp, here);
    }
    if (resp->bulk.left > 0 || chain_length(chain) < resp->need)
        return 0;
    if (!at_crlf(cursor_of_chain(chain)))
        return fail(resp, -EPROTO);
    sluice_chain_skip(chain, RESP_CRLF_SIZE);
    resp->bulk.is_open = false;
    resp->need = 1;
    return 1;
}
