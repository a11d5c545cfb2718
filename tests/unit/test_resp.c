/* The RESP framer: what it makes of replies, however they are cut into blocks, and what it
 * refuses. */
#include <sluice/resp.h>

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "memory/poison.h"
#include "support/feed.h"

enum {
    MAX_TEXT = 16384,
    PAGE = 4096,
};

static int set_up(void **state) {
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = 512, .slab_blocks = 1024, .max_blocks = 262144, .no_huge_pages = true};
    sluice_pool *pool = NULL;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
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

/* ---- Saying replies in one text, so that two runs can be compared ---- */

struct outcome {
    int result; /* the last one */
    uint64_t consumed;
    size_t length;
    char text[MAX_TEXT];
};

static void say(struct outcome *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->text + out->length, sizeof out->text - out->length, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof out->text - out->length)
        fail_msg("the outcome is too long");
    out->length += (size_t)n;
}

/* The bytes as they are, but for those that would end the text or a line of it. */
static void say_text(struct outcome *out, const sluice_slice *text) {
    struct iovec iov[4];
    size_t said = 0;
    while (said < text->length) {
        size_t count = sluice_slice_iov(text, said, iov, 4);
        for (size_t i = 0; i < count && i < 4; i++) {
            const char *bytes = iov[i].iov_base;
            if (iov[i].iov_len >= sizeof out->text - out->length)
                fail_msg("the outcome is too long");
            for (size_t at = 0; at < iov[i].iov_len; at++)
                out->text[out->length++] = bytes[at] ? bytes[at] : '0';
            said += iov[i].iov_len;
        }
    }
    out->text[out->length] = '\0';
}

static void say_value(struct outcome *out, const sluice_resp_value *value, sluice_resp_walk *walk);

static void say_values(struct outcome *out, uint64_t count, sluice_resp_walk *walk) {
    for (uint64_t i = 0; i < count; i++) {
        sluice_resp_value value;
        if (!sluice_resp_walk_next(walk, &value))
            fail_msg("the walk ends at %" PRIu64 " of %" PRIu64 " values", i, count);
        say(out, i ? " " : "");
        say_value(out, &value, walk);
    }
}

/* A value, and the elements to which the walk has come. */
static void say_value(struct outcome *out, const sluice_resp_value *value, sluice_resp_walk *walk) {
    sluice_resp_walk attributes = value->attributes;
    if (attributes.left > 0) {
        say(out, "|(");
        say_values(out, attributes.left, &attributes);
        say(out, ")");
        assert_int_equal(attributes.left, 0);
    }
    say(out, "%c", value->type);
    switch (value->type) {
    case SLUICE_RESP_INTEGER:
        say(out, "%" PRId64, value->integer);
        break;
    case SLUICE_RESP_BOOLEAN:
        say(out, value->boolean ? "t" : "f");
        break;
    case SLUICE_RESP_DOUBLE:
        say(out, "%.17g/", value->number);
        say_text(out, &value->text);
        break;
    case SLUICE_RESP_VERBATIM:
        say(out, "%s:", value->format);
        say_text(out, &value->text);
        break;
    case SLUICE_RESP_ARRAY:
    case SLUICE_RESP_MAP:
    case SLUICE_RESP_SET:
    case SLUICE_RESP_PUSH:
        say(out, "%" PRIu32 "[", value->count);
        say_values(out, value->count, walk);
        say(out, "]");
        break;
    default:
        say_text(out, &value->text);
        break;
    }
}

static void say_reply(struct outcome *out, const sluice_resp_reply *reply) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value value;
    assert_int_equal(walk.left, reply->value.count);
    say_value(out, &reply->value, &walk);
    say(out, "\n");
    assert_int_equal(walk.left, 0);
    assert_false(sluice_resp_walk_next(&walk, &value));
}

/* ---- Running a stream in pieces ---- */

struct run {
    sluice_pool *pool;
    sluice_chain chain;
    sluice_resp *resp;
    struct outcome *out;
};

static void begin(struct run *run, sluice_pool *pool, const sluice_resp_limits *limits, struct outcome *out) {
    run->pool = pool;
    run->out = out;
    out->result = 0;
    out->length = 0;
    out->text[0] = '\0';
    chain_init(&run->chain, pool);
    if (sluice_resp_new(limits, &run->resp) != 0)
        fail_msg("no framer");
}

