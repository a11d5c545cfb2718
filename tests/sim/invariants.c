#include "sim/invariants.h"

#include <stddef.h>

#include "backends/target.h"
#include "backends/uring.h"
#include "loop/loop.h"
#include "memory/pool.h"
#include "sim/world.h"

static bool is_kernels(const sluice_block *block) {
    if (!block)
        return false;
    WORLD_CHECK(block->state == BLOCK_KERNEL && block->refs == 1, "a block in a slot has state %u and %u references",
                block->state, block->refs);
    return true;
}

void check_chain(const sluice_chain *chain) {
    uint64_t length = 0;
    for (const sluice_block *block = chain->first; block; block = block->next) {
        WORLD_CHECK(block->state == BLOCK_HELD && block->refs > 0, "a block in a chain has state %u and %u references",
                    block->state, block->refs);
        length += block->length;
        if (block == chain->last)
            break;
    }
    WORLD_CHECK(length >= sluice_chain_length(chain), "a chain of %zu bytes has blocks of %llu",
                sluice_chain_length(chain), (unsigned long long)length);
}

/* Walking everything costs more than what happens between two steps. */
bool check_is_thorough(void) {
    enum { THOROUGH = 8 };
    return world_traces() || rings_steps() % THOROUGH == world_seed() % THOROUGH;
}

static uint32_t count_filled(const buffer_ring *ring) {
    uint32_t filled = 0;
    for (uint32_t slot = 0; slot < ring->entries; slot++)
        filled += is_kernels(ring->slots[slot]);
    return filled;
}

void check_blocks(sluice_loop *loop) {
    const uring *u = (const uring *)loop->backend;
    bool is_thorough = check_is_thorough();
    for (uint32_t i = 0; i < u->ring_count; i++) {
        const buffer_ring *ring = &u->rings[i];
        sluice_pool_stats stats = {.size = sizeof stats};
        uint32_t filled = is_thorough ? count_filled(ring) : ring->count;
        sluice_pool_get_stats(ring->pool, &stats);
        uint32_t published = rings_published(&u->ring, i);
        uint32_t on_the_way = rings_returned(&u->ring, i);
        WORLD_CHECK(published + on_the_way == filled && filled == ring->count,
                    "the kernel has %u blocks of %u bytes and returns %u, but %u slots are full, and %u are counted",
                    published, stats.block_size, on_the_way, filled, ring->count);
        WORLD_CHECK(stats.kernel == filled, "the pool counts %u blocks with the kernel, which has %u", stats.kernel,
                    filled);
        WORLD_CHECK(stats.free + stats.kernel + stats.held == stats.total && stats.held <= stats.total,
                    "%u free + %u with the kernel + %u held of %u", stats.free, stats.kernel, stats.held, stats.total);
    }
}

/* With check_queue(), which sees to it that those in front of it belong there. */
static bool is_in(const io_queue *queue, const sluice_io *io) {
    return io->queue_prev ? io->queue_prev->queue_next == io : queue->first == io;
}

static bool is_in_none(const sluice_io *io) {
    return !io->queue_prev && !io->queue_next;
}

static const io_queue *queue_of_slot(const uring *u, const sluice_io *io) {
    return io->slot == INTERVAL_DUE ? &u->wheel.due : &u->wheel.slots[io->slot];
}

static bool fits_state(const uring *u, const sluice_io *io) {
    bool has_target = target_pending(io);
    switch (io->receiving) {
    case IO_RECV_OFF:
        return !io->aim && (io->cancelled || (!io->wants_receive && !has_target && is_in_none(io)));
    case IO_RECV_WAITING:
        return (io->wants_receive || has_target) && is_in(&u->rings[io->group].waiting, io);
    case IO_RECV_INTERVAL:
        return io->wants_receive && !has_target && !io->aim && is_in(queue_of_slot(u, io), io);
    case IO_RECV_MULTI:
    case IO_RECV_SINGLE:
        return io->wants_receive && !has_target && is_in_none(io);
    case IO_RECV_POLLED:
        return io->wants_receive && !has_target && io->polled && is_in_none(io);
    case IO_RECV_UNREAD:
        return io->wants_receive && !has_target && io->polled && is_in(&u->unread, io);
    case IO_RECV_AIMED:
        return io->wants_receive && !has_target && io->aim && is_in(&u->rings[io->group].aimed, io);
    case IO_RECV_TARGET:
        return has_target && is_in_none(io);
    case IO_RECV_STOPPING:
        return io->cancelled || is_in_none(io) || is_in(&u->stopping, io);
    case IO_RECV_TARGET_STOPPING:
        return has_target && (io->cancelled || is_in_none(io) || is_in(&u->stopping, io));
    case IO_RECV_PROMISED:
        return io->wants_receive && !has_target && is_in(&u->promised, io);
    }
    return false;
}

