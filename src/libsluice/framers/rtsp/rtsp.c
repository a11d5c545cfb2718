#include <sluice/rtsp.h>

#include <errno.h>
#include <stdlib.h>

#include <sluice/bytes.h>

#include "abi/sized.h"
#include "framers/http/http_header.h"
#include "framers/http/http_text.h"
#include "framers/rtsp/rtsp_line.h"
#include "memory/chain.h"
#include "reader/cursor.h"
#include "reader/header_lines.h"

enum {
    DEFAULT_HEAD = 16384,
    DEFAULT_URL = 2048,
    DEFAULT_HEADERS = 255,
    DEFAULT_KEY = 512,
    DEFAULT_VALUE = 2048,
    DEFAULT_BODY = 128 << 10,
    MOST_TEXT = 1 << 20,
    MOST_HEADERS = 10000,
    CHANNELS = 256,
    /* of a start line but the URL: two spaces, version, CR and LF */
    REST_OF_LINE = SLUICE_RTSP_MAX_METHOD + 12,
    RTP_VERSION = 2, /* in the first two bits of RTP and RTCP packets */
};

enum rtsp_state {
    /* at a message, or CR and LF before it; set by expect_message(), by skip_lost() at a
     * candidate */
    RTSP_START,
    RTSP_HEAD, /* looking for the end of a head; set by read_start() */
    /* the head is read and still in the chain; set by read_head(): waits for the body */
    RTSP_BODY,
    /* inside a dropped body; set by sluice_rtsp_drop_body(): received bytes are not held */
    RTSP_DROP,
    RTSP_LOST,   /* in bytes that belong to no message; set by lose() */
    RTSP_FAILED, /* for good; set by fail() */
};

struct sluice_rtsp {
    enum rtsp_state state;
    int error;   /* RTSP_FAILED: what next() returns; else 0 */
    size_t need; /* below this many bytes in the chain next() has nothing to look at */
    sluice_rtsp_options limits;
    size_t empty; /* bytes of CR and LF before the message */
    /* bytes before it that belonged to none; while not 0, what looks like a message may not be
     * one */
    size_t skipped;
    uint32_t refused; /* false beginnings among them that took a look at more than a few bytes */

    /* RTSP_HEAD, RTSP_BODY: the head, as long as nothing else is consumed. */
    chain_place at;
    header_search search;
    bool has_length;
    uint64_t content_length;
    uint64_t to_drop;  /* RTSP_DROP: bytes of the head and the body still to come */
    sluice_bytes text; /* a head that straddles blocks or has folded lines; else empty */

    sluice_slice held; /* the block in which the last head was read in place */
    /* handed out by pointer, so that a consumer's keep() empties this very slice */
    sluice_rtsp_message message;
    /* as many as its head has lines: sessions send few messages and last for long */
    sluice_http_header *headers;
};

static uint32_t or_default(uint32_t value, uint32_t fallback) {
    return value ? value : fallback;
}

static void expect_message(sluice_rtsp *rtsp) {
    rtsp->state = RTSP_START;
    rtsp->need = 1;
    rtsp->empty = 0;
    rtsp->skipped = 0;
    rtsp->refused = 0;
}

int sluice_rtsp_new(const sluice_rtsp_options *options, sluice_rtsp **ret_rtsp) {
    sluice_rtsp_options limits;
    int error = SIZED_READ(&limits, options);
    if (error)
        return error;
    limits.max_head = or_default(limits.max_head, DEFAULT_HEAD);
    limits.max_url = or_default(limits.max_url, DEFAULT_URL);
    limits.max_headers = or_default(limits.max_headers, DEFAULT_HEADERS);
    limits.max_key = or_default(limits.max_key, DEFAULT_KEY);
    limits.max_value = or_default(limits.max_value, DEFAULT_VALUE);
    limits.max_body = or_default(limits.max_body, DEFAULT_BODY);
    if (limits.channels == 0)
        limits.channels = CHANNELS;
    if (limits.max_head > MOST_TEXT || limits.max_url > MOST_TEXT || limits.max_headers > MOST_HEADERS)
        return -EINVAL;
    sluice_rtsp *rtsp = calloc(1, sizeof *rtsp);
    if (!rtsp)
        return -ENOMEM;
    rtsp->limits = limits;
    sluice_bytes_init(&rtsp->text, limits.max_head);
    expect_message(rtsp);
    *ret_rtsp = rtsp;
    return 0;
}

