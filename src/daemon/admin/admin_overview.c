/* What the console shows first: sums, a page of the streams, some players; and the load of the last
 * hour. */
#include <stdlib.h>

#include <sluice/version.h>

#include "daemon/admin/admin_api.h"
#include "daemon/admin/admin_cluster.h"
#include "daemon/control/history.h"

static void add_counts(const struct admin_view *view, struct json *json) {
    struct snapshot_sums sums = {0};
    uint64_t bytes_sent = 0, answering = 0;
    for (size_t at = 0; at < view->snapshots.count; at++) {
        const struct snapshot *snapshot = view->snapshots.list[at];
        bytes_sent += view->totals[at].bytes_sent;
        if (!snapshot)
            continue;
        sums.live += snapshot->sums.live;
        sums.waiting += snapshot->sums.waiting;
        sums.players += snapshot->sums.players;
        sums.slow += snapshot->sums.slow;
        sums.bits_per_second += snapshot->sums.bits_per_second;
        answering++;
    }
    json_open(json, "counts", '{');
    json_put_unsigned(json, "live", sums.live);
    json_put_unsigned(json, "waiting", sums.waiting);
    json_put_unsigned(json, "players", sums.players);
    json_put_unsigned(json, "slow_players", sums.slow);
    json_put_unsigned(json, "bits_per_second", sums.bits_per_second);
    json_put_unsigned(json, "bytes_sent", bytes_sent);
    json_put_unsigned(json, "workers", view->snapshots.count);
    json_put_unsigned(json, "workers_answering", answering);
    json_close(json, '}');
}

void admin_overview(const struct admin_view *view, struct json *json) {
    json_put_string(json, "version", SLUICE_VERSION);
    json_put_real(json, "uptime_seconds", admin_uptime(view));
    add_counts(view, json);
    admin_cluster_summary(view, json);
    admin_pool(view, json);
    admin_streams(view, json);
    admin_players(view, json);
}

static void put_rate(const struct history_sample *sample, double rate, struct json *json) {
    if (sample->is_whole)
        json_put_real(json, NULL, (double)(uint64_t)rate);
    else
        json_put_null(json, NULL);
}

static void put_count(const struct history_sample *sample, uint64_t count, struct json *json) {
    if (sample->is_whole)
        json_put_unsigned(json, NULL, count);
    else
        json_put_null(json, NULL);
}

static void add_cpu(const struct history *history, struct json *json) {
    json_open(json, "cpu", '[');
    for (size_t worker = 0; worker < history_workers(history); worker++) {
        json_open(json, NULL, '[');
        for (size_t i = 0; i < history_count(history); i++) {
            double cpu = history_cpu(history, i, worker);
            if (cpu < 0)
                json_put_null(json, NULL);
            else
                json_put_real(json, NULL, cpu);
        }
        json_close(json, ']');
    }
    json_close(json, ']');
}

void admin_history(const struct history *history, struct json *json) {
    const size_t count = history_count(history);
    json_open(json, NULL, '{');
    json_put_unsigned(json, "interval_seconds", HISTORY_SECONDS);
    json_put_unsigned(json, "samples_max", HISTORY_SAMPLES);
    json_open(json, "received_bits_per_second", '[');
    for (size_t i = 0; i < count; i++)
        put_rate(history_at(history, i), history_at(history, i)->received_bits_per_second, json);
    json_close(json, ']');
    json_open(json, "sent_bits_per_second", '[');
    for (size_t i = 0; i < count; i++)
        put_rate(history_at(history, i), history_at(history, i)->sent_bits_per_second, json);
    json_close(json, ']');
    json_open(json, "frames_dropped", '[');
    for (size_t i = 0; i < count; i++)
        put_count(history_at(history, i), history_at(history, i)->dropped, json);
    json_close(json, ']');
    json_open(json, "frames_lost", '[');
    for (size_t i = 0; i < count; i++)
        put_count(history_at(history, i), history_at(history, i)->lost, json);
    json_close(json, ']');
    add_cpu(history, json);
    json_close(json, '}');
}
