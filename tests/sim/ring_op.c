/* The operations of the simulated io_uring but for receiving. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "sim/ring.h"
#include "sim/world.h"

/* Cancelling */

static struct op *find(struct ring *ring, uint64_t data) {
    struct op *op = ring->first;
    while (op && op->sqe.user_data != data)
        op = op->next;
    return op;
}

static bool receives(const struct op *op) {
    return op->file && op->file->kind == FILE_STREAM &&
           (op->sqe.opcode == IORING_OP_RECV || op->sqe.opcode == IORING_OP_READ_FIXED);
}

/* Works on for a while, and then takes what there is, or gives up. */
static void run_on(struct op *op) {
    op->is_running = true;
    ring_delay(op, world_between(1, 20000));
}

static void cancel(struct ring *ring, const struct io_uring_sqe *sqe) {
    struct op *op = find(ring, sqe->addr);
    world_trace("cancel", op ? op->id : 0, 0, 0);
    if (!op) {
        ring_post(ring, sqe->user_data, -ENOENT);
        return;
    }
    if (op->is_running || (receives(op) && world_has(FAULT_CANCEL_RUNS))) {
        if (!op->is_running)
            run_on(op);
        ring_post(ring, sqe->user_data, -EALREADY);
        return;
    }
    if (receives(op) && world_has(FAULT_CANCEL_MISSES)) {
        uint64_t data = sqe->user_data;
        bool ended = ring_receive_last(ring, op);
        ring_post(ring, data, -ENOENT);
        if (!ended)
            run_on(op);
        return;
    }
    bool first = world_one_in(2);
    if (first)
        ring_post(ring, sqe->user_data, 0);
    ring_finish(ring, op, -ECANCELED, 0, 0);
    if (!first)
        ring_post(ring, sqe->user_data, 0);
}

/* Sockets */

static bool try_accept(struct ring *ring, struct op *op) {
    struct file *listener = op->file;
    if (listener->arrival_count == 0)
        return false;
    if (world_has(FAULT_ACCEPT)) {
        ring_finish(ring, op, world_one_in(2) ? -EMFILE : -ECONNABORTED, 0, 0);
        return true;
    }
    struct file *file = listener->arrivals[0];
    int fd = kernel_open(file);
    memmove(listener->arrivals, listener->arrivals + 1, --listener->arrival_count * sizeof *listener->arrivals);
    world_trace("accept", file->id, fd - KERNEL_FIRST_FD, 0);
    if (world_has(FAULT_MULTISHOT_ENDS) || !ring_post_more(ring, op, fd, 0, 0))
        ring_finish(ring, op, fd, 0, 0);
    return true;
}

static int send_message(struct file *file, const struct msghdr *message) {
    size_t length = 0, room = file->buffer - (file->sent_length < file->buffer ? file->sent_length : file->buffer);
    int error = file->error;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        length += message->msg_iov[i].iov_len;
    file->error = 0;
    if (error)
        return error;
    if (file->dead || file->finished)
        return -EPIPE;
    if (length > 0 && room == 0)
        return -EAGAIN;
    if (world_has(FAULT_INTERRUPT))
        return -EINTR;
    if (length > room)
        length = room;
    if (length > 1 && world_has(FAULT_SHORT_SEND))
        length = world_between(1, (uint32_t)length - 1);
    return (int)file_put_sent(file, message->msg_iov, message->msg_iovlen, length);
}

static bool try_send(struct ring *ring, struct op *op) {
    const struct msghdr *message = (const struct msghdr *)(uintptr_t)op->sqe.addr;
    WORLD_CHECK(op->sqe.msg_flags & MSG_DONTWAIT, "a send that would wait");
    int result = send_message(op->file, message);
    world_trace("send", op->file->id, result, 0);
    ring_finish(ring, op, result, 0, 0);
    return true;
}

static bool try_poll(struct ring *ring, struct op *op) {
    const struct file *file = op->file;
    int events = 0;
    if (file->sent_length + file->buffer / 3 <= file->buffer)
        events |= POLLOUT;
    if (file->dead || file->error)
        events |= POLLERR | POLLHUP | POLLOUT;
    if (!events && world_has(FAULT_POLL))
        events = POLLIN | POLLRDHUP;
    if (!events) {
        /* Looked at again though nothing has come: it may be ready for nothing then. */
        if (world_rate(FAULT_POLL) > 0 && !world_is_calm())
            ring_delay(op, world_between(1, 1000));
        return false;
    }
    ring_finish(ring, op, events, 0, 0);
    return true;
}

static bool try_read_event(struct ring *ring, struct op *op) {
    uint64_t count = op->file->count;
    if (count == 0)
        return false;
    op->file->count = 0;
    memcpy((void *)(uintptr_t)op->sqe.addr, &count, sizeof count);
    ring_finish(ring, op, sizeof count, 0, 0);
    return true;
}

/* Files */

