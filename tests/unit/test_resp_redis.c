/* The RESP framer and command writer against a real redis-server, in both versions of the
 * protocol. */
#include <sluice/resp.h>

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"
#include "support/redis.h"

enum {
    SKIPPED = 77, /* what a test program returns that could not run */
    MEBIBYTE = 1 << 20,
};

static redis_server server;

static int start_server(void **state) {
    (void)state;
    return redis_start(&server) ? 0 : -1;
}

static int stop_server(void **state) {
    (void)state;
    redis_stop(&server, SIGTERM);
    return 0;
}

/* ---- A client that waits ---- */

struct client {
    int fd;
    int version; /* of the protocol */
    sluice_pool *pool;
    sluice_chain chain;
    sluice_resp *resp;
};

static void send_bytes(struct client *client, const void *bytes, size_t size, bool more) {
    const uint8_t *from = bytes;
    while (size > 0) {
        ssize_t n = send(client->fd, from, size, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        assert_true(n > 0);
        from += n;
        size -= (size_t)n;
    }
}

/* Words and "%b" for an argument with its length behind it, up to NULL. */
static void send_command(struct client *client, const char *word, ...) {
    char buffer[4096];
    sluice_resp_arg args[64];
    size_t count = 0, length;
    va_list list;
    va_start(list, word);
    for (; word; word = va_arg(list, const char *)) {
        args[count] = (sluice_resp_arg){word, strlen(word)};
        if (strcmp(word, "%b") == 0) {
            args[count].data = va_arg(list, const char *);
            args[count].length = va_arg(list, size_t);
        }
        count++;
    }
    va_end(list);
    assert_int_equal(sluice_resp_write_command(buffer, sizeof buffer, args, count, &length), 0);
    send_bytes(client, buffer, length, false);
}

/* SET with the value from where it lies. */
static void send_set(struct client *client, const char *key, const void *value, size_t size) {
    char header[128];
    const sluice_resp_arg args[] = {{"SET", 3}, {key, strlen(key)}};
    size_t length;
    assert_int_equal(sluice_resp_write_command_header(header, sizeof header, args, 2, size, &length), 0);
    send_bytes(client, header, length, true);
    send_bytes(client, value, size, true);
    send_bytes(client, "\r\n", 2, false);
}

static void receive(struct client *client) {
    sluice_block *block = NULL;
    assert_int_equal(sluice_block_get(client->pool, &block), 0);
    ssize_t n = recv(client->fd, sluice_block_data(block), sluice_block_capacity(block), 0);
    if (n <= 0)
        fail_msg("the server does not answer: %s", n ? strerror(errno) : "closed");
    assert_int_equal(sluice_block_set_length(block, (uint32_t)n), 0);
    sluice_chain_append(&client->chain, block);
}

static const sluice_resp_reply *next_reply(struct client *client) {
    sluice_resp_reply *reply = NULL;
    for (;;) {
        int result = sluice_resp_next(client->resp, &client->chain, &reply);
        if (result == 1)
            return reply;
        assert_int_equal(result, 0);
        receive(client);
    }
}

static uint64_t open_bulk(struct client *client) {
    uint64_t length;
    for (;;) {
        int result = sluice_resp_bulk_open(client->resp, &client->chain, &length);
        if (result == 1)
            return length;
        assert_int_equal(result, 0);
        receive(client);
    }
}

static void assert_value(const sluice_resp_value *value, sluice_resp_type type, const char *text) {
    assert_int_equal(value->type, type);
    if (!sluice_resp_equals(value, text))
        fail_msg("not %s", text);
}

static void expect_ok(struct client *client) {
    assert_value(&next_reply(client)->value, SLUICE_RESP_SIMPLE, "OK");
}

/* The connection is where it should be: the next command is answered by its own answer. */
static void expect_in_step(struct client *client, const char *word) {
    send_command(client, "ECHO", word, NULL);
    assert_value(&next_reply(client)->value, SLUICE_RESP_BULK, word);
}

static void expect_element(sluice_resp_walk *walk, sluice_resp_type type, const char *text) {
    sluice_resp_value value;
    assert_true(sluice_resp_walk_next(walk, &value));
    assert_value(&value, type, text);
}

static struct client *connect_client(int version) {
    struct client *client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->version = version;
    client->fd = redis_connect(&server);
    assert_int_equal(sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true},
                                     &client->pool),
                     0);
    assert_int_equal(sluice_resp_new(NULL, &client->resp), 0);
    chain_init(&client->chain, client->pool);
    if (version == 3) {
        send_command(client, "HELLO", "3", NULL);
        const sluice_resp_reply *reply = next_reply(client);
        assert_int_equal(reply->value.type, SLUICE_RESP_MAP);
        sluice_resp_walk walk = reply->elements;
        expect_element(&walk, SLUICE_RESP_BULK, "server");
        expect_element(&walk, SLUICE_RESP_BULK, "redis");
    }
    return client;
}

