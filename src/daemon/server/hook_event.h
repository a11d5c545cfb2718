/*
 * Hook events: reports to the operator's HTTP server that a publisher or player has ended, or that
 * a recording was made. The data plane does not wait for them; failed deliveries are counted.
 */
#ifndef SLUICED_HOOK_EVENT_H
#define SLUICED_HOOK_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hook_url.h"
#include "daemon/base/stream_name.h"
#include "daemon/recording/record_store.h"

struct player;
struct session;
struct stream;

/* Of one thing that has happened. */
struct hook_event {
    struct hook_event *next; /* the notifier's, and so are: */
    unsigned tries;
    uint64_t due; /* milliseconds of the monotonic clock */

    enum hook_kind event;
    char stream[STREAM_NAME + 1];
    char *body; /* JSON */
    size_t length;
};

/* Takes a notice, and frees it in the end. Any thread. */
typedef void hook_event_fn(void *hook_delivery, struct hook_event *notice);

/* What has become of those of one kind. */
struct hook_event_counts {
    uint64_t delivered, failed; /* failed: refused, or tried in vain too often */
    uint64_t dropped;           /* not tried: too many waited */
};

/* NULL is allowed. */
void hook_event_free(struct hook_event *notice);

/* A publisher has ended, that had the stream; before the stream forgets it. On the worker's
 * thread. */
void hook_event_unpublish(const struct stream *stream, uint64_t now, const char *reason);

/* A player has ended, on the worker's thread. */
void hook_event_stop(const struct session *session, const struct player *player, const char *reason);

/* A recording is whole. NULL without memory. Any thread. */
struct hook_event *hook_event_recording(const struct record_done *done);

#endif
