/* The RESP client: limits on what waits, lent memory, and memory of its own. */
#include <sluice/resp_client.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/resp_client_rig.h"
#include "support/sockets.h"

/* ---- Limits on what waits ---- */

static void as_many_wait_as_may(void **state) {
    session *s = *state;
    for (int resp3 = 0; resp3 < 2; resp3++) {
        open_client(s, &(sluice_resp_client_options){
                           .size = sizeof(sluice_resp_client_options), .max_commands = 4, .resp3 = resp3});
        for (int i = 0; i < 4; i++)
            assert_int_equal(give(s, "PING"), 0);
        assert_int_equal(give(s, "PING"), -EAGAIN);
        if (resp3) {
            hear(s, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
            say(s, "%1\r\n+server\r\n+redis\r\n");
            turn_through(s->rig.loop, 3);
            assert_int_equal(give(s, "PING"), -EAGAIN);
        }
        for (int i = 0; i < 10; i++) {
            hear_all(s);
            say(s, "+PONG\r\n");
            turn_until_told(s, (unsigned)i + 1);
            assert_int_equal(give(s, "PING"), 0);
            assert_int_equal(give(s, "PING"), -EAGAIN);
            assert_int_equal(sluice_resp_client_waiting(s->client), 4);
        }
        /* What was refused has left nothing behind. */
        hear(s, "*1\r\n$4\r\nPING\r\n");
        turn_through(s->rig.loop, 2);
        char byte;
        assert_int_equal(recv(s->peer, &byte, 1, MSG_DONTWAIT), -1);
        close_client(s);
    }
}

static void as_many_bytes_wait_as_may(void **state) {
    session *s = *state;
    char bytes[100] = {0};
    const char *const head = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$50\r\n";
    const size_t size = strlen(head) + 50 + 2;
    sluice_resp_arg value = {bytes, 50};
    open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .max_queued = 2 * size});
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, "one"), 0);
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, "two"), 0);
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, "three"), -EAGAIN);
    assert_int_equal(give(s, "PING"), -EAGAIN);
    value.length = 50 + size;
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, "never"), -EMSGSIZE);
    hear_bytes(s, head, strlen(head));
    hear_all(s);
    /* Of which a part would fit. */
    value.length = 50;
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, "three"), 0);
    value.length = 60;
    assert_int_equal(sluice_resp_client_set(s->client, &key, &value, replied, "four"), -EAGAIN);
    assert_int_equal(sluice_resp_client_waiting(s->client), 3);
    hear_bytes(s, head, strlen(head));
    hear_all(s);
    say(s, "+1\r\n+2\r\n+3\r\n");
    turn_until_told(s, 3);
    assert_told(s, 2, "three", 0, "+3");
    close_client(s);
}

/* The writer's places are counted before anything is queued, too. */
static void as_many_pieces_wait_as_may(void **state) {
    session *s = *state;
    enum { MANY = 15000, TOO_MANY = 22000 };
    sluice_resp_client_arg *args = calloc(TOO_MANY, sizeof *args);
    assert_non_null(args);
    for (size_t i = 0; i < TOO_MANY; i++)
        args[i] = (sluice_resp_client_arg){.data = "x", .length = 1, .is_lent = i > 0};
    open_client(s, NULL);
    assert_int_equal(sluice_resp_client_command(s->client, args, TOO_MANY, replied, "never"), -EMSGSIZE);
    assert_int_equal(sluice_resp_client_command(s->client, args, MANY, replied, "one"), 0);
    assert_int_equal(sluice_resp_client_command(s->client, args, MANY, replied, "two"), -EAGAIN);
    hear(s, "*15000\r\n");
    for (int i = 0; i < MANY; i++)
        hear(s, "$1\r\nx\r\n");
    say(s, "+1\r\n");
    turn_until_told(s, 1);
    assert_told(s, 0, "one", 0, "+1");
    assert_in_step(s);
    close_client(s);
    free(args);
}

