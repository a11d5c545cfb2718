/*
 * What a node of a cluster knows and decides: its lease, the streams that it has claimed, and where
 * other nodes' streams are. No sockets, no clock, no threads: time, replies and events come in by
 * calls, commands and decisions go out by struct cluster_node_calls. None of these may call the
 * node again, but for its getters. DESIGN.md has the rules.
 */
#ifndef SLUICED_CLUSTER_NODE_H
#define SLUICED_CLUSTER_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/cluster/cluster_command.h"
#include "daemon/server/cluster_query.h"

enum {
    CLUSTER_LEASE_MS = 5000,
    CLUSTER_RENEW_MS = 1500,
    CLUSTER_RETRY_MS = 250,     /* after which a claim that is held is repeated */
    CLUSTER_NEGATIVE_MS = 1000, /* for which an answer of the engine is not asked for again */
    CLUSTER_REFRESH_MS = 60000, /* after which claims are asserted, and locations located again */
    CLUSTER_FIRST_MS = 1000,    /* for which questions wait for the first connection */
    CLUSTER_NODES_MAX = 1024,
    CLUSTER_COMMANDS_MAX = 1024, /* under way */
};

struct cluster_node;

enum cluster_node_state {
    /* no engine: set at the beginning and by cluster_node_disconnected() */
    CLUSTER_NODE_OFFLINE,
    /* the lease is being set, and what the node has is asserted: set by cluster_node_connected() */
    CLUSTER_NODE_JOINING,
    CLUSTER_NODE_ONLINE, /* set by the reply to the first renewal */
    /* another process has joined as this node, later, and lives: set by replies to two renewals. It
     * never leaves this state */
    CLUSTER_NODE_REPLACED,
    /* drains: it has left, and claims nothing: set by cluster_node_leave() */
    CLUSTER_NODE_LEFT,
    CLUSTER_NODE_STATES,
};

struct cluster_peer {
    char name[CLUSTER_NODE + 1];
    char address[CLUSTER_ADDRESS + 1];
    bool is_secure;
    uint64_t incarnation, beat;
    uint64_t changed_at; /* by this node's clock, when its beat last changed */
    bool is_alive;
    struct cluster_load load;
};

/* What comes of the list of bans that the engine has, which are told one by one in between. */
enum cluster_bans_step {
    CLUSTER_BANS_DOUBT, /* those that the engine has had are to be told again, */
    CLUSTER_BANS_END,   /* or else have been lifted: they end */
};

struct cluster_node_calls {
    /* To the engine. False: not now; the command is not remembered. */
    bool (*send)(void *user, const struct cluster_command *command);
    /* A question is answered: cluster_job_done() is to be called on its thread. */
    void (*answer)(void *user, struct cluster_job *job);
    /* See enum cluster_change. */
    void (*changed)(void *user, const char *stream, enum cluster_change change,
                    const struct cluster_location *location);
    /* Something is to be ended here, too (kick), or kept away (ban), or let in again (unban). Bans
     * that the engine has kept come again with each connection, without a node; this node's own
     * when the engine has them. False: it is lost. */
    bool (*told)(void *user, const struct cluster_event *event);
    void (*bans_step)(void *user, enum cluster_bans_step step);
    void (*state_changed)(void *user, enum cluster_node_state state);
};

struct cluster_node_options {
    const char *name, *address;
    bool is_secure;
    bool refuses_when_down;
    size_t most_streams; /* locations and claims that it remembers */
    uint64_t random;     /* 10 bits are used, of the incarnation */
    /* CLOCK_REALTIME minus the clock of @now, milliseconds: what the engine's clock is taken for
     * until it is known */
    int64_t clock_offset_ms;
};

/* @user: of the calls. 0, -ENOMEM */
int cluster_node_new(const struct cluster_node_options *options, const struct cluster_node_calls *calls, void *user,
                     struct cluster_node **ret_node);

/* Questions that are open must have been answered by cluster_node_abandon(). NULL is allowed. */
void cluster_node_free(struct cluster_node *node);

/* Answers all open questions with -ESHUTDOWN. */
void cluster_node_abandon(struct cluster_node *node);

/*
 * The engine can be asked from now on, and its events come; cannot any more: commands without a
 * reply have none. The latter also when the first attempt to connect has failed. @now:
 * milliseconds, of any clock that only goes forward
 */
void cluster_node_connected(struct cluster_node *node, uint64_t now);
void cluster_node_disconnected(struct cluster_node *node, uint64_t now);

/* The reply to a command; the event of a channel. */
void cluster_node_replied(struct cluster_node *node, uint64_t tag, const struct cluster_reply *reply, uint64_t now);
void cluster_node_heard(struct cluster_node *node, const struct cluster_event *event, uint64_t now);

/* A question of a worker (cluster_query.h). */
void cluster_node_ask(struct cluster_node *node, struct cluster_job *job, uint64_t now);

/* At least every CLUSTER_RETRY_MS. */
void cluster_node_tick(struct cluster_node *node, uint64_t now);

void cluster_node_set_load(struct cluster_node *node, const struct cluster_load *load);

/* Leaves the cluster: the lease ends, and all claims. */
void cluster_node_leave(struct cluster_node *node, uint64_t now);

/* Tells the other nodes (kick, ban, unban); the engine keeps bans for those that join. False: not
 * now. */
bool cluster_node_tell(struct cluster_node *node, const struct cluster_event *event);

const char *cluster_node_state_name(enum cluster_node_state state);

/* Of the options. */
const char *cluster_node_name(const struct cluster_node *node);
const char *cluster_node_address(const struct cluster_node *node, bool *ret_is_secure);

enum cluster_node_state cluster_node_get_state(const struct cluster_node *node);
uint64_t cluster_node_incarnation(const struct cluster_node *node); /* 0: it has not joined yet */

/* For struct cluster_self: the engine's time minus the clock of @now, milliseconds; INT64_MIN: not
 * known yet. It changes with replies alone. */
int64_t cluster_node_engine_offset_ms(const struct cluster_node *node);

/* Whether a location's node is one that should be asked: it has a lease, and its beat goes on. */
bool cluster_node_is_alive(const struct cluster_node *node, const char *name, uint64_t now);

/* The nodes that there are, by name; this one among them. */
void cluster_node_each_peer(const struct cluster_node *node, void (*call)(const struct cluster_peer *peer, void *user),
                            void *user);

/* Streams that it has claimed (@is_own), and those of which it knows where they are. */
void cluster_node_each_stream(const struct cluster_node *node,
                              void (*call)(const char *stream, bool is_own, const struct cluster_location *location,
                                           void *user),
                              void *user);

#endif
