/*
 * This node's part in the cluster: gives the workers' questions to the node (cluster_node.h), its
 * commands to the engine, and what comes of both back to the workers. The control plane's thread,
 * except cluster_client_take().
 */
#ifndef SLUICED_CLUSTER_CLIENT_H
#define SLUICED_CLUSTER_CLIENT_H

#include "daemon/cluster/cluster_node.h"
#include "daemon/control/cluster_counts.h"
#include "daemon/control/cluster_engine.h"
#include "daemon/server/cluster_query.h"

struct cluster_client;
struct worker_query;
struct server;

enum {
    CLUSTER_CLIENT_TICK_MS = 125,
    CLUSTER_CLIENT_LOAD_MS = CLUSTER_RENEW_MS,
    CLUSTER_CLIENT_FINISH_MS = 1000, /* for the engine to hear of the end */
    /* That it remembers at least: a reload may raise the limit of the options, which bounds the
     * streams elsewhere. */
    CLUSTER_CLIENT_STREAMS = 100000,
};

/* What a client is given; all of it outlives it. */
struct cluster_client_setup {
    struct event_base *base;
    struct server *server;
    struct control_loop *loop;
    struct connector *connector;
    struct worker_query *worker_query;
    const struct options *options; /* stay as they are */
    struct cluster_self *self;     /* whose time the client keeps */
    const char *address;           /* that other nodes pull from, HOST:PORT */
    bool is_secure;                /* by https */
};

/* 0, -ENOMEM, -errno */
int cluster_client_new(const struct cluster_client_setup *setup, struct cluster_client **ret_client);

/* Connects. When other processes of this node have left. */
void cluster_client_start(struct cluster_client *client);

/*
 * This process leaves the cluster: its claims are released, and it claims nothing more. Its streams
 * go on here. Where another process of this node has taken over, or before the end.
 */
void cluster_client_leave(struct cluster_client *client);

/*
 * Other nodes that live are those to which clients are sent (refuge.h), those with the fewest
 * players first; again and again from now on. Whether there is one. If so, @none is called once
 * when there is none any more.
 */
bool cluster_client_seek_refuge(struct cluster_client *client, void (*none)(void *user), void *user);

/* Calls when the engine has heard that it has left, or after CLUSTER_CLIENT_FINISH_MS. */
void cluster_client_finish(struct cluster_client *client, void (*done)(void *user), void *user);

/* When no worker asks any more; questions that are under way come back. NULL is allowed. */
void cluster_client_close(struct cluster_client *client);

/* When connector and loop have been closed, too. NULL is allowed. */
void cluster_client_free(struct cluster_client *client);

/* A cluster_ask_fn. */
void cluster_client_take(void *client, struct cluster_job *job);

/*
 * A question of the control plane itself: CLUSTER_LOOK, with no loop. It is answered on this
 * thread, at the latest by cluster_client_close(). What is called then must not ask.
 */
void cluster_client_ask(struct cluster_client *client, struct cluster_job *job);

/* For what shows it. The node is NULL when it has been closed. */
const struct cluster_node *cluster_client_node(const struct cluster_client *client);
void cluster_client_engine(const struct cluster_client *client, struct cluster_engine_status *ret_status);
const struct cluster_counts *cluster_client_counts(const struct cluster_client *client);

/* Of all workers, ever. */
uint64_t cluster_client_pull_failures(const struct cluster_client *client);

#endif
