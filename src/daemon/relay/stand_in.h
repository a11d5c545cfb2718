/*
 * A stream stands in for another one that has no publisher: a sink of the one, and in place of a
 * publisher for the other, whose players continue as with another publisher: from a key frame on,
 * with times that rise. Both are of one registry; the source may be a replica. A publisher that
 * comes ends it (stream_attach()). Its worker's thread only.
 */
#ifndef SLUICED_STAND_IN_H
#define SLUICED_STAND_IN_H

#include <stdbool.h>

#include "daemon/relay/stream_sink.h"

struct stream;

/* The owner's; all zero at the beginning. It must not move while it feeds. */
struct stand_in {
    struct stream_sink sink;
    struct stream *source; /* NULL: it does not feed */
    struct stream *target;
    bool is_synced;  /* a frame has been passed on with which decoding can begin */
    bool is_lacking; /* a decoder's header found no memory: all are passed on again before that */

    /* It has ended, by the end of the source's publisher (true) or by a publisher of the target. In
     * the middle of a stream's call: it lets go of no stream. */
    void (*ended)(struct stand_in *stand_in, bool by_source);
};

/*
 * Begins with what a player would be sent that comes now. The streams have to stay until it has
 * ended. @ended: set. 0, -EEXIST (the target has a publisher), -ENOENT (the source has none, or its
 * tracks are not known yet, or it is itself stood in for)
 */
int stand_in_begin(struct stand_in *stand_in, struct stream *source, struct stream *target, const char *peer);

/* Ends it, without a call of ended(). One that does not feed is allowed. */
void stand_in_end(struct stand_in *stand_in);

/* The target's publisher has come: ends it, and calls ended(). */
void stand_in_yield(struct stand_in *stand_in);

#endif
