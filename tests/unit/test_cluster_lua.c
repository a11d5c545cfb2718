/*
 * The cluster's scripts in a real redis-server: what they answer and publish is what the model of
 * the engine (support/cluster_engine.h) does, whatever the commands; keys, lifetimes, lost scripts.
 */
#include "daemon/cluster/cluster_script.h"

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

#include "daemon/cluster/cluster_node.h"
#include "memory/chain.h"
#include "support/cluster_engine.h"
#include "support/feed.h"
#include "support/redis.h"

enum { NODES = 4, STREAMS = 6, HOSTS = 3, COMMANDS = 6000, EVENTS = 4 * CLUSTER_BATCH };

static redis_server server;

static int start_server(void **state) {
    (void)state;
    /* Without a server this test has failed: nothing else shows that the scripts work. */
    assert_true(redis_is_installed());
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
    sluice_pool *pool;
    sluice_chain chain;
    sluice_resp *resp;
    struct cluster_script *script;
    bool is_fixed; /* time is what the test says, and leases do not end by themselves */
    struct cluster_event events[EVENTS];
    size_t event_count;
};

static void send_args(struct client *client, const sluice_resp_client_arg *args, size_t count) {
    sluice_resp_arg plain[12 + CLUSTER_BATCH * 8];
    assert_true(count <= sizeof plain / sizeof plain[0]);
    for (size_t i = 0; i < count; i++)
        plain[i] = (sluice_resp_arg){args[i].data, args[i].length};
    size_t size = sluice_resp_command_size(plain, count), length = 0;
    char *buffer = malloc(size);
    assert_non_null(buffer);
    assert_int_equal(sluice_resp_write_command(buffer, size, plain, count, &length), 0);
    for (size_t sent = 0; sent < length;) {
        ssize_t n = send(client->fd, buffer + sent, length - sent, MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
    }
    free(buffer);
}

static void receive(struct client *client) {
    sluice_block *block = NULL;
    assert_int_equal(sluice_block_get(client->pool, &block), 0);
    ssize_t n = recv(client->fd, sluice_block_data(block), sluice_block_capacity(block), 0);
    assert_true(n > 0);
    assert_int_equal(sluice_block_set_length(block, (uint32_t)n), 0);
    sluice_chain_append(&client->chain, block);
}

static const sluice_resp_reply *next_message(struct client *client) {
    sluice_resp_reply *reply = NULL;
    int result;
    while ((result = sluice_resp_next(client->resp, &client->chain, &reply)) == 0)
        receive(client);
    assert_int_equal(result, 1);
    return reply;
}

/* The next reply; events that precede it are kept. */
static const sluice_resp_reply *next_reply(struct client *client) {
    for (;;) {
        const sluice_resp_reply *reply = next_message(client);
        if (reply->value.type != SLUICE_RESP_PUSH)
            return reply;
        assert_true(client->event_count < EVENTS);
        int error = cluster_script_read_push(client->script, reply, &client->events[client->event_count]);
        if (error != -ENOMSG) {
            assert_int_equal(error, 0);
            client->event_count++;
        }
    }
}

static const sluice_resp_reply *ask(struct client *client, size_t count, const char *const *words) {
    sluice_resp_client_arg args[16];
    for (size_t i = 0; i < count; i++)
        args[i] = (sluice_resp_client_arg){.data = words[i], .length = strlen(words[i])};
    send_args(client, args, count);
    return next_reply(client);
}

#define ASK(client, ...)                                                                                               \
    ask(client, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* The text with each @from, of which there is one at least, replaced. */
static char *replaced(char *text, const char *from, const char *to) {
    char *result = calloc(1, strlen(text) * 2 + 4096), *out = result;
    const char *at = text, *found;
    assert_non_null(result);
    while ((found = strstr(at, from))) {
        out = mempcpy(out, at, (size_t)(found - at));
        out = stpcpy(out, to);
        at = found + strlen(from);
    }
    strcpy(out, at);
    free(text);
    return result;
}

static void load(struct client *client) {
    for (size_t i = 0; i < cluster_script_count(); i++) {
        size_t count = 0;
        sluice_resp_client_arg args[3];
        memcpy(args, cluster_script_load(client->script, i, &count), sizeof args);
        assert_int_equal(count, 3);
        char *text = strdup(args[2].data);
        if (client->is_fixed) {
            text = replaced(text, "redis.call('TIME')", "redis.call('MGET', 'seconds', 'microseconds')");
            text = replaced(text, "'PX', ARGV[7]", "'PX', 100000000");
        }
        args[2] = (sluice_resp_client_arg){.data = text, .length = strlen(text)};
        send_args(client, args, count);
        assert_int_equal(cluster_script_loaded(client->script, i, next_reply(client)), 0);
        free(text);
    }
}

static struct client *connect_client(bool is_fixed) {
    struct client *client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->is_fixed = is_fixed;
    client->fd = redis_connect(&server);
    assert_int_equal(sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true},
                                     &client->pool),
                     0);
    assert_int_equal(sluice_resp_new(NULL, &client->resp), 0);
    chain_init(&client->chain, client->pool);
    assert_int_equal(cluster_script_new("test:P", &client->script), 0);
    ASK(client, "HELLO", "3");
    load(client);
    return client;
}

