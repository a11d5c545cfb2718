/* Receiving: the queues of receives that wait for blocks, and what to do when blocks run short. */
#include "backends/uring.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "backends/aim.h"
#include "backends/burst.h"
#include "backends/target.h"
#include "memory/poison.h"

enum {
    /* of a bundle, about: the blocks that an armed receive may take at once */
    BLOCKS_PER_RECEIVE = 16,
    LATELY_TURNS = 16, /* after so many, blocks that were taken count half */
    CROWD_SHARE = 4,   /* many wait where there is less than so many blocks for each */
    HEAVY_SHARE = 4,   /* one part in so many of the blocks is for receives that take many */
    POOR_SHARE = 2,    /* a block filled to less than one part in so many is poorly filled */
    /* after so many blocks in a row that were filled up, or so many bundles in a row that were cut
     * short, a receive is polled for, beginning with reads of so many blocks */
    FULL_STREAK = 3,
    FIRST_BURST = 4,
    /* and no longer after so many reads in a row of one block at most: where there are bundles; and
     * where there are not, since a stream's next key picture would be polled for again */
    SMALL_STREAK = 16,
    LONG_SMALL_STREAK = 250,
    /* what reads of several blocks take in one turn, in stocks of a ring of full blocks: consumers
     * run behind the turn, and until then all of it is held */
    READ_STOCKS = 16,
    /* bytes of a bundle that is as good as a read */
    LEAST_BUNDLE = BURST_BYTES / 4,
};

static buffer_ring *ring_of(uring *u, const sluice_io *io) {
    return &u->rings[io->group];
}

static uint32_t at_most(uint32_t value, uint32_t most) {
    return value < most ? value : most;
}

static void arm_aimed(uring *u, sluice_io *io, struct io_uring_sqe *sqe) {
    /* A read could name a registered buffer: no faster, and a peer that sends little would have the
     * slab pinned. */
    io_uring_prep_recv(sqe, io->fd, block_tail_data(io->aim), block_tail(io->aim), 0);
    io->receiving = IO_RECV_AIMED;
    io_queue_push(&ring_of(u, io)->aimed, io);
    u->stats.aimed++;
}

/*
 * One plain receive at a time, each for what is left. MSG_WAITALL would save the completions in
 * between (for values of 1 MiB, 1 enter in place of 20, and a seventh of the processor time), but
 * hide why a value stays short: a reset after some bytes comes as their count, its error is used up
 * with that, and every later receive finds a peaceful end.
 */
static void arm_target(sluice_io *io, struct io_uring_sqe *sqe) {
    io_uring_prep_recv(sqe, io->fd, io->target.memory, target_room(io), 0);
    io->receiving = IO_RECV_TARGET;
}

/*
 * Whether one receive may complete many times. Not from AF_UNIX: where bytes and the end behind
 * them come before the ring's owner looks, such a receive brings the bytes and never the end (Linux
 * 6.18; liburing's issue 1549). Nor from TCP once it has stopped at an urgent byte: see
 * look_at_promised().
 */
static bool is_multishot(const uring *u, sluice_io *io) {
    int domain = 0;
    if (u->features.multishot && io->domain == 0)
        io->domain = getsockopt(io->fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain}) == 0
                         ? (uint16_t)domain
                         : AF_MAX;
    return u->features.multishot && io->domain != AF_UNIX && !io->urgent;
}

/* Whether reads of several blocks can take the place of its receives. */
static bool has_bursts(const uring *u, sluice_io *io) {
    return is_multishot(u, io) && burst_most(pool_block_size(io->chain.pool)) > 1;
}