/* Takes the replies that are there. What is not a reply consumes nothing and leaves the result
 * alone. */
static void take(struct run *run) {
    sluice_resp_reply *const untouched = (sluice_resp_reply *)run;
    do {
        sluice_resp_reply *reply = untouched;
        uint64_t before = chain_consumed(&run->chain);
        run->out->result = sluice_resp_next(run->resp, &run->chain, &reply);
        if (run->out->result == 1) {
            if (chain_consumed(&run->chain) != before + reply->bytes.length)
                fail_msg("a reply of %zu bytes consumed others", reply->bytes.length);
            say_reply(run->out, reply);
        } else if (reply != untouched || chain_consumed(&run->chain) != before) {
            fail_msg("no reply, and yet something has changed");
        }
    } while (run->out->result == 1);
    if (run->out->result == 0 && sluice_resp_need(run->resp) <= chain_length(&run->chain))
        fail_msg("%zu bytes are there and %zu needed", chain_length(&run->chain), sluice_resp_need(run->resp));
}

static void end(struct run *run) {
    sluice_resp_reply *reply;
    if (run->out->result < 0) {
        feed(&run->chain, run->pool, "+OK\r\n", 5, 0);
        assert_int_equal(sluice_resp_next(run->resp, &run->chain, &reply), run->out->result);
        assert_int_equal(sluice_resp_need(run->resp), SIZE_MAX);
    }
    run->out->consumed = chain_consumed(&run->chain);
    sluice_resp_free(run->resp);
    chain_clear(&run->chain);
}

static void assert_same(const struct outcome *got, const struct outcome *expected, size_t first, size_t second) {
    if (got->result != expected->result || got->consumed != expected->consumed || got->length != expected->length ||
        memcmp(got->text, expected->text, got->length) != 0)
        fail_msg("cut at %zu and %zu: %d, %" PRIu64 " bytes\n%sinstead of %d, %" PRIu64 " bytes\n%s", first, second,
                 got->result, got->consumed, got->text, expected->result, expected->consumed, expected->text);
}

static struct outcome whole, other; /* too big for the stack of a sanitized build */

static void run_cut(feed_guarded *guarded, sluice_pool *pool, const sluice_resp_limits *limits, size_t size,
                    size_t first, size_t second, struct outcome *out) {
    struct run run;
    const size_t ends[] = {first, second, size};
    size_t done = 0;
    begin(&run, pool, limits, out);
    for (int i = 0; i < 3; i++) {
        if (ends[i] <= done)
            continue;
        feed_guarded_range(guarded, &run.chain, done, ends[i]);
        take(&run);
        done = ends[i];
        if (out->result < 0)
            break;
    }
    end(&run);
}

/* The outcome of the whole stream is that of the stream cut in two, or with @twice in three, and
 * byte by byte. */
static void run_cuts(sluice_pool *pool, const sluice_resp_limits *limits, const void *bytes, size_t size, bool twice) {
    feed_guarded *guarded = feed_guarded_new(bytes, size);
    struct run run;
    run_cut(guarded, pool, limits, size, size, size, &whole);
    for (size_t first = 1; first < size; first += twice ? feed_cuts_apart() : 1) {
        for (size_t second = twice ? first + 1 : size; second <= size; second++) {
            run_cut(guarded, pool, limits, size, first, second, &other);
            assert_same(&other, &whole, first, second);
        }
    }
    begin(&run, pool, limits, &other);
    for (size_t i = 0; i < size && other.result >= 0; i++) {
        feed_guarded_range(guarded, &run.chain, i, i + 1);
        take(&run);
    }
    end(&run);
    assert_same(&other, &whole, 0, 0);
    feed_guarded_free(guarded);
}

/* ---- Types ---- */

