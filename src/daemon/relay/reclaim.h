/*
 * Making room when memory is used up: who has to give way. Replicas of other workers' streams hold
 * those workers' blocks, and packets of this one's.
 */
#ifndef SLUICED_RECLAIM_H
#define SLUICED_RECLAIM_H

#include "daemon/relay/stream.h"

/*
 * One step. First what the slowest players are behind, whose doing it is; then what only new
 * players would miss, the largest cached group; then the longest queue. What is lent to other
 * workers is asked for, and comes back later. False when there is nothing to give up.
 */
bool reclaim(struct registry *registry, enum reclaim_for what);

/*
 * One step among the replicas of the streams that a worker lends its blocks to: the slowest
 * players, and @groups: the largest cached group. False when there is nothing to give up.
 */
bool reclaim_replicas(struct registry *registry, const struct replica_site *lender, bool groups);

#endif