static void subscribe(struct client *client) {
    const sluice_resp_client_arg args[] = {
        {.data = "SUBSCRIBE", .length = 9},
        {.data = cluster_script_channel(client->script), .length = strlen(cluster_script_channel(client->script))}};
    send_args(client, args, 2);
    assert_int_equal(next_message(client)->value.type, SLUICE_RESP_PUSH);
}

static int set_up(void **state) {
    *state = connect_client(false);
    return 0;
}

static int set_up_fixed(void **state) {
    struct client *client = connect_client(true);
    subscribe(client);
    *state = client;
    return 0;
}

static int tear_down(void **state) {
    struct client *client = *state;
    ASK(client, "FLUSHALL");
    cluster_script_free(client->script);
    sluice_resp_free(client->resp);
    assert_int_equal(sluice_chain_length(&client->chain), 0);
    feed_assert_returned(client->pool);
    sluice_pool_free(client->pool);
    close(client->fd);
    free(client);
    return 0;
}

static int try_run(struct client *client, const struct cluster_command *command, struct cluster_reply *reply) {
    const sluice_resp_client_arg *args = NULL;
    size_t count = 0;
    int error = cluster_script_write(client->script, command, &args, &count);
    if (error)
        return error;
    send_args(client, args, count);
    return cluster_script_read(command->verb, command->count, next_reply(client), reply);
}

static void run(struct client *client, const struct cluster_command *command, struct cluster_reply *reply) {
    assert_int_equal(try_run(client, command, reply), 0);
}

/* ---- The model does the same ---- */

static uint64_t chance;

static uint64_t draw(uint64_t below) {
    chance = chance * 6364136223846793005 + 1442695040888963407;
    return (chance >> 33) % below;
}

struct both {
    struct client *client;
    struct cluster_engine engine;
    struct cluster_event events[EVENTS];
    size_t event_count;
    uint64_t incarnations[NODES]; /* 0: it has not joined */
    uint64_t beats[NODES];
    uint64_t epochs[NODES][STREAMS]; /* that it has been granted */
};

static void published(const struct cluster_event *event, void *user) {
    struct both *both = user;
    assert_true(both->event_count < EVENTS);
    both->events[both->event_count++] = *event;
}

/* Time passes, or jumps; leases and streams that have ended are removed, as redis would do. */
static void pass(struct both *both) {
    static const int64_t steps[] = {1, 1000, 900000, 2600000, 5000000, 3600000000, -3600000000};
    char seconds[24], microseconds[24], key[STREAM_NAME + 32];
    uint64_t now = both->engine.now_us + (uint64_t)steps[draw(draw(8) == 0 ? 7 : 4)];
    cluster_engine_set_time(&both->engine, now);
    snprintf(seconds, sizeof seconds, "%" PRIu64, now / 1000000);
    snprintf(microseconds, sizeof microseconds, "%" PRIu64, now % 1000000);
    ASK(both->client, "MSET", "seconds", seconds, "microseconds", microseconds);
    for (unsigned i = 0; i < NODES; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        snprintf(key, sizeof key, "test:P:node:%s", name);
        bool has_lease = false;
        for (size_t n = 0; n < both->engine.node_count; n++)
            if (strcmp(both->engine.nodes[n].lease.name, name) == 0)
                has_lease = both->engine.nodes[n].has_lease;
        if (!has_lease)
            ASK(both->client, "DEL", key);
    }
    if (both->engine.ban_count == 0)
        ASK(both->client, "DEL", "test:P:bans");
    for (unsigned i = 0; i < STREAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "live/s%u", i);
        snprintf(key, sizeof key, "test:P:stream:%s", name);
        if (!cluster_engine_find(&both->engine, name))
            ASK(both->client, "DEL", key);
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct cluster_node_reply *)a)->name, ((const struct cluster_node_reply *)b)->name);
}

