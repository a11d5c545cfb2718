/*
 * The epoll backend: readiness instead of completions, the same blocks, chains and calls. It does
 * the work where io_uring cannot be had, and it is the baseline that the benchmarks compare with,
 * so it is built to be a strong one:
 *
 * - A ready descriptor is read once per wake-up, straight into as many blocks as its last reads
 *   filled. The pool is last in, first out, and what a read did not reach goes back at once, so
 *   that the same few blocks stay in the cache. A full read doubles the number of blocks, up to 64
 *   KiB.
 * - Readiness is level-triggered: a socket that has more is reported again, and after every short
 *   read (an urgent byte, descriptors passed along) without special care. Interest is withdrawn
 *   only when an event comes that nobody wants: a pause and a resume, or a short want of blocks,
 *   cost no system call.
 * - A send is tried at once. What came of it is told in the next turn, as if it had completed
 *   there. What the socket has no room for is the user's meanwhile, and asked for again when it
 *   has.
 * - A batching window is a sleep, then one wait that collects. It is skipped while a socket is
 *   known to have more than a read took, or a file is to be read.
 */
#include "backends/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backends/target.h"

enum {
    ACCEPTS = 64,             /* of one readiness */
    STARVED_WAIT_US = 100000, /* look again for blocks at least so often */
};

static epoll *of(sluice_backend *backend) {
    return (epoll *)backend;
}

static void wake(sluice_backend *backend) {
    epoll *e = of(backend);
    uint64_t one = 1;
    if (!atomic_exchange(&e->wake_sent, true))
        (void)!write(e->wake_fd, &one, sizeof one);
}

static void block_released(void *context) {
    wake(context);
}

static void slab_ahead(void *context, const struct iovec *memory) {
    epoll *e = context;
    prefault_start(&e->prefault, &e->thread, memory);
}

static const pool_observer observer = {.slab_ahead = slab_ahead, .released = block_released};

static int open_descriptors(epoll *e) {
    e->fd = epoll_create1(EPOLL_CLOEXEC);
    if (e->fd < 0)
        return -errno;
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->wake_fd < 0)
        return -errno;
    /* Each write is an event of its own: the counter never has to be read. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    return epoll_ctl(e->fd, EPOLL_CTL_ADD, e->wake_fd, &event) < 0 ? -errno : 0;
}

static void discard(epoll *e) {
    io_thread_end(&e->thread);
    if (e->fd >= 0)
        close(e->fd);
    if (e->wake_fd >= 0)
        close(e->wake_fd);
    fork_mark_discard(&e->base.mark);
    free(e);
}

static int create(sluice_pool *pool, const backend_options *options, sluice_backend **ret_backend) {
    if (options->batch_us > BACKEND_BATCH_MOST)
        return -EINVAL;
    epoll *e = calloc(1, sizeof *e);
    if (!e)
        return -ENOMEM;
    e->base = (sluice_backend){.operations = &epoll_backend, .pool = pool};
    io_thread_init(&e->thread, &e->base);
    e->fd = e->wake_fd = -1;
    window_init(&e->window, options->batch_us, false);
    epoll_class_open(e, pool);
    e->stats.features = "vectored";
    int error = fork_mark_make(&e->base.mark);
    if (!error)
        error = open_descriptors(e);
    if (!error)
        error = pool_observe(pool, &observer, e);
    if (error) {
        discard(e);
        return error;
    }
    *ret_backend = &e->base;
    return 0;
}

static void destroy(sluice_backend *backend) {
    epoll *e = of(backend);
    /* The thread that ran the loop may end now. */
    pool_bind(e->base.pool);
    pool_observe(e->base.pool, NULL, NULL);
    discard(e);
}

int epoll_listen(epoll *e, sluice_io *io, uint32_t events) {
    if (events == io->ready.interest)
        return 0;
    if (fork_mark_is_child(&e->base.mark))
        return -ECHILD;
    int operation = events == 0 ? EPOLL_CTL_DEL : io->ready.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    struct epoll_event event = {.events = events, .data.ptr = io};
    if (epoll_ctl(e->fd, operation, io->fd, &event) < 0)
        return -errno;
    io->ready.interest = events;
    return 0;
}

static void tell_later(epoll *e, sluice_io *io) {
    if (io->ready.to_tell)
        return;
    io->ready.to_tell = true;
    io->ready.tell_next = NULL;
    io->operations++;
    if (e->tell_last)
        e->tell_last->ready.tell_next = io;
    else
        e->tell_first = io;
    e->tell_last = io;
}

static int set_blocking(int fd, bool blocking) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

static int start_accept(sluice_backend *backend, sluice_io *io) {
    int error = set_blocking(io->fd, false);
    if (!error)
        error = epoll_listen(of(backend), io, EPOLLIN);
    io->accepting = !error;
    return error;
}

