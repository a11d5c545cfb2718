/* The RESP client against a real redis-server, on both backends. */
#include <sluice/resp_client.h>

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/conn.h>

#include "support/redis.h"
#include "support/sockets.h"

/* The linker puts these in the place of the calls (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static _Thread_local unsigned long allocations;

void *__wrap_malloc(size_t size) {
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    allocations++;
    return __real_realloc(memory, size);
}

enum {
    SKIPPED = 77, /* what a test program returns that could not run */
    GUARD = 200,
    MEBIBYTE = 1 << 20,
    LARGEST = 64 << 20,
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

/* ---- A session ---- */

/* The last answer, and how many there were. */
typedef struct session {
    loop_rig rig;
    sluice_resp_client *client;
    unsigned answers, pushes, closed;
    int error, closed_with;
    uint64_t length;
    char text[200];   /* of the answer: its type, its text, and an aggregate's elements */
    char pushed[200]; /* the same of the last push */
} session;

static void describe(char *to, size_t size, const sluice_resp_reply *reply) {
    sluice_resp_walk walk = reply->elements;
    sluice_resp_value value = reply->value;
    size_t at = 0;
    do {
        at += (size_t)snprintf(to + at, size - at, at ? " %c" : "%c", value.type);
        if (at + 1 < size)
            at += sluice_slice_copy(&value.text, 0, to + at, size - at - 1);
        if (at + 1 >= size)
            break;
    } while (sluice_resp_walk_next(&walk, &value));
    to[at < size ? at : size - 1] = '\0';
}

static void replied(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    session *s = user;
    (void)client;
    s->answers++;
    s->error = error;
    s->text[0] = '\0';
    if (reply)
        describe(s->text, sizeof s->text, reply);
}

static void got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    session *s = user;
    replied(client, error, reply, user);
    s->length = length;
}

static void pushed(sluice_resp_client *client, sluice_resp_reply *reply, void *user) {
    session *s = user;
    (void)client;
    s->pushes++;
    describe(s->pushed, sizeof s->pushed, reply);
}

static void closed(sluice_resp_client *client, int error, void *user) {
    session *s = user;
    (void)client;
    s->closed++;
    s->closed_with = error;
}

static const sluice_resp_client_events events = {.size = sizeof events, .on_push = pushed, .on_closed = closed};

static void open_client(session *s, const sluice_resp_client_options *options) {
    s->closed = 0;
    assert_int_equal(sluice_resp_client_new(s->rig.loop, redis_connect(&server), options, &events, s, &s->client), 0);
}

static void close_client(session *s) {
    sluice_resp_client_free(s->client);
    turn_until_count(s->rig.loop, &s->closed, 1);
}

static int give(session *s, size_t count, const char *const words[]) {
    sluice_resp_client_arg args[8];
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    return sluice_resp_client_command(s->client, args, count, replied, s);
}

static int subscribe(session *s, const char *command, const char *channel) {
    const sluice_resp_client_arg args[] = {{.data = command, .length = strlen(command)},
                                           {.data = channel, .length = strlen(channel)}};
    return sluice_resp_client_subscribe(s->client, args, 2, replied, s);
}

static void finish(session *s) {
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_int_equal(s->error, 0);
}

#define WORDS(...)                                                                                                     \
    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]) {                               \
        __VA_ARGS__                                                                                                    \
    }

static void expect(session *s, const char *text) {
    finish(s);
    assert_string_equal(s->text, text);
}

/* The connection is where it should be. */
static void expect_in_step(session *s) {
    assert_int_equal(give(s, WORDS("ECHO", "in step")), 0);
    expect(s, "$in step");
}

static const sluice_resp_arg key = {"key", 3};

static void expect_set(session *s, const void *value, size_t size) {
    assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){value, size}, replied, s), 0);
    expect(s, "+OK");
}

static void expect_got(session *s, void *memory, size_t size, int error, uint64_t length) {
    assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory, size, got, s), 0);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_int_equal(s->error, error);
    assert_int_equal(s->length, length);
    assert_string_equal(s->text, "");
}

static uint64_t copied(const session *s) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(s->rig.pool, &stats);
    return stats.bytes_copied;
}