static const struct {
    const char *bytes;
    const char *said;
} replies[] = {
    {"+OK\r\n", "+OK"},
    {"+\r\n", "+"},
    {"-ERR unknown command 'x'\r\n", "-ERR unknown command 'x'"},
    {":1000\r\n", ":1000"},
    {":-0\r\n", ":0"},
    {":+7\r\n", ":7"},
    {":9223372036854775807\r\n", ":9223372036854775807"},
    {":-9223372036854775808\r\n", ":-9223372036854775808"},
    {"$5\r\nhello\r\n", "$hello"},
    {"$0\r\n\r\n", "$"},
    {"$6\r\n\r\n$1\r\n\r\n", "$\r\n$1\r\n"},
    {"$-1\r\n", "_"},
    {"*-1\r\n", "_"},
    {"_\r\n", "_"},
    {"*0\r\n", "*0[]"},
    {"*3\r\n$3\r\nfoo\r\n$-1\r\n:-7\r\n", "*3[$foo _ :-7]"},
    {"*2\r\n*2\r\n*0\r\n*1\r\n+a\r\n*1\r\n%0\r\n", "*2[*2[*0[] *1[+a]] *1[%0[]]]"},
    {"#t\r\n", "#t"},
    {"#f\r\n", "#f"},
    {",1.5\r\n", ",1.5/1.5"},
    {",-10\r\n", ",-10/-10"},
    {",+1.23e-5\r\n", ",1.2300000000000001e-05/+1.23e-5"},
    {",5.E+2\r\n", ",500/5.E+2"},
    {",.25\r\n", ",0.25/.25"},
    {",2e5\r\n", ",200000/2e5"},
    {",inf\r\n", ",inf/inf"},
    {",-inf\r\n", ",-inf/-inf"},
    {",1e999\r\n", ",inf/1e999"},
    {",NaN\r\n", ",nan/NaN"},
    {"(3492890328409238509324850943850943825024385\r\n", "(3492890328409238509324850943850943825024385"},
    {"(-0\r\n", "(-0"},
    {"!21\r\nSYNTAX invalid syntax\r\n", "!SYNTAX invalid syntax"},
    {"=15\r\ntxt:Some string\r\n", "=txt:Some string"},
    {"=4\r\nmkd:\r\n", "=mkd:"},
    {"%2\r\n+first\r\n:1\r\n$6\r\nsecond\r\n~1\r\n#t\r\n", "%4[+first :1 $second ~1[#t]]"},
    {"~2\r\n+a\r\n*-1\r\n", "~2[+a _]"},
    {">3\r\n+message\r\n+channel\r\n$2\r\nhi\r\n", ">3[+message +channel $hi]"},
    {">0\r\n", ">0[]"},
    {"|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n", "|(+ttl :3600)$x"},
    {"|1\r\n+a\r\n|1\r\n+in\r\n+attribute\r\n:1\r\n>1\r\n+push\r\n", "|(+a |(+in +attribute):1)>1[+push]"},
    {"|1\r\n+a\r\n*1\r\n:1\r\n|0\r\n*2\r\n|1\r\n+k\r\n+v\r\n+x\r\n|0\r\n_\r\n", "*2[|(+k +v)+x _]"},
    {"*2\r\n+z\r\n|1\r\n*1\r\n+k\r\n%1\r\n+v\r\n_\r\n*1\r\n#f\r\n", "*2[+z |(*1[+k] %2[+v _])*1[#f]]"},
};

enum { REPLIES = sizeof replies / sizeof *replies };

/* Each type alone, at each cut; and what its text is. */
static void test_types(void **state) {
    char said[256];
    for (size_t i = 0; i < REPLIES; i++) {
        run_cuts(*state, NULL, replies[i].bytes, strlen(replies[i].bytes), true);
        snprintf(said, sizeof said, "%s\n", replies[i].said);
        assert_string_equal(whole.text, said);
        assert_int_equal(whole.result, 0);
        assert_int_equal(whole.consumed, strlen(replies[i].bytes));
    }
}

/* All of them in a row, at each cut and each pair of cuts. */
static void test_every_cut(void **state) {
    char bytes[2048], said[4096] = "";
    size_t size = 0;
    for (size_t i = 0; i < REPLIES; i++) {
        size += (size_t)sprintf(bytes + size, "%s", replies[i].bytes);
        sprintf(said + strlen(said), "%s\n", replies[i].said);
    }
    run_cuts(*state, NULL, bytes, size, true);
    assert_string_equal(whole.text, said);
    assert_int_equal(whole.consumed, size);
}

