/* The RESP client: timeouts, what callbacks may do, and the end of the loop. */
#include <sluice/resp_client.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/clock.h"
#include "support/resp_client_rig.h"
#include "support/sockets.h"

/* ---- Time ---- */

static void silence_ends_it(void **state) {
    session *s = *state;
    static const char *const answers[] = {"", "+OK\r\n$10\r\nabc", "+OK\r\n$10\r\nabcdefghij", "+OK\r\n$1000\r\nabc"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        enum { TIMEOUT = 20 };
        char memory[10];
        clock_stop();
        open_client(s,
                    &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .timeout_ms = TIMEOUT});
        assert_int_equal(give(s, "FIRST"), 0);
        assert_int_equal(get(s, memory, sizeof memory, "second"), 0);
        assert_int_equal(give(s, "THIRD"), 0);
        hear_all(s);
        say(s, answers[i]);
        turn_until_count(s->rig.loop, &s->entries, i > 0);
        turn_through(s->rig.loop, 3);
        assert_int_equal(s->closed, 0);
        clock_forward(TIMEOUT);
        clock_go_on();
        turn_until_count(s->rig.loop, &s->closed, 1);
        assert_int_equal(s->entries, 4);
        assert_told(s, 0, "FIRST", i == 0 ? -ETIMEDOUT : 0, i == 0 ? "" : "+OK");
        if (i == 3)
            assert_told_length(s, 1, "second", -EFBIG, 1000);
        else
            assert_told_length(s, 1, "second", -ETIMEDOUT, 0);
        assert_told(s, 2, "THIRD", -ETIMEDOUT, "");
        assert_told(s, 3, "closed", -ETIMEDOUT, "");
        assert_int_equal(give(s, "FOURTH"), -EPIPE);
        sluice_resp_client_free(s->client);
        close(s->peer);
    }
}

/* The time is each command's own, and stands still while none waits. */
static void what_is_answered_has_all_the_time(void **state) {
    session *s = *state;
    enum { TIMEOUT = 50 };
    open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .timeout_ms = TIMEOUT});
    clock_stop();
    for (int i = 0; i < 5; i++) {
        s->entries = 0;
        assert_int_equal(give(s, "PING"), 0);
        clock_forward(TIMEOUT - 1);
        turn_through(s->rig.loop, 3);
        say(s, "+PONG\r\n");
        turn_until_told(s, 1);
        assert_told(s, 0, "PING", 0, "+PONG");
    }
    for (int i = 0; i < 3; i++) {
        clock_forward(TIMEOUT);
        turn_through(s->rig.loop, 3);
    }
    assert_int_equal(s->closed, 0);
    assert_in_step(s);
    clock_go_on();
    close_client(s);
}

/* Given shortly before the time of one that has been answered would have passed. */
static void the_time_of_another_does_not_count(void **state) {
    session *s = *state;
    enum { TIMEOUT = 1000 };
    clock_stop();
    open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .timeout_ms = TIMEOUT});
    assert_in_step(s);
    clock_forward(TIMEOUT - 200);
    turn_through(s->rig.loop, 3);
    assert_int_equal(give(s, "PING"), 0);
    clock_forward(300);
    turn_through(s->rig.loop, 3);
    say(s, "+PONG\r\n");
    turn_until_told(s, 2);
    assert_told(s, 1, "PING", 0, "+PONG");
    clock_go_on();
    close_client(s);
}

/* ---- Callbacks ---- */

static void free_in_callback(session *s, const char *name) {
    (void)name;
    sluice_resp_client_free(s->client);
}

static void close_in_callback(session *s, const char *name) {
    (void)name;
    sluice_resp_client_close(s->client);
}

/* In the first callback, of whichever kind; the others come all the same, later and once. */
static void a_callback_may_end_the_client(void **state) {
    session *s = *state;
    static const char *const firsts[] = {"+answer\r\n+more\r\n+more\r\n", ">1\r\n+push\r\n+more\r\n", "nonsense\r\n"};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++)
        for (int freed = 0; freed < 2; freed++)
            for (int into = 0; into < 2; into++) {
                char memory[8];
                open_client(s, NULL);
                assert_int_equal(into ? get(s, memory, sizeof memory, "first") : give(s, "first"), 0);
                assert_int_equal(give(s, "second"), 0);
                hear_all(s);
                s->then = freed ? free_in_callback : close_in_callback;
                say(s, firsts[i]);
                turn_until_count(s->rig.loop, &s->closed, 1);
                turn_through(s->rig.loop, 2);
                assert_int_equal(s->entries, i == 1 ? 4 : 3);
                assert_told(s, i == 1 ? 2 : 1, "second", i == 2 ? -EPROTO : -ECANCELED, "");
                assert_told(s, s->entries - 1, "closed", i == 2 ? -EPROTO : 0, "");
                if (!freed)
                    sluice_resp_client_free(s->client);
                close(s->peer);
            }
}