static void commands_without_one_answer_are_refused(void **state) {
    session *s = *state;
    static const char *const refused[][3] = {
        {"MONITOR"},           {"sync"},         {"PSYNC", "?", "-1"}, {"CLIENT", "reply", "OFF"},
        {"SUBSCRIBE", "news"}, {"unsubscribe"},  {"psubscribe", "n*"}, {"PUNSUBSCRIBE"},
        {"ssubscribe", "a"},   {"SUNSUBSCRIBE"},
    };
    char memory[8];
    open_client(s, NULL);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t count = refused[i][2] ? 3 : refused[i][1] ? 2 : 1;
        assert_int_equal(give_words(s, count, refused[i]), -EINVAL);
    }
    sluice_slice slice = make_slice(s, 1, 4);
    assert_int_equal(sluice_resp_client_command(s->client, NULL, 0, replied, NULL), -EINVAL);
    assert_int_equal(
        sluice_resp_client_command(s->client, &(sluice_resp_client_arg){.slice = &slice}, 1, replied, NULL), -EINVAL);
    sluice_slice_release(&slice);
    const sluice_resp_client_arg hello[] = {{.data = "HELLO", .length = 5}, {.data = "3", .length = 1}};
    assert_int_equal(sluice_resp_client_command_into(s->client, hello, 2, memory, sizeof memory, got, NULL), -EINVAL);
    assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory, sizeof memory, NULL, NULL), -EINVAL);
    assert_int_equal(subscribe(s, 1, (const char *const[]){"UNSUBSCRIBE"}), -EINVAL);
    assert_int_equal(subscribe(s, 2, (const char *const[]){"GET", "key"}), -EINVAL);
    assert_int_equal(sluice_resp_client_waiting(s->client), 0);
    assert_int_equal(give_words(s, 2, (const char *const[]){"CLIENT", "ID"}), 0);
    hear(s, "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n");
    close_client(s);
}

/* ---- Lent memory ---- */

/* Gives it back to itself: whoever still read it would send zeros. */
static uint8_t *lent;
enum { LENT = 4 << 20 };

static void clear_lent(session *s, const char *name) {
    (void)s;
    if (strcmp(name, "SET") == 0)
        memset(lent, 0, LENT);
}

static void lend(session *s) {
    lent = malloc(LENT);
    assert_non_null(lent);
    pattern_fill(6, 0, lent, LENT);
    open_client(s, NULL);
    s->then = clear_lent;
    assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){lent, LENT}, replied, "SET"), 0);
    assert_int_equal(give(s, "AFTER"), 0);
}

/* A server that answers before it has read: the callback waits until the memory is the caller's
 * again. */