/* 2 KiB with payloads that look like replies. */
static void test_every_cut_of_payloads(void **state) {
    static char bytes[2049];
    size_t size = (size_t)sprintf(bytes, "*3\r\n$600\r\n");
    for (int i = 0; i < 150; i++)
        size += (size_t)sprintf(bytes + size, "$1\r\n");
    size += (size_t)sprintf(bytes + size, "\r\n:4\r\n=%d\r\ntxt:", 4 + 500);
    for (int i = 0; i < 100; i++)
        size += (size_t)sprintf(bytes + size, "*-1\r\n");
    size += (size_t)sprintf(bytes + size, "\r\n-%0*d\r\n", 400, 7);
    size_t last = 2048 - size - strlen("$500\r\n\r\n");
    assert_in_range(last, 100, 999);
    sprintf(bytes + size, "$%zu\r\n%0*d\r\n", last, (int)last, 9);
    assert_int_equal(strlen(bytes), 2048);
    run_cuts(*state, NULL, bytes, 2048, true);
    assert_int_equal(whole.consumed, 2048);
    assert_int_equal(whole.result, 0);
}

/* ---- What is refused ---- */

static const struct {
    const char *bytes;
    int error;
} broken[] = {
    {"OK\r\n", -EPROTO},
    {"HTTP/1.1 400 Bad Request\r\n", -EPROTO},
    {"\r\n", -EPROTO},
    {".\r\n", -EPROTO},
    {";4\r\nabcd\r\n", -EPROTO},
    {"+OK\n", -EPROTO},
    {"+O\nK\r\n", -EPROTO},
    {"+O\rK\r\n", -EPROTO},
    {"-ERR\r\r\n", -EPROTO},
    {":\r\n", -EPROTO},
    {":-\r\n", -EPROTO},
    {":1a\r\n", -EPROTO},
    {": 1\r\n", -EPROTO},
    {":1\n\r\n", -EPROTO},
    {":9223372036854775808\r\n", -EPROTO},
    {":-9223372036854775809\r\n", -EPROTO},
    {":00000000000000000000000000000000000000000000000000000000000000001\r\n", -EPROTO},
    {"$\r\n", -EPROTO},
    {"$-2\r\n", -EPROTO},
    {"$+1\r\na\r\n", -EPROTO},
    {"$-1\n\r\n", -EPROTO},
    {"$0x1\r\na\r\n", -EPROTO},
    {"$9223372036854775808\r\n", -EPROTO},
    {"$18446744073709551617\r\n", -EPROTO},
    {"$1\r\nab\r\n", -EPROTO},
    {"$1\r\na\n\n", -EPROTO},
    {"$2\r\na\r\n:1\r\n", -EPROTO},
    {"$9223372036854775807\r\n", -EMSGSIZE},
    {"$67108865\r\n", -EMSGSIZE},
    {"!67108865\r\n", -EMSGSIZE},
    {"=67108865\r\n", -EMSGSIZE},
    {"$?\r\n;1\r\na\r\n;0\r\n", -EOPNOTSUPP},
    {"*?\r\n:1\r\n.\r\n", -EOPNOTSUPP},
    {"%?\r\n+a\r\n:1\r\n.\r\n", -EOPNOTSUPP},
    {"~?\r\n.\r\n", -EOPNOTSUPP},
    {"=3\r\ntxt\r\n", -EPROTO},
    {"=-1\r\n", -EPROTO},
    {"=7\r\ntxtabcd\r\n", -EPROTO},
    {"!-1\r\n", -EPROTO},
    {"*-2\r\n", -EPROTO},
    {"*\r\n", -EPROTO},
    {"%-1\r\n", -EPROTO},
    {"~-1\r\n", -EPROTO},
    {">-1\r\n", -EPROTO},
    {"|-1\r\n", -EPROTO},
    {"*1048577\r\n", -EMSGSIZE},
    {"%524289\r\n", -EMSGSIZE},
    {"*1000000000\r\n", -EMSGSIZE},
    {"%9223372036854775807\r\n", -EMSGSIZE},
    {"*1\r\n*1048576\r\n", -EMSGSIZE},
    {"|1\r\n*1048574\r\n", 0},
    {"|1\r\n*1048575\r\n", -EMSGSIZE},
    {"*2\r\n+a\r\n>1\r\n+b\r\n", -EPROTO},
    {"_x\r\n", -EPROTO},
    {"#\r\n", -EPROTO},
    {"#true\r\n", -EPROTO},
    {"#T\r\n", -EPROTO},
    {",\r\n", -EPROTO},
    {",.\r\n", -EPROTO},
    {",-\r\n", -EPROTO},
    {",1e\r\n", -EPROTO},
    {",1e+\r\n", -EPROTO},
    {",1e5.\r\n", -EPROTO},
    {",e5\r\n", -EPROTO},
    {",1,5\r\n", -EPROTO},
    {",0x1p3\r\n", -EPROTO},
    {",infinity\r\n", -EPROTO},
    {",nan(1)\r\n", -EPROTO},
    {",--1\r\n", -EPROTO},
    {", 1\r\n", -EPROTO},
    {"(\r\n", -EPROTO},
    {"(+\r\n", -EPROTO},
    {"(1-\r\n", -EPROTO},
    {"(1.5\r\n", -EPROTO},
};

