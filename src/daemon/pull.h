/*
 * Pulls: streams that the server fetches by RTSP, from cameras and other servers. A pull lives as long as the options
 * have it, on its stream's worker, and makes one connection after the other; see pull_session.h for what is said on it.
 * The worker's thread only.
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
    struct pull *next;
    uint64_t id;
    struct worker *worker;
    const struct pull_option *option; /* the copy below: options come and go */
    struct pull_option copy;
    struct pull_machine machine;
    struct pull_target target; /* the option's, or where it has been redirected to */
    struct connect_job job;
    bool job_is_out;              /* with the connector */
    bool is_removed;              /* it only waits for its job */
    struct pull_session *session; /* NULL without a connection */
    bool has_digest;              /* the camera has offered Digest once: it is not shown the password itself */
    char reason[PULL_REASON];     /* why it failed last; empty before that, and when it plays */
};

struct pulls;

/* Without any pull. 0, -ENOMEM */
int pulls_new(struct worker *worker, struct pulls **ret_pulls);

/*
 * Sets which pulls there are, in two steps, of which only the first can fail: makes those that are new, of the worker's
 * streams, and puts them in the place of those that are not among the options any more. What is the same goes on
 * undisturbed.
 * @ret_made: to be given to pulls_set() with the same options, or to pulls_forget(), on any thread
 * 0, -ENOMEM
 */
int pulls_prepare(struct pulls *pulls, const struct pull_options *options, struct pull **ret_made);
void pulls_set(struct pulls *pulls, const struct pull_options *options, struct pull *made);
void pulls_forget(struct pull *made);

/* When the loop is gone. NULL is allowed. */
void pulls_free(struct pulls *pulls);

/* Who makes their connections; before the server runs. */
void pulls_set_connector(struct pulls *pulls, connect_fn *connect, void *connector);

/* Twice a second. */
void pulls_tick(struct pulls *pulls, uint64_t now);

/* A player has come to a stream without a publisher. */
void pulls_want(struct pulls *pulls, const struct stream *stream);

/* The server ends, or another process pulls; and it does not after all. */
void pulls_stop(struct pulls *pulls);
void pulls_resume(struct pulls *pulls);

void pulls_each(const struct pulls *pulls, void (*call)(const struct pull *pull, void *user), void *user);

/* For its session, which has let go of the pull: something went wrong. @reason: in a few words */
void pull_fail(struct pull *pull, const char *reason);

/* For its session, which has let go likewise: the camera is at another place. */
void pull_redirect(struct pull *pull, const struct pull_target *target);

/* For its session: the state is another; one line in the log. */
void pull_log_state(const struct pull *pull);

#endif
