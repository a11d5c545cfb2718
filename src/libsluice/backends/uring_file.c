/*
 * Reading files. One readv of 16 blocks of 4 KiB costs half as much as 16 reads of registered
 * blocks (0.08 against 0.16 ns a byte from the page cache; one read of 64 KiB: 0.07), so the
 * registered memory is named only where the blocks of a read are neighbours and make one piece.
 */
#include "backends/io_read.h"
#include "backends/uring.h"
#include "memory/poison.h"

static bool is_full(const uring *u) {
    return u->iovecs_used + IO_READ_BLOCKS > URING_IOVECS;
}

bool uring_read(uring *u, io_read *read) {
    if (is_full(u))
        uring_submit_now(u);
    /* This may submit as well, and empty the pieces with that. */
    struct io_uring_sqe *sqe = is_full(u) ? NULL : uring_sqe(u);
    if (!sqe)
        return false;
    sluice_block *first;
    struct iovec *pieces = &u->iovecs[u->iovecs_used];
    uint32_t count = io_read_pieces(read, pieces, &first);
    uint64_t offset = read->offset + read->filled;
    if (count > 1) {
        io_uring_prep_readv(sqe, read->io->fd, pieces, count, offset);
        u->iovecs_used += count;
    } else if (uring_is_fixed(u, first->slab)) {
        io_uring_prep_read_fixed(sqe, read->io->fd, pieces->iov_base, (unsigned)pieces->iov_len, offset, first->slab);
    } else {
        io_uring_prep_read(sqe, read->io->fd, pieces->iov_base, (unsigned)pieces->iov_len, offset);
    }
    sqe->user_data = (uint64_t)(uintptr_t)read | URING_TAG_READ;
    read->io->operations++;
    return true;
}

/* Blocks that the kernel has filled, as far as it has: for memory checkers alone. */
static void note_filled(const io_read *read, int result) {
#ifdef SLUICE_KNOWS_WRITTEN
    struct iovec pieces[IO_READ_BLOCKS];
    sluice_block *first;
    size_t left = result > 0 ? (size_t)result : 0;
    uint32_t count = left > 0 ? io_read_pieces(read, pieces, &first) : 0;
    for (uint32_t i = 0; i < count && left > 0; i++) {
        size_t here = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        note_written(pieces[i].iov_base, here);
        left -= here;
    }
#else
    (void)read;
    (void)result;
#endif
}

void uring_read_completed(io_read *read, int result) {
    sluice_io *io = read->io;
    note_filled(read, result);
    io->operations--;
    if (!io->cancelled)
        io->events->read_done(io, read, result);
}

/* To a pipe, or what else is no file: SIGPIPE comes with -EPIPE. */
static bool is_pipe_write(const io_call *call) {
    return call->kind == IO_WRITE && call->offset == IO_NO_PLACE;
}

/*
 * What the ring cannot do goes to the thread; and what may raise a signal, which that thread has
 * blocked, unless it can only come while the ring is entered.
 */
static bool is_for_thread(const uring *u, const io_call *call) {
    return call->kind == IO_RUN || (is_pipe_write(call) && !u->deferred);
}

/* liburing names the ring's own calls. */
bool uring_call(uring *u, io_call *call) {
    if (is_for_thread(u, call)) {
        io_thread_add(&u->thread, call);
        return true;
    }
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return false;
    if (call->kind == IO_WRITE)
        io_uring_prep_writev(sqe, call->fd, call->pieces, call->count, call->offset);
    else if (call->kind == IO_SYNC)
        io_uring_prep_fsync(sqe, call->fd, IORING_FSYNC_DATASYNC);
    else if (call->kind == IO_RENAME)
        io_uring_prep_renameat(sqe, call->directory, call->from, call->directory, call->to, call->flags);
    else
        io_uring_prep_close(sqe, call->fd);
    sqe->user_data = (uint64_t)(uintptr_t)call | URING_TAG_CALL;
    call->io->operations++;
    u->pipe_writes += is_pipe_write(call);
    return true;
}

void uring_call_completed(uring *u, io_call *call, int result) {
    u->pipe_writes -= is_pipe_write(call);
    io_call_completed(call, result);
}