static void arm_select(uring *u, sluice_io *io, struct io_uring_sqe *sqe, bool many) {
    io_uring_prep_recv(sqe, io->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = io->group;
    if (many && is_multishot(u, io))
        sqe->ioprio |= IORING_RECV_MULTISHOT;
    if (many && u->features.bundle)
        sqe->ioprio |= IORING_RECVSEND_BUNDLE;
    io->receiving = many ? IO_RECV_MULTI : IO_RECV_SINGLE;
}

static void arm_poll(sluice_io *io, struct io_uring_sqe *sqe) {
    io_uring_prep_poll_multishot(sqe, io->fd, POLLIN);
    io->receiving = IO_RECV_POLLED;
    io->polled = true;
    burst_count_rest(io, true);
    io->streak = 0;
}

static bool allows_bursts(const sluice_io *io, bool pressed) {
    return !pressed && !io->one_block && !io->fragmented && !io->urgent && io->interval == 0;
}

/* Reading into several blocks at once by a system call, where that costs less than a completion for
 * each block. */
static bool is_for_bursts(const sluice_io *io, bool pressed) {
    return io->burst > 1 && allows_bursts(io, pressed);
}

static void leave_waiting(buffer_ring *ring, sluice_io *io) {
    sluice_io *before = io->queue_prev && io->queue_prev->light == io->light ? io->queue_prev : NULL;
    if (ring->last_unserved[io->light] == io)
        ring->last_unserved[io->light] = before;
    if (ring->last_light == io)
        ring->last_light = before;
    io_queue_remove(&ring->waiting, io);
}

/*
 * Blocks taken in these turns, LATELY_TURNS of them, half of those taken in as many before, and so
 * on. By one turn alone, all receives of a crowd would be light for ever: each gets one block.
 */
static uint32_t taken_lately(const uring *u, const sluice_io *io) {
    uint32_t halvings = u->turn / LATELY_TURNS - io->taken_at;
    return halvings < 32 ? io->taken >> halvings : 0;
}

/*
 * A receive waits behind the others of its class: the light ones have taken few blocks lately. One
 * that was armed and found no block (@unserved) has not had its turn: it goes back to the front of
 * its class, behind those that came back before it since receives were armed last.
 */
static void enter_waiting(const uring *u, buffer_ring *ring, sluice_io *io, bool unserved) {
    if (!unserved)
        io->light = taken_lately(u, io) < BLOCKS_PER_RECEIVE;
    sluice_io *before = io->light ? ring->last_light : ring->waiting.last;
    if (unserved && ring->last_unserved[io->light])
        before = ring->last_unserved[io->light];
    else if (unserved)
        before = io->light ? NULL : ring->last_light;
    io_queue_insert(&ring->waiting, before, io);
    if (unserved)
        ring->last_unserved[io->light] = io;
    if (io->light && before == ring->last_light)
        ring->last_light = io;
}

/* False when there is no room to submit now. */
static bool arm(uring *u, sluice_io *io, bool pressed, bool single) {
    struct io_uring_sqe *sqe = uring_sqe(u);
    if (!sqe)
        return false;
    if (!aim_is_wanted(io, pressed) || aim_is_spare(io) || target_pending(io))
        aim_drop(io);
    if (target_pending(io))
        arm_target(io, sqe);
    else if (io->aim)
        arm_aimed(u, io, sqe);
    else if (is_for_bursts(io, pressed))
        arm_poll(io, sqe);
    else
        arm_select(u, io, sqe, !pressed && !single && !io->one_block && !io->fragmented && io->interval == 0);
    sqe->user_data = uring_data(io, URING_TAG_RECEIVE);
    u->overdue |= io->starved;
    io->starved = false;
    io->served = false;
    io->operations++;
    u->armed++;
    return true;
}

static bool is_multi(const sluice_io *io) {
    return io->receiving == IO_RECV_MULTI || io->receiving == IO_RECV_PROMISED;
}

static bool is_polled(const sluice_io *io) {
    return io->receiving == IO_RECV_POLLED || io->receiving == IO_RECV_UNREAD;
}

/* Between MULTI and PROMISED; leaves other states as they are. */
static void set_promised(uring *u, sluice_io *io, bool promised) {
    if (io->receiving != (promised ? IO_RECV_MULTI : IO_RECV_PROMISED))
        return;
    if (promised)
        io_queue_push(&u->promised, io);
    else
        io_queue_remove(&u->promised, io);
    io->receiving = promised ? IO_RECV_PROMISED : IO_RECV_MULTI;
}

/* Between POLLED and UNREAD; leaves other states as they are. */
static void set_unread(uring *u, sluice_io *io, bool unread) {
    if (io->receiving != (unread ? IO_RECV_POLLED : IO_RECV_UNREAD))
        return;
    if (unread)
        io_queue_push(&u->unread, io);
    else
        io_queue_remove(&u->unread, io);
    io->receiving = unread ? IO_RECV_UNREAD : IO_RECV_POLLED;
}

void uring_receive_forget_cancel(uring *u, sluice_io *io) {
    if (!io->cancelled && io_queue_has(&u->stopping, io))
        io_queue_remove(&u->stopping, io);
}

/* Takes what is armed out of the queue that goes with its state, where there is one. */
static void leave_queue(uring *u, sluice_io *io) {
    switch (io->receiving) {
    case IO_RECV_PROMISED:
        io_queue_remove(&u->promised, io);
        break;
    case IO_RECV_UNREAD:
        io_queue_remove(&u->unread, io);
        break;
    case IO_RECV_AIMED:
        io_queue_remove(&ring_of(u, io)->aimed, io);
        break;
    case IO_RECV_STOPPING:
    case IO_RECV_TARGET_STOPPING:
        uring_receive_forget_cancel(u, io);
        break;
    case IO_RECV_OFF:
    case IO_RECV_WAITING:
    case IO_RECV_INTERVAL:
    case IO_RECV_MULTI:
    case IO_RECV_POLLED:
    case IO_RECV_SINGLE:
    case IO_RECV_TARGET:
        break;
    }
}

/* Of what is armed, and not being stopped yet. */
static void cancel_receive(uring *u, sluice_io *io) {
    leave_queue(u, io);
    io->receiving = io->receiving == IO_RECV_TARGET ? IO_RECV_TARGET_STOPPING : IO_RECV_STOPPING;
    if (!uring_cancel(u, io, URING_TAG_RECEIVE))
        io_queue_push(&u->stopping, io);
}

void uring_receive_send_due_cancels(uring *u) {
    while (u->stopping.first && uring_cancel(u, u->stopping.first, URING_TAG_RECEIVE))
        io_queue_remove(&u->stopping, u->stopping.first);
}

/*
 * Stops receives that are aimed at blocks whose data has been consumed meanwhile: they give the
 * blocks back, and wait with the others. True when there were any.
 */
static bool reclaim_aims(uring *u, buffer_ring *ring) {
    uint32_t wanted = ring->waiting.count;
    sluice_io *next;
    for (sluice_io *io = ring->aimed.first; io && wanted > 0; io = next) {
        next = io->queue_next;
        if (!aim_is_spare(io))
            continue;
        cancel_receive(u, io);
        wanted--;
    }
    return wanted < ring->waiting.count;
}

/* Once, however long it waits. */
static void count_starvation(sluice_io *io) {
    io->starvations += !io->wanting;
    io->wanting = true;
}

/*
 * The blocks that light receives leave to heavy ones, where both wait: a part of each turn's,
 * counted over turns where a turn has fewer than that.
 */
static uint32_t heavy_share(buffer_ring *ring) {
    if (!ring->last_light || ring->last_light == ring->waiting.last) {
        ring->heavy_due = 0;
        return 0;
    }
    ring->heavy_due += ring->count;
    uint32_t share = ring->heavy_due / HEAVY_SHARE;
    ring->heavy_due %= HEAVY_SHARE;
    return share;
}

/* Whether more has gathered in the socket than one block holds. */
static bool has_gathered(const sluice_io *io) {
    int bytes;
    return ioctl(io->fd, FIONREAD, &bytes) == 0 && bytes > (int)pool_block_size(io->chain.pool);
}

/*
 * What has ended for want of a block, and waits with many, would get one or a few again: with each
 * a completion and another receive to arm, so a loop that is behind would not catch up. A poll
 * and its reads cost the same, whatever has gathered in the socket. Not where that outruns the
 * longest read: a bundle takes as much, unless there are so @many that few get one in a turn.
 */
static void go_over_to_reads(const uring *u, sluice_io *io, bool pressed, bool many) {
    bool wanted = io->outrun && u->features.bundle ? many : io->starved;
    if (wanted && io->burst == 0 && allows_bursts(io, pressed) && has_bursts(u, io) && has_gathered(io))
        io->burst = FIRST_BURST;
}

/*
 * Arms the light ones, then the heavy ones, each in order, no more of them than the blocks in the
 * ring can serve: arming all at once would let the first ones drain the ring and send the others
 * straight back, again and again. Where many wait, the light ones get a block each, ahead of
 * bundles that take all there are. A receive that brings its own room (an aim or a target) does not
 * count.
 */
static void arm_waiting(uring *u, buffer_ring *ring) {
    uint32_t blocks = ring->count, kept = heavy_share(ring);
    bool crowded = ring->waiting.count > blocks / CROWD_SHARE, many = ring->waiting.count > blocks;
    bool pressed = pool_is_pressed(ring->pool);
    bool served = false;
    sluice_io *next;

    for (sluice_io *io = ring->waiting.first; io; io = next) {
        next = io->queue_next;
        if (crowded)
            go_over_to_reads(u, io, pressed, many);
        bool brings_room = io->aim || target_pending(io) || is_for_bursts(io, pressed);
        bool single = crowded && io->light;
        uint32_t room = blocks - (io->light ? kept : 0);
        if (room == 0 && !brings_room) {
            io->held_up = true;
            count_starvation(io);
            continue;
        }
        io->wanting = false;
        if (!brings_room)
            blocks -= at_most(single ? 1 : BLOCKS_PER_RECEIVE, room);
        leave_waiting(ring, io);
        if (!arm(u, io, pressed, single)) {
            enter_waiting(u, ring, io, true);
            return;
        }
        served |= !brings_room;
    }
    /* What brings its own room is no relief for those who wait for a block. */
    if (served || !ring->waiting.first)
        ring->starved_since = 0;
    else if (!pool_want_release(ring->pool))
        /* Another thread has released blocks since the ring was stocked, and nothing announces
         * them: with them in the ring the turn does not wait. */
        uring_ring_stock(ring);
    else if (!reclaim_aims(u, ring))
        u->told |= io_queue_break_deadlock(&u->base, ring->pool, &ring->waiting, &ring->starved_since);
}

/*
 * A completion which says that more is there is not a receive's last one: the kernel goes on. But
 * in front of an urgent byte (MSG_OOB) TCP receives nothing while a signal is pending, or work that
 * another ring has for this thread (it is being closed): -EAGAIN, whatever is behind. A receive
 * that completes many times takes that for an empty socket, and waits for a wake-up that has come
 * already, so bytes and the end are lost (Linux 6.18). One that completes once asks whether the
 * socket is ready before it waits. So where the urgent byte is what comes next, those take over for
 * good.
 */
static void look_at_promised(uring *u) {
    while (u->promised.first) {
        sluice_io *io = u->promised.first;
        set_promised(u, io, false);
        io->urgent = sockatmark(io->fd) == 1;
        if (io->urgent)
            cancel_receive(u, io);
    }
}

void uring_receive_prepare(uring *u) {
    u->turn++;
    look_at_promised(u);
    for (uint32_t i = 0; i < u->ring_count; i++) {
        uring_ring_stock(&u->rings[i]);
        if (u->rings[i].waiting.first)
            arm_waiting(u, &u->rings[i]);
        else
            u->rings[i].starved_since = 0;
        u->rings[i].last_unserved[false] = u->rings[i].last_unserved[true] = NULL;
    }
}

static void wait_for_block(uring *u, sluice_io *io, bool unserved) {
    io->receiving = IO_RECV_WAITING;
    enter_waiting(u, ring_of(u, io), io, unserved);
}

/* Until its next read, behind one of @n bytes. It keeps no tail block from those that wait for
 * one. */
static void go_on_at_interval(uring *u, sluice_io *io, size_t n, bool full) {
    aim_drop(io);
    io->receiving = IO_RECV_INTERVAL;
    interval_add_behind(&u->wheel, io, n, full);
}

/* Or to be read, where that is done at intervals: at once if more is there. */
static void wait_for_arming(uring *u, sluice_io *io, bool unserved) {
    io->group = (uint8_t)uring_ring_find(u, io->chain.pool);
    if (io->interval > 0 && !unserved && !target_pending(io))
        go_on_at_interval(u, io, 0, io->starved);
    else
        wait_for_block(u, io, unserved);
}

/*
 * Whether a receive of @n bytes took all the room that it had, and that was not little: so more
 * waits behind it. Little is what remains in a block that small pieces are put into: what is cut
 * off there comes with the next piece.
 */
static bool fills_up(const sluice_block *block, uint32_t n, uint32_t room) {
    return n == room && n >= block->capacity / POOR_SHARE;
}

static uint8_t longer_streak(const sluice_io *io) {
    return io->streak < FULL_STREAK ? io->streak + 1 : FULL_STREAK;
}

/*
 * Takes the blocks that the kernel has filled: a bundle fills neighbouring slots, each but the last
 * to the length that its entry has. That may be less than the block: since Linux 6.10 a receive
 * shortens the entry where it expects its bytes to end, and when none come the entry stays short
 * for the next one. The slot's own content is believed, not the id alone. Whether the last block is
 * filled up, or -EIO: the kernel names a block that it does not have.
 */
static int take_filled(uring *u, sluice_io *io, uint32_t id, uint32_t n) {
    buffer_ring *ring = ring_of(u, io);
    sluice_block *block;
    bool filled_up;
    const uint32_t before = taken_lately(u, io);
    io->taken = before;
    io->taken_at = u->turn / LATELY_TURNS;
    io->served = true;
    ring->filled_bytes += n;
    do {
        uint32_t slot = id++ & (ring->entries - 1);
        block = ring->slots[slot];
        if (!block)
            return -EIO;
        ring->slots[slot] = NULL;
        ring->count--;
        ring->filled_blocks++;
        io->taken++;
        pool_from_kernel(ring->pool, block);
        uint32_t room = ring->ring->bufs[slot].len;
        block->length = n < room ? n : room;
        filled_up = fills_up(block, block->length, room);
        if (!u->features.bundle)
            io->streak = filled_up ? longer_streak(io) : 0;
        note_written(block->data, block->length);
        n -= block->length;
        if (io->cancelled) {
            sluice_block_release(block);
            continue;
        }
        aim_drop(io);
        sluice_chain_append(&io->chain, block);
    } while (n > 0);
    io->outrun &= (uint64_t)(io->taken - before) * pool_block_size(ring->pool) >= LEAST_BUNDLE;
    return filled_up;
}

/*
 * The bytes of one completion go to the chain. 1 when they took all the room that the receive had,
 * 0 when they did not, or the error that the stream cannot survive.
 */
static int take_bytes(uring *u, sluice_io *io, int result, uint32_t flags) {
    if (result > 0 && !(flags & IORING_CQE_F_BUFFER)) {
        if (io->cancelled)
            return 0;
        note_written(block_tail_data(io->aim), (uint32_t)result);
        bool filled_up = fills_up(io->aim, (uint32_t)result, block_tail(io->aim));
        int error = aim_filled(io, (uint32_t)result);
        return error ? error : filled_up;
    }
    /* An end of the stream can carry a block on some kernels; an error never does, whatever its
     * flags say. */
    if (result >= 0 && (flags & IORING_CQE_F_BUFFER))
        return take_filled(u, io, flags >> IORING_CQE_BUFFER_SHIFT, (uint32_t)result);
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
        io->wanting = false;
        leave_waiting(ring_of(u, io), io);
        aim_drop(io);
        io->receiving = IO_RECV_OFF;
        break;
    case IO_RECV_INTERVAL:
        interval_remove(&u->wheel, io);
        io->receiving = IO_RECV_OFF;
        break;
    case IO_RECV_MULTI:
    case IO_RECV_PROMISED:
    case IO_RECV_POLLED:
    case IO_RECV_UNREAD:
    case IO_RECV_SINGLE:
    case IO_RECV_AIMED:
    case IO_RECV_TARGET:
        cancel_receive(u, io);
        break;
    case IO_RECV_OFF:
    case IO_RECV_STOPPING:
    case IO_RECV_TARGET_STOPPING:
        break;
    }
}

