#include "daemon/process/predecessors.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/process/state_lines.h"

struct predecessor {
    struct predecessors *all;
    pid_t pid;
    int fd;              /* of pidfd_open(): readable when the process has ended */
    struct event *event; /* NULL: the place is free */
};

struct predecessors {
    struct event_base *base;
    struct server *server;
    struct predecessor list[PREDECESSORS_MOST];
};

static void forget(struct predecessor *one) {
    event_free(one->event);
    one->event = NULL;
    close(one->fd);
}

static void on_end(evutil_socket_t fd, short what, void *user) {
    struct predecessor *one = user;
    (void)fd;
    (void)what;
    LOG(LOG_INFO, "previous process ended", {"pid", log_unsigned((uint64_t)one->pid).text});
    forget(one);
    server_repair_recordings(one->all->server);
}

static struct predecessor *find_place(struct predecessors *predecessors) {
    for (size_t i = 0; i < PREDECESSORS_MOST; i++)
        if (!predecessors->list[i].event)
            return &predecessors->list[i];
    return NULL;
}

/* 0, -ENOSPC, -ENOMEM, or -errno of pidfd_open() */
static int watch(struct predecessors *predecessors, pid_t pid) {
    struct predecessor *one = find_place(predecessors);
    if (!one)
        return -ENOSPC;
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (fd < 0)
        return -errno;
    *one = (struct predecessor){.all = predecessors, .pid = pid, .fd = fd};
    one->event = event_new(predecessors->base, fd, EV_READ, on_end, one);
    if (!one->event) {
        close(fd);
        return -ENOMEM;
    }
    if (event_add(one->event, NULL) == 0)
        return 0;
    forget(one);
    return -ENOMEM;
}

int predecessors_new(struct event_base *base, struct server *server, struct predecessors **ret_predecessors) {
    struct predecessors *predecessors = calloc(1, sizeof *predecessors);
    if (!predecessors)
        return -ENOMEM;
    predecessors->base = base;
    predecessors->server = server;
    *ret_predecessors = predecessors;
    return 0;
}

void predecessors_free(struct predecessors *predecessors) {
    for (size_t i = 0; predecessors && i < PREDECESSORS_MOST; i++)
        if (predecessors->list[i].event)
            forget(&predecessors->list[i]);
    free(predecessors);
}

void predecessors_watch(struct predecessors *predecessors, pid_t pid) {
    int error = watch(predecessors, pid);
    /* The start repairs what it has left. */
    if (error && error != -ESRCH)
        LOG(LOG_WARNING, "previous process not watched", {"pid", log_unsigned((uint64_t)pid).text},
            {"reason", error == -ENOSPC ? "too many processes" : strerror(-error)});
}

void predecessors_write(const struct predecessors *predecessors, struct state_lines *lines) {
    for (size_t i = 0; i < PREDECESSORS_MOST; i++)
        if (predecessors->list[i].event)
            state_lines_add(lines, PREDECESSORS_WORD "%ld\n", (long)predecessors->list[i].pid);
}

void predecessors_read(struct predecessors *predecessors, const char *text) {
    char *end;
    const long pid = strtol(text, &end, 10);
    if (pid > 1 && pid <= INT32_MAX && end > text)
        predecessors_watch(predecessors, (pid_t)pid);
    else
        LOG(LOG_WARNING, "previous process not watched", {"pid", "-"}, {"reason", "malformed"});
}
