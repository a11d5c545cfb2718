/* Commands of the cluster as RESP; replies and events, valid ones and others. */
#include "daemon/cluster/cluster_script.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/chain.h"
#include "support/feed.h"

#define INCARNATION "0006440000000abc"
#define ITEM                                                                                                           \
    "*8\r\n:0\r\n$2\r\nn1\r\n$16\r\n" INCARNATION "\r\n$4\r\nhttp\r\n$3\r\nh:1\r\n$1\r\n7\r\n$16\r\n" INCARNATION      \
    "\r\n$1\r\n9\r\n"
#define NONE "*8\r\n:0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$1\r\n3\r\n$0\r\n\r\n$1\r\n0\r\n"

#define LEAVE "$25\r\nleave n1 " INCARNATION "\r\n"

static sluice_pool *pool;

static int set_up(void **state) {
    (void)state;
    return sluice_pool_new(&(sluice_pool_options){.size = sizeof(sluice_pool_options), .no_huge_pages = true}, &pool);
}

static int tear_down(void **state) {
    (void)state;
    feed_assert_returned(pool);
    sluice_pool_free(pool);
    return 0;
}

/* A framed reply. */
struct message {
    sluice_chain chain;
    sluice_resp *resp;
    sluice_resp_reply *reply;
};

static const sluice_resp_reply *open_message(struct message *message, const char *text, size_t length) {
    assert_int_equal(sluice_resp_new(NULL, &message->resp), 0);
    chain_init(&message->chain, pool);
    feed(&message->chain, pool, text, length, 0);
    assert_int_equal(sluice_resp_next(message->resp, &message->chain, &message->reply), 1);
    assert_int_equal(sluice_chain_length(&message->chain), 0);
    return message->reply;
}

static int read_bytes(enum cluster_verb verb, size_t count, const char *text, size_t length,
                      struct cluster_reply *reply) {
    struct message message;
    int error = cluster_script_read(verb, count, open_message(&message, text, length), reply);
    sluice_resp_free(message.resp);
    return error;
}

static int read_text(enum cluster_verb verb, size_t count, const char *text, struct cluster_reply *reply) {
    return read_bytes(verb, count, text, strlen(text), reply);
}

static void assert_bad(enum cluster_verb verb, size_t count, const char *text) {
    struct cluster_reply reply = {.engine_us = 1};
    if (read_text(verb, count, text, &reply) != -EPROTO || reply.engine_us != 1)
        fail_msg("believed: %s", text);
}

static void test_renew(void **state) {
    struct cluster_reply reply;
    (void)state;
    assert_int_equal(read_text(CLUSTER_RENEW, 0,
                               "*4\r\n:0\r\n$16\r\n1764150000000001\r\n$16\r\n" INCARNATION "\r\n$2\r\n12\r\n", &reply),
                     0);
    assert_int_equal(reply.lease, CLUSTER_LEASE_OURS);
    assert_int_equal(reply.engine_us, UINT64_C(1764150000000001));
    assert_int_equal(reply.incarnation, UINT64_C(0x6440000000abc));
    assert_int_equal(reply.last_beat, 12);
    assert_int_equal(read_text(CLUSTER_RENEW, 0, "*4\r\n:3\r\n$1\r\n1\r\n$0\r\n\r\n$1\r\n0\r\n", &reply), 0);
    assert_int_equal(reply.lease, CLUSTER_LEASE_FULL);
    assert_int_equal(
        read_text(CLUSTER_RENEW, 0, "*4\r\n:2\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n", &reply), 0);
    assert_int_equal(reply.lease, CLUSTER_LEASE_ANOTHER);
}

