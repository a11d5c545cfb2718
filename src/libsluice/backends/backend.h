/*
 * The interface between the loop and the kernel. A backend receives into blocks of a pool, appends
 * them to the chain of the descriptor they came from, sends in place, and accepts. It calls up
 * through io_events, only from inside turn().
 */
#ifndef SLUICE_BACKENDS_BACKEND_H
#define SLUICE_BACKENDS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "backends/fork_mark.h"
#include "memory/chain.h"

typedef struct sluice_io sluice_io;

enum { IO_READ_BLOCKS = 64 }; /* of one read of a file, at most */

/*
 * A read of a file at a place of its own; an io may have several under way. It belongs to who asks
 * for it, and is the backend's until read_done().
 */
typedef struct io_read {
    sluice_io *io;
    sluice_block *blocks; /* linked by next, with room for length bytes */
    uint64_t offset;      /* in the file, of the first byte of the first block */
    uint32_t length;      /* bytes to be read in all */
    /* bytes that are there: who asks counts them, and may ask again for the rest */
    uint32_t filled;
    struct io_read *next; /* epoll's alone: in its queue */
} io_read;

/* What else can be asked for of a file. */
enum io_call_kind {
    IO_WRITE,
    IO_SYNC,
    IO_RENAME, /* a name, which need not be the descriptor's */
    IO_CLOSE,
    IO_RUN, /* a call that may block, on a thread */
};

#define IO_NO_PLACE UINT64_MAX /* of a write to what has no places, such as a pipe */

/* One of these under way at a time. It belongs to who asks for it, and is the backend's until
 * call_done(). */
typedef struct io_call {
    sluice_io *io;
    enum io_call_kind kind;
    int fd; /* of the io, when it was asked for */
    /* IO_WRITE: count of them; they and their memory stay as they are */
    const struct iovec *pieces;
    uint32_t count;
    uint64_t offset; /* IO_WRITE: in the file, or IO_NO_PLACE */
    int directory;   /* IO_RENAME: that both names begin at */
    unsigned flags;  /* IO_RENAME: of renameat2(2) */
    const char *from, *to;
    int (*run)(int fd, void *user); /* IO_RUN */
    void *user;
    int result;                  /* the thread's alone, as the rest */
    bool waiting;                /* in its queue */
    struct io_call *next, *prev; /* there; what is done has no prev */
} io_call;

/* What a backend tells of one descriptor. After cancel() only idle() is called, and accepted()
 * before it. */
struct io_events {
    /* also of what the kernel had accepted when cancel() came */
    void (*accepted)(sluice_io *io, int fd);
    void (*accept_ended)(sluice_io *io, int error); /* ask again with accept() */
    void (*connected)(sluice_io *io, int error);    /* 0 or -errno */
    /* the chain has grown; or the target has, and is not full */
    void (*received)(sluice_io *io);
    /* the target is full, or has been stopped: it is dropped */
    void (*placed)(sluice_io *io);
    /* 0: the peer has finished; a target is dropped */
    void (*ended)(sluice_io *io, int error);
    /* 0, and still sending: it waits for room, without the pieces */
    void (*sent)(sluice_io *io, size_t bytes);
    void (*room)(sluice_io *io); /* it has waited; the pieces may be sent now */
    void (*send_failed)(sluice_io *io, int error);
    /* more bytes, 0 at the file's end, or -errno */
    void (*read_done)(sluice_io *io, io_read *read, int result);
    /* what the call returns, or -errno */
    void (*call_done)(sluice_io *io, io_call *call, int result);
    /* no operation is left; the memory may go */
    void (*idle)(sluice_io *io);
};

/*
 * How a descriptor receives. From MULTI on, io_uring has one receive of it under way, which counts
 * in operations, and from TARGET on it is one into the target; README.md has the table of
 * transitions. epoll uses OFF, WAITING (for a block) and INTERVAL only.
 */
enum io_receiving {
    /* none; one is wanted only while a completion is handled, which then queues it. Set by stop()
     * where it waited, and by receive_is_over() */
    IO_RECV_OFF,
    IO_RECV_WAITING, /* in its ring's queue for arming; set by wait_for_block() */
    /* nothing is armed: on the wheel of those that are read at intervals; set by
     * go_on_at_interval() */
    IO_RECV_INTERVAL,
    /* armed for as many blocks as come; set by arm_select(), and by set_promised() from PROMISED */
    IO_RECV_MULTI,
    /* the same, and the newest completion says that more is there and will follow: in the queue of
     * the promised; set by set_promised() */
    IO_RECV_PROMISED,
    /*
     * The connection fills several blocks at a time, and the kernel has no bundles, or cuts each
     * one short: a poll is armed that completes with each arrival, and a system call reads what has
     * come. Set by arm_poll(), and by set_unread() from UNREAD
     */
    IO_RECV_POLLED,
    /* the same, and the last read has left something, or the turn's reads have ended before it: in
     * the queue of the unread, and read in the next turn; set by set_unread() */
    IO_RECV_UNREAD,
    /* armed for one block: memory is short, or no more is wanted; set by arm_select() */
    IO_RECV_SINGLE,
    /* armed for the free end of io.aim, in the queue of the aimed; set by arm_aimed() */
    IO_RECV_AIMED,
    /* armed for blocks, and its cancel is on its way, or due; set by cancel_receive() */
    IO_RECV_STOPPING,
    IO_RECV_TARGET, /* armed for the target; set by arm_target() */
    /* the same, and its cancel is on its way, or due: the target is dropped when the kernel is done
     * with it; set by cancel_receive(), which only stop_into() and cancel() lead to from TARGET */
    IO_RECV_TARGET_STOPPING,
};

