/*
 * What this process is in a cluster, made from the options: what workers know of it, and what
 * outlives the control plane.
 */
#ifndef SLUICED_CLUSTER_SETUP_H
#define SLUICED_CLUSTER_SETUP_H

#include "daemon/config/options.h"
#include "daemon/server/cluster_query.h"

struct server;

struct cluster_setup {
    const struct options *options; /* a reference: a reload does not change them */
    struct cluster_self self;
    char address[CLUSTER_ADDRESS + 1]; /* that other nodes pull from */
    bool is_secure;                    /* by https */
};

/* When the server listens. @ret_setup: NULL without a cluster. 0, -ENOMEM, -EADDRNOTAVAIL
 * (logged) */
int cluster_setup_new(const struct options *options, struct server *server, struct cluster_setup **ret_setup);

/* After the server. Forgets the secret. NULL is allowed. */
void cluster_setup_free(struct cluster_setup *setup);

#endif
