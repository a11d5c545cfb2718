#include "daemon/server_leave.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct lending {
    struct server *server;
    server_lent_fn *done;
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

int server_lend(struct server *server, server_lent_fn *done, void *user) {
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

/* First the listeners stop, which are the first worker's; then all workers are told. */
struct leaving {
    struct server *server;
    server_left_fn *done;
    void *user;
    sluice_call call;
    atomic_uint left; /* workers that do not know yet */
    struct part part[];
};

static void leave_worker(void *user) {
    struct part *part = user;
    struct leaving *leaving = part->leaving;
    struct server *server = leaving->server;
    worker_leave(part->worker);
    if (atomic_fetch_sub(&leaving->left, 1) > 1)
        return;
    if (!server_is_over(server))
        leaving->done(leaving->user);
    free(leaving);
    server_release(server);
}

static void leave_workers(void *user) {
    struct leaving *leaving = user;
    uint32_t count = server_worker_count(leaving->server);
    atomic_init(&leaving->left, count);
    for (uint32_t i = 0; i < count; i++) {
        struct part *part = &leaving->part[i];
        *part = (struct part){.leaving = leaving, .worker = server_worker(leaving->server, i)};
        sluice_loop_post_call(part->worker->loop, &part->call, leave_worker, part);
    }
}

static void leave(void *user) {
    struct leaving *leaving = user;
    struct worker *first = server_worker(leaving->server, 0);
    /* Where the server stops already, nobody accepts. */
    if (first->listeners)
        listeners_leave(first->listeners, leave_workers, leaving);
    else
        leave_workers(leaving);
}

int server_leave(struct server *server, server_left_fn *done, void *user) {
    uint32_t count = server_worker_count(server);
    struct leaving *leaving = calloc(1, sizeof *leaving + count * sizeof *leaving->part);
    if (!leaving)
        return -ENOMEM;
    if (!server_hold(server)) {
        free(leaving);
        return -ESHUTDOWN;
    }
    leaving->server = server;
    leaving->done = done;
    leaving->user = user;
    sluice_loop_post_call(server_worker(server, 0)->loop, &leaving->call, leave, leaving);
    return 0;
}
