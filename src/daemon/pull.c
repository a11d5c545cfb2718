#include "daemon/pull.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/object_id.h"
#include "daemon/pull_session.h"
#include "daemon/server.h"

struct pulls {
    struct worker *worker;
    struct pull *list;
    connect_fn *connect;
    void *connector;
};

static void connected(struct connect_job *job);

static bool is_ours(const struct worker *worker, const struct pull_option *option) {
    return server_owner(worker->server, option->name, strlen(option->name)) == worker;
}

int pulls_new(struct worker *worker, struct pulls **ret_pulls) {
    struct pulls *pulls = calloc(1, sizeof *pulls);
    if (!pulls)
        return -ENOMEM;
    pulls->worker = worker;
    *ret_pulls = pulls;
    return 0;
}

static void free_pull(struct pull *pull) {
    explicit_bzero(pull, sizeof *pull);
    free(pull);
}

void pulls_forget(struct pull *made) {
    for (struct pull *next; made; made = next) {
        next = made->next;
        free_pull(made);
    }
}

void pulls_free(struct pulls *pulls) {
    if (!pulls)
        return;
    pulls_forget(pulls->list);
    free(pulls);
}

static bool has(const struct pulls *pulls, const struct pull_option *option) {
    for (const struct pull *pull = pulls->list; pull; pull = pull->next)
        if (!pull->is_removed && pull_option_equal(pull->option, option))
            return true;
    return false;
}

static bool is_among(const struct pull_options *options, const struct pull_option *option) {
    for (size_t i = 0; i < options->count; i++)
        if (pull_option_equal(&options->list[i], option))
            return true;
    return false;
}

int pulls_prepare(struct pulls *pulls, const struct pull_options *options, struct pull **ret_made) {
    struct worker *worker = pulls->worker;
    struct pull *made = NULL, **end = &made;
    for (size_t i = 0; i < options->count; i++) {
        if (!is_ours(worker, &options->list[i]) || has(pulls, &options->list[i]))
            continue;
        struct pull *pull = calloc(1, sizeof *pull);
        if (!pull) {
            pulls_forget(made);
            return -ENOMEM;
        }
        pull->id = object_id_new();
        pull->worker = worker;
        pull->copy = options->list[i];
        pull->option = &pull->copy;
        pull->target = pull->option->target;
        pull->job = (struct connect_job){.loop = worker->loop, .done = connected, .user = pull, .fd = -1};
        pull_machine_init(&pull->machine, pull->option->on_demand, worker_now(worker));
        *end = pull;
        end = &pull->next;
    }
    *ret_made = made;
    return 0;
}

void pulls_set_connector(struct pulls *pulls, connect_fn *connect, void *connector) {
    pulls->connect = connect;
    pulls->connector = connector;
}

void pull_log_state(const struct pull *pull) {
    enum pull_state state = pull->machine.state;
    enum log_level level = state == PULL_BACKOFF                         ? LOG_WARNING
                           : state == PULL_IDLE || state == PULL_PLAYING ? LOG_INFO
                                                                         : LOG_DEBUG;
    const char *name = pull_state_name(state);
    if (state != PULL_BACKOFF) {
        LOG(level, "pull", {"stream", pull->option->name}, {"from", pull->target.place}, {"state", name});
        return;
    }
    uint64_t wait = pull->machine.retry_at - pull->machine.since;
    LOG(level, "pull", {"stream", pull->option->name}, {"from", pull->target.place}, {"state", name},
        {"reason", pull->reason}, {"failures", log_unsigned(pull->machine.failures).text},
        {"retry_ms", log_unsigned(wait).text});
}

void pull_fail(struct pull *pull, const char *reason) {
    uint32_t random = 0;
    pull->session = NULL;
    (void)!getrandom(&random, sizeof random, 0);
    snprintf(pull->reason, sizeof pull->reason, "%s", reason);
    pull_failed(&pull->machine, worker_now(pull->worker), random);
    pull_log_state(pull);
}

static bool is_taken(const struct pull *pull) {
    const struct stream *stream = registry_find(pull->worker->registry, pull->option->name);
    return stream && claim_is_held(stream);
}

static void begin_connecting(struct pull *pull) {
    const struct pulls *pulls = pull->worker->pulls;
    pull_log_state(pull);
    if (pull->job_is_out) {
        /* A name server that takes its time: there is one question at a time. */
        pull_fail(pull, "the last attempt is still looking the name up");
    } else if (is_taken(pull)) {
        pull_fail(pull, "the stream has a publisher");
    } else {
        memcpy(pull->job.host, pull->target.host, sizeof pull->job.host);
        pull->job.port = pull->target.port;
        pull->job_is_out = true;
        pulls->connect(pulls->connector, &pull->job);
    }
}

static void begin(struct pull *pull) {
    pull->target = pull->option->target;
    begin_connecting(pull);
}

void pull_redirect(struct pull *pull, const struct pull_target *target) {
    pull->session = NULL;
    if (pull_redirected(&pull->machine, worker_now(pull->worker)) < 0) {
        pull_fail(pull, "too many redirects");
        return;
    }
    pull->target = *target;
    begin_connecting(pull);
}

