/* What has come of a node's questions to the cluster, and of its commands to the engine: counts for
 * metrics. The control plane's thread. */
#ifndef SLUICED_CLUSTER_COUNTS_H
#define SLUICED_CLUSTER_COUNTS_H

#include "daemon/base/latency.h"
#include "daemon/cluster/cluster_command.h"

enum cluster_claim_result {
    CLUSTER_CLAIM_GRANTED,
    CLUSTER_CLAIM_WORD,        /* granted on this node's word, without the engine */
    CLUSTER_CLAIM_HELD,        /* refused: another node has the stream */
    CLUSTER_CLAIM_RESERVED,    /* refused: it is kept for another host */
    CLUSTER_CLAIM_UNAVAILABLE, /* refused, as the engine is unavailable */
    CLUSTER_CLAIM_FAILED,      /* the node has left, or has no memory */
    CLUSTER_CLAIM_RESULTS,
};

enum cluster_lookup_result {
    CLUSTER_LOOKUP_FOUND,
    CLUSTER_LOOKUP_ABSENT,
    CLUSTER_LOOKUP_UNAVAILABLE, /* the engine is, and nothing is known */
    CLUSTER_LOOKUP_FAILED,
    CLUSTER_LOOKUP_RESULTS,
};

enum cluster_command_result {
    CLUSTER_COMMAND_OK,
    CLUSTER_COMMAND_ERROR,      /* the engine has answered with an error, or with no valid reply */
    CLUSTER_COMMAND_UNANSWERED, /* the connection has ended before */
    CLUSTER_COMMAND_RESULTS,
};

const char *cluster_claim_result_name(enum cluster_claim_result result);
const char *cluster_lookup_result_name(enum cluster_lookup_result result);
const char *cluster_command_result_name(enum cluster_command_result result);
const char *cluster_verb_name(enum cluster_verb verb);

/* All zero at the beginning. */
struct cluster_counts {
    uint64_t claims[CLUSTER_CLAIM_RESULTS];
    uint64_t claims_lost; /* streams of this node that another one has claimed */
    uint64_t lookups[CLUSTER_LOOKUP_RESULTS];
    struct latency lookup; /* from a worker's question to the answer that is sent to it */
};

/* A question has its answer. @is_down: the engine is unavailable */
void cluster_counts_add(struct cluster_counts *counts, const struct cluster_job *job, bool is_down);

#endif
