#include "daemon/control_wake.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_wake(evutil_socket_t fd, short what, void *user) {
    const struct wake *wake = user;
    uint64_t count;
    (void)what;
    (void)!read(fd, &count, sizeof count);
    wake->call(wake->user);
}

int wake_init(struct wake *wake, struct event_base *base, wake_fn *call, void *user) {
    *wake = (struct wake){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .call = call, .user = user};
    if (wake->fd < 0)
        return -errno;
    wake->event = event_new(base, wake->fd, EV_READ | EV_PERSIST, on_wake, wake);
    if (wake->event && event_add(wake->event, NULL) == 0)
        return 0;
    wake_clear(wake);
    return -ENOMEM;
}

void wake_up(const struct wake *wake) {
    const uint64_t one = 1;
    (void)!write(wake->fd, &one, sizeof one);
}

void wake_stop(struct wake *wake) {
    if (wake->event)
        event_free(wake->event);
    wake->event = NULL;
}

void wake_clear(struct wake *wake) {
    wake_stop(wake);
    if (wake->fd >= 0)
        close(wake->fd);
    wake->fd = -1;
}
