/* The WebSocket framer: what it makes of a stream, however the stream is cut into blocks. */
#include <sluice/websocket.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "memory/pool.h"
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

static int set_up(void **state) {
    sluice_pool *pool = NULL;
    assert_int_equal(
        sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true}, &pool), 0);
    *state = pool;
    return 0;
}

static int tear_down(void **state) {
    sluice_pool *pool = *state;
    sluice_pool_stats stats = {.size = sizeof stats};
    feed_assert_returned(pool);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    sluice_pool_free(pool);
    return 0;
}

/* Fixed seeds: a failure comes again. */
static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 16) % limit);
}

/* ---- Making streams ---- */

/* Bytes of any number. */
struct buffer {
    uint8_t *bytes;
    size_t size, room;
};

static void buffer_add(struct buffer *buffer, const void *bytes, size_t size) {
    if (size > buffer->room - buffer->size) {
        buffer->room = 2 * buffer->room + size;
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        assert_non_null(buffer->bytes);
    }
    if (size > 0)
        memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

static void buffer_free(struct buffer *buffer) {
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
static size_t add_header(struct vector *vector, uint8_t first, unsigned extended, uint64_t length) {
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

static void add_payload(struct vector *vector, size_t key, const void *payload, size_t size) {
    struct buffer *buffer = &vector->buffer;
    size_t at = buffer->size;
    buffer_add(buffer, payload, size);
    if (vector->reader == SLUICE_WEBSOCKET_SERVER)
        for (size_t i = 0; i < size; i++)
            buffer->bytes[at + i] ^= buffer->bytes[key + i % 4];
}

static void add_frame(struct vector *vector, unsigned first, const void *payload, size_t size) {
    unsigned extended = size > 65535 ? 8 : size > 125 ? 2 : 0;
    size_t key = add_header(vector, (uint8_t)first, extended, size);
    add_payload(vector, key, payload, size);
}

static void add_text(struct vector *vector, unsigned first, const char *text) {
    add_frame(vector, first, text, strlen(text));
}

/* A frame of bytes that differ. */
static void add_filled(struct vector *vector, unsigned first, size_t size) {
    uint8_t *payload = malloc(size + 1);
    assert_non_null(payload);
    for (size_t i = 0; i < size; i++)
        payload[i] = (uint8_t)(i * 7 + (i >> 8) + vector->buffer.size);
    add_frame(vector, first, payload, size);
    free(payload);
}

static void restart(struct vector *vector) {
    vector->buffer.size = 0;
}

static void vector_free(struct vector *vector) {
    buffer_free(&vector->buffer);
}

static const char mixed_text[] =
    "Caf\xC3\xA9 \xE2\x82\xAC 5,- \xF0\x9F\x98\x80 \xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5";

/* One of everything; the sizes of the payloads grow with @scale. */
static void make_stream(struct vector *vector, size_t scale) {
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

/* Fills the stream up to exactly @size bytes, of which the end is behind the close frame. */
static void fill_up(struct vector *vector, size_t size) {
    static const uint8_t nothing[4096];
    if (size < vector->buffer.size || size - vector->buffer.size > sizeof nothing)
        fail_msg("%zu bytes cannot be filled up to %zu", vector->buffer.size, size);
    buffer_add(&vector->buffer, nothing, size - vector->buffer.size);
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

static void begin(struct run *run, sluice_pool *pool, sluice_websocket_role role,
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
static bool same_bytes(const uint8_t *a, const uint8_t *b, size_t size) {
    return size == 0 || memcmp(a, b, size) == 0;
}

/* The slice holds exactly these bytes. */
static bool slice_is(const sluice_slice *slice, const uint8_t *bytes, size_t size) {
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
static void add_slice(struct buffer *buffer, const sluice_slice *slice) {
    struct iovec piece;
    for (size_t done = 0; done < sluice_slice_length(slice); done += piece.iov_len) {
        sluice_slice_iov(slice, done, &piece, 1);
        buffer_add(buffer, piece.iov_base, piece.iov_len);
    }
}

static void record(struct outcome *outcome, unsigned opcode, unsigned close_code, const void *payload, size_t size) {
    if (outcome->count == MAX_EVENTS)
        fail_msg("too many messages");
    outcome->events[outcome->count++] = (struct event){opcode, close_code, outcome->payload.size, size};
    buffer_add(&outcome->payload, payload, size);
}

static const uint8_t *event_payload(const struct outcome *outcome, const struct event *event) {
    return event->size > 0 ? outcome->payload.bytes + event->at : NULL;
}

/* A message, or a control frame, is complete. */
static void check_event(struct run *run, unsigned opcode, unsigned close_code, const struct buffer *joined,
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

static void take_piece(struct run *run, sluice_websocket_message *message) {
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

static void take_event(struct run *run, sluice_websocket_message *message) {
    if (run->pieces && (unsigned)message->opcode < CLOSE) {
        take_piece(run, message);
        return;
    }
    if (!message->first || !message->last)
        fail_msg("a part of a message");
    check_event(run, message->opcode, message->close_code, NULL, message);
}

/* Takes all messages that there are. */
static void drain(struct run *run) {
    sluice_websocket_message *message;
    while ((run->got.result = sluice_websocket_next(run->ws, &run->chain, &message)) == 1)
        take_event(run, message);
    if (sluice_websocket_need(run->ws) <= sluice_chain_length(&run->chain))
        fail_msg("no message, and nothing needed");
}

/* What is kept holds its bytes though all else is gone, and may go in any order. */
static void release_kept(struct run *run) {
    for (size_t i = 0; i < run->got.count; i++) {
        size_t index = run->keeping == KEEP_FORWARDS ? i : run->got.count - 1 - i;
        const struct event *event = &run->expected->events[index];
        if (!slice_is(&run->kept[index], event_payload(run->expected, event), event->size))
            fail_msg("kept message %zu has changed", index);
        sluice_slice_release(&run->kept[index]);
    }
}

static void finish(struct run *run) {
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
static void read_whole(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options,
                       struct outcome *ret_outcome) {
    struct run run;
    begin(&run, pool, vector->reader, options, NULL);
    feed(&run.chain, pool, vector->buffer.bytes, vector->buffer.size, 0);
    drain(&run);
    finish(&run);
    *ret_outcome = run.got;
}

static void outcome_free(struct outcome *outcome) {
    buffer_free(&outcome->payload);
}

/* The whole stream gives so many messages, and this in the end. */
static void assert_outcome(sluice_pool *pool, struct vector *vector, const sluice_websocket_options *options,
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

/* ---- Whole streams ---- */

static void check_stream(sluice_pool *pool, sluice_websocket_role role, const sluice_websocket_options *options) {
    enum { SCALE = 50 };
    const struct {
        unsigned opcode, close_code;
        size_t size;
        const char *payload;
    } expected[] = {
        {TEXT, 0, sizeof mixed_text - 1, mixed_text},
        {BINARY, 0, 3 + 5 * SCALE, NULL},
        {TEXT, 0, 0, ""},
        {PING, 0, 14, "are you there?"},
        {BINARY, 0, 0, ""},
        {PING, 0, 0, ""},
        {PONG, 0, 2, "\xFF\xFE"},
        {TEXT, 0, sizeof mixed_text - 1, mixed_text},
        {BINARY, 0, 3 * SCALE + 1, NULL},
        {BINARY, 0, SCALE + 1, NULL},
        {TEXT, 0, 3, "\xEF\xBB\xBF"},
        {CLOSE, 4001, 14,
         "over and \xC3\xBC"
         "ber"},
    };
    struct vector vector = {.reader = role};
    struct outcome outcome;
    make_stream(&vector, SCALE);
    read_whole(pool, &vector, options, &outcome);

    assert_int_equal(outcome.count, sizeof expected / sizeof *expected);
    assert_int_equal(outcome.result, 0);
    assert_int_equal(outcome.close_code, 4001);
    assert_int_equal(outcome.consumed, vector.buffer.size);
    for (size_t i = 0; i < outcome.count; i++) {
        const struct event *event = &outcome.events[i];
        assert_int_equal(event->opcode, expected[i].opcode);
        assert_int_equal(event->close_code, expected[i].close_code);
        assert_int_equal(event->size, expected[i].size);
        if (expected[i].payload)
            assert_memory_equal(outcome.payload.bytes + event->at, expected[i].payload, event->size);
    }
    outcome_free(&outcome);
    vector_free(&vector);
}

static void test_stream(void **state) {
    check_stream(*state, SLUICE_WEBSOCKET_SERVER, &as_messages);
    check_stream(*state, SLUICE_WEBSOCKET_CLIENT, &as_messages);
    check_stream(*state, SLUICE_WEBSOCKET_SERVER, &as_pieces);
    check_stream(*state, SLUICE_WEBSOCKET_CLIENT, &as_pieces);
}

/* RFC 6455, section 5.7, byte for byte. */
static void test_examples(void **state) {
    const struct {
        sluice_websocket_role reader;
        const char *bytes;
        size_t size;
        unsigned opcode;
    } cases[] = {
        {SLUICE_WEBSOCKET_CLIENT, "\x81\x05\x48\x65\x6c\x6c\x6f", 7, TEXT},
        {SLUICE_WEBSOCKET_SERVER, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11, TEXT},
        {SLUICE_WEBSOCKET_CLIENT, "\x01\x03\x48\x65\x6c\x80\x02\x6c\x6f", 9, TEXT},
        {SLUICE_WEBSOCKET_CLIENT, "\x89\x05\x48\x65\x6c\x6c\x6f", 7, PING},
        {SLUICE_WEBSOCKET_SERVER, "\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11, PONG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome;
        struct vector vector = {.reader = cases[i].reader};
        buffer_add(&vector.buffer, cases[i].bytes, cases[i].size);
        read_whole(*state, &vector, &as_messages, &outcome);
        assert_int_equal(outcome.count, 1);
        assert_int_equal(outcome.events[0].opcode, cases[i].opcode);
        assert_int_equal(outcome.events[0].size, 5);
        assert_memory_equal(outcome.payload.bytes, "Hello", 5);
        outcome_free(&outcome);
        vector_free(&vector);
    }
}

/* ---- Cuts: the same comes out wherever the blocks end, and nothing behind them is touched ---- */

enum { GUARDED_PIECES = 3, GUARDED_ROOM = 64 << 10 }; /* whole pages, also of 64 KiB */

/*
 * Places that end at a page nobody may touch. The bytes are put there anew for each run, since a
 * framer that unmasks leaves them changed.
 */
struct guarded {
    sluice_pool *pool;
    sluice_block *parent;
    uint8_t *ends[GUARDED_PIECES];
    size_t page;
};

static void guarded_open(struct guarded *guarded, sluice_pool *pool) {
    guarded->pool = pool;
    guarded->page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(sluice_block_get(pool, &guarded->parent), 0);
    for (int i = 0; i < GUARDED_PIECES; i++) {
        uint8_t *area = mmap(NULL, GUARDED_ROOM + guarded->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        assert_true(area != MAP_FAILED);
        assert_int_equal(mprotect(area + GUARDED_ROOM, guarded->page, PROT_NONE), 0);
        guarded->ends[i] = area + GUARDED_ROOM;
    }
}

static void guarded_close(struct guarded *guarded) {
    for (int i = 0; i < GUARDED_PIECES; i++)
        munmap(guarded->ends[i] - GUARDED_ROOM, GUARDED_ROOM + guarded->page);
    sluice_block_release(guarded->parent);
}

/* Appends the bytes as one block, at the place of that number; none append nothing. */
static void guarded_feed(struct guarded *guarded, int place, sluice_chain *chain, const uint8_t *bytes, size_t size) {
    sluice_block *view = NULL;
    if (size == 0)
        return;
    memcpy(guarded->ends[place] - size, bytes, size);
    if (pool_view(guarded->pool, guarded->parent, 0, (uint32_t)size, &view) != 0)
        fail_msg("no view");
    view->data = guarded->ends[place] - size;
    sluice_chain_append(chain, view);
}

static void run_cuts(struct guarded *guarded, const struct vector *vector, const sluice_websocket_options *options,
                     const struct outcome *expected, size_t first, size_t second, enum keeping keeping) {
    const uint8_t *bytes = vector->buffer.bytes;
    struct run run;
    begin(&run, guarded->pool, vector->reader, options, expected);
    run.keeping = keeping;
    guarded_feed(guarded, 0, &run.chain, bytes, first);
    drain(&run);
    guarded_feed(guarded, 1, &run.chain, bytes + first, second - first);
    drain(&run);
    guarded_feed(guarded, 2, &run.chain, bytes + second, vector->buffer.size - second);
    drain(&run);
    finish(&run);
}

/* Every cut and every pair of cuts. */
static void run_all_pairs(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options,
                          enum keeping keeping) {
    struct outcome expected;
    struct guarded guarded;
    read_whole(pool, vector, options, &expected);
    guarded_open(&guarded, pool);
    for (size_t first = 0; first < vector->buffer.size; first += feed_cuts_apart())
        for (size_t second = first; second < vector->buffer.size; second++)
            run_cuts(&guarded, vector, options, &expected, first, second, keeping);
    guarded_close(&guarded);
    outcome_free(&expected);
}

static void test_each_pair_of_cuts(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    make_stream(&vector, 170);
    fill_up(&vector, 2048);
    run_all_pairs(*state, &vector, &as_messages, KEEP_FORWARDS);
    vector_free(&vector);
}

static void test_each_pair_of_cuts_of_a_client(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_CLIENT};
    make_stream(&vector, 30);
    run_all_pairs(*state, &vector, &as_messages, KEEP_BACKWARDS);
    vector_free(&vector);
}

static void test_each_pair_of_cuts_in_pieces(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    make_stream(&vector, 26);
    run_all_pairs(*state, &vector, &as_pieces, KEEP_NONE);
    vector_free(&vector);
}

/* Blocks of each size: every frame in many of them, and many frames in one. */
static void run_pieces(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options,
                       const struct outcome *expected, size_t piece, bool at_once, enum keeping keeping) {
    struct run run;
    begin(&run, pool, vector->reader, options, expected);
    run.keeping = keeping;
    for (size_t from = 0; from < vector->buffer.size; from += piece) {
        size_t left = vector->buffer.size - from;
        feed(&run.chain, pool, vector->buffer.bytes + from, left < piece ? left : piece, piece);
        if (!at_once)
            drain(&run);
    }
    drain(&run);
    finish(&run);
}

static void check_pieces(sluice_pool *pool, sluice_websocket_role role, const sluice_websocket_options *options) {
    struct vector vector = {.reader = role};
    struct outcome expected;
    make_stream(&vector, 120);
    read_whole(pool, &vector, options, &expected);
    for (size_t piece = 1; piece <= vector.buffer.size; piece++)
        for (int at_once = 0; at_once < 2; at_once++)
            run_pieces(pool, &vector, options, &expected, piece, at_once,
                       options->pieces ? KEEP_NONE : (enum keeping)(piece % 3));
    outcome_free(&expected);
    vector_free(&vector);
}

static void test_pieces_of_each_size(void **state) {
    check_pieces(*state, SLUICE_WEBSOCKET_SERVER, &as_messages);
    check_pieces(*state, SLUICE_WEBSOCKET_CLIENT, &as_messages);
    check_pieces(*state, SLUICE_WEBSOCKET_SERVER, &as_pieces);
    check_pieces(*state, SLUICE_WEBSOCKET_CLIENT, &as_pieces);
}

/* A block that grows while it is the chain's last, as receives into a block's free end make it. */
static void test_growing_block(void **state) {
    for (size_t step = 1; step <= 40; step++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
        struct outcome expected;
        struct run run;
        make_stream(&vector, 40);
        read_whole(*state, &vector, &as_messages, &expected);
        begin(&run, *state, vector.reader, &as_messages, &expected);
        sluice_block *block = NULL;
        assert_int_equal(sluice_block_get(*state, &block), 0);
        memcpy(sluice_block_data(block), vector.buffer.bytes, vector.buffer.size);
        assert_int_equal(sluice_block_set_length(block, 1), 0);
        block_ref(block);
        sluice_chain_append(&run.chain, block);
        for (size_t done = 1; done < vector.buffer.size;) {
            size_t here = vector.buffer.size - done < step ? vector.buffer.size - done : step;
            drain(&run);
            assert_int_equal(chain_extend(&run.chain, block, (uint32_t)here), 0);
            done += here;
        }
        drain(&run);
        sluice_block_release(block);
        finish(&run);
        outcome_free(&expected);
        vector_free(&vector);
    }
}

/* The rest of a frame may come in another chain, to which what there was has been moved. */
static void test_other_chain(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    add_text(&vector, LAST | TEXT, mixed_text);
    for (size_t cut = 0; cut < vector.buffer.size; cut++) {
        sluice_chain *first = NULL, *second = NULL;
        sluice_websocket *ws = NULL;
        sluice_websocket_message *message = NULL;
        assert_int_equal(sluice_chain_new(*state, &first), 0);
        assert_int_equal(sluice_chain_new(*state, &second), 0);
        assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_SERVER, NULL, &ws), 0);
        feed(first, *state, vector.buffer.bytes, cut, 3);
        assert_int_equal(sluice_websocket_next(ws, first, &message), 0);
        assert_int_equal(sluice_chain_move(first, cut, second), 0);
        feed(second, *state, vector.buffer.bytes + cut, vector.buffer.size - cut, 5);
        assert_int_equal(sluice_websocket_next(ws, second, &message), 1);
        assert_true(slice_is(&message->payload, (const uint8_t *)mixed_text, sizeof mixed_text - 1));
        sluice_websocket_free(ws);
        sluice_chain_free(first);
        sluice_chain_free(second);
    }
    vector_free(&vector);
}

/* ---- The need is exact ---- */

/* One byte less changes nothing; at it something is consumed, is delivered, or is known of what is
 * needed then. */
static void check_need(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options) {
    struct run run;
    struct outcome expected;
    read_whole(pool, vector, options, &expected);
    begin(&run, pool, vector->reader, options, &expected);
    for (size_t i = 0; i < vector->buffer.size; i++) {
        sluice_websocket_message *message = NULL;
        size_t need = sluice_websocket_need(run.ws);
        uint64_t consumed = sluice_chain_consumed(&run.chain);
        feed(&run.chain, pool, vector->buffer.bytes + i, 1, 0);
        if (sluice_chain_length(&run.chain) < need) {
            assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 0);
            assert_int_equal(sluice_websocket_need(run.ws), need);
            assert_int_equal(sluice_chain_consumed(&run.chain), consumed);
        } else {
            drain(&run);
            assert_true(sluice_chain_consumed(&run.chain) > consumed || sluice_websocket_need(run.ws) > need);
        }
    }
    finish(&run);
    outcome_free(&expected);
}

static void test_need(void **state) {
    for (int role = SERVER; role <= CLIENT; role++) {
        struct vector vector = {.reader = (sluice_websocket_role)role};
        make_stream(&vector, 140);
        check_need(*state, &vector, &as_messages);
        check_need(*state, &vector, &as_pieces);
        vector_free(&vector);
    }
}

/* Never called but with what it needs: all the same. */
static void test_fed_by_need(void **state) {
    for (int role = SERVER; role <= CLIENT; role++) {
        struct vector vector = {.reader = (sluice_websocket_role)role};
        struct outcome expected;
        struct run run;
        make_stream(&vector, 300);
        read_whole(*state, &vector, &as_messages, &expected);
        begin(&run, *state, vector.reader, &as_messages, &expected);
        for (size_t done = 0; done < vector.buffer.size;) {
            size_t here = sluice_websocket_need(run.ws) - sluice_chain_length(&run.chain);
            if (here > vector.buffer.size - done)
                here = vector.buffer.size - done;
            feed(&run.chain, *state, vector.buffer.bytes + done, here, 0);
            done += here;
            drain(&run);
        }
        finish(&run);
        outcome_free(&expected);
        vector_free(&vector);
    }
}

/* What each part of a frame asks for. */
static void test_need_of_parts(void **state) {
    const struct {
        unsigned first;
        unsigned extended;
        size_t length;
    } cases[] = {{LAST | BINARY, 0, 100}, {LAST | BINARY, 2, 1000}, {BINARY, 8, 70000}, {LAST | PING, 0, 125}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
        sluice_websocket_message *message = NULL;
        sluice_chain *chain = NULL;
        sluice_websocket *ws = NULL;
        size_t header = 2 + cases[i].extended + 4;
        add_header(&vector, (uint8_t)cases[i].first, cases[i].extended, cases[i].length);
        assert_int_equal(sluice_chain_new(*state, &chain), 0);
        assert_int_equal(sluice_websocket_new(vector.reader, NULL, &ws), 0);
        assert_int_equal(sluice_websocket_need(ws), 2);
        feed(chain, *state, vector.buffer.bytes, 2, 0);
        assert_int_equal(sluice_websocket_next(ws, chain, &message), 0);
        assert_int_equal(sluice_websocket_need(ws), header);
        feed(chain, *state, vector.buffer.bytes + 2, header - 2, 0);
        assert_int_equal(sluice_websocket_next(ws, chain, &message), 0);
        assert_int_equal(sluice_websocket_need(ws), header + cases[i].length);
        assert_int_equal(sluice_chain_consumed(chain), 0);
        sluice_websocket_free(ws);
        sluice_chain_free(chain);
        vector_free(&vector);
    }
}

/* ---- What may not be ---- */

/* The stream, and then what it says for good: whatever comes, nothing is consumed, delivered or
 * needed. */
static void assert_refused(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options,
                           int error, unsigned close_code) {
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

/* A stream of one header, alone. */
static void assert_header_refused(sluice_pool *pool, sluice_websocket_role role, uint8_t first, unsigned extended,
                                  uint64_t length, int error, unsigned close_code) {
    struct vector vector = {.reader = role};
    add_header(&vector, first, extended, length);
    assert_refused(pool, &vector, &as_messages, error, close_code);
    vector_free(&vector);
}

/* Told by the second byte. */
static void test_masking_is_the_clients(void **state) {
    for (int role = SERVER; role <= CLIENT; role++) {
        /* Made for the other end. */
        struct vector vector = {.reader = role == SERVER ? SLUICE_WEBSOCKET_CLIENT : SLUICE_WEBSOCKET_SERVER};
        for (unsigned opcode = TEXT; opcode <= PONG; opcode = opcode == BINARY ? CLOSE : opcode + 1) {
            restart(&vector);
            vector.reader = role == SERVER ? SLUICE_WEBSOCKET_CLIENT : SLUICE_WEBSOCKET_SERVER;
            add_frame(&vector, LAST | opcode, "", 0);
            vector.buffer.size = 2;
            vector.reader = (sluice_websocket_role)role;
            assert_refused(*state, &vector, &as_messages, -EPROTO, 1002);
        }
        vector_free(&vector);
    }
}

static void test_reserved_bits(void **state) {
    for (unsigned bits = 1; bits < 8; bits++)
        for (int role = SERVER; role <= CLIENT; role++) {
            assert_header_refused(*state, (sluice_websocket_role)role, (uint8_t)(LAST | bits << 4 | TEXT), 0, 0,
                                  -EPROTO, 1002);
            assert_header_refused(*state, (sluice_websocket_role)role, (uint8_t)(LAST | bits << 4 | PING), 0, 0,
                                  -EPROTO, 1002);
        }
}

static void test_reserved_opcodes(void **state) {
    for (unsigned opcode = 3; opcode < 16; opcode = opcode == 7 ? 11 : opcode + 1)
        for (unsigned last = 0; last < 2; last++)
            assert_header_refused(*state, SLUICE_WEBSOCKET_SERVER, (uint8_t)(last << 7 | opcode), 0, 0, -EPROTO, 1002);
}

/* Control frames are whole, and short. */
static void test_control_frames(void **state) {
    for (unsigned opcode = CLOSE; opcode <= PONG; opcode++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
        assert_header_refused(*state, SLUICE_WEBSOCKET_SERVER, (uint8_t)opcode, 0, 0, -EPROTO, 1002);
        assert_header_refused(*state, SLUICE_WEBSOCKET_SERVER, (uint8_t)(LAST | opcode), 2, 126, -EPROTO, 1002);
        assert_header_refused(*state, SLUICE_WEBSOCKET_SERVER, (uint8_t)(LAST | opcode), 2, 5, -EPROTO, 1002);
        assert_header_refused(*state, SLUICE_WEBSOCKET_SERVER, (uint8_t)(LAST | opcode), 8, 65536, -EPROTO, 1002);
        if (opcode != CLOSE) {
            add_filled(&vector, LAST | opcode, 0);
            add_filled(&vector, LAST | opcode, 124);
            add_filled(&vector, LAST | opcode, 125);
            assert_outcome(*state, &vector, &as_messages, 3, 0, 0);
        }
        vector_free(&vector);
    }
}

/* Each length that a form can have at its borders, in every form. */
static void test_lengths(void **state) {
    const uint64_t lengths[] = {0, 1, 2, 124, 125, 126, 127, 128, 255, 256, 65534, 65535, 65536, 65537, 200000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (unsigned extended = 0; extended <= 8; extended = extended ? 4 * extended : 2)
            for (int role = SERVER; role <= CLIENT; role++) {
                struct vector vector = {.reader = (sluice_websocket_role)role};
                uint64_t length = lengths[i];
                unsigned shortest = length > 65535 ? 8 : length > 125 ? 2 : 0;
                if (extended < shortest)
                    continue;
                if (extended == shortest) {
                    add_filled(&vector, LAST | BINARY, (size_t)length);
                    assert_outcome(*state, &vector, &as_messages, 1, 0, 0);
                    assert_outcome(*state, &vector, &as_pieces, 1, 0, 0);
                } else {
                    assert_header_refused(*state, vector.reader, LAST | BINARY, extended, length, -EPROTO, 1002);
                }
                vector_free(&vector);
            }
}

/* CVE-2020-27813: lengths that no memory has, refused by the header. */
static void test_endless_lengths(void **state) {
    const struct {
        uint64_t length;
        int error;
        unsigned close_code;
    } cases[] = {
        {SLUICE_WEBSOCKET_DEFAULT_LIMIT + 1, -EMSGSIZE, 1009},
        {UINT32_MAX, -EMSGSIZE, 1009},
        {INT64_MAX - 14, -EMSGSIZE, 1009},
        {INT64_MAX, -EMSGSIZE, 1009},
        {(uint64_t)INT64_MAX + 1, -EPROTO, 1002},
        {UINT64_MAX - 1, -EPROTO, 1002},
        {UINT64_MAX, -EPROTO, 1002},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int role = SERVER; role <= CLIENT; role++)
            for (unsigned opcode = TEXT; opcode <= BINARY; opcode++)
                for (unsigned last = 0; last < 2; last++)
                    assert_header_refused(*state, (sluice_websocket_role)role, (uint8_t)(last << 7 | opcode), 8,
                                          cases[i].length, cases[i].error, cases[i].close_code);
}

/* ---- Fragments ---- */

static void test_fragment_order(void **state) {
    /* Opcodes with LAST, up to 0xFF, and how many messages come before the error, or that there is
     * none. */
    const struct {
        uint8_t frames[8];
        size_t count;
        int result;
    } cases[] = {
        {{LAST | MORE, 0xFF}, 0, -EPROTO},
        {{MORE, 0xFF}, 0, -EPROTO},
        {{LAST | TEXT, LAST | MORE, 0xFF}, 1, -EPROTO},
        {{TEXT, LAST | MORE, MORE, 0xFF}, 1, -EPROTO},
        {{TEXT, TEXT, 0xFF}, 0, -EPROTO},
        {{TEXT, LAST | TEXT, 0xFF}, 0, -EPROTO},
        {{BINARY, MORE, BINARY, 0xFF}, 0, -EPROTO},
        {{BINARY, LAST | PING, LAST | TEXT, 0xFF}, 1, -EPROTO},
        {{LAST | PING, LAST | MORE, 0xFF}, 1, -EPROTO},
        {{TEXT, MORE, MORE, LAST | MORE, LAST | BINARY, 0xFF}, 2, 0},
        {{TEXT, LAST | PING, LAST | PONG, LAST | MORE, BINARY, LAST | MORE, 0xFF}, 4, 0},
        {{TEXT, MORE, LAST | PING, 0xFF}, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
        for (const uint8_t *frame = cases[i].frames; *frame != 0xFF; frame++)
            add_text(&vector, *frame, "abc");
        assert_outcome(*state, &vector, &as_messages, cases[i].count, cases[i].result, cases[i].result ? 1002 : 0);
        assert_outcome(*state, &vector, &as_pieces, cases[i].count, cases[i].result, cases[i].result ? 1002 : 0);
        vector_free(&vector);
    }
}

/* The parts of the payload lie where they were received, and the framer lets go of all else. */
static void test_by_reference(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    sluice_websocket_message *message = NULL;
    sluice_chain *chain = NULL;
    sluice_websocket *ws = NULL;
    sluice_block *block = NULL;
    sluice_pool_stats stats = {.size = sizeof stats};
    struct iovec pieces[4];
    add_text(&vector, BINARY, "one");
    add_text(&vector, LAST | PING, "ping");
    add_text(&vector, MORE, "two");
    add_text(&vector, LAST | MORE, "three");
    assert_int_equal(sluice_block_get(*state, &block), 0);
    const uint8_t *data = sluice_block_data(block);
    memcpy(sluice_block_data(block), vector.buffer.bytes, vector.buffer.size);
    assert_int_equal(sluice_block_set_length(block, (uint32_t)vector.buffer.size), 0);
    assert_int_equal(sluice_chain_new(*state, &chain), 0);
    assert_int_equal(sluice_websocket_new(vector.reader, NULL, &ws), 0);
    sluice_chain_append(chain, block);

    assert_int_equal(sluice_websocket_next(ws, chain, &message), 1);
    assert_int_equal(message->opcode, SLUICE_WEBSOCKET_PING);
    assert_int_equal(sluice_slice_iov(&message->payload, 0, pieces, 4), 1);
    assert_ptr_equal(pieces[0].iov_base, data + 9 + 6);
    assert_int_equal(sluice_websocket_next(ws, chain, &message), 1);
    assert_int_equal(message->opcode, SLUICE_WEBSOCKET_BINARY);
    assert_true(slice_is(&message->payload, (const uint8_t *)"onetwothree", 11));
    assert_int_equal(sluice_slice_iov(&message->payload, 0, pieces, 4), 3);
    assert_ptr_equal(pieces[0].iov_base, data + 6);
    assert_ptr_equal(pieces[1].iov_base, data + 9 + 10 + 6);
    assert_ptr_equal(pieces[2].iov_base, data + 9 + 10 + 9 + 6);
    sluice_pool_get_stats(*state, &stats);
    assert_int_equal(stats.held, 1);
    assert_int_equal(stats.views, 3);

    /* Found nothing, and gives back what it delivered. */
    assert_int_equal(sluice_websocket_next(ws, chain, &message), 0);
    feed_assert_returned(*state);
    sluice_websocket_free(ws);
    sluice_chain_free(chain);
    vector_free(&vector);
}

/* A framer that goes in the middle of a message lets go of its frames, and one that delivered of
 * what it delivered. */
static void test_freed_in_the_middle(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    make_stream(&vector, 10);
    for (size_t end = 0; end <= vector.buffer.size; end++)
        for (int pieces = 0; pieces < 2; pieces++) {
            struct run run;
            begin(&run, *state, vector.reader, pieces ? &as_pieces : &as_messages, NULL);
            feed(&run.chain, *state, vector.buffer.bytes, end, 11);
            drain(&run);
            finish(&run);
            outcome_free(&run.got);
            feed_assert_returned(*state);
        }
    sluice_websocket_free(NULL);
    vector_free(&vector);
}

/* ---- Text ---- */

/* Where a text stops being UTF-8; complete and incomplete ones do not. From what Autobahn's cases
 * 6.* are made of. */
static const struct {
    const char *text;
    int bad; /* place of the byte that cannot be; -1: fine, -2: incomplete */
} texts[] = {
    {"Hello-\xC2\xB5@\xC3\x9F\xC3\xB6\xC3\xA4\xC3\xBC\xC3\xA0\xC3\xA1-UTF-8!!", -1},
    {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5", -1},
    {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5\xF4\x90\x80\x80\x65\x64\x69\x74\x65\x64", 12},
    {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5\xED\xA0\x80\x65\x64\x69\x74\x65\x64", 12},
    {"\xCE", -2},
    {"\xCE\xBA\xE1", -2},
    {"\xCE\xBA\xE1\xBD", -2},
    {"\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE", -2},
    {"\xDF\xBF", -1},
    {"\xEF\xBF\xBF", -1},
    {"\xF4\x8F\xBF\xBF", -1},
    {"\xF0\x90\x80\x80", -1},
    {"\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBD", -1},
    {"\xF7\xBF\xBF\xBF", 0},
    {"\xF8\x88\x80\x80\x80", 0},
    {"\xFB\xBF\xBF\xBF\xBF", 0},
    {"\xFC\x84\x80\x80\x80\x80", 0},
    {"\xFE", 0},
    {"\xFF", 0},
    {"\x80", 0},
    {"\xBF\x80", 0},
    {"a\xC0\xAF", 1},
    {"a\xE0\x80\xAF", 2},
    {"\xF0\x80\x80\xAF", 1},
    {"\xC1\xBF", 0},
    {"\xE0\x9F\xBF", 1},
    {"\xF0\x8F\xBF\xBF", 1},
    {"\xED\xA0\x80", 1},
    {"\xED\xAD\xBF\xED\xBE\x80", 1},
    {"\xC0 \xC1 ", 0},
    {"\xE2\x82 ", 2},
    {"\xF0\x9F\x98", -2},
    {"a text of some words before \xF0\x9F\x98\x80 and behind it, then \xE2\x28\xA1", 54},
};

/* By the byte: the error comes with the byte that cannot be, and where the last is missing with the
 * message's end. */
static void check_text_bytewise(sluice_pool *pool, const char *text, int bad, const sluice_websocket_options *options) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    size_t length = strlen(text);
    struct run run;
    add_text(&vector, LAST | TEXT, text);
    begin(&run, pool, vector.reader, options, NULL);
    for (size_t i = 0; i < vector.buffer.size; i++) {
        size_t header = vector.buffer.size - length;
        int place = i < header ? -3 : (int)(i - header);
        feed(&run.chain, pool, vector.buffer.bytes + i, 1, 0);
        drain(&run);
        bool failed = (bad >= 0 && place >= bad) || (bad == -2 && i == vector.buffer.size - 1);
        if (run.got.result != (failed ? -EILSEQ : 0))
            fail_msg("%d at byte %d of: %s", run.got.result, place, text);
    }
    assert_int_equal(sluice_websocket_close_code(run.ws), bad == -1 ? 0 : 1007);
    assert_int_equal(run.got.count, bad == -1);
    finish(&run);
    outcome_free(&run.got);
    vector_free(&vector);
}

/* In two frames, cut anywhere, with a ping between; the first alone says whether it can still
 * be. */
static void check_text_in_frames(sluice_pool *pool, const char *text, int bad, size_t cut,
                                 const sluice_websocket_options *options) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    bool bad_at_once = bad >= 0 && (size_t)bad < cut;
    add_frame(&vector, TEXT, text, cut);
    add_text(&vector, LAST | PING, "");
    assert_outcome(pool, &vector, options, !bad_at_once, bad_at_once ? -EILSEQ : 0, bad_at_once ? 1007 : 0);
    add_text(&vector, LAST | MORE, text + cut);
    assert_outcome(pool, &vector, options, !bad_at_once + (bad == -1), bad == -1 ? 0 : -EILSEQ, bad == -1 ? 0 : 1007);
    vector_free(&vector);
}

static void test_texts(void **state) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_text_bytewise(*state, texts[i].text, texts[i].bad, &as_messages);
        check_text_bytewise(*state, texts[i].text, texts[i].bad, &as_pieces);
        for (size_t cut = 0; cut <= strlen(texts[i].text); cut++) {
            check_text_in_frames(*state, texts[i].text, texts[i].bad, cut, &as_messages);
            check_text_in_frames(*state, texts[i].text, texts[i].bad, cut, &as_pieces);
        }
    }
}

/* A text that ends inside a character does not go on in the next one; binary messages and pings may
 * be anything. */
static void test_texts_are_apart(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    add_text(&vector, LAST | BINARY, "\xE2\x82");
    add_text(&vector, LAST | PING, "\xFF");
    add_text(&vector, LAST | TEXT, "fine");
    assert_outcome(*state, &vector, &as_messages, 3, 0, 0);
    add_text(&vector, LAST | TEXT, "\xE2\x82");
    add_text(&vector, LAST | TEXT, "\xAC");
    assert_outcome(*state, &vector, &as_messages, 3, -EILSEQ, 1007);
    vector_free(&vector);
}

/* ---- Closing ---- */

static void test_close_codes(void **state) {
    for (unsigned code = 0; code <= 0xFFFF; code++) {
        bool allowed = (code >= 1000 && code < 5000) && !(code >= 1004 && code <= 1006) &&
                       !(code >= 1015 && code < 3000);
        struct vector vector = {.reader = SLUICE_WEBSOCKET_CLIENT};
        const uint8_t payload[] = {(uint8_t)(code >> 8), (uint8_t)code};
        add_frame(&vector, LAST | CLOSE, payload, sizeof payload);
        assert_outcome(*state, &vector, &as_messages, allowed, allowed ? 0 : -EPROTO, allowed ? code : 1002);
        vector_free(&vector);
    }
}

static void test_close_payloads(void **state) {
    const struct {
        const char *payload;
        size_t size;
        int result;
        unsigned close_code;
    } cases[] = {
        {"", 0, 0, 1005},
        {"\x03", 1, -EPROTO, 1002},
        {"\x03\xE8", 2, 0, 1000},
        {"\x03\xE8"
         "bye",
         5, 0, 1000},
        {"\x03\xE8\xE2\x82\xAC", 5, 0, 1000},
        {"\x03\xE8\xE2\x82", 4, -EILSEQ, 1007},
        {"\x03\xE8\xCE\xBA\xF4\x90\x80\x80", 8, -EILSEQ, 1007},
        {"\x03\xEC\xFF", 3, -EPROTO, 1002},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece < 8; piece++) {
            struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
            struct run run;
            add_frame(&vector, LAST | CLOSE, cases[i].payload, cases[i].size);
            begin(&run, *state, vector.reader, &as_messages, NULL);
            feed(&run.chain, *state, vector.buffer.bytes, vector.buffer.size, piece);
            drain(&run);
            assert_int_equal(run.got.result, cases[i].result);
            assert_int_equal(run.got.count, cases[i].result == 0);
            assert_int_equal(sluice_websocket_close_code(run.ws), cases[i].close_code);
            if (run.got.count > 0) {
                size_t reason = cases[i].size > 2 ? cases[i].size - 2 : 0;
                assert_int_equal(run.got.events[0].close_code, cases[i].close_code);
                assert_int_equal(run.got.events[0].size, reason);
                assert_memory_equal(run.got.payload.bytes, cases[i].payload + 2, reason);
            }
            finish(&run);
            outcome_free(&run.got);
            vector_free(&vector);
        }
}

/* Behind a close frame all is dropped as it comes, and what was gathered before has gone. */
static void test_behind_a_close(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    sluice_websocket_message *message = NULL;
    struct run run;
    add_filled(&vector, BINARY, 100);
    add_text(&vector, LAST | CLOSE, "\x03\xE9");
    begin(&run, *state, vector.reader, &as_messages, NULL);
    feed(&run.chain, *state, vector.buffer.bytes, vector.buffer.size, 0);
    drain(&run);
    assert_int_equal(run.got.count, 1);
    feed_assert_returned(*state);
    assert_int_equal(sluice_websocket_need(run.ws), 1);
    for (int i = 0; i < 4; i++) {
        feed(&run.chain, *state, "\xFF\xFF garbage", 10, 0);
        assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 0);
        assert_int_equal(sluice_chain_length(&run.chain), 0);
        feed_assert_returned(*state);
    }
    assert_null(message);
    assert_int_equal(sluice_websocket_close_code(run.ws), 1001);
    finish(&run);
    outcome_free(&run.got);
    vector_free(&vector);
}

/* ---- Limits ---- */

static void test_options(void **state) {
    sluice_websocket *ws = NULL;
    (void)state;
    assert_int_equal(sluice_websocket_new((sluice_websocket_role)2, NULL, &ws), -EINVAL);
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_SERVER,
                                          &(sluice_websocket_options){.size = sizeof(sluice_websocket_options),
                                                                      .max_frame = (uint64_t)PTRDIFF_MAX + 1},
                                          &ws),
                     -EINVAL);
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_SERVER,
                                          &(sluice_websocket_options){.size = sizeof(sluice_websocket_options),
                                                                      .max_message = (uint64_t)PTRDIFF_MAX + 1},
                                          &ws),
                     -EINVAL);
    assert_null(ws);
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_CLIENT,
                                          &(sluice_websocket_options){.size = sizeof(sluice_websocket_options),
                                                                      .max_frame = PTRDIFF_MAX,
                                                                      .max_message = 1},
                                          &ws),
                     0);
    assert_int_equal(sluice_websocket_close_code(ws), 0);
    sluice_websocket_free(ws);
}

/* The limit itself passes; a byte more is refused by the header, of whatever frame it is. */
static void test_message_limit(void **state) {
    const sluice_websocket_options limited[] = {
        {.size = sizeof(sluice_websocket_options), .max_message = 1000},
        {.size = sizeof(sluice_websocket_options), .max_message = 1000, .pieces = true}};
    for (int i = 0; i < 2; i++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
        add_filled(&vector, LAST | BINARY, 1000);
        add_filled(&vector, BINARY, 400);
        add_filled(&vector, LAST | PING, 125);
        add_filled(&vector, MORE, 599);
        add_filled(&vector, LAST | MORE, 1);
        add_filled(&vector, LAST | BINARY, 1000);
        assert_outcome(*state, &vector, &limited[i], 4, 0, 0);
        size_t fine = vector.buffer.size;
        add_header(&vector, LAST | BINARY, 2, 1001);
        assert_outcome(*state, &vector, &limited[i], 4, -EMSGSIZE, 1009);
        vector.buffer.size = fine;
        add_filled(&vector, BINARY, 600);
        add_filled(&vector, MORE, 399);
        add_header(&vector, MORE, 0, 2);
        assert_outcome(*state, &vector, &limited[i], 4, -EMSGSIZE, 1009);
        vector.buffer.size = fine;
        add_filled(&vector, BINARY, 1);
        add_header(&vector, MORE, 8, INT64_MAX);
        assert_outcome(*state, &vector, &limited[i], 4, -EMSGSIZE, 1009);
        vector_free(&vector);
    }
}

static void test_frame_limit(void **state) {
    const sluice_websocket_options limited[] = {
        {.size = sizeof(sluice_websocket_options), .max_frame = 500},
        {.size = sizeof(sluice_websocket_options), .max_frame = 500, .pieces = true},
        {.size = sizeof(sluice_websocket_options), .max_frame = 500, .max_message = 100000}};
    for (int i = 0; i < 3; i++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
        add_filled(&vector, LAST | BINARY, 500);
        add_filled(&vector, BINARY, 500);
        add_filled(&vector, MORE, 500);
        add_filled(&vector, LAST | MORE, 500);
        assert_outcome(*state, &vector, &limited[i], 2, 0, 0);
        add_header(&vector, LAST | BINARY, 2, 501);
        assert_outcome(*state, &vector, &limited[i], 2, -EMSGSIZE, 1009);
        vector_free(&vector);
    }
}

static void test_default_limit(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_CLIENT};
    add_filled(&vector, LAST | BINARY, SLUICE_WEBSOCKET_DEFAULT_LIMIT);
    add_filled(&vector, BINARY, SLUICE_WEBSOCKET_DEFAULT_LIMIT);
    add_filled(&vector, LAST | MORE, 0);
    assert_outcome(*state, &vector, &as_messages, 2, 0, 0);
    add_header(&vector, BINARY, 8, SLUICE_WEBSOCKET_DEFAULT_LIMIT + 1);
    assert_refused(*state, &vector, &as_messages, -EMSGSIZE, 1009);
    vector_free(&vector);
}

/* Endless fragments: a message may have some that are small, then they must stand for some bytes on
 * the average. */
static void test_tiny_fragments(void **state) {
    const struct {
        size_t size, most; /* of a fragment; so many pass */
    } cases[] = {{0, 1024}, {1, 1040}, {32, 2048}, {48, 4096}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vector vector = {.reader = SLUICE_WEBSOCKET_CLIENT};
        const sluice_websocket_options options = {.size = sizeof options, .max_message = 8 << 20};
        add_filled(&vector, BINARY, cases[i].size);
        for (size_t count = 1; count < cases[i].most - 1; count++)
            add_filled(&vector, MORE, cases[i].size);
        size_t before = vector.buffer.size;
        add_filled(&vector, LAST | MORE, cases[i].size);
        assert_outcome(*state, &vector, &options, 1, 0, 0);
        vector.buffer.size = before;
        add_filled(&vector, MORE, cases[i].size);
        add_filled(&vector, LAST | MORE, cases[i].size);
        assert_outcome(*state, &vector, &options, 0, -EMSGSIZE, 1009);
        /* In pieces nothing is held, so any number passes. */
        assert_outcome(*state, &vector, &as_pieces, 1, 0, 0);
        vector_free(&vector);
    }
}

/* Fragments that stand for their view pass in any number, and the next message starts anew. */
static void test_many_fragments(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_CLIENT};
    for (int messages = 0; messages < 2; messages++) {
        add_filled(&vector, BINARY, 64);
        for (int count = 0; count < 5000; count++)
            add_filled(&vector, MORE, 64);
        add_filled(&vector, LAST | MORE, 64);
    }
    assert_outcome(*state, &vector, &as_messages, 2, 0, 0);
    vector_free(&vector);
}

/* A pool whose views have run out. */
static void test_no_views(void **state) {
    const sluice_pool_options small = {
        .size = sizeof small, .block_size = 4096, .slab_blocks = 32, .max_blocks = 32, .no_huge_pages = true};
    struct vector vector = {.reader = SLUICE_WEBSOCKET_CLIENT};
    sluice_pool *pool = NULL;
    (void)state;
    assert_int_equal(sluice_pool_new(&small, &pool), 0);
    add_filled(&vector, BINARY, 1);
    for (int count = 0; count < 600; count++)
        add_filled(&vector, MORE, 1);
    assert_refused(pool, &vector, &as_messages, -ENOBUFS, 1011);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
    vector_free(&vector);
}

/* What has no end is relayed in pieces: as it comes, and nothing is held back. */
static void test_endless_message(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    sluice_websocket_message *message = NULL;
    struct run run;
    uint8_t bytes[1000], expected[1000];
    uint64_t sent = 0;
    size_t key = add_header(&vector, BINARY, 8, INT64_MAX);
    begin(&run, *state, vector.reader, &as_pieces, NULL);
    feed(&run.chain, *state, vector.buffer.bytes, vector.buffer.size, 0);
    assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 0);
    for (int i = 0; i < 1000; i++) {
        size_t size = (size_t)(i * 37 % 1000) + 1;
        for (size_t j = 0; j < size; j++) {
            expected[j] = (uint8_t)(sent + j);
            bytes[j] = (uint8_t)(expected[j] ^ vector.buffer.bytes[key + (sent + j) % 4]);
        }
        feed(&run.chain, *state, bytes, size, 300);
        assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 1);
        assert_int_equal(message->opcode, SLUICE_WEBSOCKET_BINARY);
        assert_int_equal(message->first, i == 0);
        assert_false(message->last);
        assert_true(slice_is(&message->payload, expected, size));
        assert_int_equal(sluice_chain_length(&run.chain), 0);
        assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 0);
        feed_assert_returned(*state);
        sent += size;
    }
    finish(&run);
    vector_free(&vector);
}

