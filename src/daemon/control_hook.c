#include "daemon/control_hook.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

#include "daemon/control_hook_call.h"
#include "daemon/control_wake.h"
#include "daemon/hook_queue.h"
#include "daemon/log.h"
#include "shared/clock.h"
#include "shared/json.h"

/* A question that is being asked. */
struct question {
    struct hook_asker *asker;
    struct question *next, *prev;
    struct hook_job *job;
    struct hook_call *call;
};

struct hook_asker {
    struct event_base *base;
    struct wake wake;
    struct question *questions;
    struct hook_queue *queue;
};

static void come_back(void *user) {
    struct hook_job *job = user;
    job->done(job);
}

static void give_back(struct hook_job *job, bool granted) {
    job->granted = granted;
    sluice_loop_post_call(job->loop, &job->call, come_back, job);
}

/* What is left until the session does not wait any more; 0: it does not. */
static uint64_t time_left(const struct hook_job *job) {
    uint64_t now = clock_ms();
    return now < job->deadline ? job->deadline - now : 0;
}

/* One that was taken out of the queue is no question any more. */
static void over(struct hook_asker *asker, struct hook_job *job, bool granted) {
    hook_queue_done(asker->queue, &job->host);
    give_back(job, granted);
}

/* Gives the answer; the call is over. */
static void answer(struct question *question, bool granted) {
    struct hook_asker *asker = question->asker;
    if (question->prev)
        question->prev->next = question->next;
    else
        asker->questions = question->next;
    if (question->next)
        question->next->prev = question->prev;
    over(asker, question->job, granted);
    free(question);
}

static void ask_waiting(struct hook_asker *asker);

static void on_called(unsigned status, void *user) {
    struct question *question = user;
    struct hook_asker *asker = question->asker;
    const struct hook_job *job = question->job;
    if (status == 0)
        LOG(LOG_WARNING, "a hook does not answer", {"hook", hook_event_name(job->event)}, {"host", job->url.host},
            {"stream", job->stream});
    answer(question, status >= 200 && status < 300);
    ask_waiting(asker);
}

/* To be freed. */
static struct json write_body(const struct hook_job *job) {
    struct json json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "event", hook_event_name(job->event));
    json_string(&json, "stream", job->stream);
    json_string(&json, "protocol", job->protocol);
    json_string(&json, "address", job->peer);
    if (job->event == HOOK_PLAY && job->of_recording)
        json_string(&json, "recording", job->recording);
    else if (job->event == HOOK_PLAY)
        json_null(&json, "recording");
    json_close(&json, '}');
    return json;
}

static void begin(struct hook_asker *asker, struct hook_job *job) {
    uint64_t left = time_left(job);
    struct question *question = left > 0 ? calloc(1, sizeof *question) : NULL;
    if (!question) {
        over(asker, job, false);
        return;
    }
    *question = (struct question){.asker = asker, .next = asker->questions, .job = job};
    if (question->next)
        question->next->prev = question;
    asker->questions = question;
    struct json body = write_body(job);
    if (body.failed ||
        hook_call_start(asker->base, &job->url, left, body.text, body.length, on_called, question, &question->call) < 0)
        answer(question, false);
    free(body.text);
}

static void ask_waiting(struct hook_asker *asker) {
    struct hook_job *job;
    while ((job = hook_queue_take(asker->queue)))
        begin(asker, job);
}

static void on_wake(void *user) {
    ask_waiting(user);
}

int hook_asker_new(struct event_base *base, struct hook_asker **ret_asker) {
    struct hook_asker *asker = calloc(1, sizeof *asker);
    if (!asker)
        return -ENOMEM;
    asker->base = base;
    if (hook_queue_new(&asker->queue) < 0) {
        free(asker);
        return -ENOMEM;
    }
    if (wake_init(&asker->wake, base, on_wake, asker) < 0) {
        hook_asker_free(asker);
        return -ENOMEM;
    }
    *ret_asker = asker;
    return 0;
}

void hook_asker_free(struct hook_asker *asker) {
    struct hook_job *job;
    if (!asker)
        return;
    while (asker->questions) {
        hook_call_free(asker->questions->call);
        answer(asker->questions, false);
    }
    while ((job = hook_queue_remove(asker->queue)))
        give_back(job, false);
    wake_clear(&asker->wake);
    hook_queue_free(asker->queue);
    free(asker);
}

void hook_asker_take(void *user, struct hook_job *job) {
    struct hook_asker *asker = user;
    if (hook_queue_add(asker->queue, job) < 0)
        give_back(job, false);
    else
        wake_up(&asker->wake);
}
