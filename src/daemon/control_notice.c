#include "daemon/control_notice.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control_hook_call.h"
#include "daemon/control_reload.h"
#include "daemon/control_wake.h"
#include "daemon/log.h"
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
    struct notifier *notifier;
    struct telling *next, *prev;
    struct hook_notice *notice;
    struct hook_call *call;
};

struct queue {
    struct hook_notice *first, **end;
};

struct notifier {
    struct event_base *base;
    const struct reload *reload;
    struct wake wake;
    struct event *timer; /* of the first one that is to be tried again, or of the end */
    struct telling *tellings;
    unsigned told;
    struct hook_notice *again; /* in no order */
    void (*done)(void *user);  /* not NULL: the server has stopped */
    void *done_user;

    pthread_mutex_t lock; /* of the fields below */
    struct queue queue;
    uint64_t waiting; /* in the queue, to be tried again, or being told */
    struct notice_counts counts[HOOK_EVENTS];
};

static void put(struct notifier *notifier, struct hook_notice *notice) {
    notice->next = NULL;
    *notifier->queue.end = notice;
    notifier->queue.end = &notice->next;
}

static struct hook_notice *take(struct notifier *notifier) {
    pthread_mutex_lock(&notifier->lock);
    struct hook_notice *notice = notifier->queue.first;
    if (notice) {
        notifier->queue.first = notice->next;
        if (!notice->next)
            notifier->queue.end = &notifier->queue.first;
    }
    pthread_mutex_unlock(&notifier->lock);
    return notice;
}

/* Nothing more is done for it. @count: what has become of it, or NULL where nobody wants to know of it */
static void forget(struct notifier *notifier, struct hook_notice *notice, uint64_t *count) {
    pthread_mutex_lock(&notifier->lock);
    notifier->waiting--;
    if (count)
        ++*count;
    pthread_mutex_unlock(&notifier->lock);
    hook_notice_free(notice);
}

static void lose(struct notifier *notifier, struct hook_notice *notice, const char *reason) {
    LOG(LOG_WARNING, "a hook could not be told", {"hook", hook_event_name(notice->event)}, {"stream", notice->stream},
        {"reason", reason});
    forget(notifier, notice, &notifier->counts[notice->event].failed);
}

/* When the first is to be tried again. */
static void set_timer(struct notifier *notifier) {
    uint64_t now = clock_ms(), first = UINT64_MAX;
    for (const struct hook_notice *notice = notifier->again; notice; notice = notice->next)
        if (notice->due < first)
            first = notice->due;
    if (first == UINT64_MAX || notifier->done)
        return;
    uint64_t left = first > now ? first - now : 0;
    const struct timeval time = {.tv_sec = (time_t)(left / 1000), .tv_usec = (suseconds_t)(left % 1000 * 1000)};
    evtimer_add(notifier->timer, &time);
}

/* Puts those back that are due. */
static void try_again(struct notifier *notifier, uint64_t now) {
    for (struct hook_notice **link = &notifier->again, *notice; (notice = *link);) {
        if (notice->due > now) {
            link = &notice->next;
            continue;
        }
        *link = notice->next;
        pthread_mutex_lock(&notifier->lock);
        put(notifier, notice);
        pthread_mutex_unlock(&notifier->lock);
    }
    set_timer(notifier);
}

static void end_telling(struct telling *telling) {
    if (telling->prev)
        telling->prev->next = telling->next;
    else
        telling->notifier->tellings = telling->next;
    if (telling->next)
        telling->next->prev = telling->prev;
    telling->notifier->told--;
    free(telling);
}

/* Whether another try may go better. */
static bool may_pass(unsigned status) {
    return status == 0 || status == 408 || status == 429 || status >= 500;
}

static void settle(struct notifier *notifier, struct hook_notice *notice, unsigned status) {
    if (status >= 200 && status < 300) {
        forget(notifier, notice, &notifier->counts[notice->event].delivered);
    } else if (!may_pass(status)) {
        lose(notifier, notice, "it refuses");
    } else if (notice->tries == TRIES || notifier->done) {
        lose(notifier, notice, status == 0 ? "it does not answer" : "it fails");
    } else {
        notice->due = clock_ms() + ((uint64_t)AGAIN_MS << 2 * (notice->tries - 1));
        notice->next = notifier->again;
        notifier->again = notice;
        set_timer(notifier);
    }
}

static void tell_waiting(struct notifier *notifier);

static void on_called(unsigned status, void *user) {
    struct telling *telling = user;
    struct notifier *notifier = telling->notifier;
    struct hook_notice *notice = telling->notice;
    end_telling(telling);
    settle(notifier, notice, status);
    tell_waiting(notifier);
}

