#include <sluice/websocket.h>

#include <errno.h>
#include <stdlib.h>

#include "abi/sized.h"
#include "framers/text/utf8.h"
#include "framers/websocket/websocket_frame.h"
#include "memory/chain.h"
#include "memory/pool.h"
#include "reader/cursor.h"

enum {
    HEADER_START = 2, /* bytes that say how long the header is */
    /* Each frame of a message costs a view. This many are free; beyond them a frame must stand for
     * some bytes. */
    FREE_FRAMES = 1024,
    BYTES_PER_FRAME = 64,
};

enum websocket_state {
    /* at a frame; set by sluice_websocket_new(), and by end_frame() behind one */
    WEBSOCKET_HEADER,
    WEBSOCKET_PAYLOAD, /* the frame's header is known; set by read_header() */
    WEBSOCKET_CLOSED,  /* after a close frame; set by take_close(): received bytes are dropped */
    WEBSOCKET_FAILED,  /* for good; set by fail() */
};

/* The frame at the chain's front. It stays there until it is whole, or a piece of it is taken. */
struct frame {
    sluice_websocket_opcode opcode;
    bool last;
    uint8_t mask[SLUICE_WEBSOCKET_MASK_SIZE];
    uint64_t offset; /* payload bytes that have left the chain */
    uint32_t header; /* bytes of the header, while it is in the chain */
    uint64_t left;   /* payload bytes behind that */
    size_t seen;     /* of these, unmasked and checked */
};

/* The message being received; control frames between its frames do not change it. */
struct message {
    sluice_websocket_opcode opcode; /* CONTINUATION: there is none */
    bool begun;                     /* a piece has been delivered */
    uint64_t length;                /* bytes, by the headers so far */
    uint64_t frames;
    utf8_state text;
};

struct sluice_websocket {
    enum websocket_state state;
    int error;   /* WEBSOCKET_FAILED: what next() returns; else 0 */
    size_t need; /* below this many bytes in the chain next() has nothing to look at */
    uint64_t max_frame, max_message;
    bool masked; /* the peer's frames */
    bool pieces;
    uint16_t close_code;
    struct frame frame;
    struct message message;
    sluice_chain gathered; /* the frames of the message that are complete */
    /* handed out by pointer, so that a consumer's keep() empties this very slice */
    sluice_websocket_message delivery;
};

int sluice_websocket_new(sluice_websocket_role role, const sluice_websocket_options *options,
                         sluice_websocket **ret_websocket) {
    sluice_websocket_options o;
    int error = SIZED_READ(&o, options);
    if (error)
        return error;
    if (role != SLUICE_WEBSOCKET_SERVER && role != SLUICE_WEBSOCKET_CLIENT)
        return -EINVAL;
    if (o.max_frame > PTRDIFF_MAX || o.max_message > PTRDIFF_MAX)
        return -EINVAL;
    sluice_websocket *ws = calloc(1, sizeof *ws);
    if (!ws)
        return -ENOMEM;
    ws->state = WEBSOCKET_HEADER;
    ws->need = HEADER_START;
    ws->masked = role == SLUICE_WEBSOCKET_SERVER;
    ws->pieces = o.pieces;
    ws->max_frame = o.max_frame ? o.max_frame : INT64_MAX;
    ws->max_message = o.max_message ? o.max_message : ws->pieces ? INT64_MAX : SLUICE_WEBSOCKET_DEFAULT_LIMIT;
    *ret_websocket = ws;
    return 0;
}

void sluice_websocket_free(sluice_websocket *ws) {
    if (!ws)
        return;
    sluice_slice_release(&ws->delivery.payload);
    chain_clear(&ws->gathered);
    free(ws);
}

size_t sluice_websocket_need(const sluice_websocket *ws) {
    return ws->need;
}

uint16_t sluice_websocket_close_code(const sluice_websocket *ws) {
    return ws->close_code;
}

