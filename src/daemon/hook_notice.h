/*
 * Notices: an HTTP server of the operator's is told what has ended, and what has been recorded. Nobody waits for that;
 * what cannot be told is counted.
 */
#ifndef SLUICED_HOOK_NOTICE_H
#define SLUICED_HOOK_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/hook_url.h"
#include "daemon/records.h"
#include "daemon/stream_name.h"

struct player;
struct session;
struct stream;

/* Of one thing that has happened. */
struct hook_notice {
    struct hook_notice *next; /* the notifier's, and so are: */
    unsigned tries;
    uint64_t due; /* milliseconds of the monotonic clock */

    enum hook_event event;
    char stream[STREAM_NAME + 1];
    char *body; /* JSON */
    size_t length;
};

/* Takes a notice, and frees it in the end. Any thread. */
typedef void notify_fn(void *notifier, struct hook_notice *notice);

/* What has become of those of one kind. */
struct notice_counts {
    uint64_t delivered, failed; /* failed: refused, or tried in vain too often */
    uint64_t dropped;           /* not tried: too many waited */
};

/* NULL is allowed. */
void hook_notice_free(struct hook_notice *notice);

/* A publisher has ended, that had the stream; before the stream forgets it. On the worker's thread. */
void hook_tell_unpublish(const struct stream *stream, uint64_t now, const char *reason);

/* A player has ended, on the worker's thread. */
void hook_tell_stop(const struct session *session, const struct player *player, const char *reason);

/* A recording is whole. NULL without memory. Any thread. */
struct hook_notice *hook_notice_of_recording(const struct record_done *done);

#endif
