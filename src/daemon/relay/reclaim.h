/*
 * Frees memory when it is used up: selects the players and caches that lose theirs. Replicas of
 * other workers' streams hold those workers' blocks, and packets of this worker.
 */
#ifndef SLUICED_RECLAIM_H
#define SLUICED_RECLAIM_H

#include "daemon/relay/stream.h"

/*
 * Whether more than so many fourths of a pool's blocks are held, or would be with so many more. Of
 * those that it can have at the moment: other classes of the pool, and a system without memory,
 * leave it fewer than its options say. Owner's thread only.
 */
bool reclaim_exceeds(sluice_pool *pool, unsigned fourths, uint32_t more);

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