static uint16_t code_of_error(int error) {
    switch (error) {
    case -EPROTO:
        return SLUICE_WEBSOCKET_PROTOCOL_ERROR;
    case -EILSEQ:
        return SLUICE_WEBSOCKET_INVALID_DATA;
    case -EMSGSIZE:
        return SLUICE_WEBSOCKET_TOO_BIG;
    default:
        return SLUICE_WEBSOCKET_INTERNAL_ERROR;
    }
}

/* No arrival is enough any more: next() ends at its first comparison. */
static int fail(sluice_websocket *ws, int error) {
    chain_clear(&ws->gathered);
    ws->state = WEBSOCKET_FAILED;
    ws->error = error;
    ws->need = SIZE_MAX;
    ws->close_code = code_of_error(error);
    return error;
}

/* The first two bytes of a header. */
static int check_start(const sluice_websocket *ws, uint8_t first, uint8_t second) {
    uint8_t opcode = first & WEBSOCKET_OPCODE;
    if ((first & WEBSOCKET_RESERVED) || !websocket_is_opcode(opcode))
        return -EPROTO;
    if (!(second & WEBSOCKET_MASKED) != !ws->masked)
        return -EPROTO;
    if (websocket_is_control(opcode))
        return (first & WEBSOCKET_LAST) && (second & WEBSOCKET_LENGTH) <= SLUICE_WEBSOCKET_MAX_CONTROL ? 0 : -EPROTO;
    bool under_way = ws->message.opcode != SLUICE_WEBSOCKET_CONTINUATION;
    return (opcode == SLUICE_WEBSOCKET_CONTINUATION) == under_way ? 0 : -EPROTO;
}

static unsigned length_size(uint8_t code) {
    return code == WEBSOCKET_LENGTH_64 ? 8 : code == WEBSOCKET_LENGTH_16 ? 2 : 0;
}

/* A length is written in the fewest bytes that hold it, and the first bit of eight is 0. */
static bool is_minimal(uint8_t code, uint64_t length) {
    if (code == WEBSOCKET_LENGTH_64)
        return length > UINT16_MAX && length <= INT64_MAX;
    return code != WEBSOCKET_LENGTH_16 || length >= WEBSOCKET_LENGTH_16;
}

/* Counts a data frame in its message, before any of its payload is waited for. */
static int count_frame(sluice_websocket *ws, sluice_websocket_opcode opcode, uint64_t length) {
    struct message *message = &ws->message;
    if (opcode != SLUICE_WEBSOCKET_CONTINUATION)
        *message = (struct message){.opcode = opcode};
    if (length > ws->max_frame || length > ws->max_message - message->length)
        return -EMSGSIZE;
    message->length += length;
    message->frames++;
    return !ws->pieces && message->frames > FREE_FRAMES + message->length / BYTES_PER_FRAME ? -EMSGSIZE : 0;
}

/* Text is looked at as it comes, pieces are delivered so; all else only when the frame is whole. */
static void expect_payload(sluice_websocket *ws) {
    const struct frame *frame = &ws->frame;
    bool as_it_comes = !websocket_is_control(frame->opcode) && frame->left > 0 &&
                       (ws->pieces || ws->message.opcode == SLUICE_WEBSOCKET_TEXT);
    ws->state = WEBSOCKET_PAYLOAD;
    ws->need = frame->header + (as_it_comes ? frame->seen + 1 : (size_t)frame->left);
}

/* The header is read anew when the rest of it has come. */
static int read_header(sluice_websocket *ws, const sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    uint8_t first = cursor_byte(&cursor);
    uint8_t second = cursor_byte(&cursor);
    int error = check_start(ws, first, second);
    if (error)
        return fail(ws, error);

    uint8_t code = second & WEBSOCKET_LENGTH;
    struct frame frame = {.opcode = first & WEBSOCKET_OPCODE, .last = first & WEBSOCKET_LAST, .left = code};
    frame.header = HEADER_START + length_size(code) + (ws->masked ? SLUICE_WEBSOCKET_MASK_SIZE : 0);
    ws->need = frame.header;
    if (sluice_chain_length(chain) < frame.header)
        return 0;
    if (length_size(code) > 0)
        cursor_be(&cursor, length_size(code), &frame.left);
    for (int i = 0; ws->masked && i < SLUICE_WEBSOCKET_MASK_SIZE; i++)
        frame.mask[i] = cursor_byte(&cursor);

    if (!is_minimal(code, frame.left))
        return fail(ws, -EPROTO);
    error = websocket_is_control(frame.opcode) ? 0 : count_frame(ws, frame.opcode, frame.left);
    if (error)
        return fail(ws, error);
    ws->frame = frame;
    expect_payload(ws);
    return 0;
}

