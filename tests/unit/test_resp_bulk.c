/* Bulk strings that leave the chain in pieces: opened, taken or dropped, closed; and what is no
 * bulk string. */
#include <sluice/resp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"

/* A connection of which the test is the peer. */
struct peer {
    sluice_pool *pool;
    sluice_chain chain;
    sluice_resp *resp;
};

static int set_up(void **state) {
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = 512, .slab_blocks = 8, .max_blocks = 4096, .no_huge_pages = true};
    struct peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    assert_int_equal(sluice_pool_new(&options, &peer->pool), 0);
    assert_int_equal(sluice_resp_new(NULL, &peer->resp), 0);
    chain_init(&peer->chain, peer->pool);
    *state = peer;
    return 0;
}

static int tear_down(void **state) {
    struct peer *peer = *state;
    sluice_resp_free(peer->resp);
    chain_clear(&peer->chain);
    feed_free_pool(peer->pool);
    free(peer);
    return 0;
}

static void push(struct peer *peer, const char *bytes) {
    feed(&peer->chain, peer->pool, bytes, strlen(bytes), 0);
}

static void assert_slice(const sluice_slice *slice, const char *expected) {
    sluice_resp_value value = {.text = *slice};
    assert_true(sluice_resp_equals(&value, expected));
}

static void assert_next_integer(struct peer *peer, int64_t expected) {
    sluice_resp_reply *reply;
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 1);
    assert_int_equal(reply->value.type, SLUICE_RESP_INTEGER);
    assert_int_equal(reply->value.integer, expected);
}

static void test_taken_in_pieces(void **state) {
    struct peer *peer = *state;
    uint64_t length = 99;
    sluice_slice part;
    push(peer, "$1");
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 0);
    assert_int_equal(sluice_resp_need(peer->resp), 3);
    assert_int_equal(length, 99);
    push(peer, "0\r\nabc");
    push(peer, "de");
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_int_equal(length, 10);
    assert_int_equal(sluice_chain_length(&peer->chain), 5);

    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 4, &part), 1);
    assert_slice(&part, "abcd");
    sluice_slice_release(&part);
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 4, &part), 1);
    assert_slice(&part, "e");
    sluice_slice_release(&part);
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 4, &part), 0);
    assert_int_equal(sluice_resp_bulk_left(peer->resp), 5);
    assert_int_equal(sluice_resp_need(peer->resp), 1);

    /* What is behind the body is not given out. */
    push(peer, "fghij\r\n:1\r\n");
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, SIZE_MAX, &part), 1);
    assert_slice(&part, "fghij");
    sluice_slice_release(&part);
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, SIZE_MAX, &part), 0);
    assert_int_equal(sluice_resp_bulk_left(peer->resp), 0);
    assert_int_equal(sluice_resp_bulk_close(peer->resp, &peer->chain), 1);
    assert_int_equal(sluice_resp_need(peer->resp), 1);
    assert_int_equal(sluice_resp_bulk_close(peer->resp, &peer->chain), 1);
    assert_next_integer(peer, 1);
}

/* The caller gets the body from the kernel; the chain sees only the header and what is behind the
 * body. */
static void test_body_past_the_chain(void **state) {
    struct peer *peer = *state;
    uint64_t length;
    sluice_slice part;
    sluice_resp_reply *reply;
    push(peer, "$1000000000000\r\nfirst");
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_true(length == UINT64_C(1000000000000));
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, SIZE_MAX, &part), 1);
    sluice_slice_release(&part);
    assert_int_equal(sluice_resp_bulk_advance(peer->resp, length), -EINVAL);
    assert_int_equal(sluice_resp_bulk_advance(peer->resp, length - 6), 0);
    assert_int_equal(sluice_resp_bulk_close(peer->resp, &peer->chain), -EBUSY);
    assert_int_equal(sluice_resp_bulk_advance(peer->resp, 1), 0);
    assert_int_equal(sluice_resp_bulk_close(peer->resp, &peer->chain), 0);
    assert_int_equal(sluice_resp_need(peer->resp), 2);
    push(peer, "\r");
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 0);
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 0);
    push(peer, "\n:2\r\n");
    assert_next_integer(peer, 2);
}

/* Too long for the caller: dropped as it comes, none of it gathered, and the connection goes on. */
static void test_skipped(void **state) {
    struct peer *peer = *state;
    enum { PIECES = 1000, PIECE = 100 };
    char bytes[PIECE + 1], header[32];
    uint64_t length;
    sluice_resp_reply *reply;
    sluice_slice part;
    memset(bytes, '$', PIECE);
    bytes[PIECE] = '\0';
    sprintf(header, "$%d\r\n", PIECES * PIECE);
    push(peer, header);
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_int_equal(length, PIECES * PIECE);
    assert_int_equal(sluice_resp_bulk_skip(peer->resp), 0);
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 1, &part), -EINVAL);
    assert_int_equal(sluice_resp_bulk_advance(peer->resp, 1), -EINVAL);
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(sluice_resp_need(peer->resp), 1);
        push(peer, bytes);
        if (i % 2)
            assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 0);
        else
            assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 0);
        assert_int_equal(sluice_chain_length(&peer->chain), 0);
        assert_int_equal(sluice_resp_bulk_left(peer->resp), (PIECES - 1 - i) * PIECE);
    }
    push(peer, "\r\n:3\r\n");
    assert_next_integer(peer, 3);
    assert_int_equal(sluice_resp_bulk_skip(peer->resp), -EINVAL);
}