static void drop_headers(sluice_rtsp *rtsp) {
    free(rtsp->headers);
    rtsp->headers = NULL;
}

void sluice_rtsp_free(sluice_rtsp *rtsp) {
    if (!rtsp)
        return;
    drop_headers(rtsp);
    sluice_slice_release(&rtsp->message.payload);
    sluice_slice_release(&rtsp->held);
    sluice_bytes_free(&rtsp->text);
    free(rtsp);
}

void sluice_rtsp_set_channels(sluice_rtsp *rtsp, uint16_t channels) {
    rtsp->limits.channels = channels;
}

size_t sluice_rtsp_need(const sluice_rtsp *rtsp) {
    return rtsp->need;
}

/* No arrival is enough any more: next() ends at its first comparison. */
static int fail(sluice_rtsp *rtsp, int error) {
    rtsp->state = RTSP_FAILED;
    rtsp->error = error;
    rtsp->need = SIZE_MAX;
    return error;
}

/* What begins here is no message: its first byte is dropped, where the limits let it, and a place
 * to go on sought. */
static int lose(sluice_rtsp *rtsp, sluice_chain *chain) {
    if (rtsp->skipped >= rtsp->limits.max_skip)
        return fail(rtsp, -EPROTO);
    sluice_chain_skip(chain, 1);
    rtsp->skipped++;
    rtsp->state = RTSP_LOST;
    rtsp->need = 1;
    return 0;
}

/* The same after a look at more than a few bytes: only so often, or the looks would outweigh the
 * bytes. */
static int refuse(sluice_rtsp *rtsp, sluice_chain *chain) {
    if (rtsp->refused == SLUICE_RTSP_MAX_REFUSED)
        return fail(rtsp, -EPROTO);
    rtsp->refused++;
    return lose(rtsp, chain);
}

/* A text message that cannot be. While skipping, what looked like a start line need not have been
 * one. */
static int refuse_text(sluice_rtsp *rtsp, sluice_chain *chain, int error) {
    bool is_limit = error != -EPROTO && error != -ENAMETOOLONG && error != -EPROTONOSUPPORT;
    if (is_limit || (error != -EPROTO && rtsp->skipped == 0))
        return fail(rtsp, error);
    return refuse(rtsp, chain);
}

/* Up to n bytes at the cursor. */
static size_t peek(sluice_cursor cursor, char *to, size_t n) {
    size_t i = 0;
    while (i < n && cursor_left(&cursor) > 0)
        to[i++] = (char)cursor_byte(&cursor);
    return i;
}

/* Drops bytes up to one with which a message may begin. */
static int skip_lost(sluice_rtsp *rtsp, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    size_t room = rtsp->limits.max_skip - rtsp->skipped, n = 0;
    enum rtsp_begins begins = RTSP_BEGINS_NOTHING;
    char word[RTSP_TELLING];
    size_t seen = 0;
    for (; cursor_left(&cursor) > 0; n++) {
        seen = peek(cursor, word, 1);
        if (word[0] >= 'A' && word[0] <= 'T') {
            seen = peek(cursor, word, sizeof word);
            begins = rtsp_begins(word, seen);
        }
        if (word[0] == '$' || begins != RTSP_BEGINS_NOTHING)
            break;
        if (n == room) {
            sluice_chain_skip(chain, n);
            return fail(rtsp, -EPROTO);
        }
        cursor_skip(&cursor, 1);
    }
    bool maybe = cursor_left(&cursor) > 0;
    sluice_chain_skip(chain, n);
    rtsp->skipped += n;
    if (maybe && begins != RTSP_BEGINS_MAYBE)
        rtsp->state = RTSP_START;
    rtsp->need = begins == RTSP_BEGINS_MAYBE ? seen + 1 : 1;
    return 0;
}

