/*
 * Kicks and bans of other nodes: takes what the cluster reports to the workers. What waits there is
 * bounded.
 */
#ifndef SLUICED_CLUSTER_ACTIONS_H
#define SLUICED_CLUSTER_ACTIONS_H

#include <stdatomic.h>

#include "daemon/cluster/cluster_node.h"

struct server;

/* That wait for workers: more than come at once with a connection. */
enum { CLUSTER_ACTIONS_MOST = 4 * CLUSTER_BANS };

/* Outlives the run of the server's workers. */
struct cluster_actions {
    struct server *server;
    atomic_uint waiting;
};

/* CLUSTER_EVENT_KICK, CLUSTER_EVENT_BAN, CLUSTER_EVENT_UNBAN. 0, -ENOBUFS, -ENOMEM */
int cluster_actions_take(struct cluster_actions *actions, const struct cluster_event *event);

/* 0, -ENOBUFS, -ENOMEM: not all workers take it */
int cluster_actions_take_step(struct cluster_actions *actions, enum cluster_bans_step step);

#endif
