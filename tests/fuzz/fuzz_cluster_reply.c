/*
 * What a cluster's engine sends: the settings say which command it answers, with how many items, or
 * that it is an event or the answer to a script; the input is RESP. A reply is used as a whole or
 * not at all, and what is used is valid: names, addresses, numbers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/resp.h>

#include "daemon/cluster/cluster_script.h"
#include "fuzz/fuzz.h"

enum { EVENTS = CLUSTER_VERBS, SCRIPTS, KINDS };

struct engine {
    sluice_resp *resp;
    struct cluster_script *script;
    unsigned kind;
    size_t count;
};

static void check_location(fuzz_run *run, const struct cluster_location *location) {
    fuzz_show_bytes(run, "location", location, sizeof *location);
    FUZZ_CHECK(location->epoch <= CLUSTER_EPOCH_MAX);
    if (!location->node[0]) {
        FUZZ_CHECK(location->incarnation == 0 && !location->address[0]);
        return;
    }
    FUZZ_CHECK(cluster_node_name_is_valid(location->node, strlen(location->node)));
    FUZZ_CHECK(cluster_address_is_valid(location->address, strlen(location->address)));
    FUZZ_CHECK(location->incarnation != 0);
}

static void check_node(fuzz_run *run, const struct cluster_node_reply *node) {
    fuzz_show_bytes(run, "node", node->name, strlen(node->name));
    fuzz_show_bytes(run, "address", node->address, strlen(node->address));
    fuzz_show(run, "beat", (int64_t)node->beat);
    fuzz_show(run, "players", node->load.players);
    FUZZ_CHECK(cluster_node_name_is_valid(node->name, strlen(node->name)));
    FUZZ_CHECK(cluster_address_is_valid(node->address, strlen(node->address)));
    FUZZ_CHECK(node->incarnation != 0 && node->beat <= CLUSTER_EPOCH_MAX);
}

static void check_ban(fuzz_run *run, const struct cluster_ban *ban) {
    fuzz_show_bytes(run, "ban", ban->stream, strlen(ban->stream));
    fuzz_show(run, "ms", (int64_t)ban->ms);
    FUZZ_CHECK(stream_name_is_valid(ban->stream, strlen(ban->stream)));
    FUZZ_CHECK(ban->ms > 0 && ban->ms <= CLUSTER_BAN_MS);
}

static void check_reply(fuzz_run *run, const struct engine *engine, const struct cluster_reply *reply) {
    fuzz_show(run, "lease", reply->lease);
    fuzz_show(run, "incarnation", (int64_t)reply->incarnation);
    fuzz_show(run, "cursor", (int64_t)reply->cursor);
    FUZZ_CHECK(reply->error == 0);
    FUZZ_CHECK(reply->count == 0 || reply->count == engine->count);
    FUZZ_CHECK(reply->node_count <= CLUSTER_NODES_REPLY && reply->ban_count <= CLUSTER_BANS);
    for (size_t i = 0; i < reply->count; i++) {
        FUZZ_CHECK(reply->items[i].result <= CLUSTER_RESERVED);
        FUZZ_CHECK(reply->items[i].result != CLUSTER_HELD || reply->items[i].location.node[0]);
        check_location(run, &reply->items[i].location);
    }
    for (size_t i = 0; i < reply->node_count; i++)
        check_node(run, &reply->nodes[i]);
    for (size_t i = 0; i < reply->ban_count; i++)
        check_ban(run, &reply->bans[i]);
}

/* An event that this node could send is read again as what it is. */
static void check_event(fuzz_run *run, const struct cluster_event *event) {
    struct cluster_event again;
    char text[CLUSTER_EVENT_TEXT];
    fuzz_show(run, "event", event->verb);
    fuzz_show_bytes(run, "stream", event->stream, strlen(event->stream));
    FUZZ_CHECK(event->verb < CLUSTER_EVENTS && event->ms <= CLUSTER_BAN_MS);
    FUZZ_CHECK(event->verb == CLUSTER_EVENT_LEAVE || stream_name_is_valid(event->stream, strlen(event->stream)));
    FUZZ_CHECK(cluster_node_name_is_valid(event->location.node, strlen(event->location.node)));
    FUZZ_CHECK(event->location.epoch <= CLUSTER_EPOCH_MAX);
    if (event->verb != CLUSTER_EVENT_KICK)
        return;
    FUZZ_CHECK(cluster_event_format(event, text) == 0);
    FUZZ_CHECK(cluster_event_parse(text, strlen(text), &again) == 0);
    FUZZ_CHECK(again.ms == event->ms && again.is_whole == event->is_whole && strcmp(again.stream, event->stream) == 0);
}

static int read_one(const struct engine *engine, fuzz_run *run, const sluice_resp_reply *resp) {
    struct cluster_reply reply;
    struct cluster_event event;
    int result;
    if (engine->kind == SCRIPTS)
        return cluster_script_loaded(engine->script, engine->count % cluster_script_count(), resp);
    if (engine->kind == EVENTS) {
        result = cluster_script_read_push(engine->script, resp, &event);
        if (result == 0)
            check_event(run, &event);
        return result;
    }
    result = cluster_script_read((enum cluster_verb)engine->kind, engine->count, resp, &reply);
    if (result == 0) {
        check_reply(run, engine, &reply);
        cluster_reply_clear(&reply);
    }
    return result;
}

static int next(void *state, sluice_chain *chain, fuzz_run *run) {
    const struct engine *engine = state;
    sluice_resp_reply *resp;
    int result = sluice_resp_next(engine->resp, chain, &resp);
    if (result == 1)
        fuzz_show(run, "result", read_one(engine, run, resp));
    return result;
}

static size_t need(const void *state) {
    return sluice_resp_need(((const struct engine *)state)->resp);
}

void fuzz_target(fuzz_run *run) {
    static const fuzz_framer framer = {next, need};
    /* As of the engine's connection. */
    const sluice_resp_limits limits = {.size = sizeof limits,
                                       .bulk = CLUSTER_REPLY_SIZE,
                                       .reply = CLUSTER_REPLY_SIZE,
                                       .elements = CLUSTER_REPLY_ELEMENTS};
    struct engine engine = {.kind = run->settings[0] % KINDS, .count = run->settings[1] % (CLUSTER_BATCH + 2)};
    FUZZ_CHECK(sluice_resp_new(&limits, &engine.resp) == 0);
    FUZZ_CHECK(cluster_script_new("P", &engine.script) == 0);
    fuzz_drive(run, &framer, &engine);
    cluster_script_free(engine.script);
    sluice_resp_free(engine.resp);
}
