#include "daemon/admin/admin_cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_reply.h"
#include "daemon/control/cluster_client.h"
#include "shared/clock.h"

enum { INCARNATION_TEXT = 17 };

static double seconds_since(uint64_t now, uint64_t since) {
    return now > since ? (double)(now - since) / 1000 : 0;
}

/* Not all of its digits fit in a number of JavaScript. */
static void put_incarnation(struct json *json, uint64_t incarnation) {
    char text[INCARNATION_TEXT] = "";
    if (incarnation)
        snprintf(text, sizeof text, "%016" PRIx64, incarnation);
    json_put_optional(json, "incarnation", text);
}

const struct cluster_client *admin_cluster_of(const struct cluster_client *client) {
    return client && cluster_client_node(client) ? client : NULL;
}

/* ---- This node and the others ---- */

static void add_self(const struct cluster_node *node, struct json *json) {
    bool is_secure;
    const char *address = cluster_node_address(node, &is_secure);
    json_open(json, "node", '{');
    json_put_string(json, "name", cluster_node_name(node));
    json_put_string(json, "state", cluster_node_state_name(cluster_node_get_state(node)));
    json_put_string(json, "address", address);
    json_put_bool(json, "secure", is_secure);
    put_incarnation(json, cluster_node_incarnation(node));
    json_close(json, '}');
}

static void add_engine(const struct cluster_engine_status *engine, uint64_t now, struct json *json) {
    const bool has_failed = engine->failed_at > 0;
    json_open(json, "engine", '{');
    json_put_bool(json, "available", engine->state == CLUSTER_ENGINE_READY);
    json_put_string(json, "state", cluster_engine_state_name(engine->state));
    json_put_real(json, "state_seconds", seconds_since(now, engine->since));
    json_put_optional(json, "address", engine->place);
    json_put_optional(json, "server", engine->server.server);
    json_put_optional(json, "version", engine->server.version);
    json_put_unsigned(json, "connections", engine->connections);
    json_put_unsigned(json, "failures", engine->failures);
    json_put_optional(json, "last_error", has_failed ? engine->reason : NULL);
    json_put_real_if(json, "last_error_seconds", has_failed, seconds_since(now, engine->failed_at));
    json_put_unsigned(json, "commands_waiting", engine->waiting);
    json_put_unsigned(json, "events_invalid", engine->invalid);
    json_close(json, '}');
}

struct peers {
    const struct cluster_node *node;
    uint64_t now;
    struct json *json;
};

/* Not one of the same name that has replaced this node, nor what was this node before a restart. */
static bool is_self(const struct cluster_node *node, const struct cluster_peer *peer) {
    const uint64_t incarnation = cluster_node_incarnation(node);
    return incarnation && peer->incarnation == incarnation && strcmp(peer->name, cluster_node_name(node)) == 0;
}

static void add_peer(const struct cluster_peer *peer, void *user) {
    const struct peers *peers = user;
    struct json *json = peers->json;
    json_open(json, NULL, '{');
    json_put_string(json, "name", peer->name);
    json_put_bool(json, "self", is_self(peers->node, peer));
    json_put_bool(json, "alive", cluster_node_is_alive(peers->node, peer->name, peers->now));
    json_put_optional(json, "address", peer->address);
    json_put_bool(json, "secure", peer->is_secure);
    put_incarnation(json, peer->incarnation);
    json_put_real(json, "beat_seconds", seconds_since(peers->now, peer->changed_at));
    json_put_unsigned(json, "streams", peer->load.streams);
    json_put_unsigned(json, "players", peer->load.players);
    json_put_unsigned(json, "bits_per_second", peer->load.bits_per_second);
    json_put_real(json, "cpu", (double)peer->load.cpu_permille / 1000);
    json_close(json, '}');
}

static void add_nodes(const struct cluster_node *node, uint64_t now, struct json *json) {
    struct peers peers = {node, now, json};
    json_open(json, "nodes", '[');
    cluster_node_each_peer(node, add_peer, &peers);
    json_close(json, ']');
}

/* ---- Counts ---- */

static void add_stream_counts(const struct cluster_node *node, struct json *json) {
    const struct cluster_stream_counts counts = cluster_view_count(node);
    json_open(json, "streams", '{');
    json_put_unsigned(json, "own", counts.own);
    json_put_unsigned(json, "remote", counts.remote);
    json_close(json, '}');
}