static void close_client(struct client *client) {
    sluice_resp_free(client->resp);
    assert_int_equal(sluice_chain_length(&client->chain), 0);
    feed_assert_returned(client->pool);
    sluice_pool_free(client->pool);
    close(client->fd);
    free(client);
}

static int set_up_2(void **state) {
    *state = connect_client(2);
    return 0;
}

static int set_up_3(void **state) {
    *state = connect_client(3);
    return 0;
}

static int tear_down(void **state) {
    struct client *client = *state;
    send_command(client, "FLUSHALL", NULL);
    expect_ok(client);
    close_client(client);
    return 0;
}

/* ---- Values ---- */

/* Bytes of every value, line ends among them. */
static uint8_t *make_value(size_t size) {
    uint8_t *value = malloc(size);
    uint64_t seed = 0x2545F4914F6CDD1D;
    assert_non_null(value);
    for (size_t i = 0; i < size; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        value[i] = i % 64 < 4 ? (uint8_t) "\r\n$1"[i % 4] : (uint8_t)(seed >> 56);
    }
    return value;
}

static void assert_payload(const sluice_slice *slice, const uint8_t *expected, size_t size) {
    struct iovec pieces[1024];
    assert_int_equal(slice->length, size);
    for (size_t done = 0; done < size;) {
        size_t count = sluice_slice_iov(slice, done, pieces, 1024);
        for (size_t i = 0; i < count && i < 1024; i++) {
            assert_memory_equal(pieces[i].iov_base, expected + done, pieces[i].iov_len);
            done += pieces[i].iov_len;
        }
    }
}

static void test_set_and_get(void **state) {
    struct client *client = *state;
    const size_t sizes[] = {0, 1, 2, 4095, 4096, 65537, MEBIBYTE};
    uint8_t *value = make_value(MEBIBYTE);
    sluice_pool_stats stats = {.size = sizeof stats};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_set(client, "key", value, sizes[i]);
        expect_ok(client);
        send_command(client, "GET", "key", NULL);
        const sluice_resp_reply *reply = next_reply(client);
        assert_int_equal(reply->value.type, SLUICE_RESP_BULK);
        assert_payload(&reply->value.text, value, sizes[i]);
    }
    sluice_pool_get_stats(client->pool, &stats);
    assert_int_equal(stats.bytes_copied, 0);
    free(value);
}

/* What is in the chain is copied into the caller's memory, and the kernel puts the rest there
 * itself. */