static void assert_same_location(const struct cluster_location *one, const struct cluster_location *other) {
    assert_string_equal(one->node, other->node);
    assert_string_equal(one->address, other->address);
    assert_int_equal(one->is_secure, other->is_secure);
    assert_int_equal(one->incarnation, other->incarnation);
    assert_int_equal(one->epoch, other->epoch);
}

static void assert_same_items(const struct cluster_reply *one, const struct cluster_reply *other) {
    assert_int_equal(one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        assert_int_equal(one->items[i].result, other->items[i].result);
        assert_same_location(&one->items[i].location, &other->items[i].location);
        assert_int_equal(one->items[i].lease_incarnation, other->items[i].lease_incarnation);
        assert_int_equal(one->items[i].lease_beat, other->items[i].lease_beat);
    }
}

static void assert_same_nodes(struct cluster_reply *one, struct cluster_reply *other) {
    assert_int_equal(one->node_count, other->node_count);
    assert_int_equal(one->cursor, other->cursor);
    if (one->node_count == 0)
        return;
    qsort(one->nodes, one->node_count, sizeof one->nodes[0], by_name);
    qsort(other->nodes, other->node_count, sizeof other->nodes[0], by_name);
    for (size_t i = 0; i < one->node_count; i++) {
        const struct cluster_node_reply *node = &one->nodes[i], *same = &other->nodes[i];
        assert_string_equal(node->name, same->name);
        assert_string_equal(node->address, same->address);
        assert_int_equal(node->is_secure, same->is_secure);
        assert_int_equal(node->incarnation, same->incarnation);
        assert_int_equal(node->beat, same->beat);
        assert_int_equal(node->load.streams, same->load.streams);
        assert_int_equal(node->load.players, same->load.players);
        assert_int_equal(node->load.bits_per_second, same->load.bits_per_second);
        assert_int_equal(node->load.cpu_permille, same->load.cpu_permille);
    }
}

static void assert_same_bans(const struct cluster_reply *one, const struct cluster_reply *other) {
    assert_int_equal(one->ban_count, other->ban_count);
    assert_int_equal(one->bans_since, other->bans_since);
    for (size_t i = 0; i < one->ban_count; i++) {
        assert_string_equal(one->bans[i].stream, other->bans[i].stream);
        assert_memory_equal(&one->bans[i].host, &other->bans[i].host, sizeof one->bans[i].host);
        assert_int_equal(one->bans[i].ms, other->bans[i].ms);
    }
}

static void assert_same_events(const struct both *both) {
    const struct client *client = both->client;
    assert_int_equal(client->event_count, both->event_count);
    for (size_t i = 0; i < both->event_count; i++) {
        const struct cluster_event *one = &client->events[i], *other = &both->events[i];
        assert_int_equal(one->verb, other->verb);
        assert_string_equal(one->stream, other->stream);
        assert_same_location(&one->location, &other->location);
        assert_memory_equal(&one->host, &other->host, sizeof one->host);
        assert_int_equal(one->ms, other->ms);
    }
}

/* Both run it. @ret_reply: the model's, to be cleared */
static void run_both(struct both *both, const struct cluster_command *command, struct cluster_reply *ret_reply) {
    struct cluster_reply reply = {0};
    both->client->event_count = both->event_count = 0;
    run(both->client, command, &reply);
    /* Events come before the reply to the command (Redis 7.0) or behind it (Valkey). */
    ASK(both->client, "PING");
    cluster_engine_run(&both->engine, command, ret_reply, published, both);
    assert_int_equal(reply.lease, ret_reply->lease);
    assert_int_equal(reply.engine_us, ret_reply->engine_us);
    assert_int_equal(reply.incarnation, ret_reply->incarnation);
    assert_int_equal(reply.last_beat, ret_reply->last_beat);
    assert_same_items(&reply, ret_reply);
    assert_same_nodes(&reply, ret_reply);
    assert_same_bans(&reply, ret_reply);
    assert_same_events(both);
    cluster_reply_clear(&reply);
}

