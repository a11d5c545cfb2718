/*
 * Claims: publishers that wait for a name still in use. When a peer closes its connection and
 * reconnects at once, the new connection may be seen before the end of the old one: with workers
 * the events take different paths, and even on one loop two sockets have no order. A publisher that
 * finds its name in use therefore waits a moment, and gets the name when it is released. If the
 * kernel reports that the current publisher's connection is ending, with data not yet read, the
 * wait continues until that end. Its worker's thread only.
 */
#ifndef SLUICED_PUBLISH_LOCK_H
#define SLUICED_PUBLISH_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <sluice/loop.h>

#include "daemon/base/cidr.h"

/* What becomes of a publisher that asks for the name of a stream that has one. */
enum same_name {
    SAME_NAME_REFUSE,    /* it is refused */
    SAME_NAME_TAKE_OVER, /* the one that has it is ended */
    /* it is refused; and the name is reserved for a publisher that has left */
    SAME_NAME_RESUME,
};

enum {
    /* that one waits at least: an end may still be behind what the peer's kernel has to send */
    PUBLISH_LOCK_MS = 1000,
    /* and for a connection that is ending: what is left of it is read in no time */
    PUBLISH_LOCK_ENDING_MS = 5000,
    /* most that wait for one name; further ones are refused at once */
    PUBLISH_WAITERS_OF_STREAM = 64,
    PUBLISH_WAITERS_OF_HOST = 16,         /* and of these, of one host, or network of 64 bits */
    PUBLISH_WAITERS_OF_HOST_IN_ALL = 256, /* of one host for all names of a worker */
};

struct ip_limit;
struct session;
struct stream;
struct stream_source;

/* What a publisher's connection answers and does. The same for all of them: see publisher.h. */
struct publish_calls {
    struct cidr_address (*host)(const struct session *session);
    bool (*is_pull)(const struct session *session);    /* the daemon fetches the stream */
    bool (*is_closing)(const struct session *session); /* by the daemon */
    /* or by its peer, as the kernel knows it, read or not */
    bool (*is_ending)(const struct session *session);
    void (*kick)(struct session *session, int error);
    /* reads its connection so many milliseconds apart; 0: as bytes come */
    void (*set_interval)(struct session *session, uint32_t ms);
};

/* The claimant's, and left alone by it while it waits. All zero at the beginning. */
struct publish_waiter {
    struct stream *stream; /* NULL: it does not wait */
    const struct stream_source *source;
    struct publish_waiter *next, *prev;
    uint64_t since; /* loop time */
    struct cidr_address host;
    bool is_ending; /* the kernel has reported the end of its own connection */

    /*
     * Once, from a turn, unless it is withdrawn: 0: the stream is the waiter's; or an error of
     * publish_lock_acquire(), or -ECONNRESET: its connection is being closed.
     */
    void (*decided)(struct publish_waiter *waiter, int error);
};

/* Streams, each in one list at most. */
struct publish_lock_list {
    struct stream *first, *last;
};

/* Of a stream: those that wait for its name, in the order in which they have come. All zero at the
 * beginning. */
struct publish_lock {
    struct publish_waiter *first, *last;
    uint32_t count;
    struct publish_lock_list *list; /* that the stream is in; NULL: none waits */
    struct stream *next, *prev;     /* in that list */
};

/* Of a worker. */
struct publish_locks {
    sluice_loop *loop;
    struct ip_limit *hosts; /* how many claims each has */
    /* to be looked at in the next turn, and with the next tick */
    struct publish_lock_list due, waiting;
    sluice_call call;
    bool posted;
};

/* 0, -ENOMEM */
int publish_locks_init(struct publish_locks *locks, sluice_loop *loop);

/* Ends all waiting. */
void publish_locks_clear(struct publish_locks *locks);

/*
 * Takes the stream for a publisher. @waiter: with decided() set; @source: stays while it waits 0;
 * 1: it waits, and decided() says later what has come of it: 0, -EEXIST: another publisher has the
 * stream; -EBUSY: it is kept for one that has left; -EKEYREJECTED: this one is banned. At once,
 * too: -EEXIST also where too many wait, of all or of its host; -ENOMEM
 */
int publish_lock_acquire(struct publish_waiter *waiter, struct stream *stream, const struct stream_source *source);

/* Waits no more. One that does not wait is allowed. */
void publish_lock_cancel(struct publish_waiter *waiter);

/* A stream has lost its publisher: the next turn decides about its waiters. */
void publish_lock_released(struct stream *stream);

/*
 * Now and then: decides what can be decided, and refuses those that have waited in vain; a part of
 * them in each turn where they are many.
 */
void publish_locks_decide(struct publish_locks *locks);

/*
 * The publisher of a stream leaves, for the reason @error: the policy may reserve the name for a
 * time for publishers of the same host.
 */
void publish_lock_reserve(struct stream *stream, int error, uint64_t now);

/* Whether the name is reserved; and ends that. */
bool publish_lock_is_reserved(const struct stream *stream, uint64_t now);
void publish_lock_unreserve(struct stream *stream);

/* Whether the stream has a publisher with a connection that is not ending. Another stream that
 * stands in is none. */
bool publish_lock_is_held(const struct stream *stream);

#endif
