/* Replies of RESP in one text, and streams that run in pieces. */
#ifndef SLUICE_TESTS_SUPPORT_RESP_RIG_H
#define SLUICE_TESTS_SUPPORT_RESP_RIG_H

#include <sluice/resp.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "memory/chain.h"
#include "support/feed.h"

enum {
    MAX_TEXT = 16384,
    PAGE = 4096,
};

static inline int set_up(void **state) {
    const sluice_pool_options options = {
        .size = sizeof options, .block_size = 512, .slab_blocks = 1024, .max_blocks = 262144, .no_huge_pages = true};
    sluice_pool *pool = NULL;
    assert_int_equal(sluice_pool_new(&options, &pool), 0);
    *state = pool;
    return 0;
}

/* ---- Saying replies in one text, so that two runs can be compared ---- */

struct outcome {
    int result; /* the last one */
    uint64_t consumed;
    size_t length;
    char text[MAX_TEXT];
};

static inline void say(struct outcome *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->text + out->length, sizeof out->text - out->length, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof out->text - out->length)
        fail_msg("the outcome is too long");
    out->length += (size_t)n;
}

/* The bytes as they are, but for those that would end the text or a line of it. */
static inline void say_text(struct outcome *out, const sluice_slice *text) {
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

static inline void say_values(struct outcome *out, uint64_t count, sluice_resp_walk *walk) {
    for (uint64_t i = 0; i < count; i++) {
        sluice_resp_value value;
        if (!sluice_resp_walk_next(walk, &value))
            fail_msg("the walk ends at %" PRIu64 " of %" PRIu64 " values", i, count);
        say(out, i ? " " : "");
        say_value(out, &value, walk);
    }
}

/* A value, and the elements to which the walk has come. */
static inline void say_value(struct outcome *out, const sluice_resp_value *value, sluice_resp_walk *walk) {
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

static inline void say_reply(struct outcome *out, const sluice_resp_reply *reply) {
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

static inline void begin(struct run *run, sluice_pool *pool, const sluice_resp_limits *limits, struct outcome *out) {
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
static inline void take(struct run *run) {
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

static inline void end(struct run *run) {
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

static inline void assert_same(const struct outcome *got, const struct outcome *expected, size_t first, size_t second) {
    if (got->result != expected->result || got->consumed != expected->consumed || got->length != expected->length ||
        memcmp(got->text, expected->text, got->length) != 0)
        fail_msg("cut at %zu and %zu: %d, %" PRIu64 " bytes\n%sinstead of %d, %" PRIu64 " bytes\n%s", first, second,
                 got->result, got->consumed, got->text, expected->result, expected->consumed, expected->text);
}

static struct outcome whole, other; /* too big for the stack of a sanitized build */

static inline void run_cut(feed_guarded *guarded, sluice_pool *pool, const sluice_resp_limits *limits, size_t size,
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
static inline void run_cuts(sluice_pool *pool, const sluice_resp_limits *limits, const void *bytes, size_t size,
                            bool twice) {
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

#endif
