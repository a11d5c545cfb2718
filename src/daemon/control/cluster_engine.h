/*
 * The connection to the cluster's engine, kept up: finds the master among the hosts, subscribes to
 * events, loads the scripts, and sends commands. When the connection ends, or the engine does what
 * it must not, the next one is made after a while. The control plane's thread.
 */
#ifndef SLUICED_CLUSTER_ENGINE_H
#define SLUICED_CLUSTER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/cluster/cluster_command.h"
#include "daemon/config/cluster_option.h"
#include "daemon/control/cluster_counts.h"
#include "daemon/control/cluster_greeting.h"
#include "daemon/control/cluster_link.h"

struct cluster_engine;
struct connector;
struct control_loop;
struct event_base;

enum {
    /* after the first failure of all hosts; then twice as long each time */
    CLUSTER_ENGINE_BACKOFF_MS = 250,
    CLUSTER_ENGINE_BACKOFF_MOST_MS = 5000,
    CLUSTER_ENGINE_STABLE_MS = 5000, /* of a connection, after which the backoff begins anew */
    CLUSTER_ENGINE_HOPS = 3,         /* from a Sentinel or a replica to the master */
    /* messages that are no events, in that time; beyond, the connection ends */
    CLUSTER_ENGINE_USELESS_MOST = 1000,
    CLUSTER_ENGINE_USELESS_MS = 1000,
};

enum cluster_engine_state {
    /* not started, or stopped: set by cluster_engine_new() and cluster_engine_stop() */
    CLUSTER_ENGINE_OFF,
    CLUSTER_ENGINE_CONNECTING, /* a host is asked what it is: set by try_place() */
    CLUSTER_ENGINE_LOADING,    /* subscribes and loads scripts: set by on_opened() */
    CLUSTER_ENGINE_READY,      /* set by be_ready() */
    CLUSTER_ENGINE_WAITING,    /* for the next attempt: set by drop() */
};

const char *cluster_engine_state_name(enum cluster_engine_state state);

struct cluster_engine_calls {
    void (*ready)(void *user);
    /* Commands without a reply have none. Also after an attempt that has failed. Never within a
     * call. */
    void (*lost)(void *user);
    void (*replied)(void *user, uint64_t tag, const struct cluster_reply *reply);
    void (*heard)(void *user, const struct cluster_event *event);
};

/* @loop, @connector, @options: the caller's, outlive it. 0, -ENOMEM, -EINVAL */
int cluster_engine_new(struct event_base *base, struct control_loop *loop, struct connector *connector,
                       const struct cluster_options *options, const struct cluster_engine_calls *calls, void *user,
                       struct cluster_engine **ret_engine);

/* Connects, soon. */
void cluster_engine_start(struct cluster_engine *engine);

/* Closes the connection; nothing is called any more. */
void cluster_engine_stop(struct cluster_engine *engine);

/* When connector and loop have been closed. NULL is allowed. */
void cluster_engine_free(struct cluster_engine *engine);

/* False: not now. */
bool cluster_engine_send(struct cluster_engine *engine, const struct cluster_command *command);

bool cluster_engine_is_ready(const struct cluster_engine *engine);

struct cluster_engine_status {
    enum cluster_engine_state state;
    uint64_t since;                   /* clock_ms(): that it is ready, or is not */
    char place[HOOK_HOST + 16];       /* that is or was asked last; empty: none yet */
    struct cluster_greeting server;   /* of the last connection */
    char reason[CLUSTER_LINK_REASON]; /* of the last failure, ever; empty: there was none */
    uint64_t failed_at;               /* clock_ms() of it */
    uint64_t connections, failures;   /* ever */
    uint64_t invalid;                 /* events that were dropped, ever */
    uint32_t waiting;                 /* commands under way */
    /* ever, without those under way; and how long their replies took */
    uint64_t commands[CLUSTER_VERBS][CLUSTER_COMMAND_RESULTS];
    struct latency latency;
};

void cluster_engine_get_status(const struct cluster_engine *engine, struct cluster_engine_status *ret_status);

#endif
