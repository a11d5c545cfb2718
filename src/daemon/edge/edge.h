/*
 * Streams that other nodes of the cluster have: when players of this node want one, its node is
 * asked for, and one pull by HTTP fetches it for all of them. The pull follows the stream from node
 * to node, and ends some time after its last player. A component of each worker; its thread only,
 * unless stated otherwise. DESIGN.md has the rules.
 */
#ifndef SLUICED_EDGE_H
#define SLUICED_EDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/cluster/cluster_sign.h"
#include "daemon/server/cluster_query.h"

struct server;
struct worker;

enum {
    EDGE_BACKOFF_MS = 250, /* after the first failure; then twice as long each time */
    EDGE_BACKOFF_MOST_MS = 2000,
    EDGE_STABLE_MS = 1000,   /* of media, after which it is asked again at once */
    EDGE_NEGATIVE_MS = 1000, /* that "no node has it" holds for the players that come; and that a
                                location is kept without them */
    EDGE_REASON = 128,
};

enum edge_state {
    EDGE_ASKING,  /* the cluster is asked where the stream is; set by ask() */
    EDGE_FINDING, /* where a parent is; set by next_target() */
    /* a pull is on its way, or plays; set by fetch() */
    EDGE_FETCHING,
    EDGE_WAITING, /* for the next attempt; set by retry() */
    /* no other node has it, or nobody wants it yet: waits for news; set by rest() */
    EDGE_IDLE,
    EDGE_FORGETTING, /* the cluster is told that nobody asks any more; set by forget() */
};

const char *edge_state_name(enum edge_state state);

/* Adds the component to each worker, before the run and behind pulls_register(). 0, or what
 * server_add_component() says */
int edges_register(struct server *server);

/* What the control plane has heard of a stream. */
void edge_changed(struct worker *worker, const char *stream, enum cluster_change change,
                  const struct cluster_location *location);

/* The same from any thread, of which it is posted to the stream's worker. 0, -ENOMEM */
int edge_post_change(struct server *server, const char *stream, enum cluster_change change,
                     const struct cluster_location *location);

/* Its state in the words of operators. */
enum edge_phase {
    EDGE_IS_PLAYING,
    EDGE_IS_CONNECTING,
    EDGE_IS_LOCATING, /* the cluster is asked where the stream, or a parent, is */
    EDGE_IS_WAITING,  /* for the next attempt */
    EDGE_IS_IDLE,     /* no other node has it, or nobody wants it */
    EDGE_IS_ENDING,
    EDGE_PHASES,
};

const char *edge_phase_name(enum edge_phase phase);

/* What is shown of one. Pointers last as long as the call. */
struct edge_status {
    const char *stream;
    enum edge_phase phase;
    const char *node; /* that is asked for the stream, or was last; or empty */
    const char *address;
    enum cluster_mode mode;
    uint64_t epoch;     /* of what comes, or came last */
    const char *reason; /* why it failed last; empty: it has not since it played */
    unsigned failures;  /* since it played */
};

/* Of one worker. */
void edges_each(const struct worker *worker, void (*call)(const struct edge_status *status, void *user), void *user);

/* Failed pulls of all workers, ever. Any thread. */
uint64_t edges_failed(struct server *server);

#endif