/* Its last completion has come. */
static void receive_is_over(uring *u, sluice_io *io) {
    leave_queue(u, io);
    io->operations--;
    u->armed--;
    io->receiving = IO_RECV_OFF;
    if (io->polled && !io->cancelled)
        burst_count_rest(io, false);
    io->polled = io->hung_up = false;
}

/* Of one that is armed for as many blocks as come: whether it comes to more than one completion
 * where one read would do, and has done so before. */
static bool is_better_read(const uring *u, sluice_io *io, bool pressed) {
    if (io->streak < FULL_STREAK || !has_bursts(u, io))
        return false;
    io->burst = FIRST_BURST;
    return is_for_bursts(io, pressed);
}

static void target_completed(uring *u, sluice_io *io, int result) {
    bool stopping = io->receiving == IO_RECV_TARGET_STOPPING;
    receive_is_over(u, io);
    if (result > 0) {
        note_written(io->target.memory, (size_t)result);
        target_written(io, (size_t)result);
        u->stats.direct += (uint64_t)result;
    }
    if (io->cancelled)
        return;
    if (!is_passing(result)) {
        target_tell_ended(io, result);
    } else if (stopping) {
        target_drop(io);
        io->events->placed(io);
    } else if (result > 0) {
        target_tell_grown(io);
    }
    if (io->wants_receive || target_pending(io))
        wait_for_arming(u, io, false);
}