/* What the epoll backend, which knows readiness only, remembers of a descriptor. */
struct io_readiness {
    uint32_t interest;    /* the events that it is registered for; 0: not registered */
    bool blocked;         /* a send waits for room in the socket: the kernel has nothing of it */
    bool aiming;          /* in the queue of those with an aim */
    bool to_tell;         /* in the list of those to be told what follows */
    bool sent;            /* a send is done, with this result */
    ssize_t result;       /* bytes or -errno */
    int failure;          /* it could not be registered: -errno */
    sluice_io *tell_next; /* in that list */
};

/* Memory of the user that comes before the chain: see backends/target.h. */
struct io_target {
    uint8_t *memory; /* for the next byte; NULL: there is no target */
    size_t left;     /* bytes that are still to come */
    size_t done;     /* and that have come; stays when the target is dropped */
};

/* A descriptor as the backend sees it; a part of a connection or listener. Zero but for fd, events
 * and chain. */
struct sluice_io {
    int fd;
    const struct io_events *events;
    sluice_chain chain;

    /* The backend's: */
    enum io_receiving receiving;
    /* into blocks: resume() has been called, and neither pause() nor an end came after it */
    bool wants_receive;
    bool one_block; /* no receive is to take more than a block; set by one_block() */
    /* slots between two reads, see backends/interval.h; 0: received as it comes. Set by
     * interval() */
    uint8_t interval;
    uint8_t slot; /* of the wheel, that it is in; or INTERVAL_DUE */
    bool spread;  /* its slots are other ones than those of what began with it */
    /* its last receive has ended for want of a block, or of room in the one that it had */
    bool starved;
    uint64_t starvations; /* times that it had to wait for a block */
    bool wanting;         /* and does so; with io_uring also: or is to be armed again */
    /* it waits for a block, and there was none; or has done so. Cleared by who looks */
    bool held_up;
    bool accepting;    /* an accept is armed */
    bool connecting;   /* a connect is under way */
    bool sending;      /* a send is under way, or waits for room in the socket */
    uint8_t send_step; /* of that send: io_uring's enum uring_send */
    bool cancelled;    /* cancel() has been called */
    uint8_t group;     /* its blocks' size: which of those that the backend knows */
    /* of its socket, AF_UNIX or another; 0: not asked yet; io_uring's alone */
    uint16_t domain;
    /* a receive has stopped at an urgent byte: the next ones complete once; io_uring's alone */
    bool urgent;
    uint32_t taken;    /* blocks, lately; io_uring's alone */
    uint32_t taken_at; /* when they were counted last, in some turns each */
    /* it waits among those that have taken few blocks lately; io_uring's alone */
    bool light;
    bool served; /* it has got a block since it was armed; io_uring's alone */
    /* blocks for the next read of several; 0: before the first, or with io_uring none is tried */
    uint8_t burst;
    bool burst_full; /* the last such read has filled all of its blocks */
    bool outrun;     /* and was the longest that there is; io_uring's alone */
    bool polled;     /* what is armed is a poll; io_uring's alone */
    bool hung_up;    /* and it has announced the end of both directions, or a reset */
    /* blocks in a row that were filled up, or with bundles, bundles in a row that were cut short;
     * if polled, reads in a row that filled no more than one block; io_uring's alone */
    uint8_t streak;
    /* its last bundle has filled all its blocks, in this turn; io_uring's alone */
    bool cut;
    uint32_t cut_at;
    bool fragmented; /* its chain's blocks are nearly empty: see backends/aim.h */
    /* the chain's footprint when it was last compacted; 0: not since it became fragmented */
    size_t compacted;
    uint32_t operations; /* whose last completion has not come, or has not been told */
    sluice_block *aim;   /* referenced: whose free end the next receive may fill */
    struct io_target target;
    /* in the queue of the waiting, the aimed, the promised, the stopping, or the cancelled; or on
     * the wheel */
    sluice_io *queue_next;
    sluice_io *queue_prev;
    struct io_readiness ready; /* epoll's alone */
};

typedef struct sluice_backend sluice_backend;

enum { BACKEND_BATCH_MOST = 100000 }; /* microseconds, of a batching window */

typedef struct backend_options {
    uint32_t batch_us;
    uint32_t stock_bytes;
    bool no_fixed;
    bool if_cheaper; /* io_uring: not where epoll costs less, see BACKEND_COSTS_MORE */
} backend_options;

