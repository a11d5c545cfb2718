/* How other threads wake the control plane's: what they have left for it under a lock is then taken there. */
#ifndef SLUICED_CONTROL_WAKE_H
#define SLUICED_CONTROL_WAKE_H

struct event;
struct event_base;

/* On the control plane's thread; once, however often it was woken meanwhile. */
typedef void wake_fn(void *user);

struct wake {
    int fd;
    struct event *event; /* the control plane's */
    wake_fn *call;
    void *user;
};

/* Not to be moved. 0, -errno, -ENOMEM: then it may be cleared, and need not. */
int wake_init(struct wake *wake, struct event_base *base, wake_fn *call, void *user);

/* On any thread. */
void wake_up(const struct wake *wake);

/* Nothing is called any more. It may still be woken: whoever does has not heard of it. */
void wake_stop(struct wake *wake);

/* Stops it, too. Nobody wakes it any more. */
void wake_clear(struct wake *wake);

#endif