/*
 * Whether a receive has ended for want of room, so that what waits behind it has waited for a
 * window already. One that goes on by itself also ends, without an error, with what fills the last
 * block; one that takes no more than a block ends with each. @filled_up: of what it brought.
 */
static bool found_no_room(const uring *u, sluice_io *io, int result, bool filled_up) {
    if (result <= 0)
        return result == -ENOBUFS;
    return is_multi(io) ? is_multishot(u, io) : filled_up;
}

/*
 * Where there are bundles. A bundle has as many blocks as the kernel's array of its receive has
 * room for, and the array grows only by what a bundle has left behind. So if a frame fills all of
 * them and a part of one block more, it takes two completions, and each later frame of that size
 * does, too. A read takes it at once. What would fill a read is better left to bundles.
 */
static void note_bundle(const uring *u, sluice_io *io, uint32_t n, bool filled_up) {
    bool is_rest = io->cut && io->cut_at == u->turn && !filled_up;
    if (is_rest)
        io->streak = longer_streak(io);
    else if (io->cut || !filled_up)
        io->streak = 0;
    io->cut = !io->cut && filled_up && n >= pool_block_size(io->chain.pool) && n < BURST_BYTES;
    io->cut_at = u->turn;
}

static void blocks_completed(uring *u, sluice_io *io, int result, uint32_t flags) {
    bool goes_on = flags & IORING_CQE_F_MORE;
    bool pressed = pool_is_pressed(ring_of(u, io)->pool);
    int taken = take_bytes(u, io, result, flags);
    if (result > 0) {
        u->receives++;
        u->received += (uint32_t)result;
        if (u->features.bundle)
            note_bundle(u, io, (uint32_t)result, taken > 0);
    }

    if (goes_on) {
        set_promised(u, io, result > 0 && flags & IORING_CQE_F_SOCK_NONEMPTY);
    } else {
        io->starved = found_no_room(u, io, result, taken > 0);
        receive_is_over(u, io);
    }
    u->stats.starved += result == -ENOBUFS;
    if (result == -ENOBUFS)
        count_starvation(io);
    if (io->cancelled)
        return;
    if (result > 0 && taken >= 0) {
        aim_judge(io, (uint32_t)result);
        target_tell_received(io);
    }
    if (taken < 0 || (!goes_on && !is_passing(result))) {
        if (goes_on)
            stop(u, io);
        target_tell_ended(io, taken < 0 ? taken : result);
    } else if (!goes_on && (io->wants_receive || target_pending(io))) {
        if (aim_is_wanted(io, pressed))
            aim_take(io);
        if (aim_is_spare(io))
            aim_drop(io);
        wait_for_arming(u, io, result == -ENOBUFS && !io->served);
    } else if (is_multi(io) && aim_is_wanted(io, pressed) && is_poorly_filled(io)) {
        /* Small pieces are using up whole blocks: go over to filling each block to its end. */
        cancel_receive(u, io);
    } else if (is_multi(io) && is_better_read(u, io, pressed)) {
        cancel_receive(u, io);
    }
}