static void test_renew_bad(void **state) {
    static const char *const bad[] = {
        "+OK\r\n",
        "_\r\n",
        ":1\r\n",
        "*0\r\n",
        "$2\r\nOK\r\n",
        "%1\r\n+a\r\n+b\r\n",
        "*3\r\n:0\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n",
        "*5\r\n:0\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n$1\r\n0\r\n",
        "*4\r\n:1\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:4\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:-1\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n$1\r\n0\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$2\r\n-1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$0\r\n\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$16\r\n9007199254740992\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$1\r\n1\r\n$0\r\n\r\n$1\r\n0\r\n",
        "*4\r\n:3\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$1\r\n1\r\n$15\r\n006440000000abc\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$1\r\n1\r\n$16\r\n0006440000000ABC\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$1\r\n1\r\n$16\r\n0000000000000000\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n$1\r\n1\r\n_\r\n$1\r\n0\r\n",
        "*4\r\n:0\r\n*1\r\n$1\r\n1\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n",
    };
    struct cluster_reply reply;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_bad(CLUSTER_RENEW, 0, bad[i]);
    assert_int_equal(read_text(CLUSTER_RENEW, 0,
                               "*4\r\n:0\r\n$16\r\n9007199254740991\r\n$16\r\n" INCARNATION "\r\n$1\r\n0\r\n", &reply),
                     0);
}

static void test_items(void **state) {
    struct cluster_reply reply;
    (void)state;
    assert_int_equal(read_text(CLUSTER_FIND, 2, "*2\r\n" ITEM NONE, &reply), 0);
    assert_int_equal(reply.count, 2);
    assert_string_equal(reply.items[0].location.node, "n1");
    assert_string_equal(reply.items[0].location.address, "h:1");
    assert_false(reply.items[0].location.is_secure);
    assert_int_equal(reply.items[0].location.epoch, 7);
    assert_int_equal(reply.items[0].lease_incarnation, UINT64_C(0x6440000000abc));
    assert_int_equal(reply.items[0].lease_beat, 9);
    assert_string_equal(reply.items[1].location.node, "");
    assert_int_equal(reply.items[1].location.epoch, 3);
    cluster_reply_clear(&reply);
    assert_int_equal(read_text(CLUSTER_TAKE, 1, "*3\r\n:0\r\n$16\r\n" INCARNATION "\r\n" ITEM, &reply), 0);
    assert_int_equal(reply.count, 1);
    cluster_reply_clear(&reply);
    assert_int_equal(read_text(CLUSTER_TAKE, 1, "*2\r\n:1\r\n$0\r\n\r\n", &reply), 0);
    assert_int_equal(reply.lease, CLUSTER_LEASE_NONE);
    assert_int_equal(reply.count, 0);
    assert_int_equal(read_text(CLUSTER_TAKE, 1, "*2\r\n:2\r\n$16\r\n" INCARNATION "\r\n", &reply), 0);
    assert_int_equal(reply.lease, CLUSTER_LEASE_ANOTHER);
}

/* An item of a lookup, with one field of another text. */
static void assert_bad_field(size_t field, const char *text) {
    const char *fields[] = {NULL, "n1", INCARNATION, "http", "h:1", "7", INCARNATION, "9"};
    char reply[4096];
    size_t length = (size_t)sprintf(reply, "*1\r\n*8\r\n:0\r\n");
    for (size_t i = 1; i < 8; i++) {
        const char *word = i == field ? text : fields[i];
        length += (size_t)sprintf(reply + length, "$%zu\r\n%s\r\n", strlen(word), word);
    }
    assert_bad(CLUSTER_FIND, 1, reply);
}

