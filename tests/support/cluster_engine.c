#include "support/cluster_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster_node.h"

enum { STREAM_LIFE_MS = 60 * 60 * 1000, EPOCH_LIFE_MS = 24 * 60 * 60 * 1000, RANDOM_BITS = 12 };

void cluster_engine_set_time(struct cluster_engine *engine, uint64_t now_us) {
    engine->now_us = now_us;
    for (size_t i = 0; i < engine->node_count; i++)
        if (engine->nodes[i].ends_us <= now_us)
            engine->nodes[i].has_lease = false;
    for (size_t i = 0; i < engine->stream_count; i++)
        if (engine->streams[i].is_there && engine->streams[i].ends_us <= now_us)
            engine->streams[i] = (struct cluster_engine_stream){0};
    if (engine->bans_end_us <= now_us)
        engine->ban_count = 0;
}

static struct cluster_engine_node *node_of(struct cluster_engine *engine, const char *name) {
    for (size_t i = 0; i < engine->node_count; i++)
        if (strcmp(engine->nodes[i].lease.name, name) == 0)
            return &engine->nodes[i];
    if (engine->node_count == CLUSTER_ENGINE_NODES)
        abort();
    struct cluster_engine_node *node = &engine->nodes[engine->node_count++];
    *node = (struct cluster_engine_node){0};
    strcpy(node->lease.name, name);
    return node;
}

static struct cluster_engine_stream *stream_of(struct cluster_engine *engine, const char *name) {
    struct cluster_engine_stream *unused = NULL;
    for (size_t i = 0; i < engine->stream_count; i++) {
        struct cluster_engine_stream *stream = &engine->streams[i];
        if (stream->is_there && strcmp(stream->name, name) == 0)
            return stream;
        if (!stream->is_there)
            unused = stream;
    }
    if (!unused && engine->stream_count == CLUSTER_ENGINE_STREAMS)
        abort();
    if (!unused)
        unused = &engine->streams[engine->stream_count++];
    *unused = (struct cluster_engine_stream){0};
    strcpy(unused->name, name);
    return unused;
}

const struct cluster_engine_stream *cluster_engine_find(const struct cluster_engine *engine, const char *stream) {
    for (size_t i = 0; i < engine->stream_count; i++)
        if (engine->streams[i].is_there && strcmp(engine->streams[i].name, stream) == 0)
            return &engine->streams[i];
    return NULL;
}

/* NULL: it has none. */
static const struct cluster_node_reply *lease_of(const struct cluster_engine *engine, const char *name) {
    for (size_t i = 0; i < engine->node_count; i++)
        if (engine->nodes[i].has_lease && strcmp(engine->nodes[i].lease.name, name) == 0)
            return &engine->nodes[i].lease;
    return NULL;
}

