#include "tools/connector.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shared/clock.h"

enum { EVENTS = 256, LOOK_MS = 100 }; /* how often deadlines are looked at */

struct connector {
    sluice_loop *loop;
    int epoll;
    struct connector_job *jobs;
};

int connector_look_up(const struct target *target, struct addrinfo **ret_addresses) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    snprintf(port, sizeof port, "%u", target->port);
    return getaddrinfo(target->host, port, &hints, ret_addresses);
}

int connector_new(sluice_loop *loop, struct connector **ret_connector) {
    struct connector *connector = malloc(sizeof *connector);
    if (!connector)
        return -ENOMEM;
    *connector = (struct connector){.loop = loop, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    if (connector->epoll < 0) {
        int error = -errno;
        free(connector);
        return error;
    }
    *ret_connector = connector;
    return 0;
}

void connector_free(struct connector *connector) {
    if (!connector)
        return;
    while (connector->jobs)
        connector_cancel(connector, connector->jobs);
    close(connector->epoll);
    free(connector);
}

static void leave(struct connector *connector, struct connector_job *job) {
    if (job->previous)
        job->previous->next = job->next;
    else
        connector->jobs = job->next;
    if (job->next)
        job->next->previous = job->previous;
    job->previous = job->next = NULL;
    job->running = false;
}

static void drop_socket(struct connector_job *job) {
    if (job->fd >= 0)
        close(job->fd);
    job->fd = -1;
}

/* Begins with the next address that can be tried. False where there is none. */
static bool try_next(struct connector *connector, struct connector_job *job) {
    drop_socket(job);
    while (job->at) {
        const struct addrinfo *address = job->at;
        struct epoll_event event = {.events = EPOLLOUT, .data.ptr = job};
        job->at = address->ai_next;
        job->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (job->fd >= 0 && (connect(job->fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS) &&
            epoll_ctl(connector->epoll, EPOLL_CTL_ADD, job->fd, &event) == 0)
            return true;
        job->error = -errno;
        drop_socket(job);
    }
    return false;
}

void connector_start(struct connector *connector, struct connector_job *job) {
    job->at = job->addresses;
    job->fd = -1;
    job->error = -ENOENT;
    job->running = true;
    job->deadline = clock_ms() + CONNECTOR_MS;
    job->previous = NULL;
    job->next = connector->jobs;
    if (connector->jobs)
        connector->jobs->previous = job;
    connector->jobs = job;
    /* One that fails at once is found by its deadline: done() is not called from in here. */
    if (!try_next(connector, job))
        job->deadline = 0;
}

void connector_cancel(struct connector *connector, struct connector_job *job) {
    if (!job->running)
        return;
    drop_socket(job);
    leave(connector, job);
}

static void finish(struct connector *connector, struct connector_job *job, int error) {
    int fd = job->fd;
    job->fd = -1;
    leave(connector, job);
    if (error && fd >= 0) {
        close(fd);
        fd = -1;
    }
    job->done(job, fd, error);
}

static void on_event(struct connector *connector, struct connector_job *job) {
    const int on = 1;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(job->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error) {
        job->error = -error;
        if (!try_next(connector, job))
            finish(connector, job, job->error);
        return;
    }
    epoll_ctl(connector->epoll, EPOLL_CTL_DEL, job->fd, NULL);
    setsockopt(job->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int flags = fcntl(job->fd, F_GETFL);
    error = flags < 0 || fcntl(job->fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
    finish(connector, job, error);
}

static void look_at_deadlines(struct connector *connector) {
    uint64_t now = clock_ms();
    for (struct connector_job *job = connector->jobs; job;) {
        struct connector_job *late = now >= job->deadline ? job : NULL;
        job = job->next;
        if (late)
            finish(connector, late, late->deadline == 0 ? late->error : -ETIMEDOUT);
        /* done() may have started or cancelled others: begin anew. */
        if (late)
            job = connector->jobs;
    }
}

int connector_turn(struct connector *connector) {
    struct epoll_event events[EVENTS];
    if (!connector->jobs)
        return sluice_loop_turn(connector->loop, -1);
    struct pollfd watched[] = {{.fd = sluice_loop_fd(connector->loop), .events = POLLIN},
                               {.fd = connector->epoll, .events = POLLIN}};
    if (watched[0].fd < 0)
        return watched[0].fd;
    int timeout = sluice_loop_timeout(connector->loop);
    (void)poll(watched, 2, timeout < 0 || timeout > LOOK_MS ? LOOK_MS : timeout);
    int count = epoll_wait(connector->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct connector_job *job = events[i].data.ptr;
        /* One that an earlier one of these has cancelled has no socket. */
        if (job->running && job->fd >= 0)
            on_event(connector, job);
    }
    look_at_deadlines(connector);
    return sluice_loop_turn(connector->loop, 0);
}
