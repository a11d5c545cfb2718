/* Receiving, as tcp_recvmsg() and io_uring's io_recv() do it. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "sim/ring.h"
#include "sim/world.h"

static bool takes_many(const struct op *op) {
    return op->sqe.opcode == IORING_OP_RECV && (op->sqe.ioprio & IORING_RECV_MULTISHOT);
}

/* What is there now; the first try does not wait for the low-water mark. */
static bool is_ready(const struct op *op) {
    const struct file *file = op->file;
    size_t enough = op->is_fresh || op->is_running ? 1 : file->low_water;
    return file->received_length >= enough || file->peer_finished || file->error || file->dead;
}

/* Bytes to be taken: all of what fits, or fewer. */
static uint32_t choose_length(const struct file *file, size_t most) {
    size_t n = file->received_length < most ? file->received_length : most;
    if (file->stop > 0 && n > file->stop)
        n = file->stop;
    if (n > 1 && world_has(FAULT_SHORT_RECEIVE))
        n = world_between(1, (uint32_t)n - 1);
    return (uint32_t)n;
}

/* What there is besides bytes: an error, once, or the end. */
static int end_of(struct file *file) {
    int error = file->error;
    file->error = 0;
    return error;
}

static int receive_plain(struct op *op, uint8_t *memory, size_t n) {
    struct file *file = op->file;
    if (file->received_length == 0)
        return end_of(file);
    n = choose_length(file, n);
    file_take_received(file, memory, n);
    return (int)n;
}

static struct io_uring_buf *entry(const struct group *group, uint16_t at) {
    return &group->ring->bufs[at & (group->entries - 1)];
}

/*
 * How many bytes the entries take that a receive looks at: the one that it expects its bytes to end
 * in is shortened to that, which stays where they do not come.
 */
static size_t peek(struct group *group, const struct op *op, bool many) {
    size_t expected = op->file->received_length, room = 0;
    uint32_t count = many ? group_count(group) : 1;
    if (!many)
        return entry(group, group->head)->len;
    for (uint32_t i = 0; i < count && expected > 0 && i < 256; i++) {
        struct io_uring_buf *buffer = entry(group, (uint16_t)(group->head + i));
        if (buffer->len > expected)
            buffer->len = (uint32_t)expected;
        expected -= buffer->len;
        room += buffer->len;
    }
    return room;
}

static uint32_t fill(struct group *group, struct file *file, uint32_t n) {
    uint32_t count = 0;
    while (n > 0) {
        uint32_t room = entry(group, group->head)->len;
        uint32_t here = n < room ? n : room;
        group_fill(group, group->head, file, here);
        group_take(group);
        count++;
        n -= here;
    }
    return count;
}

static uint32_t flags_of(const struct group *group) {
    return IORING_CQE_F_BUFFER | (uint32_t)entry(group, group->head)->bid << IORING_CQE_BUFFER_SHIFT;
}

/* The bytes that come may be fewer than were expected, or none. */
static bool shortens(struct group *group, const struct op *op, bool bundle) {
    struct io_uring_buf *buffer = entry(group, group->head);
    if (!bundle || op->file->received_length > 0 || op->file->peer_finished || op->file->dead || buffer->len < 2 ||
        !world_has(FAULT_SHORT_ENTRY))
        return false;
    buffer->len = world_between(1, buffer->len - 1);
    return true;
}

static void finish_ended(struct ring *ring, struct op *op, struct group *group) {
    int error = end_of(op->file);
    if (error || group_count(group) == 0 || !world_has(FAULT_END_WITH_BUFFER)) {
        ring_finish(ring, op, error, 0, 0);
        return;
    }
    uint32_t flags = flags_of(group);
    group_take(group);
    ring_finish(ring, op, 0, flags, 1);
}

static bool ends_after(const struct op *op, const struct group *group, bool many, bool last) {
    if (!many || last || world_has(FAULT_MULTISHOT_ENDS))
        return true;
    /* A bundle that has drained the ring ends, in some kernels. */
    return group->head == group->seen && (op->id & 1);
}

/*
 * A bundle that is short, although there is more. Some kernels go on with it in the next buffer,
 * and complete with the sum: who takes the buffers for full ones takes bytes for received that are
 * not.
 */
static uint32_t go_on(struct group *group, struct op *op, uint32_t *buffers) {
    if (ring_kernel_age() != KERNEL_GAPS || op->file->received_length == 0 || group_count(group) == 0)
        return 0;
    uint32_t n = choose_length(op->file, peek(group, op, true));
    *buffers += fill(group, op->file, n);
    return n;
}

static bool receive_blocks(struct ring *ring, struct op *op, bool last) {
    struct group *group = &ring->groups[op->sqe.buf_group];
    bool many = takes_many(op);
    bool bundle = many && (op->sqe.ioprio & IORING_RECVSEND_BUNDLE);
    WORLD_CHECK(group->ring, "a receive from group %u, which does not exist", op->sqe.buf_group);
    group_look(group, ring);
    /* A buffer is chosen first: without one, neither bytes nor the end are looked at. */
    bool ready = is_ready(op);
    if ((ready || op->is_fresh) && (group_count(group) == 0 || world_has(FAULT_NO_BUFFERS))) {
        ring_finish(ring, op, -ENOBUFS, 0, 0);
        return true;
    }
    if (!ready) {
        if (op->is_fresh)
            (void)shortens(group, op, bundle);
        return false;
    }
    if (op->file->received_length == 0) {
        finish_ended(ring, op, group);
        return true;
    }
    uint32_t flags = flags_of(group);
    size_t room = peek(group, op, bundle);
    uint32_t n = choose_length(op->file, room);
    uint32_t buffers = fill(group, op->file, n);
    if (bundle && n < room)
        n += go_on(group, op, &buffers);
    if (op->file->received_length > 0 || op->file->peer_finished)
        flags |= IORING_CQE_F_SOCK_NONEMPTY;
    if (ends_after(op, group, many, last) || !ring_post_more(ring, op, (int)n, flags, buffers))
        ring_finish(ring, op, (int)n, flags, buffers);
    return true;
}

