#include "daemon/control/wakeup.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_wake(evutil_socket_t fd, short what, void *user) {
    const struct wakeup *wakeup = user;
    uint64_t count;
    (void)what;
    (void)!read(fd, &count, sizeof count);
    wakeup->call(wakeup->user);
}

int wakeup_init(struct wakeup *wakeup, struct event_base *base, wakeup_fn *call, void *user) {
    *wakeup = (struct wakeup){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .call = call, .user = user};
    if (wakeup->fd < 0)
        return -errno;
    wakeup->event = event_new(base, wakeup->fd, EV_READ | EV_PERSIST, on_wake, wakeup);
    if (wakeup->event && event_add(wakeup->event, NULL) == 0)
        return 0;
    wakeup_clear(wakeup);
    return -ENOMEM;
}

void wakeup_notify(const struct wakeup *wakeup) {
    const uint64_t one = 1;
    (void)!write(wakeup->fd, &one, sizeof one);
}

void wakeup_stop(struct wakeup *wakeup) {
    if (wakeup->event)
        event_free(wakeup->event);
    wakeup->event = NULL;
}

void wakeup_clear(struct wakeup *wakeup) {
    wakeup_stop(wakeup);
    if (wakeup->fd >= 0)
        close(wakeup->fd);
    wakeup->fd = -1;
}
