/* Writing WebSocket frames: headers, masking in place, control frames. */
#include <sluice/websocket.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>
#include <sluice/slice.h>

#include "support/feed.h"

static const uint8_t mask[] = {0x37, 0xFA, 0x21, 0x3D};
static const uint8_t untouched = 0xEE;

/* A header that must come out so, and that nothing behind it is written to. */
static void assert_header(sluice_websocket_opcode opcode, bool last, uint64_t length, const uint8_t *key,
                          const void *expected, int size) {
    uint8_t buffer[SLUICE_WEBSOCKET_MAX_HEADER];
    memset(buffer, untouched, sizeof buffer);
    assert_int_equal(sluice_websocket_write_header(buffer, opcode, last, length, key), size);
    assert_memory_equal(buffer, expected, (size_t)size);
    for (size_t i = (size_t)size; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], untouched);
}

static void assert_no_header(sluice_websocket_opcode opcode, bool last, uint64_t length) {
    uint8_t buffer[SLUICE_WEBSOCKET_MAX_HEADER];
    memset(buffer, untouched, sizeof buffer);
    assert_int_equal(sluice_websocket_write_header(buffer, opcode, last, length, mask), -EINVAL);
    for (size_t i = 0; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], untouched);
}

/* The shortest of the three encodings, with and without a key. */
static void test_header(void **state) {
    (void)state;
    assert_header(SLUICE_WEBSOCKET_TEXT, true, 5, NULL, "\x81\x05", 2);
    assert_header(SLUICE_WEBSOCKET_TEXT, true, 5, mask, "\x81\x85\x37\xFA\x21\x3D", 6);
    assert_header(SLUICE_WEBSOCKET_TEXT, false, 3, NULL, "\x01\x03", 2);
    assert_header(SLUICE_WEBSOCKET_CONTINUATION, true, 2, NULL, "\x80\x02", 2);
    assert_header(SLUICE_WEBSOCKET_CONTINUATION, false, 0, NULL, "\x00\x00", 2);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, 125, NULL, "\x82\x7D", 2);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, 126, NULL, "\x82\x7E\x00\x7E", 4);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, 256, NULL, "\x82\x7E\x01\x00", 4);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, 65535, mask, "\x82\xFE\xFF\xFF\x37\xFA\x21\x3D", 8);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, 65536, NULL, "\x82\x7F\x00\x00\x00\x00\x00\x01\x00\x00", 10);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, 0x0123456789ABCDEF, mask,
                  "\x82\xFF\x01\x23\x45\x67\x89\xAB\xCD\xEF\x37\xFA\x21\x3D", 14);
    assert_header(SLUICE_WEBSOCKET_BINARY, true, INT64_MAX, NULL, "\x82\x7F\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 10);
    assert_header(SLUICE_WEBSOCKET_PING, true, 0, NULL, "\x89\x00", 2);
    assert_header(SLUICE_WEBSOCKET_PONG, true, 125, NULL, "\x8A\x7D", 2);
    assert_header(SLUICE_WEBSOCKET_CLOSE, true, 2, NULL, "\x88\x02", 2);
}

static void test_header_refused(void **state) {
    (void)state;
    assert_no_header(SLUICE_WEBSOCKET_BINARY, true, (uint64_t)INT64_MAX + 1);
    assert_no_header(SLUICE_WEBSOCKET_BINARY, true, UINT64_MAX);
    assert_no_header(SLUICE_WEBSOCKET_PING, true, 126);
    assert_no_header(SLUICE_WEBSOCKET_PONG, true, 65536);
    assert_no_header(SLUICE_WEBSOCKET_CLOSE, true, 126);
    assert_no_header(SLUICE_WEBSOCKET_PING, false, 0);
    assert_no_header(SLUICE_WEBSOCKET_CLOSE, false, 0);
    for (int opcode = 3; opcode <= 7; opcode++)
        assert_no_header((sluice_websocket_opcode)opcode, true, 0);
    for (int opcode = 11; opcode <= 16; opcode++)
        assert_no_header((sluice_websocket_opcode)opcode, true, 0);
}

