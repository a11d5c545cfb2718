/* Receiving: one read per readiness into as many blocks as it likely fills, and what to do when
 * blocks run short. */
#include "backends/epoll.h"

#include <errno.h>
#include <sys/socket.h>

#include "backends/aim.h"
#include "backends/burst.h"
#include "backends/target.h"

uint8_t epoll_class_open(epoll *e, sluice_pool *pool) {
    uint8_t group = 0;
    while (group < e->class_count && e->classes[group].pool != pool)
        group++;
    if (group < e->class_count)
        return group;
    e->classes[group] = (block_class){.pool = pool, .most_burst = burst_most(pool_block_size(pool))};
    e->class_count++;
    return group;
}

static block_class *class_of(epoll *e, const sluice_io *io) {
    return &e->classes[io->group];
}

/* Whether the io is in the queue goes with whether it has an aim. */
static void queue_aim(epoll *e, sluice_io *io) {
    if (io->ready.aiming == (io->aim != NULL))
        return;
    io->ready.aiming = !io->ready.aiming;
    if (io->ready.aiming)
        io_queue_push(&class_of(e, io)->aiming, io);
    else
        io_queue_remove(&class_of(e, io)->aiming, io);
}

void epoll_drop_aim(epoll *e, sluice_io *io) {
    aim_drop(io);
    queue_aim(e, io);
}

/* It has just got bytes, which its consumer is about to look at. */
static void note_fresh(epoll *e, sluice_io *io) {
    block_class *class = class_of(e, io);
    io_queue_remove(&class->aiming, io);
    io_queue_push(&class->aiming, io);
    class->fresh++;
}

/* What has been consumed by the next turn leaves no block with its connection, which may be silent
 * from now on. */
static void drop_fresh_spare_aims(epoll *e, block_class *class) {
    sluice_io *before;
    for (sluice_io *io = class->aiming.last; io && class->fresh > 0; io = before, class->fresh--) {
        before = io->queue_prev;
        if (aim_is_spare(io))
            epoll_drop_aim(e, io);
    }
    class->fresh = 0;
}

/* Takes back the blocks that connections keep for their free ends only. */
static void drop_spare_aims(epoll *e, const block_class *class) {
    sluice_io *next;
    for (sluice_io *io = class->aiming.first; io; io = next) {
        next = io->queue_next;
        if (aim_is_spare(io))
            epoll_drop_aim(e, io);
    }
}

static bool has_block(epoll *e, const block_class *class) {
    if (pool_can_take(class->pool))
        return true;
    drop_spare_aims(e, class);
    return pool_can_take(class->pool);
}

/* Blocks only when it is this io's turn to have some: those who wait come first. */
static void find_room(epoll *e, sluice_io *io, bool in_turn, bool pressed, block_burst *ret_burst) {
    const block_class *class = class_of(e, io);
    if (aim_is_wanted(io, pressed))
        aim_take(io);
    if (!aim_is_wanted(io, pressed) || aim_is_spare(io))
        aim_drop(io);
    queue_aim(e, io);
    burst_find_room(io, in_turn && has_block(e, class) ? burst_blocks(io, class->most_burst, pressed) : 0, ret_burst);
}

/* 0, or why the stream cannot go on. */
static int take_bytes(epoll *e, sluice_io *io, block_burst *burst, bool pressed, size_t n) {
    e->stats.aimed += burst->aimed > 0 && n > 0;
    e->unread |= burst_is_full(burst, n);
    int error = burst_take(io, burst, class_of(e, io)->most_burst, n);
    if (n > 0)
        aim_judge(io, (uint32_t)n);
    if (aim_is_wanted(io, pressed))
        aim_take(io);
    queue_aim(e, io);
    if (io->ready.aiming && n > 0)
        note_fresh(e, io);
    return error;
}

static void wait_for_block(epoll *e, sluice_io *io) {
    e->stats.starved++;
    io->starvations++;
    io->held_up = true;
    io->wanting = true;
    io->receiving = IO_RECV_WAITING;
    io_queue_push(&class_of(e, io)->waiting, io);
}

/* It keeps no tail block from the others: no receive follows. */
static void end(epoll *e, sluice_io *io, int error) {
    epoll_drop_aim(e, io);
    target_tell_ended(io, error);
}

/* The descriptor is reported again when there is more. */
static bool is_passing(ssize_t result) {
    return result > 0 || result == -EAGAIN || result == -EINTR;
}

/* Until its next read, behind one of @n bytes. Its arrivals are no events meanwhile. */
static void go_on_at_interval(epoll *e, sluice_io *io, size_t n, bool full) {
    epoll_drop_aim(e, io);
    (void)epoll_listen(e, io, io->ready.interest & ~(uint32_t)EPOLLIN);
    io->receiving = IO_RECV_INTERVAL;
    interval_add_behind(&e->wheel, io, n, full);
}