static void test_broken(void **state) {
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        run_cuts(*state, NULL, broken[i].bytes, strlen(broken[i].bytes), true);
        if (whole.result != broken[i].error)
            fail_msg("%d instead of %d for %s", whole.result, broken[i].error, broken[i].bytes);
        assert_int_equal(whole.consumed, 0);
    }
}

/* How many bytes must come until there is an error. */
static size_t refused_after(sluice_pool *pool, const sluice_resp_limits *limits, const char *bytes, size_t size,
                            int *ret_error) {
    struct run run;
    size_t done = 0;
    begin(&run, pool, limits, &other);
    while (done < size && other.result >= 0) {
        feed(&run.chain, pool, bytes + done++, 1, 0);
        take(&run);
    }
    *ret_error = other.result;
    end(&run);
    return done;
}

/* What is too much is refused by what it announces; what is no RESP by its first byte. */
static void test_early_refusals(void **state) {
    static char bytes[70000];
    int error;
    assert_int_equal(refused_after(*state, NULL, "$67108865\r\nabc", 14, &error), 11);
    assert_int_equal(error, -EMSGSIZE);
    assert_int_equal(refused_after(*state, NULL, "*1000000000\r\n:1\r\n", 17, &error), 13);
    assert_int_equal(error, -EMSGSIZE);
    assert_int_equal(refused_after(*state, NULL, "GET / HTTP/1.1\r\n", 16, &error), 1);
    assert_int_equal(error, -EPROTO);
    assert_int_equal(refused_after(*state, NULL, "+OK\nxx", 6, &error), 4);
    assert_int_equal(error, -EPROTO);
    memset(bytes, '0', sizeof bytes);
    bytes[0] = ':';
    assert_int_equal(refused_after(*state, NULL, bytes, sizeof bytes, &error), 1 + SLUICE_RESP_MAX_NUMBER + 1);
    assert_int_equal(error, -EPROTO);
    bytes[0] = ',';
    assert_int_equal(refused_after(*state, NULL, bytes, sizeof bytes, &error), 1 + SLUICE_RESP_MAX_DOUBLE + 1);
    assert_int_equal(error, -EPROTO);
    bytes[0] = '(';
    assert_int_equal(refused_after(*state, NULL, bytes, sizeof bytes, &error), 1 + SLUICE_RESP_DEFAULT_LINE + 1);
    assert_int_equal(error, -EMSGSIZE);
    bytes[0] = '-';
    assert_int_equal(refused_after(*state, NULL, bytes, sizeof bytes, &error), 1 + SLUICE_RESP_DEFAULT_LINE + 1);
    assert_int_equal(error, -EMSGSIZE);
}

static void check_limit(sluice_pool *pool, sluice_resp_limits limits, const char *bytes, int expected) {
    limits.size = sizeof limits;
    run_cuts(pool, &limits, bytes, strlen(bytes), false);
    if (whole.result != expected)
        fail_msg("%d instead of %d for %s", whole.result, expected, bytes);
}