/* ---- In place, and nothing else ---- */

/* The frame's neighbours in the block, on both sides and at any alignment, keep their bytes. */
static void test_neighbours(void **state) {
    for (size_t before = 0; before < 17; before++)
        for (size_t size = 0; size < 40; size++) {
            struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
            sluice_websocket_message *message = NULL;
            sluice_slice kept = {0};
            struct run run;
            uint8_t first[17], behind[9];
            for (size_t i = 0; i < before; i++)
                first[i] = (uint8_t)(i + 1);
            add_frame(&vector, LAST | BINARY, first, before);
            add_filled(&vector, LAST | BINARY, size);
            size_t end = vector.buffer.size;
            add_filled(&vector, LAST | BINARY, 100);
            begin(&run, *state, vector.reader, &as_messages, NULL);
            /* Of the third frame there is only a part, which nobody has looked at. */
            feed(&run.chain, *state, vector.buffer.bytes, end + sizeof behind, 0);
            assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 1);
            assert_int_equal(sluice_slice_take(&message->payload, &kept), 0);
            assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 1);
            assert_true(slice_is(&kept, first, before));
            assert_int_equal(sluice_chain_length(&run.chain), sizeof behind);
            sluice_slice rest;
            assert_int_equal(sluice_chain_take(&run.chain, sizeof behind, &rest), 0);
            assert_true(slice_is(&rest, vector.buffer.bytes + end, sizeof behind));
            sluice_slice_release(&rest);
            sluice_slice_release(&kept);
            finish(&run);
            vector_free(&vector);
        }
}