static void an_early_answer_waits_for_what_is_lent(void **state) {
    session *s = *state;
    uint8_t *expected = malloc(LENT);
    assert_non_null(expected);
    pattern_fill(6, 0, expected, LENT);
    lend(s);
    say(s, "-ERR early\r\n>1\r\n+between\r\n+after\r\n");
    turn_through(s->rig.loop, 10);
    assert_int_equal(s->entries, 0);
    hear(s, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4194304\r\n");
    hear_bytes(s, expected, LENT);
    hear(s, "\r\n*1\r\n$5\r\nAFTER\r\n");
    turn_until_told(s, 3);
    assert_told(s, 0, "SET", 0, "-ERR early");
    assert_told(s, 1, "push", 0, "> +between");
    assert_told(s, 2, "AFTER", 0, "+after");
    s->then = NULL;
    assert_in_step(s);
    close_client(s);
    free(lent);
    free(expected);
}

/* A server that goes on talking meanwhile does not fill the pool. */
static void what_follows_an_early_answer_stays_in_the_socket(void **state) {
    session *s = *state;
    enum { LONG = 900000 };
    char *text = malloc(LONG);
    sluice_pool_stats stats = {.size = sizeof stats};
    size_t said = 0;
    assert_non_null(text);
    memset(text, 'x', LONG);
    lend(s);
    s->then = NULL;
    say(s, "-ERR early\r\n");
    turn_through(s->rig.loop, 5);
    say(s, "$900000\r\n");
    for (int tries = 0; tries < 20 && said < LONG; tries++) {
        ssize_t here = send(s->peer, text + said, LONG - said, MSG_DONTWAIT | MSG_NOSIGNAL);
        said += here > 0 ? (size_t)here : 0;
        turn_through(s->rig.loop, 2);
    }
    sluice_pool_get_stats(s->rig.pool, &stats);
    assert_true(stats.held < 64);
    assert_true(said < LONG);
    hear(s, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4194304\r\n");
    hear_bytes(s, lent, LENT);
    hear(s, "\r\n*1\r\n$5\r\nAFTER\r\n");
    say_bytes(s, text + said, LONG - said);
    say(s, "\r\n");
    turn_until_told(s, 2);
    assert_told(s, 0, "SET", 0, "-ERR early");
    assert_string_equal(s->log[1].name, "AFTER");
    assert_int_equal(s->log[1].error, 0);
    assert_in_step(s);
    close_client(s);
    free(lent);
    free(text);
}

/* It answers, reads no more, and goes: the answer is told all the same, to the others why there is
 * none. */
static void an_early_answer_outlives_the_connection(void **state) {
    session *s = *state;
    lend(s);
    say(s, "-ERR too long\r\n");
    turn_through(s->rig.loop, 10);
    assert_int_equal(s->entries, 0);
    close(s->peer);
    turn_until_count(s->rig.loop, &s->closed, 1);
    assert_int_equal(s->entries, 3);
    assert_told(s, 0, "SET", 0, "-ERR too long");
    assert_string_equal(s->log[1].name, "AFTER");
    assert_true(s->log[1].error == -EPIPE || s->log[1].error == -ECONNRESET);
    assert_int_equal(s->log[2].error, s->log[1].error);
    sluice_resp_client_free(s->client);
    free(lent);
}

static void a_close_gives_back_what_is_lent(void **state) {
    session *s = *state;
    lend(s);
    turn_through(s->rig.loop, 5);
    sluice_resp_client_close(s->client);
    sluice_resp_client_close(s->client);
    assert_int_equal(s->entries, 0);
    assert_int_equal(give(s, "LATE"), -EPIPE);
    turn_until_count(s->rig.loop, &s->closed, 1);
    assert_told(s, 0, "SET", -ECANCELED, "");
    assert_told(s, 1, "AFTER", -ECANCELED, "");
    assert_told(s, 2, "closed", 0, "");
    sluice_resp_client_free(s->client);
    close(s->peer);
    free(lent);
}

/* A command whose value is lent and whose answer goes into memory of the caller's. */
static void lent_and_into_at_once(void **state) {
    session *s = *state;
    uint8_t *expected = malloc(LENT);
    char old[8];
    assert_non_null(expected);
    lent = malloc(LENT);
    assert_non_null(lent);
    pattern_fill(6, 0, lent, LENT);
    pattern_fill(6, 0, expected, LENT);
    open_client(s, NULL);
    s->then = clear_lent;
    const sluice_resp_client_arg args[] = {
        {.data = "GETSET", .length = 6}, {.data = "key", .length = 3}, {.data = lent, .length = LENT, .is_lent = true}};
    assert_int_equal(sluice_resp_client_command_into(s->client, args, 3, old, sizeof old, got, "SET"), 0);
    say(s, "$8\r\nold ");
    turn_through(s->rig.loop, 5);
    say(s, "data\r\n");
    turn_through(s->rig.loop, 5);
    assert_int_equal(s->entries, 0);
    hear(s, "*3\r\n$6\r\nGETSET\r\n$3\r\nkey\r\n$4194304\r\n");
    hear_bytes(s, expected, LENT);
    hear(s, "\r\n");
    turn_until_told(s, 1);
    assert_told_length(s, 0, "SET", 0, 8);
    assert_memory_equal(old, "old data", 8);
    s->then = NULL;
    assert_in_step(s);
    close_client(s);
    free(lent);
    free(expected);
}

/* ---- Memory of its own ---- */

static unsigned answers;

static void count_reply(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)client;
    (void)user;
    answers += error == 0 && reply->value.type != SLUICE_RESP_ERROR;
}

static void count_got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    (void)client;
    (void)user;
    answers += error == 0 && !reply && length == 2000;
}