/* At a limit, and one beyond it. */
static void test_limits(void **state) {
    static const char *const at[] = {"$5\r\nabcde\r\n", "*1\r\n!5\r\nabcde\r\n", "=5\r\ntxt:a\r\n"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        check_limit(*state, (sluice_resp_limits){.bulk = 5, .reply = 100}, at[i], 0);
        check_limit(*state, (sluice_resp_limits){.bulk = 4, .reply = 100}, at[i], -EMSGSIZE);
        check_limit(*state, (sluice_resp_limits){.reply = strlen(at[i])}, at[i], 0);
        check_limit(*state, (sluice_resp_limits){.reply = strlen(at[i]) - 1}, at[i], -EMSGSIZE);
    }
    static const char *const lines[] = {"+abcde\r\n", "-abcde\r\n", "(-1234\r\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        check_limit(*state, (sluice_resp_limits){.line = 5}, lines[i], 0);
        check_limit(*state, (sluice_resp_limits){.line = 4}, lines[i], -EMSGSIZE);
        check_limit(*state, (sluice_resp_limits){.reply = 8}, lines[i], 0);
        check_limit(*state, (sluice_resp_limits){.reply = 7}, lines[i], -EMSGSIZE);
    }
    check_limit(*state, (sluice_resp_limits){.bulk = 5}, "*3\r\n$5\r\nabcde\r\n$5\r\nabcde\r\n$5\r\nabcde\r\n", 0);
    static const char nested[] = "*2\r\n%1\r\n:1\r\n*1\r\n:2\r\n:3\r\n";
    check_limit(*state, (sluice_resp_limits){.elements = 5}, nested, 0);
    check_limit(*state, (sluice_resp_limits){.elements = 4}, nested, -EMSGSIZE);
    check_limit(*state, (sluice_resp_limits){.depth = 3}, nested, 0);
    check_limit(*state, (sluice_resp_limits){.depth = 2}, nested, -EMSGSIZE);
    check_limit(*state, (sluice_resp_limits){.depth = 1}, "*2\r\n:1\r\n*0\r\n", -EMSGSIZE);
    check_limit(*state, (sluice_resp_limits){.depth = 1}, "|1\r\n:1\r\n:1\r\n*1\r\n:1\r\n", 0);
    check_limit(*state, (sluice_resp_limits){.depth = 1}, "*1\r\n|1\r\n:1\r\n:1\r\n:1\r\n", -EMSGSIZE);

    /* The limits are of one reply: the next begins anew. */
    check_limit(*state, (sluice_resp_limits){.elements = 2, .reply = 12, .depth = 1},
                "*2\r\n:1\r\n:2\r\n*2\r\n:1\r\n:2\r\n*3\r\n", -EMSGSIZE);
    assert_string_equal(whole.text, "*2[:1 :2]\n*2[:1 :2]\n");
}

static void test_options(void **state) {
    (void)state;
    const sluice_resp_limits bad[] = {{.size = sizeof(sluice_resp_limits), .depth = SLUICE_RESP_MAX_DEPTH + 1},
                                      {.size = sizeof(sluice_resp_limits), .elements = (uint32_t)INT32_MAX + 1},
                                      {.size = sizeof(sluice_resp_limits), .bulk = SIZE_MAX / 4 + 1}};
    sluice_resp *resp = (sluice_resp *)&bad;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sluice_resp_new(&bad[i], &resp), -EINVAL);
        assert_ptr_equal(resp, &bad);
    }
    const sluice_resp_limits most = {sizeof most, SIZE_MAX / 4, SIZE_MAX, UINT32_MAX, INT32_MAX, SLUICE_RESP_MAX_DEPTH};
    assert_int_equal(sluice_resp_new(&most, &resp), 0);
    assert_int_equal(sluice_resp_need(resp), 1);
    sluice_resp_free(resp);
    sluice_resp_free(NULL);
}

/* ---- Memory and work ---- */

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

/* ---- Random replies ---- */

struct writer {
    char bytes[4096];
    size_t size;
    uint64_t seed;
};

static void put(struct writer *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    to->size += (size_t)vsnprintf(to->bytes + to->size, sizeof to->bytes - to->size, format, args);
    va_end(args);
}