/* Unmasks the payload up to its first @n bytes, in place, and checks text; what has been seen is
 * left alone. */
static int look_at(sluice_websocket *ws, sluice_chain *chain, size_t n) {
    struct frame *frame = &ws->frame;
    bool is_text = !websocket_is_control(frame->opcode) && ws->message.opcode == SLUICE_WEBSOCKET_TEXT;
    sluice_cursor cursor = cursor_of_chain_at(chain, frame->header + frame->seen);
    while (frame->seen < n) {
        size_t here = slice_walk_span(&cursor.at);
        if (here > n - frame->seen)
            here = n - frame->seen;
        uint8_t *bytes = cursor.at.block->data + cursor.at.offset;
        if (ws->masked)
            sluice_websocket_mask(bytes, here, frame->mask, frame->offset + frame->seen);
        frame->seen += here;
        if (is_text && !utf8_check(&ws->message.text, bytes, here))
            return -EILSEQ;
        cursor_skip(&cursor, here);
    }
    return 0;
}

static void end_frame(sluice_websocket *ws) {
    ws->state = WEBSOCKET_HEADER;
    ws->need = HEADER_START;
}

/* The frame's header and what has been seen of its payload leave the chain. */
static void take_seen(sluice_websocket *ws, sluice_chain *chain, sluice_slice *ret_slice) {
    struct frame *frame = &ws->frame;
    sluice_chain_skip(chain, frame->header);
    sluice_chain_take(chain, frame->seen, ret_slice);
    frame->header = 0;
    frame->offset += frame->seen;
    frame->left -= frame->seen;
    frame->seen = 0;
}

/*
 * The connection has come to another loop: what has been gathered stays in the blocks in which it
 * is, which are another thread's, and becomes a guest in the new loop's pool.
 */
static int follow_pool(sluice_websocket *ws, sluice_pool *pool) {
    sluice_chain followed;
    sluice_slice gathered;
    chain_init(&followed, pool);
    (void)sluice_chain_take(&ws->gathered, chain_length(&ws->gathered), &gathered);
    int error = sluice_chain_append_slice(&followed, &gathered);
    sluice_slice_release(&gathered);
    ws->gathered = followed;
    return error;
}

/* A frame that is complete, of a message that has others. */
static int gather(sluice_websocket *ws, sluice_chain *chain) {
    if (!ws->gathered.pool)
        chain_init(&ws->gathered, chain->pool);
    int error = pool_is_one(ws->gathered.pool, chain->pool) ? 0 : follow_pool(ws, chain->pool);
    if (error)
        return error;
    sluice_chain_skip(chain, ws->frame.header);
    return sluice_chain_move(chain, ws->frame.seen, &ws->gathered);
}

static int deliver(sluice_websocket *ws, sluice_websocket_opcode opcode, bool first, bool last) {
    ws->delivery.opcode = opcode;
    ws->delivery.first = first;
    ws->delivery.last = last;
    ws->delivery.close_code = 0;
    return 1;
}

/* What there is of a data frame. */
static int take_piece(sluice_websocket *ws, sluice_chain *chain, bool whole) {
    struct message *message = &ws->message;
    bool first = !message->begun, last = whole && ws->frame.last;
    bool empty = ws->frame.seen == 0;
    take_seen(ws, chain, &ws->delivery.payload);
    if (whole)
        end_frame(ws);
    else
        expect_payload(ws);
    if (empty && !last)
        return 0;
    message->begun = true;
    int result = deliver(ws, message->opcode, first, last);
    if (last)
        message->opcode = SLUICE_WEBSOCKET_CONTINUATION;
    return result;
}