static void test_get_into_buffer(void **state) {
    struct client *client = *state;
    uint8_t *value = make_value(MEBIBYTE), *buffer = malloc(MEBIBYTE);
    sluice_slice part;
    size_t done = 0;
    int result;
    assert_non_null(buffer);
    send_set(client, "key", value, MEBIBYTE);
    expect_ok(client);
    send_command(client, "GET", "key", NULL);
    assert_int_equal(open_bulk(client), MEBIBYTE);
    while (sluice_resp_bulk_take(client->resp, &client->chain, MEBIBYTE, &part) == 1) {
        done += sluice_slice_copy(&part, 0, buffer + done, MEBIBYTE - done);
        sluice_slice_release(&part);
    }
    while (done < MEBIBYTE) {
        ssize_t n = recv(client->fd, buffer + done, MEBIBYTE - done, 0);
        assert_true(n > 0);
        assert_int_equal(sluice_resp_bulk_advance(client->resp, (uint64_t)n), 0);
        done += (size_t)n;
    }
    while ((result = sluice_resp_bulk_close(client->resp, &client->chain)) == 0)
        receive(client);
    assert_int_equal(result, 1);
    assert_memory_equal(buffer, value, MEBIBYTE);
    expect_in_step(client, "after");
    free(buffer);
    free(value);
}

/* Larger than the buffer: the length is known, the rest is dropped as it comes, the next command
 * works. */
static void test_buffer_too_small(void **state) {
    struct client *client = *state;
    uint8_t *value = make_value(MEBIBYTE);
    sluice_pool_stats stats = {.size = sizeof stats};
    send_set(client, "key", value, MEBIBYTE);
    expect_ok(client);
    for (int i = 0; i < 3; i++) {
        send_command(client, "GET", "key", NULL);
        assert_int_equal(open_bulk(client), MEBIBYTE);
        assert_int_equal(sluice_resp_bulk_skip(client->resp), 0);
        expect_in_step(client, "after");
    }
    sluice_pool_get_stats(client->pool, &stats);
    assert_true(stats.peak_held < 8);
    free(value);
}

static void test_nil(void **state) {
    struct client *client = *state;
    uint64_t length;
    send_command(client, "GET", "missing", NULL);
    assert_int_equal(next_reply(client)->value.type, SLUICE_RESP_NULL);
    send_command(client, "LPOP", "missing", "2", NULL);
    assert_int_equal(next_reply(client)->value.type, SLUICE_RESP_NULL);
    send_command(client, "MGET", "missing", "too", NULL);
    sluice_resp_walk walk = next_reply(client)->elements;
    expect_element(&walk, SLUICE_RESP_NULL, "");
    expect_element(&walk, SLUICE_RESP_NULL, "");

    /* Where a bulk string was to be opened. */
    send_command(client, "GET", "missing", NULL);
    while (sluice_resp_bulk_open(client->resp, &client->chain, &length) == 0)
        receive(client);
    assert_int_equal(sluice_resp_bulk_open(client->resp, &client->chain, &length), -ENOMSG);
    assert_int_equal(next_reply(client)->value.type, SLUICE_RESP_NULL);
}

static void test_errors(void **state) {
    struct client *client = *state;
    send_command(client, "NO-SUCH-COMMAND", NULL);
    assert_int_equal(next_reply(client)->value.type, SLUICE_RESP_ERROR);
    send_set(client, "text", "abc", 3);
    expect_ok(client);
    send_command(client, "INCR", "text", NULL);
    assert_value(&next_reply(client)->value, SLUICE_RESP_ERROR, "ERR value is not an integer or out of range");
    send_command(client, "LPUSH", "text", "x", NULL);
    assert_value(&next_reply(client)->value, SLUICE_RESP_ERROR,
                 "WRONGTYPE Operation against a key holding the wrong kind of value");
    expect_in_step(client, "after");
}

static void test_binary_arguments(void **state) {
    struct client *client = *state;
    char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    send_command(client, "ECHO", "%b", bytes, sizeof bytes, NULL);
    const sluice_resp_reply *reply = next_reply(client);
    assert_payload(&reply->value.text, (const uint8_t *)bytes, sizeof bytes);
    send_command(client, "ECHO", "", NULL);
    assert_value(&next_reply(client)->value, SLUICE_RESP_BULK, "");
}

