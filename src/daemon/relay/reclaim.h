/*
 * Frees memory when it is used up: selects the players and caches that lose theirs. Replicas of
 * other workers' streams hold those workers' blocks, and packets of this worker.
 */
#ifndef SLUICED_RECLAIM_H
#define SLUICED_RECLAIM_H

#include "daemon/relay/stream.h"

/*
 * One step: drops the queues of the slowest players, which cause the shortage; else the largest
 * cached group, which only new players would miss; else the longest queue. Blocks that are lent to
 * other workers are requested, and come back later. False when there is nothing to drop.
 */
bool reclaim(struct registry *registry, enum reclaim_for what);

/*
 * One step among the replicas of the streams that a worker lends its blocks to: the slowest
 * players, and with @groups the largest cached group. False when there is nothing to drop.
 */
bool reclaim_replicas(struct registry *registry, const struct replica_site *lender, bool groups);

#endif
