/*
 * The descriptor that the host of an embedded loop watches: an eventfd that is registered with the
 * ring.
 *
 * The ring's own descriptor does not do: with deferred task work a completion is posted when its
 * owner enters the kernel, and until then pollers of the ring are not notified. A registered
 * eventfd is signalled at once. But Linux 6.12.117 signals that of a ring with deferred task work
 * once and never again, until it is registered again. So that is tried on a ring of its own, and
 * where it is so each turn registers the eventfd again.
 */
#include "backends/uring.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PROBE_ENTRIES = 4,
    PROBE_ROUNDS = 3,
    PROBE_WAIT_MS = 10, /* a signal comes at once; a late one is taken for none, which is safe */
};

static void clear(int fd) {
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
}

/* A turn of a loop that waits for a byte; then it comes. Whether the eventfd is signalled. */
static bool is_signalled(struct io_uring *ring, int fd, const int sockets[2]) {
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    struct io_uring_cqe *cqe;
    char byte = 0;
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    if (!sqe)
        return false;
    io_uring_prep_poll_add(sqe, sockets[0], POLLIN);
    clear(fd);
    if (io_uring_submit_and_get_events(ring) < 0)
        return false;
    while (io_uring_peek_cqe(ring, &cqe) == 0)
        io_uring_cqe_seen(ring, cqe);
    if (write(sockets[1], &byte, 1) != 1 || poll(&watched, 1, PROBE_WAIT_MS) != 1)
        return false;
    clear(fd);
    if (io_uring_submit_and_get_events(ring) < 0 || io_uring_peek_cqe(ring, &cqe) < 0)
        return false;
    io_uring_cqe_seen(ring, cqe);
    return read(sockets[0], &byte, 1) == 1;
}

static bool is_signalled_each_time(unsigned flags) {
    struct io_uring ring;
    int sockets[2];
    if (io_uring_queue_init(PROBE_ENTRIES, &ring, flags) < 0)
        return false;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool result = fd >= 0 && io_uring_register_eventfd(&ring, fd) == 0;
    if (result && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0) {
        for (unsigned i = 0; i < PROBE_ROUNDS && result; i++)
            result = is_signalled(&ring, fd, sockets);
        close(sockets[0]);
        close(sockets[1]);
    } else {
        result = false;
    }
    io_uring_queue_exit(&ring);
    if (fd >= 0)
        close(fd);
    return result;
}

int uring_notice_fd(uring *u) {
    int fd = atomic_load(&u->notice_fd);
    if (fd >= 0)
        return fd;
    /* Readable from the start: what was asked for so far waits for a turn. */
    fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    int error = io_uring_register_eventfd(&u->ring, fd);
    if (error) {
        close(fd);
        return error;
    }
    u->notice_rearms = u->deferred && !is_signalled_each_time(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (u->notice_rearms)
        uring_show_feature(u, URING_SHOWS_REARM);
    atomic_store(&u->notice_fd, fd);
    return fd;
}

void uring_notice_clear(uring *u) {
    int fd = atomic_load(&u->notice_fd);
    if (fd < 0)
        return;
    clear(fd);
    if (!u->notice_rearms)
        return;
    /* What completes in between is collected by this turn. */
    io_uring_unregister_eventfd(&u->ring);
    u->notice_lost = io_uring_register_eventfd(&u->ring, fd) < 0;
}
