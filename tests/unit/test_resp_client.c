/*
 * The RESP client against a server that is a script: what it sends byte for byte, what it makes of
 * replies in every two pieces, and what everybody is told at each end. Each test runs on both
 * backends.
 */
#include <sluice/resp_client.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sluice/chain.h>
#include <sluice/conn.h>

#include "support/clock.h"
#include "support/feed.h"
#include "support/sockets.h"

/* The linker puts these in the place of the calls (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static struct {
    unsigned long allocations;
    unsigned long fail_at; /* counted down; the one that reaches 0 fails */
} heap;

static bool heap_fails(void) {
    heap.allocations++;
    return heap.fail_at > 0 && --heap.fail_at == 0;
}

void *__wrap_malloc(size_t size) {
    return heap_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return heap_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return heap_fails() ? NULL : __real_realloc(memory, size);
}

enum {
    GUARD = 100,
    MEBIBYTE = 1 << 20,
    MOST = 64,  /* entries of the log */
    TEXT = 400, /* what is written of a reply */
    NAME = 32,
};

/* What the client has told, in its order. A text begins with the type and says an aggregate's
 * elements in turn. */
typedef struct entry {
    char name[NAME]; /* of the command; "push" and "closed" for the events */
    int error;
    uint64_t length;
    char text[TEXT];
} entry;

typedef struct session {
    loop_rig rig;
    sluice_resp_client *client;
    int peer;
    entry log[MOST];
    unsigned entries;
    unsigned closed;
    void (*then)(struct session *session, const char *name); /* in each callback */
    int result;                                              /* of what that did */
} session;

/* There is one session at a time; what a command is given is its name. */
static session *current;

static void write_value(char *to, size_t size, const sluice_resp_value *value) {
    size_t at = strlen(to);
    if (value->type == SLUICE_RESP_INTEGER) {
        snprintf(to + at, size - at, ":%lld", (long long)value->integer);
        return;
    }
    at += (size_t)snprintf(to + at, size - at, "%c", value->type);
    if (at < size)
        to[at + sluice_slice_copy(&value->text, 0, to + at, size - at - 1)] = '\0';
}

static void log_entry(const char *name, int error, uint64_t length, const sluice_resp_reply *reply) {
    session *s = current;
    if (s->entries == MOST)
        fail_msg("too much is told");
    entry *e = &s->log[s->entries++];
    *e = (entry){.error = error, .length = length};
    snprintf(e->name, sizeof e->name, "%s", name);
    if (reply) {
        sluice_resp_walk walk = reply->elements;
        sluice_resp_value value;
        write_value(e->text, sizeof e->text, &reply->value);
        while (sluice_resp_walk_next(&walk, &value)) {
            strncat(e->text, " ", sizeof e->text - strlen(e->text) - 1);
            write_value(e->text, sizeof e->text, &value);
        }
    }
    if (s->then)
        s->then(s, name);
}

static void replied(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    assert_ptr_equal(client, current->client);
    assert_true(error == 0 ? reply != NULL : reply == NULL);
    log_entry(user, error, 0, reply);
}

static void got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    assert_ptr_equal(client, current->client);
    assert_true(!reply || (error == 0 && length == 0));
    log_entry(user, error, length, reply);
}

static void pushed(sluice_resp_client *client, sluice_resp_reply *reply, void *user) {
    assert_ptr_equal(client, current->client);
    assert_ptr_equal(user, current);
    log_entry("push", 0, 0, reply);
}

static void closed(sluice_resp_client *client, int error, void *user) {
    session *s = user;
    assert_ptr_equal(client, s->client);
    s->closed++;
    log_entry("closed", error, 0, NULL);
}

static const sluice_resp_client_events events = {.size = sizeof events, .on_push = pushed, .on_closed = closed};

/* ---- A session ---- */

static void open_client_on(session *s, void pair(int ret_fds[2]), const sluice_resp_client_options *options) {
    int fds[2];
    pair(fds);
    s->peer = fds[1];
    s->entries = s->closed = 0;
    s->then = NULL;
    assert_int_equal(sluice_resp_client_new(s->rig.loop, fds[0], options, &events, s, &s->client), 0);
}

static void open_client(session *s, const sluice_resp_client_options *options) {
    open_client_on(s, sockets_unix_pair, options);
}

static void close_client(session *s) {
    sluice_resp_client_close(s->client);
    turn_until_count(s->rig.loop, &s->closed, 1);
    sluice_resp_client_free(s->client);
    s->client = NULL;
    close(s->peer);
}

static const sluice_pool_options small_pool = {
    .size = sizeof small_pool, .block_size = 512, .slab_blocks = 64, .max_blocks = 4096, .no_huge_pages = true};

static int set_up(void **state, sluice_backend_choice backend) {
    session *s = calloc(1, sizeof *s);
    assert_non_null(s);
    heap.fail_at = 0;
    loop_rig_open(&s->rig, &small_pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = backend},
                  GUARD);
    current = s;
    *state = s;
    return 0;
}

static int set_up_uring(void **state) {
    return set_up(state, SLUICE_BACKEND_URING);
}

static int set_up_epoll(void **state) {
    return set_up(state, SLUICE_BACKEND_EPOLL);
}

static int tear_down(void **state) {
    session *s = *state;
    loop_rig_close(&s->rig);
    free(s);
    return 0;
}

static uint64_t copied(const session *s) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(s->rig.pool, &stats);
    return stats.bytes_copied;
}

