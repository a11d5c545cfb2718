/* The io_uring backend: set-up, sends, accepts, connects, cancels, and the turn: it submits and
 * waits in one call. */
#include "backends/uring.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backends/aim.h"

enum {
    BATCH_COMPLETIONS = 1024, /* so many end a batching window early */
    MANY_SENDS = 16,          /* are worth a system call of their own, before a window */
    /* receives that bring less, and more than one of them for each connection, are a dribble */
    DRIBBLE_BYTES = 16384,
    STARVED_WAIT_US = 100000, /* look again for blocks at least so often */
    FOREVER_US = 1000000000,  /* a limit for a wait that needs one */
};

static uring *of(sluice_backend *backend) {
    return (uring *)backend;
}

/* The kernel has read what lies in memory for sends, if it has taken all. */
static void sends_submitted(uring *u) {
    if (io_uring_sq_ready(&u->ring) == 0)
        u->iovecs_used = u->messages_used = u->bytes_used = 0;
}

void uring_submit_now(uring *u) {
    no_sigpipe held;
    bool holds = u->pipe_writes > 0;
    if (holds)
        no_sigpipe_begin(&held);
    u->stats.enters++;
    io_uring_submit(&u->ring);
    if (holds)
        no_sigpipe_end(&held);
    sends_submitted(u);
}

struct io_uring_sqe *uring_sqe(uring *u) {
    /* The queue is memory that a child shares with its parent. */
    if (fork_mark_is_child(&u->base.mark))
        return NULL;
    if (io_uring_sq_space_left(&u->ring) <= u->kept && u->enabled)
        uring_submit_now(u);
    return io_uring_sq_space_left(&u->ring) > u->kept ? io_uring_get_sqe(&u->ring) : NULL;
}

bool uring_is_fixed(uring *u, uint32_t slab) {
    struct iovec memory;
    __u64 tag = 0;
    if (!u->registered)
        return false;
    if (u->slabs[slab] == SLAB_UNTRIED) {
        pool_slab(u->base.pool, slab, &memory);
        bool fixed = io_uring_register_buffers_update_tag(&u->ring, slab, &memory, &tag, 1) == 1;
        u->slabs[slab] = fixed ? SLAB_FIXED : SLAB_PLAIN;
        if (fixed)
            uring_show_feature(u, URING_SHOWS_FIXED);
    }
    return u->slabs[slab] == SLAB_FIXED;
}

static void wake(sluice_backend *backend) {
    uring *u = of(backend);
    uint64_t one = 1;
    if (atomic_exchange(&u->wake_sent, true))
        return;
    (void)!write(u->wake_fd, &one, sizeof one);
    /* The read of the wake-up may have completed in the last turn and not be armed again. */
    int notice_fd = atomic_load(&u->notice_fd);
    if (notice_fd >= 0)
        (void)!write(notice_fd, &one, sizeof one);
}

static void block_released(void *context) {
    wake(context);
}

static void slab_ahead(void *context, const struct iovec *memory) {
    uring *u = context;
    prefault_start(&u->prefault, &u->thread, memory);
}

static const pool_observer observer = {.slab_ahead = slab_ahead, .released = block_released};

/* All texts there are, so that one that was given out does not change: stats() has the one that is
 * true. */
static void describe(uring *u, unsigned flags) {
    const char *bundle = u->features.bundle ? " bundle" : u->features.bundle_rejected ? " bundle-rejected" : "";
    for (unsigned shown = 0; shown < URING_SHOWN; shown++)
        snprintf(u->features_text[shown], sizeof u->features_text[shown], "%s%s%s%s%s%s",
                 u->features.multishot ? "multishot" : "single-shot", bundle,
                 flags & IORING_SETUP_DEFER_TASKRUN ? " defer-taskrun" : "",
                 flags & IORING_SETUP_SINGLE_ISSUER ? " single-issuer" : "",
                 shown & URING_SHOWS_FIXED ? " fixed-buffers" : "", shown & URING_SHOWS_REARM ? " eventfd-rearm" : "");
    uring_show_feature(u, 0);
}

void uring_show_feature(uring *u, unsigned feature) {
    u->shown |= feature;
    u->stats.features = u->features_text[u->shown];
}