/*
 * Whether it goes on so after a read, which has taken all that one may (@full) or not. Reads that
 * fill no more than a block are better done by the kernel, and large ones by bundles.
 */
static bool stays_polled(const uring *u, sluice_io *io, bool pressed, bool full) {
    bool bundles = u->features.bundle;
    if (io->streak >= (bundles ? SMALL_STREAK : LONG_SMALL_STREAK) || (full && bundles))
        io->burst = io->streak = 0;
    return is_for_bursts(io, pressed);
}

/* Whether reads have taken what is theirs in this turn. */
static bool has_read_enough(const uring *u, const buffer_ring *ring) {
    return u->received >= (uint64_t)READ_STOCKS * ring->least_stock * pool_block_size(ring->pool);
}

/*
 * What has come, as far as the blocks of one read reach. Where there are none, or memory is short,
 * another kind of receive takes over, which waits for its turn. What a read leaves may be no new
 * arrival, so it is read in the next turn. That includes a reset, which is not counted among what
 * is left, and is announced together with the bytes before it. Behind an urgent byte see
 * look_at_promised().
 */
static void read_burst(uring *u, sluice_io *io) {
    buffer_ring *ring = ring_of(u, io);
    uint32_t most = burst_most(pool_block_size(ring->pool));
    block_burst burst = {.count = 0};
    set_unread(u, io, false);
    if (is_for_bursts(io, pool_is_pressed(ring->pool)))
        burst_find_room(io, burst_blocks(io, most, false), &burst);
    size_t blocks = burst.count;
    if (burst.bytes == 0) {
        io->burst = 0;
        cancel_receive(u, io);
        return;
    }
    bool left;
    ssize_t n = burst_read_counted(io, &burst, &left);
    bool full = n > 0 && burst_is_full(&burst, (size_t)n), longest = full && blocks == most;
    int error = burst_take(io, &burst, most, n > 0 ? (size_t)n : 0);
    if (n > 0) {
        u->receives++;
        u->received += (uint64_t)n;
        io->taken = taken_lately(u, io) + (uint32_t)burst.used;
        io->taken_at = u->turn / LATELY_TURNS;
        io->streak = burst.used > 1 ? 0 : (uint8_t)(io->streak + 1);
        bool is_short = left && !full;
        set_unread(u, io, left || io->hung_up);
        io->urgent = is_short && sockatmark(io->fd) == 1;
        io->outrun = longest;
        aim_judge(io, (uint32_t)n);
        target_tell_received(io);
    }
    if (error || (n <= 0 && !is_passing((int)n))) {
        stop(u, io);
        target_tell_ended(io, error ? error : (int)n);
    } else if (is_polled(io) && !stays_polled(u, io, pool_is_pressed(ring->pool), longest)) {
        cancel_receive(u, io);
    }
}

