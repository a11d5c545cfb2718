/*
 * The streams of a worker by name. A stream exists as long as it has a publisher or a player. The
 * worker's thread only.
 */
#ifndef SLUICED_REGISTRY_H
#define SLUICED_REGISTRY_H

#include "daemon/relay/stream.h"

int registry_new(sluice_loop *loop, const struct stream_limits *limits, struct registry **ret_registry);
void registry_free(struct registry *registry);

/* Sets other limits, for existing streams and players, too. */
void registry_set_limits(struct registry *registry, const struct stream_limits *limits);

/*
 * The stream of that name, made where it does not exist, with one more reference. 0, -EINVAL (the
 * name), -EUSERS (there are as many as there may be), -ENOMEM
 */
int registry_get(struct registry *registry, const char *name, size_t length, uint64_t now, struct stream **ret_stream);

/* The stream of that name, without a reference; NULL where there is none. */
struct stream *registry_find(const struct registry *registry, const char *name);

/* @call: a player has joined a stream that has no publisher. */
void registry_on_wanted(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user);

/*
 * @call: blocks are short, and only the queues of players that keep up are left to drop. It frees
 * something that holds more than @bytes, but not what is being published, and returns whether it
 * did.
 */
void registry_on_shortage(struct registry *registry, registry_shortage_fn *call, void *user);

/* @call: the tracks of a stream, not of a replica, are known now; it may add sinks. */
void registry_on_opened(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user);

/* @call: a stream, not a replica, has no publisher any more; it attaches none. */
void registry_on_left(struct registry *registry, void (*call)(struct stream *stream, void *user), void *user);

void registry_get_totals(struct registry *registry, struct stream_totals *ret_totals);

/* Whether one of its streams has players on other workers, or the registry has a replica. */
bool registry_is_spread(struct registry *registry);

/* Bytes of memory that describe the streams' tags: packets, and long lists of them. */
uint64_t registry_packet_bytes(const struct registry *registry);

/* Once a second: the rates, and streams that are not kept any more. */
void registry_tick(struct registry *registry, uint64_t elapsed_ms);

/*
 * A replica of another worker's stream, which is counted by that one alone. @fed_by, @lender: live
 * as long as the replica. 0, -ENOMEM
 */
int registry_add_replica(struct registry *registry, const struct stream_state *state, struct replica *fed_by,
                         struct replica_site *lender, struct stream **ret_replica);

#endif
