/*
 * What a node asks the cluster's engine for, what the engine answers, and what it reports by
 * itself: values, whatever the protocol. cluster_node makes commands and takes replies and events;
 * cluster_script writes commands as RESP, and reads replies and events from it. DESIGN.md has the
 * rules.
 *
 * Pointers of a command are borrowed during the call that sends it; those of a reply or an event,
 * during the call that reports it.
 */
#ifndef SLUICED_CLUSTER_COMMAND_H
#define SLUICED_CLUSTER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/cidr.h"
#include "daemon/base/stream_name.h"
#include "daemon/server/cluster_query.h"

enum {
    CLUSTER_BATCH = 64,         /* streams in one command */
    CLUSTER_NODES_PAGE = 256,   /* nodes that the engine is asked for at once; about so many come */
    CLUSTER_PAGE_MS = 500,      /* how old they may be, by the engine's clock */
    CLUSTER_NODES_REPLY = 1024, /* nodes in one reply, at most */
    CLUSTER_BANS = 256,         /* that the engine keeps; the one that ends first makes room */
};

#define CLUSTER_BAN_MS UINT64_C(86400000) /* of a ban, at most */

#define CLUSTER_EPOCH_MAX ((UINT64_C(1) << 53) - 1) /* the engine's scripts count in doubles */

enum cluster_verb {
    CLUSTER_RENEW,     /* sets or renews the lease: node, incarnation, beat, load */
    CLUSTER_TAKE,      /* claims and asserts streams: items */
    CLUSTER_DROP,      /* releases them: items */
    CLUSTER_FIND,      /* locates them: items */
    CLUSTER_LIST,      /* a part of the nodes: cursor */
    CLUSTER_LEAVE,     /* ends the lease */
    CLUSTER_NOTIFY,    /* publishes an event: a kick */
    CLUSTER_BAN,       /* keeps or lifts bans, and publishes the event: a ban, or the end of bans */
    CLUSTER_LIST_BANS, /* bans that are in force */
    CLUSTER_VERBS,
};

enum cluster_take {
    CLUSTER_TAKE_FREE,      /* if no living node has the stream */
    CLUSTER_TAKE_OVER,      /* from whichever node has it */
    CLUSTER_TAKE_FROM_HOST, /* also from another node, whose publisher is of the same host */
    CLUSTER_TAKE_ASSERT,    /* this node has it: unless another has it with a higher epoch */
};

/* What a node shows of itself to others and to operators. */
struct cluster_load {
    uint32_t streams, players;
    uint64_t bits_per_second;
    uint32_t cpu_permille; /* of one core, all threads */
};

/* One stream of a command. */
struct cluster_item {
    const char *stream;
    enum cluster_take take;   /* CLUSTER_TAKE */
    struct cidr_address host; /* CLUSTER_TAKE: the publisher's; CLUSTER_DROP: of keep_ms */
    uint64_t keep_ms;         /* CLUSTER_DROP: for how long; 0: it is not */
    /* CLUSTER_TAKE: with which this node has it; 0: it has not; CLUSTER_DROP: up to which it is
     * released */
    uint64_t epoch;
    uint64_t floor; /* CLUSTER_TAKE: that others have seen. What is granted is higher */
    /* CLUSTER_TAKE: a lease that does not count, as its beat has stopped; incarnation 0: none */
    uint64_t dead_incarnation, dead_beat;
    /* CLUSTER_TAKE: the node that has the stream is asked whether it does (CLUSTER_EVENT_ASK) */
    bool asks;
};

enum cluster_event_verb {
    CLUSTER_EVENT_CLAIM,   /* the node has the stream: stream, node, incarnation, epoch, address */
    CLUSTER_EVENT_RELEASE, /* it has not any more: stream, node, incarnation, epoch */
    CLUSTER_EVENT_LEAVE,   /* the node has left: node, incarnation */
    /* the engine says that the node has the stream, and another one would have it: stream, node,
     * incarnation, epoch */
    CLUSTER_EVENT_ASK,
    /* an operator ends the stream's publisher, wherever it is: stream; ms: and its host is banned
     * for so long; is_whole: all of its players, too; node: that reports it */
    CLUSTER_EVENT_KICK,
    CLUSTER_EVENT_BAN,   /* the host may not publish the stream: stream, host, ms, node */
    CLUSTER_EVENT_UNBAN, /* all hosts may publish it again: stream, node */
    CLUSTER_EVENTS,
};