/*
 * An arrival, and perhaps the poll's end, for whatever reason: what is armed next finds out. Also
 * then something is read: where completions overflow each of them is a poll's end.
 */
static void poll_completed(uring *u, sluice_io *io, int result, uint32_t flags) {
    io->hung_up |= result > 0 && result & POLLHUP;
    if (io->receiving == IO_RECV_POLLED && result > 0) {
        if (has_read_enough(u, ring_of(u, io)))
            set_unread(u, io, true);
        else
            read_burst(u, io);
    }
    if (flags & IORING_CQE_F_MORE)
        return;
    receive_is_over(u, io);
    if (!io->cancelled && (io->wants_receive || target_pending(io)))
        wait_for_arming(u, io, false);
}

/* Those that are unread when it is called, the first ones of them if that is much: the others are
 * the first ones of the next turn. */
uint32_t uring_receive_read_unread(uring *u) {
    uint32_t count = u->unread.count, i;
    for (i = 0; i < count && u->unread.first && !has_read_enough(u, ring_of(u, u->unread.first)); i++)
        read_burst(u, u->unread.first);
    return i;
}

/*
 * Where there is no block, it waits for one, as all do, and is armed once. Others may wait for the
 * ring to be stocked while the pool has plenty: what is read needs no block of the ring. Waiting
 * with them, each would get a block at a time of a loop that is behind, and never catch up.
 */