static void check_state(const uring *u, const sluice_io *io) {
    bool is_ending = io->receiving == IO_RECV_OFF || io->receiving == IO_RECV_STOPPING ||
                     io->receiving == IO_RECV_TARGET_STOPPING;
    bool is_armed = io->receiving >= IO_RECV_MULTI;
    WORLD_CHECK(fits_state(u, io) && (is_ending || !io->cancelled) && (!is_armed || io->operations > 0),
                "a receive in state %d, %swanted, with%s target, %scancelled, %u operations, %slinked", io->receiving,
                io->wants_receive ? "" : "not ", target_pending(io) ? " a" : "out", io->cancelled ? "" : "not ",
                io->operations, is_in_none(io) ? "not " : "");
}

void check_receive(const sluice_loop *loop, sluice_conn *conn) {
    /* A connection is an io, and more; its chain is public. */
    const char *chain = (const char *)sluice_conn_chain(conn);
    check_state((const uring *)loop->backend, (const sluice_io *)(const void *)(chain - offsetof(sluice_io, chain)));
}

/* How many are in it. Each is in one of the two states, and not cancelled. */
static uint32_t check_queue(const uring *u, const io_queue *queue, enum io_receiving state, enum io_receiving other) {
    const sluice_io *before = NULL;
    uint32_t count = 0;
    for (const sluice_io *io = queue->first; io; before = io, io = io->queue_next, count++) {
        WORLD_CHECK(io->queue_prev == before, "a queue's links are broken");
        WORLD_CHECK((io->receiving == state || io->receiving == other) && !io->cancelled,
                    "a receive in state %d%s is in the queue of those in state %d", io->receiving,
                    io->cancelled ? ", cancelled," : "", state);
        check_state(u, io);
    }
    WORLD_CHECK(queue->last == before && queue->count == count, "a queue of %u counts %u", count, queue->count);
    return count;
}

void check_receive_queues(const sluice_loop *loop) {
    const uring *u = (const uring *)loop->backend;
    uint32_t armed = 0;
    for (uint32_t i = 0; i < u->ring_count; i++) {
        const buffer_ring *ring = &u->rings[i];
        (void)check_queue(u, &ring->waiting, IO_RECV_WAITING, IO_RECV_WAITING);
        armed += check_queue(u, &ring->aimed, IO_RECV_AIMED, IO_RECV_AIMED);
    }
    armed += check_queue(u, &u->stopping, IO_RECV_STOPPING, IO_RECV_TARGET_STOPPING);
    armed += check_queue(u, &u->unread, IO_RECV_UNREAD, IO_RECV_UNREAD);
    uint32_t on_wheel = check_queue(u, &u->wheel.due, IO_RECV_INTERVAL, IO_RECV_INTERVAL);
    for (uint32_t i = 0; i < INTERVAL_SLOTS; i++)
        on_wheel += check_queue(u, &u->wheel.slots[i], IO_RECV_INTERVAL, IO_RECV_INTERVAL);
    WORLD_CHECK(on_wheel == u->wheel.count, "%u are read at intervals, and %u are counted", on_wheel, u->wheel.count);
    WORLD_CHECK(!u->promised.first, "a promise is not looked at before the wait");
    WORLD_CHECK(armed <= u->armed, "%u receives are in queues of armed ones, and %u are armed", armed, u->armed);
    for (const sluice_io *io = u->cancelled.first; io; io = io->queue_next) {
        WORLD_CHECK(io->cancelled, "the queue of the cancelled has another one");
        check_state(u, io);
    }
}

void check_nothing_held(sluice_pool *pool) {
    sluice_pool_stats stats = {.size = sizeof stats};
    sluice_pool_get_stats(pool, &stats);
    WORLD_CHECK(stats.bytes_held == 0, "%llu bytes of blocks are held at the end",
                (unsigned long long)stats.bytes_held);
    WORLD_CHECK(stats.views == 0 && stats.foreign == 0, "%u views and %u foreign pieces are left at the end",
                stats.views, stats.foreign);
}