static void start_session(struct pull *pull, int fd) {
    const struct connect_job *job = &pull->job;
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const struct rtsp_login login = {
        /* Another host is not told what was meant for this one. */
        .user = pull->option->has_user && strcasecmp(pull->target.host, pull->option->target.host) == 0
                    ? pull->option->user
                    : NULL,
        .password = pull->option->password,
        .has_digest = pull->has_digest,
    };
    int error = pull_session_start(pull, fd, &job->address, &login, &pull->session);
    if (error) {
        close(fd);
        pull_fail(pull, strerror(-error));
    }
}

static void take_out(struct pull *pull) {
    struct pull **link = &pull->worker->pulls->list;
    while (*link != pull)
        link = &(*link)->next;
    *link = pull->next;
    free_pull(pull);
}

/* The job is back. What it is about may be over: then the connection is of no use. */
static void connected(struct connect_job *job) {
    struct pull *pull = job->user;
    int fd = job->fd;
    job->fd = -1;
    pull->job_is_out = false;
    if (pull->is_removed) {
        if (fd >= 0)
            close(fd);
        take_out(pull);
        return;
    }
    bool current = pull->machine.state == PULL_CONNECTING && strcmp(job->host, pull->target.host) == 0 &&
                   job->port == pull->target.port && !pull->worker->draining && !pull->worker->leaving;
    if (!current) {
        if (fd >= 0)
            close(fd);
    } else if (job->error) {
        pull_fail(pull, job->error == -ENOENT ? "no such host" : strerror(-job->error));
    } else {
        start_session(pull, fd);
    }
}

/* Ends what is under way. */
static void leave(struct pull *pull, int error) {
    struct pull_session *session = pull->session;
    pull->session = NULL;
    if (session)
        pull_session_leave(session, error);
}

static void give_up(struct pull *pull) {
    static const char *const reasons[] = {
        [PULL_CONNECTING] = "no connection in time", [PULL_OPTIONS] = "no answer to OPTIONS",
        [PULL_DESCRIBE] = "no answer to DESCRIBE",   [PULL_SETUP] = "no answer to SETUP",
        [PULL_PLAY] = "no answer to PLAY",           [PULL_PLAYING] = "no media for too long",
    };
    const char *reason = reasons[pull->machine.state];
    leave(pull, -ETIMEDOUT);
    pull_fail(pull, reason);
}

static void obey(struct pull *pull, enum pull_order order) {
    switch (order) {
    case PULL_NOTHING:
        break;
    case PULL_CONNECT:
        begin(pull);
        break;
    case PULL_KEEP_ALIVE:
        pull_session_keep_alive(pull->session);
        break;
    case PULL_LEAVE:
        leave(pull, 0);
        pull->reason[0] = '\0';
        pull_log_state(pull);
        break;
    case PULL_GIVE_UP:
        give_up(pull);
        break;
    }
}

void pulls_tick(struct pulls *pulls, uint64_t now) {
    for (struct pull *pull = pulls->list; pull; pull = pull->next) {
        const struct stream *stream = registry_find(pull->worker->registry, pull->option->name);
        obey(pull, pull_tick(&pull->machine, now, stream && stream_player_count(stream) > 0));
    }
}

void pulls_want(struct pulls *pulls, const struct stream *stream) {
    for (struct pull *pull = pulls->list; pull; pull = pull->next)
        if (strcmp(pull->option->name, stream->name) == 0)
            obey(pull, pull_wanted(&pull->machine, worker_now(pull->worker)));
}

static void stop(struct pull *pull, int error) {
    leave(pull, error);
    pull_stop(&pull->machine, worker_now(pull->worker));
    pull_log_state(pull);
}

void pulls_stop(struct pulls *pulls) {
    for (struct pull *pull = pulls->list; pull; pull = pull->next)
        if (!pull->is_removed)
            stop(pull, -ESHUTDOWN);
}

void pulls_resume(struct pulls *pulls) {
    for (struct pull *pull = pulls->list; pull; pull = pull->next) {
        if (pull->is_removed)
            continue;
        pull_resume(&pull->machine, worker_now(pull->worker));
        pull_log_state(pull);
    }
}

/* Its memory goes when the connector has nothing of it any more. */
static void remove_pull(struct pull *pull) {
    stop(pull, 0);
    pull->is_removed = true;
    if (!pull->job_is_out)
        take_out(pull);
}

void pulls_set(struct pulls *pulls, const struct pull_options *options, struct pull *made) {
    struct pull *next;
    for (struct pull *pull = pulls->list; pull; pull = next) {
        next = pull->next;
        if (!pull->is_removed && !is_among(options, pull->option))
            remove_pull(pull);
    }
    struct pull **end = &pulls->list;
    while (*end)
        end = &(*end)->next;
    *end = made;
}

void pulls_each(const struct pulls *pulls, void (*call)(const struct pull *pull, void *user), void *user) {
    for (const struct pull *pull = pulls->list; pull; pull = pull->next)
        if (!pull->is_removed)
            call(pull, user);
}
