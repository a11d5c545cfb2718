/*
 * A feed: some of a stream's players are served by another worker, which has a replica of the stream for them. What the
 * stream's own worker has taken in goes there by reference, in posted batches, and the replica is to its players what
 * the stream is to its own: it has a cached group, queues, merge windows. Everything else (the publisher, its name,
 * time, recordings, pulls) is the stream's own worker's alone.
 *
 * The blocks stay those of the worker that has received them. What it has lent is counted, and bounded: beyond that
 * the replica is treated like a player that is slow, and loses frames up to a key frame.
 *
 * Each call says whose thread it is for: that of the stream's own worker ("here"), or that of the replica's ("there").
 */
#ifndef SLUICED_FEED_H
#define SLUICED_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

struct feed;
struct packet;
struct registry;
struct stream;

/* A worker, as far as feeds have to do with it. */
struct feed_site {
    sluice_loop *loop;
    struct registry *registry;
    uint32_t index;
    uint64_t most_lent;      /* bytes of its pool that others may hold when most of it is used */
    _Atomic uint64_t lent;   /* that they hold, or what they hold shares blocks with */
    atomic_bool half_used;   /* its blocks, as far as replicas were told last */
    const atomic_bool *over; /* no loop runs any more: nothing is to be posted */
};

/* Here: makes one, which begins with what a player would be sent that comes now. NULL without memory. */
struct feed *feed_open(struct stream *stream, struct feed_site *here, struct feed_site *there);

/* Here: the stream's feed to that worker; or NULL. */
struct feed *feed_find(const struct stream *stream, const struct feed_site *there);

/* Here: whether it can have players; there may have been no memory for a replica. */
bool feed_is_of_use(const struct feed *feed);

/* Here: one more player is served there. The reference is the player's. */
struct feed *feed_take_seat(struct feed *feed);

/* Any thread: one less; when nothing of the player is there any more. NULL is allowed. */
void feed_leave_seat(struct feed *seat);

/* Any thread. */
struct feed_site *feed_there(const struct feed *feed);
uint32_t feed_seats(const struct feed *feed);

/* There: the replica, with one more reference; NULL where there was no memory for it. */
struct stream *feed_get_replica(const struct feed *feed);

/* There: whether the worker that lends would rather have its blocks back soon. */
bool feed_is_pressed(const struct feed *feed);

/* There: whether both replicas are of streams of the same worker. */
bool feed_is_of_one(const struct feed *feed, const struct feed *other);

/* There, when nothing runs any more: the replica goes with its registry. */
void feed_forget_replica(struct stream *replica);

/* Players of the stream that have a seat elsewhere. Here. */
uint32_t feeds_players(const struct stream *stream);

/* Here, of all of a stream's feeds: what has become of it, in order. */
void feeds_begin(struct stream *stream);
void feeds_end(struct stream *stream);
void feeds_push(struct stream *stream, struct packet *packet, uint8_t flags);
void feeds_lose(struct stream *stream); /* a frame */

/* Here, when blocks are used up: asks those there to make room. */
void feeds_want_room(struct stream *stream);

/* Here, now and then: ends those that nobody needs any more, which may be the stream's end. */
void feeds_tick(struct stream *stream, uint64_t now);

/* Here, when nothing runs any more. */
void feeds_close(struct stream *stream);

#endif
