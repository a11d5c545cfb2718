#include "daemon/control/worker_query.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "daemon/control/wakeup.h"
#include "daemon/server/server.h"

/* Out at a time; and more of those that only ask whether workers answer, as the watchdog does. */
enum { ASKS_MOST = 64, ASKS_RESERVED = 8 };

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
    struct worker_query *worker_query;
    LIST_ENTRY(ask) link; /* in the asker's list, until it is answered */
    bool is_command;
    struct snapshot_request wanted;
    struct stream_page page; /* of that, if it has one */
    struct worker_command command;
    worker_answer_fn *done;
    void *user;
    struct event *deadline; /* each of WORKER_QUERY_LOOKS */
    unsigned looks;
    struct snapshot **snapshots;
    size_t out;      /* parts that have not come back */
    size_t answered; /* parts that have, before the answer was given */
    int error;
    bool over; /* the answer has been given */
    struct part part[];
};

struct worker_query {
    struct event_base *base;
    struct server *server;
    size_t worker_count;
    LIST_HEAD(, ask) asks;
    size_t ask_count;
    struct stream_totals *totals; /* of each worker, as it last gave them; 0 before */

    pthread_mutex_t lock;    /* of the fields below */
    struct part *back;       /* filled parts; each worker's in their order */
    struct part **back_last; /* where the next one goes */
    size_t references;       /* the owner's, and one for each part that is out */
    struct wakeup wakeup;

    /* For each worker, the number of late answers. A worker with late answers gets no queries. */
    unsigned late[];
};

static void take_all_back(struct worker_query *worker_query);

/* The lock is held, and is let go. */
static void unref(struct worker_query *worker_query) {
    bool last = --worker_query->references == 0;
    pthread_mutex_unlock(&worker_query->lock);
    if (!last)
        return;
    /* All queries have been answered by now; later answers are dropped. */
    take_all_back(worker_query);
    wakeup_clear(&worker_query->wakeup);
    pthread_mutex_destroy(&worker_query->lock);
    free(worker_query->totals);
    free(worker_query);
}

static void free_ask(struct ask *ask) {
    for (size_t i = 0; i < ask->worker_query->worker_count; i++)
        snapshot_free(ask->snapshots[i]);
    free(ask->snapshots);
    pull_free(ask->command.pull);
    free(ask);
}

/* On the worker's thread. */
static void fill(void *user) {
    struct part *part = user;
    struct ask *ask = part->ask;
    struct worker_query *worker_query = ask->worker_query;
    part->error = ask->is_command ? worker_command_run(part->worker, &ask->command)
                                  : snapshot_take(part->worker, &ask->wanted, &part->snapshot);
    pthread_mutex_lock(&worker_query->lock);
    part->next = NULL;
    *worker_query->back_last = part;
    worker_query->back_last = &part->next;
    wakeup_notify(&worker_query->wakeup);
    unref(worker_query);
}

static void forget(struct ask *ask) {
    ask->worker_query->ask_count--;
    free_ask(ask);
}

/* Gives the answer; the question stays until its last part is back. */
static void give_answer(struct ask *ask) {
    struct worker_query *worker_query = ask->worker_query;
    const struct worker_answer answer = {
        .snapshots = {ask->snapshots, worker_query->worker_count},
        .totals = worker_query->totals,
        .answered = ask->answered,
        .error = ask->error,
    };
    snapshots_fold(ask->snapshots, worker_query->worker_count);
    for (size_t i = 0; i < worker_query->worker_count; i++) {
        ask->part[i].is_late = ask->part[i].is_out;
        worker_query->late[i] += ask->part[i].is_late;
    }
    ask->over = true;
    event_free(ask->deadline);
    ask->deadline = NULL;
    LIST_REMOVE(ask, link);
    ask->done(&answer, ask->user);
    if (ask->out == 0)
        forget(ask);
}

