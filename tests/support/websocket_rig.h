/* Streams of WebSocket frames that are made for a test, and what the framer makes of them. */
#ifndef SLUICE_TESTS_SUPPORT_WEBSOCKET_RIG_H
#define SLUICE_TESTS_SUPPORT_WEBSOCKET_RIG_H

#include <sluice/websocket.h>

#include <stdlib.h>
#include <string.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/feed.h"

enum {
    LAST = 0x80,
    TEXT = SLUICE_WEBSOCKET_TEXT,
    BINARY = SLUICE_WEBSOCKET_BINARY,
    MORE = SLUICE_WEBSOCKET_CONTINUATION,
    CLOSE = SLUICE_WEBSOCKET_CLOSE,
    PING = SLUICE_WEBSOCKET_PING,
    PONG = SLUICE_WEBSOCKET_PONG,
    SERVER = SLUICE_WEBSOCKET_SERVER,
    CLIENT = SLUICE_WEBSOCKET_CLIENT,
    MAX_EVENTS = 256,
};

static const sluice_websocket_options as_messages = {.size = sizeof as_messages};
static const sluice_websocket_options as_pieces = {.size = sizeof as_pieces, .pieces = true};

/* ---- Making streams ---- */

/* Bytes of any number. */
struct buffer {
    uint8_t *bytes;
    size_t size, room;
};