static int set_up(void **state, sluice_backend_choice backend, bool resp3) {
    /* Room for the largest value in blocks that are not all full. */
    const sluice_pool_options pool = {.size = sizeof pool, .max_blocks = 40 * 1024, .no_huge_pages = true};
    session *s = calloc(1, sizeof *s);
    assert_non_null(s);
    loop_rig_open(&s->rig, &pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = backend},
                  GUARD);
    open_client(s, &(sluice_resp_client_options){
                       .size = sizeof(sluice_resp_client_options), .resp3 = resp3, .max_commands = 10000});
    *state = s;
    return 0;
}

static int set_up_uring(void **state) {
    return set_up(state, SLUICE_BACKEND_URING, false);
}

static int set_up_uring_resp3(void **state) {
    return set_up(state, SLUICE_BACKEND_URING, true);
}

static int set_up_epoll(void **state) {
    return set_up(state, SLUICE_BACKEND_EPOLL, false);
}

static int set_up_epoll_resp3(void **state) {
    return set_up(state, SLUICE_BACKEND_EPOLL, true);
}

static int tear_down(void **state) {
    session *s = *state;
    assert_int_equal(give(s, WORDS("FLUSHALL")), 0);
    expect(s, "+OK");
    close_client(s);
    loop_rig_close(&s->rig);
    free(s);
    return 0;
}

/* ---- Values ---- */

static const size_t sizes[] = {0, 1, 4095, 4096, 4097, MEBIBYTE, LARGEST};
enum { BLOCK = 4096 };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void values_from_and_into_the_callers_memory(void **state) {
    session *s = *state;
    uint8_t *value = malloc(LARGEST), *memory = malloc(LARGEST + 1);
    assert_non_null(value);
    assert_non_null(memory);
    for (uint32_t i = 0; i < SIZES; i++) {
        const size_t size = sizes[i];
        pattern_fill(i, 0, value, size);
        uint64_t before = copied(s);
        assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){value, size}, NULL, NULL), 0);
        assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
        assert_int_equal(copied(s), before);

        memset(memory, 0, size + 1);
        expect_got(s, memory, size, 0, size);
        /* What came in the block of the head; with a small memory all that there was. */
        assert_true(copied(s) - before <= (size < MEBIBYTE ? size : BLOCK));
        assert_true(pattern_matches(i, 0, memory, size));
        assert_int_equal(memory[size], 0);
        memset(memory, 0, size + 1);
        expect_got(s, memory, size + 1, 0, size);
        assert_true(pattern_matches(i, 0, memory, size));
        assert_int_equal(memory[size], 0);
        if (size > 0) {
            memset(memory, 0, size);
            expect_got(s, memory, size - 1, -EFBIG, size);
            assert_int_equal(memory[0], 0);
            assert_int_equal(memory[size - 1], 0);
        }
        expect_in_step(s);
    }
    free(value);
    free(memory);
}

/* What a connection on the same loop receives. */
static const sluice_conn_events source_events = {.size = sizeof source_events};

static sluice_slice receive_slice(const session *s, uint32_t seed, size_t n) {
    socket_writer writer;
    sluice_conn *conn;
    sluice_slice slice;
    int fds[2];
    sockets_tcp_pair(fds);
    assert_int_equal(sluice_conn_new(s->rig.loop, fds[0], &source_events, NULL, &conn), 0);
    socket_writer_start(&writer, fds[1], seed, n, 1000, 100000);
    turn_until_buffered(s->rig.loop, conn, n);
    socket_writer_join(&writer);
    assert_int_equal(sluice_chain_take(sluice_conn_chain(conn), n, &slice), 0);
    sluice_conn_close(conn);
    close(fds[1]);
    return slice;
}

/* From one socket into blocks, and from these blocks into the other. */
static void values_straight_from_a_socket(void **state) {
    session *s = *state;
    uint8_t *memory = malloc(LARGEST);
    assert_non_null(memory);
    for (uint32_t i = 1; i < SIZES; i++) {
        uint64_t before = copied(s);
        sluice_slice slice = receive_slice(s, i, sizes[i]);
        assert_int_equal(sluice_resp_client_set_slice(s->client, &key, &slice, NULL, NULL), 0);
        sluice_slice_release(&slice);
        assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
        assert_int_equal(copied(s), before);
        expect_got(s, memory, sizes[i], 0, sizes[i]);
        assert_true(pattern_matches(i, 0, memory, sizes[i]));
    }
    free(memory);
}

