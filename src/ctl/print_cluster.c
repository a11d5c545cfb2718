#include "ctl/print_cluster.h"

#include "ctl/print.h"

static int by_load(const void *a, const void *b) {
    const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
    const double cpu = ctl_number(other, "cpu") - ctl_number(one, "cpu");
    const double rate = ctl_number(other, "bits_per_second") - ctl_number(one, "bits_per_second");
    return cpu > 0 ? 1 : cpu < 0 ? -1 : rate > 0 ? 1 : rate < 0 ? -1 : 0;
}

json_t *ctl_by_load(const json_t *nodes) {
    return ctl_sorted(nodes, by_load);
}

static void print_engine(FILE *out, const json_t *engine) {
    char since[CTL_WORDS];
    const bool is_available = json_is_true(ctl_member(engine, "available"));
    ctl_duration(ctl_number(engine, "state_seconds"), since);
    fprintf(out, "engine    %s for %s, %s %s at %s\n", is_available ? "available" : "UNAVAILABLE", since,
            ctl_text(engine, "server"), ctl_text(engine, "version"), ctl_text(engine, "address"));
    if (!json_is_string(ctl_member(engine, "last_error")))
        return;
    ctl_duration(ctl_number(engine, "last_error_seconds"), since);
    fprintf(out, "          last error, %s ago: %s\n", since, ctl_text(engine, "last_error"));
}

static void print_nodes(FILE *out, const json_t *nodes, size_t most) {
    const json_t *node;
    size_t index;
    fprintf(out, "%-28s %-6s %5s %14s %8s %8s %8s  %s\n", "NODE", "STATE", "CPU", "IN", "STREAMS", "PLAYERS", "BEAT",
            "ADDRESS");
    json_array_foreach(nodes, index, node) {
        char rate[CTL_WORDS];
        if (most > 0 && index == most)
            break;
        ctl_bits(ctl_number(node, "bits_per_second"), rate);
        fprintf(out, "%-28s %-6s %4.0f%% %14s %8.0f %8.0f %6.1f s  %s%s\n", ctl_text(node, "name"),
                json_is_true(ctl_member(node, "alive")) ? "alive" : "dead", ctl_number(node, "cpu") * 100, rate,
                ctl_number(node, "streams"), ctl_number(node, "players"), ctl_number(node, "beat_seconds"),
                ctl_text(node, "address"), json_is_true(ctl_member(node, "self")) ? " (this node)" : "");
    }
}

void ctl_print_cluster(FILE *out, const json_t *cluster, const json_t *nodes, size_t most) {
    const json_t *self = ctl_member(cluster, "node"), *streams = ctl_member(cluster, "streams");
    const json_t *pulls = ctl_member(cluster, "pulls");
    fprintf(out, "node      %s, %s, at %s\n", ctl_text(self, "name"), ctl_text(self, "state"),
            ctl_text(self, "address"));
    print_engine(out, ctl_member(cluster, "engine"));
    fprintf(out, "streams   %.0f here, %.0f known elsewhere\n", ctl_number(streams, "own"),
            ctl_number(streams, "remote"));
    fprintf(out, "pulls     %.0f playing, %.0f waiting, %.0f failing, %.0f failures since the start\n\n",
            ctl_number(pulls, "playing"), ctl_number(pulls, "waiting"), ctl_number(pulls, "failing"),
            ctl_number(pulls, "failures"));
    print_nodes(out, nodes, most);
}

void ctl_print_locations(FILE *out, const json_t *streams) {
    const json_t *stream;
    size_t index;
    fprintf(out, "%-28s %-20s %-10s %18s %10s  %s\n", "STREAM", "NODE", "CONFIRMED", "EPOCH", "AGE", "ADDRESS");
    json_array_foreach(streams, index, stream) {
        char age[CTL_WORDS];
        ctl_duration(ctl_number(stream, "age_seconds"), age);
        fprintf(out, "%-28s %-20s %-10s %18.0f %10s  %s%s\n", ctl_text(stream, "name"), ctl_text(stream, "node"),
                json_is_true(ctl_member(stream, "confirmed")) ? "yes" : "no", ctl_number(stream, "epoch"), age,
                ctl_text(stream, "address"), json_is_true(ctl_member(stream, "own")) ? " (this node)" : "");
    }
}

void ctl_print_cluster_pulls(FILE *out, const json_t *pulls) {
    const json_t *pull;
    size_t index;
    fprintf(out, "%-28s %-10s %-20s %-6s %8s %-24s  %s\n", "STREAM", "STATE", "NODE", "FROM", "FAILURES", "ADDRESS",
            "REASON");
    json_array_foreach(pulls, index, pull)
        fprintf(out, "%-28s %-10s %-20s %-6s %8.0f %-24s  %s\n", ctl_text(pull, "stream"), ctl_text(pull, "state"),
                ctl_text(pull, "node"), ctl_text(pull, "from"), ctl_number(pull, "failures"), ctl_text(pull, "address"),
                ctl_text(pull, "reason"));
}

void ctl_print_cluster_summary(FILE *out, const json_t *summary) {
    char since[CTL_WORDS];
    if (!json_is_object(summary))
        return;
    ctl_duration(ctl_number(summary, "engine_state_seconds"), since);
    fprintf(out, "cluster   node %s, %s, %.0f nodes alive, engine %s for %s\n", ctl_text(summary, "node"),
            ctl_text(summary, "state"), ctl_number(summary, "nodes_alive"),
            json_is_true(ctl_member(summary, "engine_available")) ? "available" : "UNAVAILABLE", since);
}
