/* Values of a reply: walks over aggregates, texts in place, and bytes kept beyond the reply. */
#include <sluice/resp.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"

enum { BLOCK = 512, BLOCKS = 128, RESERVE = 8 };

static int set_up(void **state) {
    const sluice_pool_options options = {.size = sizeof options,
                                         .block_size = BLOCK,
                                         .slab_blocks = 8,
                                         .max_blocks = BLOCKS,
                                         .reserve_blocks = RESERVE,
                                         .no_huge_pages = true};
    sluice_pool *pool = NULL;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    *state = pool;
    return 0;
}

/* Overwrites every block that is free. */
static void overwrite(sluice_pool *pool) {
    sluice_block *blocks[BLOCKS];
    size_t count = 0;
    while (count < BLOCKS && sluice_block_get(pool, &blocks[count]) == 0)
        memset(sluice_block_data(blocks[count++]), '!', BLOCK);
    while (count > 0)
        sluice_block_release(blocks[--count]);
}

static sluice_resp_value expect(sluice_resp_walk *walk, sluice_resp_type type, const char *text) {
    sluice_resp_value value;
    assert_true(sluice_resp_walk_next(walk, &value));
    assert_int_equal(value.type, type);
    assert_true(sluice_resp_equals(&value, text));
    return value;
}

static const char nested[] = "|1\r\n+key\r\n:8\r\n"
                             "*4\r\n"
                             "%2\r\n+a\r\n*2\r\n:1\r\n|1\r\n+k\r\n%1\r\n+x\r\n+y\r\n:2\r\n+b\r\n$7\r\nseven\r\n\r\n"
                             "*0\r\n"
                             "~1\r\n$3\r\nend\r\n"
                             "$4\r\nlast\r\n";

/* A reply in pieces so small that everything straddles blocks. */
static sluice_resp_reply *read_nested(sluice_resp *resp, sluice_chain *chain, sluice_pool *pool, size_t piece) {
    sluice_resp_reply *reply;
    feed(chain, pool, nested, sizeof nested - 1, piece);
    assert_int_equal(sluice_resp_next(resp, chain, &reply), 1);
    assert_int_equal(reply->bytes.length, sizeof nested - 1);
    return reply;
}

static void check_nested(sluice_resp_walk walk) {
    sluice_resp_value value;
    assert_int_equal(expect(&walk, SLUICE_RESP_MAP, "").count, 4);
    expect(&walk, SLUICE_RESP_SIMPLE, "a");
    assert_int_equal(expect(&walk, SLUICE_RESP_ARRAY, "").count, 2);
    assert_int_equal(expect(&walk, SLUICE_RESP_INTEGER, "1").attributes.left, 0);
    value = expect(&walk, SLUICE_RESP_INTEGER, "2");
    assert_int_equal(value.integer, 2);
    expect(&walk, SLUICE_RESP_SIMPLE, "b");
    expect(&walk, SLUICE_RESP_BULK, "seven\r\n");
    assert_int_equal(walk.left, 3);
    expect(&walk, SLUICE_RESP_ARRAY, "");
    expect(&walk, SLUICE_RESP_SET, "");
    expect(&walk, SLUICE_RESP_BULK, "end");
    expect(&walk, SLUICE_RESP_BULK, "last");
    assert_int_equal(walk.left, 0);
    assert_false(sluice_resp_walk_next(&walk, &value));

    expect(&value.attributes, SLUICE_RESP_SIMPLE, "k");
    assert_int_equal(expect(&value.attributes, SLUICE_RESP_MAP, "").count, 2);
    expect(&value.attributes, SLUICE_RESP_SIMPLE, "x");
    expect(&value.attributes, SLUICE_RESP_SIMPLE, "y");
    assert_false(sluice_resp_walk_next(&value.attributes, &value));
}

static void test_walk(void **state) {
    sluice_chain chain;
    sluice_resp *resp;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, *state);
    for (size_t piece = 5; piece < sizeof nested; piece++) {
        sluice_resp_reply *reply = read_nested(resp, &chain, *state, piece);
        check_nested(reply->elements);
        check_nested(reply->elements); /* a copy was walked */
        sluice_resp_walk attributes = reply->value.attributes;
        expect(&attributes, SLUICE_RESP_SIMPLE, "key");
        assert_int_equal(expect(&attributes, SLUICE_RESP_INTEGER, "8").integer, 8);
    }
    sluice_resp_free(resp);
    chain_clear(&chain);
}

static void test_skip(void **state) {
    sluice_chain chain;
    sluice_resp *resp;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, *state);
    for (size_t piece = 5; piece < sizeof nested; piece++) {
        sluice_resp_walk walk = read_nested(resp, &chain, *state, piece)->elements;
        expect(&walk, SLUICE_RESP_MAP, "");
        sluice_resp_walk inside = walk;
        sluice_resp_walk_skip(&walk);
        assert_int_equal(walk.left, 3);
        expect(&walk, SLUICE_RESP_ARRAY, "");
        sluice_resp_walk_skip(&walk); /* there is nothing in an empty one, */
        expect(&walk, SLUICE_RESP_SET, "");
        sluice_resp_walk_skip(&walk);
        sluice_resp_walk_skip(&walk); /* nothing left in one that has been skipped, */
        expect(&walk, SLUICE_RESP_BULK, "last");
        sluice_resp_walk_skip(&walk); /* nothing in what is no aggregate */
        assert_int_equal(walk.left, 0);

        expect(&inside, SLUICE_RESP_SIMPLE, "a");
        expect(&inside, SLUICE_RESP_ARRAY, "");
        sluice_resp_walk_skip(&inside);
        expect(&inside, SLUICE_RESP_SIMPLE, "b");
    }
    sluice_resp_free(resp);
    chain_clear(&chain);
}