static void tell(struct notifier *notifier, struct hook_notice *notice) {
    const struct options *options = reload_options(notifier->reload);
    const struct hook_url *url = &options->hooks[notice->event];
    struct telling *telling = *url->host ? calloc(1, sizeof *telling) : NULL;
    if (!telling) {
        if (*url->host)
            lose(notifier, notice, "out of memory");
        else
            forget(notifier, notice, NULL);
        return;
    }
    notice->tries++;
    *telling = (struct telling){.notifier = notifier, .next = notifier->tellings, .notice = notice};
    if (telling->next)
        telling->next->prev = telling;
    notifier->tellings = telling;
    notifier->told++;
    if (hook_call_start(notifier->base, url, options->hook_ms, notice->body, notice->length, on_called, telling,
                        &telling->call) < 0) {
        end_telling(telling);
        settle(notifier, notice, 0);
    }
}

static void tell_waiting(struct notifier *notifier) {
    struct hook_notice *notice;
    while (notifier->told < AT_A_TIME && (notice = take(notifier)))
        tell(notifier, notice);
    if (notifier->done && notifier->told == 0)
        event_active(notifier->timer, EV_TIMEOUT, 1);
}

static void on_wake(void *user) {
    tell_waiting(user);
}

/* What has not been told is lost, and said to be. */
static void give_up(struct notifier *notifier) {
    struct hook_notice *notice;
    while (notifier->tellings) {
        hook_call_free(notifier->tellings->call);
        notice = notifier->tellings->notice;
        end_telling(notifier->tellings);
        lose(notifier, notice, "the server stops");
    }
    while ((notice = notifier->again)) {
        notifier->again = notice->next;
        lose(notifier, notice, "the server stops");
    }
    while ((notice = take(notifier)))
        lose(notifier, notice, "the server stops");
}

static void on_time(evutil_socket_t fd, short what, void *user) {
    struct notifier *notifier = user;
    (void)fd;
    (void)what;
    if (notifier->done) {
        give_up(notifier);
        notifier->done(notifier->done_user);
        return;
    }
    try_again(notifier, clock_ms());
    tell_waiting(notifier);
}

int notifier_new(struct event_base *base, const struct reload *reload, struct notifier **ret_notifier) {
    struct notifier *notifier = calloc(1, sizeof *notifier);
    if (!notifier)
        return -ENOMEM;
    notifier->base = base;
    notifier->reload = reload;
    notifier->queue.end = &notifier->queue.first;
    pthread_mutex_init(&notifier->lock, NULL);
    notifier->timer = evtimer_new(base, on_time, notifier);
    if (wake_init(&notifier->wake, base, on_wake, notifier) < 0 || !notifier->timer) {
        notifier_free(notifier);
        return -ENOMEM;
    }
    *ret_notifier = notifier;
    return 0;
}

void notifier_free(struct notifier *notifier) {
    if (!notifier)
        return;
    give_up(notifier);
    if (notifier->timer)
        event_free(notifier->timer);
    wake_clear(&notifier->wake);
    pthread_mutex_destroy(&notifier->lock);
    free(notifier);
}

void notifier_take(void *user, struct hook_notice *notice) {
    struct notifier *notifier = user;
    pthread_mutex_lock(&notifier->lock);
    bool has_room = notifier->waiting < WAITING;
    if (has_room) {
        put(notifier, notice);
        notifier->waiting++;
    } else {
        notifier->counts[notice->event].dropped++;
    }
    pthread_mutex_unlock(&notifier->lock);
    if (has_room) {
        wake_up(&notifier->wake);
        return;
    }
    LOG(LOG_WARNING, "a hook could not be told", {"hook", hook_event_name(notice->event)}, {"stream", notice->stream},
        {"reason", "too much is to be told"});
    hook_notice_free(notice);
}

void notifier_finish(struct notifier *notifier, void (*done)(void *user), void *user) {
    static const struct timeval end = {.tv_sec = END_MS / 1000, .tv_usec = END_MS % 1000 * 1000};
    notifier->done = done;
    notifier->done_user = user;
    evtimer_add(notifier->timer, &end);
    /* There is no later time for them. */
    try_again(notifier, UINT64_MAX);
    wake_up(&notifier->wake);
}

void notifier_get_counts(struct notifier *notifier, struct notice_counts ret_counts[HOOK_EVENTS],
                         uint64_t *ret_waiting) {
    pthread_mutex_lock(&notifier->lock);
    memcpy(ret_counts, notifier->counts, sizeof notifier->counts);
    *ret_waiting = notifier->waiting;
    pthread_mutex_unlock(&notifier->lock);
}