static void add_pull_counts(const struct admin_view *view, struct json *json) {
    struct snapshot_edge_counts sum = {0};
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t phase = 0; snapshot && phase < EDGE_PHASES; phase++)
            sum.of[phase] += snapshot->edge_counts.of[phase];
        sum.failing += snapshot ? snapshot->edge_counts.failing : 0;
    }
    json_open(json, "pulls", '{');
    for (size_t phase = 0; phase < EDGE_PHASES; phase++)
        json_put_unsigned(json, edge_phase_name((enum edge_phase)phase), sum.of[phase]);
    json_put_unsigned(json, "failing", sum.failing);
    json_put_unsigned(json, "failures", cluster_client_pull_failures(view->cluster));
    json_close(json, '}');
}

static void add_question_counts(const struct cluster_counts *counts, struct json *json) {
    json_open(json, "claims", '{');
    for (size_t i = 0; i < CLUSTER_CLAIM_RESULTS; i++)
        json_put_unsigned(json, cluster_claim_result_name((enum cluster_claim_result)i), counts->claims[i]);
    json_put_unsigned(json, "lost", counts->claims_lost);
    json_close(json, '}');
    json_open(json, "lookups", '{');
    for (size_t i = 0; i < CLUSTER_LOOKUP_RESULTS; i++)
        json_put_unsigned(json, cluster_lookup_result_name((enum cluster_lookup_result)i), counts->lookups[i]);
    json_close(json, '}');
}

/* ---- Documents ---- */

void admin_cluster(const struct admin_view *view, struct json *json) {
    static const char *const members[] = {"node", "engine", "nodes", "streams", "pulls", "claims", "lookups"};
    const struct cluster_node *node = view->cluster ? cluster_client_node(view->cluster) : NULL;
    const uint64_t now = clock_ms();
    struct cluster_engine_status engine;
    json_put_bool(json, "enabled", node);
    for (size_t i = 0; !node && i < sizeof members / sizeof *members; i++)
        json_put_null(json, members[i]);
    if (!node)
        return;
    cluster_client_engine(view->cluster, &engine);
    add_self(node, json);
    add_engine(&engine, now, json);
    add_nodes(node, now, json);
    add_stream_counts(node, json);
    add_pull_counts(view, json);
    add_question_counts(cluster_client_counts(view->cluster), json);
}

bool admin_cluster_is_degraded(const struct admin_view *view) {
    struct cluster_engine_status engine;
    if (!view->cluster)
        return false;
    cluster_client_engine(view->cluster, &engine);
    return engine.state != CLUSTER_ENGINE_READY ||
           cluster_node_get_state(cluster_client_node(view->cluster)) != CLUSTER_NODE_ONLINE;
}

void admin_cluster_summary(const struct admin_view *view, struct json *json) {
    const uint64_t now = clock_ms();
    struct cluster_engine_status engine;
    if (!view->cluster) {
        json_put_null(json, "cluster");
        return;
    }
    const struct cluster_node *node = cluster_client_node(view->cluster);
    const struct cluster_node_counts nodes = cluster_view_count_nodes(node, now);
    cluster_client_engine(view->cluster, &engine);
    json_open(json, "cluster", '{');
    json_put_string(json, "node", cluster_node_name(node));
    json_put_string(json, "state", cluster_node_state_name(cluster_node_get_state(node)));
    json_put_bool(json, "engine_available", engine.state == CLUSTER_ENGINE_READY);
    json_put_real(json, "engine_state_seconds", seconds_since(now, engine.since));
    json_put_unsigned(json, "nodes_alive", nodes.alive);
    json_put_unsigned(json, "nodes_dead", nodes.dead);
    json_close(json, '}');
}

static void add_pull(const struct snapshot_edge *edge, struct json *json) {
    const bool has_target = *edge->node != '\0';
    json_open(json, NULL, '{');
    json_put_string(json, "stream", edge->stream);
    json_put_string(json, "state", edge_phase_name(edge->phase));
    json_put_optional(json, "node", edge->node);
    json_put_optional(json, "address", edge->address);
    json_put_optional(json, "from", !has_target ? NULL : edge->mode == CLUSTER_FROM_PARENT ? "parent" : "origin");
    json_put_unsigned(json, "epoch", edge->epoch);
    json_put_unsigned(json, "failures", edge->failures);
    json_put_optional(json, "reason", edge->reason);
    json_close(json, '}');
}