/* At every length, alignment and place in the frame; the bytes around stay as they are. */
static void test_mask(void **state) {
    enum { MOST = 67, AROUND = 16 };
    (void)state;
    for (size_t align = 0; align < 8; align++)
        for (size_t n = 0; n <= MOST; n++)
            for (uint64_t offset = 0; offset < 9; offset++) {
                uint8_t bytes[AROUND + MOST + AROUND], expected[sizeof bytes];
                for (size_t i = 0; i < sizeof bytes; i++)
                    bytes[i] = expected[i] = (uint8_t)(i * 37);
                for (size_t i = 0; i < n; i++)
                    expected[align + i] ^= mask[(offset + i) % 4];
                sluice_websocket_mask(bytes + align, n, mask, offset);
                assert_memory_equal(bytes, expected, sizeof bytes);
            }
}

/* In pieces as in one, also far into a frame; twice is not at all. */
static void test_mask_in_pieces(void **state) {
    enum { SIZE = 100 };
    const uint64_t starts[] = {0, 3, UINT32_MAX - 1, INT64_MAX - SIZE};
    (void)state;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        for (size_t cut = 0; cut <= SIZE; cut++) {
            uint8_t whole[SIZE] = {0}, pieces[SIZE] = {0}, nothing[SIZE] = {0};
            sluice_websocket_mask(whole, SIZE, mask, starts[i]);
            sluice_websocket_mask(pieces, cut, mask, starts[i]);
            sluice_websocket_mask(pieces + cut, SIZE - cut, mask, starts[i] + cut);
            assert_memory_equal(whole, pieces, SIZE);
            assert_int_equal(whole[0], mask[starts[i] % 4]);
            sluice_websocket_mask(whole, SIZE, mask, starts[i]);
            assert_memory_equal(whole, nothing, SIZE);
        }
    sluice_websocket_mask(NULL, 0, mask, 0);
}

static void test_close_codes(void **state) {
    (void)state;
    for (unsigned code = 0; code <= 0x10000; code++) {
        bool allowed = (code >= 1000 && code < 5000) && !(code >= 1004 && code <= 1006) &&
                       !(code >= 1015 && code < 3000);
        if (sluice_websocket_is_close_code(code) != allowed)
            fail_msg("%u", code);
    }
}

static void test_ping(void **state) {
    uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE], payload[SLUICE_WEBSOCKET_MAX_CONTROL + 1];
    (void)state;
    memset(payload, 'p', sizeof payload);
    assert_int_equal(sluice_websocket_write_ping(buffer, NULL, 0, NULL), 2);
    assert_memory_equal(buffer, "\x89\x00", 2);
    assert_int_equal(sluice_websocket_write_ping(buffer, "Hello", 5, NULL), 7);
    assert_memory_equal(buffer, "\x89\x05Hello", 7);
    /* The masked one of RFC 6455, section 5.7, but that it is a ping. */
    assert_int_equal(sluice_websocket_write_ping(buffer, "Hello", 5, mask), 11);
    assert_memory_equal(buffer, "\x89\x85\x37\xFA\x21\x3D\x7F\x9F\x4D\x51\x58", 11);
    assert_int_equal(sluice_websocket_write_ping(buffer, payload, 125, mask), sizeof buffer);
    memset(buffer, untouched, sizeof buffer);
    assert_int_equal(sluice_websocket_write_ping(buffer, payload, 126, NULL), -EINVAL);
    assert_int_equal(buffer[0], untouched);
}

