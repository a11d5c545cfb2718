/*
 * Making room when memory is used up: who has to give way. Replicas of other workers' streams hold those workers'
 * blocks, and packets of this one's.
 */
#ifndef SLUICED_SHED_H
#define SLUICED_SHED_H

#include <stdbool.h>

struct feed;
struct registry;

enum shed_for {
    SHED_FOR_BLOCKS,  /* this worker's */
    SHED_FOR_PACKETS, /* likewise, which describe whatever blocks */
    SHED_FOR_ANOTHER, /* worker, whose blocks replicas hold */
};

/*
 * One step. First what the slowest players are behind, whose doing it is; then what only new players would miss, the
 * largest cached group; then the longest queue. What is lent to other workers is asked for, and comes back later.
 * False when there is nothing to give up.
 */
bool shed(struct registry *registry, enum shed_for what);

/*
 * One step among the replicas of the streams of the worker that the feed is from: the slowest players, and @groups: the
 * largest cached group. False when there is nothing to give up.
 */
bool shed_replicas(struct registry *registry, const struct feed *feed, bool groups);

#endif