static sluice_slice kept;

static void keep_text(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)client;
    (void)user;
    assert_int_equal(error, 0);
    assert_int_equal(sluice_resp_keep(&reply->value, &kept), 0);
}

/* A value as a slice, and on as the value of another key. */
static void values_as_slices(void **state) {
    session *s = *state;
    uint8_t *value = malloc(MEBIBYTE);
    const sluice_resp_arg other = {"other", 5};
    const sluice_resp_client_arg args[] = {{.data = "GET", .length = 3}, {.data = "key", .length = 3}};
    assert_non_null(value);
    pattern_fill(9, 0, value, MEBIBYTE);
    expect_set(s, value, MEBIBYTE);
    uint64_t before = copied(s);
    assert_int_equal(sluice_resp_client_command(s->client, args, 2, keep_text, NULL), 0);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_true(pattern_slice_matches(9, 0, &kept));
    assert_int_equal(sluice_slice_length(&kept), MEBIBYTE);
    assert_int_equal(sluice_resp_client_set_slice(s->client, &other, &kept, NULL, NULL), 0);
    sluice_slice_release(&kept);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_int_equal(copied(s), before);
    memset(value, 0, MEBIBYTE);
    assert_int_equal(sluice_resp_client_get_into(s->client, &other, value, MEBIBYTE, got, s), 0);
    finish(s);
    assert_true(pattern_matches(9, 0, value, MEBIBYTE));
    free(value);
}

static void null_and_errors_are_answers(void **state) {
    session *s = *state;
    char memory[16] = "unchanged";
    assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory, sizeof memory, got, s), 0);
    expect(s, "_");
    assert_int_equal(give(s, WORDS("LPUSH", "key", "element")), 0);
    finish(s);
    assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory, sizeof memory, got, s), 0);
    expect(s, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_int_equal(give(s, WORDS("INCR", "key")), 0);
    expect(s, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_int_equal(give(s, WORDS("NO-SUCH-COMMAND")), 0);
    finish(s);
    assert_int_equal(s->text[0], '-');
    assert_string_equal(memory, "unchanged");
    expect_in_step(s);
}

static void other_strings_into_memory(void **state) {
    session *s = *state;
    char memory[16] = "................";
    const sluice_resp_client_arg range[] = {{.data = "GETRANGE", .length = 8},
                                            {.data = "key", .length = 3},
                                            {.data = "2", .length = 1},
                                            {.data = "4", .length = 1}};
    expect_set(s, "0123456789", 10);
    assert_int_equal(sluice_resp_client_command_into(s->client, range, 4, memory, sizeof memory, got, s), 0);
    finish(s);
    assert_int_equal(s->length, 3);
    assert_memory_equal(memory, "234.", 4);
}

/* ---- Many commands ---- */

enum { COMMANDS = 10000 };

typedef struct pipeline {
    unsigned next; /* the command whose answer comes next */
    char memory[COMMANDS][8];
} pipeline;

static void check_answer(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    pipeline *p = user;
    unsigned number = p->next++;
    char text[32];
    (void)client;
    assert_int_equal(error, 0);
    sprintf(text, "%u", number);
    switch (number % 4) {
    case 0:
        assert_int_equal(reply->value.integer, number / 4 + 1);
        break;
    case 1:
        assert_true(sluice_resp_equals(&reply->value, text));
        break;
    default:
        assert_int_equal(number % 4, 2);
        assert_int_equal(reply->value.type, SLUICE_RESP_ERROR);
    }
}

static void check_got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    pipeline *p = user;
    unsigned number = p->next++;
    char text[32];
    (void)client;
    assert_int_equal(error, 0);
    assert_null(reply);
    assert_int_equal(number % 4, 3);
    assert_int_equal(length, sprintf(text, "%u", number / 4 + 1));
    assert_memory_equal(p->memory[number], text, length);
}