static void test_pipelining(void **state) {
    struct client *client = *state;
    enum { COMMANDS = 1000 };
    char text[32];
    for (int i = 0; i < COMMANDS; i++) {
        sprintf(text, "%d", i);
        if (i % 3 == 0)
            send_command(client, "INCR", "counter", NULL);
        else
            send_command(client, i % 3 == 1 ? "ECHO" : "NO-SUCH", text, NULL);
    }
    for (int i = 0; i < COMMANDS; i++) {
        const sluice_resp_reply *reply = next_reply(client);
        sprintf(text, "%d", i);
        if (i % 3 == 0) {
            assert_int_equal(reply->value.type, SLUICE_RESP_INTEGER);
            assert_int_equal(reply->value.integer, i / 3 + 1);
        } else if (i % 3 == 1) {
            assert_value(&reply->value, SLUICE_RESP_BULK, text);
        } else {
            assert_int_equal(reply->value.type, SLUICE_RESP_ERROR);
        }
    }
}

/* ---- Aggregates ---- */

static void test_hash(void **state) {
    struct client *client = *state;
    send_command(client, "HSET", "hash", "a", "1", "b", "two", "c", "", NULL);
    assert_int_equal(next_reply(client)->value.integer, 3);
    send_command(client, "HGETALL", "hash", NULL);
    const sluice_resp_reply *reply = next_reply(client);
    assert_int_equal(reply->value.type, client->version == 3 ? SLUICE_RESP_MAP : SLUICE_RESP_ARRAY);
    assert_int_equal(reply->value.count, 6);
    static const char *const expected[] = {"a", "1", "b", "two", "c", ""};
    sluice_resp_walk walk = reply->elements;
    for (int i = 0; i < 6; i++)
        expect_element(&walk, SLUICE_RESP_BULK, expected[i]);
}

static void test_big_array(void **state) {
    struct client *client = *state;
    enum { BATCHES = 2000, BATCH = 50 };
    for (int i = 0; i < BATCHES; i++) {
        char buffer[2048], words[BATCH][32];
        sluice_resp_arg args[2 + BATCH] = {{"RPUSH", 5}, {"list", 4}};
        size_t length;
        for (int j = 0; j < BATCH; j++)
            args[2 + j] = (sluice_resp_arg){words[j], (size_t)sprintf(words[j], "element %d", i * BATCH + j)};
        assert_int_equal(sluice_resp_write_command(buffer, sizeof buffer, args, 2 + BATCH, &length), 0);
        send_bytes(client, buffer, length, false);
        assert_int_equal(next_reply(client)->value.integer, (i + 1) * BATCH);
    }
    send_command(client, "LRANGE", "list", "0", "-1", NULL);
    const sluice_resp_reply *reply = next_reply(client);
    assert_int_equal(reply->value.count, BATCHES * BATCH);
    sluice_resp_walk walk = reply->elements;
    for (int i = 0; i < BATCHES * BATCH; i++) {
        char text[32];
        sprintf(text, "element %d", i);
        expect_element(&walk, SLUICE_RESP_BULK, text);
    }
    assert_int_equal(walk.left, 0);
}

static void test_nested(void **state) {
    struct client *client = *state;
    send_command(client, "XADD", "stream", "1-1", "name", "value", NULL);
    assert_value(&next_reply(client)->value, SLUICE_RESP_BULK, "1-1");
    send_command(client, "XREAD", "STREAMS", "stream", "0", NULL);
    const sluice_resp_reply *reply = next_reply(client);
    sluice_resp_walk walk = reply->elements;
    if (client->version == 3)
        assert_int_equal(reply->value.type, SLUICE_RESP_MAP);
    else
        expect_element(&walk, SLUICE_RESP_ARRAY, "");
    expect_element(&walk, SLUICE_RESP_BULK, "stream");
    expect_element(&walk, SLUICE_RESP_ARRAY, "");
    expect_element(&walk, SLUICE_RESP_ARRAY, "");
    expect_element(&walk, SLUICE_RESP_BULK, "1-1");
    expect_element(&walk, SLUICE_RESP_ARRAY, "");
    expect_element(&walk, SLUICE_RESP_BULK, "name");
    expect_element(&walk, SLUICE_RESP_BULK, "value");
    assert_int_equal(walk.left, 0);
}

