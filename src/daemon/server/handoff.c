#include "daemon/server/handoff.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct lending {
    struct server *server;
    handoff_lent_fn *done;
    void *user;
    sluice_call call;
    struct listeners_socket list[OPTIONS_MAX_LISTENERS];
};

static void lend(void *user) {
    struct lending *lending = user;
    struct server *server = lending->server;
    const struct worker *first = server_worker(server, 0);
    size_t count = 0;
    int error = first->listeners && !first->leaving ? listeners_lend(first->listeners, lending->list, &count)
                                                    : -ESHUTDOWN;
    if (!server_is_over(server))
        lending->done(error, lending->list, count, lending->user);
    else
        while (count > 0)
            close(lending->list[--count].fd);
    free(lending);
    server_release(server);
}

int handoff_lend(struct server *server, handoff_lent_fn *done, void *user) {
    struct lending *lending = calloc(1, sizeof *lending);
    if (!lending)
        return -ENOMEM;
    if (!server_hold(server)) {
        free(lending);
        return -ESHUTDOWN;
    }
    lending->server = server;
    lending->done = done;
    lending->user = user;
    sluice_loop_post_call(server_worker(server, 0)->loop, &lending->call, lend, lending);
    return 0;
}

struct part {
    struct leaving *leaving;
    struct worker *worker;
    sluice_call call;
};

/*
 * First the listeners stop, which belong to the first worker; then all workers are notified. And in
 * reverse order.
 */
struct leaving {
    struct server *server;
    struct handoff_calls calls; /* all zero while it returns */
    handoff_returned_fn *returned;
    void *user; /* of that */
    sluice_call call;
    struct listeners_socket list[OPTIONS_MAX_LISTENERS]; /* to be listened at again */
    size_t count;
    atomic_uint waiting; /* workers that do not know yet */
    struct part part[];
};

static int new_leaving(struct server *server, struct leaving **ret_leaving) {
    uint32_t count = server_worker_count(server);
    struct leaving *leaving = calloc(1, sizeof *leaving + count * sizeof *leaving->part);
    if (!leaving)
        return -ENOMEM;
    if (!server_hold(server)) {
        free(leaving);
        return -ESHUTDOWN;
    }
    leaving->server = server;
    atomic_init(&leaving->waiting, count);
    for (uint32_t i = 0; i < count; i++)
        leaving->part[i] = (struct part){.leaving = leaving, .worker = server_worker(server, i)};
    *ret_leaving = leaving;
    return 0;
}

static void free_leaving(struct leaving *leaving) {
    struct server *server = leaving->server;
    while (leaving->count > 0)
        close(leaving->list[--leaving->count].fd);
    free(leaving);
    server_release(server);
}

static void tell_workers(struct leaving *leaving, sluice_loop_fn *call) {
    const uint32_t count = server_worker_count(leaving->server);
    for (uint32_t i = 0; i < count; i++)
        sluice_loop_post_call(leaving->part[i].worker->loop, &leaving->part[i].call, call, &leaving->part[i]);
}

static void leave_worker(void *user) {
    struct part *part = user;
    struct leaving *leaving = part->leaving;
    worker_leave(part->worker);
    if (!server_is_over(leaving->server))
        leaving->calls.take(part->worker, leaving->calls.taker);
    if (atomic_fetch_sub(&leaving->waiting, 1) > 1)
        return;
    if (!server_is_over(leaving->server))
        leaving->calls.left(leaving->calls.user);
    free_leaving(leaving);
}

static void leave_workers(void *user) {
    tell_workers(user, leave_worker);
}

static void leave(void *user) {
    struct leaving *leaving = user;
    struct worker *first = server_worker(leaving->server, 0);
    /* If the server is stopping, nothing is accepted. */
    if (first->listeners)
        listeners_leave(first->listeners, leave_workers, leaving);
    else
        leave_workers(leaving);
}

int handoff_leave(struct server *server, const struct handoff_calls *calls) {
    struct leaving *leaving;
    int error = new_leaving(server, &leaving);
    if (error)
        return error;
    leaving->calls = *calls;
    sluice_loop_post_call(server_worker(server, 0)->loop, &leaving->call, leave, leaving);
    return 0;
}

/* On the first worker's thread: all know. */
static void listen_again(void *user) {
    struct leaving *leaving = user;
    struct worker *first = server_worker(leaving->server, 0);
    int error = -ESHUTDOWN;
    if (first->listeners) {
        error = listeners_return(first->listeners, leaving->list, leaving->count);
        leaving->count = 0;
    }
    if (!server_is_over(leaving->server))
        leaving->returned(error, leaving->user);
    free_leaving(leaving);
}

static void return_worker(void *user) {
    struct part *part = user;
    struct leaving *leaving = part->leaving;
    if (!part->worker->draining)
        worker_return(part->worker);
    if (atomic_fetch_sub(&leaving->waiting, 1) > 1)
        return;
    /* Where the workers are being freed after a run that has failed, the first may be gone. */
    if (server_is_over(leaving->server))
        free_leaving(leaving);
    else
        sluice_loop_post_call(server_worker(leaving->server, 0)->loop, &leaving->call, listen_again, leaving);
}

int handoff_return(struct server *server, const struct listeners_socket *list, size_t count, handoff_returned_fn *done,
                   void *user) {
    struct leaving *leaving;
    int error = new_leaving(server, &leaving);
    if (error)
        return error;
    leaving->returned = done;
    leaving->user = user;
    for (size_t i = 0; i < count; i++)
        leaving->list[i] = list[i];
    leaving->count = count;
    tell_workers(leaving, return_worker);
    return 0;
}