static void ten_thousand_commands_at_once(void **state) {
    session *s = *state;
    pipeline *p = calloc(1, sizeof *p);
    assert_non_null(p);
    expect_in_step(s);
    for (unsigned i = 0; i < COMMANDS; i++) {
        char text[32];
        const sluice_resp_client_arg incr[] = {{.data = "INCR", .length = 4}, {.data = "key", .length = 3}};
        const sluice_resp_client_arg echo[] = {{.data = i % 4 == 1 ? "ECHO" : "NONE", .length = 4},
                                               {.data = text, .length = (size_t)sprintf(text, "%u", i)}};
        int error = i % 4 == 3 ? sluice_resp_client_get_into(s->client, &key, p->memory[i], 8, check_got, p)
                               : sluice_resp_client_command(s->client, i % 4 ? echo : incr, 2, check_answer, p);
        assert_int_equal(error, 0);
    }
    assert_int_equal(give(s, WORDS("PING")), -EAGAIN);
    assert_int_equal(sluice_resp_client_waiting(s->client), COMMANDS);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_int_equal(p->next, COMMANDS);
    free(p);
}

static void values_in_a_pipeline(void **state) {
    session *s = *state;
    enum { COUNT = 40, EACH = 300000 };
    uint8_t *value = malloc(EACH), *memory = calloc(COUNT, EACH);
    assert_non_null(value);
    assert_non_null(memory);
    pattern_fill(8, 0, value, EACH);
    expect_set(s, value, EACH);
    s->answers = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory + i * EACH, EACH - i % 2, got, s), 0);
        assert_int_equal(give(s, WORDS("PING")), 0);
    }
    expect(s, "+PONG");
    assert_int_equal(s->answers, 2 * COUNT);
    for (size_t i = 0; i < COUNT; i++)
        if (i % 2 == 0)
            assert_memory_equal(memory + i * EACH, value, EACH);
        else
            assert_int_equal(memory[i * EACH + EACH / 2], 0);
    free(value);
    free(memory);
}

static void nothing(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)client;
    (void)user;
    assert_true(error == 0 && reply->value.type != SLUICE_RESP_ERROR);
}

static void nothing_got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    (void)client;
    (void)user;
    assert_true(error == 0 && !reply && length == MEBIBYTE);
}

static void commands_allocate_nothing(void **state) {
    session *s = *state;
    enum { WARM = 20, ROUNDS = 100 };
    unsigned long before = 0;
    uint8_t *value = malloc(MEBIBYTE), *memory = malloc(MEBIBYTE);
    const sluice_resp_client_arg get[] = {{.data = "GET", .length = 3}, {.data = "key", .length = 3}};
    assert_non_null(value);
    assert_non_null(memory);
    pattern_fill(3, 0, value, MEBIBYTE);
    sluice_slice slice = receive_slice(s, 3, MEBIBYTE);
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == WARM)
            before = allocations;
        const sluice_resp_arg lent = {value, MEBIBYTE};
        assert_int_equal(sluice_resp_client_set(s->client, &key, &lent, nothing, NULL), 0);
        assert_int_equal(sluice_resp_client_set_slice(s->client, &key, &slice, nothing, NULL), 0);
        assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory, MEBIBYTE, nothing_got, NULL), 0);
        assert_int_equal(sluice_resp_client_command(s->client, get, 2, nothing, NULL), 0);
        assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    }
    assert_int_equal(allocations - before, 0);
    assert_memory_equal(memory, value, MEBIBYTE);
    sluice_slice_release(&slice);
    free(value);
    free(memory);
}

/* ---- What comes by itself ---- */

/* Another client, of the same server. */
static void open_other(session *other, const session *s) {
    *other = (session){.rig = s->rig};
    open_client(other, NULL);
}