/* Whether the bytes behind an interleaved frame of @n bytes may begin a message. */
static bool may_follow(const sluice_chain *chain, size_t n) {
    sluice_cursor cursor = cursor_of_chain(chain);
    cursor_skip(&cursor, SLUICE_RTSP_INTERLEAVED_SIZE + n);
    char c = (char)cursor_byte(&cursor);
    return c == '$' || c == '\r' || c == '\n' || rtsp_begins(&c, 1) != RTSP_BEGINS_NOTHING;
}

/* "$" in bytes that belong to no message: 1 (taken for a frame), 0 (more is needed, or it was
 * refused). */
static int believe_interleaved(sluice_rtsp *rtsp, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    uint64_t header;
    uint8_t first;
    rtsp->need = SLUICE_RTSP_INTERLEAVED_SIZE + 1;
    if (!cursor_be(&cursor, SLUICE_RTSP_INTERLEAVED_SIZE, &header) || !cursor_u8(&cursor, &first))
        return 0;
    size_t length = header & 0xFFFF;
    if ((header >> 16 & 0xFF) >= rtsp->limits.channels || length == 0 || first >> 6 != RTP_VERSION)
        return lose(rtsp, chain);
    rtsp->need = SLUICE_RTSP_INTERLEAVED_SIZE + length + 1;
    if (chain_length(chain) < rtsp->need)
        return 0;
    return may_follow(chain, length) ? 1 : refuse(rtsp, chain);
}

static int read_interleaved(sluice_rtsp *rtsp, sluice_chain *chain) {
    if (rtsp->skipped > 0) {
        int result = believe_interleaved(rtsp, chain);
        if (result <= 0)
            return result;
    }
    sluice_cursor cursor = cursor_of_chain(chain);
    uint64_t header;
    rtsp->need = SLUICE_RTSP_INTERLEAVED_SIZE;
    if (!cursor_be(&cursor, SLUICE_RTSP_INTERLEAVED_SIZE, &header))
        return 0;
    size_t length = header & 0xFFFF;
    rtsp->need += length;
    if (chain_length(chain) < rtsp->need)
        return 0;
    rtsp->message = (sluice_rtsp_message){
        .kind = SLUICE_RTSP_INTERLEAVED, .channel = (uint8_t)(header >> 16), .cseq = -1, .skipped = rtsp->skipped};
    sluice_chain_skip(chain, SLUICE_RTSP_INTERLEAVED_SIZE);
    sluice_chain_take(chain, length, &rtsp->message.payload);
    expect_message(rtsp);
    return 1;
}

/* Drops line ends, and determines the kind of the message from its first byte. */
static int read_start(sluice_rtsp *rtsp, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain(chain);
    uint8_t first = 0;
    size_t n = 0;
    while (cursor_u8(&cursor, &first) && (first == '\r' || first == '\n')) {
        if (rtsp->empty + n == SLUICE_RTSP_MAX_EMPTY) {
            sluice_chain_skip(chain, n);
            return fail(rtsp, -EPROTO);
        }
        n++;
    }
    rtsp->empty += n;
    sluice_chain_skip(chain, n);
    if (chain_length(chain) == 0)
        return 0;
    if (first == '$')
        return read_interleaved(rtsp, chain);
    if (!http_is_token_char(first))
        return lose(rtsp, chain);
    rtsp->state = RTSP_HEAD;
    rtsp->at = chain_place_of(chain);
    rtsp->search = (header_search){0};
    return 0;
}

/* The first @n bytes in one piece: in their block, or gathered; @own asks for bytes that may be
 * changed. */
static int gather(sluice_rtsp *rtsp, const sluice_chain *chain, size_t n, bool own, sluice_http_text *ret_text) {
    sluice_cursor cursor = cursor_of_chain(chain);
    size_t here;
    const uint8_t *view = cursor_view(&cursor, &here);
    sluice_bytes_clear(&rtsp->text);
    if (here >= n && !own) {
        *ret_text = (sluice_http_text){(const char *)view, n};
        return 0;
    }
    for (size_t left = n; left > 0; left -= here) {
        view = cursor_view(&cursor, &here);
        if (here > left)
            here = left;
        int error = sluice_bytes_append(&rtsp->text, view, here);
        if (error)
            return error;
        cursor_skip(&cursor, here);
    }
    *ret_text = (sluice_http_text){(const char *)sluice_bytes_view(&rtsp->text), n};
    return 0;
}

