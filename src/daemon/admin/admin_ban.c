/* The document of the bans: those of all workers, the first to end first. */
#include <stdlib.h>
#include <string.h>

#include "daemon/admin/admin_api.h"

static int by_end(const void *a, const void *b) {
    const struct snapshot_ban *one = *(const struct snapshot_ban *const *)a;
    const struct snapshot_ban *other = *(const struct snapshot_ban *const *)b;
    if (one->left_ms != other->left_ms)
        return one->left_ms < other->left_ms ? -1 : 1;
    int order = strcmp(one->stream, other->stream);
    return order ? order : strcmp(one->host, other->host);
}

static void add_ban(const struct snapshot_ban *ban, struct json *json) {
    json_open(json, NULL, '{');
    json_put_string(json, "stream", ban->stream);
    json_put_string(json, "host", ban->host);
    json_put_string(json, "scope", ban->is_shared ? "cluster" : "node");
    json_put_string(json, "reason", "kicked");
    json_put_optional(json, "node", ban->node);
    json_put_real_if(json, "age_seconds", ban->has_age, (double)ban->age_ms / 1000);
    json_put_real(json, "ends_in_seconds", (double)ban->left_ms / 1000);
    json_close(json, '}');
}

void admin_bans(const struct admin_view *view, struct json *json) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < view->snapshots.count; i++)
        count += view->snapshots.list[i] ? view->snapshots.list[i]->ban_count : 0;
    const struct snapshot_ban **sorted = calloc(count ? count : 1, sizeof *sorted);
    if (!sorted) {
        json->failed = true;
        return;
    }
    for (size_t i = 0; i < view->snapshots.count; i++) {
        const struct snapshot *snapshot = view->snapshots.list[i];
        for (size_t k = 0; snapshot && k < snapshot->ban_count; k++)
            sorted[at++] = &snapshot->bans[k];
    }
    qsort(sorted, count, sizeof sorted[0], by_end);
    json_open(json, "bans", '[');
    for (size_t i = 0; i < count; i++)
        add_ban(sorted[i], json);
    json_close(json, ']');
    free(sorted);
}
