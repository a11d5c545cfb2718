/*
 * Operator commands, which refer to a stream by its name and to other objects by id. Run on the
 * thread of the worker that owns the object.
 */
#ifndef SLUICED_WORKER_COMMAND_H
#define SLUICED_WORKER_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/address.h"
#include "daemon/base/stream_name.h"
#include "daemon/pull/pull.h"
#include "daemon/recording/record_override.h"
#include "daemon/server/cluster_query.h"

enum { COMMAND_URL = 511 }; /* bytes */

struct worker;

enum worker_command_kind {
    COMMAND_KICK_PLAYER,
    COMMAND_KICK_PUBLISHER, /* a pull's is tried again, like after any failure */
    COMMAND_KICK_STREAM,    /* its publisher and all of its players */
    COMMAND_BAN,            /* a publisher's host from a stream, for ban_ms */
    COMMAND_UNBAN,          /* all hosts may publish the stream again */
    COMMAND_DOUBT_BANS,     /* bans_doubt() */
    COMMAND_END_DOUBTED_BANS,
    COMMAND_RECORD, /* records a stream, or does not, that need not be there yet */
    COMMAND_PULL_ADD,
    COMMAND_PULL_REMOVE,
};

struct worker_command {
    enum worker_command_kind kind;
    uint64_t id; /* not of a stream */
    char stream[STREAM_NAME + 1];
    enum record_override record;
    struct pull *pull; /* of COMMAND_PULL_ADD: the command's; NULL once a worker has taken it */
    /* for which the publisher's host may not publish the stream again; 0: it may at once */
    uint64_t ban_ms;
    char host[ADDRESS_TEXT];     /* of COMMAND_BAN, as of a peer */
    char node[CLUSTER_NODE + 1]; /* likewise, that had the publisher; empty: not known */
    bool is_own;                 /* likewise: this node has told the others, by the engine */
    /* another node of the cluster has said so: no other is told */
    bool is_told;
    bool spares_players; /* of COMMAND_KICK_STREAM */
    /* of a kick: where clients that can be asked are to connect instead; empty: nowhere */
    char to[COMMAND_URL + 1];
};

/*
 * In a cluster, kicks and bans of a stream reach all nodes, so that one that this node does not
 * have is no error; those of a player do not.
 *
 * 0, -ENOENT (this worker has no such object), -ENOMEM (of a kick: it is done, but for the ban),
 * -ESHUTDOWN (of a ban, its end, or a recording: another process takes over), and what
 * recorders_wish(), pulls_add() and pulls_remove() say. Of those that share a command, one at most
 * has its object.
 */
int worker_command_run(struct worker *worker, struct worker_command *command);

#endif