/* ---- Messages out of turn ---- */

static void expect_message(struct client *client, const char *kind, const char *channel, const char *text) {
    const sluice_resp_reply *reply = next_reply(client);
    assert_int_equal(reply->value.type, client->version == 3 ? SLUICE_RESP_PUSH : SLUICE_RESP_ARRAY);
    sluice_resp_walk walk = reply->elements;
    expect_element(&walk, SLUICE_RESP_BULK, kind);
    expect_element(&walk, SLUICE_RESP_BULK, channel);
    expect_element(&walk, text ? SLUICE_RESP_BULK : SLUICE_RESP_INTEGER, text ? text : "1");
}

static void test_subscription(void **state) {
    struct client *client = *state;
    struct client *publisher = connect_client(2);
    send_command(client, "SUBSCRIBE", "news", NULL);
    expect_message(client, "subscribe", "news", NULL);
    for (int i = 0; i < 100; i++) {
        char text[32];
        sprintf(text, "message %d", i);
        send_command(publisher, "PUBLISH", "news", text, NULL);
        assert_int_equal(next_reply(publisher)->value.integer, 1);
    }
    /* With RESP3 a subscriber may give other commands, whose answers come behind what came
     * first. */
    if (client->version == 3)
        send_command(client, "ECHO", "between", NULL);
    for (int i = 0; i < 100; i++) {
        char text[32];
        uint64_t length;
        sprintf(text, "message %d", i);
        while (sluice_resp_bulk_open(client->resp, &client->chain, &length) == 0)
            receive(client);
        expect_message(client, "message", "news", text);
    }
    if (client->version == 3)
        assert_value(&next_reply(client)->value, SLUICE_RESP_BULK, "between");
    send_command(client, "UNSUBSCRIBE", "news", NULL);
    const sluice_resp_reply *reply = next_reply(client);
    assert_int_equal(reply->value.count, 3);
    close_client(publisher);
}

/* ---- What only RESP3 has ---- */

static void test_types_of_resp3(void **state) {
    struct client *client = *state;
    send_command(client, "ZADD", "sorted", "1.5", "a", "inf", "b", NULL);
    assert_int_equal(next_reply(client)->value.integer, 2);
    send_command(client, "ZRANGE", "sorted", "0", "-1", "WITHSCORES", NULL);
    sluice_resp_walk walk = next_reply(client)->elements;
    expect_element(&walk, SLUICE_RESP_ARRAY, "");
    expect_element(&walk, SLUICE_RESP_BULK, "a");
    expect_element(&walk, SLUICE_RESP_DOUBLE, "1.5");
    expect_element(&walk, SLUICE_RESP_ARRAY, "");
    expect_element(&walk, SLUICE_RESP_BULK, "b");
    expect_element(&walk, SLUICE_RESP_DOUBLE, "inf");
    send_command(client, "SADD", "set", "member", NULL);
    assert_int_equal(next_reply(client)->value.integer, 1);
    send_command(client, "SMEMBERS", "set", NULL);
    assert_int_equal(next_reply(client)->value.type, SLUICE_RESP_SET);
    send_command(client, "INFO", "server", NULL);
    const sluice_resp_reply *reply = next_reply(client);
    assert_int_equal(reply->value.type, SLUICE_RESP_VERBATIM);
    assert_string_equal(reply->value.format, "txt");
    expect_in_step(client, "after");
}

