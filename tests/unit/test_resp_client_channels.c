/* The RESP client: versions of the protocol, and channels. */
#include <sluice/resp_client.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/resp_client_rig.h"
#include "support/sockets.h"

static void resp3_is_asked_for_first(void **state) {
    session *s = *state;
    static const struct {
        const char *answer;
        int error;
    } cases[] = {
        {"%1\r\n+server\r\n+redis\r\n", 0},
        {"-ERR unknown command 'HELLO'\r\n", -EPROTONOSUPPORT},
        {"-NOAUTH HELLO must be called\r\n", -EPROTONOSUPPORT},
        {"+OK\r\n", -EPROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .resp3 = true});
        assert_int_equal(give(s, "PING"), 0);
        assert_int_equal(sluice_resp_client_waiting(s->client), 2);
        hear(s, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$4\r\nPING\r\n");
        say(s, cases[i].answer);
        say(s, "+PONG\r\n");
        turn_until_count(s->rig.loop, &s->entries, 1);
        assert_told(s, 0, "PING", cases[i].error, cases[i].error ? "" : "+PONG");
        if (cases[i].error)
            turn_until_count(s->rig.loop, &s->closed, 1);
        close_client(s);
    }
}

/* With RESP2 messages are arrays; whether one is an answer follows from where it stands. */
static void channels_with_resp2(void **state) {
    session *s = *state;
    open_client(s, NULL);
    assert_int_equal(give_words(s, 1, (const char *const[]){"LRANGE"}), 0);
    assert_int_equal(subscribe(s, 3, (const char *const[]){"SUBSCRIBE", "a", "b"}), 0);
    assert_int_equal(give(s, "PING"), 0);
    hear(s, "*1\r\n$6\r\nLRANGE\r\n*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$4\r\nPING\r\n");
    /* A list that looks like a message, before there are any. */
    say(s, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n");
    say(s, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n2\r\n");
    turn_until_told(s, 2);
    say(s, "*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    say(s, "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\n3\r\n");
    turn_until_told(s, 5);
    assert_told(s, 0, "LRANGE", 0, "* $message $a $1");
    assert_told(s, 1, "push", 0, "* $message $a $2");
    assert_told(s, 2, "SUBSCRIBE", 0, "* $subscribe $b :2");
    assert_told(s, 3, "PING", 0, "* $pong $");
    assert_told(s, 4, "push", 0, "* $pmessage $* $a $3");

    assert_int_equal(give(s, "GET"), 0);
    assert_int_equal(subscribe(s, 3, (const char *const[]){"unsubscribe", "a", "b"}), 0);
    assert_int_equal(give(s, "LRANGE"), 0);
    say(s, "-ERR Can't execute 'get'\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n");
    say(s, "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n4\r\n");
    turn_until_told(s, 8);
    assert_told(s, 5, "GET", 0, "-ERR Can't execute 'get'");
    assert_told(s, 6, "unsubscribe", 0, "* $unsubscribe $b :0");
    assert_told(s, 7, "LRANGE", 0, "* $message $a $4");

    /* Shard channels have a count of their own. */
    assert_int_equal(subscribe(s, 2, (const char *const[]){"SSUBSCRIBE", "x"}), 0);
    assert_int_equal(subscribe(s, 2, (const char *const[]){"SUBSCRIBE", "a"}), 0);
    assert_int_equal(subscribe(s, 2, (const char *const[]){"UNSUBSCRIBE", "a"}), 0);
    say(s, "*3\r\n$10\r\nssubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
           "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n*3\r\n$8\r\nsmessage\r\n$1\r\nx\r\n$1\r\n5\r\n");
    turn_until_told(s, 12);
    assert_told(s, 11, "push", 0, "* $smessage $x $5");
    /* The server ends one by itself. */
    say(s, "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nx\r\n:0\r\n");
    turn_until_told(s, 13);
    assert_told(s, 12, "push", 0, "* $sunsubscribe $x :0");
    assert_in_step(s);
    close_client(s);
}

static void channels_with_resp3(void **state) {
    session *s = *state;
    open_client(s, &(sluice_resp_client_options){.size = sizeof(sluice_resp_client_options), .resp3 = true});
    assert_int_equal(give(s, "ONE"), 0);
    assert_int_equal(subscribe(s, 3, (const char *const[]){"SUBSCRIBE", "a", "b"}), 0);
    assert_int_equal(give(s, "LRANGE"), 0);
    assert_int_equal(subscribe(s, 2, (const char *const[]){"PSUBSCRIBE", "*"}), 0);
    assert_int_equal(give(s, "FIVE"), 0);
    hear_all(s);
    say(s, "%1\r\n+server\r\n+redis\r\n+1\r\n"
           ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
           ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n"
           ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nx\r\n:0\r\n"
           ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"
           "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n2\r\n"
           "-NOPERM no such channel\r\n"
           ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n3\r\n"
           "+5\r\n");
    turn_until_told(s, 8);
    assert_told(s, 0, "ONE", 0, "+1");
    assert_told(s, 1, "push", 0, "> $message $a $1");
    assert_told(s, 2, "push", 0, "> $sunsubscribe $x :0");
    assert_told(s, 3, "SUBSCRIBE", 0, "> $subscribe $b :2");
    assert_told(s, 4, "LRANGE", 0, "* $message $a $2");
    assert_told(s, 5, "PSUBSCRIBE", 0, "-NOPERM no such channel");
    assert_told(s, 6, "push", 0, "> $message $a $3");
    assert_told(s, 7, "FIVE", 0, "+5");
    close_client(s);
}

/* HELLO and RESET change what an array is while there are channels. */
static void the_version_may_change(void **state) {
    session *s = *state;
    static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n";
    open_client(s, NULL);
    assert_int_equal(give(s, "HELLO"), 0);
    assert_int_equal(subscribe(s, 2, (const char *const[]){"SUBSCRIBE", "a"}), 0);
    assert_int_equal(give(s, "LRANGE"), 0);
    hear_all(s);
    say(s, "%1\r\n+proto\r\n:3\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    say(s, message);
    turn_until_told(s, 3);
    assert_told(s, 2, "LRANGE", 0, "* $message $a $1");

    assert_int_equal(give(s, "hello"), 0);
    say(s, "*2\r\n+proto\r\n:2\r\n");
    say(s, message);
    turn_until_told(s, 5);
    assert_told(s, 4, "push", 0, "* $message $a $1");

    assert_int_equal(give(s, "RESET"), 0);
    assert_int_equal(give(s, "LRANGE"), 0);
    say(s, "+RESET\r\n");
    say(s, message);
    turn_until_told(s, 7);
    assert_told(s, 6, "LRANGE", 0, "* $message $a $1");

    assert_int_equal(give(s, "HELLO"), 0);
    assert_int_equal(give(s, "RESET"), 0);
    assert_int_equal(subscribe(s, 2, (const char *const[]){"SUBSCRIBE", "a"}), 0);
    say(s, "%1\r\n+proto\r\n:3\r\n+RESET\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    say(s, message);
    turn_until_told(s, 11);
    assert_told(s, 10, "push", 0, "* $message $a $1");
    close_client(s);
}

static void without_listeners_pushes_are_dropped(void **state) {
    session *s = *state;
    int fds[2];
    sockets_unix_pair(fds);
    s->entries = 0;
    s->peer = fds[1];
    assert_int_equal(sluice_resp_client_new(s->rig.loop, fds[0], NULL, NULL, NULL, &s->client), 0);
    const sluice_resp_client_arg arg = {.data = "PING", .length = 4};
    assert_int_equal(sluice_resp_client_command(s->client, &arg, 1, NULL, NULL), 0);
    assert_int_equal(give(s, "PING"), 0);
    hear_all(s);
    say(s, ">1\r\n+x\r\n+1\r\n>1\r\n+x\r\n+2\r\n");
    turn_until_told(s, 1);
    assert_told(s, 0, "PING", 0, "+2");
    sluice_resp_client_free(s->client);
    turn_through(s->rig.loop, 3);
    close(s->peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(resp3_is_asked_for_first),
        BOTH(channels_with_resp2),
        BOTH(channels_with_resp3),
        BOTH(the_version_may_change),
        BOTH(without_listeners_pushes_are_dropped),
    };
    return cmocka_run_group_tests_name("resp_client_channels", tests, NULL, NULL);
}
