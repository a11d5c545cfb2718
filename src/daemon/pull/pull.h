/*
 * Pulls: streams that the server fetches from cameras and other servers, by a protocol that the
 * URL's scheme selects (pull_type.h). A pull of the configuration lives as long as the options have
 * it; one that the API has made, until the API removes it, or its time to live is over, or the
 * configuration has a pull of that stream. It lives on its stream's worker, and makes one
 * connection after the other. The worker's thread only, unless said otherwise.
 */
#ifndef SLUICED_PULL_H
#define SLUICED_PULL_H

#include <sys/queue.h>

#include "daemon/config/pull_option.h"
#include "daemon/server/connect.h"
#include "daemon/server/outgoing.h"
#include "shared/rtmp_login.h"
#include "shared/rtsp_login.h"

enum {
    PULL_REASON = 128,
    PULLS_REQUESTED_MAX = 1000, /* pulls that are not of the configuration, of all workers */
};

struct server;
struct session;
struct session_type;
struct worker;

enum pull_source {
    PULL_CONFIGURED, /* the options have it */
    PULL_REQUESTED,  /* pulls_add() */
    PULL_OWNED,      /* pull_new_owned() */
};

struct pull;
struct stream_source;

/*
 * What a component decides of pulls of its own: one attempt each, which it begins, and which is not
 * repeated. Only pulls by HTTP have owners.
 */
struct pull_owner {
    /* The fields of a request for that path, besides the pull's own, each with its end. Bytes, or
     * -errno */
    int (*write_fields)(const struct pull *pull, const char *path, char *buffer, size_t size);

    /* A response has come. NULL: it is taken as of any other pull; or why it is not, which ends the
     * attempt */
    const char *(*judge)(struct pull *pull, const sluice_http_response *response);

    /* Its publisher comes. */
    void (*describe)(const struct pull *pull, struct stream_source *source);

    void (*playing)(struct pull *pull);

    /*
     * The attempt has failed, or its stream has ended, as pull->reason says. The pull is discarded
     * later, not in this call. @error: 0: the server has ended the stream; as for publisher_end()
     */
    void (*failed)(struct pull *pull, int error);
};

struct pull {
    struct pull *next;
    uint64_t id;
    enum pull_source source;
    const struct pull_owner *owner; /* of PULL_OWNED; or NULL */
    void *user;                     /* the owner's */
    uint64_t ttl_ms;                /* 0: it does not expire */
    uint64_t expires_at;            /* loop time; 0 likewise */
    LIST_ENTRY(pull) link;          /* of a requested one: in the list of all workers */
    struct worker *worker;
    struct pull_option option; /* a copy: options come and go */
    struct outgoing machine;
    struct pull_target target; /* the option's, or where it has been redirected to */
    struct connect_job job;
    bool job_is_out;             /* with the connector */
    sluice_tls_context *context; /* of the connection that begins; or NULL */
    bool is_removed;             /* it only waits for its job */
    struct session *session;     /* NULL without a connection; as the type has made it */
    const char *step;            /* of the type's, static, while it negotiates; or NULL */
    /* the camera has offered Digest once: it is not shown the password itself */
    bool has_digest;
    struct rtmp_login login;  /* of an attempt by RTMP, which takes several connections for it */
    struct rtsp_login http;   /* by HTTP: of all attempts: the challenge counts for the next */
    char reason[PULL_REASON]; /* why it failed last; empty before that, and when it plays */
};

/*
 * Adds the pulls of the options to each worker, as a component (component.h); before the run.
 * @connect: makes their connections. 0, or what server_add_component() says
 */
int pulls_register(struct server *server, connect_fn *connect, void *connector);

/*
 * Makes a pull that is not of the configuration, to be given to pulls_add() or pull_free(). Any
 * thread. The option is copied. @ttl_ms: for so long from pulls_add() on; 0: until it is removed 0,
 * -ENOMEM
 */
int pull_new(const struct pull_option *option, uint64_t ttl_ms, struct pull **ret_pull);

/* Forgets its password, too. NULL is allowed. */
void pull_free(struct pull *pull);

/*
 * Begins it. It is the worker's on success. 0, -ENOENT (the stream is another worker's, or this one
 * pulls nothing), -EEXIST (a pull of that stream is there), -ENOSPC (there are
 * PULLS_REQUESTED_MAX), -ESHUTDOWN (the server stops, or another process takes over)
 */
int pulls_add(struct worker *worker, struct pull *pull);

/*
 * 0, -ENOENT (this worker has no such pull), -EPERM (it is of the configuration), -ESHUTDOWN
 * (another process takes over)
 */
int pulls_remove(struct worker *worker, uint64_t id);

/*
 * A pull of another component's, for one attempt: nothing happens before pull_begin(). The worker
 * has pulls_register(). 0, -ENOMEM
 */
int pull_new_owned(struct worker *worker, const struct pull_option *option, const struct pull_owner *owner, void *user,
                   struct pull **ret_pull);
void pull_begin(struct pull *pull);

/* Deadlines, as often as a component ticks. @now: loop time */
void pull_tick(struct pull *pull, uint64_t now);

/* Ends it, without a call of its owner's. NULL is allowed. @error: as for publisher_end() */
void pull_discard(struct pull *pull, int error);

/* Of one worker; without those of other components. */
void pulls_each(const struct worker *worker, void (*call)(const struct pull *pull, void *user), void *user);

/*
 * Calls for each pull that is not of the configuration, of all workers, whatever these are at. Any
 * thread; workers wait meanwhile that add or remove such a pull. @ttl_ms: what is left of it, at
 * least 1; 0: it does not expire
 */
typedef void pulls_requested_fn(const struct pull_option *option, uint64_t ttl_ms, void *user);
void pulls_each_requested(struct server *server, pulls_requested_fn *call, void *user);

/*
 * For its session: something went wrong. The type's leave() is called with @error, and the pull
 * tries again after a while. @format: the reason, in a few words. NULL is allowed: one has let go
 * of the other already
 */
__attribute__((format(printf, 3, 4))) void pull_fail(struct pull *pull, int error, const char *format, ...);

/*
 * For its type: a session of that type begins on the socket, with TLS if the target asks for it. As
 * session_start_outgoing().
 */
int pull_start_session(struct pull *pull, const struct session_type *session, int fd, struct session **ret_session);

/* For its session, whose connection has failed: pull_fail() with the reason. NULL is allowed. */
void pull_fail_connection(struct pull *pull, const struct session *session, int error);

/* For its session's tick: while it was not read, no deadline of the pull's has gone on. */
void pull_held_up(struct pull *pull, uint64_t now);

/* For its session, which has let go likewise: the camera is at another place. */
void pull_redirect(struct pull *pull, const struct pull_target *target);

/* For its session, while it negotiates: what it is waiting for. @step: one word; static */
void pull_begin_step(struct pull *pull, const char *step);

/* For its session: media come. */
void pull_begin_playing(struct pull *pull);

#endif
