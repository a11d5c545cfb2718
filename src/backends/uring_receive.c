/* Receiving: the ring of blocks, the queue of those who wait for blocks, and what to do when blocks run short. */
#include "backends/uring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "backends/aim.h"
#include "backends/target.h"

enum {
    DEFAULT_STOCK = 512 << 10, /* bytes; a larger ring walks through memory that has left the cache */
    MAX_ENTRIES = 32768,
    BLOCKS_PER_RECEIVE = 16, /* of a bundle, about: the blocks that an armed receive may take at once */
    POOR_SHARE = 2,          /* a block filled to less than one part in so many is poorly filled */
};

int uring_buffers_init(uring *u, uint32_t stock_bytes) {
    buffer_ring *buffers = &u->buffers;
    uint32_t stock = (stock_bytes ? stock_bytes : DEFAULT_STOCK) / pool_block_size(u->base.pool);
    if (stock > pool_max(u->base.pool) / 2)
        stock = pool_max(u->base.pool) / 2;
    if (stock > MAX_ENTRIES / 2)
        stock = MAX_ENTRIES / 2;
    if (stock < 1)
        stock = 1;
    buffers->stock = stock;
    buffers->entries = 2;
    while (buffers->entries < 2 * stock)
        buffers->entries *= 2;

    buffers->slots = calloc(buffers->entries, sizeof(sluice_block *));
    if (!buffers->slots)
        return -ENOMEM;
    buffers->size = buffers->entries * sizeof(struct io_uring_buf);
    void *memory = mmap(NULL, buffers->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    buffers->ring = memory;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory,
        .ring_entries = buffers->entries,
        .bgid = URING_BUFFER_GROUP,
    };
    int error = io_uring_register_buf_ring(&u->ring, &registration, 0);
    /* Unknown to kernels before 5.19. */
    return error == -EINVAL ? -EOPNOTSUPP : error;
}

/* The ring has been closed: what is still in the slots is ours again. */
void uring_buffers_free(uring *u) {
    buffer_ring *buffers = &u->buffers;
    for (uint32_t i = 0; buffers->slots && i < buffers->entries; i++) {
        if (!buffers->slots[i])
            continue;
        pool_from_kernel(u->base.pool, buffers->slots[i]);
        sluice_block_release(buffers->slots[i]);
    }
    free(buffers->slots);
    if (buffers->ring)
        munmap(buffers->ring, buffers->size);
}

static void restock(uring *u) {
    buffer_ring *buffers = &u->buffers;
    const int mask = (int)buffers->entries - 1;
    int added = 0;

    while (buffers->count < buffers->stock) {
        uint16_t slot = (uint16_t)((buffers->tail + added) & mask);
        sluice_block *block = buffers->slots[slot] ? NULL : pool_take(u->base.pool);
        if (!block)
            break;
        io_uring_buf_ring_add(buffers->ring, block->data, block->capacity, slot, mask, added);
        buffers->slots[slot] = block;
        pool_to_kernel(u->base.pool, block);
        buffers->count++;
        added++;
    }
    if (added > 0) {
        io_uring_buf_ring_advance(buffers->ring, added);
        buffers->tail = (uint16_t)(buffers->tail + added);
    }
}

static void arm_aimed(uring *u, sluice_io *io, struct io_uring_sqe *sqe) {
    sluice_block *block = io->aim;
    uint8_t *end = block_tail_data(block);

    /* Plain receives cannot name a registered buffer, reads can; a socket takes both. */
    if (u->fixed[block->slab])
        io_uring_prep_read_fixed(sqe, io->fd, end, block_tail(block), 0, block->slab);
    else
        io_uring_prep_recv(sqe, io->fd, end, block_tail(block), 0);
    io->receiving = IO_RECV_AIMED;
    io_queue_push(&u->aimed, io);
    u->stats.aimed++;
}

/*
 * One plain receive at a time, each for what is left. MSG_WAITALL would save the completions in between (for values of
 * 1 MiB, 1 enter in place of 20, and a seventh of the processor time), but hide why a value stays short: a reset after
 * some bytes comes as their count, its error is used up with that, and every later receive finds a peaceful end.
 */
static void arm_target(sluice_io *io, struct io_uring_sqe *sqe) {
    io_uring_prep_recv(sqe, io->fd, io->target.memory, target_room(io), 0);
    io->target.armed = true;
    io->receiving = IO_RECV_TARGET;
}