static void check_fixed(const struct ring *ring, const struct op *op) {
    const struct iovec *fixed = &ring->fixed[op->sqe.buf_index];
    uint64_t first = (uint64_t)(uintptr_t)fixed->iov_base;
    WORLD_CHECK(op->sqe.buf_index < ring->fixed_count && op->sqe.addr >= first &&
                    op->sqe.addr + op->sqe.len <= first + fixed->iov_len,
                "a read outside of its fixed buffer");
}

bool ring_receive(struct ring *ring, struct op *op) {
    if (is_ready(op) && !op->is_fresh && !op->is_late && world_has(FAULT_LATE)) {
        op->is_late = true;
        ring_delay(op, world_between(1, 10000));
        return false;
    }
    if (op->sqe.flags & IOSQE_BUFFER_SELECT)
        return receive_blocks(ring, op, false);
    if (!is_ready(op))
        return false;
    if (op->sqe.opcode == IORING_OP_READ_FIXED)
        check_fixed(ring, op);
    int result = world_has(FAULT_INTERRUPT) ? -EINTR
                                            : receive_plain(op, (uint8_t *)(uintptr_t)op->sqe.addr, op->sqe.len);
    ring_finish(ring, op, result, 0, 0);
    return true;
}

bool ring_receive_last(struct ring *ring, struct op *op) {
    if (op->file->received_length == 0 && !op->file->peer_finished && !op->file->error && !op->file->dead)
        return false;
    op->is_fresh = true;
    if (op->sqe.flags & IOSQE_BUFFER_SELECT)
        return receive_blocks(ring, op, true);
    ring_finish(ring, op, receive_plain(op, (uint8_t *)(uintptr_t)op->sqe.addr, op->sqe.len), 0, 0);
    return true;
}

/* Once for what is there when it begins, then once for all that has come since. */
bool ring_poll_arrivals(struct ring *ring, struct op *op) {
    const struct file *file = op->file;
    bool is_ready = file->received_length >= file->low_water || file->peer_finished || file->error || file->dead;
    if (!is_ready || (!op->is_fresh && op->seen == file->came))
        return false;
    if (!op->is_fresh && !op->is_late && world_has(FAULT_LATE)) {
        op->is_late = true;
        ring_delay(op, world_between(1, 10000));
        return false;
    }
    op->seen = file->came;
    int events = POLLIN | (file->peer_finished ? POLLRDHUP : 0) | (file->dead || file->error ? POLLERR | POLLHUP : 0);
    if (world_has(FAULT_MULTISHOT_ENDS) || !ring_post_more(ring, op, events, 0, 0))
        ring_finish(ring, op, events, 0, 0);
    return true;
}

/* TCP_INQ: what is left, or 1 where that is the end. */
static void tell_rest(const struct file *file, struct msghdr *message) {
    int left = file->received_length > 0 ? (int)file->received_length : file->peer_finished;
    if (!message->msg_control)
        return;
    message->msg_controllen = file->tells_rest ? CMSG_SPACE(sizeof left) : 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (!header)
        return;
    *header = (struct cmsghdr){CMSG_LEN(sizeof left), IPPROTO_TCP, TCP_CM_INQ};
    memcpy(CMSG_DATA(header), &left, sizeof left);
}

/* As tcp_recvmsg() without a wait: all that is there, as far as there is room. */
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags) {
    struct file *file = kernel_file(fd);
    ssize_t done = 0;
    WORLD_CHECK(file && flags == MSG_DONTWAIT, "recvmsg(%d) with flags %d", fd, flags);
    world_trace("recvmsg", file->id, (int64_t)file->received_length, 0);
    for (size_t i = 0; i < message->msg_iovlen && file->received_length > 0; i++) {
        const struct iovec *piece = &message->msg_iov[i];
        size_t n = file->received_length < piece->iov_len ? file->received_length : piece->iov_len;
        file_take_received(file, piece->iov_base, n);
        done += (ssize_t)n;
    }
    int error = done > 0 ? 0 : file->error || file->dead || file->peer_finished ? end_of(file) : -EAGAIN;
    if (error) {
        errno = -error;
        return -1;
    }
    tell_rest(file, message);
    return done;
}

/* Also of bytes that nobody wants: MSG_TRUNC. */
ssize_t __wrap_recv(int fd, void *memory, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *memory, size_t n, int flags) {
    uint8_t dropped[4096];
    struct iovec piece = {flags & MSG_TRUNC ? dropped : memory, n};
    if (flags & MSG_TRUNC && n > sizeof dropped)
        piece.iov_len = sizeof dropped;
    return __wrap_recvmsg(fd, &(struct msghdr){.msg_iov = &piece, .msg_iovlen = 1}, flags & ~MSG_TRUNC);
}
