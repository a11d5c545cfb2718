/*
 * One connection to a server that may be the cluster's engine: connects, by TLS if that is asked
 * for, logs in, and finds out what is there. A Sentinel or a replica knows where the master is. It
 * is never made again. The control plane's thread.
 */
#ifndef SLUICED_CLUSTER_LINK_H
#define SLUICED_CLUSTER_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <sluice/resp_client.h>

#include "daemon/control/cluster_greeting.h"

struct cluster_link;
struct connector;
struct event_base;

enum {
    CLUSTER_LINK_MS = 2000,          /* for connecting, and for each command */
    CLUSTER_LINK_QUEUED = 4 << 20,   /* bytes of commands that the server has not read */
    CLUSTER_LINK_CONNECTING_MAX = 8, /* connections being made, those included that were given up */
    CLUSTER_LINK_REASON = 160,
};

/* What all of them share. */
struct cluster_links {
    struct event_base *base;
    struct connector *connector;
    sluice_loop *loop;
    const struct cluster_options *options; /* the login, names of the master and of the node */
    LIST_HEAD(, cluster_link) all;
    unsigned connecting;
};

/* Each may free the link. */
struct cluster_link_calls {
    /* A master, to which commands may be sent from now on. */
    void (*opened)(void *user, const struct cluster_greeting *greeting);
    /* The master is there: to be freed. */
    void (*elsewhere)(void *user, const struct cluster_place *master);
    /* It has no connection any more, and is to be freed. Never within a call. */
    void (*failed)(void *user, const char *reason);
    void (*pushed)(void *user, const sluice_resp_reply *push);
};

/* 0, -ENOMEM, -EMFILE (too many are being made) */
int cluster_link_new(struct cluster_links *links, const struct cluster_place *place,
                     const struct cluster_link_calls *calls, void *user, struct cluster_link **ret_link);

/* Closes it. Commands under way are reported later, with -ECANCELED. NULL is allowed. */
void cluster_link_free(struct cluster_link *link);

/* As sluice_resp_client_command() and sluice_resp_client_subscribe(); when it has been opened. */
int cluster_link_command(struct cluster_link *link, const sluice_resp_client_arg *args, size_t count,
                         sluice_resp_reply_fn *fn, void *user);
int cluster_link_subscribe(struct cluster_link *link, const char *channel, sluice_resp_reply_fn *fn, void *user);

/* Whether a callback's client is this one's, not that of a link before. */
bool cluster_link_has(const struct cluster_link *link, const sluice_resp_client *client);

/* Frees the memory of all, when the connector and the loop are gone. */
void cluster_links_clear(struct cluster_links *links);

#endif