/*
 * Locked memory is given back to the account some time after a ring is closed, so a refusal for
 * that reason is tried again.
 */
static int try_ring(uring *u, unsigned flags, unsigned entries, unsigned completions,
                    struct io_uring_params *ret_params) {
    int error = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (attempt > 0)
            nanosleep(&(struct timespec){.tv_nsec = 20000000L << attempt}, NULL);
        *ret_params = (struct io_uring_params){.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
                                               .cq_entries = completions};
        error = io_uring_queue_init_params(entries, &u->ring, ret_params);
        if (error != -ENOMEM)
            break;
    }
    return error;
}

/*
 * The best set of flags that the kernel takes, and the largest ring that the limit on locked memory
 * allows. R_DISABLED lets the ring be made on one thread and bound by its first turn to another.
 */
static int set_up_ring(uring *u, struct io_uring_params *ret_params) {
    static const unsigned flags[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED |
            IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_R_DISABLED,
    };
    int error = 0;
    for (unsigned shrink = 1; shrink <= URING_MOST_SHRINK; shrink *= 4) {
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
            error = try_ring(u, flags[i], URING_ENTRIES / shrink, URING_COMPLETIONS / shrink, ret_params);
            if (error != -EINVAL)
                break;
        }
        if (error != -ENOMEM)
            break;
    }
    return error;
}

static int allocate(uring *u, const backend_options *options) {
    u->iovecs = calloc(URING_IOVECS, sizeof *u->iovecs);
    u->messages = calloc(URING_SENDS, sizeof *u->messages);
    u->slabs = calloc(pool_max_slabs(u->base.pool), sizeof *u->slabs);
    if (!u->iovecs || !u->messages || !u->slabs)
        return -ENOMEM;
    u->stock_bytes = options->stock_bytes;
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    return u->wake_fd < 0 ? -errno : 0;
}

static void discard(uring *u) {
    io_thread_end(&u->thread);
    uring_rings_free(u);
    if (u->wake_fd >= 0)
        close(u->wake_fd);
    int notice_fd = atomic_load(&u->notice_fd);
    if (notice_fd >= 0)
        close(notice_fd);
    free(u->iovecs);
    free(u->messages);
    free(u->slabs);
    fork_mark_discard(&u->base.mark);
    free(u);
}

static int create(sluice_pool *pool, const backend_options *options, sluice_backend **ret_backend) {
    if (options->batch_us > BACKEND_BATCH_MOST)
        return -EINVAL;
    uring *u = calloc(1, sizeof *u);
    if (!u)
        return -ENOMEM;
    u->base = (sluice_backend){.operations = &uring_backend, .pool = pool};
    io_thread_init(&u->thread, &u->base);
    u->wake_fd = -1;
    atomic_init(&u->notice_fd, -1);
    struct io_uring_params params;
    int error = fork_mark_make(&u->base.mark);
    if (!error)
        error = allocate(u, options);
    if (!error)
        error = set_up_ring(u, &params);
    if (error) {
        discard(u);
        return error;
    }
    u->deferred = params.flags & IORING_SETUP_DEFER_TASKRUN;
    error = uring_probe(&params, &u->features);
    u->features.least_wait = u->deferred && params.features & IORING_FEAT_MIN_TIMEOUT;
    /* Before there are rings of blocks, which are stocked for windows. */
    window_init(&u->window, options->batch_us, u->features.least_wait);
    if (!error && options->if_cheaper && !u->features.bundle && options->batch_us == 0)
        error = BACKEND_COSTS_MORE;
    if (!error)
        error = uring_ring_open(u, pool);
    if (!error)
        error = pool_observe(pool, &observer, u);
    if (error) {
        io_uring_queue_exit(&u->ring);
        discard(u);
        return error;
    }
    u->registered = !options->no_fixed && io_uring_register_buffers_sparse(&u->ring, pool_max_slabs(pool)) == 0;
    describe(u, params.flags);
    *ret_backend = &u->base;
    return 0;
}

static void destroy(sluice_backend *backend) {
    uring *u = of(backend);
    /* The thread that ran the loop may end now. */
    pool_bind(u->base.pool);
    pool_observe(u->base.pool, NULL, NULL);
    io_uring_queue_exit(&u->ring);
    discard(u);
}