static void one_round(session *s, const sluice_slice *slice, char *value, char *memory) {
    const sluice_resp_client_arg args[] = {
        {.data = "GET", .length = 3}, {.data = "key", .length = 3}, {.data = value, .length = 2000, .is_lent = true}};
    char bytes[8192];
    answers = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){value, 2000}, count_reply, s), 0);
        assert_int_equal(sluice_resp_client_set_slice(s->client, &key, slice, count_reply, s), 0);
        assert_int_equal(sluice_resp_client_get_into(s->client, &key, memory, 2000, count_got, s), 0);
        assert_int_equal(sluice_resp_client_command(s->client, args, 3, count_reply, s), 0);
    }
    for (int i = 0; i < 4; i++) {
        sluice_loop_turn(s->rig.loop, 0);
        while (recv(s->peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            ;
    }
    for (int i = 0; i < 4; i++) {
        say(s, "+OK\r\n+OK\r\n$2000\r\n");
        sluice_loop_turn(s->rig.loop, 0);
        say_bytes(s, value, 2000);
        say(s, "\r\n*2\r\n$2000\r\n");
        say_bytes(s, value, 2000);
        say(s, "\r\n:1\r\n>1\r\n+push\r\n");
    }
    turn_until_count(s->rig.loop, &answers, 16);
}

static void commands_allocate_nothing(void **state) {
    session *s = *state;
    enum { WARM = 20, ROUNDS = 100 };
    char value[2000] = {0}, memory[2000];
    int fds[2];
    unsigned long before = 0;
    sockets_unix_pair(fds);
    s->peer = fds[1];
    const sluice_resp_client_options options = {.size = sizeof options, .timeout_ms = 60000};
    assert_int_equal(sluice_resp_client_new(s->rig.loop, fds[0], &options, NULL, NULL, &s->client), 0);
    sluice_slice slice = make_slice(s, 7, sizeof value);
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == WARM)
            before = heap.allocations;
        one_round(s, &slice, value, memory);
    }
    assert_int_equal(heap.allocations - before, 0);
    sluice_slice_release(&slice);
    sluice_resp_client_free(s->client);
    turn_through(s->rig.loop, 3);
    close(s->peer);
}

static void without_memory_there_is_no_client(void **state) {
    session *s = *state;
    const sluice_resp_client_options options = {.size = sizeof options, .timeout_ms = 1000, .resp3 = true};
    int error = -ENOMEM;
    for (unsigned long n = 1; error == -ENOMEM; n++) {
        sluice_resp_client *const untouched = (sluice_resp_client *)(void *)s;
        int fds[2];
        char byte;
        sockets_unix_pair(fds);
        s->peer = fds[1];
        s->client = untouched;
        s->entries = s->closed = 0;
        s->then = NULL;
        heap.fail_at = n;
        error = sluice_resp_client_new(s->rig.loop, fds[0], &options, &events, s, &s->client);
        heap.fail_at = 0;
        if (error) {
            /* The descriptor is closed, and nothing is told. */
            assert_int_equal(error, -ENOMEM);
            assert_ptr_equal(s->client, untouched);
            turn_through(s->rig.loop, 3);
            assert_int_equal(s->entries, 0);
            while (read(s->peer, &byte, 1) == 1)
                ;
            assert_int_equal(read(s->peer, &byte, 1), 0);
            close(s->peer);
        } else {
            assert_true(n > 5);
            close_client(s);
        }
    }
}