struct cluster_event {
    enum cluster_event_verb verb;
    char stream[STREAM_NAME + 1];
    struct cluster_location location; /* node, and what else the verb has */
    struct cidr_address host;
    uint64_t ms; /* at most CLUSTER_BAN_MS */
    bool is_whole;
    bool is_own; /* of what is passed on: this node has told it, and the engine has it */
};

/* To the engine. */
struct cluster_command {
    uint64_t tag; /* comes back with the reply */
    enum cluster_verb verb;
    /* of all: who sends it. CLUSTER_RENEW with incarnation 0: the engine chooses one */
    const char *node, *address;
    bool is_secure;
    uint64_t incarnation;
    /* CLUSTER_RENEW: */
    uint64_t random, beat; /* @random: 10 bits, for an incarnation */
    struct cluster_load load;
    /* CLUSTER_TAKE, CLUSTER_DROP, CLUSTER_FIND: 1 to CLUSTER_BATCH */
    const struct cluster_item *items;
    size_t count;
    uint64_t cursor; /* CLUSTER_LIST: 0, or of the last reply */
    /* CLUSTER_NOTIFY, CLUSTER_BAN */
    const struct cluster_event *event;
};

enum cluster_result {
    CLUSTER_GRANTED,  /* CLUSTER_TAKE: the location's epoch; CLUSTER_FIND: what is known follows */
    CLUSTER_HELD,     /* CLUSTER_TAKE: the location's node has it */
    CLUSTER_RESERVED, /* CLUSTER_TAKE: it is kept for another host */
};

/* Of one item, in the order of the command's. */
struct cluster_item_reply {
    enum cluster_result result;
    struct cluster_location location; /* its node is empty: no node has claimed it */
    /* of the location's node; 0: it has no lease. A location of another incarnation is void */
    uint64_t lease_incarnation, lease_beat;
};

struct cluster_node_reply {
    char name[CLUSTER_NODE + 1];
    char address[CLUSTER_ADDRESS + 1];
    bool is_secure;
    uint64_t incarnation, beat;
    struct cluster_load load;
};

struct cluster_ban {
    char stream[STREAM_NAME + 1];
    struct cidr_address host;
    uint64_t ms; /* left */
};

enum cluster_lease {
    CLUSTER_LEASE_OURS,    /* set, or it is there */
    CLUSTER_LEASE_NONE,    /* nothing was done: the node has none */
    CLUSTER_LEASE_ANOTHER, /* nothing was done: a newer incarnation has it */
    CLUSTER_LEASE_FULL,    /* nothing was done: there are CLUSTER_NODES_MAX nodes */
};

/* From the engine. Fields that the verb does not have are 0. */
struct cluster_reply {
    int error;                /* of the engine: see cluster_script_read(); 0: none */
    enum cluster_lease lease; /* CLUSTER_RENEW, CLUSTER_TAKE */
    /* CLUSTER_RENEW: by the engine's clock; microseconds since 1970 */
    uint64_t engine_us;
    uint64_t incarnation;             /* CLUSTER_RENEW, CLUSTER_TAKE: of the lease; 0: none */
    uint64_t last_beat;               /* CLUSTER_RENEW: of our lease before; 0: there was none */
    struct cluster_item_reply *items; /* CLUSTER_TAKE, CLUSTER_FIND: as many as the command had */
    size_t count;
    struct cluster_node_reply *nodes; /* CLUSTER_LIST */
    size_t node_count;
    uint64_t cursor;          /* CLUSTER_LIST: of the next part; 0: this is the last one */
    struct cluster_ban *bans; /* CLUSTER_LIST_BANS */
    size_t ban_count;
    /* likewise: when the engine first had any, microseconds by its clock. Another time: it has
     * forgotten them since */
    uint64_t bans_since;
};

#endif