static void choose_items(struct both *both, unsigned node, struct cluster_item *items, char names[][16], size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned stream = (unsigned)draw(STREAMS);
        uint64_t epoch = both->epochs[node][stream], now = both->engine.now_us;
        const struct cluster_engine_node *other = &both->engine.nodes[draw(both->engine.node_count)];
        snprintf(names[i], 16, "live/s%u", stream);
        items[i] = (struct cluster_item){
            .stream = names[i],
            .take = (enum cluster_take)draw(4),
            .host.bytes = {[15] = (uint8_t)draw(HOSTS)},
            .keep_ms = draw(3) ? 0 : 2000,
            .epoch = draw(4)   ? epoch
                     : draw(2) ? now + draw(5000)
                               : epoch + draw(3),
            .floor = draw(4)   ? 0
                     : draw(2) ? epoch + draw(2)
                               : now + draw(100000000),
            .dead_incarnation = draw(4) ? 0 : other->lease.incarnation,
            .dead_beat = draw(4) ? other->lease.beat : 1,
            .asks = draw(2),
        };
    }
}

static void one_command(struct both *both) {
    static const enum cluster_verb verbs[] = {
        CLUSTER_RENEW, CLUSTER_RENEW, CLUSTER_TAKE, CLUSTER_TAKE,  CLUSTER_TAKE, CLUSTER_DROP,     CLUSTER_FIND,
        CLUSTER_LIST,  CLUSTER_LEAVE, CLUSTER_TAKE, CLUSTER_RENEW, CLUSTER_DROP, CLUSTER_LIST_BANS};
    char name[16], address[32], names[CLUSTER_BATCH][16];
    struct cluster_item items[CLUSTER_BATCH];
    struct cluster_reply reply = {0};
    unsigned node = (unsigned)draw(NODES);
    snprintf(name, sizeof name, "n%u", node);
    snprintf(address, sizeof address, node % 2 ? "[fd00::%u]:80" : "n%u.example:8080", node);
    struct cluster_command command = {
        .verb = verbs[draw(sizeof verbs / sizeof verbs[0])],
        .node = name,
        .address = address,
        .is_secure = node % 2,
        .incarnation = both->incarnations[node],
        .random = draw(1024),
        .beat = both->beats[node] + 1,
        .load = {.streams = node, .players = UINT32_MAX, .bits_per_second = UINT64_MAX, .cpu_permille = 7},
        .items = items,
    };
    /* A node that has not joined, or joins anew while its lease is there. */
    if (command.verb != CLUSTER_RENEW && !command.incarnation)
        command.verb = CLUSTER_LIST;
    if (command.verb == CLUSTER_RENEW && draw(12) == 0)
        command.incarnation = 0;
    if (command.verb == CLUSTER_TAKE || command.verb == CLUSTER_DROP || command.verb == CLUSTER_FIND) {
        command.count = draw(4) ? 1 : 1 + draw(CLUSTER_BATCH);
        choose_items(both, node, items, names, command.count);
    }
    run_both(both, &command, &reply);
    if (command.verb == CLUSTER_RENEW && reply.lease == CLUSTER_LEASE_OURS) {
        both->beats[node] = command.beat;
        /* Sometimes the older one goes on. */
        if (!both->incarnations[node] || draw(3))
            both->incarnations[node] = reply.incarnation;
    }
    for (size_t i = 0; command.verb == CLUSTER_TAKE && i < reply.count; i++)
        if (reply.items[i].result == CLUSTER_GRANTED)
            both->epochs[node][items[i].stream[6] - '0'] = reply.items[i].location.epoch;
    cluster_reply_clear(&reply);
}

static void test_model(void **state) {
    struct both *both = calloc(1, sizeof *both);
    assert_non_null(both);
    both->client = *state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        chance = seed;
        ASK(both->client, "FLUSHDB");
        *both = (struct both){.client = both->client, .engine.now_us = UINT64_C(1764150000000000)};
        pass(both);
        for (unsigned i = 0; i < NODES; i++) { /* all names are known to choose_items() */
            char name[16];
            snprintf(name, sizeof name, "n%u", i);
            struct cluster_reply reply = {0};
            run_both(both, &(struct cluster_command){.verb = CLUSTER_RENEW, .node = name, .address = "a:1"}, &reply);
            cluster_reply_clear(&reply);
        }
        for (size_t i = 0; i < COMMANDS; i++) {
            one_command(both);
            if (draw(3) == 0)
                pass(both);
        }
    }
    free(both);
}