/* Those that fail, or those that do not, as long as there is room. */
static void add_pulls(const struct admin_view *view, bool failing, uint32_t *room, struct json *json) {
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t i = 0; snapshot && i<snapshot->edge_count && * room> 0; i++) {
            if ((snapshot->edges[i].failures > 0) != failing)
                continue;
            add_pull(&snapshot->edges[i], json);
            --*room;
        }
    }
}

void admin_cluster_pulls(const struct admin_view *view, struct json *json) {
    uint32_t room = view->most_outgoing;
    uint64_t total = 0;
    json_open(json, "pulls", '[');
    add_pulls(view, true, &room, json);
    add_pulls(view, false, &room, json);
    json_close(json, ']');
    for (size_t at = 0; at < view->snapshots.count; at++)
        for (size_t phase = 0; view->snapshots.list[at] && phase < EDGE_PHASES; phase++)
            total += view->snapshots.list[at]->edge_counts.of[phase];
    json_put_unsigned(json, "total", total);
}

/* ---- Where streams are ---- */

static void add_stream(const struct cluster_stream_view *stream, struct json *json) {
    json_open(json, NULL, '{');
    json_put_string(json, "name", stream->name);
    json_put_string(json, "node", stream->location.node);
    json_put_string(json, "address", stream->location.address);
    json_put_bool(json, "secure", stream->location.is_secure);
    put_incarnation(json, stream->location.incarnation);
    json_put_unsigned(json, "epoch", stream->location.epoch);
    json_put_bool(json, "own", stream->is_own);
    json_put_bool(json, "confirmed", stream->is_confirmed);
    json_put_real(json, "age_seconds", (double)stream->age_ms / 1000);
    json_close(json, '}');
}

static int write_page(const struct cluster_client *client, const struct cluster_stream_page *page, struct json *json) {
    struct cluster_stream_view *list = calloc(page->limit, sizeof *list);
    size_t count = 0, matching = 0;
    if (!list)
        return -ENOMEM;
    int error = client ? cluster_view_page(cluster_client_node(client), page, clock_ms(), list, &count, &matching) : 0;
    json_open(json, NULL, '{');
    json_open(json, "streams", '[');
    for (size_t i = 0; !error && i < count; i++)
        add_stream(&list[i], json);
    json_close(json, ']');
    json_put_unsigned(json, "matching", matching);
    json_close(json, '}');
    free(list);
    return error;
}

void admin_cluster_streams(const struct cluster_client *client, const struct cluster_stream_page *page,
                           struct exchange *exchange) {
    struct json json = {0};
    json.failed |= write_page(client, page, &json) < 0;
    admin_reply_document(exchange, &json);
}

/* A question of where a stream is. */
struct look {
    struct cluster_job job;
    const struct cluster_client *client;
    struct exchange *exchange;
};

static void answer_found(const struct look *look) {
    struct cluster_stream_view view;
    struct json json = {0};
    if (!cluster_view_find(cluster_client_node(look->client), look->job.stream, clock_ms(), &view)) {
        admin_reply_problem(look->exchange, 404, "no node has the stream");
        return;
    }
    add_stream(&view, &json);
    admin_reply_document(look->exchange, &json);
}

static void on_looked(struct cluster_job *job) {
    struct look *look = job->user;
    if (!job->error)
        answer_found(look);
    else
        admin_reply_problem(look->exchange, 503,
                            job->error == -EHOSTDOWN ? "the engine is unavailable, and nothing is known of the stream"
                                                     : "the server stops");
    free(look);
}

void admin_cluster_stream(struct cluster_client *client, const char *name, struct exchange *exchange) {
    struct look *look = admin_cluster_of(client) ? calloc(1, sizeof *look) : NULL;
    if (!look) {
        admin_reply_problem(exchange, admin_cluster_of(client) ? 503 : 404,
                            admin_cluster_of(client) ? "out of memory" : "this node is in no cluster");
        return;
    }
    look->client = client;
    look->exchange = exchange;
    look->job = (struct cluster_job){.question = CLUSTER_LOOK, .done = on_looked, .user = look};
    snprintf(look->job.stream, sizeof look->job.stream, "%s", name);
    cluster_client_ask(client, &look->job);
}