static void *check_elsewhere(void *walk) {
    sluice_resp_walk copy = *(sluice_resp_walk *)walk;
    sluice_resp_value value;
    size_t count = 0;
    while (sluice_resp_walk_next(&copy, &value))
        count++;
    return (void *)count;
}

/* The bytes that were moved out carry the walk and the texts, on any thread, when framer and chain
 * are gone. */
static void test_kept_reply(void **state) {
    sluice_chain chain;
    sluice_resp *resp;
    sluice_slice kept;
    pthread_t thread;
    void *count;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, *state);
    sluice_resp_reply *reply = read_nested(resp, &chain, *state, 16);
    sluice_resp_walk walk = reply->elements;
    assert_int_equal(sluice_slice_take(&reply->bytes, &kept), 0);
    assert_int_equal(sluice_resp_next(resp, &chain, &reply), 0);
    sluice_resp_free(resp);
    chain_clear(&chain);
    overwrite(*state);
    check_nested(walk);
    assert_int_equal(pthread_create(&thread, NULL, check_elsewhere, &walk), 0);
    assert_int_equal(pthread_join(thread, &count), 0);
    assert_int_equal((size_t)count, 11);
    sluice_slice_release(&kept);
}

/* One value's text holds its own blocks and no others; at the pool's reserve it is refused. */
static void test_kept_value(void **state) {
    sluice_chain chain;
    sluice_resp *resp;
    sluice_resp_reply *reply;
    sluice_slice kept, refused = {.length = 77};
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_block *blocks[BLOCKS];
    size_t count = 0;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, *state);
    read_nested(resp, &chain, *state, 5);
    feed(&chain, *state, "*2\r\n$10\r\n0123", 13, 0);
    feed(&chain, *state, "456789\r\n+x\r\n", 12, 9);
    assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value value = expect(&walk, SLUICE_RESP_BULK, "0123456789");
    assert_int_equal(sluice_resp_keep(&value, &kept), 0);
    assert_int_equal(kept.length, 10);

    while (sluice_pool_available(*state) > RESERVE)
        assert_int_equal(sluice_block_get(*state, &blocks[count++]), 0);
    assert_int_equal(sluice_resp_keep(&value, &refused), -ENOBUFS);
    assert_int_equal(refused.length, 77);
    while (count > 0)
        sluice_block_release(blocks[--count]);

    assert_int_equal(sluice_resp_next(resp, &chain, &reply), 0);
    sluice_pool_get_stats(*state, &stats);
    assert_int_equal(stats.held, 2);
    overwrite(*state);
    value.text = kept;
    assert_true(sluice_resp_equals(&value, "0123456789"));
    sluice_slice_release(&kept);
    sluice_resp_free(resp);
}

/* A payload lies where it was received. */
static void test_text_in_place(void **state) {
    sluice_chain chain;
    sluice_resp *resp;
    sluice_resp_reply *reply;
    struct iovec piece;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, *state);
    feed(&chain, *state, "$5\r\nhello\r\n=7\r\ntxt:abc\r\n-ERR x\r\n,2.5\r\n", 39, 0);
    uint8_t *memory = chain.first->data;
    static const struct { size_t at, length; } texts[] = {{4, 5}, {19, 3}, {25, 5}, {33, 3}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
        assert_int_equal(sluice_slice_iov(&reply->value.text, 0, &piece, 1), 1);
        assert_ptr_equal(piece.iov_base, memory + texts[i].at);
        assert_int_equal(piece.iov_len, texts[i].length);
    }
    assert_true(reply->value.number > 2.4 && reply->value.number < 2.6);
    sluice_resp_free(resp);
    chain_clear(&chain);
}

static void test_equals(void **state) {
    static const char *const others[] = {"massage", "messagE", "Message", "messages", "messag", ""};
    sluice_chain chain;
    sluice_resp *resp;
    sluice_resp_reply *reply;
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, *state);
    for (size_t piece = 1; piece < 14; piece++) {
        feed(&chain, *state, "$7\r\nmessage\r\n", 13, piece);
        assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
        assert_true(sluice_resp_equals(&reply->value, "message"));
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            assert_false(sluice_resp_equals(&reply->value, others[i]));
    }
    feed(&chain, *state, "$0\r\n\r\n", 6, 0);
    assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
    assert_true(sluice_resp_equals(&reply->value, ""));
    assert_false(sluice_resp_equals(&reply->value, "m"));
    sluice_resp_free(resp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_walk, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_skip, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_kept_reply, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_kept_value, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_text_in_place, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_equals, set_up, feed_tear_down),
    };
    return cmocka_run_group_tests_name("resp_walk", tests, NULL, NULL);
}
