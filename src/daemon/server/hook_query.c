#include "daemon/server/hook_query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/auth_log.h"
#include "daemon/server/server.h"

static void answer(struct hook_query *job, bool granted) {
    struct session *session = job->session;
    struct worker *worker = session->worker;
    hook_query_cancel(session);
    if (!granted)
        auth_log_write(&worker->auth_log, worker_now(worker), job->protocol, job->peer, &job->host, 403, NULL);
    job->answered(session, granted);
}

static void free_job(struct hook_query *job) {
    if (job->query)
        explicit_bzero(job->query, strlen(job->query));
    free(job->query);
    free(job);
}

/* On the session's thread. */
static void come_back(struct hook_query *job) {
    if (job->session)
        answer(job, job->granted);
    free_job(job);
}

void hook_query_tick(struct session *session, uint64_t now) {
    if (session->hook && now >= session->hook->deadline)
        answer(session->hook, false);
}

int hook_query_start(struct session *session, const struct hook_query_about *question, hook_query_done_fn *answered) {
    struct worker *worker = session->worker;
    const struct options *options = worker->options;
    const struct hook_url *url = &options->hooks[question->event];
    if (!*url->host)
        return 0;
    struct hook_query *job = calloc(1, sizeof *job);
    if (!job || question->stream.length > STREAM_NAME) {
        free(job);
        return -ENOMEM;
    }
    *job = (struct hook_query){.event = question->event,
                               .url = *url,
                               .deadline = worker_now(worker) + options->hook_ms,
                               .host = cidr_host(&session->peer_address),
                               .protocol = question->protocol,
                               .of_recording = question->recording,
                               .loop = worker->loop,
                               .done = come_back,
                               .session = session,
                               .answered = answered};
    memcpy(job->stream, question->stream.text, question->stream.length);
    if (question->query && *question->query && !(job->query = strdup(question->query))) {
        free_job(job);
        return -ENOMEM;
    }
    if (question->recording)
        snprintf(job->recording, sizeof job->recording, "%s", question->recording);
    memcpy(job->peer, session->peer, sizeof job->peer);
    session->hook = job;
    if (server_ask_hook(worker->server, job))
        return 1;
    session->hook = NULL;
    free_job(job);
    return -ESHUTDOWN;
}

void hook_query_cancel(struct session *session) {
    if (!session->hook)
        return;
    session->hook->session = NULL;
    session->hook = NULL;
}
