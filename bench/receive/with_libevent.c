#include "receive/with_libevent.h"

#include <event2/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/process.h"
#include "receive/listener.h"
#include "receive/ready.h"

static struct event_base *base;
static void (*prepare_new)(struct bufferevent *event);

void with_libevent_stop(void) {
    event_base_loopbreak(base);
}

void with_libevent_ended(struct bufferevent *event, short what, void *context) {
    (void)event, (void)what, (void)context;
    fail(EXIT_FAILURE, "a stream has ended early");
}

static void accept_all(evutil_socket_t listener, short what, void *context) {
    int fd;
    (void)what, (void)context;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct bufferevent *event = bufferevent_socket_new(base, fd, 0);
        if (!event || bufferevent_set_max_single_read(event, READY_BYTES) < 0)
            fail(EXIT_FAILURE, "%s", strerror(ENOMEM));
        prepare_new(event);
        bufferevent_enable(event, EV_READ | EV_WRITE);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        fail(EXIT_FAILURE, "accept: %s", strerror(errno));
}

void with_libevent_run(void (*prepare)(struct bufferevent *event)) {
    prepare_new = prepare;
    base = event_base_new();
    if (!base)
        fail(EXIT_FAILURE, "libevent: no base");
    int fd = listener_open();
    struct event *listener = event_new(base, fd, EV_READ | EV_PERSIST, accept_all, NULL);
    if (!listener || event_add(listener, NULL) < 0)
        fail(EXIT_FAILURE, "libevent: no listener");
    event_base_dispatch(base);
}