static int on_disk(const struct op *op) {
    const struct io_uring_sqe *sqe = &op->sqe;
    struct disk_file *disk = op->file ? op->file->disk : NULL;
    const struct iovec one = {(void *)(uintptr_t)sqe->addr, sqe->len};
    switch (sqe->opcode) {
    case IORING_OP_WRITEV:
        return disk_write(disk, op->pieces, op->count, sqe->off);
    case IORING_OP_READV:
        return disk_read(disk, op->pieces, op->count, sqe->off);
    case IORING_OP_READ:
    case IORING_OP_READ_FIXED:
        return disk_read(disk, &one, 1, sqe->off);
    case IORING_OP_FSYNC:
        return world_has(FAULT_DISK_ERROR) ? -EIO : 0;
    case IORING_OP_RENAMEAT:
        return disk_rename((const char *)(uintptr_t)sqe->addr, (const char *)(uintptr_t)sqe->addr2, sqe->rename_flags);
    case IORING_OP_CLOSE:
        return kernel_close(sqe->fd);
    }
    return -EINVAL;
}

static bool is_disk(const struct op *op) {
    return op->sqe.opcode == IORING_OP_RENAMEAT || op->sqe.opcode == IORING_OP_CLOSE ||
           (op->file && op->file->kind == FILE_DISK);
}

static bool try_disk(struct ring *ring, struct op *op) {
    if (op->sqe.opcode == IORING_OP_READ_FIXED)
        WORLD_CHECK(op->sqe.buf_index < ring->fixed_count, "fixed buffer %u", op->sqe.buf_index);
    int result = on_disk(op);
    world_trace("disk", op->sqe.opcode, result, 0);
    ring_finish(ring, op, result, 0, 0);
    return true;
}

bool ring_try_op(struct ring *ring, struct op *op) {
    if (is_disk(op))
        return try_disk(ring, op);
    if (op->is_running) {
        if (!ring_receive_last(ring, op))
            ring_finish(ring, op, -ECANCELED, 0, 0);
        return true;
    }
    switch (op->sqe.opcode) {
    case IORING_OP_ACCEPT:
        return try_accept(ring, op);
    case IORING_OP_RECV:
    case IORING_OP_READ_FIXED:
        return ring_receive(ring, op);
    case IORING_OP_SENDMSG:
        return try_send(ring, op);
    case IORING_OP_POLL_ADD:
        return op->sqe.len & IORING_POLL_ADD_MULTI ? ring_poll_arrivals(ring, op) : try_poll(ring, op);
    case IORING_OP_READ:
        return try_read_event(ring, op);
    case IORING_OP_TIMEOUT:
        ring_finish(ring, op, -ETIME, 0, 0);
        return true;
    }
    world_fail("operation %u is not simulated", op->sqe.opcode);
}

/* What the kernel reads when it is submitted. */
static void take_arguments(struct op *op) {
    const struct io_uring_sqe *sqe = &op->sqe;
    if (sqe->opcode == IORING_OP_READV || sqe->opcode == IORING_OP_WRITEV) {
        op->count = sqe->len;
        op->pieces = world_allocate(op->count * sizeof *op->pieces);
        memcpy(op->pieces, (const void *)(uintptr_t)sqe->addr, op->count * sizeof *op->pieces);
    }
    if (sqe->opcode == IORING_OP_TIMEOUT) {
        const struct __kernel_timespec *time = (const struct __kernel_timespec *)(uintptr_t)sqe->addr;
        ring_delay(op, (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_nsec / 1000);
    }
}

static bool needs_file(const struct io_uring_sqe *sqe) {
    return sqe->opcode != IORING_OP_TIMEOUT && sqe->opcode != IORING_OP_RENAMEAT && sqe->opcode != IORING_OP_CLOSE;
}

void ring_begin_op(struct ring *ring, const struct io_uring_sqe *sqe) {
    if (sqe->opcode == IORING_OP_ASYNC_CANCEL) {
        cancel(ring, sqe);
        return;
    }
    struct file *file = needs_file(sqe) ? kernel_file(sqe->fd) : NULL;
    WORLD_CHECK(file || !needs_file(sqe), "operation %u on descriptor %d, which is not open", sqe->opcode, sqe->fd);
    struct op *op = ring_add(ring, sqe);
    world_trace("op", op->id, sqe->opcode, (int64_t)(sqe->user_data & 7));
    if (file) {
        op->file = kernel_file_ref(file);
        loop_list_add(&file->ops, &op->of_file);
    }
    take_arguments(op);
    if (ring_kernel_age() == KERNEL_SINGLE && sqe->opcode == IORING_OP_RECV && sqe->ioprio) {
        ring_finish(ring, op, -EINVAL, 0, 0);
        return;
    }
    if (is_disk(op)) {
        ring_delay(op, disk_delay());
        return;
    }
    if (op->due > world_now())
        return;
    /* Tried at once, and then whenever something has come. */
    if (!ring_try_op(ring, op))
        op->is_fresh = false;
}