static inline void buffer_add(struct buffer *buffer, const void *bytes, size_t size) {
    if (size > buffer->room - buffer->size) {
        buffer->room = 2 * buffer->room + size;
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        assert_non_null(buffer->bytes);
    }
    if (size > 0)
        memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static inline void buffer_free(struct buffer *buffer) {
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

/* What a peer sends; who reads it decides whether it is masked. */
struct vector {
    sluice_websocket_role reader;
    struct buffer buffer;
};

/* A header whose length is written in @extended bytes more: 0, 2 or 8. Returns the place of the key
 * in the stream. */
static inline size_t add_header(struct vector *vector, uint8_t first, unsigned extended, uint64_t length) {
    struct buffer *buffer = &vector->buffer;
    bool masked = vector->reader == SLUICE_WEBSOCKET_SERVER;
    uint8_t code = extended == 8 ? 127 : extended == 2 ? 126 : (uint8_t)length;
    const uint8_t start[] = {first, (uint8_t)((masked ? 0x80 : 0) | code)};
    buffer_add(buffer, start, sizeof start);
    while (extended > 0) {
        uint8_t byte = (uint8_t)(length >> (8 * --extended));
        buffer_add(buffer, &byte, 1);
    }
    size_t at = buffer->size;
    const uint8_t key[] = {(uint8_t)(at * 31 + 7), (uint8_t)(at * 101), (uint8_t)~at, (uint8_t)(at ^ 0x5A)};
    if (masked)
        buffer_add(buffer, key, sizeof key);
    return at;
}

static inline void add_payload(struct vector *vector, size_t key, const void *payload, size_t size) {
    struct buffer *buffer = &vector->buffer;
    size_t at = buffer->size;
    buffer_add(buffer, payload, size);
    if (vector->reader == SLUICE_WEBSOCKET_SERVER)
        for (size_t i = 0; i < size; i++)
            buffer->bytes[at + i] ^= buffer->bytes[key + i % 4];
}

static inline void add_frame(struct vector *vector, unsigned first, const void *payload, size_t size) {
    unsigned extended = size > 65535 ? 8 : size > 125 ? 2 : 0;
    size_t key = add_header(vector, (uint8_t)first, extended, size);
    add_payload(vector, key, payload, size);
}

static inline void add_text(struct vector *vector, unsigned first, const char *text) {
    add_frame(vector, first, text, strlen(text));
}

/* A frame of bytes that differ. */
static inline void add_filled(struct vector *vector, unsigned first, size_t size) {
    uint8_t *payload = malloc(size + 1);
    assert_non_null(payload);
    for (size_t i = 0; i < size; i++)
        payload[i] = (uint8_t)(i * 7 + (i >> 8) + vector->buffer.size);
    add_frame(vector, first, payload, size);
    free(payload);
}

static inline void restart(struct vector *vector) {
    vector->buffer.size = 0;
}

static inline void vector_free(struct vector *vector) {
    buffer_free(&vector->buffer);
}

static const char mixed_text[] =
    "Caf\xC3\xA9 \xE2\x82\xAC 5,- \xF0\x9F\x98\x80 \xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5";

/* One of everything; the sizes of the payloads grow with @scale. */
static inline void make_stream(struct vector *vector, size_t scale) {
    restart(vector);
    add_text(vector, LAST | TEXT, mixed_text);
    add_filled(vector, LAST | BINARY, 3 + 5 * scale);
    add_frame(vector, LAST | TEXT, "", 0);
    add_text(vector, LAST | PING, "are you there?");
    add_frame(vector, LAST | BINARY, "", 0);
    /* A text that is cut inside its characters, with control frames between. */
    add_frame(vector, TEXT, mixed_text, 4);
    add_text(vector, LAST | PING, "");
    add_frame(vector, MORE, mixed_text + 4, 13);
    add_text(vector, LAST | PONG, "\xFF\xFE");
    add_frame(vector, MORE, "", 0);
    add_text(vector, LAST | MORE, mixed_text + 17);
    add_filled(vector, BINARY, 2 * scale);
    add_filled(vector, MORE, 1);
    add_filled(vector, LAST | MORE, scale);
    /* Empty at both ends. */
    add_filled(vector, BINARY, 0);
    add_filled(vector, MORE, scale + 1);
    add_filled(vector, LAST | MORE, 0);
    add_text(vector, LAST | TEXT, "\xEF\xBB\xBF");
    add_text(vector, LAST | CLOSE,
             "\x0F\xA1over and \xC3\xBC"
             "ber");
}

/* ---- Reading streams ---- */

/* A message or control frame that came out. */
struct event {
    unsigned opcode;
    unsigned close_code;
    size_t at, size; /* in the outcome's payload */
};

/* All that came out; of messages in pieces, those that are complete. */
struct outcome {
    struct event events[MAX_EVENTS];
    size_t count;
    struct buffer payload;
    int result; /* of the last next() */
    unsigned close_code;
    uint64_t consumed;
};

enum keeping { KEEP_NONE, KEEP_FORWARDS, KEEP_BACKWARDS };

/* A stream under way. */
struct run {
    sluice_websocket *ws;
    sluice_chain chain;
    const struct outcome *expected; /* to compare with, or NULL to record */
    struct outcome got;
    bool pieces;
    unsigned under_way; /* opcode of the message whose pieces are coming, or 0 */
    struct buffer partial;
    enum keeping keeping;
    sluice_slice kept[MAX_EVENTS];
};

static inline void begin(struct run *run, sluice_pool *pool, sluice_websocket_role role,
                         const sluice_websocket_options *options, const struct outcome *expected) {
    run->expected = expected;
    run->got.count = 0;
    run->got.payload = (struct buffer){0};
    run->got.result = 0;
    run->pieces = options->pieces;
    run->under_way = 0;
    run->partial = (struct buffer){0};
    run->keeping = KEEP_NONE;
    chain_init(&run->chain, pool);
    if (sluice_websocket_new(role, options, &run->ws) != 0)
        fail_msg("no framer");
}

/* Of no bytes the places may be NULL. */
static inline bool same_bytes(const uint8_t *a, const uint8_t *b, size_t size) {
    return size == 0 || memcmp(a, b, size) == 0;
}

/* The slice holds exactly these bytes. */
static inline bool slice_is(const sluice_slice *slice, const uint8_t *bytes, size_t size) {
    struct iovec pieces[8];
    size_t done = 0;
    if (sluice_slice_length(slice) != size)
        return false;
    while (done < size) {
        size_t count = sluice_slice_iov(slice, done, pieces, 8);
        for (size_t i = 0; i < count && i < 8; i++) {
            if (pieces[i].iov_len > size - done || memcmp(pieces[i].iov_base, bytes + done, pieces[i].iov_len) != 0)
                return false;
            done += pieces[i].iov_len;
        }
        if (count == 0)
            return false;
    }
    return true;
}

/* Not sluice_slice_copy(), which counts. */
static inline void add_slice(struct buffer *buffer, const sluice_slice *slice) {
    struct iovec piece;
    for (size_t done = 0; done < sluice_slice_length(slice); done += piece.iov_len) {
        sluice_slice_iov(slice, done, &piece, 1);
        buffer_add(buffer, piece.iov_base, piece.iov_len);
    }
}

static inline void record(struct outcome *outcome, unsigned opcode, unsigned close_code, const void *payload,
                          size_t size) {
    if (outcome->count == MAX_EVENTS)
        fail_msg("too many messages");
    outcome->events[outcome->count++] = (struct event){opcode, close_code, outcome->payload.size, size};
    buffer_add(&outcome->payload, payload, size);
}

static inline const uint8_t *event_payload(const struct outcome *outcome, const struct event *event) {
    return event->size > 0 ? outcome->payload.bytes + event->at : NULL;
}

/* A message, or a control frame, is complete. */
static inline void check_event(struct run *run, unsigned opcode, unsigned close_code, const struct buffer *joined,
                               sluice_websocket_message *message) {
    size_t index = run->got.count;
    if (!run->expected) {
        struct buffer bytes = {0};
        if (!joined)
            add_slice(&bytes, &message->payload);
        const struct buffer *payload = joined ? joined : &bytes;
        record(&run->got, opcode, close_code, payload->bytes, payload->size);
        buffer_free(&bytes);
        return;
    }
    if (index >= run->expected->count)
        fail_msg("too many messages");
    const struct event *event = &run->expected->events[index];
    const uint8_t *bytes = event_payload(run->expected, event);
    if (event->opcode != opcode || event->close_code != close_code)
        fail_msg("message %zu is another one", index);
    bool same = joined ? joined->size == event->size && same_bytes(joined->bytes, bytes, event->size)
                       : slice_is(&message->payload, bytes, event->size);
    if (!same)
        fail_msg("message %zu has another payload", index);
    if (!joined && run->keeping != KEEP_NONE && sluice_slice_take(&message->payload, &run->kept[index]) != 0)
        fail_msg("message %zu cannot be kept", index);
    run->got.count++;
}

static inline void take_piece(struct run *run, sluice_websocket_message *message) {
    if (message->first != (run->under_way == 0) || (!message->first && message->opcode != run->under_way))
        fail_msg("a piece without its message");
    if (sluice_slice_length(&message->payload) == 0 && !message->last)
        fail_msg("a piece of nothing");
    run->under_way = message->opcode;
    add_slice(&run->partial, &message->payload);
    if (!message->last)
        return;
    run->under_way = 0;
    check_event(run, message->opcode, message->close_code, &run->partial, message);
    run->partial.size = 0;
}

static inline void take_event(struct run *run, sluice_websocket_message *message) {
    if (run->pieces && (unsigned)message->opcode < CLOSE) {
        take_piece(run, message);
        return;
    }
    if (!message->first || !message->last)
        fail_msg("a part of a message");
    check_event(run, message->opcode, message->close_code, NULL, message);
}

/* Takes all messages that there are. */
static inline void drain(struct run *run) {
    sluice_websocket_message *message;
    while ((run->got.result = sluice_websocket_next(run->ws, &run->chain, &message)) == 1)
        take_event(run, message);
    if (sluice_websocket_need(run->ws) <= sluice_chain_length(&run->chain))
        fail_msg("no message, and nothing needed");
}

/* What is kept holds its bytes though all else is gone, and may go in any order. */
static inline void release_kept(struct run *run) {
    for (size_t i = 0; i < run->got.count; i++) {
        size_t index = run->keeping == KEEP_FORWARDS ? i : run->got.count - 1 - i;
        const struct event *event = &run->expected->events[index];
        if (!slice_is(&run->kept[index], event_payload(run->expected, event), event->size))
            fail_msg("kept message %zu has changed", index);
        sluice_slice_release(&run->kept[index]);
    }
}

static inline void finish(struct run *run) {
    run->got.consumed = sluice_chain_consumed(&run->chain);
    run->got.close_code = sluice_websocket_close_code(run->ws);
    if (run->expected) {
        if (run->got.count != run->expected->count || run->got.result != run->expected->result)
            fail_msg("%zu messages instead of %zu, result %d instead of %d", run->got.count, run->expected->count,
                     run->got.result, run->expected->result);
        /* Pieces of a message that fails later have been consumed, or not, as they came. */
        bool same_end = run->got.consumed == run->expected->consumed || (run->pieces && run->got.result < 0);
        if (!same_end || run->got.close_code != run->expected->close_code)
            fail_msg("another end");
    }
    if (!chain_is_sound(&run->chain))
        fail_msg("the chain is broken");
    chain_clear(&run->chain);
    sluice_websocket_free(run->ws);
    buffer_free(&run->partial);
    if (run->keeping != KEEP_NONE)
        release_kept(run);
}

/* What the stream gives in one piece. */
static inline void read_whole(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options,
                              struct outcome *ret_outcome) {
    struct run run;
    begin(&run, pool, vector->reader, options, NULL);
    feed(&run.chain, pool, vector->buffer.bytes, vector->buffer.size, 0);
    drain(&run);
    finish(&run);
    *ret_outcome = run.got;
}

static inline void outcome_free(struct outcome *outcome) {
    buffer_free(&outcome->payload);
}

/* The whole stream gives so many messages, and this in the end. */
static inline void assert_outcome(sluice_pool *pool, struct vector *vector, const sluice_websocket_options *options,
                                  size_t count, int result, unsigned close_code) {
    struct outcome outcome;
    read_whole(pool, vector, options, &outcome);
    if (outcome.count != count || outcome.result != result || outcome.close_code != close_code)
        fail_msg("%zu messages instead of %zu, result %d instead of %d, close code %u instead of %u", outcome.count,
                 count, outcome.result, result, outcome.close_code, close_code);
    if (result == 0 && outcome.consumed != vector->buffer.size)
        fail_msg("%zu of %zu bytes consumed", (size_t)outcome.consumed, vector->buffer.size);
    outcome_free(&outcome);
}

/* The stream, and then what it says for good: whatever comes, nothing is consumed, delivered or
 * needed. */
static inline void assert_refused(sluice_pool *pool, const struct vector *vector,
                                  const sluice_websocket_options *options, int error, unsigned close_code) {
    static const uint8_t fine[] = {0x89, 0x80, 1, 2, 3, 4, 0x89, 0};
    sluice_websocket_message *message = NULL;
    struct run run;
    begin(&run, pool, vector->reader, options, NULL);
    feed(&run.chain, pool, vector->buffer.bytes, vector->buffer.size, 0);
    drain(&run);
    if (run.got.result != error || sluice_websocket_close_code(run.ws) != close_code)
        fail_msg("%d with code %u instead of %d with %u", run.got.result, sluice_websocket_close_code(run.ws), error,
                 close_code);
    assert_int_equal(sluice_websocket_need(run.ws), SIZE_MAX);
    uint64_t consumed = sluice_chain_consumed(&run.chain);
    for (int i = 0; i < 3; i++) {
        feed(&run.chain, pool, fine, sizeof fine, 3);
        assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), error);
        assert_null(message);
        assert_int_equal(sluice_websocket_close_code(run.ws), close_code);
        assert_int_equal(sluice_chain_consumed(&run.chain), consumed);
    }
    finish(&run);
    outcome_free(&run.got);
}

#endif
