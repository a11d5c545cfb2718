#include <sluice/libevent.h>

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>

struct sluice_libevent {
    sluice_loop *loop;
    struct event_base *base;
    struct event *readable;
    struct event *timer;
    int error;
    bool turning;
    bool freed; /* by a call from inside the turn: the memory goes after it */
};

static void discard(sluice_libevent *libevent) {
    if (libevent->readable)
        event_free(libevent->readable);
    if (libevent->timer)
        event_free(libevent->timer);
    free(libevent);
}

static void stop(sluice_libevent *libevent, int error) {
    libevent->error = error;
    event_del(libevent->readable);
    event_del(libevent->timer);
    event_base_loopbreak(libevent->base);
}

static int set_timer(sluice_libevent *libevent) {
    int wait = sluice_loop_timeout(libevent->loop);
    if (wait < 0)
        return event_del(libevent->timer);
    /*
     * Also for what is to be done at once: an event made active here would be handled before the
     * base looks at its other descriptors again, and a busy loop would keep it from that.
     */
    const struct timeval due = {.tv_sec = wait / 1000, .tv_usec = wait % 1000 * 1000};
    return event_add(libevent->timer, &due);
}

/*
 * Without memory for a timer there is another turn at once, which tries again, behind a look at the
 * base's other descriptors. No reason to end a run that goes on well otherwise.
 */
static void retry(sluice_libevent *libevent) {
    event_active(libevent->timer, EV_TIMEOUT, 0);
    event_base_loopcontinue(libevent->base);
}

static void turn(evutil_socket_t fd, short what, void *user) {
    sluice_libevent *libevent = user;
    (void)fd, (void)what;
    libevent->turning = true;
    int error = sluice_loop_turn(libevent->loop, 0);
    libevent->turning = false;
    if (libevent->freed) {
        free(libevent);
        return;
    }
    if (error)
        stop(libevent, error);
    else if (set_timer(libevent) < 0)
        retry(libevent);
}

int sluice_libevent_attach(sluice_loop *loop, struct event_base *base, sluice_libevent **ret_libevent) {
    if (!loop || !base)
        return -EINVAL;
    int fd = sluice_loop_fd(loop);
    if (fd < 0)
        return fd;
    sluice_libevent *libevent = calloc(1, sizeof *libevent);
    if (!libevent)
        return -ENOMEM;
    libevent->loop = loop;
    libevent->base = base;
    libevent->readable = event_new(base, fd, EV_READ | EV_PERSIST, turn, libevent);
    libevent->timer = event_new(base, -1, 0, turn, libevent);
    /* A first turn at once: the loop may have been running before, and have left things to do. */
    if (!libevent->readable || !libevent->timer || event_add(libevent->readable, NULL) < 0 ||
        event_add(libevent->timer, &(struct timeval){0}) < 0) {
        discard(libevent);
        return -ENOMEM;
    }
    *ret_libevent = libevent;
    return 0;
}

int sluice_libevent_error(const sluice_libevent *libevent) {
    return libevent->error;
}

void sluice_libevent_free(sluice_libevent *libevent) {
    if (!libevent)
        return;
    if (!libevent->turning) {
        discard(libevent);
        return;
    }
    /* The events go now: nothing of the adapter's is left in the base when this returns. */
    libevent->freed = true;
    event_free(libevent->readable);
    event_free(libevent->timer);
}