static void put_value(struct writer *to, int depth) {
    static const char blobs[] = {'$', '!', '='};
    static const char aggregates[] = {'*', '~', '%', '|'};
    uint32_t n = random_below(&to->seed, 40);
    switch (random_below(&to->seed, depth < 4 ? 9 : 6)) {
    case 0:
        put(to, "+%.*s\r\n", (int)n, "the quick brown fox jumps over the lazy dog");
        break;
    case 1:
        put(to, ":%d\r\n", (int)random_below(&to->seed, 4000) - 2000);
        break;
    case 2:
        put(to, ",%g\r\n", (double)n * 1e-7);
        break;
    case 3:
        put(to, "(%d%d\r\n", n, n);
        break;
    case 4:
        put(to, "%s", (const char *[]){"_\r\n", "$-1\r\n", "*-1\r\n", "#t\r\n", "#f\r\n"}[n % 5]);
        break;
    case 5: {
        char type = blobs[n % 3];
        put(to, "%c%u\r\n%s%0*d\r\n", type, type == '=' ? n + 5 : n + 1, type == '=' ? "txt:" : "", (int)n + 1, 0);
        break;
    }
    default: {
        char type = aggregates[n % 4];
        uint32_t count = random_below(&to->seed, 4);
        put(to, "%c%u\r\n", type, count);
        for (uint32_t i = 0; i < (type == '%' || type == '|' ? 2 * count : count); i++)
            put_value(to, depth + 1);
        if (type == '|')
            put_value(to, depth);
        break;
    }
    }
}

/* A byte that matters put over another, one left out, or a run of bytes twice. */
static void mutate(struct writer *to) {
    static const char telling[] = "\r\n$*%~>|+-:_#,(!=?0129ta";
    size_t at = random_below(&to->seed, (uint32_t)to->size);
    size_t run = 1 + random_below(&to->seed, 12);
    switch (random_below(&to->seed, 3)) {
    case 0:
        to->bytes[at] = telling[random_below(&to->seed, sizeof telling - 1)];
        break;
    case 1:
        memmove(to->bytes + at, to->bytes + at + 1, to->size - at - 1);
        to->size--;
        break;
    default:
        run = run < to->size - at ? run : to->size - at;
        memmove(to->bytes + at + run, to->bytes + at, to->size - at);
        to->size += run;
        break;
    }
}

/* Feeds the bytes in blocks of random sizes, some at a time. */
static void run_random(sluice_pool *pool, struct writer *from, const sluice_resp_limits *limits) {
    struct run run;
    size_t most = 1 + random_below(&from->seed, 64);
    begin(&run, pool, limits, &other);
    for (size_t done = 0; done < from->size && other.result >= 0;) {
        for (uint32_t blocks = 1 + random_below(&from->seed, 3); blocks > 0 && done < from->size; blocks--) {
            size_t here = 1 + random_below(&from->seed, (uint32_t)most);
            here = here < from->size - done ? here : from->size - done;
            feed(&run.chain, pool, from->bytes + done, here, 0);
            done += here;
        }
        take(&run);
    }
    end(&run);
    assert_same(&other, &whole, 0, 0);
}

/* Whatever random replies give, damaged ones too, they give it however they are cut. */
static void test_random(void **state) {
    static struct writer writer = {.seed = 0x9E3779B97F4A7C15};
    const sluice_resp_limits tight = {
        .size = sizeof tight, .bulk = 38, .line = 38, .elements = 20, .depth = 4, .reply = 300};
    size_t taken = 0, refused[3] = {0}, partial = 0;
    for (int round = 0; round < 30000; round++) {
        writer.size = 0;
        for (uint32_t i = 1 + random_below(&writer.seed, 4); i > 0 && writer.size < 1024; i--)
            put_value(&writer, 0);
        if (writer.size > sizeof writer.bytes / 2)
            continue;
        for (uint32_t i = random_below(&writer.seed, 3); i > 0; i--)
            mutate(&writer);
        const sluice_resp_limits *limits = random_below(&writer.seed, 2) ? &tight : NULL;
        struct run run;
        begin(&run, *state, limits, &whole);
        feed(&run.chain, *state, writer.bytes, writer.size, 0);
        take(&run);
        end(&run);
        run_random(*state, &writer, limits);
        taken += whole.result == 0 && whole.consumed == writer.size;
        partial += whole.result == 0 && whole.consumed < writer.size;
        refused[0] += whole.result == -EPROTO;
        refused[1] += whole.result == -EMSGSIZE;
        refused[2] += whole.result == -EOPNOTSUPP;
    }
    assert_true(taken > 5000 && partial > 500 && refused[0] > 5000 && refused[1] > 500 && refused[2] > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_cut_of_payloads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_early_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test(test_options),
        cmocka_unit_test_setup_teardown(test_memory_bombs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_depth, set_up, tear_down),
        cmocka_unit_test(test_search_is_linear),
        cmocka_unit_test_setup_teardown(test_blocks_are_not_walked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_need_is_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_search_follows_the_chain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_random, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
