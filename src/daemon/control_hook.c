#include "daemon/control_hook.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/log.h"
#include "shared/json.h"

enum {
    AT_A_TIME = 64,      /* questions that are asked at the same time */
    WAITING = 4096,      /* that wait for that; further ones are refused */
    MOST_HEADERS = 8192, /* bytes of an answer */
    MOST_BODY = 4096,
};

/* A question that is being asked. */
struct question {
    struct hook_asker *asker;
    struct question *next;
    struct hook_job *job;
    struct evhttp_connection *connection;
    struct event *deadline; /* of all of it: libevent's own begins anew with each byte */
    bool is_done;           /* it is freed in a later event, since libevent still uses the connection */
};

struct hook_asker {
    struct event_base *base;
    struct event *wake;
    int wake_fd;
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
    /* Without memory for that, the session gives up by itself, and the job is lost. */
    (void)sluice_loop_post(job->loop, come_back, job);
}

static void wake(const struct hook_asker *asker) {
    const uint64_t one = 1;
    (void)!write(asker->wake_fd, &one, sizeof one);
}

static const char *const event_names[] = {[HOOK_PUBLISH] = "publish", [HOOK_PLAY] = "play"};

static void answered(struct evhttp_request *request, void *user) {
    struct question *question = user;
    const struct hook_job *job = question->job;
    if (question->is_done)
        return;
    int status = request ? evhttp_request_get_response_code(request) : 0;
    bool granted = status >= 200 && status < 300;
    if (status == 0)
        LOG(LOG_WARNING, "a hook does not answer", {"hook", event_names[job->event]}, {"host", job->url.host},
            {"stream", job->stream});
    give_back(question->job, granted);
    question->job = NULL;
    question->is_done = true;
    wake(question->asker);
}

static void on_deadline(evutil_socket_t fd, short what, void *user) {
    (void)fd;
    (void)what;
    answered(NULL, user);
}

static bool write_body(const struct hook_job *job, struct evbuffer *buffer) {
    struct json json = {0};
    json_open(&json, NULL, '{');
    json_string(&json, "event", event_names[job->event]);
    json_string(&json, "stream", job->stream);
    json_string(&json, "protocol", job->protocol);
    json_string(&json, "address", job->peer);
    json_close(&json, '}');
    bool done = !json.failed && evbuffer_add(buffer, json.text, json.length) == 0;
    free(json.text);
    return done;
}

/* False where it cannot be asked. */
static bool ask(struct question *question) {
    const struct hook_job *job = question->job;
    const struct timeval timeout = {.tv_sec = (time_t)(job->timeout_ms / 1000),
                                    .tv_usec = (suseconds_t)(job->timeout_ms % 1000 * 1000)};
    char host[ADDRESS_TEXT + 16];
    /* The address is numeric: no name is looked up. */
    question->connection = evhttp_connection_base_new(question->asker->base, NULL, job->url.host, job->url.port);
    if (!question->connection)
        return false;
    question->deadline = evtimer_new(question->asker->base, on_deadline, question);
    if (!question->deadline || evtimer_add(question->deadline, &timeout) < 0)
        return false;
    evhttp_connection_set_max_headers_size(question->connection, MOST_HEADERS);
    evhttp_connection_set_max_body_size(question->connection, MOST_BODY);
    struct evhttp_request *request = evhttp_request_new(answered, question);
    if (!request)
        return false;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    snprintf(host, sizeof host, strchr(job->url.host, ':') ? "[%s]:%u" : "%s:%u", job->url.host, job->url.port);
    if (!write_body(job, evhttp_request_get_output_buffer(request)) || evhttp_add_header(headers, "Host", host) < 0 ||
        evhttp_add_header(headers, "Connection", "close") < 0 ||
        evhttp_add_header(headers, "Content-Type", "application/json") < 0) {
        evhttp_request_free(request);
        return false;
    }
    /* From here on the request is the connection's. */
    return evhttp_make_request(question->connection, request, EVHTTP_REQ_POST, job->url.path) == 0;
}

static void free_question(struct question *question) {
    question->is_done = true;
    if (question->deadline)
        event_free(question->deadline);
    if (question->connection)
        evhttp_connection_free(question->connection);
    if (question->job)
        give_back(question->job, false);
    free(question);
}

static void free_done(struct hook_asker *asker) {
    for (struct question **link = &asker->questions; *link;) {
        struct question *question = *link;
        if (!question->is_done) {
            link = &question->next;
            continue;
        }
        *link = question->next;
        asker->asked--;
        free_question(question);
    }
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
    struct question *question = calloc(1, sizeof *question);
    if (!question) {
        give_back(job, false);
        return;
    }
    *question = (struct question){.asker = asker, .next = asker->questions, .job = job};
    asker->questions = question;
    asker->asked++;
    if (!ask(question) && question->job) {
        question->is_done = true;
        give_back(question->job, false);
        question->job = NULL;
        wake(asker);
    }
}

static void on_wake(evutil_socket_t fd, short what, void *user) {
    struct hook_asker *asker = user;
    struct hook_job *job;
    uint64_t count;
    (void)what;
    (void)!read(fd, &count, sizeof count);
    free_done(asker);
    while (asker->asked < AT_A_TIME && (job = take_waiting(asker)))
        begin(asker, job);
}

int hook_asker_new(struct event_base *base, struct hook_asker **ret_asker) {
    struct hook_asker *asker = calloc(1, sizeof *asker);
    if (!asker)
        return -ENOMEM;
    asker->base = base;
    asker->end = &asker->first;
    pthread_mutex_init(&asker->lock, NULL);
    asker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (asker->wake_fd >= 0)
        asker->wake = event_new(base, asker->wake_fd, EV_READ | EV_PERSIST, on_wake, asker);
    if (!asker->wake || event_add(asker->wake, NULL) < 0) {
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
    for (struct question *question = asker->questions, *next; question; question = next) {
        next = question->next;
        free_question(question);
    }
    while ((job = take_waiting(asker)))
        give_back(job, false);
    if (asker->wake)
        event_free(asker->wake);
    if (asker->wake_fd >= 0)
        close(asker->wake_fd);
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
        wake(asker);
    else
        give_back(job, false);
}