/* Another thread reads a message while those behind it in the same block are unmasked. */
struct watcher {
    const sluice_slice *slice;
    uint8_t value;
    atomic_bool stop;
    bool differs;
};

static void *watch(void *user) {
    struct watcher *watcher = user;
    do {
        struct iovec piece;
        for (size_t done = 0; done < sluice_slice_length(watcher->slice); done += piece.iov_len) {
            sluice_slice_iov(watcher->slice, done, &piece, 1);
            for (size_t i = 0; i < piece.iov_len; i++)
                watcher->differs |= ((const uint8_t *)piece.iov_base)[i] != watcher->value;
        }
    } while (!atomic_load(&watcher->stop));
    return NULL;
}

static void test_other_threads_read_on(void **state) {
    struct vector vector = {.reader = SLUICE_WEBSOCKET_SERVER};
    sluice_websocket_message *message = NULL;
    sluice_slice kept = {0};
    struct run run;
    uint8_t payload[7];
    memset(payload, 'k', sizeof payload);
    add_frame(&vector, LAST | BINARY, payload, sizeof payload);
    for (int i = 0; i < 300; i++)
        add_filled(&vector, LAST | BINARY, (size_t)(i % 5));
    begin(&run, *state, vector.reader, &as_messages, NULL);
    feed(&run.chain, *state, vector.buffer.bytes, vector.buffer.size, 0);
    assert_int_equal(sluice_websocket_next(run.ws, &run.chain, &message), 1);
    assert_int_equal(sluice_slice_take(&message->payload, &kept), 0);
    struct watcher watcher = {.slice = &kept, .value = 'k'};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch, &watcher), 0);
    size_t count = 0;
    while (sluice_websocket_next(run.ws, &run.chain, &message) == 1)
        count++;
    atomic_store(&watcher.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count, 300);
    assert_false(watcher.differs);
    sluice_slice_release(&kept);
    finish(&run);
    vector_free(&vector);
}

