/* The WebSocket framer: what no peer may send, in headers, fragments, text and closing. */
#include <sluice/websocket.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/pool.h>

#include "support/feed.h"
#include "support/websocket_rig.h"

/* ---- What may not be ---- */

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

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, feed_set_up, feed_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_masking_is_the_clients),
        TEST(test_reserved_bits),
        TEST(test_reserved_opcodes),
        TEST(test_control_frames),
        TEST(test_lengths),
        TEST(test_endless_lengths),
        TEST(test_fragment_order),
        TEST(test_texts),
        TEST(test_texts_are_apart),
        TEST(test_close_codes),
        TEST(test_close_payloads),
        TEST(test_behind_a_close),
    };
    return cmocka_run_group_tests_name("websocket_refused", tests, NULL, NULL);
}
