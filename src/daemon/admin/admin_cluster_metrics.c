/* The cluster in /metrics: nothing without one. */
#include <inttypes.h>

#include "daemon/admin/admin_cluster.h"
#include "daemon/admin/metric_text.h"
#include "daemon/control/cluster_client.h"
#include "shared/clock.h"

static void write_engine(FILE *out, const struct cluster_engine_status *engine) {
    metric_gauge(out, "sluice_cluster_engine_up", "Whether the engine can be asked.",
                 engine->state == CLUSTER_ENGINE_READY);
    metric_counter(out, "sluice_cluster_engine_connections_total",
                   "Connections to the engine that were made; all but the first are reconnects.", engine->connections);
    metric_counter(out, "sluice_cluster_engine_failures_total",
                   "Connections to the engine, and attempts to make one, that have failed.", engine->failures);
    metric_gauge(out, "sluice_cluster_commands_waiting", "Commands to the engine without a reply yet.",
                 engine->waiting);
    metric_counter(out, "sluice_cluster_events_invalid_total", "Events of the engine that were dropped.",
                   engine->invalid);
    metric_head(out, "sluice_cluster_commands_total", "counter", "Commands to the engine, by what has come of them.");
    for (size_t verb = 0; verb < CLUSTER_VERBS; verb++)
        for (size_t result = 0; result < CLUSTER_COMMAND_RESULTS; result++)
            fprintf(out, "sluice_cluster_commands_total{command=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                    cluster_verb_name((enum cluster_verb)verb),
                    cluster_command_result_name((enum cluster_command_result)result), engine->commands[verb][result]);
    metric_latency(out, "sluice_cluster_command_seconds", "From a command to the engine until its reply.",
                   &engine->latency);
}

static void write_questions(FILE *out, const struct cluster_counts *counts) {
    metric_head(out, "sluice_cluster_claims_total", "counter",
                "Publishers that asked for a stream: granted, or refused by the given reason.");
    for (size_t i = 0; i < CLUSTER_CLAIM_RESULTS; i++)
        fprintf(out, "sluice_cluster_claims_total{result=\"%s\"} %" PRIu64 "\n",
                cluster_claim_result_name((enum cluster_claim_result)i), counts->claims[i]);
    metric_counter(out, "sluice_cluster_claims_lost_total", "Streams of this node that another node has taken.",
                   counts->claims_lost);
    metric_head(out, "sluice_cluster_lookups_total", "counter",
                "Questions where a stream is, by their answer; also those that needed no command.");
    for (size_t i = 0; i < CLUSTER_LOOKUP_RESULTS; i++)
        fprintf(out, "sluice_cluster_lookups_total{result=\"%s\"} %" PRIu64 "\n",
                cluster_lookup_result_name((enum cluster_lookup_result)i), counts->lookups[i]);
    metric_latency(out, "sluice_cluster_lookup_seconds", "From such a question until its answer.", &counts->lookup);
}

static void write_node(FILE *out, const struct cluster_node *node) {
    const struct cluster_node_counts nodes = cluster_view_count_nodes(node, clock_ms());
    const struct cluster_stream_counts streams = cluster_view_count(node);
    metric_head(out, "sluice_cluster_info", "gauge", "Always 1; the node's name is in the label.");
    fprintf(out, "sluice_cluster_info{node=\"%s\"} 1\n", cluster_node_name(node));
    metric_head(out, "sluice_cluster_state", "gauge", "Whether this node is in the state.");
    for (size_t state = 0; state < CLUSTER_NODE_STATES; state++)
        fprintf(out, "sluice_cluster_state{state=\"%s\"} %d\n", cluster_node_state_name((enum cluster_node_state)state),
                cluster_node_get_state(node) == state);
    metric_head(out, "sluice_cluster_nodes", "gauge",
                "Nodes of the cluster; those are dead that have a lease, and no beat.");
    fprintf(out, "sluice_cluster_nodes{state=\"alive\"} %zu\nsluice_cluster_nodes{state=\"dead\"} %zu\n", nodes.alive,
            nodes.dead);
    metric_head(out, "sluice_cluster_streams", "gauge",
                "Streams of which this node knows where they are: its own, and those of other nodes.");
    fprintf(out, "sluice_cluster_streams{place=\"own\"} %zu\nsluice_cluster_streams{place=\"remote\"} %zu\n",
            streams.own, streams.remote);
}

static void write_pulls(FILE *out, const struct admin_view *view) {
    struct snapshot_edge_counts sum = {0};
    uint64_t superseded = 0;
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        for (size_t phase = 0; snapshot && phase < EDGE_PHASES; phase++)
            sum.of[phase] += snapshot->edge_counts.of[phase];
        sum.failing += snapshot ? snapshot->edge_counts.failing : 0;
        superseded += view->totals[at].superseded;
    }
    metric_head(out, "sluice_cluster_pulls", "gauge", "Streams that are, or would be, pulled from other nodes.");
    for (size_t phase = 0; phase < EDGE_PHASES; phase++)
        fprintf(out, "sluice_cluster_pulls{state=\"%s\"} %" PRIu64 "\n", edge_phase_name((enum edge_phase)phase),
                sum.of[phase]);
    metric_gauge(out, "sluice_cluster_pulls_failing", "Of these, those that have failed since they last played.",
                 (double)sum.failing);
    metric_counter(out, "sluice_cluster_pull_failures_total", "Pulls from other nodes that have failed.",
                   cluster_client_pull_failures(view->cluster));
    metric_counter(out, "sluice_cluster_publishers_superseded_total",
                   "Publishers of this node that were ended since another node has their stream.", superseded);
}

void admin_cluster_metrics(FILE *out, const struct admin_view *view) {
    struct cluster_engine_status engine;
    if (!view->cluster)
        return;
    cluster_client_engine(view->cluster, &engine);
    write_node(out, cluster_client_node(view->cluster));
    write_engine(out, &engine);
    write_questions(out, cluster_client_counts(view->cluster));
    write_pulls(out, view);
}
