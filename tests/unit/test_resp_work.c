/* The RESP framer: what its work costs: memory, searches, and the bytes that it needs. */
#include <sluice/resp.h>

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "memory/poison.h"
#include "support/feed.h"
#include "support/resp_rig.h"

#ifdef SLUICE_POISONS
size_t __sanitizer_get_current_allocated_bytes(void); /* its header does not come with gcc */

static size_t allocated_bytes(void) {
    return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#endif

/* Many peers announce as much as they may: not a byte is allocated for what has not come. */
static void test_memory_bombs(void **state) {
    enum { FRAMERS = 2000 };
    static const char *const bombs[] = {
        "*1000000000\r\n", "$536870912\r\n", "%500000000\r\n",
        "*1048576\r\n",    "$67108864\r\n",  "*2\r\n*2\r\n*2\r\n*2\r\n*2\r\n*2\r\n*1048564\r\n",
        "|524288\r\n",     ">1048576\r\n",   "=67108864\r\ntxt:",
        "~9\r\n",
    };
    static sluice_resp *framers[FRAMERS];
    static sluice_chain chains[FRAMERS];
    sluice_pool_stats stats = {.size = sizeof stats};
    size_t refused = 0;

    for (size_t i = 0; i < FRAMERS; i++) {
        const char *bomb = bombs[i % (sizeof bombs / sizeof *bombs)];
        assert_int_equal(sluice_resp_new(NULL, &framers[i]), 0);
        chain_init(&chains[i], *state);
        feed(&chains[i], *state, bomb, strlen(bomb), 0);
    }
    size_t before = allocated_bytes();
    for (size_t i = 0; i < FRAMERS; i++) {
        sluice_resp_reply *reply;
        int result = sluice_resp_next(framers[i], &chains[i], &reply);
        assert_true(result == 0 || result == -EMSGSIZE);
        refused += result < 0;
    }
    assert_int_equal(allocated_bytes(), before);
    assert_int_equal(refused, FRAMERS / 10 * 3);
    sluice_pool_get_stats(*state, &stats);
    assert_int_equal(stats.held, FRAMERS);
    for (size_t i = 0; i < FRAMERS; i++) {
        sluice_resp_free(framers[i]);
        chain_clear(&chains[i]);
    }
}

/* The deepest reply that is allowed, opened and closed and opened again. */
static void test_depth(void **state) {
    static char bytes[4 * SLUICE_RESP_MAX_DEPTH * 6];
    size_t size = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SLUICE_RESP_MAX_DEPTH; i++)
            size += (size_t)sprintf(bytes + size, "*1\r\n");
        size += (size_t)sprintf(bytes + size, ":1\r\n");
    }
    const sluice_resp_limits limits = {.size = sizeof limits, .depth = SLUICE_RESP_MAX_DEPTH};
    run_cuts(*state, &limits, bytes, size, false);
    assert_int_equal(whole.result, 0);
    assert_int_equal(whole.consumed, size);
    const sluice_resp_limits less = {.size = sizeof less, .depth = SLUICE_RESP_MAX_DEPTH - 1};
    run_cuts(*state, &less, bytes, size, false);
    assert_int_equal(whole.result, -EMSGSIZE);
}

/* An array of @count small bulk strings of all lengths up to 9. */
static size_t make_array(char *bytes, int count) {
    size_t size = (size_t)sprintf(bytes, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        size += (size_t)sprintf(bytes + size, "$%d\r\n%.*s\r\n", i % 10, i % 10, "abcdefghi");
    return size;
}

static void check_array(sluice_resp_reply *reply, uint32_t count) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value value;
    assert_int_equal(reply->value.type, SLUICE_RESP_ARRAY);
    assert_int_equal(reply->value.count, count);
    for (uint32_t i = 0; i < count; i++) {
        char expected[16];
        sprintf(expected, "%.*s", (int)(i % 10), "abcdefghi");
        assert_true(sluice_resp_walk_next(&walk, &value));
        assert_int_equal(value.type, SLUICE_RESP_BULK);
        assert_true(sluice_resp_equals(&value, expected));
    }
    assert_false(sluice_resp_walk_next(&walk, &value));
}