/* The start line is all that the search has gone over: what is wrong with it is said before the
 * rest has come. */
static int check_start_line(sluice_rtsp *rtsp, const sluice_chain *chain) {
    sluice_http_text line;
    sluice_rtsp_message message = {0};
    int error = gather(rtsp, chain, rtsp->search.done, false, &line);
    return error ? error : rtsp_parse_start_line(text_line(&line), rtsp->limits.max_url, &message);
}

/* Bytes that the search may go over next. */
static size_t search_room(const sluice_rtsp *rtsp) {
    size_t most = rtsp->limits.max_head;
    if (rtsp->search.lines == 0 && most > rtsp->limits.max_url + REST_OF_LINE)
        most = rtsp->limits.max_url + REST_OF_LINE;
    return most - rtsp->search.done;
}

static int search_piece(sluice_rtsp *rtsp, const sluice_chain *chain, const uint8_t *bytes, size_t n) {
    if (rtsp->search.lines > 0)
        return header_search_bytes(&rtsp->search, rtsp->limits.max_headers + 1, bytes, n);
    const uint8_t *end = memchr(bytes, '\n', n);
    header_search_bytes(&rtsp->search, 1, bytes, end ? (size_t)(end - bytes) + 1 : n);
    return end ? check_start_line(rtsp, chain) : 0;
}

/* Goes on with the search: 1 (search.done bytes end with the empty line), 0 (it has not come), or
 * an error. */
static int find_end(sluice_rtsp *rtsp, sluice_chain *chain) {
    sluice_cursor cursor = cursor_of_chain_at(chain, rtsp->search.done);
    while (cursor_left(&cursor) > 0) {
        size_t here, before = rtsp->search.done, room = search_room(rtsp);
        const uint8_t *bytes = cursor_view(&cursor, &here);
        int result = search_piece(rtsp, chain, bytes, here < room ? here : room);
        if (result)
            return result;
        if (search_room(rtsp) == 0)
            return rtsp->search.lines == 0 ? -ENAMETOOLONG : -EMSGSIZE;
        cursor_skip(&cursor, rtsp->search.done - before);
    }
    return 0;
}

/* The headers that the framer itself needs. */
static int note_header(sluice_rtsp *rtsp, const sluice_http_header *header) {
    uint64_t number;
    if (text_folds_to(header->name, "CSeq")) {
        bool is_number = !http_parse_number(header->value, UINT32_MAX, &number);
        if (rtsp->message.cseq < 0 && is_number)
            rtsp->message.cseq = (int64_t)number;
    } else if (text_folds_to(header->name, "Content-Length")) {
        if (http_parse_number(header->value, INT64_MAX, &number) ||
            (rtsp->has_length && number != rtsp->content_length))
            return -EPROTO;
        rtsp->has_length = true;
        rtsp->content_length = number;
    }
    return 0;
}

static int parse_header(sluice_rtsp *rtsp, sluice_http_text line) {
    sluice_http_header *header = &rtsp->headers[rtsp->message.header_count++];
    int error = http_parse_header(line, header);
    if (error)
        return error;
    if (header->name.length > rtsp->limits.max_key || header->value.length > rtsp->limits.max_value)
        return -EMSGSIZE;
    return note_header(rtsp, header);
}

/* The search has seen to it that there are no more lines than there is room for. */
static int parse_head(sluice_rtsp *rtsp, sluice_http_text head) {
    drop_headers(rtsp);
    rtsp->headers = calloc(rtsp->search.lines, sizeof *rtsp->headers);
    if (!rtsp->headers)
        return -ENOMEM;
    rtsp->message = (sluice_rtsp_message){.cseq = -1, .skipped = rtsp->skipped, .headers = rtsp->headers};
    rtsp->has_length = false;
    rtsp->content_length = 0;
    int error = rtsp_parse_start_line(text_line(&head), rtsp->limits.max_url, &rtsp->message);
    for (sluice_http_text line = text_line(&head); !error && line.length > 0; line = text_line(&head))
        error = parse_header(rtsp, line);
    if (error)
        return error;
    return rtsp->content_length > rtsp->limits.max_body ? -EFBIG : 0;
}