static void settings_are_checked(void **state) {
    session *s = *state;
    const sluice_resp_client_options wrong[] = {
        {.size = sizeof(sluice_resp_client_options), .max_commands = SLUICE_RESP_CLIENT_MAX_COMMANDS + 1},
        {.size = sizeof(sluice_resp_client_options),
         .limits = &(sluice_resp_limits){.size = sizeof(sluice_resp_limits),
                                         .reply = (size_t)small_pool.block_size * small_pool.max_blocks + 1}},
        {.size = sizeof(sluice_resp_client_options),
         .limits = &(sluice_resp_limits){.size = sizeof(sluice_resp_limits), .depth = SLUICE_RESP_MAX_DEPTH + 1}},
    };
    sluice_resp_client *const untouched = (sluice_resp_client *)(void *)s;
    sluice_resp_client *client = untouched;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int fds[2];
        char byte;
        sockets_unix_pair(fds);
        assert_int_equal(sluice_resp_client_new(s->rig.loop, fds[0], &wrong[i], &events, s, &client), -EINVAL);
        assert_int_equal(read(fds[1], &byte, 1), 0);
        close(fds[1]);
    }
    assert_int_equal(sluice_resp_client_new(s->rig.loop, -1, NULL, &events, s, &client), -EINVAL);
    assert_ptr_equal(client, untouched);
    sluice_resp_client_close(NULL);
    sluice_resp_client_free(NULL);
}

/* A command that cannot be queued whole is told so like any other that fails, and its memory is not
 * lent any more. */
static void without_memory_a_command_is_not_half_sent(void **state) {
    session *s = *state;
    enum { LARGE = 100000 };
    char *large = calloc(1, LARGE), *tail = malloc(MEBIBYTE);
    assert_non_null(large);
    assert_non_null(tail);
    bool told = false;
    int error = -ENOMEM;
    for (unsigned long n = 1; error || told; n++) {
        const sluice_resp_client_arg args[] = {{.data = "SET", .length = 3},
                                               {.data = tail, .length = MEBIBYTE, .is_lent = true},
                                               {.data = large, .length = LARGE}};
        open_client(s, NULL);
        assert_int_equal(give(s, "FIRST"), 0);
        hear_all(s);
        heap.fail_at = n;
        error = sluice_resp_client_command(s->client, args, 3, replied, "large");
        told = heap.fail_at == 0 && !error;
        heap.fail_at = 0;
        if (error) {
            assert_int_equal(error, -ENOMEM);
            say(s, "+FIRST\r\n");
            turn_until_told(s, 1);
            assert_in_step(s);
        } else if (told) {
            turn_until_count(s->rig.loop, &s->closed, 1);
            assert_told(s, 0, "FIRST", -ENOMEM, "");
            assert_told(s, 1, "large", -ENOMEM, "");
            assert_told(s, 2, "closed", -ENOMEM, "");
        }
        close_client(s);
        assert_true(n < 1000);
    }
    free(large);
    free(tail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(as_many_wait_as_may),
        BOTH(as_many_bytes_wait_as_may),
        BOTH(as_many_pieces_wait_as_may),
        BOTH(commands_without_one_answer_are_refused),
        BOTH(an_early_answer_waits_for_what_is_lent),
        BOTH(what_follows_an_early_answer_stays_in_the_socket),
        BOTH(an_early_answer_outlives_the_connection),
        BOTH(a_close_gives_back_what_is_lent),
        BOTH(lent_and_into_at_once),
        BOTH(commands_allocate_nothing),
        BOTH(without_memory_there_is_no_client),
        BOTH(without_memory_a_command_is_not_half_sent),
        BOTH(settings_are_checked),
    };
    return cmocka_run_group_tests_name("resp_client_limits", tests, NULL, NULL);
}