enum { BACKEND_COSTS_MORE = 1 };

typedef struct backend_stats {
    const char *features;
    uint64_t enters;
    uint64_t completions;
    uint64_t starved;
    uint64_t aimed;
    uint64_t direct; /* bytes received into targets */
    uint64_t overflows;
    uint32_t waiting;
} backend_stats;

/* All but wake() on the loop's thread. */
struct backend_operations {
    const char *name;

    /*
     * 0, BACKEND_COSTS_MORE (io_uring works, but the kernel has no receive bundles and there is no
     * window, which together cost more than epoll does; only if that was asked for), or -errno.
     */
    int (*create)(sluice_pool *pool, const backend_options *options, sluice_backend **ret_backend);

    /* When every io is idle. */
    void (*destroy)(sluice_backend *backend);

    /* Starts accepting. 0, -ENOBUFS (too much is queued before the first turn), or the errno of
     * epoll_ctl(2). */
    int (*accept)(sluice_backend *backend, sluice_io *io);

    /*
     * Connects; connected() follows from a turn, unless cancelled. The address stays as it is until
     * then, or idle(). False when there is no room to submit it before the next turn.
     */
    bool (*connect)(sluice_backend *backend, sluice_io *io, const struct sockaddr *address, socklen_t length);

    /* Starts and stops receiving into blocks. */
    void (*resume)(sluice_backend *backend, sluice_io *io);
    void (*pause)(sluice_backend *backend, sluice_io *io);

    /* Whether a receive may take one block at most; what is armed already may still bring more. */
    void (*one_block)(sluice_backend *backend, sluice_io *io, bool is_most);

    /*
     * Reads so many slots apart (backends/interval.h) rather than when something comes; 0: as it
     * comes. What goes to a target is received as it comes in any case.
     */
    void (*interval)(sluice_backend *backend, sluice_io *io, uint8_t slots);

    /*
     * The io has a target: receives into it and nowhere else, paused or not, until placed() or
     * ended(). Blocks that the kernel is already filling are copied from first. Not after an end.
     */
    void (*receive_into)(sluice_backend *backend, sluice_io *io);

    /* Drops the target. True when that is done; else the kernel is still at it, and placed() or
     * ended() follows. */
    bool (*stop_into)(sluice_backend *backend, sluice_io *io);

    /*
     * Blocks of the chain come from this class of the pool from now on; what is armed already still
     * arrives. 0, or why not (and nothing has changed).
     */
    int (*change_class)(sluice_backend *backend, sluice_io *io, sluice_pool *class);

    /* Room for the pieces of one send, valid until send() or the next call of room(). */
    struct iovec *(*room)(sluice_backend *backend, size_t *ret_max);

    /* Sends what is in the room; one send per io at a time. */
    void (*send)(sluice_backend *backend, sluice_io *io, size_t count);

    /*
     * Reads what @read lacks; read_done() follows from a turn, in any order, unless cancelled. Not
     * between room() and send(). False when there is no room to submit it before the next turn.
     */
    bool (*read)(sluice_backend *backend, io_read *read);

    /* Does that; call_done() follows from a turn, unless cancelled. False when there is no room to
     * submit it. */
    bool (*call)(sluice_backend *backend, io_call *call);

    /* Ends everything; idle() follows from a later turn(), even when nothing was under way. */
    void (*cancel)(sluice_backend *backend, sluice_io *io);

    /* Another batching window, microseconds, from the next turn on: in place of one, and not of
     * none. */
    void (*set_window)(sluice_backend *backend, uint32_t us);

    /* Submits, waits up to @timeout_us (negative: without limit), calls up. 0 or -errno. */
    int (*turn)(sluice_backend *backend, int64_t timeout_us);

    /*
     * How long a turn, and who waits for the descriptor in its place, may wait, microseconds: 0
     * while something is to be done that no event will announce; negative: without limit.
     */
    int64_t (*may_wait)(const sluice_backend *backend);

    /* Ends the wait of a turn. Any thread. */
    void (*wake)(sluice_backend *backend);

    /*
     * A descriptor that poll(2) finds readable, for as long as no turn follows, when the kernel has
     * something for a turn or wake() has been called; the backend's. What a turn leaves to do need
     * not show. 0 or more, or -errno.
     */
    int (*descriptor)(sluice_backend *backend);

    void (*get_stats)(const sluice_backend *backend, backend_stats *ret_stats);
};

struct sluice_backend {
    const struct backend_operations *operations;
    /* or a class of one: where blocks come from for an io that does not change its class */
    sluice_pool *pool;
    /* in a child of the process nothing of it may reach the kernel: there it is the parent's */
    fork_mark mark;

    /*
     * Set by who makes the backend: the io that can be ended whose chain keeps most memory, of
     * those that receive into blocks of this class or, where they keep none, of all; whether it
     * waits for blocks, receives, or is paused. NULL: none keeps any.
     */
    sluice_io *(*largest)(void *user, const sluice_pool *class);
    void *user;
};

extern const struct backend_operations uring_backend;
extern const struct backend_operations epoll_backend;

#endif
