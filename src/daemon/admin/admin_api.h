/* The API's documents, as JSON, of what the workers have said. Knows no sockets. openapi.json
 * describes them. */
#ifndef SLUICED_ADMIN_API_H
#define SLUICED_ADMIN_API_H

#include <sluice/tls.h>

#include "daemon/config/options.h"
#include "daemon/control/snapshot.h"
#include "daemon/server/hook_event.h"
#include "daemon/server/server.h"
#include "shared/json.h"

struct cluster_client;
struct history;

/* What the documents are made of. */
struct admin_view {
    struct snapshots snapshots;
    /* of each worker, as it last gave them, whether it answers now or not */
    const struct stream_totals *totals;
    const struct server *server;    /* for what it counts itself */
    const struct stream_page *page; /* of streams; NULL: all */
    uint32_t most_players;          /* slow ones first; 0: all */
    uint32_t most_outgoing;         /* pulls, or forwards: those that fail first; 0: all */
    const struct options *options;
    const sluice_tls_context *tls;        /* of listeners; NULL: there is none */
    const sluice_tls_context *tls_kernel; /* reload_tls_kernel() */
    struct hook_event_counts notices[HOOK_KINDS];
    uint64_t notices_waiting;
    uint64_t log_lost; /* lines */
    /* NULL: there is none. It has a node */
    const struct cluster_client *cluster;
};

/* Writes the members of a document: "streams": [...] and so on. */
typedef void admin_document(const struct admin_view *view, struct json *json);

admin_document admin_streams, admin_players, admin_publishers, admin_recordings, admin_pulls, admin_forwards,
    admin_pool, admin_workers, admin_config, admin_certificates, admin_tls, admin_health, admin_version, admin_cluster,
    admin_cluster_pulls, admin_bans;

/* All that changes, as at one moment. */
admin_document admin_snapshot;

/* Sums, a page of the streams, some players. */
admin_document admin_overview;

/* The last hour. */
void admin_history(const struct history *history, struct json *json);

/* Seconds. */
double admin_uptime(const struct admin_view *view);

/* One stream with its players, and its last minute. False when there is no such. */
bool admin_stream(const struct admin_view *view, const char *name, struct json *json);

/* One publisher. False when there is no such. */
bool admin_publisher(const struct admin_view *view, uint64_t id, struct json *json);

/* One pull. False when there is no such. */
bool admin_pull(const struct admin_view *view, uint64_t id, struct json *json);

/* One player. False when there is no such. */
bool admin_player(const struct admin_view *view, uint64_t id, struct json *json);

#endif
