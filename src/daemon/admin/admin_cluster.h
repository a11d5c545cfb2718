/* The cluster, as this node sees it: documents; and questions that the control plane answers, not
 * the workers. openapi.json describes them. */
#ifndef SLUICED_ADMIN_CLUSTER_H
#define SLUICED_ADMIN_CLUSTER_H

#include <stdbool.h>

#include "daemon/admin/admin_api.h"
#include "daemon/cluster/cluster_view.h"

struct cluster_client;
struct exchange;

/* @client: NULL: there is no cluster, or no more. What it shows is the view's. */
const struct cluster_client *admin_cluster_of(const struct cluster_client *client);

/* A part of the streams of which it is known where they are. Answers. */
void admin_cluster_streams(const struct cluster_client *client, const struct cluster_stream_page *page,
                           struct exchange *exchange);

/* Where one stream is; the engine is asked. Answers, perhaps later. */
void admin_cluster_stream(struct cluster_client *client, const char *name, struct exchange *exchange);

/* The member "cluster" of other documents: null, or what is most important. */
void admin_cluster_summary(const struct admin_view *view, struct json *json);

/* In /metrics; nothing without a cluster. */
void admin_cluster_metrics(FILE *out, const struct admin_view *view);

/* Whether this node is less than a whole one: without the engine, or replaced. */
bool admin_cluster_is_degraded(const struct admin_view *view);

#endif