static void messages(void **state) {
    session *s = *state;
    session other;
    bool resp3 = false;
    open_other(&other, s);
    assert_int_equal(subscribe(s, "SUBSCRIBE", "news"), 0);
    finish(s);
    resp3 = s->text[0] == '>';
    assert_string_equal(s->text + 1, " $subscribe $news :1");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(give(&other, WORDS("PUBLISH", "news", "text")), 0);
        if (resp3 && i % 10 == 0)
            expect_in_step(s);
    }
    expect(&other, ":1");
    turn_until_count(s->rig.loop, &s->pushes, 100);
    assert_string_equal(s->pushed + 1, " $message $news $text");
    assert_int_equal(give(s, WORDS("GET", "key")), 0);
    finish(s);
    assert_int_equal(s->text[0], resp3 ? '_' : '-');
    assert_int_equal(give(s, WORDS("PING")), 0);
    expect(s, resp3 ? "+PONG" : "* $pong $");
    assert_int_equal(subscribe(s, "UNSUBSCRIBE", "news"), 0);
    finish(s);
    assert_string_equal(s->text + 1, " $unsubscribe $news :0");
    expect_in_step(s);
    assert_int_equal(s->pushes, 100);
    close_client(&other);
}

/* Invalidations come between the answers, also between those that go into the caller's memory. */
static void invalidations(void **state) {
    session *s = *state;
    session other;
    char memory[16];
    open_other(&other, s);
    assert_int_equal(give(s, WORDS("CLIENT", "TRACKING", "ON")), 0);
    expect(s, "+OK");
    for (unsigned i = 1; i <= 20; i++) {
        char expected[16];
        assert_int_equal(give(&other, WORDS("INCR", "key")), 0);
        finish(&other);
        expect_got(s, memory, sizeof memory, 0, (uint64_t)sprintf(expected, "%u", i));
        assert_memory_equal(memory, expected, strlen(expected));
        assert_int_equal(s->pushes, i - 1);
    }
    assert_string_equal(s->pushed, "> $invalidate * $key");
    assert_int_equal(give(s, WORDS("CLIENT", "TRACKING", "OFF")), 0);
    expect(s, "+OK");
    close_client(&other);
}

/* ---- A server that refuses, or goes ---- */

static void a_password(void **state) {
    session *s = *state;
    session other = {.rig = s->rig};
    assert_int_equal(give(s, WORDS("CONFIG", "SET", "requirepass", "secret")), 0);
    expect(s, "+OK");
    open_client(&other, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .resp3 = true});
    assert_int_equal(give(&other, WORDS("PING")), 0);
    assert_int_equal(sluice_resp_client_wait(other.client, -1), -EPROTONOSUPPORT);
    assert_int_equal(other.error, -EPROTONOSUPPORT);
    assert_int_equal(other.closed_with, -EPROTONOSUPPORT);
    close_client(&other);

    open_client(&other, NULL);
    assert_int_equal(give(&other, WORDS("HELLO", "3", "AUTH", "default", "secret")), 0);
    finish(&other);
    assert_int_equal(other.text[0], '%');
    assert_int_equal(subscribe(&other, "SUBSCRIBE", "news"), 0);
    expect(&other, "> $subscribe $news :1");
    expect_in_step(&other);
    close_client(&other);
    assert_int_equal(give(s, WORDS("CONFIG", "SET", "requirepass", "")), 0);
    expect(s, "+OK");
}

/* The server refuses a length by the header, reads no further, and closes: the memory comes back
 * once, in any case. */
static void a_value_that_the_server_refuses(void **state) {
    session *s = *state;
    session other = {.rig = s->rig};
    char *value = calloc(1, LARGEST);
    assert_non_null(value);
    assert_int_equal(give(s, WORDS("CONFIG", "SET", "proto-max-bulk-len", "1mb")), 0);
    expect(s, "+OK");
    open_client(&other, NULL);
    expect_set(&other, value, MEBIBYTE);
    assert_int_equal(sluice_resp_client_set(other.client, &key, &(sluice_resp_arg){value, LARGEST}, replied, &other),
                     0);
    turn_until_count(other.rig.loop, &other.closed, 1);
    assert_int_equal(other.answers, 2);
    if (other.error == 0)
        assert_string_equal(other.text, "-ERR Protocol error: invalid bulk length");
    else
        assert_true(other.error == -ECONNRESET || other.error == -EPIPE);
    free(value);
    sluice_resp_client_free(other.client);
    assert_int_equal(give(s, WORDS("CONFIG", "SET", "proto-max-bulk-len", "512mb")), 0);
    expect(s, "+OK");
}

static unsigned failures;
static int failure;