/* Bytes of lines that have come are not looked at again until the reply is whole: their pages
 * trap. */
static void test_search_is_linear(void **state) {
    (void)state;
    enum { COUNT = 6000, PIECE = 16, MAX_PIECES = 5120 };
    static char bytes[80 << 10];
    static uint8_t *sealed[MAX_PIECES];
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = PAGE, .slab_blocks = 8, .max_blocks = MAX_PIECES, .no_huge_pages = true};
    sluice_pool *pool;
    sluice_chain chain;
    sluice_resp *resp;
    sluice_resp_reply *reply;
    size_t size = (size_t)sprintf(bytes, "*%d\r\n", COUNT), pieces = 0;

    for (int i = 0; i < COUNT; i++)
        size += (size_t)sprintf(bytes + size, i % 2 ? ":%d\r\n" : "+text of %d\r\n", i);
    assert_true(size <= sizeof bytes && size / PIECE < MAX_PIECES);
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, pool);
    for (size_t done = 0; done < size; done += PIECE, pieces++) {
        feed(&chain, pool, bytes + done, size - done < PIECE ? size - done : PIECE, 0);
        if (done + PIECE >= size)
            break;
        assert_int_equal(sluice_resp_next(resp, &chain, &reply), 0);
        assert_int_equal(sluice_resp_next(resp, &chain, &reply), 0);
        sealed[pieces] = chain.last->data;
        assert_int_equal(mprotect(sealed[pieces], PAGE, PROT_NONE), 0);
    }
    while (pieces-- > 0)
        assert_int_equal(mprotect(sealed[pieces], PAGE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
    assert_int_equal(reply->value.count, COUNT);
    sluice_resp_free(resp);
    assert_int_equal(sluice_chain_length(&chain), 0);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

/*
 * Nor are the blocks walked again from the first one: a mebibyte in pieces of 16 bytes. Under
 * AddressSanitizer the blocks behind which the search has gone trap.
 */
static void test_blocks_are_not_walked_again(void **state) {
    enum { COUNT = 100000, PIECE = 16, KEPT = 3 };
    sluice_pool *pool = *state;
    sluice_block *recent[KEPT] = {0};
    sluice_chain chain;
    sluice_resp *resp;
    sluice_resp_reply *reply;
    char *bytes = malloc(2 << 20);
    assert_non_null(bytes);
    size_t size = make_array(bytes, COUNT);

    assert_true(size > 1 << 20);
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    chain_init(&chain, pool);
    for (size_t done = 0; done + PIECE < size; done += PIECE) {
        feed(&chain, pool, bytes + done, PIECE, 0);
        assert_int_equal(sluice_resp_next(resp, &chain, &reply), 0);
        if (recent[0] && recent[0] != chain.first)
            poison_memory(recent[0], sizeof *recent[0]);
        memmove(recent, recent + 1, sizeof recent - sizeof *recent);
        recent[KEPT - 1] = chain.last;
    }
    /* The links are behind what traps. */
    sluice_block *block = chain.first;
    for (;;) {
        unpoison_memory(block, sizeof *block);
        if (block == chain.last)
            break;
        block = block->next;
    }
    feed(&chain, pool, bytes + (size - 1) / PIECE * PIECE, size - (size - 1) / PIECE * PIECE, 0);
    assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
    check_array(reply, COUNT);
    sluice_resp_free(resp);
    assert_int_equal(sluice_chain_length(&chain), 0);
    free(bytes);
}

/* With need - 1 bytes nothing is new; with need there is a reply, an error, or more is needed. */
static void test_need_is_exact(void **state) {
    static const char stream[] = "*2\r\n$40\r\n0123456789012345678901234567890123456789\r\n+text\r\n$5\r\nhello\r\n";
    struct run run;
    size_t done = 0, calls = 0;
    begin(&run, *state, NULL, &whole);
    while (done < sizeof stream - 1) {
        size_t need = sluice_resp_need(run.resp);
        if (need > chain_length(&run.chain) + 1) {
            feed(&run.chain, *state, stream + done, need - 1 - chain_length(&run.chain), 0);
            done = chain_consumed(&run.chain) + chain_length(&run.chain);
            take(&run);
            assert_int_equal(sluice_resp_need(run.resp), need);
        }
        feed(&run.chain, *state, stream + done, need - chain_length(&run.chain), 0);
        done = chain_consumed(&run.chain) + chain_length(&run.chain);
        size_t said = whole.length;
        take(&run);
        assert_true(whole.length > said || sluice_resp_need(run.resp) > need);
        calls++;
    }
    assert_string_equal(whole.text, "*2[$0123456789012345678901234567890123456789 +text]\n$hello\n");
    assert_true(calls < sizeof stream - 40);
    end(&run);
}

/* A chain from which others take bytes, and another chain, are looked at anew. */
static void test_search_follows_the_chain(void **state) {
    struct run run;
    sluice_chain second;
    sluice_resp_reply *reply;
    begin(&run, *state, NULL, &whole);
    feed(&run.chain, *state, "junk*3\r\n$10\r\nab", 15, 3);
    sluice_chain_skip(&run.chain, 4);
    take(&run);
    sluice_chain_skip(&run.chain, 9);
    feed(&run.chain, *state, "\r\n", 2, 0);
    assert_int_equal(sluice_chain_skip(&run.chain, 4), 4);
    feed(&run.chain, *state, "*1\r\n:5\r\n*1\r\n", 12, 1);
    take(&run);
    chain_init(&second, *state);
    feed(&second, *state, ":6\r\n", 4, 1);
    assert_int_equal(sluice_resp_next(run.resp, &second, &reply), 1);
    assert_int_equal(reply->value.integer, 6);
    feed(&run.chain, *state, ":7\r\n", 4, 1);
    take(&run);
    feed(&run.chain, *state, "$100\r\nabc", 9, 0);
    take(&run);
    sluice_chain_skip(&run.chain, 9);
    feed(&run.chain, *state, ":8\r\n", 4, 0);
    take(&run);
    assert_string_equal(whole.text, "*1[:5]\n*1[:7]\n:8\n");
    end(&run);
}

/* As new: after half a reply whose chain is gone, after an error, with a bulk string open. */
static void test_reset(void **state) {
    sluice_resp *resp;
    sluice_resp_reply *reply;
    sluice_chain chain;
    uint64_t length;
    static const struct {
        const char *bytes;
        bool opens;
        int result;
    } before[] = {
        {"*2\r\n$5\r\nab", false, 0},
        {"*2\r\n$5\r\nabcdefghi\r\n", false, -EPROTO},
        {"$5\r\nab", true, 1},
        {":1\r\n", false, 1},
    };
    assert_int_equal(sluice_resp_new(NULL, &resp), 0);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        chain_init(&chain, *state);
        feed(&chain, *state, before[i].bytes, strlen(before[i].bytes), 3);
        int result = before[i].opens ? sluice_resp_bulk_open(resp, &chain, &length)
                                     : sluice_resp_next(resp, &chain, &reply);
        assert_int_equal(result, before[i].result);
        chain_clear(&chain);
        sluice_resp_reset(resp);
        feed_assert_returned(*state);
        assert_int_equal(sluice_resp_need(resp), 1);
        assert_int_equal(sluice_resp_bulk_left(resp), 0);
        chain_init(&chain, *state);
        feed(&chain, *state, "*1\r\n:5\r\n", 8, 1);
        assert_int_equal(sluice_resp_next(resp, &chain, &reply), 1);
        assert_int_equal(reply->bytes.length, 8);
    }
    sluice_resp_free(resp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_bombs, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_depth, set_up, feed_tear_down),
        cmocka_unit_test(test_search_is_linear),
        cmocka_unit_test_setup_teardown(test_blocks_are_not_walked_again, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_need_is_exact, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_search_follows_the_chain, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_reset, set_up, feed_tear_down),
    };
    return cmocka_run_group_tests_name("resp_work", tests, NULL, NULL);
}
