#include "daemon/control/hook_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/log.h"
#include "daemon/control/hook_post.h"
#include "daemon/control/hook_queue.h"
#include "daemon/control/wakeup.h"
#include "shared/clock.h"
#include "shared/json.h"

/* A question that is being asked. */
struct question {
    struct hook_client *worker_query;
    LIST_ENTRY(question) link;
    struct hook_query *job;
    struct hook_post *call;
};

struct hook_client {
    struct hook_poster *poster;
    struct wakeup wakeup;
    LIST_HEAD(, question) questions;
    struct hook_queue *queue;
};

static void come_back(void *user) {
    struct hook_query *job = user;
    job->done(job);
}

static void give_back(struct hook_query *job, bool granted) {
    job->granted = granted;
    sluice_loop_post_call(job->loop, &job->call, come_back, job);
}

/* What is left until the session does not wait any more; 0: it does not. */
static uint64_t time_left(const struct hook_query *job) {
    uint64_t now = clock_ms();
    return now < job->deadline ? job->deadline - now : 0;
}

/* One that was taken out of the queue is no question any more. */
static void over(struct hook_client *worker_query, struct hook_query *job, bool granted) {
    hook_queue_done(worker_query->queue, &job->host);
    give_back(job, granted);
}

/* Gives the answer; the call is over. */
static void answer(struct question *question, bool granted) {
    struct hook_client *worker_query = question->worker_query;
    LIST_REMOVE(question, link);
    over(worker_query, question->job, granted);
    free(question);
}

static void ask_waiting(struct hook_client *worker_query);

static void log_failure(const struct hook_query *job, const char *reason) {
    LOG(LOG_WARNING, "hook query failed", {"hook", hook_kind_name(job->event)}, {"host", job->url.host},
        {"stream", job->stream}, {"reason", reason});
}

static void on_called(unsigned status, const char *reason, void *user) {
    struct question *question = user;
    struct hook_client *worker_query = question->worker_query;
    if (status == 0)
        log_failure(question->job, reason);
    answer(question, status >= 200 && status < 300);
    ask_waiting(worker_query);
}

/* To be freed. */
static struct json write_body(const struct hook_query *job) {
    struct json json = {0};
    json_open(&json, NULL, '{');
    json_put_string(&json, "event", hook_kind_name(job->event));
    json_put_string(&json, "stream", job->stream);
    json_put_string(&json, "protocol", job->protocol);
    json_put_string(&json, "address", job->peer);
    if (job->query)
        json_put_string(&json, "query", job->query);
    if (job->event == HOOK_PLAY && job->of_recording)
        json_put_string(&json, "recording", job->recording);
    else if (job->event == HOOK_PLAY)
        json_put_null(&json, "recording");
    json_close(&json, '}');
    return json;
}

static void begin(struct hook_client *worker_query, struct hook_query *job) {
    uint64_t left = time_left(job);
    struct question *question = left > 0 ? calloc(1, sizeof *question) : NULL;
    if (!question) {
        over(worker_query, job, false);
        return;
    }
    *question = (struct question){.worker_query = worker_query, .job = job};
    LIST_INSERT_HEAD(&worker_query->questions, question, link);
    struct json body = write_body(job);
    int error = body.failed ? -ENOMEM
                            : hook_post_start(worker_query->poster, &job->url, left, body.text, body.length, on_called,
                                              question, &question->call);
    if (error) {
        log_failure(job, strerror(-error));
        answer(question, false);
    }
    free(body.text);
}

static void ask_waiting(struct hook_client *worker_query) {
    struct hook_query *job;
    while ((job = hook_queue_take(worker_query->queue)))
        begin(worker_query, job);
}

static void on_wake(void *user) {
    ask_waiting(user);
}

int hook_client_new(struct event_base *base, struct hook_poster *poster, struct hook_client **ret_asker) {
    struct hook_client *worker_query = calloc(1, sizeof *worker_query);
    if (!worker_query)
        return -ENOMEM;
    worker_query->poster = poster;
    if (hook_queue_new(&worker_query->queue) < 0) {
        free(worker_query);
        return -ENOMEM;
    }
    if (wakeup_init(&worker_query->wakeup, base, on_wake, worker_query) < 0) {
        hook_client_free(worker_query);
        return -ENOMEM;
    }
    *ret_asker = worker_query;
    return 0;
}

void hook_client_free(struct hook_client *worker_query) {
    struct hook_query *job;
    if (!worker_query)
        return;
    while (!LIST_EMPTY(&worker_query->questions)) {
        hook_post_free(LIST_FIRST(&worker_query->questions)->call);
        answer(LIST_FIRST(&worker_query->questions), false);
    }
    while ((job = hook_queue_remove(worker_query->queue)))
        give_back(job, false);
    wakeup_clear(&worker_query->wakeup);
    hook_queue_free(worker_query->queue);
    free(worker_query);
}

void hook_client_take(void *user, struct hook_query *job) {
    struct hook_client *worker_query = user;
    if (hook_queue_add(worker_query->queue, job) < 0)
        give_back(job, false);
    else
        wakeup_notify(&worker_query->wakeup);
}
