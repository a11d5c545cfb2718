#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/loop.h"

enum {
    BACKLOG = 4096,     /* the kernel lowers it to net.core.somaxconn */
    EXHAUSTED_MS = 100, /* until the next try after accept(2) failed */
};

struct sluice_listener {
    sluice_io io; /* first: the backend's events name it */
    sluice_loop *loop;
    sluice_listener_fn *accepted;
    void *user;
    sluice_timer *retry;
    sluice_listener_stopped_fn *stopped; /* NULL: accepted connections are dropped */
    bool closing;
    sluice_listener *next; /* in the loop's list */
};

static void io_accepted(sluice_io *io, int fd) {
    sluice_listener *listener = (sluice_listener *)io;
    if (listener->closing && !listener->stopped) {
        close(fd);
        return;
    }
    /*
     * Other completions are reported after the wait, when the time has been read. This callback
     * runs at once, so it reads the time itself: otherwise a connection would start with the time
     * of the previous turn, and after a stop of the process exceed its deadline at the start.
     */
    listener->loop->now = loop_clock();
    listener->accepted(listener, fd, listener->user);
}

static void start(sluice_listener *listener) {
    if (listener->loop->backend->operations->accept(listener->loop->backend, &listener->io) < 0)
        sluice_timer_start(listener->retry, EXHAUSTED_MS);
    loop_touched(listener->loop);
}

static void io_accept_ended(sluice_io *io, int error) {
    sluice_listener *listener = (sluice_listener *)io;
    /* Without an error, or when the peer was gone already, the kernel only wants to be asked
     * again. */
    if (error == 0 || error == -ECONNABORTED || error == -EINTR || error == -EAGAIN || error == -ECANCELED)
        start(listener);
    else
        sluice_timer_start(listener->retry, EXHAUSTED_MS);
}

static void retry(sluice_timer *timer, void *user) {
    (void)timer;
    start(user);
}

static void io_idle(sluice_io *io) {
    sluice_listener *listener = (sluice_listener *)io;
    sluice_listener **link = &listener->loop->listeners;
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    close(io->fd);
    if (listener->stopped)
        listener->stopped(listener->user);
    free(listener);
}

static const struct io_events listener_io_events = {
    .accepted = io_accepted,
    .accept_ended = io_accept_ended,
    .idle = io_idle,
};

static int open_socket(const struct sockaddr *address, socklen_t length) {
    const int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    bool failed = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0;
    if (address->sa_family == AF_INET6)
        failed = failed || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0;
    failed = failed || bind(fd, address, length) < 0 || listen(fd, BACKLOG) < 0;
    if (failed) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

/* Whether a stream socket listens there. */
static int check_socket(int fd) {
    int type = 0, listens = 0;
    socklen_t length = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) < 0)
        return -errno;
    return type == SOCK_STREAM && listens ? 0 : -EINVAL;
}

static int listen_on(sluice_loop *loop, int fd, sluice_listener_fn *accepted, void *user,
                     sluice_listener **ret_listener) {
    sluice_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return -ENOMEM;
    *listener = (sluice_listener){
        .io = {.fd = fd, .events = &listener_io_events}, .loop = loop, .accepted = accepted, .user = user};
    int error = sluice_timer_new(loop, retry, listener, &listener->retry);
    if (error) {
        free(listener);
        return error;
    }
    listener->next = loop->listeners;
    loop->listeners = listener;
    start(listener);
    *ret_listener = listener;
    return 0;
}

int sluice_listener_new(sluice_loop *loop, const struct sockaddr *address, socklen_t length,
                        sluice_listener_fn *accepted, void *user, sluice_listener **ret_listener) {
    if (!address || !accepted)
        return -EINVAL;
    int fd = open_socket(address, length);
    if (fd < 0)
        return fd;
    int error = listen_on(loop, fd, accepted, user, ret_listener);
    if (error)
        close(fd);
    return error;
}

int sluice_listener_adopt(sluice_loop *loop, int fd, sluice_listener_fn *accepted, void *user,
                          sluice_listener **ret_listener) {
    if (!accepted)
        return -EINVAL;
    int error = check_socket(fd);
    return error ? error : listen_on(loop, fd, accepted, user, ret_listener);
}

int sluice_listener_fd(const sluice_listener *listener) {
    return listener->io.fd;
}

void *sluice_listener_user(const sluice_listener *listener) {
    return listener->user;
}

static void end(sluice_listener *listener) {
    listener->closing = true;
    sluice_timer_free(listener->retry);
    listener->retry = NULL;
    listener->loop->backend->operations->cancel(listener->loop->backend, &listener->io);
    loop_touched(listener->loop);
}

int sluice_listener_stop(sluice_listener *listener, sluice_listener_stopped_fn *stopped) {
    if (!stopped)
        return -EINVAL;
    if (listener->closing)
        return -EALREADY;
    listener->stopped = stopped;
    end(listener);
    return 0;
}

void sluice_listener_free(sluice_listener *listener) {
    if (!listener)
        return;
    listener->stopped = NULL;
    if (!listener->closing)
        end(listener);
}

void listeners_close_all(sluice_loop *loop) {
    for (sluice_listener *listener = loop->listeners; listener; listener = listener->next)
        sluice_listener_free(listener);
}

int sluice_listener_address(const sluice_listener *listener, struct sockaddr_storage *ret_address) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(listener->io.fd, (struct sockaddr *)&address, &length) < 0)
        return -errno;
    *ret_address = address;
    return 0;
}
