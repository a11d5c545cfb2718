/*
 * What a node shows to operators of the streams that it knows: its own, and those of which it knows
 * where they are. Nothing is asked, and nothing changes.
 */
#ifndef SLUICED_CLUSTER_VIEW_H
#define SLUICED_CLUSTER_VIEW_H

#include "daemon/cluster/cluster_node.h"

struct cluster_stream_view {
    const char *name; /* the node's, until it is called again */
    struct cluster_location location;
    bool is_own;
    bool is_confirmed; /* by the engine, or an event, on the connection that there is */
    uint64_t age_ms;   /* since then */
};

struct cluster_stream_counts {
    size_t own, remote;
};

/* A part of the streams by name. */
struct cluster_stream_page {
    char search[STREAM_NAME + 1]; /* that the name contains, whatever the case; empty: all */
    char node[CLUSTER_NODE + 1];  /* that has them; empty: any */
    uint32_t offset, limit;       /* @limit: at least 1 */
};

/* @now: as of cluster_node_tick(). False: it is not known where it is. */
bool cluster_view_find(const struct cluster_node *node, const char *stream, uint64_t now,
                       struct cluster_stream_view *ret_view);

/*
 * @list: room for the page's limit. @ret_matching: how many there are of which the page is one. 0,
 * -ENOMEM
 */
int cluster_view_page(const struct cluster_node *node, const struct cluster_stream_page *page, uint64_t now,
                      struct cluster_stream_view *list, size_t *ret_count, size_t *ret_matching);

struct cluster_stream_counts cluster_view_count(const struct cluster_node *node);

/* Of nodes: that are alive, and that have a lease or streams, and are not. */
struct cluster_node_counts {
    size_t alive, dead;
};

struct cluster_node_counts cluster_view_count_nodes(const struct cluster_node *node, uint64_t now);

#endif
