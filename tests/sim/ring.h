/* The inside of the simulated io_uring, shared by its files. */
#ifndef SLUICE_TESTS_SIM_RING_H
#define SLUICE_TESTS_SIM_RING_H

#include "backends/uring_abi.h"
#include "sim/kernel.h"

enum { RING_GROUPS = 16, RING_BUFFERS = 1024 /* fixed ones */ };

/* A ring of provided buffers. */
struct group {
    struct io_uring_buf_ring *ring; /* NULL: there is none */
    uint32_t entries;
    uint16_t head;    /* taken up to here */
    uint16_t seen;    /* looked at up to here */
    void **addresses; /* of each entry that was looked at */
};

/* What is under way. */
struct op {
    struct op *next, *prev;
    struct ring *ring;
    loop_list of_file, ready, delayed;
    uint32_t id;
    struct io_uring_sqe sqe;
    struct file *file;
    uint64_t due;    /* not before: in the ring's list of delayed ones until then */
    bool is_fresh;   /* tried for the first time */
    bool is_late;    /* it was ready, and is worked on later */
    uint64_t seen;   /* arrivals at its file, by a poll that goes on */
    bool is_running; /* it cannot be cancelled any more */
    struct iovec *pieces;
    uint32_t count;
};

struct completion {
    uint64_t data;
    int result;
    uint32_t flags;
    uint32_t buffers; /* of the group, that it brings */
    uint16_t group;
    uint64_t due;
};

struct completions {
    struct completion *list;
    size_t count, room;
};

struct ring {
    struct ring *next;
    struct io_uring *user;
    int fd;
    bool enabled;
    unsigned sq_head, sq_tail, sq_flags, cq_head, cq_tail;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    struct completion *records; /* of each in the queue */
    unsigned most;              /* completions that the queue takes */
    struct completions overflow, delayed;
    struct op *first, *last;
    loop_list ready;       /* ops that have something to look at */
    loop_list delayed_ops; /* until they are due */
    struct group groups[RING_GROUPS];
    struct iovec fixed[RING_BUFFERS];
    uint32_t fixed_count;
};

enum kernel_age ring_kernel_age(void);

/* The last completion of an operation, which is gone with it; or one that others follow: false
 * where it cannot be. */
void ring_finish(struct ring *ring, struct op *op, int result, uint32_t flags, uint32_t buffers);
bool ring_post_more(struct ring *ring, struct op *op, int result, uint32_t flags, uint32_t buffers);
void ring_post(struct ring *ring, uint64_t data, int result);

struct op *ring_add(struct ring *ring, const struct io_uring_sqe *sqe);

/* Works on it then, and not before. */
void ring_delay(struct op *op, uint64_t microseconds);

/* ring_group.c: what has been published is looked at: nothing may be published twice, or written
 * to. */
void group_look(struct group *group, struct ring *ring);
uint32_t group_count(const struct group *group);
void group_fill(struct group *group, uint16_t at, struct file *file, uint32_t n);
void group_forget(struct group *group);

/* The kernel has used up the next of them. */
void group_take(struct group *group);

/* ring_receive.c: works on it if it is ready. True when it has done something. */
bool ring_receive(struct ring *ring, struct op *op);

/* A poll for what is to be received, that completes with each arrival. */
bool ring_poll_arrivals(struct ring *ring, struct op *op);

/* Ends it with what there is, as if that had happened before. False where there is nothing. */
bool ring_receive_last(struct ring *ring, struct op *op);

/* ring_op.c: begins one, and works on it. */
void ring_begin_op(struct ring *ring, const struct io_uring_sqe *sqe);
bool ring_try_op(struct ring *ring, struct op *op);

#endif