static void arm_select(uring *u, sluice_io *io, struct io_uring_sqe *sqe, bool many) {
    io_uring_prep_recv(sqe, io->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_BUFFER_GROUP;
    if (many && u->features.multishot)
        sqe->ioprio |= IORING_RECV_MULTISHOT;
    if (many && u->features.bundle)
        sqe->ioprio |= IORING_RECVSEND_BUNDLE;
    io->receiving = many ? IO_RECV_MULTI : IO_RECV_SINGLE;
}

/* False when there is no room to submit now. */
static bool arm(uring *u, sluice_io *io, bool pressed) {
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return false;
    if (!pressed || aim_is_spare(io) || target_pending(io))
        aim_drop(io);
    if (target_pending(io))
        arm_target(io, sqe);
    else if (io->aim)
        arm_aimed(u, io, sqe);
    else
        arm_select(u, io, sqe, !pressed);
    sqe->user_data = uring_data(io, URING_TAG_RECEIVE);
    io->operations++;
    return true;
}

/*
 * Stops receives that are aimed at blocks whose data has been consumed meanwhile: they give the blocks back, and wait
 * with the others. True when there were any.
 */
static bool reclaim_aims(uring *u) {
    uint32_t wanted = u->waiting.count;
    sluice_io *next;
    for (sluice_io *io = u->aimed.first; io && wanted > 0; io = next) {
        next = io->queue_next;
        if (!aim_is_spare(io))
            continue;
        io_queue_remove(&u->aimed, io);
        io->receiving = IO_RECV_STOPPING;
        uring_cancel(u, io, URING_TAG_RECEIVE);
        wanted--;
    }
    return wanted < u->waiting.count;
}

/*
 * Arms in order of arrival, no more of them than the blocks in the ring can serve: arming all at once would let the
 * first ones drain the ring and send the others straight back, again and again. A receive that brings its own room
 * (an aim or a target) does not count.
 */
static void arm_waiting(uring *u) {
    uint32_t quota = (u->buffers.count + BLOCKS_PER_RECEIVE - 1) / BLOCKS_PER_RECEIVE;
    bool pressed = pool_is_pressed(u->base.pool);
    bool armed_any = false;
    sluice_io *next;

    for (sluice_io *io = u->waiting.first; io; io = next) {
        next = io->queue_next;
        bool brings_room = io->aim || target_pending(io);
        if (quota == 0 && !brings_room)
            continue;
        if (!brings_room)
            quota--;
        io_queue_remove(&u->waiting, io);
        if (!arm(u, io, pressed)) {
            io_queue_push(&u->waiting, io);
            return;
        }
        armed_any = true;
    }
    if (armed_any || !u->waiting.first)
        u->starved_since = 0;
    else if (pool_want_release(u->base.pool) && !reclaim_aims(u))
        u->told |= io_queue_break_deadlock(&u->waiting, &u->starved_since);
}

void uring_receive_prepare(uring *u) {
    restock(u);
    if (u->waiting.first)
        arm_waiting(u);
}

static void wait_for_arming(uring *u, sluice_io *io) {
    io->receiving = IO_RECV_WAITING;
    io_queue_push(&u->waiting, io);
}

/*
 * Takes the blocks that the kernel has filled: a bundle fills neighbouring slots, each but the last to the length that
 * its entry has. That may be less than the block: since Linux 6.10 a receive shortens the entry where it expects its
 * bytes to end, and when none come the entry stays short for the next one.
 * The slot's own content is believed, not the id alone. False when the kernel names a block that it does not have.
 */
static bool take_filled(uring *u, sluice_io *io, uint32_t id, uint32_t n) {
    buffer_ring *buffers = &u->buffers;
    sluice_block *block;
    do {
        uint32_t slot = id++ & (buffers->entries - 1);
        block = buffers->slots[slot];
        if (!block)
            return false;
        buffers->slots[slot] = NULL;
        buffers->count--;
        pool_from_kernel(u->base.pool, block);
        uint32_t room = buffers->ring->bufs[slot].len;
        block->length = n < room ? n : room;
        n -= block->length;
        if (io->cancelled) {
            sluice_block_release(block);
            continue;
        }
        aim_drop(io);
        sluice_chain_append(&io->chain, block);
    } while (n > 0);
    return true;
}

/* The bytes of one completion go to the chain. 0, or the error that the stream cannot survive. */
static int take_bytes(uring *u, sluice_io *io, int result, uint32_t flags) {
    if (result > 0 && !(flags & IORING_CQE_F_BUFFER))
        return io->cancelled ? 0 : aim_filled(io, (uint32_t)result);
    /* An end of the stream can carry a block on some kernels; an error never does, whatever its flags say. */
    if (result >= 0 && (flags & IORING_CQE_F_BUFFER))
        return take_filled(u, io, flags >> IORING_CQE_BUFFER_SHIFT, (uint32_t)result) ? 0 : -EIO;
    return 0;
}

/* The newest block is filled to less than half, as far as it is still there to be seen. */
static bool is_poorly_filled(const sluice_io *io) {
    const sluice_block *last = io->chain.last;
    return last && last->kind == BLOCK_POOLED && last->length < last->capacity / POOR_SHARE;
}

static bool is_passing(int result) {
    return result > 0 || result == -ENOBUFS || result == -ECANCELED || result == -EINTR || result == -EAGAIN;
}

/* Ends what is armed, or waits to be. */
static void stop(uring *u, sluice_io *io) {
    switch (io->receiving) {
    case IO_RECV_WAITING:
        io_queue_remove(&u->waiting, io);
        io->receiving = IO_RECV_OFF;
        break;
    case IO_RECV_AIMED:
        io_queue_remove(&u->aimed, io);
        /* fall through */
    case IO_RECV_MULTI:
    case IO_RECV_SINGLE:
    case IO_RECV_TARGET:
        io->receiving = IO_RECV_STOPPING;
        uring_cancel(u, io, URING_TAG_RECEIVE);
        break;
    case IO_RECV_OFF:
    case IO_RECV_STOPPING:
        break;
    }
}

static void target_completed(uring *u, sluice_io *io, int result) {
    io->operations--;
    io->receiving = IO_RECV_OFF;
    io->target.armed = false;
    if (result > 0) {
        target_written(io, (size_t)result);
        u->stats.direct += (uint64_t)result;
    }
    if (io->cancelled)
        return;
    if (!is_passing(result)) {
        target_tell_ended(io, result);
    } else if (io->target.stopping) {
        target_drop(io);
        io->events->placed(io);
    } else if (result > 0) {
        target_tell_grown(io);
    }
    if (io->wants_receive || target_pending(io))
        wait_for_arming(u, io);
}

static void blocks_completed(uring *u, sluice_io *io, int result, uint32_t flags) {
    bool goes_on = flags & IORING_CQE_F_MORE;
    bool pressed = pool_is_pressed(u->base.pool);
    int error = take_bytes(u, io, result, flags);

    if (!goes_on) {
        if (io->receiving == IO_RECV_AIMED)
            io_queue_remove(&u->aimed, io);
        io->operations--;
        io->receiving = IO_RECV_OFF;
    }
    if (result == -ENOBUFS)
        u->stats.starved++;
    if (io->cancelled)
        return;
    if (result > 0 && !error)
        target_tell_received(io);

    if (error || (!goes_on && !is_passing(result))) {
        if (goes_on)
            stop(u, io);
        target_tell_ended(io, error ? error : result);
    } else if (!goes_on && (io->wants_receive || target_pending(io))) {
        if (pressed)
            aim_take(io);
        if (aim_is_spare(io))
            aim_drop(io);
        wait_for_arming(u, io);
    } else if (pressed && io->receiving == IO_RECV_MULTI && is_poorly_filled(io)) {
        /* Small pieces are using up whole blocks: go over to filling each block to its end. */
        io->receiving = IO_RECV_STOPPING;
        uring_cancel(u, io, URING_TAG_RECEIVE);
    }
}

void uring_receive_completed(uring *u, sluice_io *io, int result, uint32_t flags) {
    if (io->target.armed)
        target_completed(u, io, result);
    else
        blocks_completed(u, io, result, flags);
}

void uring_receive_resume(uring *u, sluice_io *io) {
    io->wants_receive = true;
    /* While a cancel is on its way, the last completion of what it cancels does this. */
    if (io->receiving == IO_RECV_OFF)
        wait_for_arming(u, io);
}

void uring_receive_stop(uring *u, sluice_io *io) {
    io->wants_receive = false;
    if (!target_pending(io))
        stop(u, io);
}

void uring_receive_into(uring *u, sluice_io *io) {
    stop(u, io);
    /* Else the last completion of what is being stopped does this. */
    if (io->receiving == IO_RECV_OFF)
        wait_for_arming(u, io);
}

bool uring_receive_stop_into(uring *u, sluice_io *io) {
    if (io->target.armed) {
        io->target.stopping = true;
        stop(u, io);
        return false;
    }
    target_drop(io);
    if (!io->wants_receive)
        stop(u, io);
    return true;
}
