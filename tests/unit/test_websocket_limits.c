/* The WebSocket framer: limits of messages, frames and memory. */
#include <sluice/websocket.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

#include "support/feed.h"
#include "support/websocket_rig.h"

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

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, feed_set_up, feed_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_options),        TEST(test_message_limit),  TEST(test_frame_limit), TEST(test_default_limit),
        TEST(test_tiny_fragments), TEST(test_many_fragments), TEST(test_no_views),    TEST(test_endless_message),
    };
    return cmocka_run_group_tests_name("websocket_limits", tests, NULL, NULL);
}
