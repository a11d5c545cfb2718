/*
 * Questions of the data plane to the cluster: whether this node may publish a stream, and which
 * node has one. Workers must not wait, so the control plane asks the engine
 * (control/cluster_client.h); the answer returns by a posted call. Without a cluster there is no
 * function to ask, and nothing is asked. See daemon/cluster/DESIGN.md.
 */
#ifndef SLUICED_CLUSTER_QUERY_H
#define SLUICED_CLUSTER_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "daemon/base/cidr.h"
#include "daemon/base/stream_name.h"
#include "daemon/relay/publish_lock.h"

enum {
    CLUSTER_NODE = 63,     /* characters of a node's name: [A-Za-z0-9._-] */
    CLUSTER_ADDRESS = 300, /* of HOST:PORT, [v6]:PORT */
};

/* Where a stream is. */
struct cluster_location {
    char node[CLUSTER_NODE + 1]; /* empty: no node has it */
    char address[CLUSTER_ADDRESS + 1];
    bool is_secure; /* by https */
    uint64_t incarnation, epoch;
};

enum cluster_question {
    /*
     * May this node publish it? 0 with the epoch; -EEXIST: another node has it; -EBUSY: it is
     * reserved; -EHOSTDOWN: the engine is unavailable, and the policy refuses; -ESHUTDOWN: this
     * node has left, or has been replaced; -ENOMEM. If a pull from another node has shown that
     * epoch or a higher one meanwhile, the worker claims again, with what it has seen, and releases
     * the first.
     */
    CLUSTER_CLAIM,
    /*
     * A publisher that was granted the stream has left. Once for each claim that was granted, also
     * where the node has lost it since. The epoch: of that claim, or a newer one of CLUSTER_EPOCH
     */
    CLUSTER_RELEASE,
    /*
     * This node was asked for the stream with a higher epoch (the job's) than it has. 0: it has it
     * still, with a new epoch; -ESTALE: it has lost it, or never had it; -EHOSTDOWN
     */
    CLUSTER_ASSERT,
    /*
     * Where is it? 0 with the location, or an empty one; -EHOSTDOWN: the engine is unavailable, and
     * nothing is known. From then on the worker hears of changes (cluster_changed_fn), until
     * CLUSTER_FORGET. The location's epoch may be lower than the job's: the engine has forgotten
     * something, and its node has to assert the stream, which it does when it is asked for it with
     * that epoch.
     */
    CLUSTER_LOCATE,
    CLUSTER_FORGET,
    /*
     * Where is the node that the location names? 0 with its address and incarnation; -ENOENT: it
     * has no lease, or its beat has stopped. From what this node knows: nothing is sent.
     */
    CLUSTER_FIND_NODE,
    /* As CLUSTER_LOCATE, once: nobody hears of changes. */
    CLUSTER_LOOK,
    /*
     * An operator has ended the stream's publisher (keep_ms: its host is banned for so long, by the
     * node that has it; is_whole: and its players), banned the host from it for keep_ms, or ended
     * all bans of it. 0: the other nodes are told, -EHOSTDOWN: they are not
     */
    CLUSTER_TELL_KICK,
    CLUSTER_TELL_BAN,
    CLUSTER_TELL_UNBAN,
};

/* The owner's memory, which must stay until the job has come back. In between it is the control
 * plane's. */
struct cluster_job {
    struct cluster_job *next; /* the control plane's, and so is: */
    uint64_t asked_ns;        /* clock_ns() */
    enum cluster_question question;
    char stream[STREAM_NAME + 1];
    enum same_name same_name; /* CLUSTER_CLAIM */
    /* CLUSTER_CLAIM: the publisher's; CLUSTER_RELEASE: for which the name is reserved;
     * CLUSTER_TELL_BAN: that is banned */
    struct cidr_address host;
    /* CLUSTER_RELEASE: for how long it is; 0: it is not; CLUSTER_TELL_KICK, CLUSTER_TELL_BAN */
    uint64_t keep_ms;
    bool is_whole; /* CLUSTER_TELL_KICK */
    /* CLUSTER_CLAIM: the highest that is known, which a grant is above; CLUSTER_LOCATE,
     * CLUSTER_ASSERT: that is wanted at least; CLUSTER_RELEASE: the claim's */
    uint64_t epoch;
    /* on which it comes back; NULL: on the control plane's thread, perhaps while it is asked, */
    sluice_loop *loop;
    sluice_call call;                      /* by this */
    void (*done)(struct cluster_job *job); /* exactly once */
    void *user;

    int error;
    /* of CLUSTER_CLAIM: the epoch alone; CLUSTER_FIND_NODE: its name, before */
    struct cluster_location location;
};

/* Takes a job. Any thread. */
typedef void cluster_ask_fn(void *cluster, struct cluster_job *job);

/*
 * What the control plane reports to a stream's worker, on its thread, of streams that it has asked
 * for or that this node has claimed.
 */
enum cluster_change {
    CLUSTER_MOVED,      /* the location has it now */
    CLUSTER_GONE,       /* no node has it */
    CLUSTER_SUPERSEDED, /* this node has lost its claim; the location has it now, or is empty */
    CLUSTER_EPOCH,      /* this node has it still, with the location's epoch, which is higher */
};

/*
 * What verifies pulls of other nodes; the same for all workers. The offset changes while the server
 * runs; the rest is set before it.
 */
struct cluster_self {
    char node[CLUSTER_NODE + 1];
    uint8_t secret[64]; /* of which secret_size count; 0: pulls are not signed */
    size_t secret_size;
    /* engine's time minus CLOCK_MONOTONIC, milliseconds; INT64_MIN: not known yet */
    _Atomic int64_t engine_offset_ms;
    struct refuge *refuge; /* of clients, when this node drains; NULL: there is none */
};

#endif
