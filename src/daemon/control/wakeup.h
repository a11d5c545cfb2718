/*
 * Wakes the control plane's thread from other threads, which have stored work for it under a lock.
 */
#ifndef SLUICED_WAKEUP_H
#define SLUICED_WAKEUP_H

struct event;
struct event_base;

/* On the control plane's thread; once, however often it was woken meanwhile. */
typedef void wakeup_fn(void *user);

struct wakeup {
    int fd;
    struct event *event; /* the control plane's */
    wakeup_fn *call;
    void *user;
};

/* Not to be moved. 0, -errno, -ENOMEM: then it may be cleared, and need not. */
int wakeup_init(struct wakeup *wakeup, struct event_base *base, wakeup_fn *call, void *user);

/* On any thread. */
void wakeup_notify(const struct wakeup *wakeup);

/* No more calls. Other threads may still notify it. */
void wakeup_stop(struct wakeup *wakeup);

/* Also stops it. No thread may notify it any more. */
void wakeup_clear(struct wakeup *wakeup);

#endif