/* ---- Random streams ---- */

enum { TEXT_PART = 5 };

/* Adds characters of any length up to about @size bytes. */
static void random_text(struct buffer *text, uint64_t *seed, size_t size) {
    while (text->size < size) {
        const uint32_t borders[] = {0x80, 0x800, 0xD800, 0x110000};
        uint32_t c = random_below(seed, borders[random_below(seed, 4)]);
        uint8_t bytes[4];
        if (c >= 0xD800 && c < 0xE000)
            continue;
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (size_t i = n; i-- > 1; c >>= 6)
            bytes[i] = (uint8_t)(0x80 | (c & 0x3F));
        bytes[0] = (uint8_t)(n == 1 ? c : (0xF00u >> n & 0xFF) | c);
        buffer_add(text, bytes, n);
    }
}

static void random_control(struct vector *vector, struct outcome *outcome, uint64_t *seed) {
    uint8_t payload[125];
    unsigned opcode = random_below(seed, 2) ? PING : PONG;
    size_t size = random_below(seed, sizeof payload + 1);
    for (size_t i = 0; i < size; i++)
        payload[i] = (uint8_t)random_below(seed, 256);
    add_frame(vector, LAST | opcode, payload, size);
    record(outcome, opcode, 0, payload, size);
}

static void random_message(struct vector *vector, struct outcome *outcome, uint64_t *seed) {
    const uint32_t sizes[] = {1, 10, 130, 3000, 70000};
    struct buffer payload = {0};
    unsigned opcode = random_below(seed, 2) ? TEXT : BINARY;
    size_t size = random_below(seed, sizes[random_below(seed, 5)]);
    if (opcode == TEXT)
        random_text(&payload, seed, size);
    for (size_t i = payload.size; i < size; i++) {
        uint8_t byte = (uint8_t)random_below(seed, 256);
        buffer_add(&payload, &byte, 1);
    }
    uint32_t frames = random_below(seed, 2) ? 1 : random_below(seed, 8) + 1;
    size_t done = 0;
    for (uint32_t i = 0; i < frames; i++) {
        size_t left = payload.size - done;
        size_t here = i == frames - 1 ? left : random_below(seed, (uint32_t)left + 1);
        while (i > 0 && random_below(seed, 3) == 0)
            random_control(vector, outcome, seed);
        add_frame(vector, (i == frames - 1 ? LAST : 0) | (i == 0 ? opcode : MORE),
                  payload.size ? payload.bytes + done : NULL, here);
        done += here;
    }
    record(outcome, opcode, 0, payload.bytes, payload.size);
    buffer_free(&payload);
}

