/*
 * The nodes of a cluster as one of them sees them, and which streams they have. A node is alive
 * while its beat changes, by this node's clock: neither a lease that the engine's clock ended too
 * early nor one that it does not end matters. Inside of cluster_node.
 */
#ifndef SLUICED_CLUSTER_PEERS_H
#define SLUICED_CLUSTER_PEERS_H

#include <sys/queue.h>

#include "daemon/cluster/cluster_node.h"
#include "daemon/cluster/cluster_streams.h"

enum {
    CLUSTER_PEER_BUCKETS = 512,
    CLUSTER_PEERS_MAX = 2 * CLUSTER_NODES_MAX, /* also of streams whose node has no lease */
};

struct cluster_peer_entry {
    struct cluster_peer peer;
    LIST_ENTRY(cluster_peer_entry) of_bucket;
    TAILQ_ENTRY(cluster_peer_entry) of_all;
    struct cluster_stream_list streams; /* that are there, dead or alive */
    uint64_t left_incarnation;          /* has left, whatever a late reply says; 0: none */
    uint64_t round;                     /* of the list that had it last */
    bool is_listed;
};

struct cluster_peers {
    LIST_HEAD(, cluster_peer_entry) buckets[CLUSTER_PEER_BUCKETS];
    TAILQ_HEAD(cluster_peer_queue, cluster_peer_entry) all;
    size_t count;
};

void cluster_peers_init(struct cluster_peers *peers);

/* No stream may be at one any more. */
void cluster_peers_clear(struct cluster_peers *peers);

/* NULL: it is not known. */
struct cluster_peer_entry *cluster_peers_find(const struct cluster_peers *peers, const char *name);

/* Found or new, without a lease; in the place of one that is dead if there are too many. NULL: all
 * of them live, or no memory. */
struct cluster_peer_entry *cluster_peers_get(struct cluster_peers *peers, const char *name);

/* Nothing refers to it any more: frees it. */
void cluster_peers_settle(struct cluster_peers *peers, struct cluster_peer_entry *entry);

/*
 * Its lease has been seen. Whether that changes what is to be thought of its streams.
 */
bool cluster_peer_seen(struct cluster_peer_entry *entry, uint64_t incarnation, uint64_t beat, uint64_t now);

/* It has left. Whether that changes something, likewise. */
bool cluster_peer_left(struct cluster_peer_entry *entry, uint64_t incarnation);

/*
 * Its beat has not changed for too long, as far as that has been looked at (@listed_at). Whether
 * that changes something, likewise.
 */
bool cluster_peer_expire(struct cluster_peer_entry *entry, uint64_t now, uint64_t listed_at);

/* The stream is at that node, from now on; NULL: at none. */
void cluster_peer_attach(struct cluster_peers *peers, struct cluster_peer_entry *entry, struct cluster_stream *stream);

#endif