bool cluster_engine_is_alive(const struct cluster_engine *engine, const char *node, uint64_t incarnation) {
    const struct cluster_node_reply *lease = lease_of(engine, node);
    return lease && lease->incarnation == incarnation;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static size_t count_names(const struct cluster_engine *engine) {
    size_t count = 0;
    for (size_t i = 0; i < engine->node_count; i++)
        count += engine->nodes[i].is_named;
    return count;
}

static void renew(struct cluster_engine *engine, const struct cluster_command *command, struct cluster_reply *reply) {
    struct cluster_engine_node *node = node_of(engine, command->node);
    uint64_t held = node->has_lease ? node->lease.incarnation : 0;
    uint64_t id = command->incarnation;
    reply->engine_us = engine->now_us;
    if (!id) {
        id = most(engine->now_us, held ? (held >> RANDOM_BITS) + 1 : 0) << RANDOM_BITS | (command->random & 0x3ff);
    } else if (held > id) {
        reply->lease = CLUSTER_LEASE_ANOTHER;
        reply->incarnation = held;
        reply->last_beat = node->lease.beat;
        return;
    }
    if (!held && !node->is_named && count_names(engine) >= CLUSTER_NODES_MAX) {
        reply->lease = CLUSTER_LEASE_FULL;
        return;
    }
    reply->incarnation = id;
    reply->last_beat = held == id ? node->lease.beat : 0;
    node->is_named = node->has_lease = true;
    if (held != id)
        engine->page_us = 0;
    node->ends_us = engine->now_us + (uint64_t)CLUSTER_LEASE_MS * 1000;
    strcpy(node->lease.address, command->address);
    node->lease.is_secure = command->is_secure;
    node->lease.incarnation = id;
    node->lease.beat = command->beat;
    node->lease.load = command->load;
}

static bool is_host(const struct cluster_engine_stream *stream, const struct cidr_address *host) {
    return stream->has_host && memcmp(stream->host.bytes, host->bytes, sizeof host->bytes) == 0;
}

/* The epoch with which the stream is granted; 0: it is not, as the reply says. */
static uint64_t judge(const struct cluster_engine *engine, const struct cluster_engine_stream *stream,
                      const struct cluster_command *command, const struct cluster_item *item,
                      struct cluster_item_reply *reply) {
    const struct cluster_location *at = &stream->location;
    const struct cluster_node_reply *lease = at->node[0] ? lease_of(engine, at->node) : NULL;
    bool asserts = item->take == CLUSTER_TAKE_ASSERT, has = at->node[0];
    bool is_alive = lease && lease->incarnation == at->incarnation &&
                    !(lease->incarnation == item->dead_incarnation && lease->beat == item->dead_beat);
    bool is_kept = stream->is_kept && !is_host(stream, &item->host) && engine->now_us >= stream->since_us &&
                   engine->now_us < stream->until_us;
    uint64_t fresh = most(most(most(at->epoch, item->epoch), item->floor) + 1, engine->now_us);
    if (has && strcmp(at->node, command->node) == 0 && at->incarnation == command->incarnation) {
        uint64_t epoch = most(at->epoch, item->epoch);
        return item->floor >= epoch ? fresh : epoch;
    }
    reply->location = *at;
    if (!has && is_kept && !asserts) {
        reply->result = CLUSTER_RESERVED;
        return 0;
    }
    if (!is_alive || item->take == CLUSTER_TAKE_OVER ||
        (item->take == CLUSTER_TAKE_FROM_HOST && is_host(stream, &item->host)) ||
        (asserts && (item->epoch > at->epoch || (item->epoch == at->epoch && command->incarnation > at->incarnation))))
        return asserts && item->epoch > at->epoch && item->epoch > item->floor ? item->epoch : fresh;
    reply->result = CLUSTER_HELD;
    reply->lease_incarnation = lease->incarnation;
    reply->lease_beat = lease->beat;
    return 0;
}

/* Not the address: an event that has none keeps the sender's name. */
static struct cluster_event event_of(enum cluster_event_verb verb, const char *stream,
                                     const struct cluster_location *location) {
    struct cluster_event event = {.verb = verb, .location = *location};
    strcpy(event.stream, stream);
    if (verb != CLUSTER_EVENT_CLAIM) {
        memset(event.location.address, 0, sizeof event.location.address);
        event.location.is_secure = false;
    }
    return event;
}

static void take_one(struct cluster_engine *engine, const struct cluster_command *command,
                     const struct cluster_item *item, struct cluster_item_reply *reply, cluster_engine_publish *publish,
                     void *user) {
    struct cluster_engine_stream *stream = stream_of(engine, item->stream);
    struct cluster_location *at = &stream->location, was = *at;
    uint64_t epoch = judge(engine, stream, command, item, reply);
    struct cluster_event event;
    if (!epoch) {
        event = event_of(CLUSTER_EVENT_ASK, item->stream, at);
        if (reply->result == CLUSTER_HELD && item->asks)
            publish(&event, user);
        return;
    }
    *at = (struct cluster_location){
        .is_secure = command->is_secure, .incarnation = command->incarnation, .epoch = epoch};
    strcpy(at->node, command->node);
    strcpy(at->address, command->address);
    reply->result = CLUSTER_GRANTED;
    reply->location = *at;
    reply->lease_incarnation = command->incarnation;
    if (strcmp(was.node, at->node) != 0 || was.incarnation != at->incarnation || was.epoch != epoch) {
        stream->host = item->host;
        stream->has_host = true;
        stream->is_kept = false;
        event = event_of(CLUSTER_EVENT_CLAIM, item->stream, at);
        publish(&event, user);
    }
    stream->is_there = true;
    stream->ends_us = engine->now_us + (uint64_t)STREAM_LIFE_MS * 1000;
}

static void take(struct cluster_engine *engine, const struct cluster_command *command, struct cluster_reply *reply,
                 cluster_engine_publish *publish, void *user) {
    const struct cluster_node_reply *lease = lease_of(engine, command->node);
    reply->incarnation = lease ? lease->incarnation : 0;
    if (reply->incarnation != command->incarnation) {
        reply->lease = reply->incarnation > command->incarnation ? CLUSTER_LEASE_ANOTHER : CLUSTER_LEASE_NONE;
        return;
    }
    reply->count = command->count;
    reply->items = calloc(command->count, sizeof *reply->items);
    for (size_t i = 0; i < command->count; i++)
        take_one(engine, command, &command->items[i], &reply->items[i], publish, user);
}

static void drop_one(struct cluster_engine *engine, const struct cluster_command *command,
                     const struct cluster_item *item, cluster_engine_publish *publish, void *user) {
    struct cluster_engine_stream *stream = stream_of(engine, item->stream);
    struct cluster_location *at = &stream->location, was = *at;
    uint64_t ends_us = engine->now_us + (uint64_t)EPOCH_LIFE_MS * 1000;
    bool is_ours = at->node[0] && strcmp(at->node, command->node) == 0 && at->incarnation == command->incarnation &&
                   at->epoch <= item->epoch;
    if (is_ours) {
        stream->has_host = stream->is_kept = item->keep_ms > 0;
        stream->host = item->host;
        stream->since_us = engine->now_us;
        stream->until_us = engine->now_us + item->keep_ms * 1000;
        was.epoch = item->epoch;
        struct cluster_event event = event_of(CLUSTER_EVENT_RELEASE, item->stream, &was);
        publish(&event, user);
    } else if (at->node[0] || at->epoch >= item->epoch) {
        return;
    }
    *at = (struct cluster_location){.epoch = item->epoch};
    stream->is_there = true;
    stream->ends_us = ends_us;
}

static void find(const struct cluster_engine *engine, const struct cluster_command *command,
                 struct cluster_reply *reply) {
    reply->count = command->count;
    reply->items = calloc(command->count, sizeof *reply->items);
    for (size_t i = 0; i < command->count; i++) {
        const struct cluster_engine_stream *stream = cluster_engine_find(engine, command->items[i].stream);
        struct cluster_item_reply *item = &reply->items[i];
        if (!stream)
            continue;
        item->location = stream->location;
        const struct cluster_node_reply *lease = stream->location.node[0] ? lease_of(engine, stream->location.node)
                                                                          : NULL;
        if (!lease)
            continue;
        item->lease_incarnation = lease->incarnation;
        item->lease_beat = lease->beat;
    }
}

static void make_page(struct cluster_engine *engine) {
    engine->page_us = engine->now_us;
    engine->page_count = 0;
    for (size_t i = 0; i < engine->node_count; i++) {
        if (engine->nodes[i].is_named && engine->nodes[i].has_lease)
            engine->page[engine->page_count++] = engine->nodes[i].lease;
        engine->nodes[i].is_named &= engine->nodes[i].has_lease;
    }
}

static void list(struct cluster_engine *engine, struct cluster_reply *reply) {
    if (!engine->page_us || engine->now_us < engine->page_us ||
        engine->now_us - engine->page_us >= UINT64_C(1000) * CLUSTER_PAGE_MS)
        make_page(engine);
    reply->nodes = calloc(CLUSTER_ENGINE_NODES, sizeof *reply->nodes);
    reply->node_count = engine->page_count;
    memcpy(reply->nodes, engine->page, engine->page_count * sizeof engine->page[0]);
}

static void leave(struct cluster_engine *engine, const struct cluster_command *command, cluster_engine_publish *publish,
                  void *user) {
    struct cluster_engine_node *node = node_of(engine, command->node);
    if (!node->has_lease || node->lease.incarnation != command->incarnation)
        return;
    node->has_lease = node->is_named = false;
    engine->page_us = 0;
    struct cluster_event event = {.verb = CLUSTER_EVENT_LEAVE, .location.incarnation = command->incarnation};
    strcpy(event.location.node, command->node);
    publish(&event, user);
}

static void remove_ban(struct cluster_engine *engine, size_t at) {
    engine->ban_count--;
    memmove(&engine->bans[at], &engine->bans[at + 1], (engine->ban_count - at) * sizeof engine->bans[0]);
}

/* As the engine sorts members whose ends are the same. */
static int compare_bans(const void *a, const void *b) {
    const struct cluster_engine_ban *one = a, *other = b;
    char texts[2][STREAM_NAME + 2];
    if (one->until_ms != other->until_ms)
        return one->until_ms < other->until_ms ? -1 : 1;
    snprintf(texts[0], sizeof texts[0], "%s ", one->ban.stream);
    snprintf(texts[1], sizeof texts[1], "%s ", other->ban.stream);
    int order = strcmp(texts[0], texts[1]);
    return order ? order : memcmp(&one->ban.host, &other->ban.host, sizeof one->ban.host);
}

static void ban(struct cluster_engine *engine, const struct cluster_command *command, cluster_engine_publish *publish,
                void *user) {
    const struct cluster_event *asked = command->event;
    const bool lifts = asked->verb == CLUSTER_EVENT_UNBAN;
    const uint64_t now_ms = engine->now_us / 1000;
    struct cluster_event event = {.verb = asked->verb, .location.incarnation = command->incarnation};
    for (size_t i = engine->ban_count; i-- > 0;) {
        const struct cluster_engine_ban *one = &engine->bans[i];
        bool is_same = strcmp(one->ban.stream, asked->stream) == 0 &&
                       (lifts || memcmp(&one->ban.host, &asked->host, sizeof asked->host) == 0);
        if (one->until_ms <= now_ms || is_same)
            remove_ban(engine, i);
    }
    strcpy(event.stream, asked->stream);
    strcpy(event.location.node, command->node);
    if (!lifts) {
        if (engine->ban_count == CLUSTER_BANS)
            remove_ban(engine, 0);
        struct cluster_engine_ban *added = &engine->bans[engine->ban_count++];
        *added = (struct cluster_engine_ban){.until_ms = now_ms + asked->ms};
        strcpy(added->ban.stream, asked->stream);
        added->ban.host = event.host = asked->host;
        event.ms = asked->ms;
        qsort(engine->bans, engine->ban_count, sizeof engine->bans[0], compare_bans);
        engine->bans_end_us = engine->now_us + CLUSTER_BAN_MS * 1000;
    }
    publish(&event, user);
}

static void list_bans(struct cluster_engine *engine, struct cluster_reply *reply) {
    const uint64_t now_ms = engine->now_us / 1000;
    if (!engine->bans_since)
        engine->bans_since = engine->now_us;
    reply->bans_since = engine->bans_since;
    reply->bans = calloc(CLUSTER_BANS, sizeof *reply->bans);
    for (size_t i = 0; i < engine->ban_count; i++) {
        const struct cluster_engine_ban *one = &engine->bans[i];
        if (one->until_ms <= now_ms)
            continue;
        struct cluster_ban *listed = &reply->bans[reply->ban_count++];
        *listed = one->ban;
        listed->ms = one->until_ms - now_ms < CLUSTER_BAN_MS ? one->until_ms - now_ms : CLUSTER_BAN_MS;
    }
}

void cluster_engine_run(struct cluster_engine *engine, const struct cluster_command *command,
                        struct cluster_reply *ret_reply, cluster_engine_publish *publish, void *user) {
    struct cluster_reply reply = {0};
    switch (command->verb) {
    case CLUSTER_RENEW:
        renew(engine, command, &reply);
        break;
    case CLUSTER_TAKE:
        take(engine, command, &reply, publish, user);
        break;
    case CLUSTER_DROP:
        for (size_t i = 0; i < command->count; i++)
            drop_one(engine, command, &command->items[i], publish, user);
        break;
    case CLUSTER_FIND:
        find(engine, command, &reply);
        break;
    case CLUSTER_LIST:
        list(engine, &reply);
        break;
    case CLUSTER_LEAVE:
        leave(engine, command, publish, user);
        break;
    case CLUSTER_NOTIFY:
        publish(command->event, user);
        break;
    case CLUSTER_BAN:
        ban(engine, command, publish, user);
        break;
    case CLUSTER_LIST_BANS:
        list_bans(engine, &reply);
        break;
    case CLUSTER_VERBS:
        break;
    }
    *ret_reply = reply;
}
