#include "daemon/pull/pull.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/object_id.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "shared/clock.h"

/* What the workers' pulls have in common. Freed with the last of them. */
struct shared {
    atomic_uint references;
    connect_fn *connect;
    void *connector;

    pthread_mutex_t lock; /* of the fields below */
    /* pulls that are not of the configuration; what others than their workers may read of them does
     * not change while they are here */
    LIST_HEAD(, pull) requested;
    unsigned requested_count;
};

struct pulls {
    struct worker *worker;
    struct shared *shared;
    struct pull *list;
};

static const struct component_type type;

static void connected(struct connect_job *job);

static struct pulls *pulls_of(const struct worker *worker) {
    return components_find(&worker->components, &type);
}

static void unref(struct shared *shared) {
    if (atomic_fetch_sub(&shared->references, 1) > 1)
        return;
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

/* 0, -ENOSPC */
static int list_requested(struct shared *shared, struct pull *pull) {
    pthread_mutex_lock(&shared->lock);
    const bool has_room = shared->requested_count < PULLS_REQUESTED_MAX;
    if (has_room) {
        LIST_INSERT_HEAD(&shared->requested, pull, link);
        shared->requested_count++;
    }
    pthread_mutex_unlock(&shared->lock);
    return has_room ? 0 : -ENOSPC;
}

static void unlist_requested(struct shared *shared, struct pull *pull) {
    pthread_mutex_lock(&shared->lock);
    LIST_REMOVE(pull, link);
    shared->requested_count--;
    pthread_mutex_unlock(&shared->lock);
}

void pulls_each_requested(struct server *server, pulls_requested_fn *call, void *user) {
    const struct pulls *pulls = pulls_of(server_worker(server, 0));
    const uint64_t now = clock_ms();
    if (!pulls)
        return;
    const struct pull *pull;
    pthread_mutex_lock(&pulls->shared->lock);
    LIST_FOREACH(pull, &pulls->shared->requested, link) {
        const bool is_over = pull->expires_at > 0 && pull->expires_at <= now;
        call(&pull->option, is_over ? 1 : pull->expires_at > 0 ? pull->expires_at - now : 0, user);
    }
    pthread_mutex_unlock(&pulls->shared->lock);
}

static bool is_ours(const struct worker *worker, const struct pull_option *option) {
    return server_owner(worker->server, option->name, strlen(option->name)) == worker;
}

int pull_new(const struct pull_option *option, uint64_t ttl_ms, struct pull **ret_pull) {
    struct pull *pull = calloc(1, sizeof *pull);
    if (!pull)
        return -ENOMEM;
    pull->id = object_id_new();
    pull->source = PULL_REQUESTED;
    pull->ttl_ms = ttl_ms;
    pull->option = *option;
    pull->target = pull->option.target;
    *ret_pull = pull;
    return 0;
}

void pull_free(struct pull *pull) {
    if (!pull)
        return;
    /* A job that has not come back in the run's time. */
    sluice_tls_context_unref(pull->job.context);
    explicit_bzero(pull, sizeof *pull);
    free(pull);
}

/* It is one of this worker's from now on, and can begin. */
static void settle(struct pull *pull, struct worker *worker) {
    pull->worker = worker;
    pull->job = (struct connect_job){.loop = worker->loop, .done = connected, .user = pull, .fd = -1};
    outgoing_init(&pull->machine, pull->option.on_demand, worker_now(worker));
}

static void discard(void *prepared) {
    for (struct pull *pull = prepared, *next; pull; pull = next) {
        next = pull->next;
        pull_free(pull);
    }
}

static int open_pulls(struct worker *worker, void *user, void **ret_component) {
    struct pulls *pulls = calloc(1, sizeof *pulls);
    if (!pulls)
        return -ENOMEM;
    pulls->worker = worker;
    pulls->shared = user;
    atomic_fetch_add(&pulls->shared->references, 1);
    *ret_component = pulls;
    return 0;
}

static void close_pulls(void *component) {
    struct pulls *pulls = component;
    for (struct pull *pull = pulls->list; pull; pull = pull->next)
        if (pull->source == PULL_REQUESTED && !pull->is_removed)
            unlist_requested(pulls->shared, pull);
    discard(pulls->list);
    unref(pulls->shared);
    free(pulls);
}

static bool has(const struct pulls *pulls, const struct pull_option *option) {
    for (const struct pull *pull = pulls->list; pull; pull = pull->next)
        if (!pull->is_removed && pull->source == PULL_CONFIGURED && pull_option_equal(&pull->option, option))
            return true;
    return false;
}

/* Whether the options keep the pull: they have it, or it is not theirs and they have none of that
 * stream. */
static bool keep(const struct pull_options *options, const struct pull *pull) {
    const bool is_configured = pull->source == PULL_CONFIGURED;
    for (size_t i = 0; i < options->count; i++)
        if (is_configured ? pull_option_equal(&options->list[i], &pull->option)
                          : strcmp(options->list[i].name, pull->option.name) == 0)
            return is_configured;
    return !is_configured;
}

static int prepare(void *component, const struct options *options, void **ret_prepared) {
    const struct pulls *pulls = component;
    struct pull *made = NULL, **end = &made;
    for (size_t i = 0; i < options->pulls.count; i++) {
        const struct pull_option *option = &options->pulls.list[i];
        if (!is_ours(pulls->worker, option) || has(pulls, option))
            continue;
        struct pull *pull;
        int error = pull_new(option, 0, &pull);
        if (error) {
            discard(made);
            return error;
        }
        pull->source = PULL_CONFIGURED;
        settle(pull, pulls->worker);
        *end = pull;
        end = &pull->next;
    }
    *ret_prepared = made;
    return 0;
}

static void log_state(const struct pull *pull) {
    const struct outgoing_words words = {.event = "pull",
                                         .direction = "from",
                                         .stream = pull->option.name,
                                         .place = pull->target.place,
                                         .step = pull->step,
                                         .reason = pull->reason,
                                         .active = outgoing_state_name(OUTGOING_ACTIVE),
                                         .waiting = LOG_INFO};
    outgoing_log(&pull->machine, &words);
}

void pull_begin_step(struct pull *pull, const char *step) {
    const bool is_new = !pull->step || strcmp(pull->step, step) != 0;
    outgoing_step_begun(&pull->machine, worker_now(pull->worker));
    pull->step = step;
    if (is_new)
        log_state(pull);
}

void pull_begin_playing(struct pull *pull) {
    outgoing_started(&pull->machine, worker_now(pull->worker));
    pull->reason[0] = '\0';
    log_state(pull);
    if (pull->owner)
        pull->owner->playing(pull);
}

void pull_held_up(struct pull *pull, uint64_t now) {
    outgoing_step_begun(&pull->machine, now);
    outgoing_media(&pull->machine, now);
}

/* Its owner decides what comes then. */
static void end_attempt(struct pull *pull, int error) {
    outgoing_stop(&pull->machine, worker_now(pull->worker));
    pull->owner->failed(pull, error);
}

/* It has no session any more. */
static void back_off(struct pull *pull, int error, const char *reason) {
    uint32_t random = 0;
    pull->session = NULL;
    snprintf(pull->reason, sizeof pull->reason, "%s", reason);
    if (pull->owner) {
        end_attempt(pull, error);
        return;
    }
    (void)!getrandom(&random, sizeof random, 0);
    outgoing_failed(&pull->machine, worker_now(pull->worker), random);
    log_state(pull);
}

/* Ends what is under way. */
static void leave(struct pull *pull, int error) {
    struct session *session = pull->session;
    pull->session = NULL;
    if (session)
        pull->option.type->leave(session, error);
}

void pull_fail(struct pull *pull, int error, const char *format, ...) {
    char reason[PULL_REASON];
    va_list arguments;
    if (!pull)
        return;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    leave(pull, error);
    back_off(pull, error, reason);
}

static bool is_taken(const struct pull *pull) {
    const struct stream *stream = registry_find(pull->worker->registry, pull->option.name);
    return stream && publish_lock_is_held(stream);
}

static void begin_connecting(struct pull *pull) {
    const struct shared *shared = pulls_of(pull->worker)->shared;
    pull->step = NULL;
    log_state(pull);
    if (pull->job_is_out) {
        /* A name server that takes its time: there is one question at a time. */
        back_off(pull, -EALREADY, "the last attempt is still looking the name up");
    } else if (!pull->owner && is_taken(pull)) {
        back_off(pull, -EEXIST, "name in use");
    } else {
        memcpy(pull->job.host, pull->target.host, sizeof pull->job.host);
        pull->job.port = pull->target.port;
        pull->job.is_secure = pull->target.is_secure;
        pull->job.alpn = pull->option.type->scheme.alpn;
        pull->job_is_out = true;
        shared->connect(shared->connector, &pull->job);
    }
}

static void begin(struct pull *pull) {
    pull->target = pull->option.target;
    rtsp_login_begin(&pull->http);
    begin_connecting(pull);
}

void pull_redirect(struct pull *pull, const struct pull_target *target) {
    pull->session = NULL;
    if (outgoing_redirected(&pull->machine, worker_now(pull->worker)) < 0) {
        back_off(pull, -ELOOP, "too many redirects");
        return;
    }
    pull->target = *target;
    begin_connecting(pull);
}

int pull_start_session(struct pull *pull, const struct session_type *session, int fd, struct session **ret_session) {
    const struct session_secure secure = {pull->context, pull->target.host};
    return session_start_outgoing(session, pull->worker, fd, &pull->job.address,
                                  pull->target.is_secure ? &secure : NULL, ret_session);
}

void pull_fail_connection(struct pull *pull, const struct session *session, int error) {
    char reason[SESSION_FAILURE];
    if (!pull)
        return;
    session_explain(session, error, reason);
    pull_fail(pull, error, "%s", reason);
}

static void start_session(struct pull *pull, int fd) {
    server_tune_socket(fd);
    int error = pull->option.type->start(pull, fd, &pull->session);
    if (error) {
        close(fd);
        back_off(pull, error, strerror(-error));
    }
}

static void take_out(struct pull *pull) {
    struct pull **link = &pulls_of(pull->worker)->list;
    while (*link != pull)
        link = &(*link)->next;
    *link = pull->next;
    pull_free(pull);
}

/* The job is back. What it is about may be over: then the connection is of no use. */
static void connected(struct connect_job *job) {
    struct pull *pull = job->user;
    int fd = job->fd;
    pull->context = job->context;
    job->context = NULL;
    job->fd = -1;
    pull->job_is_out = false;
    bool current = !pull->is_removed && pull->machine.state == OUTGOING_CONNECTING &&
                   strcmp(job->host, pull->target.host) == 0 && job->port == pull->target.port &&
                   job->is_secure == pull->target.is_secure && !pull->worker->draining && !pull->worker->leaving;
    if (!current) {
        if (fd >= 0)
            close(fd);
    } else if (job->error) {
        back_off(pull, job->error, job->error == -ENOENT ? "no such host" : strerror(-job->error));
    } else {
        start_session(pull, fd);
    }
    sluice_tls_context_unref(pull->context);
    pull->context = NULL;
    if (pull->is_removed)
        take_out(pull);
}

static void give_up(struct pull *pull) {
    const char *reason = "no media for too long";
    if (pull->machine.state == OUTGOING_CONNECTING)
        reason = "no connection in time";
    if (pull->machine.state == OUTGOING_NEGOTIATING)
        pull_fail(pull, -ETIMEDOUT, "no answer to %s",
                  pull->session && session_is_shaking(pull->session) ? "the TLS handshake"
                  : pull->step                                       ? pull->step
                                                                     : "the connection");
    else
        pull_fail(pull, -ETIMEDOUT, "%s", reason);
}

static void obey(struct pull *pull, enum outgoing_order order) {
    switch (order) {
    case OUTGOING_NOTHING:
        break;
    case OUTGOING_CONNECT:
        begin(pull);
        break;
    case OUTGOING_KEEP_ALIVE:
        if (pull->option.type->keep_alive)
            pull->option.type->keep_alive(pull->session);
        break;
    case OUTGOING_LEAVE:
        leave(pull, 0);
        pull->reason[0] = '\0';
        log_state(pull);
        break;
    case OUTGOING_GIVE_UP:
        give_up(pull);
        break;
    }
}

/* It begins no connection any more. */
static void halt(struct pull *pull, int error) {
    leave(pull, error);
    outgoing_stop(&pull->machine, worker_now(pull->worker));
    log_state(pull);
}

/* Its memory goes when the connector has nothing of it any more. */
static void remove_pull(struct pull *pull, const char *reason) {
    halt(pull, 0);
    LOG(LOG_INFO, "pull removed", {"stream", pull->option.name}, {"from", pull->target.place}, {"reason", reason});
    pull->is_removed = true;
    if (pull->source == PULL_REQUESTED)
        unlist_requested(pulls_of(pull->worker)->shared, pull);
    if (!pull->job_is_out)
        take_out(pull);
}

static void tick_pull(struct pull *pull, uint64_t now) {
    const struct stream *stream = registry_find(pull->worker->registry, pull->option.name);
    if (pull->is_removed)
        return;
    if (pull->expires_at > 0 && now >= pull->expires_at)
        remove_pull(pull, "its time to live is over");
    else
        obey(pull, outgoing_tick(&pull->machine, now, stream && stream_player_count(stream) > 0));
}

static void tick(void *component, uint64_t now) {
    const struct pulls *pulls = component;
    for (struct pull *pull = pulls->list, *next; pull; pull = next) {
        next = pull->next;
        tick_pull(pull, now);
    }
}

static void needed(void *component, const char *name) {
    const struct pulls *pulls = component;
    for (struct pull *pull = pulls->list; pull; pull = pull->next)
        if (!pull->is_removed && strcmp(pull->option.name, name) == 0)
            obey(pull, outgoing_wanted(&pull->machine, worker_now(pull->worker)));
}

static void wanted(void *component, const struct stream *stream) {
    needed(component, stream->name);
}

static void stop(void *component) {
    const struct pulls *pulls = component;
    for (struct pull *pull = pulls->list; pull; pull = pull->next)
        if (!pull->is_removed)
            halt(pull, -ESHUTDOWN);
}

static void resume(void *component) {
    const struct pulls *pulls = component;
    for (struct pull *pull = pulls->list; pull; pull = pull->next) {
        if (pull->is_removed)
            continue;
        outgoing_resume(&pull->machine, worker_now(pull->worker));
        log_state(pull);
    }
}

static void append(struct pulls *pulls, struct pull *list) {
    struct pull **end = &pulls->list;
    while (*end)
        end = &(*end)->next;
    *end = list;
}

static void commit(void *component, const struct options *options, void *prepared) {
    struct pulls *pulls = component;
    for (struct pull *pull = pulls->list, *next; pull; pull = next) {
        next = pull->next;
        if (!pull->is_removed && !keep(&options->pulls, pull))
            remove_pull(pull, pull->source == PULL_CONFIGURED ? "the configuration is without it"
                                                              : "the configuration has a pull of that stream");
    }
    append(pulls, prepared);
}

static const struct component_type type = {
    .open = open_pulls,
    .prepare = prepare,
    .commit = commit,
    .discard = discard,
    .wanted = wanted,
    .needed = needed,
    .tick = tick,
    .stop = stop,
    .resume = resume,
    .close = close_pulls,
};

int pulls_register(struct server *server, connect_fn *connect, void *connector) {
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return -ENOMEM;
    atomic_init(&shared->references, 1);
    shared->connect = connect;
    shared->connector = connector;
    pthread_mutex_init(&shared->lock, NULL);
    int error = server_add_component(server, &type, shared);
    unref(shared);
    return error;
}

/* Pulls of other components */

int pull_new_owned(struct worker *worker, const struct pull_option *option, const struct pull_owner *owner, void *user,
                   struct pull **ret_pull) {
    struct pull *pull;
    int error = pull_new(option, 0, &pull);
    if (error)
        return error;
    pull->source = PULL_OWNED;
    pull->owner = owner;
    pull->user = user;
    settle(pull, worker);
    *ret_pull = pull;
    return 0;
}

void pull_begin(struct pull *pull) {
    obey(pull, outgoing_wanted(&pull->machine, worker_now(pull->worker)));
}

void pull_tick(struct pull *pull, uint64_t now) {
    if (pull->machine.state != OUTGOING_IDLE)
        obey(pull, outgoing_tick(&pull->machine, now, true));
}

/* Where the connector has its job, it waits for that among the others. */
void pull_discard(struct pull *pull, int error) {
    if (!pull)
        return;
    leave(pull, error);
    outgoing_stop(&pull->machine, worker_now(pull->worker));
    pull->is_removed = true;
    if (pull->job_is_out)
        append(pulls_of(pull->worker), pull);
    else
        pull_free(pull);
}

int pulls_add(struct worker *worker, struct pull *pull) {
    struct pulls *pulls = pulls_of(worker);
    if (!pulls || !is_ours(worker, &pull->option))
        return -ENOENT;
    if (worker->draining || worker->leaving)
        return -ESHUTDOWN;
    for (const struct pull *other = pulls->list; other; other = other->next)
        if (!other->is_removed && strcmp(other->option.name, pull->option.name) == 0)
            return -EEXIST;
    settle(pull, worker);
    if (pull->ttl_ms > 0)
        pull->expires_at = worker_now(worker) + pull->ttl_ms;
    int error = list_requested(pulls->shared, pull);
    if (error)
        return error;
    LOG(LOG_INFO, "pull added", {"stream", pull->option.name}, {"from", pull->target.place},
        {"mode", pull->option.on_demand ? "on-demand" : "always"}, {"ttl_ms", log_unsigned(pull->ttl_ms).text});
    append(pulls, pull);
    return 0;
}

int pulls_remove(struct worker *worker, uint64_t id) {
    const struct pulls *pulls = pulls_of(worker);
    for (struct pull *pull = pulls ? pulls->list : NULL; pull; pull = pull->next) {
        if (pull->is_removed || pull->id != id)
            continue;
        if (pull->source == PULL_CONFIGURED)
            return -EPERM;
        /* The other process has it already. */
        if (worker->leaving)
            return -ESHUTDOWN;
        remove_pull(pull, "the API has removed it");
        return 0;
    }
    return -ENOENT;
}

void pulls_each(const struct worker *worker, void (*call)(const struct pull *pull, void *user), void *user) {
    const struct pulls *pulls = pulls_of(worker);
    for (const struct pull *pull = pulls ? pulls->list : NULL; pull; pull = pull->next)
        if (!pull->is_removed)
            call(pull, user);
}