/* What has come of it at once is told in the next turn; else it is waited for. */
static bool start_connect(sluice_backend *backend, sluice_io *io, const struct sockaddr *address, socklen_t length) {
    epoll *e = of(backend);
    int error = set_blocking(io->fd, false);
    if (!error && connect(io->fd, address, length) < 0)
        error = -errno;
    if (error == -EINPROGRESS)
        error = epoll_listen(e, io, EPOLLOUT);
    else if (!error)
        error = set_blocking(io->fd, true);
    io->connecting = true;
    io->ready.failure = error;
    if (io->ready.interest == 0)
        tell_later(e, io);
    return true;
}

static void connected(sluice_io *io, int error) {
    io->connecting = false;
    io->events->connected(io, error);
}

/* The socket has become writable, or has failed. */
static void connect_ready(sluice_io *io) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    connected(io, error ? -error : set_blocking(io->fd, true));
}

static void listen_for_data(epoll *e, sluice_io *io) {
    io->ready.failure = epoll_listen(e, io, io->ready.interest | EPOLLIN);
    if (io->ready.failure)
        tell_later(e, io);
}

static void resume(sluice_backend *backend, sluice_io *io) {
    io->wants_receive = true;
    if (io->receiving == IO_RECV_OFF)
        listen_for_data(of(backend), io);
}

static void pause_receive(sluice_backend *backend, sluice_io *io) {
    epoll_receive_stop(of(backend), io);
}

static void one_block(sluice_backend *backend, sluice_io *io, bool is_most) {
    (void)backend;
    io->one_block = is_most;
}

/* Its next arrival is received as it comes, and the later ones at the interval. */
static void set_interval(sluice_backend *backend, sluice_io *io, uint8_t slots) {
    epoll *e = of(backend);
    io->interval = slots;
    io->spread &= slots > 0;
    if (slots > 0 || io->receiving != IO_RECV_INTERVAL)
        return;
    epoll_receive_leave_queue(e, io);
    listen_for_data(e, io);
}

static void receive_into(sluice_backend *backend, sluice_io *io) {
    epoll *e = of(backend);
    epoll_receive_leave_queue(e, io);
    listen_for_data(e, io);
}

static bool stop_into(sluice_backend *backend, sluice_io *io) {
    (void)backend;
    target_drop(io);
    return true;
}

static int change_class(sluice_backend *backend, sluice_io *io, sluice_pool *class) {
    epoll *e = of(backend);
    epoll_receive_change(e, io, class);
    /* The interest may have been withdrawn while it waited for a block. */
    if (io->wants_receive)
        listen_for_data(e, io);
    return 0;
}

static struct iovec *send_room(sluice_backend *backend, size_t *ret_max) {
    *ret_max = EPOLL_SEND_PIECES;
    return of(backend)->pieces;
}

static void start_send(sluice_backend *backend, sluice_io *io, size_t count) {
    epoll *e = of(backend);
    struct msghdr message = {.msg_iov = e->pieces, .msg_iovlen = count};
    ssize_t sent = sendmsg(io->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    io->ready.result = sent < 0 ? -errno : sent;
    io->sending = true;
    if (io->ready.result == -EAGAIN) {
        io->ready.result = epoll_listen(e, io, io->ready.interest | EPOLLOUT);
        io->ready.blocked = io->ready.result == 0;
    }
    io->ready.sent = true;
    tell_later(e, io);
}

static bool start_read(sluice_backend *backend, io_read *read) {
    epoll_read(of(backend), read);
    return true;
}

static bool start_call(sluice_backend *backend, io_call *call) {
    io_thread_add(&of(backend)->thread, call);
    return true;
}

static void tell_sent(sluice_io *io, ssize_t result) {
    io->sending = io->ready.blocked;
    if (result >= 0)
        io->events->sent(io, (size_t)result);
    else if (result == -EINTR)
        io->events->sent(io, 0);
    else
        io->events->send_failed(io, (int)result);
}

static void tell(sluice_io *io) {
    bool sent = io->ready.sent;
    io->ready.sent = io->ready.to_tell = false;
    io->operations--;
    if (io->connecting) {
        if (!io->cancelled)
            connected(io, io->ready.failure);
        return;
    }
    if (sent && !io->cancelled)
        tell_sent(io, io->ready.result);
    if (io->ready.failure && (io->wants_receive || target_pending(io)) && !io->cancelled)
        target_tell_ended(io, io->ready.failure);
}

/* Those only that are in the list now. How many. */
static uint32_t tell_all(epoll *e) {
    uint32_t count = 0;
    sluice_io *next;
    sluice_io *io = e->tell_first;
    e->tell_first = e->tell_last = NULL;
    for (; io; io = next) {
        next = io->ready.tell_next;
        tell(io);
        count++;
    }
    return count;
}

static void cancel(sluice_backend *backend, sluice_io *io) {
    epoll *e = of(backend);
    target_drop(io);
    epoll_receive_stop(e, io);
    epoll_drop_aim(e, io);
    /* Closing does not suffice where the descriptor has a duplicate. */
    (void)epoll_listen(e, io, 0);
    io->cancelled = true;
    e->told |= io->operations == 0;
    io_queue_push(&e->cancelled, io);
}

/* At a turn's end, when no event names them any more, and behind all that ends their operations. */
static void report_idle(epoll *e) {
    sluice_io *next;
    e->told = false;
    for (sluice_io *io = e->cancelled.first; io; io = next) {
        next = io->queue_next;
        if (io->operations > 0)
            continue;
        io_queue_remove(&e->cancelled, io);
        /* This may cancel others, which go to the end of the queue; it never takes one out. */
        io->events->idle(io);
    }
}

static void accept_all(sluice_io *io) {
    for (int i = 0; i < ACCEPTS && !io->cancelled; i++) {
        int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0) {
            io->accepting = false;
            io->events->accept_ended(io, -errno);
            return;
        }
        io->events->accepted(io, fd);
    }
}

