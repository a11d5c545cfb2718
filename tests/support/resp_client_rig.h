/* The RESP client and a server that is a script. Each test runs on both backends. */
#ifndef SLUICE_TESTS_SUPPORT_RESP_CLIENT_RIG_H
#define SLUICE_TESTS_SUPPORT_RESP_CLIENT_RIG_H

#include <sluice/resp_client.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluice/chain.h>

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

static inline bool heap_fails(void) {
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

static inline void write_value(char *to, size_t size, const sluice_resp_value *value) {
    size_t at = strlen(to);
    if (value->type == SLUICE_RESP_INTEGER) {
        snprintf(to + at, size - at, ":%lld", (long long)value->integer);
        return;
    }
    at += (size_t)snprintf(to + at, size - at, "%c", value->type);
    if (at < size)
        to[at + sluice_slice_copy(&value->text, 0, to + at, size - at - 1)] = '\0';
}

static inline void log_entry(const char *name, int error, uint64_t length, const sluice_resp_reply *reply) {
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

static inline void replied(sluice_resp_client *client, int error, sluice_resp_reply *reply, void *user) {
    assert_ptr_equal(client, current->client);
    assert_true(error == 0 ? reply != NULL : reply == NULL);
    log_entry(user, error, 0, reply);
}

static inline void got(sluice_resp_client *client, int error, uint64_t length, sluice_resp_reply *reply, void *user) {
    assert_ptr_equal(client, current->client);
    assert_true(!reply || (error == 0 && length == 0));
    log_entry(user, error, length, reply);
}

static inline void pushed(sluice_resp_client *client, sluice_resp_reply *reply, void *user) {
    assert_ptr_equal(client, current->client);
    assert_ptr_equal(user, current);
    log_entry("push", 0, 0, reply);
}

static inline void closed(sluice_resp_client *client, int error, void *user) {
    session *s = user;
    assert_ptr_equal(client, s->client);
    s->closed++;
    log_entry("closed", error, 0, NULL);
}

static const sluice_resp_client_events events = {.size = sizeof events, .on_push = pushed, .on_closed = closed};

/* ---- A session ---- */

static inline void open_client_on(session *s, void pair(int ret_fds[2]), const sluice_resp_client_options *options) {
    int fds[2];
    pair(fds);
    s->peer = fds[1];
    s->entries = s->closed = 0;
    s->then = NULL;
    assert_int_equal(sluice_resp_client_new(s->rig.loop, fds[0], options, &events, s, &s->client), 0);
}

static inline void open_client(session *s, const sluice_resp_client_options *options) {
    open_client_on(s, sockets_unix_pair, options);
}

static inline void close_client(session *s) {
    sluice_resp_client_close(s->client);
    turn_until_count(s->rig.loop, &s->closed, 1);
    sluice_resp_client_free(s->client);
    s->client = NULL;
    close(s->peer);
}

static const sluice_pool_options small_pool = {
    .size = sizeof small_pool, .block_size = 512, .slab_blocks = 64, .max_blocks = 4096, .no_huge_pages = true};

static inline int set_up(void **state, sluice_backend_choice backend) {
    session *s = calloc(1, sizeof *s);
    assert_non_null(s);
    heap.fail_at = 0;
    loop_rig_open(&s->rig, &small_pool, &(sluice_loop_options){.size = sizeof(sluice_loop_options), .backend = backend},
                  GUARD);
    current = s;
    *state = s;
    return 0;
}

static inline int set_up_uring(void **state) {
    return set_up(state, SLUICE_BACKEND_URING);
}

static inline int set_up_epoll(void **state) {
    return set_up(state, SLUICE_BACKEND_EPOLL);
}

static inline int tear_down(void **state) {
    session *s = *state;
    loop_rig_close(&s->rig);
    free(s);
    return 0;
}

/* As far as there is room the client does not have to read meanwhile. */
static inline void say_bytes(const session *s, const void *bytes, size_t n) {
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

static inline void say(const session *s, const char *text) {
    say_bytes(s, text, strlen(text));
}

/* The next bytes that the client sends. */
static inline void hear_bytes(const session *s, const void *expected, size_t n) {
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

static inline void hear(const session *s, const char *expected) {
    hear_bytes(s, expected, strlen(expected));
}

/* Whatever the client has given is sent, and none of it stays unread. */
static inline void hear_all(const session *s) {
    char bytes[4096];
    turn_through(s->rig.loop, 3);
    while (recv(s->peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static inline int give(const session *s, const char *word) {
    const sluice_resp_client_arg arg = {.data = word, .length = strlen(word)};
    return sluice_resp_client_command(s->client, &arg, 1, replied, (void *)word);
}

/* A command of words; it is called by the first. */
static inline int give_words(const session *s, size_t count, const char *const words[]) {
    sluice_resp_client_arg args[8];
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    return sluice_resp_client_command(s->client, args, count, replied, (void *)words[0]);
}

static inline int subscribe(const session *s, size_t count, const char *const words[]) {
    sluice_resp_client_arg args[8];
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    return sluice_resp_client_subscribe(s->client, args, count, replied, (void *)words[0]);
}

static const sluice_resp_arg key = {"key", 3};

static inline int get(const session *s, void *memory, size_t size, const char *name) {
    return sluice_resp_client_get_into(s->client, &key, memory, size, got, (void *)name);
}

static inline void turn_until_told(session *s, unsigned entries) {
    turn_until_count(s->rig.loop, &s->entries, entries);
    assert_int_equal(s->entries, entries);
}

static inline void assert_told(const session *s, unsigned index, const char *name, int error, const char *text) {
    const entry *e = &s->log[index];
    assert_true(index < s->entries);
    assert_string_equal(e->name, name);
    if (e->error != error)
        fail_msg("%s got %d, not %d", name, e->error, error);
    assert_string_equal(e->text, text);
}

static inline void assert_told_length(const session *s, unsigned index, const char *name, int error, uint64_t length) {
    assert_told(s, index, name, error, "");
    assert_int_equal(s->log[index].length, length);
}

/* The next command gets its own answer. */
static inline void assert_in_step(session *s) {
    unsigned before = s->entries;
    hear_all(s);
    assert_int_equal(give(s, "PING"), 0);
    hear(s, "*1\r\n$4\r\nPING\r\n");
    say(s, "+in step\r\n");
    turn_until_told(s, before + 1);
    assert_told(s, before, "PING", 0, "+in step");
}

/* A slice of so many pattern bytes, in blocks that are not full. */
static inline sluice_slice make_slice(const session *s, uint32_t seed, size_t n) {
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

#define BOTH(test)                                                                                                     \
    {#test " on io_uring", test, set_up_uring, tear_down, NULL}, {                                                     \
#test " on epoll", test, set_up_epoll, tear_down, NULL                                                         \
    }

#endif
