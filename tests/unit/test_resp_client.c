/* The RESP client against a scripted server: what it sends, and what each command is told. */
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

/* ---- A session ---- */

static uint64_t copied(const session *s) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(s->rig.pool, &stats);
    return stats.bytes_copied;
}

/* ---- What is sent ---- */

static void a_set_is_sent_byte_for_byte(void **state) {
    session *s = *state;
    uint8_t value[1000], wire[] = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1000\r\n";
    open_client(s, NULL);
    pattern_fill(1, 0, value, sizeof value);

    assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){value, sizeof value}, replied, "lent"),
                     0);
    hear_bytes(s, wire, sizeof wire - 1);
    hear_bytes(s, value, sizeof value);
    hear(s, "\r\n");

    sluice_slice slice = make_slice(s, 1, sizeof value);
    assert_int_equal(sluice_resp_client_set_slice(s->client, &key, &slice, replied, "slice"), 0);
    sluice_slice_release(&slice);
    hear_bytes(s, wire, sizeof wire - 1);
    hear_bytes(s, value, sizeof value);
    hear(s, "\r\n");

    /* Without bytes. */
    assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){NULL, 0}, replied, "none"), 0);
    hear(s, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    assert_int_equal(sluice_resp_client_set_slice(s->client, &key, &(sluice_slice){0}, replied, "empty"), 0);
    hear(s, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");

    say(s, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    turn_until_told(s, 4);
    assert_told(s, 0, "lent", 0, "+OK");
    assert_told(s, 1, "slice", 0, "+OK");
    assert_told(s, 2, "none", 0, "+OK");
    assert_told(s, 3, "empty", 0, "+OK");
    close_client(s);
}

/* The value is not copied on its way, in either form. */
static void a_set_copies_nothing_of_the_value(void **state) {
    session *s = *state;
    uint8_t *value = malloc(MEBIBYTE);
    assert_non_null(value);
    pattern_fill(2, 0, value, MEBIBYTE);
    open_client(s, NULL);
    assert_int_equal(sluice_resp_client_set(s->client, &key, &(sluice_resp_arg){value, MEBIBYTE}, replied, "lent"), 0);
    sluice_slice slice = make_slice(s, 2, MEBIBYTE);
    assert_int_equal(sluice_resp_client_set_slice(s->client, &key, &slice, replied, "slice"), 0);
    sluice_slice_release(&slice);
    for (int i = 0; i < 2; i++) {
        hear(s, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1048576\r\n");
        hear_bytes(s, value, MEBIBYTE);
        hear(s, "\r\n");
    }
    assert_int_equal(copied(s), 0);
    say(s, "+OK\r\n+OK\r\n");
    turn_until_told(s, 2);
    close_client(s);
    free(value);
}

static void arguments_of_all_kinds_in_any_place(void **state) {
    session *s = *state;
    char lent[] = "lent", *large = malloc(10000);
    assert_non_null(large);
    memset(large, 'x', 10000);
    open_client(s, NULL);
    sluice_slice slice = make_slice(s, 3, 700);
    const sluice_resp_client_arg args[] = {
        {.data = lent, .length = 4, .is_lent = true},
        {.slice = &slice},
        {.data = NULL, .length = 0},
        {.data = "copied", .length = 6},
        {.data = large, .length = 10000},
        {.slice = &slice},
        {.data = NULL, .length = 0, .is_lent = true},
        {.data = lent, .length = 4, .is_lent = true},
    };
    uint8_t bytes[700];
    pattern_fill(3, 0, bytes, sizeof bytes);
    assert_int_equal(sluice_resp_client_command(s->client, args, 8, replied, "mixed"), 0);
    sluice_slice_release(&slice);
    memset(large, 'y', 10000);
    hear(s, "*8\r\n$4\r\nlent\r\n$700\r\n");
    hear_bytes(s, bytes, sizeof bytes);
    hear(s, "\r\n$0\r\n\r\n$6\r\ncopied\r\n$10000\r\n");
    memset(large, 'x', 10000);
    hear_bytes(s, large, 10000);
    hear(s, "\r\n$700\r\n");
    hear_bytes(s, bytes, sizeof bytes);
    hear(s, "\r\n$0\r\n\r\n$4\r\nlent\r\n");
    say(s, ":-7\r\n");
    turn_until_told(s, 1);
    assert_told(s, 0, "mixed", 0, ":-7");
    close_client(s);
    free(large);
}

static void commands_of_one_turn_leave_in_one_send(void **state) {
    session *s = *state;
    char bytes[4096];
    open_client(s, NULL);
    turn_through(s->rig.loop, 2);
    for (int i = 0; i < 50; i++)
        assert_int_equal(give(s, "PING"), 0);
    turn_through(s->rig.loop, 2);
    assert_int_equal(recv(s->peer, bytes, sizeof bytes, MSG_DONTWAIT), 50 * 14);
    close_client(s);
}

/* ---- What is answered ---- */

/* A string with a line end in it, and one with a whole reply. */
#define HELLO_WORLD "hello\r\nworld"
#define DISGUISED "+OK\r\n$3\r\nabc"

typedef struct memories {
    char exact[12], large[100], small[11], one[1], unused[8];
} memories;

static void give_script(session *s, memories *m) {
    memset(m, '.', sizeof *m);
    assert_int_equal(give(s, "SIMPLE"), 0);
    assert_int_equal(get(s, m->exact, sizeof m->exact, "exact"), 0);
    assert_int_equal(give(s, "ERROR"), 0);
    assert_int_equal(get(s, m->large, sizeof m->large, "large"), 0);
    assert_int_equal(get(s, m->small, sizeof m->small, "small"), 0);
    assert_int_equal(get(s, m->one, sizeof m->one, "one"), 0);
    assert_int_equal(get(s, NULL, 0, "empty"), 0);
    assert_int_equal(get(s, NULL, 0, "nothing fits"), 0);
    assert_int_equal(get(s, m->unused, sizeof m->unused, "null"), 0);
    assert_int_equal(get(s, m->unused, sizeof m->unused, "wrong"), 0);
    assert_int_equal(get(s, m->unused, sizeof m->unused, "array"), 0);
    assert_int_equal(give(s, "ARRAY"), 0);
    assert_int_equal(give(s, "BULK"), 0);
    assert_int_equal(give(s, "NULL"), 0);
}

static const char script[] = "+fine\r\n"
                             "$12\r\n" HELLO_WORLD "\r\n"
                             ">2\r\n+first\r\n:1\r\n"
                             "-ERR wrong\r\n"
                             "$12\r\n" DISGUISED "\r\n"
                             "$12\r\n" HELLO_WORLD "\r\n"
                             ">1\r\n$6\r\nsecond\r\n"
                             "|1\r\n+ttl\r\n:9\r\n$1\r\n1\r\n"
                             "$0\r\n\r\n"
                             "$2\r\nab\r\n"
                             "$-1\r\n"
                             "-WRONGTYPE of value\r\n"
                             "*2\r\n$1\r\na\r\n$1\r\nb\r\n"
                             "*3\r\n:1\r\n_\r\n*1\r\n+x\r\n"
                             "$5\r\n12345\r\n"
                             "_\r\n";

/* Two pushes, and what each command is told. */
enum { SCRIPT_ENTRIES = 16 };

static void assert_script(const session *s, const memories *m) {
    assert_int_equal(s->entries, SCRIPT_ENTRIES);
    assert_told(s, 0, "SIMPLE", 0, "+fine");
    assert_told_length(s, 1, "exact", 0, 12);
    assert_told(s, 2, "push", 0, "> +first :1");
    assert_told(s, 3, "ERROR", 0, "-ERR wrong");
    assert_told_length(s, 4, "large", 0, 12);
    assert_told_length(s, 5, "small", -EFBIG, 12);
    assert_told(s, 6, "push", 0, "> $second");
    assert_told_length(s, 7, "one", 0, 1);
    assert_told_length(s, 8, "empty", 0, 0);
    assert_told_length(s, 9, "nothing fits", -EFBIG, 2);
    assert_told(s, 10, "null", 0, "_");
    assert_told(s, 11, "wrong", 0, "-WRONGTYPE of value");
    assert_told(s, 12, "array", 0, "* $a $b");
    assert_told(s, 13, "ARRAY", 0, "* :1 _ * +x");
    assert_told(s, 14, "BULK", 0, "$12345");
    assert_told(s, 15, "NULL", 0, "_");
    assert_memory_equal(m->exact, HELLO_WORLD, 12);
    assert_memory_equal(m->large, DISGUISED "..", 14);
    assert_memory_equal(m->small, "...........", 11);
    assert_memory_equal(m->one, "1", 1);
    assert_memory_equal(m->unused, "........", 8);
}

static void replies_cut_anywhere(void **state) {
    session *s = *state;
    memories m;
    open_client(s, NULL);
    for (size_t cut = 0; cut < sizeof script - 1; cut++) {
        s->entries = 0;
        give_script(s, &m);
        hear_all(s);
        say_bytes(s, script, cut);
        turn_through(s->rig.loop, 2);
        assert_true(s->entries < SCRIPT_ENTRIES);
        say_bytes(s, script + cut, sizeof script - 1 - cut);
        turn_until_told(s, SCRIPT_ENTRIES);
        assert_script(s, &m);
        assert_int_equal(sluice_resp_client_waiting(s->client), 0);
    }
    close_client(s);
}

static void replies_byte_by_byte(void **state) {
    session *s = *state;
    memories m;
    open_client(s, NULL);
    give_script(s, &m);
    hear_all(s);
    for (size_t i = 0; i < sizeof script - 1; i++) {
        say_bytes(s, script + i, 1);
        turn_through(s->rig.loop, 1);
    }
    turn_until_told(s, SCRIPT_ENTRIES);
    assert_script(s, &m);
    assert_in_step(s);
    close_client(s);
}

/* At every place: everybody is told once and in order, and those whose answers had come whole had
 * them. */
static void the_server_ends_anywhere(void **state) {
    session *s = *state;
    for (size_t cut = 0; cut < sizeof script; cut++) {
        memories m;
        unsigned answered = 0, pushes = 0;
        open_client(s, NULL);
        give_script(s, &m);
        hear_all(s);
        say_bytes(s, script, cut);
        close(s->peer);
        turn_until_count(s->rig.loop, &s->closed, 1);
        while (s->log[answered + pushes].error == 0 || s->log[answered + pushes].error == -EFBIG) {
            bool is_push = strcmp(s->log[answered + pushes].name, "push") == 0;
            *(is_push ? &pushes : &answered) += 1;
        }
        /* Fourteen commands, what else was told, and the end. */
        assert_int_equal(s->entries, 14 + pushes + 1);
        for (unsigned i = answered + pushes; i < s->entries; i++)
            assert_told_length(s, i, s->log[i].name, -EPIPE, 0);
        assert_string_equal(s->log[s->entries - 1].name, "closed");
        if (cut == sizeof script - 1)
            assert_int_equal(answered, 14);
        if (answered < 14)
            assert_string_equal(s->log[s->entries - 2].name, "NULL");

        assert_int_equal(give(s, "PING"), -EPIPE);
        assert_int_equal(get(s, m.one, 1, "late"), -EPIPE);
        assert_int_equal(sluice_resp_client_wait(s->client, -1), -EPIPE);
        assert_int_equal(sluice_resp_client_waiting(s->client), 0);
        sluice_resp_client_free(s->client);
    }
}

static void a_reset_is_told_as_such(void **state) {
    session *s = *state;
    char memory[100];
    open_client_on(s, sockets_tcp_pair, NULL);
    assert_int_equal(get(s, memory, sizeof memory, "partial"), 0);
    assert_int_equal(give(s, "AFTER"), 0);
    hear_all(s);
    say(s, "$100\r\nabc");
    turn_through(s->rig.loop, 3);
    sockets_reset_on_close(s->peer);
    close(s->peer);
    turn_until_count(s->rig.loop, &s->closed, 1);
    assert_int_equal(s->entries, 3);
    assert_told_length(s, 0, "partial", -ECONNRESET, 0);
    assert_told(s, 1, "AFTER", -ECONNRESET, "");
    assert_told(s, 2, "closed", -ECONNRESET, "");
    sluice_resp_client_free(s->client);
}

static void what_is_not_resp_ends_it(void **state) {
    session *s = *state;
    static const struct {
        const char *bytes;
        int error;
    } cases[] = {
        {"hello\r\n", -EPROTO},
        {"$12\r\nhello world!XX", -EPROTO},
        {"$x\r\n", -EPROTO},
        {"$?\r\n;0\r\n", -EOPNOTSUPP},
        {"+OK\n", -EPROTO},
        {"*1\r\n>1\r\n+x\r\n", -EPROTO},
        {"-ERR wrong\r\n+OK\r\n+unasked\r\n", -EPROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int into = 0; into < 2; into++) {
            char memory[100];
            bool is_last = i == sizeof cases / sizeof *cases - 1;
            open_client(s, NULL);
            assert_int_equal(into ? get(s, memory, sizeof memory, "first") : give(s, "first"), 0);
            assert_int_equal(give(s, "second"), 0);
            hear_all(s);
            say(s, cases[i].bytes);
            turn_until_count(s->rig.loop, &s->closed, 1);
            assert_int_equal(s->entries, 3);
            assert_told(s, 0, "first", is_last ? 0 : cases[i].error, is_last ? "-ERR wrong" : "");
            assert_told(s, 1, "second", is_last ? 0 : cases[i].error, is_last ? "+OK" : "");
            assert_told(s, 2, "closed", cases[i].error, "");
            sluice_resp_client_free(s->client);
            close(s->peer);
        }
}

static void replies_have_limits(void **state) {
    session *s = *state;
    char memory[300];
    for (int too_long = 0; too_long < 2; too_long++) {
        open_client(s, &(sluice_resp_client_options){
                           .size = sizeof(sluice_resp_client_options),
                           .limits = &(sluice_resp_limits){.size = sizeof(sluice_resp_limits), .reply = 200}});
        assert_int_equal(give(s, "first"), 0);
        assert_int_equal(give(s, "second"), 0);
        hear_all(s);
        /* 6 bytes before the text, 2 behind it. Found by the header alone. */
        say(s, too_long ? "$193\r\n" : "$192\r\n");
        turn_through(s->rig.loop, 3);
        assert_int_equal(s->entries, too_long ? 3 : 0);
        if (too_long)
            assert_told(s, 1, "second", -EMSGSIZE, "");
        close_client(s);
    }
    /* What goes into the caller's memory lies in no block. */
    open_client(s, &(sluice_resp_client_options){
                       .size = sizeof(sluice_resp_client_options),
                       .limits = &(sluice_resp_limits){.size = sizeof(sluice_resp_limits), .reply = 200}});
    assert_int_equal(get(s, memory, sizeof memory, "into"), 0);
    hear_all(s);
    memset(memory, 'x', 250);
    say(s, "$250\r\n");
    say_bytes(s, memory, 250);
    say(s, "\r\n");
    turn_until_told(s, 1);
    assert_told_length(s, 0, "into", 0, 250);
    close_client(s);
}

/* A value that goes into the caller's memory may be larger than the pool; the one that does not fit
 * is not gathered. */
static void a_value_larger_than_the_pool(void **state) {
    session *s = *state;
    enum { LARGE = 8 << 20 };
    uint8_t *memory = malloc(LARGE), *value = malloc(LARGE);
    sluice_pool_stats stats = {.size = sizeof stats};
    assert_non_null(memory);
    assert_non_null(value);
    assert_true(LARGE > small_pool.block_size * small_pool.max_blocks);
    pattern_fill(4, 0, value, LARGE);
    open_client(s, NULL);
    assert_int_equal(get(s, memory, LARGE - 1, "too small"), 0);
    assert_int_equal(get(s, memory, LARGE, "fits"), 0);
    assert_int_equal(give(s, "AFTER"), 0);
    hear_all(s);
    for (int i = 0; i < 2; i++) {
        say(s, "$8388608\r\n");
        say_bytes(s, value, LARGE);
        say(s, "\r\n");
    }
    say(s, "+OK\r\n");
    turn_until_told(s, 3);
    assert_told_length(s, 0, "too small", -EFBIG, LARGE);
    assert_told_length(s, 1, "fits", 0, LARGE);
    assert_memory_equal(memory, value, LARGE);
    assert_told(s, 2, "AFTER", 0, "+OK");
    sluice_pool_get_stats(s->rig.pool, &stats);
    assert_true(stats.peak_held < 2048);
    close_client(s);
    free(memory);
    free(value);
}

static sluice_slice kept[2];

static void keep_reply(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    (void)client;
    assert_int_equal(error, 0);
    if (user)
        assert_int_equal(sluice_resp_keep(&reply->value, &kept[1]), 0);
    else
        assert_int_equal(sluice_slice_take(&reply->bytes, &kept[0]), 0);
    log_entry("kept", 0, 0, NULL);
}

static void replies_may_be_kept(void **state) {
    session *s = *state;
    const sluice_resp_client_arg arg = {.data = "GET", .length = 3};
    uint8_t value[5000];
    pattern_fill(5, 0, value, sizeof value);
    open_client(s, NULL);
    assert_int_equal(sluice_resp_client_command(s->client, &arg, 1, keep_reply, NULL), 0);
    assert_int_equal(sluice_resp_client_command(s->client, &arg, 1, keep_reply, s), 0);
    hear_all(s);
    for (int i = 0; i < 2; i++) {
        say(s, "$5000\r\n");
        say_bytes(s, value, sizeof value);
        say(s, "\r\n");
    }
    turn_until_told(s, 2);
    assert_int_equal(copied(s), 0);
    assert_in_step(s);
    close_client(s);
    assert_int_equal(sluice_slice_length(&kept[0]), 7 + sizeof value + 2);
    assert_true(pattern_slice_matches(5, 0, &kept[1]));
    assert_int_equal(sluice_slice_length(&kept[1]), sizeof value);
    sluice_slice_release(&kept[0]);
    sluice_slice_release(&kept[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(a_set_is_sent_byte_for_byte),
        BOTH(a_set_copies_nothing_of_the_value),
        BOTH(arguments_of_all_kinds_in_any_place),
        BOTH(commands_of_one_turn_leave_in_one_send),
        BOTH(replies_cut_anywhere),
        BOTH(replies_byte_by_byte),
        BOTH(the_server_ends_anywhere),
        BOTH(a_reset_is_told_as_such),
        BOTH(what_is_not_resp_ends_it),
        BOTH(replies_have_limits),
        BOTH(a_value_larger_than_the_pool),
        BOTH(replies_may_be_kept),
    };
    return cmocka_run_group_tests_name("resp_client", tests, NULL, NULL);
}
