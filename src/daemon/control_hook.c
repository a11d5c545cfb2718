#include "daemon/control_hook.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>

#include "daemon/control_hook_call.h"
#include "daemon/control_wake.h"
#include "daemon/log.h"
#include "shared/clock.h"
#include "shared/json.h"

enum {
    AT_A_TIME = 64, /* questions that are asked at the same time */
    WAITING = 4096, /* that wait for that; further ones are refused */
};

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
    unsigned asked;

    pthread_mutex_t lock; /* of the fields below */
    struct hook_job *first, **end;
    unsigned waiting;
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

/* Gives the answer; the call is over. */
static void answer(struct question *question, bool granted) {
    struct hook_asker *asker = question->asker;
    if (question->prev)
        question->prev->next = question->next;
    else
        asker->questions = question->next;
    if (question->next)
        question->next->prev = question->prev;
    asker->asked--;
    give_back(question->job, granted);
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

static struct hook_job *take_waiting(struct hook_asker *asker) {
    pthread_mutex_lock(&asker->lock);
    struct hook_job *job = asker->first;
    if (job) {
        asker->first = job->next;
        asker->waiting--;
        if (!asker->first)
            asker->end = &asker->first;
    }
    pthread_mutex_unlock(&asker->lock);
    return job;
}

static void begin(struct hook_asker *asker, struct hook_job *job) {
    uint64_t left = time_left(job);
    struct question *question = left > 0 ? calloc(1, sizeof *question) : NULL;
    if (!question) {
        give_back(job, false);
        return;
    }
    *question = (struct question){.asker = asker, .next = asker->questions, .job = job};
    if (question->next)
        question->next->prev = question;
    asker->questions = question;
    asker->asked++;
    struct json body = write_body(job);
    if (body.failed ||
        hook_call_start(asker->base, &job->url, left, body.text, body.length, on_called, question, &question->call) < 0)
        answer(question, false);
    free(body.text);
}

static void ask_waiting(struct hook_asker *asker) {
    struct hook_job *job;
    while (asker->asked < AT_A_TIME && (job = take_waiting(asker)))
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
    asker->end = &asker->first;
    pthread_mutex_init(&asker->lock, NULL);
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
    while ((job = take_waiting(asker)))
        give_back(job, false);
    wake_clear(&asker->wake);
    pthread_mutex_destroy(&asker->lock);
    free(asker);
}

void hook_asker_take(void *user, struct hook_job *job) {
    struct hook_asker *asker = user;
    pthread_mutex_lock(&asker->lock);
    bool has_room = asker->waiting < WAITING;
    if (has_room) {
        job->next = NULL;
        *asker->end = job;
        asker->end = &job->next;
        asker->waiting++;
    }
    pthread_mutex_unlock(&asker->lock);
    if (has_room)
        wake_up(&asker->wake);
    else
        give_back(job, false);
}