/* One host less, or more, is banned from a stream. */
static void change_bans(struct both *both, const char *node, const char *stream, unsigned host, uint64_t ms) {
    struct cluster_event event = {.host.bytes = {[14] = (uint8_t)(host >> 8), [15] = (uint8_t)host}, .ms = ms};
    struct cluster_reply reply = {0};
    event.verb = ms ? CLUSTER_EVENT_BAN : CLUSTER_EVENT_UNBAN;
    strcpy(event.stream, stream);
    run_both(both, &(struct cluster_command){.verb = CLUSTER_BAN, .node = node, .incarnation = 7, .event = &event},
             &reply);
    cluster_reply_clear(&reply);
}

static size_t count_bans(struct both *both, const char *stream) {
    struct cluster_reply reply = {0};
    size_t count = 0;
    run_both(both, &(struct cluster_command){.verb = CLUSTER_LIST_BANS, .node = "n1"}, &reply);
    for (size_t i = 0; i < reply.ban_count; i++)
        count += strcmp(reply.bans[i].stream, stream) == 0;
    cluster_reply_clear(&reply);
    return count;
}

/* As many as there may be, and one more; by chance; lifted; all that are over go. */
static void test_bans(void **state) {
    struct both *both = calloc(1, sizeof *both);
    assert_non_null(both);
    both->client = *state;
    both->engine.now_us = UINT64_C(1764150000000000);
    pass(both);
    chance = 5;
    change_bans(both, "n1", "live/first", 1, 60000);
    for (unsigned i = 1; i < CLUSTER_BANS; i++)
        change_bans(both, "n1", "live/a", i, 61000 + draw(50));
    assert_int_equal(count_bans(both, "live/first"), 1);
    change_bans(both, "n2", "live/a", 1, CLUSTER_BAN_MS);
    assert_int_equal(count_bans(both, "live/first"), 1);
    change_bans(both, "n2", "live/late", 1, 1);
    assert_int_equal(count_bans(both, "live/first"), 0);
    assert_int_equal(count_bans(both, "live/a"), CLUSTER_BANS - 1);
    assert_int_equal(count_bans(both, "live/late"), 1);
    change_bans(both, "n2", "live/a", 0, 0);
    assert_int_equal(count_bans(both, "live/a"), 0);
    for (size_t i = 0; i < COMMANDS / 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "live/s%" PRIu64, draw(STREAMS));
        change_bans(both, "n1", name, (unsigned)draw(HOSTS * 256), draw(8) ? 1 + draw(5000000) : 0);
        count_bans(both, name);
        pass(both);
    }
    free(both);
}

/* ---- What the model does not have ---- */

static int64_t lifetime(struct client *client, const char *key) {
    const sluice_resp_reply *reply = ASK(client, "PTTL", key);
    assert_int_equal(reply->value.type, SLUICE_RESP_INTEGER);
    return reply->value.integer;
}

static uint64_t join(struct client *client, const char *name) {
    struct cluster_reply reply = {0};
    run(client,
        &(struct cluster_command){.verb = CLUSTER_RENEW, .node = name, .address = "h:1", .random = 0x3ff, .beat = 1},
        &reply);
    assert_int_equal(reply.lease, CLUSTER_LEASE_OURS);
    assert_int_equal(reply.incarnation & 0xfff, 0x3ff);
    assert_int_equal(reply.incarnation >> 12, reply.engine_us);
    cluster_reply_clear(&reply);
    return reply.incarnation ? reply.incarnation : 0;
}

