#include "daemon/server/server_reload.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What a worker does of it. */
struct part {
    struct job *job;
    struct worker *worker;
    struct components_prepared prepared;
    int error;
    sluice_call call;
};

/*
 * Two rounds over all workers. In the first, each makes what may fail for want of memory. Then the
 * first worker changes the listeners, which may fail too. In the second, each puts the options in
 * force, which cannot fail.
 */
struct job {
    struct server *server;
    const struct options *options;
    sluice_tls_context *tls; /* NULL: there is none */
    server_reloaded_fn *done;
    void *user;
    sluice_call decide_call;
    atomic_uint left; /* workers that have not done their part of the round */
    struct part part[];
};

static void free_job(struct job *job) {
    options_unref(job->options);
    sluice_tls_context_unref(job->tls);
    free(job);
}

/* On a worker's thread; the last that is done with the job. */
static void end(struct job *job, int error, const char *reason) {
    struct server *server = job->server;
    job->done(error,
              *reason               ? reason
              : error == -ESHUTDOWN ? "server shutting down"
              : error               ? "out of memory"
                                    : "",
              job->user);
    free_job(job);
    server_release(server);
}

static void refuse(struct job *job, int error, const char *reason) {
    for (uint32_t i = 0; i < server_worker_count(job->server); i++)
        components_discard(&job->part[i].prepared);
    end(job, error, reason);
}

static void post_all(struct job *job, sluice_loop_fn *call) {
    uint32_t count = server_worker_count(job->server);
    atomic_store(&job->left, count);
    for (uint32_t i = 0; i < count; i++)
        sluice_loop_post_call(job->part[i].worker->loop, &job->part[i].call, call, &job->part[i]);
}

/* A worker that stops meanwhile has no use for what its components have made. */
static void put_in_force(void *user) {
    struct part *part = user;
    struct job *job = part->job;
    const struct components *components = &part->worker->components;
    worker_set_options(part->worker, job->options);
    if (part->worker->draining || part->worker->leaving)
        components_discard(&part->prepared);
    else
        components_commit(components, job->options, &part->prepared);
    if (atomic_fetch_sub(&job->left, 1) == 1)
        end(job, 0, "");
}

/* On the first worker's thread: all have prepared their parts. */
static void decide(void *user) {
    struct job *job = user;
    struct worker *first = server_worker(job->server, 0);
    char reason[LISTENERS_ERROR] = "";
    int error = first->draining || first->leaving ? -ESHUTDOWN : 0;
    for (uint32_t i = 0; i < server_worker_count(job->server) && !error; i++)
        error = job->part[i].error;
    if (!error)
        error = listeners_set(first->listeners, job->options, reason);
    if (error) {
        refuse(job, error, reason);
        return;
    }
    /* Before a new listener has accepted. */
    server_set_tls_context(job->server, job->tls);
    post_all(job, put_in_force);
}

static void prepare(void *user) {
    struct part *part = user;
    struct job *job = part->job;
    struct worker *worker = part->worker;
    part->error = worker->draining || worker->leaving
                      ? -ESHUTDOWN
                      : components_prepare(&worker->components, job->options, &part->prepared);
    if (atomic_fetch_sub(&job->left, 1) > 1)
        return;
    /* Where the workers are being freed after a run that has failed, the first may be gone. */
    if (server_is_over(job->server))
        refuse(job, -ESHUTDOWN, "");
    else
        sluice_loop_post_call(server_worker(job->server, 0)->loop, &job->decide_call, decide, job);
}

int server_reload(struct server *server, const struct options *options, sluice_tls_context *tls,
                  server_reloaded_fn *done, void *user) {
    uint32_t count = server_worker_count(server);
    struct job *job = calloc(1, sizeof *job + count * sizeof *job->part);
    if (!job)
        return -ENOMEM;
    if (!server_hold(server)) {
        free(job);
        return -ESHUTDOWN;
    }
    job->server = server;
    job->options = options_ref(options);
    job->tls = tls ? sluice_tls_context_ref(tls) : NULL;
    job->done = done;
    job->user = user;
    for (uint32_t i = 0; i < count; i++)
        job->part[i] = (struct part){.job = job, .worker = server_worker(server, i)};
    post_all(job, prepare);
    return 0;
}