static void count_failure(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)client;
    (void)reply;
    (void)user;
    failures += error != 0;
    failure = error;
}

/* In the middle of a value, with others behind it. */
static void a_server_that_is_killed(void **state) {
    session *s = *state;
    session other = {.rig = s->rig};
    uint8_t *memory = calloc(1, LARGEST);
    redis_server usual = server;
    assert_non_null(memory);
    assert_true(redis_start(&server));
    open_client(&other, NULL);
    memset(memory, 'x', LARGEST);
    expect_set(&other, memory, LARGEST);
    memset(memory, 0, LARGEST);
    other.answers = failures = 0;
    assert_int_equal(sluice_resp_client_get_into(other.client, &key, memory, LARGEST, got, &other), 0);
    const sluice_resp_client_arg arg = {.data = "PING", .length = 4};
    for (int i = 0; i < 100; i++)
        assert_int_equal(sluice_resp_client_command(other.client, &arg, 1, count_failure, NULL), 0);
    while (*(volatile uint8_t *)memory == 0)
        turn(s->rig.loop);
    redis_stop(&server, SIGKILL);
    server = usual;
    turn_until_count(other.rig.loop, &other.closed, 1);
    assert_int_equal(other.answers, 1);
    assert_true(other.error == -ECONNRESET || other.error == -EPIPE);
    assert_int_equal(failures, 100);
    assert_int_equal(failure, other.error);
    assert_int_equal(give(&other, WORDS("PING")), -EPIPE);
    sluice_resp_client_free(other.client);
    free(memory);
}

/* A command that is never answered takes the others with it. */
static void a_server_that_does_not_answer(void **state) {
    session *s = *state;
    session other = {.rig = s->rig};
    uint32_t timeout = 100;
    failures = 0;
    open_client(&other,
                &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .timeout_ms = timeout});
    /* What is answered does not end it, unless the server is slower than that. */
    while (give(&other, WORDS("ECHO", "in time")) == 0 && sluice_resp_client_wait(other.client, -1) == -ETIMEDOUT) {
        close_client(&other);
        open_client(&other, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options),
                                                          .timeout_ms = timeout *= 2});
    }
    expect(&other, "$in time");
    const sluice_resp_client_arg args[] = {
        {.data = "BLPOP", .length = 5}, {.data = "none", .length = 4}, {.data = "0", .length = 1}};
    assert_int_equal(sluice_resp_client_command(other.client, args, 3, count_failure, NULL), 0);
    assert_int_equal(give(&other, WORDS("PING")), 0);
    assert_int_equal(sluice_resp_client_wait(other.client, -1), -ETIMEDOUT);
    assert_int_equal(failures, 1);
    assert_int_equal(other.error, -ETIMEDOUT);
    sluice_resp_client_free(other.client);
    expect_in_step(s);
}

#define RESP2(test)                                                                                                    \
    {#test " on io_uring", test, set_up_uring, tear_down, NULL}, {                                                     \
#test " on epoll", test, set_up_epoll, tear_down, NULL                                                         \
    }
#define RESP3(test)                                                                                                    \
    {#test ", RESP3, on io_uring", test, set_up_uring_resp3, tear_down, NULL}, {                                       \
#test ", RESP3, on epoll", test, set_up_epoll_resp3, tear_down, NULL                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        RESP2(values_from_and_into_the_callers_memory),
        RESP2(values_straight_from_a_socket),
        RESP2(values_as_slices),
        RESP2(null_and_errors_are_answers),
        RESP3(null_and_errors_are_answers),
        RESP2(other_strings_into_memory),
        RESP2(ten_thousand_commands_at_once),
        RESP3(ten_thousand_commands_at_once),
        RESP2(values_in_a_pipeline),
        RESP2(commands_allocate_nothing),
        RESP2(messages),
        RESP3(messages),
        RESP3(invalidations),
        RESP2(a_password),
        RESP2(a_value_that_the_server_refuses),
        RESP2(a_server_that_is_killed),
        RESP2(a_server_that_does_not_answer),
    };
    if (!redis_is_installed())
        return SKIPPED;
    return cmocka_run_group_tests_name("resp_client_redis", tests, start_server, stop_server);
}