static void run_random_cuts(sluice_pool *pool, const struct vector *vector, const sluice_websocket_options *options,
                            const struct outcome *expected, uint64_t *seed) {
    struct run run;
    begin(&run, pool, vector->reader, options, expected);
    for (size_t done = 0; done < vector->buffer.size;) {
        const uint32_t sizes[] = {3, 20, 300, 5000, 50000};
        size_t left = vector->buffer.size - done;
        size_t here = random_below(seed, sizes[random_below(seed, 5)]) + 1;
        if (here > left)
            here = left;
        feed(&run.chain, pool, vector->buffer.bytes + done, here, random_below(seed, 2) ? 0 : here / 3 + 1);
        done += here;
        if (random_below(seed, 4))
            drain(&run);
    }
    drain(&run);
    finish(&run);
}

/* What was written is what is read, whatever its sizes, fragments, control frames between, and
 * cuts. */
static void test_random_streams(void **state) {
    uint64_t seed = 0x5EED0001;
    for (int round = 0; round < 300; round++) {
        struct vector vector = {.reader = (sluice_websocket_role)random_below(&seed, 2)};
        struct outcome outcome = {0};
        uint32_t messages = random_below(&seed, 12) + 1;
        for (uint32_t i = 0; i < messages; i++)
            random_message(&vector, &outcome, &seed);
        if (random_below(&seed, 2)) {
            add_text(&vector, LAST | CLOSE, "\x03\xE8 done");
            record(&outcome, CLOSE, 1000, " done", 5);
            outcome.close_code = 1000;
        }
        outcome.consumed = vector.buffer.size;
        for (int pass = 0; pass < 4; pass++)
            run_random_cuts(*state, &vector, pass % 2 ? &as_pieces : &as_messages, &outcome, &seed);
        outcome_free(&outcome);
        vector_free(&vector);
    }
}