bool uring_cancel(uring *u, const sluice_io *io, enum uring_tag tag) {
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe) {
        u->cancels_due = true;
        return false;
    }
    io_uring_prep_cancel64(sqe, uring_data(io, tag), 0);
    sqe->user_data = URING_TAG_NONE;
    return true;
}

static int start_accept(sluice_backend *backend, sluice_io *io) {
    uring *u = of(backend);
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return -ENOBUFS;
    io_uring_prep_multishot_accept(sqe, io->fd, NULL, NULL, SOCK_CLOEXEC);
    sqe->user_data = uring_data(io, URING_TAG_ACCEPT);
    io->accepting = true;
    io->operations++;
    return 0;
}

static void accept_completed(sluice_io *io, int result, uint32_t flags) {
    if (!(flags & IORING_CQE_F_MORE)) {
        io->operations--;
        io->accepting = false;
    }
    if (result >= 0)
        io->events->accepted(io, result);
    if (!io->accepting && !io->cancelled)
        io->events->accept_ended(io, result < 0 ? result : 0);
}

static bool start_connect(sluice_backend *backend, sluice_io *io, const struct sockaddr *address, socklen_t length) {
    struct io_uring_sqe *sqe = uring_sqe(of(backend));
    if (!sqe)
        return false;
    io_uring_prep_connect(sqe, io->fd, address, length);
    sqe->user_data = uring_data(io, URING_TAG_CONNECT);
    io->connecting = true;
    io->operations++;
    return true;
}

static void connect_completed(sluice_io *io, int result) {
    io->operations--;
    io->connecting = false;
    if (!io->cancelled)
        io->events->connected(io, result);
}

static void resume(sluice_backend *backend, sluice_io *io) {
    uring_receive_resume(of(backend), io);
}

static void pause_receive(sluice_backend *backend, sluice_io *io) {
    uring_receive_stop(of(backend), io);
}

static void one_block(sluice_backend *backend, sluice_io *io, bool is_most) {
    uring_receive_one_block(of(backend), io, is_most);
}

static void set_interval(sluice_backend *backend, sluice_io *io, uint8_t slots) {
    uring_receive_set_interval(of(backend), io, slots);
}

static void receive_into(sluice_backend *backend, sluice_io *io) {
    uring_receive_into(of(backend), io);
}

static bool stop_into(sluice_backend *backend, sluice_io *io) {
    return uring_receive_stop_into(of(backend), io);
}

static int change_class(sluice_backend *backend, sluice_io *io, sluice_pool *class) {
    uring *u = of(backend);
    int error = uring_ring_open(u, class);
    if (!error)
        uring_receive_change(u, io, class);
    return error;
}

static bool sends_full(const uring *u) {
    return u->messages_used == URING_SENDS || u->iovecs_used + URING_SEND_PIECES > URING_IOVECS ||
           io_uring_sq_space_left(&u->ring) == 0;
}

/* Sends to be submitted before there are more: where the kernel refuses them now, the turn tries
 * again. */
static bool has_enough(const uring *u) {
    return sends_full(u) || u->bytes_used >= URING_SEND_BYTES;
}

