#include "receive/ready.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/process.h"
#include "receive/listener.h"
#include "receive/meter.h"

enum { EVENTS = 1024 };

static size_t bytes_read(ssize_t n) {
    if (n > 0)
        return (size_t)n;
    if (n == 0)
        fail(EXIT_FAILURE, "a stream has ended early");
    if (errno != EAGAIN && errno != EINTR)
        fail(EXIT_FAILURE, "read: %s", strerror(errno));
    return 0;
}

size_t ready_read(const ready_stream *stream, void *buffer, size_t size) {
    return bytes_read(read(stream->fd, buffer, size));
}

size_t ready_read_pieces(const ready_stream *stream, const struct iovec *pieces, int count) {
    return bytes_read(readv(stream->fd, pieces, count));
}

static void watch(int epoll, int fd, void *data) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        fail(EXIT_FAILURE, "epoll_ctl: %s", strerror(errno));
}

static void accept_all(int epoll, int listener, size_t stream_size) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        ready_stream *stream = calloc(1, stream_size);
        if (!stream)
            fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
        stream->fd = fd;
        watch(epoll, fd, stream);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        fail(EXIT_FAILURE, "accept: %s", strerror(errno));
}

void ready_run(const receive_options *options, const ready_handler *handler) {
    static struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        fail(EXIT_FAILURE, "epoll: %s", strerror(errno));
    int listener = listener_open();
    watch(epoll, listener, NULL);
    const struct timespec nap = {.tv_nsec = options->batch_us * 1000L};
    while (!the_meter.done) {
        if (options->batch_us > 0)
            nanosleep(&nap, NULL);
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr)
                handler->readable(events[i].data.ptr, options);
            else
                accept_all(epoll, listener, handler->stream_size);
    }
    /* The streams stay open until the process ends: the sender is to see no end before everything
     * has been measured. */
    close(listener);
    close(epoll);
}