static void read_due(uring *u, sluice_io *io) {
    buffer_ring *ring = ring_of(u, io);
    bool pressed = pool_is_pressed(ring->pool);
    uint32_t most = burst_most(pool_block_size(ring->pool));
    block_burst burst;
    if (aim_is_wanted(io, pressed))
        aim_take(io);
    bool is_first = ring->waiting.count == 0 || !pressed;
    burst_find_room(io, is_first ? burst_blocks(io, most, pressed) : 0, &burst);
    if (burst.bytes == 0) {
        wait_for_block(u, io, false);
        return;
    }
    ssize_t n = burst_read(io, &burst);
    bool full = n > 0 && burst_is_full(&burst, (size_t)n);
    u->stats.aimed += burst.aimed > 0 && n > 0;
    int error = burst_take(io, &burst, most, n > 0 ? (size_t)n : 0);
    if (error || !is_passing((int)n)) {
        io->receiving = IO_RECV_OFF;
        aim_drop(io);
        target_tell_ended(io, error ? error : (int)n);
        return;
    }
    if (n > 0)
        aim_judge(io, (uint32_t)n);
    go_on_at_interval(u, io, n > 0 ? (size_t)n : 0, full);
    if (n > 0)
        target_tell_received(io);
}

/* As many as are to be read in this turn. */
uint32_t uring_receive_read_due(uring *u) {
    uint32_t due = interval_look(&u->wheel), count = 0;
    for (sluice_io *io; count < due && (io = interval_take(&u->wheel)); count++)
        read_due(u, io);
    return count;
}

