/*
 * Selects the worker for each player of a stream: the stream's own worker up to a number
 * (--spread), then all workers. See replica.h for how they get the stream. The stream's own
 * worker's thread only, unless stated otherwise.
 */
#ifndef SLUICED_SPREAD_H
#define SLUICED_SPREAD_H

#include <stdbool.h>

struct session;
struct stream;
struct worker;

/*
 * Whether a further player is to be served by another worker. Then the session has a seat there,
 * and is to move. One that has a seat stays.
 */
bool spread_player(struct stream *stream, struct session *session);

/* Any thread: the worker where the session's seat is. */
struct worker *spread_worker(const struct session *session);

/* There: the replica of the stream, with one more reference; NULL where there was no memory for
 * it. */
struct stream *spread_stream(const struct session *session);

/* Any thread: the session has no seat any more. One that has none is allowed. */
void spread_leave(struct session *session);

#endif
