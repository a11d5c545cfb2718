/*
 * Pulls: streams that the server fetches by RTSP, from cameras and other servers. A pull lives as long as its stream's
 * worker and makes one connection after the other; see pull_session.h for what is said on it. The worker's thread only.
 */
#ifndef SLUICED_PULL_H
#define SLUICED_PULL_H

#include "daemon/connect.h"
#include "daemon/pull_option.h"
#include "daemon/pull_state.h"

enum { PULL_REASON = 128 };

struct pull_session;
struct worker;
struct stream;

struct pull {
    struct worker *worker;
    const struct pull_option *option;
    struct pull_machine machine;
    struct pull_target target; /* the option's, or where it has been redirected to */
    struct connect_job job;
    bool job_is_out;              /* with the connector */
    struct pull_session *session; /* NULL without a connection */
    char reason[PULL_REASON];     /* why it failed last; empty before that, and when it plays */
};

struct pulls;

/* Those of the options whose streams are the worker's. 0, -ENOMEM. @options must outlive the pulls. */
int pulls_new(struct worker *worker, const struct pull_options *options, struct pulls **ret_pulls);

/* When the loop is gone. NULL is allowed. */
void pulls_free(struct pulls *pulls);

/* Who makes their connections; before the server runs. */
void pulls_set_connector(struct pulls *pulls, connect_fn *connect, void *connector);

/* Twice a second. */
void pulls_tick(struct pulls *pulls, uint64_t now);

/* A player has come to a stream without a publisher. */
void pulls_want(struct pulls *pulls, const struct stream *stream);

/* The server ends. */
void pulls_stop(struct pulls *pulls);

void pulls_each(const struct pulls *pulls, void (*call)(const struct pull *pull, void *user), void *user);

/* For its session, which has let go of the pull: something went wrong. @reason: in a few words */
void pull_fail(struct pull *pull, const char *reason);

/* For its session, which has let go likewise: the camera is at another place. */
void pull_redirect(struct pull *pull, const struct pull_target *target);

/* For its session: the state is another; one line in the log. */
void pull_log_state(const struct pull *pull);

#endif