void uring_receive_completed(uring *u, sluice_io *io, int result, uint32_t flags) {
    if (io->receiving >= IO_RECV_TARGET)
        target_completed(u, io, result);
    else if (io->polled)
        poll_completed(u, io, result, flags);
    else
        blocks_completed(u, io, result, flags);
    /* One that has ended or is paused keeps no tail block from those that wait for one. */
    if (io->receiving == IO_RECV_OFF)
        aim_drop(io);
}

void uring_receive_resume(uring *u, sluice_io *io) {
    io->wants_receive = true;
    /* While a cancel is on its way, the last completion of what it cancels does this. */
    if (io->receiving != IO_RECV_OFF)
        return;
    if (aim_is_wanted(io, pool_is_pressed(io->chain.pool)))
        aim_take(io);
    wait_for_arming(u, io, false);
}

void uring_receive_stop(uring *u, sluice_io *io) {
    io->wants_receive = false;
    if (!target_pending(io))
        stop(u, io);
}

void uring_receive_one_block(uring *u, sluice_io *io, bool is_most) {
    io->one_block = is_most;
    if (is_most && (is_multi(io) || is_polled(io)))
        stop(u, io);
}

void uring_receive_set_interval(uring *u, sluice_io *io, uint8_t slots) {
    /* For blocks, and not being stopped. */
    bool is_armed = io->receiving >= IO_RECV_MULTI && io->receiving <= IO_RECV_AIMED;
    io->interval = slots;
    if (slots > 0) {
        if (is_armed)
            cancel_receive(u, io);
        return;
    }
    io->spread = false;
    io->burst = 0;
    if (io->receiving == IO_RECV_INTERVAL) {
        stop(u, io);
        wait_for_arming(u, io, false);
    }
}

void uring_receive_into(uring *u, sluice_io *io) {
    stop(u, io);
    /* Else the last completion of what is being stopped does this. */
    if (io->receiving == IO_RECV_OFF)
        wait_for_arming(u, io, false);
}

bool uring_receive_stop_into(uring *u, sluice_io *io) {
    if (io->receiving >= IO_RECV_TARGET) {
        stop(u, io);
        return false;
    }
    target_drop(io);
    if (!io->wants_receive)
        stop(u, io);
    return true;
}

void uring_receive_change(uring *u, sluice_io *io, sluice_pool *pool) {
    if (io->chain.pool == pool)
        return;
    io->chain.pool = pool;
    /* A receive into the target has nothing to do with blocks. */
    if (io->receiving != IO_RECV_TARGET)
        stop(u, io);
    if (io->receiving == IO_RECV_OFF && (io->wants_receive || target_pending(io)))
        wait_for_arming(u, io, false);
}