static void give_in_callback(session *s, const char *name) {
    if (strcmp(name, "closed") == 0 || s->log[s->entries - 1].error)
        s->result = give(s, "LATE");
    else if (s->entries < 20)
        s->result = give(s, "NEXT");
}

static void a_callback_may_give_commands(void **state) {
    session *s = *state;
    open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .max_commands = 1});
    s->then = give_in_callback;
    assert_int_equal(give(s, "FIRST"), 0);
    for (unsigned i = 0; i < 20; i++) {
        hear(s, i == 0 ? "*1\r\n$5\r\nFIRST\r\n" : "*1\r\n$4\r\nNEXT\r\n");
        say(s, "+OK\r\n");
        turn_until_told(s, i + 1);
        assert_int_equal(s->result, 0);
    }
    s->then = NULL;
    assert_int_equal(give(s, "LAST"), 0);
    s->then = give_in_callback;
    sluice_resp_client_close(s->client);
    turn_until_count(s->rig.loop, &s->closed, 1);
    assert_int_equal(s->entries, 22);
    assert_int_equal(s->result, -EPIPE);
    sluice_resp_client_free(s->client);
    close(s->peer);
}

static void wait_in_callback(session *s, const char *name) {
    (void)name;
    s->result = sluice_resp_client_wait(s->client, -1);
}

static void wait_in_timer(sluice_timer *timer, void *user) {
    session *s = user;
    (void)timer;
    s->result = sluice_resp_client_wait(s->client, -1);
    say(s, "+OK\r\n");
}

static void waiting_drives_the_loop(void **state) {
    session *s = *state;
    sluice_timer *timer;
    open_client(s, NULL);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_int_equal(give(s, "ONE"), 0);
    assert_int_equal(sluice_resp_client_wait(s->client, 0), -ETIMEDOUT);
    assert_int_equal(sluice_resp_client_wait(s->client, 5), -ETIMEDOUT);
    assert_int_equal(sluice_resp_client_waiting(s->client), 1);

    /* Refused in a callback of the client's, and in one of anybody else. */
    assert_int_equal(give(s, "TWO"), 0);
    s->then = wait_in_callback;
    say(s, "+1\r\n");
    turn_until_told(s, 1);
    s->then = NULL;
    assert_int_equal(s->result, -EBUSY);
    s->result = 0;
    assert_int_equal(sluice_timer_new(s->rig.loop, wait_in_timer, s, &timer), 0);
    sluice_timer_start(timer, 0);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), 0);
    assert_int_equal(s->result, -EBUSY);
    sluice_timer_free(timer);
    assert_told(s, 1, "TWO", 0, "+OK");

    /* The end of the connection ends it, also when the client is freed meanwhile. */
    assert_int_equal(give(s, "THREE"), 0);
    say(s, "nonsense\r\n");
    s->then = free_in_callback;
    assert_int_equal(sluice_resp_client_wait(s->client, 60000), -EPROTO);
    assert_told(s, 2, "THREE", -EPROTO, "");
    close(s->peer);

    open_client(s, NULL);
    assert_int_equal(give(s, "FOUR"), 0);
    sluice_resp_client_close(s->client);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), -ECANCELED);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), -EPIPE);
    assert_told(s, 0, "FOUR", -ECANCELED, "");
    sluice_resp_client_free(s->client);
    close(s->peer);
}

/* The loop goes first: everybody is told, and the client can be freed afterwards. */
static void the_end_of_the_loop(void **state) {
    session *s = *state;
    char memory[100];
    open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .timeout_ms = 10000});
    assert_int_equal(get(s, memory, sizeof memory, "into"), 0);
    assert_int_equal(give(s, "AFTER"), 0);
    hear_all(s);
    say(s, "$100\r\nabc");
    turn_through(s->rig.loop, 3);
    sluice_loop_free(s->rig.loop);
    s->rig.loop = NULL;
    assert_int_equal(s->entries, 3);
    assert_told_length(s, 0, "into", -ECANCELED, 0);
    assert_told(s, 1, "AFTER", -ECANCELED, "");
    assert_told(s, 2, "closed", 0, "");
    assert_int_equal(give(s, "LATE"), -EPIPE);
    assert_int_equal(sluice_resp_client_wait(s->client, -1), -EPIPE);
    sluice_resp_client_free(s->client);
    close(s->peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(silence_ends_it),
        BOTH(what_is_answered_has_all_the_time),
        BOTH(the_time_of_another_does_not_count),
        BOTH(a_callback_may_end_the_client),
        BOTH(a_callback_may_give_commands),
        BOTH(waiting_drives_the_loop),
        BOTH(the_end_of_the_loop),
    };
    return cmocka_run_group_tests_name("resp_client_callbacks", tests, NULL, NULL);
}