/* Damaged streams: in pieces the same comes out as in one. */
static void test_random_damage(void **state) {
    uint64_t seed = 0x5EED0002;
    const sluice_websocket_options options[] = {
        {.size = sizeof(sluice_websocket_options), .max_message = 2000},
        {.size = sizeof(sluice_websocket_options), .max_message = 2000, .pieces = true},
        {.size = sizeof(sluice_websocket_options), .pieces = true},
        {.size = sizeof(sluice_websocket_options), .max_frame = 300}};
    size_t failures = 0;
    for (int round = 0; round < 20000; round++) {
        struct vector vector = {.reader = (sluice_websocket_role)random_below(&seed, 2)};
        struct outcome expected;
        make_stream(&vector, random_below(&seed, 40));
        for (uint32_t i = random_below(&seed, 4) + 1; i > 0; i--)
            vector.buffer.bytes[random_below(&seed, (uint32_t)vector.buffer.size)] ^= (uint8_t)(1 << random_below(&seed,
                                                                                                                  8));
        const sluice_websocket_options *chosen = &options[round % 4];
        read_whole(*state, &vector, chosen, &expected);
        failures += expected.result < 0;
        run_random_cuts(*state, &vector, chosen, &expected, &seed);
        outcome_free(&expected);
        vector_free(&vector);
    }
    assert_true(failures > 5000 && failures < 20000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_stream),
        TEST(test_examples),
        TEST(test_each_pair_of_cuts),
        TEST(test_each_pair_of_cuts_of_a_client),
        TEST(test_each_pair_of_cuts_in_pieces),
        TEST(test_pieces_of_each_size),
        TEST(test_growing_block),
        TEST(test_other_chain),
        TEST(test_need),
        TEST(test_fed_by_need),
        TEST(test_need_of_parts),
        TEST(test_masking_is_the_clients),
        TEST(test_reserved_bits),
        TEST(test_reserved_opcodes),
        TEST(test_control_frames),
        TEST(test_lengths),
        TEST(test_endless_lengths),
        TEST(test_fragment_order),
        TEST(test_by_reference),
        TEST(test_freed_in_the_middle),
        TEST(test_texts),
        TEST(test_texts_are_apart),
        TEST(test_close_codes),
        TEST(test_close_payloads),
        TEST(test_behind_a_close),
        TEST(test_options),
        TEST(test_message_limit),
        TEST(test_frame_limit),
        TEST(test_default_limit),
        TEST(test_tiny_fragments),
        TEST(test_many_fragments),
        TEST(test_no_views),
        TEST(test_endless_message),
        TEST(test_neighbours),
        TEST(test_other_threads_read_on),
        TEST(test_random_streams),
        TEST(test_random_damage),
    };
    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
