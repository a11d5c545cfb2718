/* How other threads wake the control plane's: what they have left for it under a lock is then taken
 * there. */
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

/* Nothing is called any more. It may still be woken: whoever does has not heard of it. */
void wakeup_stop(struct wakeup *wakeup);

/* Stops it, too. Nobody wakes it any more. */
void wakeup_clear(struct wakeup *wakeup);

#endif