static uint64_t bytes_of(const struct iovec *pieces, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

/*
 * Sends complete at once, as a rule, and may use up half of the completion queue in a turn. A full
 * one would end each receive and accept that goes on by itself, with the one thing that it brings.
 * The others send in the next turn.
 */
static bool completes_enough(const uring *u) {
    return io_uring_cq_ready(&u->ring) + io_uring_sq_ready(&u->ring) >= u->ring.cq.ring_entries / 2;
}

static struct iovec *send_room(sluice_backend *backend, size_t *ret_max) {
    uring *u = of(backend);
    if (has_enough(u) && u->enabled)
        uring_submit_now(u);
    *ret_max = has_enough(u) || completes_enough(u) ? 0 : URING_SEND_PIECES;
    u->kept = *ret_max > 0 ? 1 : 0;
    u->room = u->iovecs_used;
    return &u->iovecs[u->room];
}

static void start_send(sluice_backend *backend, sluice_io *io, size_t count) {
    uring *u = of(backend);
    /* Since room() the user may have cancelled others, and with that used up entries, but for the
     * one that is kept. */
    u->kept = 0;
    struct io_uring_sqe *sqe = uring_sqe(u);
    struct msghdr *message = &u->messages[u->messages_used++];
    *message = (struct msghdr){.msg_iov = &u->iovecs[u->room], .msg_iovlen = count};
    u->iovecs_used = u->room + count;
    u->bytes_used += bytes_of(message->msg_iov, count);
    io_uring_prep_sendmsg(sqe, io->fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
    sqe->user_data = uring_data(io, URING_TAG_SEND);
    io->sending = true;
    io->send_step = URING_SEND_TRY;
    io->operations++;
}

/* The next step of a send that found no room. False when the kernel takes no more now. */
static bool wait_for_room(uring *u, sluice_io *io) {
    static const struct __kernel_timespec rest = {.tv_nsec = 10000000};
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return false;
    if (io->send_step == URING_SEND_TRY) {
        io_uring_prep_poll_add(sqe, io->fd, POLLOUT);
        io->send_step = URING_SEND_POLL;
    } else {
        io_uring_prep_timeout(sqe, (struct __kernel_timespec *)&rest, 0, 0);
        io->send_step = URING_SEND_REST;
    }
    sqe->user_data = uring_data(io, URING_TAG_SEND);
    io->operations++;
    return true;
}

static void send_tried(uring *u, sluice_io *io, int result) {
    u->tries++;
    /* Where it cannot wait, as if there had been room: the user tries again. */
    io->sending = result == -EAGAIN && wait_for_room(u, io);
    if (result >= 0)
        io->events->sent(io, (size_t)result);
    else if (result == -EAGAIN || result == -EINTR)
        io->events->sent(io, 0);
    else
        io->events->send_failed(io, result);
}

static void send_completed(uring *u, sluice_io *io, int result) {
    io->operations--;
    if (io->cancelled) {
        io->sending = false;
        return;
    }
    if (io->send_step == URING_SEND_TRY) {
        send_tried(u, io, result);
        return;
    }
    /* A hang-up of the other direction alone makes the poll ready, but no room. */
    bool idle_poll = io->send_step == URING_SEND_POLL && result > 0 && !(result & (POLLOUT | POLLERR | POLLHUP));
    if (idle_poll && wait_for_room(u, io))
        return;
    io->sending = false;
    io->events->room(io);
}

static bool start_read(sluice_backend *backend, io_read *read) {
    return uring_read(of(backend), read);
}

static bool start_call(sluice_backend *backend, io_call *call) {
    return uring_call(of(backend), call);
}

static void cancel(sluice_backend *backend, sluice_io *io) {
    uring *u = of(backend);
    uring_receive_stop_into(u, io);
    uring_receive_stop(u, io);
    if (io->accepting)
        uring_cancel(u, io, URING_TAG_ACCEPT);
    if (io->connecting)
        uring_cancel(u, io, URING_TAG_CONNECT);
    if (io->sending)
        uring_cancel(u, io, URING_TAG_SEND);
    /* From here on it is in the queue of the cancelled, which are looked through. */
    uring_receive_forget_cancel(u, io);
    io->cancelled = true;
    u->told |= io->operations == 0;
    io_queue_push(&u->cancelled, io);
}

/*
 * The cancels that found no entry: before the first turn, when nothing is submitted, or when the
 * kernel had no memory to take what was queued. Which of those that are being closed they were is
 * not known, and to ask twice does no harm.
 */
static void send_due_cancels(uring *u) {
    u->cancels_due = false;
    uring_receive_send_due_cancels(u);
    for (sluice_io *io = u->cancelled.first; io && !u->cancels_due; io = io->queue_next) {
        if (io->receiving == IO_RECV_STOPPING || io->receiving == IO_RECV_TARGET_STOPPING)
            uring_cancel(u, io, URING_TAG_RECEIVE);
        if (io->accepting)
            uring_cancel(u, io, URING_TAG_ACCEPT);
        if (io->connecting)
            uring_cancel(u, io, URING_TAG_CONNECT);
        if (io->sending)
            uring_cancel(u, io, URING_TAG_SEND);
    }
}

/* Tells those whose last operation has completed. */
static void report_idle(uring *u) {
    sluice_io *next;
    u->told = false;
    for (sluice_io *io = u->cancelled.first; io; io = next) {
        next = io->queue_next;
        if (io->operations > 0)
            continue;
        io_queue_remove(&u->cancelled, io);
        aim_drop(io);
        /* This may cancel others, which go to the end of the queue; it never takes one out. */
        io->events->idle(io);
    }
}

static int enable(uring *u) {
    int error = uring_enable_rings(&u->ring);
    if (error < 0)
        return error;
    u->enabled = true;
    pool_bind(u->base.pool);
    return 0;
}

static void arm_wake(uring *u) {
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return;
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_value, sizeof u->wake_value, 0);
    sqe->user_data = URING_TAG_WAKE;
    u->wake_armed = true;
}

static void dispatch(uring *u, const struct io_uring_cqe *cqe) {
    uint64_t data = cqe->user_data;
    int result = cqe->res;
    uint32_t flags = cqe->flags;
    sluice_io *io = (sluice_io *)(uintptr_t)(data & ~(uint64_t)URING_TAG_MASK);

    switch ((enum uring_tag)(data & URING_TAG_MASK)) {
    case URING_TAG_ACCEPT:
        accept_completed(io, result, flags);
        break;
    case URING_TAG_RECEIVE:
        uring_receive_completed(u, io, result, flags);
        break;
    case URING_TAG_SEND:
        send_completed(u, io, result);
        break;
    case URING_TAG_WAKE:
        u->wake_armed = false;
        atomic_store(&u->wake_sent, false);
        break;
    case URING_TAG_READ:
        uring_read_completed((io_read *)(void *)io, result);
        break;
    case URING_TAG_CALL:
        uring_call_completed(u, (io_call *)(void *)io, result);
        break;
    case URING_TAG_CONNECT:
        connect_completed(io, result);
        break;
    case URING_TAG_NONE:
        break;
    }
}

static uint32_t collect(uring *u) {
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;
    io_uring_for_each_cqe(&u->ring, head, cqe) {
        dispatch(u, cqe);
        /* The room that this frees is needed before the end: a handler may submit. */
        if (++count == URING_COMPLETIONS)
            break;
    }
    io_uring_cq_advance(&u->ring, count);
    return count;
}

static void set_window(sluice_backend *backend, uint32_t us) {
    window_set_length(&of(backend)->window, us);
}

static int64_t may_wait(const sluice_backend *backend) {
    const uring *u = (const uring *)backend;
    /* What starved has waited for a window already, and would wait for one more whenever the ring
     * has blocks again. */
    /* Without its read, a wake-up would not end the wait. */
    if (u->told || u->cancels_due || u->notice_lost || (u->enabled && !u->wake_armed) ||
        (u->overdue && u->window.length > 0))
        return 0;
    /* To be looked at, which the next turn does before it waits. */
    if (u->promised.first || u->unread.first)
        return 0;
    int64_t wait = interval_left(&u->wheel);
    for (uint32_t i = 0; i < u->ring_count; i++) {
        if (u->rings[i].waiting.count > 0 && (wait < 0 || wait > STARVED_WAIT_US))
            wait = STARVED_WAIT_US;
        if (u->rings[i].waiting.count > 0 && u->rings[i].count > 0)
            return 0;
    }
    return wait;
}

/* How a turn waits. */
typedef struct wait_plan {
    enum window_wait kind;
    unsigned completions; /* how many end it */
    uint32_t least_us;    /* WINDOW_LEAST */
    bool sleeps;          /* nothing is there, and it is to take time */
    /* NULL: none, for which the kernel starts no timer; else &time */
    struct __kernel_timespec *limit;
    struct __kernel_timespec time;
} wait_plan;

/* Something is there already: a wait would not sleep. With deferred task work alone. */
static bool is_ready(const uring *u) {
    unsigned flags = IO_URING_READ_ONCE(*u->ring.sq.kflags);
    return io_uring_cq_ready(&u->ring) > 0 || flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

static void set_limit(wait_plan *plan, int64_t timeout_us) {
    plan->time = (struct __kernel_timespec){.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000};
    plan->limit = timeout_us < 0 ? NULL : &plan->time;
}

/*
 * Sends complete while they are submitted. Before a window they are, and are told of first: else
 * their completions would end the window though nothing has come. The kernel also counts a wait
 * from when all is submitted; many sends take longer than a window, and are within it.
 */
static void submit_before_window(uring *u) {
    if (u->features.least_wait ? io_uring_sq_ready(&u->ring) > 0 : u->messages_used >= MANY_SENDS)
        uring_submit_now(u);
}

/* How long to wait, and for what: see sluice_loop_options.batch_us. */
static void plan_wait(uring *u, int64_t timeout_us, wait_plan *ret_plan) {
    int64_t most = may_wait(&u->base);
    if (most >= 0 && (timeout_us < 0 || timeout_us > most))
        timeout_us = most;
    *ret_plan = (wait_plan){.completions = 1};
    if (timeout_us != 0)
        ret_plan->kind = window_plan(&u->window, is_ready(u));
    if (ret_plan->kind != WINDOW_NONE)
        submit_before_window(u);
    /* What is there by now is handled first: where something always is, once between two windows.
     * And the wait that submits what the kernel has not accepted has no least time. */
    bool is_first = u->window.state == WINDOW_OPEN ? window_plan(&u->window, is_ready(u)) == WINDOW_NONE
                                                   : io_uring_cq_ready(&u->ring) > 0;
    if (ret_plan->kind == WINDOW_LEAST && (is_first || io_uring_sq_ready(&u->ring) > 0))
        ret_plan->kind = WINDOW_NONE;
    int64_t left = ret_plan->kind == WINDOW_NONE ? 0 : window_left(&u->window, timeout_us);
    if (left == 0 && ret_plan->kind == WINDOW_LEAST)
        ret_plan->kind = WINDOW_NONE;
    ret_plan->sleeps = timeout_us != 0 && !is_ready(u);
    if (ret_plan->kind != WINDOW_NONE)
        ret_plan->completions = BATCH_COMPLETIONS;
    if (ret_plan->kind == WINDOW_LEAST && !u->dribbles) {
        /* Without a limit the kernel's wait would be over with its least time. */
        ret_plan->least_us = (uint32_t)left;
        timeout_us = timeout_us < 0 ? FOREVER_US : timeout_us;
    } else if (ret_plan->kind != WINDOW_NONE) {
        ret_plan->kind = WINDOW_SLEEP;
        timeout_us = left;
    }
    set_limit(ret_plan, timeout_us);
}

/*
 * At the end of a window the kernel receives until it has as many completions as were asked for, or
 * nothing is left. Small pieces that come faster than it works them off are then received one by
 * one. So where that was seen the window is slept through, and what is asked for afterwards is a
 * completion of each connection, beside those that are there since the submission: with enough of
 * them the kernel would not be entered, and nothing but what completes at once would ever be seen.
 * A kernel that wakes the wait at each completion has done all that waits for it when it is entered
 * once, without a wait.
 */
static void sleep_window(uring *u, wait_plan *plan) {
    if (io_uring_sq_ready(&u->ring) > 0)
        uring_submit_now(u);
    if (plan->time.tv_sec > 0 || plan->time.tv_nsec > 0)
        nanosleep(&(struct timespec){.tv_sec = plan->time.tv_sec, .tv_nsec = plan->time.tv_nsec}, NULL);
    plan->time = (struct __kernel_timespec){0};
    unsigned more = u->armed > 0 && u->armed < BATCH_COMPLETIONS ? u->armed : BATCH_COMPLETIONS;
    plan->completions = uring_is_piecemeal(u) ? 1 : io_uring_cq_ready(&u->ring) + more;
}

/* By the receives that were armed when it began: one that ends with what it brings is no
 * dribble. */
static void judge_window(uring *u, uint32_t armed) {
    if (u->receives > 2 * armed && u->received < (uint64_t)u->receives * DRIBBLE_BYTES)
        u->dribbles = true;
    else if (2 * u->receives < armed || u->received > 4 * (uint64_t)u->receives * DRIBBLE_BYTES)
        u->dribbles = false;
}

/*
 * Submits, and waits for so many completions. Where they are there already (a turn of many sends
 * submits several times, and sends complete at once), liburing enters the kernel to submit alone,
 * if at all. With deferred task work nothing but sends would then ever complete: no receive, no
 * accept, no poll. So the events are asked for in any case. A turn that is not to wait asks for
 * them without a time: the kernel would start a timer of none, and sleep for 50 us.
 */
static int submit_and_wait(uring *u, wait_plan *plan) {
    struct io_uring_cqe *cqe;
    u->stats.enters++;
    bool waits = !plan->limit || plan->time.tv_sec > 0 || plan->time.tv_nsec > 0 || plan->completions > 1;
    if (!waits || io_uring_cq_ready(&u->ring) >= plan->completions)
        return io_uring_submit_and_get_events(&u->ring);
    if (plan->least_us > 0) {
        uring_wait_arg arg = {.least_us = plan->least_us, .limit = (uintptr_t)plan->limit};
        return io_uring_enter2((unsigned)u->ring.ring_fd, 0, plan->completions,
                               IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, (sigset_t *)(void *)&arg, sizeof arg);
    }
    return io_uring_submit_and_wait_timeout(&u->ring, &cqe, plan->completions, plan->limit, NULL);
}

/* The same, where the kernel may raise SIGPIPE meanwhile. */
static int submit_and_wait_unharmed(uring *u, wait_plan *plan) {
    no_sigpipe held;
    if (u->pipe_writes == 0)
        return submit_and_wait(u, plan);
    no_sigpipe_begin(&held);
    int error = submit_and_wait(u, plan);
    no_sigpipe_end(&held);
    return error;
}

static int turn(sluice_backend *backend, int64_t timeout_us) {
    uring *u = of(backend);
    int error = u->enabled ? 0 : enable(u);
    if (error)
        return error;
    uring_notice_clear(u);
    if (u->cancels_due)
        send_due_cancels(u);
    if (!u->wake_armed)
        arm_wake(u);
    uring_receive_prepare(u);

    wait_plan plan;
    plan_wait(u, timeout_us, &plan);
    uint32_t armed = u->armed;
    u->overdue = false;
    if (plan.kind != WINDOW_NONE && (u->dribbles || uring_is_piecemeal(u)))
        sleep_window(u, &plan);
    u->receives = u->tries = 0;
    u->received = 0;
    error = submit_and_wait_unharmed(u, &plan);
    if (error < 0 && error != -ETIME && error != -EINTR && error != -EAGAIN && error != -EBUSY)
        return error;
    window_end(&u->window);
    sends_submitted(u);
    if (io_uring_cq_has_overflow(&u->ring))
        u->stats.overflows++;
    uint32_t count = uring_receive_read_unread(u) + collect(u);
    /* Behind the wake-up that announces them. */
    count += io_thread_collect(&u->thread);
    window_judge(&u->window, plan.kind, plan.sleeps, count - u->tries);
    if (plan.kind != WINDOW_NONE)
        judge_window(u, armed);
    /* Reads by the clock are no events: they have woken up nothing. */
    u->stats.completions += count + uring_receive_read_due(u);
    report_idle(u);
    return 0;
}

static int descriptor(sluice_backend *backend) {
    return uring_notice_fd(of(backend));
}

static void get_stats(const sluice_backend *backend, backend_stats *ret_stats) {
    const uring *u = (const uring *)backend;
    *ret_stats = u->stats;
    for (uint32_t i = 0; i < u->ring_count; i++)
        ret_stats->waiting += u->rings[i].waiting.count;
}

const struct backend_operations uring_backend = {
    .name = "io_uring",
    .create = create,
    .destroy = destroy,
    .accept = start_accept,
    .connect = start_connect,
    .resume = resume,
    .pause = pause_receive,
    .one_block = one_block,
    .interval = set_interval,
    .receive_into = receive_into,
    .stop_into = stop_into,
    .change_class = change_class,
    .room = send_room,
    .send = start_send,
    .read = start_read,
    .call = start_call,
    .cancel = cancel,
    .set_window = set_window,
    .turn = turn,
    .may_wait = may_wait,
    .wake = wake,
    .descriptor = descriptor,
    .get_stats = get_stats,
};