static void test_items_bad(void **state) {
    char long_name[CLUSTER_NODE + 2], long_address[CLUSTER_ADDRESS + 2], longest[1024];
    (void)state;
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    memset(long_address, 'h', sizeof long_address);
    strcpy(long_address + sizeof long_address - 3, ":1");
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    const struct {
        size_t field;
        const char *text;
    } bad[] = {
        {1, ""},
        {1, "a b"},
        {1, "a/b"},
        {1, "\xff"},
        {1, long_name},
        {1, longest},
        {2, ""},
        {2, "x"},
        {3, ""},
        {3, "ftp"},
        {3, "HTTP"},
        {3, "httpx"},
        {4, ""},
        {4, "h"},
        {4, "h:"},
        {4, ":1"},
        {4, "h:0"},
        {4, "h:65536"},
        {4, "h:x"},
        {4, "h:-1"},
        {4, "a b:1"},
        {4, "h/:1"},
        {4, "u@h:1"},
        {4, "[::1:1"},
        {4, "[:]:1"},
        {4, "[::1%eth0]:1"},
        {4, "::1:1"},
        {4, "[]:1"},
        {4, long_address},
        {4, longest},
        {4, "h:1\r\nX: 1"},
        {5, ""},
        {5, "-1"},
        {5, "1.5"},
        {5, "1e3"},
        {5, "nan"},
        {5, "9007199254740992"},
        {5, longest},
        {6, "1"},
        {6, longest},
        {7, ""},
        {7, "x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_bad_field(bad[i].field, bad[i].text);
    assert_bad(CLUSTER_FIND, 2, "*1\r\n" ITEM);
    assert_bad(CLUSTER_FIND, 1, "*2\r\n" ITEM ITEM);
    assert_bad(CLUSTER_FIND, 0, "*0\r\n");
    assert_bad(CLUSTER_FIND, CLUSTER_BATCH + 1, "*1\r\n" ITEM);
    assert_bad(CLUSTER_FIND, 1, "*1\r\n$1\r\na\r\n");
    assert_bad(CLUSTER_FIND, 1, "*1\r\n*0\r\n");
    assert_bad(CLUSTER_TAKE, 2, "*3\r\n:0\r\n$16\r\n" INCARNATION "\r\n" ITEM);
    assert_bad(CLUSTER_TAKE, 1, "*3\r\n:1\r\n$0\r\n\r\n" ITEM);
    assert_bad(CLUSTER_TAKE, 1, "*2\r\n:3\r\n$0\r\n\r\n");
    /* It is held, and by no node. */
    assert_bad(CLUSTER_TAKE, 1,
               "*3\r\n:0\r\n$16\r\n" INCARNATION
               "\r\n*8\r\n:1\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$1\r\n3\r\n$0\r\n\r\n$1\r\n0\r\n");
    /* Of a lookup there are no other results. */
    assert_bad(CLUSTER_FIND, 1,
               "*1\r\n*8\r\n:1\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$1\r\n3\r\n$0\r\n\r\n$1\r\n0\r\n");
    /* No node, but an address. */
    assert_bad(CLUSTER_FIND, 1,
               "*1\r\n*8\r\n:0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$3\r\nh:1\r\n$1\r\n3\r\n$0\r\n\r\n$1\r\n0\r\n");
}

/* Reads such a text as a list. */
static int read_list(const char *text, size_t length, struct cluster_reply *ret_reply) {
    char *bytes = malloc(length + 32);
    assert_non_null(bytes);
    const size_t head = (size_t)sprintf(bytes, "$%zu\r\n", length);
    memcpy(bytes + head, text, length);
    memcpy(bytes + head + length, "\r\n", 2);
    int error = read_bytes(CLUSTER_LIST, 0, bytes, head + length + 2, ret_reply);
    free(bytes);
    return error;
}

static void test_list(void **state) {
    static const char *const bad[] = {
        "",
        "1",
        "1 ",
        "1 -1",
        "1 0 ",
        "x 0",
        "1 18446744073709551616",
        "1 0\n\nn1 " INCARNATION " 5 http h:1 1 2 3 4",
        "1 0\nn1 " INCARNATION " 5 http h:1 1 2 3 4\n",
        "1 0\nn1",
        "1 0\nn1 x",
        "1 0\nn1 " INCARNATION " 5 http h:1 1 2 3 4 5",
        "1 0\nn1 " INCARNATION " 5 http h:1 1 2 3",
        "1 0\nn1 " INCARNATION "  5 http h:1 1 2 3 4",
        "1 0\nn/ " INCARNATION " 5 http h:1 1 2 3 4",
        "1 0\nn1 " INCARNATION " 5 http h:1 4294967296 2 3 4",
    };
    static const char good[] = "1 18446744073709551615\nn1 " INCARNATION " 5 https h:1 1 2 3 4";
    static const char with_nul[] = "1 0\nn\0001 " INCARNATION " 5 http h:1 1 2 3 4";
    struct cluster_reply reply;
    (void)state;
    assert_int_equal(read_list(good, sizeof good - 1, &reply), 0);
    assert_int_equal(reply.cursor, UINT64_MAX);
    assert_int_equal(reply.node_count, 1);
    assert_string_equal(reply.nodes[0].name, "n1");
    assert_string_equal(reply.nodes[0].address, "h:1");
    assert_true(reply.nodes[0].is_secure);
    assert_int_equal(reply.nodes[0].beat, 5);
    assert_int_equal(reply.nodes[0].load.streams, 1);
    assert_int_equal(reply.nodes[0].load.players, 2);
    assert_int_equal(reply.nodes[0].load.bits_per_second, 3);
    assert_int_equal(reply.nodes[0].load.cpu_permille, 4);
    cluster_reply_clear(&reply);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(read_list(bad[i], strlen(bad[i]), &reply), -EPROTO);
    assert_int_equal(read_list(with_nul, sizeof with_nul - 1, &reply), -EPROTO);
    assert_bad(CLUSTER_LIST, 0, "*1\r\n$3\r\n1 0\r\n");
    assert_bad(CLUSTER_LIST, 0, "$-1\r\n");
}

/* As many nodes as a reply may have, and one more. */
static void test_list_bound(void **state) {
    static const char node[] = "\nn1 " INCARNATION " 5 http h:1 1 2 3 4";
    (void)state;
    for (size_t count = CLUSTER_NODES_REPLY; count <= CLUSTER_NODES_REPLY + 1; count++) {
        char *text = malloc(64 + count * sizeof node);
        struct cluster_reply reply;
        assert_non_null(text);
        char *end = stpcpy(text, "1 0");
        for (size_t i = 0; i < count; i++)
            end = stpcpy(end, node);
        int error = read_list(text, (size_t)(end - text), &reply);
        assert_int_equal(error, count > CLUSTER_NODES_REPLY ? -EPROTO : 0);
        if (!error)
            cluster_reply_clear(&reply);
        free(text);
    }
}

static void test_counts(void **state) {
    struct cluster_reply reply;
    (void)state;
    assert_int_equal(read_text(CLUSTER_DROP, 1, ":1\r\n", &reply), 0);
    assert_int_equal(read_text(CLUSTER_LEAVE, 0, ":0\r\n", &reply), 0);
    assert_int_equal(read_text(CLUSTER_NOTIFY, 0, ":7\r\n", &reply), 0);
    assert_bad(CLUSTER_DROP, 1, "+OK\r\n");
    assert_bad(CLUSTER_LEAVE, 0, ":-1\r\n");
    assert_bad(CLUSTER_NOTIFY, 0, "*1\r\n:1\r\n");
}

static void test_errors(void **state) {
    static const struct {
        const char *text;
        int error;
    } errors[] = {
        {"-NOSCRIPT No matching script.\r\n", -ENOEXEC},
        {"-ERR ACL failure in script: User a has no permissions to access the 'sluice:nodes' key\r\n", -EACCES},
        {"-READONLY You can't write against a read only replica.\r\n", -EROFS},
        {"-LOADING Redis is loading the dataset in memory\r\n", -EROFS},
        {"-MASTERDOWN Link with MASTER is down\r\n", -EROFS},
        {"-NOAUTH Authentication required.\r\n", -EACCES},
        {"-NOPERM this user has no permissions\r\n", -EACCES},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", -ENOSPC},
        {"-WRONGTYPE Operation against a key holding the wrong kind of value script: x\r\n", -EEXIST},
        {"-ERR Unknown Redis command called from script script: x\r\n", -EOPNOTSUPP},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", -ENOSPC},
        {"-MOVED 866 127.0.0.1:7002\r\n", -EOPNOTSUPP},
        {"-CLUSTERDOWN Hash slot not served\r\n", -EOPNOTSUPP},
        {"-ERR Script attempted to access a non local key in a cluster node\r\n", -EOPNOTSUPP},
        {"-ERR unknown command 'EVALSHA', with args beginning with:\r\n", -EOPNOTSUPP},
        {"!8\r\nERR what\r\n", -EREMOTEIO},
        {"-\r\n", -EREMOTEIO},
        {"-NOSCRIPTS\r\n", -EREMOTEIO},
    };
    struct cluster_reply reply;
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        assert_int_equal(read_text(CLUSTER_LIST, 0, errors[i].text, &reply), errors[i].error);
}

static int read_push(const char *text, struct cluster_event *event) {
    struct cluster_script *script = NULL;
    struct message message;
    assert_int_equal(cluster_script_new("P", &script), 0);
    int error = cluster_script_read_push(script, open_message(&message, text, strlen(text)), event);
    sluice_resp_free(message.resp);
    cluster_script_free(script);
    return error;
}

static void test_pushes(void **state) {
    struct cluster_event event;
    (void)state;
    const char *const none[] = {
        ">3\r\n$9\r\nsubscribe\r\n$8\r\nP:events\r\n:1\r\n",
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n",
        ">1\r\n*0\r\n",
        "$7\r\nmessage\r\n",
    };
    const char *const bad[] = {
        ">3\r\n$7\r\nmessage\r\n$8\r\nQ:events\r\n" LEAVE,
        ">2\r\n$7\r\nmessage\r\n$8\r\nP:events\r\n",
        ">4\r\n$7\r\nmessage\r\n$8\r\nP:events\r\n" LEAVE LEAVE,
        ">3\r\n$7\r\nmessage\r\n$8\r\nP:events\r\n:1\r\n",
        ">3\r\n$7\r\nmessage\r\n$8\r\nP:events\r\n$0\r\n\r\n",
        ">3\r\n$7\r\nmessage\r\n*1\r\n$8\r\nP:events\r\n" LEAVE,
    };
    assert_int_equal(read_push(">3\r\n$7\r\nmessage\r\n$8\r\nP:events\r\n" LEAVE, &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_LEAVE);
    assert_string_equal(event.location.node, "n1");
    assert_int_equal(read_push("*3\r\n$7\r\nmessage\r\n$8\r\nP:events\r\n" LEAVE, &event), 0);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(read_push(none[i], &event), -ENOMSG);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(read_push(bad[i], &event), -EPROTO);
}

static int parse(const char *text, struct cluster_event *event) {
    return cluster_event_parse(text, strlen(text), event);
}

static void test_events(void **state) {
    struct cluster_event event;
    (void)state;
    assert_int_equal(parse("claim live/a n1 " INCARNATION " 7 https [fd00::1]:443", &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_CLAIM);
    assert_string_equal(event.stream, "live/a");
    assert_string_equal(event.location.node, "n1");
    assert_string_equal(event.location.address, "[fd00::1]:443");
    assert_true(event.location.is_secure);
    assert_int_equal(event.location.epoch, 7);
    assert_int_equal(parse("release live/a n1 " INCARNATION " 7", &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_RELEASE);
    assert_int_equal(parse("ask live/a n1 " INCARNATION " 7", &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_ASK);
    assert_int_equal(parse("leave n1 " INCARNATION, &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_LEAVE);
    assert_int_equal(parse("kick live/a n1 " INCARNATION " 86400000 stream", &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_KICK);
    assert_true(event.is_whole);
    assert_int_equal(parse("kick live/a n1 " INCARNATION " 0 publisher", &event), 0);
    assert_false(event.is_whole);
    assert_int_equal(parse("unban live/a n1 " INCARNATION, &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_UNBAN);
    assert_int_equal(parse("ban live/a n1 " INCARNATION " 00000000000000000000ffff7f000001 60000", &event), 0);
    assert_int_equal(event.verb, CLUSTER_EVENT_BAN);
    assert_int_equal(event.ms, 60000);
    assert_int_equal(event.host.bytes[12], 127);
}

static void test_events_bad(void **state) {
    static const char *const bad[] = {
        "",
        " ",
        "claim",
        "nothing",
        "claim ",
        "leave",
        "leave n1",
        "leave n1 ",
        "leave  " INCARNATION,
        "leave n1 " INCARNATION " ",
        "leave n1 " INCARNATION " x",
        "leaves n1 " INCARNATION,
        "LEAVE n1 " INCARNATION,
        "leave n1 0006440000000ab",
        "leave n/1 " INCARNATION,
        "claim live/a n1 " INCARNATION " 7 https",
        "claim live/a n1 " INCARNATION " 7 gopher h:1",
        "claim live/a n1 " INCARNATION " 7 http h:1 more",
        "claim live//a n1 " INCARNATION " 7 http h:1",
        "claim ../a n1 " INCARNATION " 7 http h:1",
        "claim live/a n1 " INCARNATION " -7 http h:1",
        "claim live/a n1 " INCARNATION " 9007199254740992 http h:1",
        "release live/a n1 " INCARNATION,
        "release live/a n1 " INCARNATION " 7 8",
        "kick live/a n1 " INCARNATION " 86400001 stream",
        "kick live/a n1 " INCARNATION " 0",
        "kick live/a n1 " INCARNATION " 0 streams",
        "kick live/a n1 " INCARNATION " 0 stream x",
        "unban live/a n1 " INCARNATION " 0",
        "unban live/a n1",
        "ban live/a n1 " INCARNATION " 00000000000000000000ffff7f00000 60000",
        "ban live/a n1 " INCARNATION " 00000000000000000000ffff7f00000x 60000",
        "ban live/a n1 " INCARNATION " 00000000000000000000ffff7f000001",
        "ban live/a n1 " INCARNATION " 00000000000000000000ffff7f000001 0",
        "ban live/a n1 " INCARNATION " 00000000000000000000ffff7f000001 86400001",
    };
    struct cluster_event event;
    char text[CLUSTER_EVENT_TEXT + 1];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(bad[i], &event) != -EPROTO)
            fail_msg("believed: %s", bad[i]);
    assert_int_equal(cluster_event_parse("leave n1\0" INCARNATION, 25, &event), -EPROTO);
    memset(text, 'a', sizeof text);
    assert_int_equal(cluster_event_parse(text, sizeof text, &event), -EPROTO);
    /* The longest that is valid is far below the bound. */
    assert_true(sizeof "release " + STREAM_NAME + CLUSTER_NODE + CLUSTER_ADDRESS + 50 < CLUSTER_EVENT_TEXT);
}

/* Only what comes from this node's operators is formatted, and it is parsed again. */
static void test_format(void **state) {
    struct cluster_event event = {
        .verb = CLUSTER_EVENT_KICK, .stream = "a", .location = {.node = "n", .incarnation = 5}};
    struct cluster_event parsed;
    char text[CLUSTER_EVENT_TEXT];
    (void)state;
    assert_int_equal(cluster_event_format(&event, text), 0);
    assert_int_equal(parse(text, &parsed), 0);
    assert_memory_equal(&event, &parsed, sizeof event);
    event.ms = CLUSTER_BAN_MS + 1;
    assert_int_equal(cluster_event_format(&event, text), -EINVAL);
    event = (struct cluster_event){
        .verb = CLUSTER_EVENT_KICK, .stream = "a b", .location = {.node = "n", .incarnation = 5}};
    assert_int_equal(cluster_event_format(&event, text), -EINVAL);
    event = (struct cluster_event){
        .verb = CLUSTER_EVENT_CLAIM, .stream = "a", .location = {.node = "n", .incarnation = 5}};
    assert_int_equal(cluster_event_format(&event, text), -EINVAL);
}

/* As many bans as there may be, and none that is not valid. */
static void test_bans(void **state) {
    static const char *const bad[] = {
        "*0\r\n",
        "*1\r\n$1\r\na\r\n",
        "*2\r\n$1\r\n1\r\n$39\r\nlive/a 00000000000000000000ffff7f000001\r\n",
        "*3\r\n$1\r\n1\r\n$6\r\nlive/a\r\n$1\r\n1\r\n",
        "*3\r\n$1\r\n1\r\n$38\r\nlive/a00000000000000000000ffff7f000001\r\n$1\r\n1\r\n",
        "*3\r\n$1\r\n1\r\n$39\r\nlive// 00000000000000000000ffff7f000001\r\n$1\r\n1\r\n",
        "*3\r\n$1\r\n1\r\n$39\r\nlive/a 00000000000000000000ffff7f00000x\r\n$1\r\n1\r\n",
        "*3\r\n$1\r\n1\r\n$39\r\nlive/a 00000000000000000000ffff7f000001\r\n$1\r\n0\r\n",
        "*3\r\n$1\r\n1\r\n$39\r\nlive/a 00000000000000000000ffff7f000001\r\n$8\r\n86400001\r\n",
        "*3\r\n$1\r\n1\r\n$39\r\nlive/a 00000000000000000000ffff7f000001\r\n:1\r\n",
    };
    const char one[] = "$39\r\nlive/a 00000000000000000000ffff7f000001\r\n$8\r\n86400000\r\n";
    struct cluster_reply reply = {0};
    (void)state;
    for (size_t count = CLUSTER_BANS; count <= CLUSTER_BANS + 1; count++) {
        char *text = malloc(32 + count * sizeof one),
             *end = text + sprintf(text, "*%zu\r\n$2\r\n17\r\n", 1 + 2 * count);
        assert_non_null(text);
        for (size_t i = 0; i < count; i++)
            end = stpcpy(end, one);
        if (count > CLUSTER_BANS) {
            assert_bad(CLUSTER_LIST_BANS, 0, text);
        } else {
            assert_int_equal(read_text(CLUSTER_LIST_BANS, 0, text, &reply), 0);
            assert_int_equal(reply.ban_count, CLUSTER_BANS);
            assert_int_equal(reply.bans_since, 17);
            assert_string_equal(reply.bans[7].stream, "live/a");
            assert_int_equal(reply.bans[7].ms, CLUSTER_BAN_MS);
            assert_int_equal(reply.bans[7].host.bytes[12], 127);
            cluster_reply_clear(&reply);
        }
        free(text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_bad(CLUSTER_LIST_BANS, 0, bad[i]);
}

static void test_prefix(void **state) {
    static const char *const good[] = {"sluice", "a:b", "x", "A.b_c-9"};
    static const char *const bad[] = {"", "a b", "a*", "{a}", "a/b", "a\n"};
    struct cluster_script *script = NULL;
    char text[CLUSTER_PREFIX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(cluster_script_new(good[i], &script), 0);
        cluster_script_free(script);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(cluster_script_new(bad[i], &script), -EINVAL);
    memset(text, 'p', sizeof text);
    text[CLUSTER_PREFIX + 1] = '\0';
    assert_int_equal(cluster_script_new(text, &script), -EINVAL);
    text[CLUSTER_PREFIX] = '\0';
    assert_int_equal(cluster_script_new(text, &script), 0);
    cluster_script_free(script);
    cluster_script_free(NULL);
}

/* Nothing that is not loaded is called; the longest command has room. */
static void test_write(void **state) {
    struct cluster_script *script = NULL;
    struct cluster_item items[CLUSTER_BATCH + 1];
    struct message message;
    const sluice_resp_client_arg *args = NULL;
    char name[STREAM_NAME + 1];
    size_t count = 0;
    (void)state;
    memset(name, 'a', sizeof name);
    name[STREAM_NAME] = '\0';
    for (size_t i = 0; i <= CLUSTER_BATCH; i++)
        items[i] = (struct cluster_item){.stream = name,
                                         .take = CLUSTER_TAKE_ASSERT,
                                         .keep_ms = UINT64_MAX,
                                         .epoch = CLUSTER_EPOCH_MAX,
                                         .floor = CLUSTER_EPOCH_MAX,
                                         .dead_incarnation = UINT64_MAX,
                                         .dead_beat = UINT64_MAX};
    struct cluster_command command = {.verb = CLUSTER_TAKE,
                                      .node = "n1",
                                      .address = "h:1",
                                      .incarnation = UINT64_MAX,
                                      .items = items,
                                      .count = CLUSTER_BATCH};
    assert_int_equal(cluster_script_new("P", &script), 0);
    assert_int_equal(cluster_script_write(script, &command, &args, &count), -ENOEXEC);
    for (size_t i = 0; i < cluster_script_count(); i++) {
        const char sha[] = "$40\r\n0123456789012345678901234567890123456789\r\n";
        assert_int_equal(cluster_script_loaded(script, i, open_message(&message, sha, sizeof sha - 1)), 0);
        sluice_resp_free(message.resp);
    }
    for (enum cluster_verb verb = CLUSTER_RENEW; verb <= CLUSTER_LEAVE; verb++) {
        command.verb = verb;
        assert_int_equal(cluster_script_write(script, &command, &args, &count), 0);
        assert_true(count >= 6);
        assert_string_equal(args[0].data, "EVALSHA");
        assert_string_equal(args[3].data, "P");
        assert_string_equal(args[5].data, "ffffffffffffffff");
    }
    command.verb = CLUSTER_TAKE;
    assert_int_equal(cluster_script_write(script, &command, &args, &count), 0);
    assert_int_equal(count, 9 + 8 * CLUSTER_BATCH);
    assert_string_equal(args[count - 1].data, "0");
    assert_string_equal(args[count - 2].data, "18446744073709551615");
    command.count = CLUSTER_BATCH + 1;
    assert_int_equal(cluster_script_write(script, &command, &args, &count), -EINVAL);
    command.count = 0;
    assert_int_equal(cluster_script_write(script, &command, &args, &count), -EINVAL);
    cluster_script_free(script);
}

static void test_load_bad(void **state) {
    static const char *const bad[] = {"$39\r\n012345678901234567890123456789012345678\r\n",
                                      "$41\r\n01234567890123456789012345678901234567890\r\n",
                                      "$40\r\n01234567890123456789012345678901234567 9\r\n", ":1\r\n"};
    struct cluster_script *script = NULL;
    struct message message;
    (void)state;
    assert_int_equal(cluster_script_new("P", &script), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(cluster_script_loaded(script, 0, open_message(&message, bad[i], strlen(bad[i]))), -EPROTO);
        sluice_resp_free(message.resp);
    }
    assert_int_equal(cluster_script_loaded(script, 0, open_message(&message, "-NOAUTH x\r\n", 11)), -EACCES);
    sluice_resp_free(message.resp);
    cluster_script_free(script);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renew),     cmocka_unit_test(test_renew_bad),  cmocka_unit_test(test_items),
        cmocka_unit_test(test_items_bad), cmocka_unit_test(test_list),       cmocka_unit_test(test_list_bound),
        cmocka_unit_test(test_counts),    cmocka_unit_test(test_errors),     cmocka_unit_test(test_pushes),
        cmocka_unit_test(test_events),    cmocka_unit_test(test_events_bad), cmocka_unit_test(test_format),
        cmocka_unit_test(test_prefix),    cmocka_unit_test(test_write),      cmocka_unit_test(test_load_bad),
        cmocka_unit_test(test_bans),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