/* Calls that make no sense say so and change nothing. */
static void test_misuse(void **state) {
    struct peer *peer = *state;
    uint64_t length;
    sluice_slice part = {.length = 77};
    sluice_resp_reply *reply = NULL;
    push(peer, "$3\r\nabc\r\n");
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 1, &part), -EINVAL);
    assert_int_equal(sluice_resp_bulk_advance(peer->resp, 0), -EINVAL);
    assert_int_equal(sluice_resp_bulk_skip(peer->resp), -EINVAL);
    assert_int_equal(sluice_resp_bulk_left(peer->resp), 0);
    assert_int_equal(sluice_resp_bulk_close(peer->resp, &peer->chain), 1);
    assert_int_equal(sluice_chain_length(&peer->chain), 9);

    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 0, &part), -EINVAL);
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), -EBUSY);
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), -EBUSY);
    assert_int_equal(sluice_resp_bulk_left(peer->resp), 3);
    assert_int_equal(sluice_chain_length(&peer->chain), 5);
    assert_int_equal(part.length, 77);
    assert_null(reply);

    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, 9, &part), 1);
    assert_slice(&part, "abc");
    sluice_slice_release(&part);
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 0);
    assert_int_equal(sluice_chain_length(&peer->chain), 0);
}

/* An empty body is open too, and its end is checked. */
static void test_empty(void **state) {
    struct peer *peer = *state;
    uint64_t length = 1;
    push(peer, "$0\r\n");
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_int_equal(length, 0);
    assert_int_equal(sluice_resp_need(peer->resp), 2);
    push(peer, "\r\n$0\r\nx\n");
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_int_equal(sluice_resp_bulk_close(peer->resp, &peer->chain), -EPROTO);
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), -EPROTO);
    assert_int_equal(sluice_resp_need(peer->resp), SIZE_MAX);
}

/* Other replies are left to next(), wherever they are cut; broken ones are refused. */
static void test_other_replies(void **state) {
    struct peer *peer = *state;
    static const char *const others[] = {
        "+OK\r\n",
        "-ERR no\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*1\r\n$1\r\na\r\n",
        "_\r\n",
        "#t\r\n",
        ",1\r\n",
        "(1\r\n",
        "!1\r\na\r\n",
        "=5\r\ntxt:a\r\n",
        "%1\r\n+a\r\n$1\r\na\r\n",
        "~0\r\n",
        ">1\r\n$1\r\na\r\n",
        "|1\r\n+a\r\n+b\r\n$1\r\na\r\n",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool seen = false;
        int next = 0;
        for (size_t at = 0; others[i][at]; at++) {
            uint64_t length = 99;
            sluice_resp_reply *reply;
            feed(&peer->chain, peer->pool, others[i] + at, 1, 0);
            int result = sluice_resp_bulk_open(peer->resp, &peer->chain, &length);
            if (result == 0)
                assert_true(sluice_resp_need(peer->resp) == sluice_chain_length(&peer->chain) + 1);
            else
                assert_int_equal(result, -ENOMSG);
            assert_false(seen && result == 0);
            seen = result == -ENOMSG;
            assert_int_equal(length, 99);
            assert_int_equal(next, 0);
            next = sluice_resp_next(peer->resp, &peer->chain, &reply);
        }
        assert_true(seen);
        assert_int_equal(next, 1);
    }
    static const char *const broken[] = {"x", "$x\r\n", "$-2\r\n", "$?\r\n", "$1\n\r\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        sluice_resp *resp;
        sluice_resp_reply *reply;
        uint64_t length;
        assert_int_equal(sluice_resp_new(NULL, &resp), 0);
        push(peer, broken[i]);
        int error = sluice_resp_bulk_open(resp, &peer->chain, &length);
        assert_int_equal(error, i == 3 ? -EOPNOTSUPP : -EPROTO);
        assert_int_equal(sluice_resp_next(resp, &peer->chain, &reply), error);
        assert_int_equal(sluice_resp_bulk_open(resp, &peer->chain, &length), error);
        chain_clear(&peer->chain);
        sluice_resp_free(resp);
    }
}

/* next() has begun to wait for the whole; it may still be opened. A push before it is for
 * next(). */
static void test_opened_late(void **state) {
    struct peer *peer = *state;
    uint64_t length;
    sluice_slice part;
    sluice_resp_reply *reply;
    push(peer, "*2\r\n:1\r\n$9\r\nsome");
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 0);
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), -ENOMSG);
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 0);
    assert_int_equal(sluice_resp_need(peer->resp), 23);
    push(peer, " more\r\n$5\r\nab");
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 1);
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 0);
    assert_int_equal(sluice_resp_need(peer->resp), 11);
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 1);
    assert_int_equal(length, 5);
    push(peer, "cde\r\n$1\r\nz\r\n");
    assert_int_equal(sluice_resp_bulk_take(peer->resp, &peer->chain, SIZE_MAX, &part), 1);
    assert_slice(&part, "abcde");
    sluice_slice_release(&part);
    assert_int_equal(sluice_resp_next(peer->resp, &peer->chain, &reply), 1);
    assert_true(sluice_resp_equals(&reply->value, "z"));

    /* The reply before is released, whatever is found. */
    assert_int_equal(sluice_resp_bulk_open(peer->resp, &peer->chain, &length), 0);
    feed_assert_returned(peer->pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_taken_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_body_past_the_chain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_misuse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_replies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_opened_late, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("resp_bulk", tests, NULL, NULL);
}
