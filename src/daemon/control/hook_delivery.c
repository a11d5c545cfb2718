#include "daemon/control/hook_delivery.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/log.h"
#include "daemon/control/hook_post.h"
#include "daemon/control/reload.h"
#include "daemon/control/wakeup.h"
#include "shared/clock.h"

enum {
    AT_A_TIME = 8,
    WAITING = 4096,  /* that are to be told, those that wait to be tried again included */
    TRIES = 4,       /* the first one included */
    AGAIN_MS = 1000, /* after the first; four times as long after each further one */
    END_MS = 3000,   /* for what is left when the server has stopped */
};

/* A notice that is being told. */
struct telling {
    struct hook_delivery *hook_delivery;
    LIST_ENTRY(telling) link;
    struct hook_event *notice;
    struct hook_post *call;
};

struct queue {
    struct hook_event *first, **end;
};

struct hook_delivery {
    struct hook_poster *poster;
    const struct reload *reload;
    struct wakeup wakeup;
    struct event *timer; /* of the first one that is to be tried again, or of the end */
    LIST_HEAD(, telling) tellings;
    unsigned told;
    struct hook_event *again; /* in no order */
    void (*done)(void *user); /* not NULL: the server has stopped */
    void *done_user;

    pthread_mutex_t lock; /* of the fields below */
    struct queue queue;
    uint64_t waiting; /* in the queue, to be tried again, or being told */
    struct hook_event_counts counts[HOOK_KINDS];
};

static void put(struct hook_delivery *hook_delivery, struct hook_event *notice) {
    notice->next = NULL;
    *hook_delivery->queue.end = notice;
    hook_delivery->queue.end = &notice->next;
}

static struct hook_event *take(struct hook_delivery *hook_delivery) {
    pthread_mutex_lock(&hook_delivery->lock);
    struct hook_event *notice = hook_delivery->queue.first;
    if (notice) {
        hook_delivery->queue.first = notice->next;
        if (!notice->next)
            hook_delivery->queue.end = &hook_delivery->queue.first;
    }
    pthread_mutex_unlock(&hook_delivery->lock);
    return notice;
}

/* Ends an event. @count: the counter of its result, or NULL */
static void forget(struct hook_delivery *hook_delivery, struct hook_event *notice, uint64_t *count) {
    pthread_mutex_lock(&hook_delivery->lock);
    hook_delivery->waiting--;
    if (count)
        ++*count;
    pthread_mutex_unlock(&hook_delivery->lock);
    hook_event_free(notice);
}

static void lose(struct hook_delivery *hook_delivery, struct hook_event *notice, const char *reason) {
    LOG(LOG_WARNING, "hook delivery failed", {"hook", hook_kind_name(notice->event)}, {"stream", notice->stream},
        {"reason", reason});
    forget(hook_delivery, notice, &hook_delivery->counts[notice->event].failed);
}

/* When the first is to be tried again. */
static void set_timer(struct hook_delivery *hook_delivery) {
    uint64_t now = clock_ms(), first = UINT64_MAX;
    for (const struct hook_event *notice = hook_delivery->again; notice; notice = notice->next)
        if (notice->due < first)
            first = notice->due;
    if (first == UINT64_MAX || hook_delivery->done)
        return;
    uint64_t left = first > now ? first - now : 0;
    const struct timeval time = {.tv_sec = (time_t)(left / 1000), .tv_usec = (suseconds_t)(left % 1000 * 1000)};
    evtimer_add(hook_delivery->timer, &time);
}

/* Puts those back that are due. */
static void try_again(struct hook_delivery *hook_delivery, uint64_t now) {
    for (struct hook_event **link = &hook_delivery->again, *notice; (notice = *link);) {
        if (notice->due > now) {
            link = &notice->next;
            continue;
        }
        *link = notice->next;
        pthread_mutex_lock(&hook_delivery->lock);
        put(hook_delivery, notice);
        pthread_mutex_unlock(&hook_delivery->lock);
    }
    set_timer(hook_delivery);
}

static void end_telling(struct telling *telling) {
    LIST_REMOVE(telling, link);
    telling->hook_delivery->told--;
    free(telling);
}

/* Whether another try may go better. */
static bool may_pass(unsigned status) {
    return status == 0 || status == 408 || status == 429 || status >= 500;
}

/* @reason: why there is no answer, if there is none */
static void settle(struct hook_delivery *hook_delivery, struct hook_event *notice, unsigned status,
                   const char *reason) {
    char no_answer[HOOK_POST_REASON + sizeof "no answer: "];
    snprintf(no_answer, sizeof no_answer, "no answer: %s", reason);
    if (status >= 200 && status < 300) {
        forget(hook_delivery, notice, &hook_delivery->counts[notice->event].delivered);
    } else if (!may_pass(status)) {
        lose(hook_delivery, notice, "rejected");
    } else if (notice->tries == TRIES || hook_delivery->done) {
        lose(hook_delivery, notice, status == 0 ? no_answer : "server error");
    } else {
        notice->due = clock_ms() + ((uint64_t)AGAIN_MS << 2 * (notice->tries - 1));
        notice->next = hook_delivery->again;
        hook_delivery->again = notice;
        set_timer(hook_delivery);
    }
}

static void tell_waiting(struct hook_delivery *hook_delivery);

static void on_called(unsigned status, const char *reason, void *user) {
    struct telling *telling = user;
    struct hook_delivery *hook_delivery = telling->hook_delivery;
    struct hook_event *notice = telling->notice;
    end_telling(telling);
    settle(hook_delivery, notice, status, reason);
    tell_waiting(hook_delivery);
}