static void receive(epoll *e, sluice_io *io, bool in_turn) {
    block_burst burst;
    bool pressed = pool_is_pressed(class_of(e, io)->pool);
    find_room(e, io, in_turn, pressed, &burst);
    if (burst.bytes == 0) {
        wait_for_block(e, io);
        return;
    }
    ssize_t result = burst_read(io, &burst);
    int error = take_bytes(e, io, &burst, pressed, result > 0 ? (size_t)result : 0);
    if (error || !is_passing(result)) {
        end(e, io, error ? error : (int)result);
        return;
    }
    if (io->interval > 0)
        go_on_at_interval(e, io, result > 0 ? (size_t)result : 0, result > 0 && burst_is_full(&burst, (size_t)result));
    if (result > 0)
        io->events->received(io);
}

/* No block is needed, so there is nothing to wait for. */
static void receive_target(epoll *e, sluice_io *io) {
    uint32_t room = target_room(io);
    ssize_t n = recv(io->fd, io->target.memory, room, MSG_DONTWAIT);
    ssize_t result = n < 0 ? -errno : n;
    if (!is_passing(result)) {
        end(e, io, (int)result);
        return;
    }
    if (result <= 0)
        return;
    target_written(io, (size_t)result);
    e->stats.direct += (uint64_t)result;
    e->unread |= result == room;
    target_tell_grown(io);
}

void epoll_receive(epoll *e, sluice_io *io) {
    if (target_pending(io))
        receive_target(e, io);
    else
        receive(e, io, class_of(e, io)->waiting.count == 0);
}

/*
 * In order of arrival, as far as there are blocks. How many have read. Nobody is to listen for what
 * it then cannot read: that would end the wait for events at once, turn after turn.
 */
static uint32_t serve_waiting(epoll *e, block_class *class) {
    uint32_t served = 0;
    uint32_t left = class->waiting.count;
    for (; left > 0 && class->waiting.first && has_block(e, class); left--, served++) {
        sluice_io *io = class->waiting.first;
        io_queue_remove(&class->waiting, io);
        io->receiving = IO_RECV_OFF;
        io->wanting = false;
        /* The interest may have been withdrawn meanwhile. */
        int error = epoll_listen(e, io, io->ready.interest | EPOLLIN);
        if (error)
            end(e, io, error);
        else
            receive(e, io, true);
        if (io->receiving == IO_RECV_WAITING)
            break;
    }
    return served;
}

static uint32_t receive_waiting(epoll *e, block_class *class) {
    if (!class->waiting.first) {
        class->starved_since = 0;
        return 0;
    }
    uint32_t served = serve_waiting(e, class);
    if (served == 0 && !pool_want_release(class->pool))
        served = serve_waiting(e, class);
    if (served > 0) {
        class->starved_since = 0;
        return served;
    }
    return io_queue_break_deadlock(&e->base, class->pool, &class->waiting, &class->starved_since);
}

uint32_t epoll_receive_waiting(epoll *e) {
    uint32_t served = 0;
    for (uint32_t i = 0; i < e->class_count; i++) {
        drop_fresh_spare_aims(e, &e->classes[i]);
        served += receive_waiting(e, &e->classes[i]);
    }
    return served;
}

/* As many as are to be read in this turn. */
uint32_t epoll_receive_due(epoll *e) {
    uint32_t due = interval_look(&e->wheel), count = 0;
    for (sluice_io *io; count < due && (io = interval_take(&e->wheel)); count++) {
        io->receiving = IO_RECV_OFF;
        receive(e, io, class_of(e, io)->waiting.count == 0);
    }
    return count;
}

uint32_t epoll_waiting(const epoll *e) {
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < e->class_count; i++)
        waiting += e->classes[i].waiting.count;
    return waiting;
}

void epoll_receive_leave_queue(epoll *e, sluice_io *io) {
    if (io->receiving == IO_RECV_WAITING)
        io_queue_remove(&class_of(e, io)->waiting, io);
    else if (io->receiving == IO_RECV_INTERVAL)
        interval_remove(&e->wheel, io);
    io->receiving = IO_RECV_OFF;
    io->wanting = false;
}

void epoll_receive_stop(epoll *e, sluice_io *io) {
    io->wants_receive = false;
    epoll_drop_aim(e, io);
    epoll_receive_leave_queue(e, io);
}

void epoll_receive_change(epoll *e, sluice_io *io, sluice_pool *pool) {
    if (io->chain.pool == pool)
        return;
    epoll_drop_aim(e, io);
    epoll_receive_leave_queue(e, io);
    io->chain.pool = pool;
    io->group = epoll_class_open(e, pool);
    io->burst = 0;
}
