/*
 * Forwards: streams that the server sends to other servers, by a protocol that the URL's scheme
 * selects (forward_type.h). A forward is one stream with one target. It begins when the tracks of
 * the stream are known, and ends when the stream's players would end, or when the configuration is
 * without it. It lives on its stream's worker, and makes one connection after the other, each of
 * which is a player of the stream. The worker's thread only, unless said otherwise.
 */
#ifndef SLUICED_FORWARD_H
#define SLUICED_FORWARD_H

#include <sys/queue.h>

#include "daemon/config/forward_option.h"
#include "daemon/relay/stream.h"
#include "daemon/server/connect.h"
#include "daemon/server/outgoing.h"
#include "shared/rtmp_login.h"

enum {
    FORWARD_REASON = 128,
    FORWARDS_MAX = 1000, /* of all workers: connections, too, but for those that end */
};

struct forward_session;
struct server;
struct worker;

struct forward {
    struct forward *next;
    uint64_t id;
    size_t position; /* of its option among those in force, from 0 */
    struct worker *worker;
    struct stream *stream;        /* a reference; NULL for one that is removed */
    struct forward_option option; /* a copy: options come and go */
    struct pull_target target;    /* the option's, for this stream */
    LIST_ENTRY(forward) link;     /* in the list of all workers, unless it is removed */
    struct outgoing machine;
    struct connect_job job;
    bool job_is_out;                 /* with the connector */
    sluice_tls_context *context;     /* of the connection that begins; or NULL */
    bool is_removed;                 /* it only waits for its job */
    struct forward_session *session; /* NULL without a connection */
    struct rtmp_login login;         /* RTMP: of the attempt */
    struct rtsp_login http;          /* HTTP: of all attempts, as for pulls */
    bool is_unexpected;              /* HTTP: the target refuses to be asked by "Expect" */
    /* RTSP: the target has offered Digest once: it is not shown the password itself */
    bool has_digest;
    const char *step;              /* of the type's, static, while it negotiates; or NULL */
    bool told_tracks, told_codecs; /* the log has it: forward_check_...() */
    struct stream_totals totals;   /* what was sent over earlier connections */
    char reason[FORWARD_REASON];   /* why it failed last; empty before that, and when it sends */
};

/*
 * Adds the forwards of the options to each worker, as a component (component.h); before the run.
 * @connect: makes their connections. 0, or what server_add_component() says
 */
int forwards_register(struct server *server, connect_fn *connect, void *connector);

/* Of one worker. */
void forwards_each(const struct worker *worker, void (*call)(const struct forward *forward, void *user), void *user);

/* The name of its state. */
const char *forward_state_name(enum outgoing_state state);

/* Which tracks it sends: "all", or "default" for the main ones. NULL: it does not send */
const char *forward_tracks_name(const struct forward *forward);

/* Whether the kernel encrypts what it sends (kTLS). */
bool forward_kernel_sends(const struct forward *forward);

/* What was sent over all its connections. */
void forward_get_totals(const struct forward *forward, struct stream_totals *ret_totals);

/* For its session, which has let go of the forward: something went wrong. @reason: in a few
 * words */
void forward_fail(struct forward *forward, const char *reason);

/* For its session, which has let go of the forward: another connection is needed, in the same
 * attempt. */
void forward_again(struct forward *forward);

/* For its session, while it negotiates: what it is waiting for. @step: one word; static */
void forward_begin_step(struct forward *forward, const char *step);

/* For its session: media are sent. */
void forward_begin_sending(struct forward *forward);

/* For its session, whose target gets the main tracks alone: logs the reason once if the stream has
 * others. */
void forward_check_tracks(struct forward *forward, const char *reason);

/* Likewise, where the target may know no codecs that have a FourCC: logs the reason once if a main
 * track has such a codec. */
void forward_check_codecs(struct forward *forward, const char *reason);

#endif
