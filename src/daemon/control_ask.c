#include "daemon/control_ask.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>

#include "daemon/control_wake.h"
#include "daemon/server.h"

enum { ASKS_MOST = 64 }; /* out at a time */

/* One worker's part of a question. */
struct part {
    struct ask *ask;
    struct worker *worker;
    struct part *next; /* among those that have come back */
    sluice_call call;
    struct snapshot *snapshot;
    int error;
    bool is_out, is_late; /* late: the answer has been given without it */
};

struct ask {
    struct asker *asker;
    struct ask *next, *prev; /* in the asker's list, until it is answered */
    bool is_command;
    unsigned wanted;
    struct command command;
    answer_fn *done;
    void *user;
    struct event *deadline; /* each of ASK_LOOKS */
    unsigned looks;
    struct snapshot **snapshots;
    size_t out;      /* parts that have not come back */
    size_t answered; /* parts that have, before the answer was given */
    int error;
    bool over; /* the answer has been given */
    struct part part[];
};

struct asker {
    struct event_base *base;
    struct server *server;
    size_t worker_count;
    struct ask *asks;
    size_t ask_count;

    pthread_mutex_t lock; /* of the fields below */
    struct part *back;    /* filled parts */
    size_t references;    /* the owner's, and one for each part that is out */
    struct wake wake;

    /* Of each worker, parts that are late. One that has any is asked nothing until they are back. */
    unsigned late[];
};

static void take_all_back(struct asker *asker);

/* The lock is held, and is let go. */
static void unref(struct asker *asker) {
    bool last = --asker->references == 0;
    pthread_mutex_unlock(&asker->lock);
    if (!last)
        return;
    /* Everything has been answered by now; what has come since goes. */
    take_all_back(asker);
    wake_clear(&asker->wake);
    pthread_mutex_destroy(&asker->lock);
    free(asker);
}

static void free_ask(struct ask *ask) {
    for (size_t i = 0; i < ask->asker->worker_count; i++)
        snapshot_free(ask->snapshots[i]);
    free(ask->snapshots);
    free(ask);
}

/* On the worker's thread. */
static void fill(void *user) {
    struct part *part = user;
    struct ask *ask = part->ask;
    struct asker *asker = ask->asker;
    part->error = ask->is_command ? command_run(part->worker, &ask->command)
                                  : snapshot_take(part->worker, ask->wanted, &part->snapshot);
    pthread_mutex_lock(&asker->lock);
    part->next = asker->back;
    asker->back = part;
    wake_up(&asker->wake);
    unref(asker);
}

static void forget(struct ask *ask) {
    ask->asker->ask_count--;
    free_ask(ask);
}

/* Gives the answer; the question stays until its last part is back. */
static void give_answer(struct ask *ask) {
    struct asker *asker = ask->asker;
    const struct answer answer = {
        .snapshots = {ask->snapshots, asker->worker_count},
        .answered = ask->answered,
        .error = ask->error,
    };
    snapshots_fold(ask->snapshots, asker->worker_count);
    for (size_t i = 0; i < asker->worker_count; i++) {
        ask->part[i].is_late = ask->part[i].is_out;
        asker->late[i] += ask->part[i].is_late;
    }
    ask->over = true;
    event_free(ask->deadline);
    ask->deadline = NULL;
    if (ask->prev)
        ask->prev->next = ask->next;
    else
        asker->asks = ask->next;
    if (ask->next)
        ask->next->prev = ask->prev;
    ask->done(&answer, ask->user);
    if (ask->out == 0)
        forget(ask);
}

static void take_back(struct part *part) {
    struct ask *ask = part->ask;
    size_t index = (size_t)(part - ask->part);
    ask->snapshots[index] = part->snapshot;
    ask->asker->late[index] -= part->is_late;
    part->is_out = false;
    if (!ask->over) {
        ask->answered++;
        if (part->error != -ENOENT && ask->error)
            ask->error = part->error;
    }
    if (--ask->out > 0)
        return;
    if (ask->over)
        forget(ask);
    else
        give_answer(ask);
}

static void take_all_back(struct asker *asker) {
    pthread_mutex_lock(&asker->lock);
    struct part *part = asker->back;
    asker->back = NULL;
    pthread_mutex_unlock(&asker->lock);
    while (part) {
        struct part *next = part->next;
        take_back(part);
        part = next;
    }
}

