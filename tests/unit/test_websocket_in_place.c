/* The WebSocket framer unmasks in place: payloads that are kept, shared blocks, other threads. */
#include <sluice/websocket.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/websocket_rig.h"

/* ---- Fragments ---- */

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

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, feed_set_up, feed_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_by_reference),
        TEST(test_freed_in_the_middle),
        TEST(test_neighbours),
        TEST(test_other_threads_read_on),
    };
    return cmocka_run_group_tests_name("websocket_in_place", tests, NULL, NULL);
}