static void test_lifetimes(void **state) {
    struct client *client = *state;
    struct cluster_reply reply = {0};
    struct cluster_item item = {.stream = "live/a"};
    struct cluster_command command = {
        .verb = CLUSTER_RENEW, .node = "n1", .address = "h:1", .beat = 1, .items = &item, .count = 1};
    run(client, &command, &reply);
    command.incarnation = reply.incarnation;
    int64_t left = lifetime(client, "test:P:node:n1");
    assert_true(left > 0 && left <= CLUSTER_LEASE_MS);
    assert_int_equal(lifetime(client, "test:P:nodes"), -1);
    command.verb = CLUSTER_TAKE;
    run(client, &command, &reply);
    assert_int_equal(reply.items[0].result, CLUSTER_GRANTED);
    left = lifetime(client, "test:P:stream:live/a");
    assert_true(left > 3500000 && left <= 3600000);
    item.epoch = reply.items[0].location.epoch;
    cluster_reply_clear(&reply);
    command.verb = CLUSTER_DROP;
    run(client, &command, &reply);
    left = lifetime(client, "test:P:stream:live/a");
    assert_true(left > 86000000 && left <= 86400000);
}

/* A restart of the engine, or SCRIPT FLUSH. */
static void test_scripts_are_lost(void **state) {
    struct client *client = *state;
    struct cluster_reply reply = {.engine_us = 7};
    const struct cluster_command command = {.verb = CLUSTER_LIST, .node = "n1", .address = "h:1"};
    ASK(client, "SCRIPT", "FLUSH");
    assert_int_equal(try_run(client, &command, &reply), -ENOEXEC);
    assert_int_equal(reply.engine_us, 7);
    load(client);
    run(client, &command, &reply);
    assert_int_equal(reply.node_count, 0);
    cluster_reply_clear(&reply);
}

/* Each error of a real engine that has a meaning for the connection. */
static void test_errors(void **state) {
    struct client *client = *state;
    struct cluster_reply reply = {0};
    const struct cluster_command command = {.verb = CLUSTER_RENEW, .node = "n1", .address = "h:1", .beat = 1};
    ASK(client, "REPLICAOF", "127.0.0.1", "1");
    assert_int_equal(try_run(client, &command, &reply), -EROFS);
    ASK(client, "REPLICAOF", "NO", "ONE");
    ASK(client, "CONFIG", "SET", "maxmemory", "1");
    assert_int_equal(try_run(client, &command, &reply), -ENOSPC);
    ASK(client, "CONFIG", "SET", "maxmemory", "0");
    ASK(client, "ACL", "SETUSER", "narrow", "on", "nopass", "+@all", "~other:*", "&*");
    ASK(client, "AUTH", "narrow", "");
    assert_int_equal(try_run(client, &command, &reply), -EACCES);
    ASK(client, "AUTH", "default", "");
    ASK(client, "SET", "test:P:nodes", "no set");
    assert_int_equal(try_run(client, &command, &reply), -EEXIST);
    ASK(client, "DEL", "test:P:nodes");
}

/* The rights that the documentation names are enough. */
static void test_rights(void **state) {
    struct client *client = *state;
    struct cluster_reply reply = {0};
    struct cluster_item item = {.stream = "live/a"};
    struct cluster_command command = {
        .verb = CLUSTER_RENEW, .node = "n1", .address = "h:1", .beat = 1, .items = &item, .count = 1};
    struct cluster_event event = {.verb = CLUSTER_EVENT_BAN, .stream = "live/a", .ms = 60000};
    ASK(client, "ACL", "SETUSER", "sluice", "on", ">secret", "-@all", "+hello", "+auth", "+evalsha", "+script|load",
        "+subscribe", "+publish", "+get", "+set", "+del", "+hmget");
    ASK(client, "ACL", "SETUSER", "sluice", "+hset", "+hdel", "+pexpire", "+sadd", "+srem", "+scard", "+sismember",
        "+sscan", "+time", "~test:P:*", "&test:P:events");
    ASK(client, "ACL", "SETUSER", "sluice", "+zadd", "+zcard", "+zpopmin", "+zrange", "+zrem", "+zremrangebyscore",
        "+zscore");
    assert_int_equal(ASK(client, "AUTH", "sluice", "secret")->value.type, SLUICE_RESP_SIMPLE);
    load(client);
    subscribe(client);
    run(client, &command, &reply);
    command.incarnation = reply.incarnation;
    for (enum cluster_verb verb = CLUSTER_TAKE; verb <= CLUSTER_LEAVE; verb++) {
        command.verb = verb;
        run(client, &command, &reply);
        cluster_reply_clear(&reply);
    }
    command.event = &event;
    for (unsigned i = 0; i < CLUSTER_BANS + 2; i++) {
        command.verb = i <= CLUSTER_BANS ? CLUSTER_BAN : CLUSTER_LIST_BANS;
        client->event_count = 0;
        event.host.bytes[0] = (uint8_t)i;
        event.host.bytes[1] = (uint8_t)(i >> 8);
        run(client, &command, &reply);
    }
    assert_int_equal(reply.ban_count, CLUSTER_BANS);
    cluster_reply_clear(&reply);
    event.verb = CLUSTER_EVENT_UNBAN;
    command.verb = CLUSTER_BAN;
    run(client, &command, &reply);
    ASK(client, "AUTH", "default", "");
}

