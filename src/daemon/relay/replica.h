/*
 * A feed: some of a stream's players are served by another worker, which has a replica of the
 * stream for them. What the stream's own worker has taken in goes there by reference, in posted
 * batches, and the replica is to its players what the stream is to its own: it has a cached group,
 * queues, merge windows. Everything else (the publisher, its name, time, recordings, pulls) is the
 * stream's own worker's alone.
 *
 * The blocks stay those of the worker that has received them. What it has lent is counted, and
 * bounded: beyond that the replica is treated like a player that is slow, and loses frames up to a
 * key frame.
 *
 * Each call says whose thread it is for: that of the stream's own worker ("here"), or that of the
 * replica's ("there").
 */
#ifndef SLUICED_REPLICA_H
#define SLUICED_REPLICA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

struct replica;
struct registry;
struct stream;

/* A worker, as far as feeds have to do with it. */
struct replica_site {
    sluice_loop *loop;
    struct registry *registry;
    uint32_t index;
    uint64_t most_lent;      /* bytes of its pool that others may hold when most of it is used */
    _Atomic uint64_t lent;   /* that they hold, or what they hold shares blocks with */
    atomic_bool half_used;   /* its blocks, as far as replicas were told last */
    const atomic_bool *over; /* no loop runs any more: nothing is to be posted */
};

/* Here: makes one, which begins with what a player would be sent that comes now. NULL without
 * memory. */
struct replica *replica_open(struct stream *stream, struct replica_site *here, struct replica_site *there);

/* Here: the stream's feed to that worker; or NULL. */
struct replica *replica_find(const struct stream *stream, const struct replica_site *there);

/* Here: whether it can have players; there may have been no memory for a replica. */
bool replica_is_of_use(const struct replica *feed);

/* Here: one more player is served there. The reference is the player's. */
struct replica *replica_reserve(struct replica *feed);

/* Any thread: one less; when nothing of the player is there any more. NULL is allowed. */
void replica_unreserve(struct replica *reservation);

/* Any thread. */
struct replica_site *replica_remote(const struct replica *feed);
uint32_t replica_reservations(const struct replica *feed);

/* There: the replica, with one more reference; NULL where there was no memory for it. */
struct stream *replica_stream(const struct replica *feed);

/* There: whether the worker that lends would rather have its blocks back soon. */
bool replica_is_pressed(const struct replica_site *lender);

/* There, when nothing runs any more: the replica goes with its registry. */
void replica_forget(struct stream *replica);

/* Whether another worker has a replica. Here. */
bool replicas_any(const struct stream *stream);

/* Players of the stream that have a seat elsewhere. Here. */
uint32_t replicas_players(const struct stream *stream);

/* There: a decoder's header found no memory: all are sent again before the next key frame. */
void replica_want_headers(struct replica *feed);

/* There: one more send to a player of the replica. */
void replica_count_send(struct replica *feed);

/* Here: sends to players on other workers, which have counted them. */
uint64_t replicas_sends(const struct stream *stream);

/* Here, now and then: ends replicas that are no longer needed, which may be the stream's end. */
void replicas_tick(struct stream *stream, uint64_t now);

/* Here, when nothing runs any more. */
void replicas_close(struct stream *stream);

#endif