static void take_back(struct part *part) {
    struct ask *ask = part->ask;
    size_t index = (size_t)(part - ask->part);
    ask->snapshots[index] = part->snapshot;
    if (part->snapshot)
        ask->worker_query->totals[index] = part->snapshot->totals;
    ask->worker_query->late[index] -= part->is_late;
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

static void take_all_back(struct worker_query *worker_query) {
    pthread_mutex_lock(&worker_query->lock);
    struct part *part = worker_query->back;
    worker_query->back = NULL;
    worker_query->back_last = &worker_query->back;
    pthread_mutex_unlock(&worker_query->lock);
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
    /* Or no answer is awaited. */
    if (ask->out == 0 || ++ask->looks == WORKER_QUERY_LOOKS)
        give_answer(ask);
}

bool worker_answer_is_whole(const struct worker_answer *answer) {
    return snapshots_are_whole(&answer->snapshots);
}

int worker_query_new(struct event_base *base, struct server *server, struct worker_query **ret_asker) {
    const size_t count = server_worker_count(server);
    struct worker_query *worker_query = calloc(1, sizeof *worker_query + count * sizeof *worker_query->late);
    if (!worker_query)
        return -ENOMEM;
    worker_query->base = base;
    worker_query->server = server;
    worker_query->worker_count = count;
    worker_query->references = 1;
    worker_query->back_last = &worker_query->back;
    worker_query->totals = calloc(count, sizeof *worker_query->totals);
    int error = worker_query->totals ? wakeup_init(&worker_query->wakeup, base, on_wake, worker_query) : -ENOMEM;
    if (error) {
        free(worker_query->totals);
        free(worker_query);
        return error;
    }
    pthread_mutex_init(&worker_query->lock, NULL);
    *ret_asker = worker_query;
    return 0;
}

void worker_query_free(struct worker_query *worker_query) {
    if (!worker_query)
        return;
    while (!LIST_EMPTY(&worker_query->asks))
        give_answer(LIST_FIRST(&worker_query->asks));
    take_all_back(worker_query);
    wakeup_stop(&worker_query->wakeup);
    pthread_mutex_lock(&worker_query->lock);
    unref(worker_query);
}

static struct ask *new_ask(struct worker_query *worker_query, worker_answer_fn *done, void *user) {
    size_t count = worker_query->worker_count;
    struct ask *ask = calloc(1, sizeof *ask + count * sizeof *ask->part);
    if (!ask)
        return NULL;
    ask->worker_query = worker_query;
    ask->snapshots = calloc(count, sizeof(struct snapshot *));
    ask->deadline = event_new(worker_query->base, -1, EV_PERSIST, on_deadline, ask);
    ask->done = done;
    ask->user = user;
    ask->error = -ENOENT;
    for (size_t i = 0; i < count; i++)
        ask->part[i] = (struct part){.ask = ask, .worker = server_worker(worker_query->server, (uint32_t)i)};
    if (ask->snapshots && ask->deadline)
        return ask;
    if (ask->deadline)
        event_free(ask->deadline);
    free(ask->snapshots);
    free(ask);
    return NULL;
}

/*
 * A worker that has not answered yet gets commands but no queries: otherwise queries would pile up
 * there.
 */
static void post(struct ask *ask) {
    static const struct timeval deadline = {.tv_usec = WORKER_QUERY_MS / WORKER_QUERY_LOOKS * 1000};
    struct worker_query *worker_query = ask->worker_query;
    LIST_INSERT_HEAD(&worker_query->asks, ask, link);
    worker_query->ask_count++;
    for (size_t i = 0; i < worker_query->worker_count; i++) {
        ask->part[i].is_out = ask->is_command || worker_query->late[i] == 0;
        ask->out += ask->part[i].is_out;
    }
    event_add(ask->deadline, &deadline);
    if (ask->out == 0)
        event_active(ask->deadline, EV_TIMEOUT, 1);
    pthread_mutex_lock(&worker_query->lock);
    worker_query->references += ask->out;
    pthread_mutex_unlock(&worker_query->lock);
    for (size_t i = 0; i < worker_query->worker_count; i++)
        if (ask->part[i].is_out)
            sluice_loop_post_call(ask->part[i].worker->loop, &ask->part[i].call, fill, &ask->part[i]);
}

int worker_query_request(struct worker_query *worker_query, const struct snapshot_request *request,
                         worker_answer_fn *done, void *user) {
    size_t most = request->parts == 0 && !request->page ? ASKS_MOST + ASKS_RESERVED : ASKS_MOST;
    struct ask *ask = worker_query->ask_count < most ? new_ask(worker_query, done, user) : NULL;
    if (!ask)
        return worker_query->ask_count < most ? -ENOMEM : -EAGAIN;
    ask->wanted = *request;
    if (request->page) {
        ask->page = *request->page;
        ask->wanted.page = &ask->page;
    }
    post(ask);
    return 0;
}

int worker_query_snapshot(struct worker_query *worker_query, unsigned parts, worker_answer_fn *done, void *user) {
    return worker_query_request(worker_query, &(struct snapshot_request){.parts = parts}, done, user);
}

int worker_query_command(struct worker_query *worker_query, const struct worker_command *command,
                         worker_answer_fn *done, void *user) {
    struct ask *ask = worker_query->ask_count < ASKS_MOST ? new_ask(worker_query, done, user) : NULL;
    if (!ask)
        return worker_query->ask_count < ASKS_MOST ? -ENOMEM : -EAGAIN;
    ask->is_command = true;
    ask->command = *command;
    post(ask);
    return 0;
}
