/* The RESP framer: every type, what is refused, and random replies, wherever they are cut. */
#include <sluice/resp.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/feed.h"
#include "support/resp_rig.h"

/* Fixed seeds: a failure comes again. */
static uint32_t random_below(uint64_t *seed, uint32_t limit) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 16) % limit);
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
        cmocka_unit_test_setup_teardown(test_types, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_every_cut, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_every_cut_of_payloads, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_broken, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_early_refusals, set_up, feed_tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, feed_tear_down),
        cmocka_unit_test(test_options),
        cmocka_unit_test_setup_teardown(test_random, set_up, feed_tear_down),
    };
    return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