static void tell(struct hook_delivery *hook_delivery, struct hook_event *notice) {
    const struct options *options = reload_options(hook_delivery->reload);
    const struct hook_url *url = &options->hooks[notice->event];
    struct telling *telling = *url->host ? calloc(1, sizeof *telling) : NULL;
    if (!telling) {
        if (*url->host)
            lose(hook_delivery, notice, "out of memory");
        else
            forget(hook_delivery, notice, NULL);
        return;
    }
    notice->tries++;
    *telling = (struct telling){.hook_delivery = hook_delivery, .notice = notice};
    LIST_INSERT_HEAD(&hook_delivery->tellings, telling, link);
    hook_delivery->told++;
    int error = hook_post_start(hook_delivery->poster, url, options->hook_ms, notice->body, notice->length, on_called,
                                telling, &telling->call);
    if (error) {
        end_telling(telling);
        settle(hook_delivery, notice, 0, strerror(-error));
    }
}

static void tell_waiting(struct hook_delivery *hook_delivery) {
    struct hook_event *notice;
    while (hook_delivery->told < AT_A_TIME && (notice = take(hook_delivery)))
        tell(hook_delivery, notice);
    if (hook_delivery->done && hook_delivery->told == 0)
        event_active(hook_delivery->timer, EV_TIMEOUT, 1);
}

static void on_wake(void *user) {
    tell_waiting(user);
}

/* What has not been told is lost, and said to be. */
static void give_up(struct hook_delivery *hook_delivery) {
    struct hook_event *notice;
    while (!LIST_EMPTY(&hook_delivery->tellings)) {
        struct telling *telling = LIST_FIRST(&hook_delivery->tellings);
        hook_post_free(telling->call);
        notice = telling->notice;
        end_telling(telling);
        lose(hook_delivery, notice, "server shutting down");
    }
    while ((notice = hook_delivery->again)) {
        hook_delivery->again = notice->next;
        lose(hook_delivery, notice, "server shutting down");
    }
    while ((notice = take(hook_delivery)))
        lose(hook_delivery, notice, "server shutting down");
}

static void on_time(evutil_socket_t fd, short what, void *user) {
    struct hook_delivery *hook_delivery = user;
    (void)fd;
    (void)what;
    if (hook_delivery->done) {
        give_up(hook_delivery);
        hook_delivery->done(hook_delivery->done_user);
        return;
    }
    try_again(hook_delivery, clock_ms());
    tell_waiting(hook_delivery);
}

int hook_delivery_new(struct event_base *base, struct hook_poster *poster, const struct reload *reload,
                      struct hook_delivery **ret_notifier) {
    struct hook_delivery *hook_delivery = calloc(1, sizeof *hook_delivery);
    if (!hook_delivery)
        return -ENOMEM;
    hook_delivery->poster = poster;
    hook_delivery->reload = reload;
    hook_delivery->queue.end = &hook_delivery->queue.first;
    pthread_mutex_init(&hook_delivery->lock, NULL);
    hook_delivery->timer = evtimer_new(base, on_time, hook_delivery);
    if (wakeup_init(&hook_delivery->wakeup, base, on_wake, hook_delivery) < 0 || !hook_delivery->timer) {
        hook_delivery_free(hook_delivery);
        return -ENOMEM;
    }
    *ret_notifier = hook_delivery;
    return 0;
}

void hook_delivery_free(struct hook_delivery *hook_delivery) {
    if (!hook_delivery)
        return;
    give_up(hook_delivery);
    if (hook_delivery->timer)
        event_free(hook_delivery->timer);
    wakeup_clear(&hook_delivery->wakeup);
    pthread_mutex_destroy(&hook_delivery->lock);
    free(hook_delivery);
}

void hook_delivery_take(void *user, struct hook_event *notice) {
    struct hook_delivery *hook_delivery = user;
    pthread_mutex_lock(&hook_delivery->lock);
    bool has_room = hook_delivery->waiting < WAITING;
    if (has_room) {
        put(hook_delivery, notice);
        hook_delivery->waiting++;
    } else {
        hook_delivery->counts[notice->event].dropped++;
    }
    pthread_mutex_unlock(&hook_delivery->lock);
    if (has_room) {
        wakeup_notify(&hook_delivery->wakeup);
        return;
    }
    LOG(LOG_WARNING, "hook delivery failed", {"hook", hook_kind_name(notice->event)}, {"stream", notice->stream},
        {"reason", "queue full"});
    hook_event_free(notice);
}

void hook_delivery_finish(struct hook_delivery *hook_delivery, void (*done)(void *user), void *user) {
    static const struct timeval end = {.tv_sec = END_MS / 1000, .tv_usec = END_MS % 1000 * 1000};
    hook_delivery->done = done;
    hook_delivery->done_user = user;
    evtimer_add(hook_delivery->timer, &end);
    /* There is no later time for them. */
    try_again(hook_delivery, UINT64_MAX);
    wakeup_notify(&hook_delivery->wakeup);
}

void hook_delivery_get_counts(struct hook_delivery *hook_delivery, struct hook_event_counts ret_counts[HOOK_KINDS],
                              uint64_t *ret_waiting) {
    pthread_mutex_lock(&hook_delivery->lock);
    memcpy(ret_counts, hook_delivery->counts, sizeof hook_delivery->counts);
    *ret_waiting = hook_delivery->waiting;
    pthread_mutex_unlock(&hook_delivery->lock);
}