/* A data frame that is complete. */
static int take_data(sluice_websocket *ws, sluice_chain *chain) {
    struct message *message = &ws->message;
    end_frame(ws);
    if (ws->frame.last && message->frames == 1) {
        take_seen(ws, chain, &ws->delivery.payload);
    } else {
        int error = gather(ws, chain);
        if (error)
            return fail(ws, error);
        if (!ws->frame.last)
            return 0;
        sluice_chain_take(&ws->gathered, sluice_chain_length(&ws->gathered), &ws->delivery.payload);
    }
    int result = deliver(ws, message->opcode, true, true);
    message->opcode = SLUICE_WEBSOCKET_CONTINUATION;
    return result;
}

/* A close frame that is complete: a code, which goes the way of the header, and a reason; or
 * neither. */
static int take_close(sluice_websocket *ws, sluice_chain *chain) {
    uint16_t code = SLUICE_WEBSOCKET_NO_STATUS;
    if (ws->frame.seen > 0) {
        sluice_cursor cursor = cursor_of_chain(chain);
        cursor_skip(&cursor, ws->frame.header);
        if (ws->frame.seen < WEBSOCKET_CODE_SIZE || !cursor_be16(&cursor, &code) ||
            !sluice_websocket_is_close_code(code))
            return fail(ws, -EPROTO);
        ws->frame.header += WEBSOCKET_CODE_SIZE;
        ws->frame.seen -= WEBSOCKET_CODE_SIZE;
        utf8_state reason = {0};
        for (size_t i = 0; i < ws->frame.seen; i++) {
            uint8_t byte = cursor_byte(&cursor);
            if (!utf8_check(&reason, &byte, 1))
                return fail(ws, -EILSEQ);
        }
        if (!utf8_is_complete(&reason))
            return fail(ws, -EILSEQ);
    }
    take_seen(ws, chain, &ws->delivery.payload);
    chain_clear(&ws->gathered);
    ws->state = WEBSOCKET_CLOSED;
    ws->need = 1;
    ws->close_code = code;
    deliver(ws, SLUICE_WEBSOCKET_CLOSE, true, true);
    ws->delivery.close_code = code;
    return 1;
}

static int take_control(sluice_websocket *ws, sluice_chain *chain) {
    if (ws->frame.opcode == SLUICE_WEBSOCKET_CLOSE)
        return take_close(ws, chain);
    take_seen(ws, chain, &ws->delivery.payload);
    end_frame(ws);
    return deliver(ws, ws->frame.opcode, true, true);
}

static int read_payload(sluice_websocket *ws, sluice_chain *chain) {
    const struct frame *frame = &ws->frame;
    size_t there = sluice_chain_length(chain) - frame->header;
    bool whole = there >= frame->left;
    int error = look_at(ws, chain, whole ? (size_t)frame->left : there);
    if (error)
        return fail(ws, error);
    if (websocket_is_control(frame->opcode))
        return take_control(ws, chain);
    if (whole && frame->last && !utf8_is_complete(&ws->message.text))
        return fail(ws, -EILSEQ);
    if (ws->pieces)
        return take_piece(ws, chain, whole);
    if (whole)
        return take_data(ws, chain);
    expect_payload(ws);
    return 0;
}

int sluice_websocket_next(sluice_websocket *ws, sluice_chain *chain, sluice_websocket_message **ret_message) {
    sluice_slice_release(&ws->delivery.payload);
    /* Each round raises the need or consumes. */
    while (sluice_chain_length(chain) >= ws->need) {
        int result = 0;
        if (ws->state == WEBSOCKET_HEADER)
            result = read_header(ws, chain);
        else if (ws->state == WEBSOCKET_PAYLOAD)
            result = read_payload(ws, chain);
        else
            sluice_chain_skip(chain, sluice_chain_length(chain));
        if (result > 0)
            *ret_message = &ws->delivery;
        if (result != 0)
            return result;
    }
    return ws->error;
}