/* As far as there is room the client does not have to read meanwhile. */
static void say_bytes(const session *s, const void *bytes, size_t n) {
    const uint8_t *from = bytes;
    while (n > 0) {
        ssize_t here = send(s->peer, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (here < 0 && errno == EAGAIN) {
            turn_through(s->rig.loop, 1);
            continue;
        }
        assert_true(here > 0);
        from += here;
        n -= (size_t)here;
    }
}

static void say(const session *s, const char *text) {
    say_bytes(s, text, strlen(text));
}

/* The next bytes that the client sends. */
static void hear_bytes(const session *s, const void *expected, size_t n) {
    const uint8_t *bytes = expected;
    uint8_t heard[4096];
    for (size_t done = 0; done < n;) {
        size_t most = n - done < sizeof heard ? n - done : sizeof heard;
        ssize_t here = recv(s->peer, heard, most, MSG_DONTWAIT);
        if (here < 0 && errno == EAGAIN) {
            turn_through(s->rig.loop, 1);
            continue;
        }
        assert_true(here > 0);
        assert_memory_equal(heard, bytes + done, (size_t)here);
        done += (size_t)here;
    }
}

static void hear(const session *s, const char *expected) {
    hear_bytes(s, expected, strlen(expected));
}

/* Whatever the client has given is sent, and none of it stays unread. */
static void hear_all(const session *s) {
    char bytes[4096];
    turn_through(s->rig.loop, 3);
    while (recv(s->peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static int give(const session *s, const char *word) {
    const sluice_resp_client_arg arg = {.data = word, .length = strlen(word)};
    return sluice_resp_client_command(s->client, &arg, 1, replied, (void *)word);
}

/* A command of words; it is called by the first. */
static int give_words(const session *s, size_t count, const char *const words[]) {
    sluice_resp_client_arg args[8];
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    return sluice_resp_client_command(s->client, args, count, replied, (void *)words[0]);
}

static int subscribe(const session *s, size_t count, const char *const words[]) {
    sluice_resp_client_arg args[8];
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    return sluice_resp_client_subscribe(s->client, args, count, replied, (void *)words[0]);
}

static const sluice_resp_arg key = {"key", 3};

static int get(const session *s, void *memory, size_t size, const char *name) {
    return sluice_resp_client_get_into(s->client, &key, memory, size, got, (void *)name);
}

static void turn_until_told(session *s, unsigned entries) {
    turn_until_count(s->rig.loop, &s->entries, entries);
    assert_int_equal(s->entries, entries);
}

static void assert_told(const session *s, unsigned index, const char *name, int error, const char *text) {
    const entry *e = &s->log[index];
    assert_true(index < s->entries);
    assert_string_equal(e->name, name);
    if (e->error != error)
        fail_msg("%s got %d, not %d", name, e->error, error);
    assert_string_equal(e->text, text);
}

static void assert_told_length(const session *s, unsigned index, const char *name, int error, uint64_t length) {
    assert_told(s, index, name, error, "");
    assert_int_equal(s->log[index].length, length);
}

/* The next command gets its own answer. */
static void assert_in_step(session *s) {
    unsigned before = s->entries;
    hear_all(s);
    assert_int_equal(give(s, "PING"), 0);
    hear(s, "*1\r\n$4\r\nPING\r\n");
    say(s, "+in step\r\n");
    turn_until_told(s, before + 1);
    assert_told(s, before, "PING", 0, "+in step");
}

/* A slice of so many pattern bytes, in blocks that are not full. */
static sluice_slice make_slice(const session *s, uint32_t seed, size_t n) {
    uint8_t *bytes = malloc(n + 1);
    sluice_chain *chain;
    sluice_slice slice;
    assert_non_null(bytes);
    pattern_fill(seed, 0, bytes, n);
    assert_int_equal(sluice_chain_new(s->rig.pool, &chain), 0);
    feed(chain, s->rig.pool, bytes, n, 300);
    assert_int_equal(sluice_chain_take(chain, n, &slice), 0);
    sluice_chain_free(chain);
    free(bytes);
    return slice;
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

/* ---- Versions of the protocol, and channels ---- */

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

#define BOTH(test)                                                                                                     \
    {#test " on io_uring", test, set_up_uring, tear_down, NULL}, {                                                     \
#test " on epoll", test, set_up_epoll, tear_down, NULL                                                         \
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
        BOTH(as_many_wait_as_may),
        BOTH(as_many_bytes_wait_as_may),
        BOTH(as_many_pieces_wait_as_may),
        BOTH(commands_without_one_answer_are_refused),
        BOTH(an_early_answer_waits_for_what_is_lent),
        BOTH(what_follows_an_early_answer_stays_in_the_socket),
        BOTH(an_early_answer_outlives_the_connection),
        BOTH(a_close_gives_back_what_is_lent),
        BOTH(lent_and_into_at_once),
        BOTH(silence_ends_it),
        BOTH(what_is_answered_has_all_the_time),
        BOTH(the_time_of_another_does_not_count),
        BOTH(a_callback_may_end_the_client),
        BOTH(a_callback_may_give_commands),
        BOTH(waiting_drives_the_loop),
        BOTH(the_end_of_the_loop),
        BOTH(resp3_is_asked_for_first),
        BOTH(channels_with_resp2),
        BOTH(channels_with_resp3),
        BOTH(the_version_may_change),
        BOTH(without_listeners_pushes_are_dropped),
        BOTH(commands_allocate_nothing),
        BOTH(without_memory_there_is_no_client),
        BOTH(without_memory_a_command_is_not_half_sent),
        BOTH(settings_are_checked),
    };
    return cmocka_run_group_tests_name("resp_client", tests, NULL, NULL);
}