static int read_head(sluice_rtsp *rtsp, sluice_chain *chain) {
    int result = find_end(rtsp, chain);
    if (result == 0) {
        rtsp->need = rtsp->search.done + 1;
        return 0;
    }
    sluice_http_text head;
    if (result > 0)
        result = gather(rtsp, chain, rtsp->search.done, rtsp->search.folded, &head);
    if (result == 0) {
        /* What is folded has been gathered: the bytes are the framer's own. */
        if (rtsp->search.folded)
            header_unfold((char *)head.text, head.length);
        result = parse_head(rtsp, head);
    }
    if (result < 0)
        return refuse_text(rtsp, chain, result);
    rtsp->message.body_length = (size_t)rtsp->content_length;
    rtsp->state = RTSP_BODY;
    rtsp->need = rtsp->search.done + rtsp->content_length;
    return 0;
}

/* The head is read and the body is there. */
static int take_message(sluice_rtsp *rtsp, sluice_chain *chain) {
    if (sluice_bytes_length(&rtsp->text) > 0)
        sluice_chain_skip(chain, rtsp->search.done);
    else
        sluice_chain_take(chain, rtsp->search.done, &rtsp->held);
    sluice_chain_take(chain, rtsp->content_length, &rtsp->message.payload);
    expect_message(rtsp);
    return 1;
}

static int drop_body(sluice_rtsp *rtsp, sluice_chain *chain) {
    rtsp->to_drop -= sluice_chain_skip(chain, rtsp->to_drop);
    if (rtsp->to_drop == 0)
        expect_message(rtsp);
    return 0;
}

static int step(sluice_rtsp *rtsp, sluice_chain *chain) {
    switch (rtsp->state) {
    case RTSP_START:
        return read_start(rtsp, chain);
    case RTSP_HEAD:
        return read_head(rtsp, chain);
    case RTSP_BODY:
        return take_message(rtsp, chain);
    case RTSP_DROP:
        return drop_body(rtsp, chain);
    default: /* RTSP_LOST; RTSP_FAILED needs more than there can be */
        return skip_lost(rtsp, chain);
    }
}

void sluice_rtsp_release(sluice_rtsp *rtsp) {
    sluice_slice_release(&rtsp->message.payload);
    sluice_slice_release(&rtsp->held);
}

int sluice_rtsp_next(sluice_rtsp *rtsp, sluice_chain *chain, sluice_rtsp_message **ret_message) {
    sluice_rtsp_release(rtsp);
    if (rtsp->headers && rtsp->state != RTSP_BODY)
        drop_headers(rtsp);
    bool in_text = rtsp->state == RTSP_HEAD || rtsp->state == RTSP_BODY;
    if (in_text && !chain_is_at(chain, rtsp->at))
        expect_message(rtsp);
    /* Each round raises the need or consumes, or goes from one state to the next. */
    while (chain_length(chain) >= rtsp->need) {
        int result = step(rtsp, chain);
        if (result > 0)
            *ret_message = &rtsp->message;
        if (result != 0)
            return result;
    }
    return rtsp->error;
}

const sluice_rtsp_message *sluice_rtsp_head(const sluice_rtsp *rtsp) {
    return rtsp->state == RTSP_BODY ? &rtsp->message : NULL;
}

void sluice_rtsp_drop_body(sluice_rtsp *rtsp) {
    if (rtsp->state != RTSP_BODY)
        return;
    rtsp->to_drop = rtsp->search.done + rtsp->content_length;
    rtsp->state = RTSP_DROP;
    rtsp->need = 1;
}

unsigned sluice_rtsp_error_status(int error) {
    switch (error) {
    case -EFBIG:
        return 413;
    case -ENAMETOOLONG:
        return 414;
    case -EPROTONOSUPPORT:
        return 505;
    case -ENOMEM:
        return 503;
    default:
        return 400;
    }
}

const sluice_http_header *sluice_rtsp_find(const sluice_rtsp_message *message, const char *name) {
    return http_find_header(message->headers, message->header_count, name);
}