static void on_wake(void *user) {
    take_all_back(user);
}

static void on_deadline(evutil_socket_t fd, short what, void *user) {
    (void)fd;
    (void)what;
    struct ask *ask = user;
    /* Or nobody is waited for. */
    if (ask->out == 0 || ++ask->looks == ASK_LOOKS)
        give_answer(ask);
}

bool answer_is_whole(const struct answer *answer) {
    for (size_t i = 0; i < answer->snapshots.count; i++)
        if (!answer->snapshots.list[i])
            return false;
    return true;
}

int asker_new(struct event_base *base, struct server *server, struct asker **ret_asker) {
    const size_t count = server_worker_count(server);
    struct asker *asker = calloc(1, sizeof *asker + count * sizeof *asker->late);
    if (!asker)
        return -ENOMEM;
    asker->base = base;
    asker->server = server;
    asker->worker_count = count;
    asker->references = 1;
    int error = wake_init(&asker->wake, base, on_wake, asker);
    if (error) {
        free(asker);
        return error;
    }
    pthread_mutex_init(&asker->lock, NULL);
    *ret_asker = asker;
    return 0;
}

void asker_free(struct asker *asker) {
    if (!asker)
        return;
    while (asker->asks)
        give_answer(asker->asks);
    take_all_back(asker);
    wake_stop(&asker->wake);
    pthread_mutex_lock(&asker->lock);
    unref(asker);
}

static struct ask *new_ask(struct asker *asker, answer_fn *done, void *user) {
    size_t count = asker->worker_count;
    struct ask *ask = calloc(1, sizeof *ask + count * sizeof *ask->part);
    if (!ask)
        return NULL;
    ask->asker = asker;
    ask->snapshots = calloc(count, sizeof(struct snapshot *));
    ask->deadline = event_new(asker->base, -1, EV_PERSIST, on_deadline, ask);
    ask->done = done;
    ask->user = user;
    ask->error = -ENOENT;
    for (size_t i = 0; i < count; i++)
        ask->part[i] = (struct part){.ask = ask, .worker = server_worker(asker->server, (uint32_t)i)};
    if (ask->snapshots && ask->deadline)
        return ask;
    if (ask->deadline)
        event_free(ask->deadline);
    free(ask->snapshots);
    free(ask);
    return NULL;
}

/* Whoever has not answered yet is not asked more, but told what to do: questions without end would wait for it. */
static void post(struct ask *ask) {
    static const struct timeval deadline = {.tv_usec = ASK_MS / ASK_LOOKS * 1000};
    struct asker *asker = ask->asker;
    ask->next = asker->asks;
    if (ask->next)
        ask->next->prev = ask;
    asker->asks = ask;
    asker->ask_count++;
    for (size_t i = 0; i < asker->worker_count; i++) {
        ask->part[i].is_out = ask->is_command || asker->late[i] == 0;
        ask->out += ask->part[i].is_out;
    }
    event_add(ask->deadline, &deadline);
    if (ask->out == 0)
        event_active(ask->deadline, EV_TIMEOUT, 1);
    pthread_mutex_lock(&asker->lock);
    asker->references += ask->out;
    pthread_mutex_unlock(&asker->lock);
    for (size_t i = 0; i < asker->worker_count; i++)
        if (ask->part[i].is_out)
            sluice_loop_post_call(ask->part[i].worker->loop, &ask->part[i].call, fill, &ask->part[i]);
}

int asker_snapshot(struct asker *asker, unsigned parts, answer_fn *done, void *user) {
    struct ask *ask = asker->ask_count < ASKS_MOST ? new_ask(asker, done, user) : NULL;
    if (!ask)
        return asker->ask_count < ASKS_MOST ? -ENOMEM : -EAGAIN;
    ask->wanted = parts;
    post(ask);
    return 0;
}

int asker_command(struct asker *asker, const struct command *command, answer_fn *done, void *user) {
    struct ask *ask = asker->ask_count < ASKS_MOST ? new_ask(asker, done, user) : NULL;
    if (!ask)
        return asker->ask_count < ASKS_MOST ? -ENOMEM : -EAGAIN;
    ask->is_command = true;
    ask->command = *command;
    post(ask);
    return 0;
}