static void test_close(void **state) {
    uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE];
    char reason[SLUICE_WEBSOCKET_MAX_REASON + 2];
    (void)state;
    assert_int_equal(sluice_websocket_write_close(buffer, SLUICE_WEBSOCKET_NORMAL, NULL, NULL), 4);
    assert_memory_equal(buffer, "\x88\x02\x03\xE8", 4);
    assert_int_equal(sluice_websocket_write_close(buffer, 4999, "why", NULL), 7);
    assert_memory_equal(buffer, "\x88\x05\x13\x87why", 7);
    assert_int_equal(sluice_websocket_write_close(buffer, SLUICE_WEBSOCKET_PROTOCOL_ERROR, "", mask), 8);
    assert_memory_equal(buffer, "\x88\x82\x37\xFA\x21\x3D\x34\x10", 8);
    assert_int_equal(sluice_websocket_write_close(buffer, SLUICE_WEBSOCKET_NO_STATUS, NULL, NULL), 2);
    assert_memory_equal(buffer, "\x88\x00", 2);
    assert_int_equal(sluice_websocket_write_close(buffer, SLUICE_WEBSOCKET_NO_STATUS, "", mask), 6);

    memset(reason, 'r', sizeof reason);
    reason[SLUICE_WEBSOCKET_MAX_REASON] = '\0';
    assert_int_equal(sluice_websocket_write_close(buffer, 1001, reason, mask), sizeof buffer);
    memset(buffer, untouched, sizeof buffer);
    assert_int_equal(sluice_websocket_write_close(buffer, SLUICE_WEBSOCKET_NO_STATUS, "why", NULL), -EINVAL);
    assert_int_equal(sluice_websocket_write_close(buffer, 0, NULL, NULL), -EINVAL);
    assert_int_equal(sluice_websocket_write_close(buffer, 1006, NULL, NULL), -EINVAL);
    assert_int_equal(sluice_websocket_write_close(buffer, 5000, NULL, NULL), -EINVAL);
    assert_int_equal(sluice_websocket_write_close(buffer, 1000, "\xFF", NULL), -EINVAL);
    assert_int_equal(sluice_websocket_write_close(buffer, 1000, "\xE2\x82", NULL), -EINVAL);
    reason[SLUICE_WEBSOCKET_MAX_REASON] = 'r';
    reason[SLUICE_WEBSOCKET_MAX_REASON + 1] = '\0';
    assert_int_equal(sluice_websocket_write_close(buffer, 1001, reason, NULL), -EINVAL);
    for (size_t i = 0; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], untouched);
}

/* A pong carries the ping's payload, from wherever it lies, and a slice of up to 125 bytes is no
 * payload to count. */
static void test_pong(void **state) {
    sluice_pool *pool = NULL;
    sluice_chain *chain = NULL;
    sluice_websocket *ws = NULL;
    sluice_websocket_message *ping = NULL;
    sluice_pool_stats stats = {.size = sizeof stats};
    uint8_t frame[2 + SLUICE_WEBSOCKET_MAX_CONTROL] = {0x89, SLUICE_WEBSOCKET_MAX_CONTROL};
    uint8_t buffer[SLUICE_WEBSOCKET_CONTROL_SIZE];
    (void)state;
    for (size_t i = 2; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 11);
    assert_int_equal(
        sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true}, &pool), 0);
    assert_int_equal(sluice_chain_new(pool, &chain), 0);
    assert_int_equal(sluice_websocket_new(SLUICE_WEBSOCKET_CLIENT, NULL, &ws), 0);

    feed(chain, pool, frame, sizeof frame, 7);
    assert_int_equal(sluice_websocket_next(ws, chain, &ping), 1);
    assert_int_equal(sluice_websocket_write_pong(buffer, ping, NULL), sizeof frame);
    frame[0] = 0x8A;
    assert_memory_equal(buffer, frame, sizeof frame);
    assert_int_equal(sluice_websocket_write_pong(buffer, ping, mask), sizeof buffer);
    assert_memory_equal(buffer, "\x8A\xFD", 2);
    assert_memory_equal(buffer + 2, mask, sizeof mask);
    sluice_websocket_mask(buffer + 6, SLUICE_WEBSOCKET_MAX_CONTROL, mask, 0);
    assert_memory_equal(buffer + 6, frame + 2, SLUICE_WEBSOCKET_MAX_CONTROL);

    feed(chain, pool, "\x89\x00\x82\x01!", 5, 0);
    assert_int_equal(sluice_websocket_next(ws, chain, &ping), 1);
    assert_int_equal(sluice_websocket_write_pong(buffer, ping, NULL), 2);
    assert_memory_equal(buffer, "\x8A\x00", 2);
    assert_int_equal(sluice_websocket_next(ws, chain, &ping), 1);
    assert_int_equal(sluice_websocket_write_pong(buffer, ping, NULL), -EINVAL);

    sluice_websocket_free(ws);
    sluice_chain_free(chain);
    sluice_pool_get_stats(pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    feed_assert_returned(pool);
    sluice_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),         cmocka_unit_test(test_header_refused), cmocka_unit_test(test_mask),
        cmocka_unit_test(test_mask_in_pieces), cmocka_unit_test(test_close_codes),    cmocka_unit_test(test_ping),
        cmocka_unit_test(test_close),          cmocka_unit_test(test_pong),
    };
    return cmocka_run_group_tests_name("websocket_write", tests, NULL, NULL);
}
