/*
 * Streams without a watcher: there is no player, no replica, and no other stream that
 * this one stands in for. Their publishers' connections are read at intervals rather than when
 * something comes, which saves most wake-ups. What is recorded or cached is complete, and comes
 * later. DESIGN.md says what this costs.
 */
#ifndef SLUICED_UNWATCHED_H
#define SLUICED_UNWATCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/relay/stream_sink.h"

struct stream;

enum { UNWATCHED_INTERVAL_MOST = 100 }; /* milliseconds */

/* Whether frames of such an output are wanted as they come. */
bool unwatched_is_watcher(enum stream_sink_rank rank);

/* About once a second: @flows: bytes have come since the time before, and the tracks are known. */
void unwatched_tick(struct stream *stream, bool flows);

/* The stream is watched from now on. */
void unwatched_end(struct stream *stream);

#endif