/* The events that somebody is waiting for. */
static uint32_t wanted(const sluice_io *io) {
    bool reads = io->accepting || target_pending(io) || (io->wants_receive && io->receiving == IO_RECV_OFF);
    return (reads ? EPOLLIN : 0) | (io->ready.blocked || io->connecting ? EPOLLOUT : 0);
}

static void dispatch(epoll *e, sluice_io *io, uint32_t events) {
    if (io->cancelled)
        return;
    /* Errors and hang-ups are reported unasked; they go to whoever reads and whoever sends, for
     * them to find out. */
    if (events & (EPOLLERR | EPOLLHUP))
        events |= io->ready.interest;
    if (io->connecting) {
        connect_ready(io);
        return;
    }
    if (events & ~wanted(io))
        (void)epoll_listen(e, io, io->ready.interest & wanted(io));
    if (io->ready.blocked && events & EPOLLOUT) {
        io->ready.blocked = io->sending = false;
        io->events->room(io);
    }
    if (!(events & EPOLLIN) || io->cancelled)
        return;
    if (io->accepting)
        accept_all(io);
    else if (wanted(io) & EPOLLIN)
        epoll_receive(e, io);
}

static void sleep_us(int64_t us) {
    if (us > 0)
        nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* Whether the turn begins with a batching window: see sluice_loop_options.batch_us. */
static enum window_wait plan_window(const epoll *e, int64_t timeout_us) {
    bool may = timeout_us != 0 && !e->unread && epoll_waiting(e) == 0 && !e->reads_first && e->wheel.due.count == 0;
    return may ? window_plan(&e->window, false) : WINDOW_NONE;
}

static void set_window(sluice_backend *backend, uint32_t us) {
    window_set_length(&of(backend)->window, us);
}

static int64_t may_wait(const sluice_backend *backend) {
    const epoll *e = (const epoll *)backend;
    if (e->tell_first || e->told)
        return 0;
    int64_t due = interval_left(&e->wheel);
    return epoll_waiting(e) > 0 && (due < 0 || due > STARVED_WAIT_US) ? STARVED_WAIT_US : due;
}

/* How long to wait for events, milliseconds. */
static int plan_wait(const epoll *e, int64_t timeout_us) {
    int64_t most = may_wait(&e->base);
    if (most >= 0 && (timeout_us < 0 || timeout_us > most))
        timeout_us = most;
    if (timeout_us < 0)
        return -1;
    int64_t ms = (timeout_us + 999) / 1000;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static uint32_t dispatch_all(epoll *e, int count) {
    for (int i = 0; i < count; i++) {
        if (e->events[i].data.ptr)
            dispatch(e, e->events[i].data.ptr, e->events[i].events);
        else
            atomic_store(&e->wake_sent, false);
    }
    return (uint32_t)count;
}

static int turn(sluice_backend *backend, int64_t timeout_us) {
    epoll *e = of(backend);
    if (!e->bound) {
        pool_bind(e->base.pool);
        e->bound = true;
    }
    enum window_wait kind = plan_window(e, timeout_us);
    bool sleeps = kind != WINDOW_NONE || (timeout_us != 0 && !e->tell_first);
    if (kind != WINDOW_NONE) {
        sleep_us(window_left(&e->window, timeout_us));
        timeout_us = 0;
    }
    e->unread = false;
    uint32_t handled = epoll_receive_waiting(e) + epoll_read_some(e);
    e->stats.enters++;
    int count = epoll_wait(e->fd, e->events, EPOLL_EVENTS, handled > 0 ? 0 : plan_wait(e, timeout_us));
    if (count < 0 && errno != EINTR)
        return -errno;
    window_end(&e->window);
    e->unread |= count == EPOLL_EVENTS;
    uint32_t told = tell_all(e);
    handled += dispatch_all(e, count > 0 ? count : 0);
    /* Behind the wake-up that announces them. */
    handled += io_thread_collect(&e->thread);
    window_judge(&e->window, kind, sleeps, handled);
    /* Reads by the clock are no events: they have woken up nothing. */
    e->stats.completions += handled + told + epoll_receive_due(e);
    report_idle(e);
    return 0;
}

/* Readable while an event waits; the wake-up is one of them. */
static int descriptor(sluice_backend *backend) {
    return of(backend)->fd;
}

static void get_stats(const sluice_backend *backend, backend_stats *ret_stats) {
    const epoll *e = (const epoll *)backend;
    *ret_stats = e->stats;
    ret_stats->waiting = epoll_waiting(e);
}

const struct backend_operations epoll_backend = {
    .name = "epoll",
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
