/* The WebSocket framer: what it makes of a stream, however the stream is cut into blocks. */
#include <sluice/websocket.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

#include "memory/chain.h"
#include "memory/pool.h"
#include "support/feed.h"
#include "support/websocket_rig.h"

/* Fixed seeds: a failure comes again. */
static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 16) % limit);
}

/* ---- Making streams ---- */

/* Fills the stream up to exactly @size bytes, of which the end is behind the close frame. */
static void fill_up(struct vector *vector, size_t size) {
    static const uint8_t nothing[4096];
    if (size < vector->buffer.size || size - vector->buffer.size > sizeof nothing)
        fail_msg("%zu bytes cannot be filled up to %zu", vector->buffer.size, size);
    buffer_add(&vector->buffer, nothing, size - vector->buffer.size);
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

/* ---- Random streams ---- */

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
#define TEST(name) cmocka_unit_test_setup_teardown(name, feed_set_up, feed_tear_down)
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
        TEST(test_random_streams),
        TEST(test_random_damage),
    };
    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