/* As many names as there may be, in parts; names without a lease go. */
static void test_many_nodes(void **state) {
    struct client *client = *state;
    struct cluster_reply reply = {0};
    bool seen[CLUSTER_NODES_MAX] = {false};
    char name[CLUSTER_NODE + 1];
    size_t parts = 0, count = 0;
    for (unsigned i = 0; i < CLUSTER_NODES_MAX; i++) {
        snprintf(name, sizeof name, "node-%u", i);
        join(client, name);
    }
    run(client, &(struct cluster_command){.verb = CLUSTER_RENEW, .node = "more", .address = "h:1", .beat = 1}, &reply);
    assert_int_equal(reply.lease, CLUSTER_LEASE_FULL);
    ASK(client, "DEL", "test:P:node:node-7");
    struct cluster_command command = {.verb = CLUSTER_LIST, .node = "n1", .address = "h:1"};
    do {
        run(client, &command, &reply);
        for (size_t i = 0; i < reply.node_count; i++) {
            unsigned number = (unsigned)atoi(reply.nodes[i].name + 5);
            count += !seen[number];
            seen[number] = true;
        }
        command.cursor = reply.cursor;
        cluster_reply_clear(&reply);
        parts++;
    } while (command.cursor);
    assert_int_equal(count, CLUSTER_NODES_MAX - 1);
    assert_false(seen[7]);
    assert_in_range(parts, 3, 6);
    run(client, &(struct cluster_command){.verb = CLUSTER_RENEW, .node = "more", .address = "h:1", .beat = 1}, &reply);
    assert_int_equal(reply.lease, CLUSTER_LEASE_OURS);
}

/* What one node tells, others hear. */
static void test_told(void **state) {
    struct client *client = *state;
    struct cluster_reply reply = {0};
    struct cluster_event kick = {
        .verb = CLUSTER_EVENT_KICK, .stream = "live/a", .location = {.node = "n1", .incarnation = 0xabc}, .ms = 60000};
    struct cluster_event unban = {
        .verb = CLUSTER_EVENT_UNBAN, .stream = "live/a", .location = {.node = "n1", .incarnation = 0xabc}};
    struct cluster_event ban = {.verb = CLUSTER_EVENT_BAN,
                                .stream = "live/a",
                                .location = {.node = "n1", .incarnation = UINT64_MAX},
                                .host.bytes = {0xfd, 1, [15] = 0xff},
                                .ms = CLUSTER_BAN_MS};
    struct cluster_command command = {.verb = CLUSTER_BAN, .node = "n1"};
    subscribe(client);
    client->event_count = 0;
    run(client, &(struct cluster_command){.verb = CLUSTER_NOTIFY, .event = &kick}, &reply);
    command.incarnation = ban.location.incarnation;
    command.event = &ban;
    run(client, &command, &reply);
    int64_t left = lifetime(client, "test:P:bans");
    assert_true(left > 86000000 && left <= 86400000);
    command.incarnation = unban.location.incarnation;
    command.event = &unban;
    run(client, &command, &reply);
    ASK(client, "PING");
    assert_int_equal(client->event_count, 3);
    assert_memory_equal(&client->events[0], &kick, sizeof kick);
    assert_memory_equal(&client->events[1], &ban, sizeof ban);
    assert_memory_equal(&client->events[2], &unban, sizeof unban);
    ban.ms = CLUSTER_BAN_MS + 1;
    command.event = &ban;
    assert_int_equal(try_run(client, &command, &reply), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_model, set_up_fixed, tear_down),
        cmocka_unit_test_setup_teardown(test_bans, set_up_fixed, tear_down),
        cmocka_unit_test_setup_teardown(test_lifetimes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scripts_are_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