/* The server's own samples of each type. */
static void test_samples(void **state) {
    struct client *client = *state;
    static const struct {
        const char *name;
        sluice_resp_type type;
        uint32_t count;
        const char *text;
    } samples[] = {
        {"string", SLUICE_RESP_BULK, 0, "Hello World"},
        {"integer", SLUICE_RESP_INTEGER, 0, "12345"},
        {"null", SLUICE_RESP_NULL, 0, ""},
        {"array", SLUICE_RESP_ARRAY, 3, ""},
        {"set", SLUICE_RESP_SET, 3, ""},
        {"map", SLUICE_RESP_MAP, 6, ""},
        {"verbatim", SLUICE_RESP_VERBATIM, 0, "This is a verbatim\nstring"},
        {"true", SLUICE_RESP_BOOLEAN, 0, "t"},
        {"false", SLUICE_RESP_BOOLEAN, 0, "f"},
        {"bignum", SLUICE_RESP_BIG_NUMBER, 0, "1234567999999999999999999999999999999"},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        send_command(client, "DEBUG", "PROTOCOL", samples[i].name, NULL);
        const sluice_resp_reply *reply = next_reply(client);
        if (reply->value.type == SLUICE_RESP_ERROR)
            fail_msg("the server has no samples");
        assert_value(&reply->value, samples[i].type, samples[i].text);
        assert_int_equal(reply->value.count, samples[i].count);
    }
    send_command(client, "DEBUG", "PROTOCOL", "double", NULL);
    const double number = next_reply(client)->value.number;
    assert_true(number > 3.1 && number < 3.2);

    send_command(client, "DEBUG", "PROTOCOL", "attrib", NULL);
    const sluice_resp_reply *reply = next_reply(client);
    sluice_resp_walk attributes = reply->value.attributes;
    expect_element(&attributes, SLUICE_RESP_BULK, "key-popularity");
    expect_element(&attributes, SLUICE_RESP_ARRAY, "");
    expect_element(&attributes, SLUICE_RESP_BULK, "key:123");
    expect_element(&attributes, SLUICE_RESP_INTEGER, "90");
    assert_int_equal(attributes.left, 0);
    assert_value(&reply->value, SLUICE_RESP_BULK, "Some real reply following the attribute");
}

/* Invalidations come between the answers. */
static void test_tracking(void **state) {
    struct client *client = *state;
    struct client *writer = connect_client(2);
    send_command(client, "CLIENT", "TRACKING", "ON", NULL);
    expect_ok(client);
    for (int i = 0; i < 10; i++) {
        send_command(client, "GET", "watched", NULL);
        next_reply(client);
        send_command(writer, "INCR", "watched", NULL);
        assert_int_equal(next_reply(writer)->value.integer, i + 1);
        send_command(client, "ECHO", "answer", NULL);
        const sluice_resp_reply *reply = next_reply(client);
        assert_int_equal(reply->value.type, SLUICE_RESP_PUSH);
        sluice_resp_walk walk = reply->elements;
        expect_element(&walk, SLUICE_RESP_BULK, "invalidate");
        expect_element(&walk, SLUICE_RESP_ARRAY, "");
        expect_element(&walk, SLUICE_RESP_BULK, "watched");
        assert_value(&next_reply(client)->value, SLUICE_RESP_BULK, "answer");
    }
    close_client(writer);
    send_command(client, "CLIENT", "TRACKING", "OFF", NULL);
    expect_ok(client);
}

#define BOTH(test)                                                                                                     \
    cmocka_unit_test_setup_teardown(test, set_up_2, tear_down),                                                        \
        cmocka_unit_test_setup_teardown(test, set_up_3, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(test_set_and_get),
        BOTH(test_get_into_buffer),
        BOTH(test_buffer_too_small),
        BOTH(test_nil),
        BOTH(test_errors),
        BOTH(test_binary_arguments),
        BOTH(test_pipelining),
        BOTH(test_hash),
        BOTH(test_big_array),
        BOTH(test_nested),
        BOTH(test_subscription),
        cmocka_unit_test_setup_teardown(test_types_of_resp3, set_up_3, tear_down),
        cmocka_unit_test_setup_teardown(test_samples, set_up_3, tear_down),
        cmocka_unit_test_setup_teardown(test_tracking, set_up_3, tear_down),
    };
    if (!redis_is_installed())
        return SKIPPED;
    return cmocka_run_group_tests_name("resp_redis", tests, start_server, stop_server);
}
